/* Rings, with both ends in one thread. */
#include "transport_shm/shm_ring.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ends.h"
#include "transport_shm/memory.h"
#include "transport_shm/shm.h"

typedef struct ring {
  gli_shm_out out;
  gli_shm_in in;
} ring;

enum { DATA = 64 * 1024, CHUNK = DATA / GLI_SHM_CHUNKS };

static int set_up(void **state) {
  ring *r = calloc(1, sizeof *r);
  size_t bytes = gli_shm_ring_bytes(DATA);
  gli_shm_memory *memory = aligned_alloc(4096, bytes);
  assert_true(r && memory);
  memset(memory, 0, bytes);
  r->out.memory = r->in.memory = memory;
  r->out.data_bytes = r->in.data_bytes = DATA;
  r->out.chunk = r->in.chunk = CHUNK;
  *state = r;
  return 0;
}

static int tear_down(void **state) {
  ring *r = *state;
  free(r->out.memory);
  free(r);
  return 0;
}

static uint64_t next_random(uint64_t *state) { /* splitmix64, Steele 2014 */
  uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return z ^ (z >> 31);
}

static gli_header header_of(uint64_t length, uint64_t number) {
  return (gli_header){.type = GLI_MESSAGE_DATA,
                      .tag = 7,
                      .slot = (uint32_t)number,
                      .operation = number * 3,
                      .length = length};
}

/* A message that is being read from the ring. */
typedef struct arrival {
  bool inside;
  gli_header header;
  uint8_t *data;
  uint64_t placed;
} arrival;

/* Takes one record, if there is one. Returns true if that completed a
 * message. */
static bool take_one(ring *r, arrival *a) {
  if (!gli_shm_ready(&r->in, memory_order_acquire)) return false;
  gli_shm_record record;
  gli_shm_get(&r->in, &record);
  if (a->inside) {
    assert_int_equal(record.header.mark, GLI_SHM_MORE);
  } else {
    assert_true(gli_shm_begins(&r->in, &record));
    a->header = record.header;
    a->placed = 0;
  }
  uint64_t left = a->header.length - a->placed;
  size_t bytes = (size_t)(left < CHUNK ? left : CHUNK);
  const uint8_t *from = record.data;
  if (a->header.length > GLI_SHM_INLINE)
    from = gli_shm_chunk(&r->in, &record, bytes);
  memcpy(a->data + a->placed, from, bytes);
  a->placed += bytes;
  gli_shm_take(&r->in);
  (void)gli_shm_ack(&r->in, true);
  a->inside = a->placed < a->header.length;
  return !a->inside;
}

/* Messages of any length pass, with the receiver any distance behind. */
static void messages_of_all_lengths_go_round(void **state) {
  enum { MESSAGES = 20000, LONGEST = 3 * DATA };
  ring *r = *state;
  uint64_t random = 1, sent = 0, got = 0, progress = 0;
  uint8_t *out = malloc(LONGEST), *in = malloc(LONGEST);
  uint32_t *lengths = malloc(MESSAGES * sizeof *lengths);
  assert_true(out && in && lengths);
  for (size_t i = 0; i < LONGEST; i++) out[i] = (uint8_t)(i * 7 + i / 251);
  static const uint32_t limits[] = {9, 9, 70, 70, 2000, DATA, LONGEST};
  for (int i = 0; i < MESSAGES; i++)
    lengths[i] =
        (uint32_t)(next_random(&random) % limits[next_random(&random) % 7]);
  arrival a = {.data = in};
  while (got < MESSAGES) {
    bool send = next_random(&random) % 3 != 0;
    if (send && sent < MESSAGES) {
      gli_header h = header_of(lengths[sent], sent);
      if (gli_shm_put(&r->out, &h, out + sent % 64, &progress)) {
        sent++;
        progress = 0;
      }
    } else if (take_one(r, &a)) {
      assert_int_equal(a.header.length, lengths[got]);
      assert_int_equal(a.header.operation, got * 3);
      assert_int_equal(a.header.tag, 7);
      assert_memory_equal(in, out + got % 64, lengths[got]);
      got++;
    }
    assert_false(r->out.broken);
  }
  assert_true(r->out.at == r->in.at);
  free(out);
  free(in);
  free(lengths);
}

static void full_ring_takes_nothing_until_there_is_room(void **state) {
  ring *r = *state;
  uint8_t byte = 5, got;
  uint64_t progress = 0, n = 0;
  gli_header h = header_of(1, 0);
  while (gli_shm_put(&r->out, &h, &byte, &progress)) {
    progress = 0;
    n++;
  }
  assert_int_equal(n, GLI_SHM_SLOTS);
  assert_int_equal(progress, 0);
  assert_false(gli_shm_room_made(&r->out));
  assert_false(gli_shm_put_cut(&r->out));
  arrival a = {.data = &got};
  assert_true(take_one(r, &a));
  assert_true(gli_shm_room_made(&r->out));
  assert_true(gli_shm_put(&r->out, &h, &byte, &progress));
}

static void cut_is_seen_in_place_of_the_rest(void **state) {
  enum { BYTES = 4 * DATA };
  ring *r = *state;
  uint8_t *data = calloc(1, BYTES);
  assert_non_null(data);
  uint64_t progress = 0;
  gli_header h = header_of(BYTES, 0);
  assert_false(gli_shm_put(&r->out, &h, data, &progress));
  assert_true(progress > 1);
  assert_true(gli_shm_put_cut(&r->out));
  arrival a = {.data = data};
  for (unsigned i = 0; i < GLI_SHM_CHUNKS; i++) assert_false(take_one(r, &a));
  gli_shm_record record;
  assert_true(gli_shm_ready(&r->in, memory_order_acquire));
  gli_shm_get(&r->in, &record);
  assert_int_equal(record.header.mark, GLI_SHM_CUT);
  free(data);
}

/* The receiver can write anything to the counters, which lie in its memory. */
static void counters_that_make_no_sense_are_noticed(void **state) {
  static const struct {
    uint32_t slots;
    uint64_t bytes;
  } wrong[] = {{GLI_SHM_SLOTS + 1, 0},
               {UINT32_MAX, 0},
               {0, UINT64_MAX},
               {0, 64},
               {1u << 31, UINT64_C(1) << 63}};
  tear_down(state);
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    set_up(state);
    ring *r = *state;
    uint64_t progress = 0;
    gli_header h = header_of(0, 0);
    while (gli_shm_put(&r->out, &h, NULL, &progress)) progress = 0;
    atomic_store(&r->out.memory->slots_taken, wrong[i].slots);
    atomic_store(&r->out.memory->bytes_taken, wrong[i].bytes);
    assert_false(gli_shm_put(&r->out, &h, NULL, &progress));
    assert_true(r->out.broken);
    tear_down(state);
  }
  set_up(state);
}

static void take_garbage(ring *r) {
  uint32_t data = r->in.data_bytes, chunk = r->in.chunk;
  uint64_t random = 3;
  for (int i = 0; i < 200000; i++) {
    gli_shm_slot *slot =
        &r->in.memory->slots[atomic_load(&r->in.next) % GLI_SHM_SLOTS];
    uint64_t words[8];
    for (int w = 0; w < 8; w++) words[w] = next_random(&random);
    memcpy(slot, words, sizeof words);
    if (i % 2 == 0) {
      gli_header *h = &slot->record.header;
      h->mark = words[1] % 2 == 0 ? GLI_SHM_HEAD : GLI_SHM_REWIND;
      h->type = GLI_MESSAGE_DATA;
      h->eager = 1;
      h->form = GLI_FORM_BYTES;
      h->length = words[0] % (2 * (uint64_t)data);
    }
    gli_shm_record record;
    gli_shm_get(&r->in, &record);
    if (!gli_shm_begins(&r->in, &record)) continue;
    gli_header header = record.header;
    assert_in_range(header.type, GLI_MESSAGE_DATA, GLI_MESSAGE_TYPES - 1);
    assert_in_range(header.eager, 0, 1);
    size_t bytes = (size_t)(header.length < chunk ? header.length : chunk);
    if (i % 4 == 0) r->in.at = data - (bytes + 63) / 64 * 64; /* just fits */
    const uint8_t *at = gli_shm_chunk(&r->in, &record, bytes);
    assert_true(at >= r->in.memory->data);
    assert_true(at + bytes <= r->in.memory->data + data);
    gli_shm_take(&r->in);
  }
}

/* Sends a message; returns the offset of its payload in the data part. */
static size_t place_of_next(ring *r, const uint8_t *payload, size_t bytes) {
  gli_header h = header_of(bytes, 1);
  uint64_t progress = 0;
  assert_true(gli_shm_put(&r->out, &h, payload, &progress));
  gli_shm_record record;
  gli_shm_get(&r->in, &record);
  assert_true(gli_shm_begins(&r->in, &record));
  const uint8_t *at = gli_shm_chunk(&r->in, &record, bytes);
  assert_memory_equal(at, payload, bytes);
  gli_shm_take(&r->in);
  (void)gli_shm_ack(&r->in, true);
  return (size_t)(at - r->in.memory->data);
}

enum { LARGE = 1024 * 1024, LARGE_CHUNK = LARGE / GLI_SHM_CHUNKS };

static ring large_ring(void) {
  ring r = {.in = {.data_bytes = LARGE, .chunk = LARGE_CHUNK},
            .out = {.data_bytes = LARGE, .chunk = LARGE_CHUNK}};
  size_t bytes = gli_shm_ring_bytes(LARGE);
  r.in.memory = r.out.memory = aligned_alloc(4096, bytes);
  assert_non_null(r.in.memory);
  memset(r.in.memory, 0, bytes);
  return r;
}

/* For any slot contents, a record is refused, or its header is within bounds
 * and its chunk lies in the data part. */
static void garbage_in_slots_stays_within_bounds(void **state) {
  ring large = large_ring();
  take_garbage(*state);
  take_garbage(&large); /* here chunks may have a skew */
  free(large.in.memory);
}

/* Returns the largest offset of messages that are read one by one. */
static size_t furthest(size_t rings, bool oversubscribed) {
  static _Alignas(64) uint8_t payload[LARGE_CHUNK];
  ring r = large_ring();
  size_t far = 0;
  gli_shm_spread(&r.out, rings, oversubscribed);
  for (int i = 0; i < 200; i++) {
    memset(payload, i, sizeof payload);
    size_t at = place_of_next(&r, payload, LARGE_CHUNK);
    if (at > far) far = at;
  }
  free(r.in.memory);
  return far + LARGE_CHUNK;
}

static void long_chunks_lie_to_lines_as_in_the_senders_memory(void **state) {
  static const size_t lengths[] = {9,    4096,  GLI_SHM_SKEWED_MIN,
                                   5000, 16384, LARGE_CHUNK};
  static _Alignas(64) uint8_t memory[LARGE_CHUNK + 64];
  ring r = large_ring();
  (void)state;
  for (size_t i = 0; i < sizeof memory; i++) memory[i] = (uint8_t)(i * 7);
  for (int turn = 0; turn < 2000; turn++) {
    size_t bytes = lengths[turn % 6], behind = (size_t)turn / 6 % 64;
    size_t at = place_of_next(&r, memory + behind, bytes);
    assert_int_equal(at % 64, bytes < GLI_SHM_SKEWED_MIN ? 0 : behind & 48);
    assert_true(at + bytes <= LARGE);
    assert_true(r.out.at == r.in.at);
  }
  free(r.in.memory);
}

static void ranks_with_a_core_each_use_the_data_part_in_turn(void **state) {
  (void)state;
  assert_int_equal(furthest(1, true), GLI_SHM_NEAR);
  assert_int_equal(furthest(1, false), 1024 * 1024);
  assert_int_equal(furthest(4, false), GLI_SHM_FAR / 4);
  assert_int_equal(furthest(1000, false), GLI_SHM_NEAR);
}

/* ---- pages that are made when they are needed ---------------------------- */

enum { LONG_DATA = 1024 * 1024, LONG_CHUNK = LONG_DATA / GLI_SHM_CHUNKS };

static void open_late(ring *r, bool checked) {
  size_t bytes = gli_shm_ring_bytes(LONG_DATA);
  void *memory;
  const char *what;
  int fd;
  assert_int_equal(
      gli_shm_memory_make(bytes, GLI_SHM_FIRST_BYTES, &fd, &memory, &what), 0);
  gli_shm_out_begin(&r->out, fd, memory, LONG_DATA);
  r->out.checked = checked;
  r->in.memory = memory;
  r->in.bytes = bytes;
  r->in.data_bytes = LONG_DATA;
  r->in.chunk = LONG_CHUNK;
}

static void close_late(ring *r) {
  gli_shm_memory_drop(r->out.memory, r->out.bytes);
  if (r->out.fd >= 0) close(r->out.fd);
}

static size_t pages_made(const ring *r) {
  struct stat status;
  assert_int_equal(fstat(r->out.fd, &status), 0);
  return (size_t)status.st_blocks * 512;
}

static bool put(ring *r, gli_header *h, const uint8_t *payload,
                uint64_t *progress) {
  return r->out.checked ? gli_shm_put_checked(&r->out, h, payload, progress)
                        : gli_shm_put(&r->out, h, payload, progress);
}

static bool get_next(ring *r, bool first, gli_shm_record *record) {
  gli_shm_get(&r->in, record);
  uint32_t sum;
  if (r->out.checked)
    return first ? gli_shm_begins_checked(&r->in, record, &sum)
                 : gli_shm_continues_checked(&r->in, record);
  return first ? gli_shm_begins(&r->in, record)
               : gli_shm_continues(&r->in, record);
}

/* Sends a message whose memory begins `behind` bytes after a cache line, and
 * receives it chunk by chunk. Returns the largest end offset in the data
 * part. */
static size_t pass(ring *r, size_t bytes, size_t behind) {
  static _Alignas(64) uint8_t memory[3 * LONG_DATA + 64];
  uint8_t *payload = memory + behind;
  size_t taken = 0, far = 0;
  uint64_t progress = 0, seed = bytes;
  for (size_t i = 0; i < bytes; i++) payload[i] = (uint8_t)next_random(&seed);
  gli_header h = header_of(bytes, 1);
  for (bool all = false; !all || taken < bytes;) {
    if (!all) all = put(r, &h, payload, &progress);
    assert_false(r->out.broken);
    assert_true(gli_shm_ready(&r->in, memory_order_acquire));
    gli_shm_record record;
    assert_true(get_next(r, taken == 0, &record));
    size_t part = bytes - taken < LONG_CHUNK ? bytes - taken : LONG_CHUNK;
    const uint8_t *at = gli_shm_chunk(&r->in, &record, part);
    assert_memory_equal(at, payload + taken, part);
    size_t ends = (size_t)(at - r->in.memory->data) + part;
    if (ends > far) far = ends;
    taken += part;
    gli_shm_take(&r->in);
    (void)gli_shm_ack(&r->in, true);
  }
  return far;
}

/* Passes a message that fits its slot; the receiver then looks at the next
 * slot, as every poll does. Returns false if the ring takes no more. */
static bool pass_in_slot(ring *r) {
  const uint8_t word[GLI_SHM_INLINE] = {1, 2, 3};
  uint64_t progress = 0;
  gli_header h = header_of(sizeof word, 1);
  if (!put(r, &h, word, &progress)) return false;
  gli_shm_record record;
  assert_true(get_next(r, true, &record));
  assert_memory_equal(record.data, word, sizeof word);
  gli_shm_take(&r->in);
  (void)gli_shm_ack(&r->in, true);
  assert_false(gli_shm_ready(&r->in, memory_order_acquire));
  return true;
}

static void pages_are_made_when_they_are_used(void **state) {
  (void)state;
  const size_t data = offsetof(gli_shm_memory, data);
  ring r = {.out.broken = false};
  open_late(&r, false);
  for (uint32_t i = 1; i < GLI_SHM_FIRST_SLOTS; i++) {
    assert_true(pass_in_slot(&r));
    assert_int_equal(pages_made(&r), GLI_SHM_FIRST_BYTES);
  }
  for (uint32_t i = 0; i < 3 * GLI_SHM_SLOTS; i++) {
    assert_true(pass_in_slot(&r));
    assert_int_equal(pages_made(&r), data);
  }
  assert_int_equal(pass(&r, 100, 0), 100);
  assert_int_equal(pages_made(&r), data + 4096);
  (void)pass(&r, 4000, 0);
  assert_int_equal(pages_made(&r), data + 8192);
  for (int i = 0; i < 100; i++) (void)pass(&r, 5000, 0);
  assert_int_equal(pages_made(&r), data + GLI_SHM_NEAR + LONG_CHUNK);
  assert_int_equal(pass(&r, 2 * LONG_DATA, 0), LONG_DATA);
  assert_true(pages_made(&r) >= r.out.bytes);
  close_late(&r);
}

static void lose_descriptor(ring *r) {
  close(r->out.fd);
  r->out.fd = -1;
}

static void ring_without_pages_for_the_next_record_is_broken(void **state) {
  (void)state;
  for (int checked = 0; checked < 2; checked++) {
    ring r = {.out.broken = false};
    static const uint8_t payload[100];
    uint64_t progress = 0;
    gli_header h = header_of(sizeof payload, 1);
    open_late(&r, checked);
    lose_descriptor(&r);
    assert_false(put(&r, &h, payload, &progress));
    assert_true(r.out.broken && r.out.lack != 0);
    close_late(&r);
  }
  ring r = {.out.broken = false};
  open_late(&r, false);
  lose_descriptor(&r);
  for (uint32_t i = 1; i < GLI_SHM_FIRST_SLOTS; i++)
    assert_true(pass_in_slot(&r));
  assert_false(pass_in_slot(&r));
  assert_true(r.out.broken && r.out.lack != 0);
  close_late(&r);
}

static void go_round_without_pages(bool checked) {
  ring r = {.out.broken = false};
  open_late(&r, checked);
  (void)pass(&r, LONG_CHUNK, 0);
  for (uint32_t i = 0; i < GLI_SHM_FIRST_SLOTS; i++) (void)pass(&r, 100, 0);
  lose_descriptor(&r);
  size_t most = LONG_DATA - r.out.unreserved;
  assert_true(most < LONG_DATA);
  gli_shm_spread(&r.out, 1, false);
  for (size_t bytes = 100; bytes < 3 * LONG_DATA; bytes += bytes / 3 + 7)
    assert_in_range(pass(&r, bytes, bytes % 64), 1, most);
  close_late(&r);
}

static void without_pages_for_it_a_ring_is_a_shorter_one(void **state) {
  (void)state;
  go_round_without_pages(false);
  go_round_without_pages(true);
}

/* Early pairs have large rings, late ones small rings. */
static void messages_that_are_taken_at_once_are_one_chunk(void **state) {
  (void)state;
  unsigned sizes = 0;
  uint32_t before = 0;
  for (uint64_t used = 0;;) {
    uint32_t data = gli_shm_data_for(used), chunk = gli_shm_chunk_for(data);
    if (data == 0) break;
    sizes += data != before;
    before = data;
    assert_true(chunk >= GLI_TAKE_BYTES && 2 * chunk + GLI_SHM_LINE <= data);
    assert_int_equal(chunk % GLI_SHM_LINE, 0);
    used += gli_shm_ring_bytes(data);
  }
  assert_int_equal(sizes, 3);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(ranks_with_a_core_each_use_the_data_part_in_turn),
      cmocka_unit_test(long_chunks_lie_to_lines_as_in_the_senders_memory),
      cmocka_unit_test(messages_that_are_taken_at_once_are_one_chunk),
      cmocka_unit_test(pages_are_made_when_they_are_used),
      cmocka_unit_test(ring_without_pages_for_the_next_record_is_broken),
      cmocka_unit_test(without_pages_for_it_a_ring_is_a_shorter_one),
      cmocka_unit_test_setup_teardown(messages_of_all_lengths_go_round, set_up,
                                      tear_down),
      cmocka_unit_test_setup_teardown(
          full_ring_takes_nothing_until_there_is_room, set_up, tear_down),
      cmocka_unit_test_setup_teardown(cut_is_seen_in_place_of_the_rest, set_up,
                                      tear_down),
      cmocka_unit_test_setup_teardown(counters_that_make_no_sense_are_noticed,
                                      set_up, tear_down),
      cmocka_unit_test_setup_teardown(garbage_in_slots_stays_within_bounds,
                                      set_up, tear_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
