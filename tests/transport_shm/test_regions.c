/* Notes from a peer that violates the protocol: at worst its pair fails, and
 * nothing else happens. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include <uv.h>

#include "ends.h"
#include "memory/region.h"
#include "memory/sealed.h"
#include "transport_shm/memory.h"
#include "transport_shm/shm.h"

enum { RING_DATA = 65536, REGION = 65536 };

/* Rank 1 is real; rank 0 is a socket and an empty ring. */
typedef struct scene {
  end real;
  int socket;
  gli_shm_page *page;   /* rank 0's */
  gli_shm_memory *ring; /* rank 1's, as rank 0 maps it */
  size_t ring_bytes;
} scene;

static int sealed(size_t bytes) {
  int fd = -1;
  void *memory;
  const char *what;
  const gli_sealed_want want = {
      .bytes = bytes, .reserved = bytes, .most_percent = 100};
  assert_int_equal(gli_sealed_make(&want, &fd, &memory, &what), 0);
  gli_sealed_unmap(memory, bytes);
  return fd;
}

static void say(scene *s, gli_shm_note note) {
  note.version = GLI_SHM_VERSION;
  note.from = 0;
  note.to = 1;
  assert_int_equal(gli_shm_note_send(s->socket, &note), 0);
  gli_shm_note_close(&note);
}

static void poll_for_a_while(scene *s) {
  for (int i = 0; i < 300; i++) {
    if (i % 10 == 0) uv_sleep(1);
    s->real.ops->poll(s->real.t);
  }
}

/* Checks what rank 1 hands over: memory of a sealed size, and descriptors that
 * cannot be made to block or to raise a signal. */
static void take_offer(scene *s, const gli_shm_note *answer) {
  s->ring_bytes = gli_shm_ring_bytes(answer->data_bytes);
  void *memory;
  assert_int_equal(gli_sealed_check(answer->fds[GLI_SHM_FD_RING], s->ring_bytes,
                                    GLI_SHM_FIRST_BYTES),
                   0);
  assert_int_equal(gli_sealed_check(answer->fds[GLI_SHM_FD_PAGE],
                                    GLI_SHM_PAGE_BYTES, GLI_SHM_PAGE_BYTES),
                   0);
  assert_int_equal(GLI_SHM_FDS, 2);
  assert_int_equal(
      gli_sealed_map(answer->fds[GLI_SHM_FD_RING], s->ring_bytes, &memory), 0);
  s->ring = memory;
}

static void shake_hands(scene *s) {
  gli_shm_endpoint endpoint;
  assert_true(gli_shm_endpoint_decode(&s->real.config.address, &endpoint));
  s->socket = gli_shm_connect(&endpoint);
  assert_true(s->socket >= 0);
  int page = sealed(GLI_SHM_PAGE_BYTES);
  void *memory;
  assert_int_equal(gli_sealed_map(page, GLI_SHM_PAGE_BYTES, &memory), 0);
  s->page = memory;
  say(s, (gli_shm_note){.say = GLI_SHM_HELLO,
                        .key = s->real.config.local_key,
                        .data_bytes = RING_DATA,
                        .chunk = RING_DATA / 32,
                        .fds = {sealed(gli_shm_ring_bytes(RING_DATA)), page}});
  gli_shm_note answer;
  gli_shm_received got = GLI_SHM_GOT_NOTHING;
  for (int i = 0; i < 5000 && got == GLI_SHM_GOT_NOTHING; i++) {
    poll_for_a_while(s);
    got = gli_shm_note_receive(s->socket, &answer);
  }
  assert_int_equal(got, GLI_SHM_GOT_NOTE);
  assert_int_equal(answer.say, GLI_SHM_ACCEPTED);
  assert_int_equal(answer.reads, 0); /* no proof was given */
  take_offer(s, &answer);
  gli_shm_note_close(&answer);
  say(s, (gli_shm_note){.say = GLI_SHM_CONFIRMED, .fds = {-1, -1}});
  poll_for_a_while(s);
  assert_true(s->real.ops->pair_up(s->real.pair));
}

static scene *begin(void) {
  scene *s = calloc(1, sizeof *s);
  assert_non_null(s);
  end_open(&s->real, &gli_transport_shm, 1);
  /* Rank 0 has no listener; the address only has to belong to this host. */
  s->real.ops->address(s->real.t, &s->real.config.address);
  shake_hands(s);
  return s;
}

static void finish(scene *s) {
  if (s->socket >= 0) close(s->socket);
  end_close(&s->real);
  gli_sealed_unmap(s->page, GLI_SHM_PAGE_BYTES);
  gli_sealed_unmap(s->ring, s->ring_bytes);
  free(s);
}

static gli_shm_note region_note(uint32_t id, uint64_t bytes, int fd) {
  return (gli_shm_note){.say = GLI_SHM_REGION,
                        .region = id,
                        .region_bytes = bytes,
                        .fds = {fd, -1}};
}

static gloo_status reach(scene *s, uint64_t rkey, size_t bytes, void **memory) {
  gloo_error error;
  return s->real.ops->rkey_map(s->real.pair, rkey, bytes, false, memory,
                               &error);
}

static uint64_t reference_of(uint32_t id) {
  return (uint64_t)id << 44;
}

/* Sends messages with the sleep flag set before each, so each needs a wake-
 * up. */
static void send_to_sleeper(scene *s, unsigned messages) {
  for (unsigned i = 0; i < messages; i++) {
    atomic_store(&s->page->asleep, 1);
    gli_header header = {.type = GLI_MESSAGE_DATA, .length = 4, .number = i};
    assert_true(s->real.ops->send_now(s->real.pair, &header, "text"));
    atomic_fetch_add(&s->ring->slots_taken, 1);
  }
}

static void peer_that_is_woken_but_never_reads_blocks_nobody(void **state) {
  (void)state;
  scene *s = begin();
  assert_int_equal(fcntl(s->socket, F_SETFL, 0), 0); /* O_NONBLOCK is off */
  send_to_sleeper(s, 20000);
  poll_for_a_while(s);
  assert_int_equal(s->real.n_failed, 0);
  finish(s);
}

static void waking_a_peer_that_is_gone_raises_no_signal(void **state) {
  (void)state;
  scene *s = begin();
  close(s->socket);
  s->socket = -1;
  send_to_sleeper(s, 10);
  finish(s);
}

static void peers_wake_a_rank_and_cannot_keep_it_from_working(void **state) {
  (void)state;
  scene *s = begin();
  for (int i = 0; i < 50; i++)
    say(s, (gli_shm_note){.say = GLI_SHM_RING, .fds = {-1, -1}});
  poll_for_a_while(s);
  assert_int_equal(s->real.n_failed, 0);
  send_to_sleeper(s, 10);
  finish(s);
}

static void good_region_is_reached(void **state) {
  (void)state;
  scene *s = begin();
  int fd = sealed(REGION);
  assert_int_equal(pwrite(fd, "x", 1, REGION - 1), 1);
  say(s, region_note(77, REGION, fd));
  void *memory = NULL;
  /* No poll is needed in between: the lookup reads the socket itself. */
  assert_int_equal(reach(s, reference_of(77), REGION, &memory), GLOO_OK);
  assert_int_equal(((char *)memory)[REGION - 1], 'x');
  say(s, (gli_shm_note){.say = GLI_SHM_FORGET, .region = 77, .fds = {-1, -1}});
  say(s, (gli_shm_note){.say = GLI_SHM_FORGET, .region = 5, .fds = {-1, -1}});
  poll_for_a_while(s);
  assert_int_equal(s->real.n_failed, 0);
  assert_int_equal(reach(s, reference_of(77), 1, &memory), GLOO_ERR_PROTOCOL);
  finish(s);
}

/* Checks that the note fails the pair with a protocol error that names rank
 * 0. */
static void assert_fatal(gli_shm_note note) {
  scene *s = begin();
  say(s, note);
  void *memory;
  gloo_status status =
      reach(s, reference_of(note.region % GLI_REGION_IDS), 1, &memory);
  assert_int_equal(status, GLOO_ERR_PROTOCOL);
  end_until(&s->real, &s->real.n_failed, 1);
  assert_int_equal(s->real.cause.status, GLOO_ERR_PROTOCOL);
  assert_int_equal(s->real.cause.rank, 0);
  finish(s);
}

#if GLI_LINUX
static int memory_of(size_t bytes, int seals) {
  int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  assert_true(fd >= 0 && ftruncate(fd, (off_t)bytes) == 0);
  assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
  return fd;
}

static int full(int fd, size_t bytes) {
  assert_int_equal(posix_fallocate(fd, 0, (off_t)bytes), 0);
  return fd;
}

static void memory_that_may_shrink_is_refused(void **state) {
  (void)state;
  assert_fatal(region_note(1, REGION, full(memory_of(REGION, 0), REGION)));
  assert_fatal(
      region_note(1, REGION, full(memory_of(REGION, F_SEAL_SHRINK), REGION)));
}

/* Reading the file would allocate its pages, at our cost. */
static void memory_without_pages_is_refused(void **state) {
  (void)state;
  assert_fatal(
      region_note(1, REGION, memory_of(REGION, F_SEAL_SHRINK | F_SEAL_GROW)));
}
#endif

static void sizes_must_be_true(void **state) {
  (void)state;
  assert_fatal(region_note(1, REGION + 4096, sealed(REGION)));
  assert_fatal(region_note(1, REGION - 4096, sealed(REGION)));
  assert_fatal(region_note(1, 0, sealed(REGION)));
  assert_fatal(region_note(1, UINT64_MAX, sealed(REGION)));
  assert_fatal(region_note(1, (UINT64_C(1) << 44) + 1, sealed(REGION)));
}

static void descriptors_must_be_of_memory(void **state) {
  (void)state;
  int ends[2];
  assert_int_equal(pipe(ends), 0);
  assert_fatal(region_note(1, REGION, ends[1]));
  close(ends[0]);
  assert_fatal(region_note(1, REGION, open("/dev/zero", O_RDWR)));
  assert_fatal(region_note(1, REGION, open("/bin/sh", O_RDONLY)));
}

static void numbers_must_be_possible_and_new(void **state) {
  (void)state;
  assert_fatal(region_note(0, REGION, sealed(REGION)));
  assert_fatal(region_note(GLI_REGION_IDS, REGION, sealed(REGION)));
  scene *s = begin();
  say(s, region_note(9, REGION, sealed(REGION)));
  say(s, region_note(9, REGION, sealed(REGION)));
  end_until(&s->real, &s->real.n_failed, 1);
  assert_int_equal(s->real.cause.status, GLOO_ERR_PROTOCOL);
  finish(s);
}

static void other_notes_make_no_sense_now(void **state) {
  (void)state;
  static const uint32_t says[] = {GLI_SHM_CONFIRMED, GLI_SHM_DECLINED,
                                  GLI_SHM_LATER, GLI_SHM_TAKEN};
  for (size_t i = 0; i < sizeof says / sizeof says[0]; i++)
    assert_fatal((gli_shm_note){.say = says[i], .fds = {-1, -1}});
}

static void there_are_only_so_many(void **state) {
  (void)state;
  scene *s = begin();
  for (uint32_t id = 1; id <= GLI_SHM_REGIONS_MAX + 1; id++) {
    say(s, region_note(id, 4096, sealed(4096)));
    if (id % 16 == 0) s->real.ops->poll(s->real.t);
    void *memory;
    if (id <= GLI_SHM_REGIONS_MAX)
      assert_int_equal(reach(s, reference_of(id), 4096, &memory), GLOO_OK);
  }
  end_until(&s->real, &s->real.n_failed, 1);
  assert_int_equal(s->real.cause.status, GLOO_ERR_PROTOCOL);
  finish(s);
}

/* A lost descriptor is a problem of this rank, not a fault of the peer. */
static void lost_descriptor_is_our_own_trouble(void **state) {
  (void)state;
  scene *s = begin();
  say(s, region_note(3, REGION, -1));
  void *memory;
  assert_int_equal(reach(s, reference_of(3), 1, &memory), GLOO_ERR_NO_MEMORY);
  poll_for_a_while(s);
  assert_int_equal(s->real.n_failed, 0);
  finish(s);
}

static void reading_is_refused_to_who_did_not_prove_it(void **state) {
  (void)state;
  scene *s = begin();
  void *memory;
  uint8_t byte;
  gloo_error error;
  uint64_t rkey = UINT64_C(1) << 63 | (uint64_t)(uintptr_t)&byte;
  assert_int_equal(reach(s, rkey, 1, &memory), GLOO_ERR_PROTOCOL);
  assert_int_equal(s->real.ops->get(s->real.pair, rkey, &byte, 1, &error),
                   GLOO_ERR_PROTOCOL);
  uint64_t made;
  assert_false(s->real.ops->rkey_pack(s->real.pair, &byte, 1, false, &made));
  finish(s);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(good_region_is_reached),
    cmocka_unit_test(peer_that_is_woken_but_never_reads_blocks_nobody),
    cmocka_unit_test(waking_a_peer_that_is_gone_raises_no_signal),
    cmocka_unit_test(peers_wake_a_rank_and_cannot_keep_it_from_working),
#if GLI_LINUX /* elsewhere memory has no seals */
    cmocka_unit_test(memory_that_may_shrink_is_refused),
    cmocka_unit_test(memory_without_pages_is_refused),
#endif
    cmocka_unit_test(sizes_must_be_true),
    cmocka_unit_test(descriptors_must_be_of_memory),
    cmocka_unit_test(numbers_must_be_possible_and_new),
    cmocka_unit_test(other_notes_make_no_sense_now),
    cmocka_unit_test(there_are_only_so_many),
    cmocka_unit_test(lost_descriptor_is_our_own_trouble),
    cmocka_unit_test(reading_is_refused_to_who_did_not_prove_it),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
