/* Strangers at the socket: other programs, other versions, damaged peers, other
 * users. None may disturb the existing pair. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

#include "ends.h"
#include "memory/sealed.h"
#include "transport_shm/memory.h"
#include "transport_shm/shm.h"
#include "unsealed.h"

typedef struct scene {
  end ends[2];
} scene;

static int set_up(void **state) {
  scene *s = calloc(1, sizeof *s);
  assert_non_null(s);
  ends_open(s->ends, &gli_transport_shm);
  gloo_error error;
  assert_int_equal(end_connect(&s->ends[0], &error), GLOO_OK);
  end_send(&s->ends[0], "first");
  ends_until(s->ends, &s->ends[1].n_received, 1);
  *state = s;
  return 0;
}

static int tear_down(void **state) {
  scene *s = *state;
  ends_close(s->ends);
  free(s);
  return 0;
}

static void assert_undisturbed(scene *s) {
  for (int i = 0; i < 2; i++) {
    int before = s->ends[!i].n_received;
    end_send(&s->ends[i], "still there");
    ends_until(s->ends, &s->ends[!i].n_received, before + 1);
    assert_string_equal(s->ends[!i].texts[before], "still there");
    assert_int_equal(s->ends[i].n_failed, 0);
  }
}

/* Returns a socket that is connected to the listener of rank 1. */
static int stranger(scene *s) {
  gli_shm_endpoint endpoint;
  assert_true(gli_shm_endpoint_decode(&s->ends[0].config.address, &endpoint));
  int fd = gli_shm_connect(&endpoint);
  assert_true(fd >= 0);
  return fd;
}

static gli_shm_received answer_on(scene *s, int fd, gli_shm_note *note) {
  gli_shm_received got = GLI_SHM_GOT_NOTHING;
  for (int i = 0; i < 5000 && got == GLI_SHM_GOT_NOTHING; i++) {
    ends_poll(s->ends, 1);
    got = gli_shm_note_receive(fd, note);
  }
  return got;
}

/* Returns rank 0's hello to rank 1 about a separate pair. */
static gli_shm_note hello_of(scene *s) {
  const gli_pair_config *c = &s->ends[0].config;
  return (gli_shm_note){.version = GLI_SHM_VERSION,
                        .say = GLI_SHM_HELLO,
                        .from = c->self_rank,
                        .to = c->peer_rank,
                        .key = c->remote_key,
                        .data_bytes = 65536,
                        .chunk = 2048,
                        .fds = {-1, -1}};
}

static void garbage_is_hung_up_on(void **state) {
  scene *s = *state;
  char bytes[300];
  memset(bytes, 'g', sizeof bytes);
  for (size_t n = 1; n < sizeof bytes; n += 7) {
    int fd = stranger(s);
    assert_int_equal(send(fd, bytes, n, MSG_NOSIGNAL), n);
    gli_shm_note note;
    assert_int_equal(answer_on(s, fd, &note), GLI_SHM_GOT_END);
    close(fd);
  }
  assert_undisturbed(s);
}

static void many_silent_strangers_keep_nobody_out(void **state) {
  enum { STRANGERS = 300 }; /* more than rank 1 keeps */
  scene *s = *state;
  int fds[STRANGERS];
  for (int i = 0; i < STRANGERS; i++) fds[i] = stranger(s);
  ends_poll(s->ends, 50);
  assert_undisturbed(s);
  for (int i = 0; i < STRANGERS; i++) close(fds[i]);
  ends_poll(s->ends, 50);
  assert_undisturbed(s);
}

static uint32_t answer_to(scene *s, const gli_shm_note *hello) {
  int fd = stranger(s);
  gli_shm_note note;
  assert_int_equal(gli_shm_note_send(fd, hello), 0);
  assert_int_equal(answer_on(s, fd, &note), GLI_SHM_GOT_NOTE);
  assert_int_equal(note.fds[0], -1);
  close(fd);
  return note.say;
}

static void wrong_keys_ranks_and_versions_are_refused(void **state) {
  scene *s = *state;
  gli_shm_note hello = hello_of(s);
  hello.key ^= 1;
  assert_int_equal(answer_to(s, &hello), GLI_SHM_UNKNOWN);
  hello = hello_of(s);
  hello.from = 9;
  assert_int_equal(answer_to(s, &hello), GLI_SHM_UNKNOWN);
  hello = hello_of(s);
  hello.to = 9;
  assert_int_equal(answer_to(s, &hello), GLI_SHM_UNKNOWN);
  hello = hello_of(s);
  hello.version++;
  assert_int_equal(answer_to(s, &hello), GLI_SHM_OTHER_VERSION);
  assert_undisturbed(s);
}

static void second_connection_of_a_rank_is_refused(void **state) {
  scene *s = *state;
  gli_shm_note hello = hello_of(s);
  assert_int_equal(answer_to(s, &hello), GLI_SHM_TAKEN);
  assert_undisturbed(s);
}

/* ---- descriptors that are not what they should be ------------------------ */

static char named[UNSEALED_NAME]; /* the last file; "" if none */

static int memory_of(size_t bytes, bool sealed) {
  const gli_sealed_want want = {
      .bytes = bytes, .reserved = bytes, .most_percent = 100};
  const char *what;
  void *memory;
  int fd;
  if (!sealed) return unsealed_make(bytes, named);
  assert_int_equal(gli_sealed_make(&want, &fd, &memory, &what), 0);
  gli_sealed_unmap(memory, bytes);
  return fd;
}

typedef struct offer {
  size_t ring_bytes, page_bytes;
  bool ring_sealed, page_sealed;
  uint32_t data_bytes, chunk;
} offer;

static const offer good = {0, GLI_SHM_PAGE_BYTES, true, true, 65536, 2048};

/* Returns the answer of a rank that has no pair yet. */
static uint32_t answer_to_offer(const offer *o) {
  scene *s = calloc(1, sizeof *s);
  assert_non_null(s);
  ends_open(s->ends, &gli_transport_shm);
  gli_shm_note hello = hello_of(s);
  size_t ring = o->ring_bytes ? o->ring_bytes : gli_shm_ring_bytes(65536);
  hello.data_bytes = o->data_bytes;
  hello.chunk = o->chunk;
  hello.fds[GLI_SHM_FD_RING] = memory_of(ring, o->ring_sealed);
  hello.fds[GLI_SHM_FD_PAGE] = memory_of(o->page_bytes, o->page_sealed);
  int fd = stranger(s);
  assert_int_equal(gli_shm_note_send(fd, &hello), 0);
  gli_shm_note note;
  assert_int_equal(answer_on(s, fd, &note), GLI_SHM_GOT_NOTE);
  uint32_t say = note.say;
  gli_shm_note_close(&note);
  gli_shm_note_close(&hello);
  close(fd);
  ends_close(s->ends);
  free(s);
  if (named[0] != '\0') assert_int_equal(unlink(named), 0);
  named[0] = '\0';
  return say;
}

static void descriptors_are_checked_before_they_are_used(void **state) {
  (void)state;
  assert_int_equal(answer_to_offer(&good), GLI_SHM_ACCEPTED);
  offer o = good;
  o.ring_sealed = false; /* the peer could shrink it while it is mapped */
  assert_int_equal(answer_to_offer(&o), GLI_SHM_DECLINED);
  o = good;
  o.page_sealed = false;
  assert_int_equal(answer_to_offer(&o), GLI_SHM_DECLINED);
  o = good;
  o.ring_bytes = 4096;
  assert_int_equal(answer_to_offer(&o), GLI_SHM_DECLINED);
  o = good;
  o.page_bytes = 1;
  assert_int_equal(answer_to_offer(&o), GLI_SHM_DECLINED);
  static const uint32_t sizes[][2] = {
      {0, 2048},    {65536, 0},         {65537, 2048}, {65536, 65536},
      {65536, 100}, {UINT32_MAX, 2048}, {131072, 2048}};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    o = good;
    o.data_bytes = sizes[i][0];
    o.chunk = sizes[i][1];
    assert_int_equal(answer_to_offer(&o), GLI_SHM_DECLINED);
  }
}

static void greeting_without_descriptors_is_declined(void **state) {
  (void)state;
  scene *s = calloc(1, sizeof *s);
  assert_non_null(s);
  ends_open(s->ends, &gli_transport_shm);
  gli_shm_note hello = hello_of(s);
  assert_int_equal(answer_to(s, &hello), GLI_SHM_DECLINED);
  ends_close(s->ends);
  free(s);
}

/* ---- other users --------------------------------------------------------- */

enum { NOBODY = 65534 };

/* The system tells the user of both ends of a socket. */
static void socket_of_another_user_is_recognised(void **state) {
  (void)state;
  int ends[2];
  if (geteuid() != 0 || seteuid(NOBODY) != 0) {
    print_message("# skipped: it takes root to be another user\n");
    skip();
  }
  int code = socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
  assert_int_equal(seteuid(0), 0);
  assert_int_equal(code, 0);
  assert_int_equal(gli_shm_same_user(ends[0], 0), -1);
  assert_int_equal(gli_shm_same_user(ends[0], NOBODY), 0);
  close(ends[0]);
  close(ends[1]);
}

/* Gets the name of rank 1's listener. A file was renamed after it was bound. */
static socklen_t name_of_listener(scene *s, struct sockaddr_un *name) {
  const gli_shm *t = (const gli_shm *)(const void *)s->ends[1].t;
  socklen_t bytes = sizeof *name;
  assert_int_equal(getsockname(t->listener.fd, (struct sockaddr *)name, &bytes),
                   0);
  char *file = strrchr(name->sun_path, '/');
  if (file != NULL) memcpy(file + 1, "shm", 3);
  return bytes;
}

/* Returns true if the other user is refused, and gets nothing else. */
static bool is_kept_out(const struct sockaddr_un *name, socklen_t bytes,
                        int type) {
  if (setgroups(0, NULL) != 0 || setgid(NOBODY) != 0 || setuid(NOBODY) != 0)
    return false;
  int fd = socket(AF_UNIX, type, 0);
  if (connect(fd, (const struct sockaddr *)name, bytes) != 0)
    return errno == EACCES;
  gli_shm_note note;
  gli_shm_received got;
  do got = gli_shm_note_receive(fd, &note);
  while (got == GLI_SHM_GOT_NOTHING);
  return got == GLI_SHM_GOT_END ||
         (got == GLI_SHM_GOT_NOTE && note.say == GLI_SHM_DECLINED);
}

static void assert_kept_out(scene *s, const struct sockaddr_un *name,
                            socklen_t bytes) {
  const gli_shm *t = (const gli_shm *)(const void *)s->ends[1].t;
  int type, status = 0;
  socklen_t room = sizeof type;
  assert_int_equal(
      getsockopt(t->listener.fd, SOL_SOCKET, SO_TYPE, &type, &room), 0);
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) _exit(is_kept_out(name, bytes, type) ? 0 : 1);
  while (waitpid(child, &status, WNOHANG) == 0) ends_poll(s->ends, 1);
  assert_int_equal(status, 0);
  assert_undisturbed(s);
}

static void another_user_is_kept_out(void **state) {
  scene *s = *state;
  struct sockaddr_un name, open = {.sun_family = AF_UNIX};
  socklen_t bytes = name_of_listener(s, &name);
  if (geteuid() != 0) {
    print_message("# skipped: it takes root to be another user\n");
    skip();
  }
  assert_kept_out(s, &name, bytes);
  if (name.sun_path[0] == '\0') return;
  /* Modes of files are not all that keeps others out. */
  (void)snprintf(open.sun_path, sizeof open.sun_path,
                 "/tmp/gloo_c_strangers_%ld", (long)getpid());
  if (link(name.sun_path, open.sun_path) != 0) skip(); /* another file system */
  assert_int_equal(chmod(open.sun_path, 0666), 0);
  assert_kept_out(s, &open, sizeof open);
  assert_int_equal(unlink(open.sun_path), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(garbage_is_hung_up_on, set_up, tear_down),
      cmocka_unit_test_setup_teardown(many_silent_strangers_keep_nobody_out,
                                      set_up, tear_down),
      cmocka_unit_test_setup_teardown(wrong_keys_ranks_and_versions_are_refused,
                                      set_up, tear_down),
      cmocka_unit_test_setup_teardown(second_connection_of_a_rank_is_refused,
                                      set_up, tear_down),
      cmocka_unit_test(descriptors_are_checked_before_they_are_used),
      cmocka_unit_test(greeting_without_descriptors_is_declined),
      cmocka_unit_test(socket_of_another_user_is_recognised),
      cmocka_unit_test_setup_teardown(another_user_is_kept_out, set_up,
                                      tear_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
