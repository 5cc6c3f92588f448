/* Rings, with both ends in one thread. */
#include "ring.h"

#include <stdlib.h>

#include "core/aligned.h"
#include "transport_shm/memory.h"
#include "transport_shm/shm.h"

enum { DATA = 64 * 1024, CHUNK = DATA / GLI_SHM_CHUNKS };

static int set_up(void **state) {
  ring *r = calloc(1, sizeof *r);
  size_t bytes = gli_shm_ring_bytes(DATA);
  gli_shm_memory *memory = gli_aligned_alloc(4096, bytes);
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
  gli_aligned_free(r->out.memory);
  free(r);
  return 0;
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
  r.in.memory = r.out.memory = gli_aligned_alloc(4096, bytes);
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
  gli_aligned_free(large.in.memory);
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
  gli_aligned_free(r.in.memory);
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
  gli_aligned_free(r.in.memory);
}

static void ranks_with_a_core_each_use_the_data_part_in_turn(void **state) {
  (void)state;
  assert_int_equal(furthest(1, true), GLI_SHM_NEAR);
  assert_int_equal(furthest(1, false), 1024 * 1024);
  assert_int_equal(furthest(4, false), GLI_SHM_FAR / 4);
  assert_int_equal(furthest(1000, false), GLI_SHM_NEAR);
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
