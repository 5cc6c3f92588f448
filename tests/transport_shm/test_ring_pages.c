/* Rings whose pages are made when they are needed, with both ends in one
 * thread. */
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ring.h"
#include "transport_shm/memory.h"
#include "transport_shm/shm.h"

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

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(pages_are_made_when_they_are_used),
      cmocka_unit_test(ring_without_pages_for_the_next_record_is_broken),
      cmocka_unit_test(without_pages_for_it_a_ring_is_a_shorter_one),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
