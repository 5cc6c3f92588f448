/* The cache of a peer's regions (mapped, found, replaced), and reading another
 * process. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ends.h"
#include "memory/sealed.h"
#include "transport_shm/map_cache.h"
#include "transport_shm/system.h"

/* Sealed memory that begins with `first`. */
static int memory_of(size_t bytes, uint8_t first) {
  int fd = -1;
  void *memory;
  const char *what;
  const gli_sealed_want want = {
      .bytes = bytes, .reserved = bytes, .most_percent = 100};
  assert_int_equal(gli_sealed_make(&want, &fd, &memory, &what), 0);
  *(uint8_t *)memory = first;
  gli_sealed_unmap(memory, bytes);
  assert_int_equal(gli_sealed_check(fd, bytes, bytes), 0);
  return fd;
}

static const gli_shm_region *put(gli_shm_map_cache *map_cache, uint32_t id,
                                 size_t bytes, uint8_t first) {
  assert_int_equal(
      gli_shm_map_cache_add(map_cache, id, bytes, memory_of(bytes, first)), 0);
  const gli_shm_region *region = gli_shm_map_cache_find(map_cache, id);
  assert_non_null(region);
  assert_non_null(region->at);
  assert_int_equal(region->at[0], first);
  assert_true(region->bytes == bytes && region->room >= bytes);
  return region;
}

static void regions_are_found_by_number(void **state) {
  (void)state;
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  gli_shm_map_cache map_cache = {.n = 0};
  assert_null(gli_shm_map_cache_find(&map_cache, 1));
  for (uint32_t i = 0; i < 100; i++)
    (void)put(&map_cache, 1 + i * 37 % 100, page, (uint8_t)(i * 37 % 100));
  for (uint32_t id = 1; id <= 100; id++)
    assert_int_equal(gli_shm_map_cache_find(&map_cache, id)->at[0], id - 1);
  for (uint32_t id = 1; id <= 100; id += 2)
    gli_shm_map_cache_forget(&map_cache, id);
  gli_shm_map_cache_forget(&map_cache, 1);
  gli_shm_map_cache_forget(&map_cache, 1000);
  for (uint32_t id = 1; id <= 100; id++)
    assert_true((gli_shm_map_cache_find(&map_cache, id) != NULL) ==
                (id % 2 == 0));
  gli_shm_map_cache_empty(&map_cache);
  gli_shm_map_cache_empty(&map_cache);
}

/* Addresses of forgotten regions stay accessible, and are used again. */
static void addresses_stay_and_are_used_again(void **state) {
  (void)state;
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  gli_shm_map_cache map_cache = {.n = 0};
  uint8_t *old = put(&map_cache, 1, 8 * page, 7)->at;
  gli_shm_map_cache_forget(&map_cache, 1);
  assert_int_equal(old[0], 0);
  for (size_t i = 0; i < 8 * page; i += page) old[i] = 1;
  uint8_t *again = put(&map_cache, 2, 3 * page, 8)->at;
  assert_ptr_equal(again, old);
  assert_int_equal(old[5 * page], 1);
  uint64_t room = map_cache.room;
  for (uint32_t i = 3; i < 1000; i++) {
    gli_shm_map_cache_forget(&map_cache, i - 1);
    (void)put(&map_cache, i, (i % 8 + 1) * page, (uint8_t)i);
  }
  assert_true(map_cache.room == room);
  gli_shm_map_cache_empty(&map_cache);
}

static void what_cannot_be_mapped_is_kept_to_be_read(void **state) {
  (void)state;
  gli_shm_map_cache map_cache = {.room = GLI_SHM_ROOM_MAX};
  int fd = memory_of(65536, 9);
  assert_int_equal(gli_shm_map_cache_add(&map_cache, 5, 65536, fd), 0);
  const gli_shm_region *region = gli_shm_map_cache_find(&map_cache, 5);
  assert_null(region->at);
  assert_int_equal(region->fd, fd);
  assert_int_equal(gli_shm_map_cache_add(&map_cache, 6, 65536, -1), 0);
  assert_int_equal(gli_shm_map_cache_find(&map_cache, 6)->fd, -1);
  gli_shm_map_cache_forget(&map_cache, 5);
  assert_int_equal(fcntl(fd, F_GETFD), -1);
  gli_shm_map_cache_empty(&map_cache);
}

static void there_are_only_so_many(void **state) {
  (void)state;
  gli_shm_map_cache map_cache = {.n = 0};
  for (uint32_t id = 1; id <= GLI_SHM_REGIONS_MAX; id++)
    assert_int_equal(gli_shm_map_cache_add(&map_cache, id, 4096, -1), 0);
  int fd = memory_of(65536, 0);
  assert_int_equal(
      gli_shm_map_cache_add(&map_cache, GLI_SHM_REGIONS_MAX + 1, 65536, fd),
      ENOSPC);
  assert_int_equal(fcntl(fd, F_GETFD), -1); /* it is closed */
  gli_shm_map_cache_empty(&map_cache);
}

/* ---- reading another process --------------------------------------------- */

static void process_is_known_by_its_proof(void **state) {
  (void)state;
  uint64_t proof = UINT64_C(0x1122334455667788);
  char text[] = "some text", copy[sizeof text];
  gli_shm_foreign self = {getpid(), (uint64_t)(uintptr_t)&proof, proof};
  int code =
      gli_shm_foreign_read(&self, (uint64_t)(uintptr_t)text, copy, sizeof text);
  if (code == EPERM || code == ENOSYS) skip();
  assert_int_equal(code, 0);
  assert_string_equal(copy, text);
  assert_int_equal(gli_shm_foreign_read(&self, 0, copy, 0), 0);
  assert_int_equal(gli_shm_foreign_read(&self, 16, copy, 1), EFAULT);
  assert_int_equal(
      gli_shm_foreign_read(&self, UINT64_MAX - 5, copy, sizeof copy), EFAULT);
  gli_shm_foreign other = self;
  other.proof++;
  assert_int_equal(gli_shm_foreign_read(&other, (uint64_t)(uintptr_t)text, copy,
                                        sizeof text),
                   ESRCH);
  other = self;
  other.proof_at = 16;
  assert_int_equal(gli_shm_foreign_read(&other, (uint64_t)(uintptr_t)text, copy,
                                        sizeof text),
                   EFAULT);
  other = self;
  other.pid = 0;
  assert_int_equal(gli_shm_foreign_read(&other, (uint64_t)(uintptr_t)text, copy,
                                        sizeof text),
                   ESRCH);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(regions_are_found_by_number),
      cmocka_unit_test(addresses_stay_and_are_used_again),
      cmocka_unit_test(what_cannot_be_mapped_is_kept_to_be_read),
      cmocka_unit_test(there_are_only_so_many),
      cmocka_unit_test(process_is_known_by_its_proof),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
