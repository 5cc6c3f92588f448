/* Copying into a ring: the choice between cached and non-temporal stores, and
 * that either copies every byte. */
#include <string.h>

#include "ends.h"
#include "transport_shm/shm_ring.h"

enum { CHUNK = 32768 };

static void note(gli_store_policy *c, bool nontemporal, uint64_t ns,
                 int times) {
  for (int i = 0; i < times; i++)
    gli_shm_copier_learn(c, nontemporal, ns, CHUNK);
}

/* Returns a policy that has tried both ways, with these times per chunk. */
static gli_store_policy tried(uint64_t streamed_ns, uint64_t cached_ns) {
  gli_store_policy c = {.nontemporal = false};
  note(&c, true, streamed_ns, 1);
  note(&c, false, cached_ns, 20);
  return c;
}

static void the_way_past_the_caches_must_be_much_faster(void **state) {
  (void)state;
  gli_store_policy c = {.nontemporal = false};
  note(&c, false, 16000, 10);
  assert_false(c.nontemporal); /* the other way is not measured yet */
  note(&c, true, 1000, 1);
  assert_true(c.nontemporal);
  c = tried(1000, 2500);
  assert_false(c.nontemporal);
}

static void it_goes_back_when_cores_have_come_closer(void **state) {
  (void)state;
  gli_store_policy c = tried(1000, 4000);
  assert_true(c.nontemporal);
  note(&c, false, 2500, 20);
  assert_true(c.nontemporal); /* not at once */
  note(&c, false, 1000, 20);
  assert_false(c.nontemporal);
}

static void short_chunks_need_less_to_go_past_the_caches(void **state) {
  (void)state;
  gli_store_policy c = {.nontemporal = false};
  for (int i = 0; i < 20; i++) gli_shm_copier_learn(&c, true, 100, 1024);
  for (int i = 0; i < 20; i++) gli_shm_copier_learn(&c, false, 180, 1024);
  assert_false(c.nontemporal);
  for (int i = 0; i < 20; i++) gli_shm_copier_learn(&c, false, 250, 1024);
  assert_true(c.nontemporal);
}

static void one_interruption_changes_nothing(void **state) {
  (void)state;
  gli_store_policy c = tried(1000, 1000);
  note(&c, false, UINT64_MAX, 1);
  assert_false(c.nontemporal);
  note(&c, false, 1000, 20);
  note(&c, true, UINT64_MAX, 1);
  note(&c, true, 1000, 20);
  note(&c, false, 8000, 20);
  assert_true(c.nontemporal);
}

/* A trial of cached stores covers only the beginning of a chunk: the rest must
 * arrive, too, and both ways must be tried. */
static void every_byte_is_copied_whichever_way(void **state) {
  (void)state;
  static const size_t lengths[] = {GLI_SHM_NONTEMPORAL_MIN,
                                   GLI_SHM_NONTEMPORAL_MIN + 1,
                                   4096,
                                   4097,
                                   5000,
                                   CHUNK - 1,
                                   CHUNK};
  static uint8_t from[CHUNK + 64];
  static _Alignas(64) uint8_t to[CHUNK + 64];
  for (int streams = 0; streams < 2; streams++) {
    gli_store_policy c = {.nontemporal = streams != 0};
    for (unsigned i = 0; i < 1500; i++) {
      size_t bytes = lengths[i % 7], at = i % 64;
      for (size_t k = 0; k < sizeof from; k++) from[k] = (uint8_t)(k * 7 + i);
      memset(to, 0, sizeof to);
      gli_shm_copy(&c, to, from + at, bytes);
      assert_memory_equal(to, from + at, bytes);
      for (size_t k = bytes; k < sizeof to; k++) assert_int_equal(to[k], 0);
    }
    assert_true(c.cost_cached > 0 && c.cost_nontemporal > 0);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_way_past_the_caches_must_be_much_faster),
      cmocka_unit_test(it_goes_back_when_cores_have_come_closer),
      cmocka_unit_test(short_chunks_need_less_to_go_past_the_caches),
      cmocka_unit_test(one_interruption_changes_nothing),
      cmocka_unit_test(every_byte_is_copied_whichever_way),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
