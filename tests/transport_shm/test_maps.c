/* The function `maps`: whether two ranks can map each other's memory, from
 * their addresses alone. */
#include "ends.h"
#include "transport/auto.h"
#include "transport_shm/address.h"

static gli_address address_of(const gli_transport_ops *ops) {
  static const gli_upcalls none;
  uint32_t owed = 0;
  const gli_transport_config config = {
      .streams = 1, .upcalls = &none, .owed = &owed};
  gli_transport *t;
  gloo_error error;
  gli_address address;
  if (ops->open(&config, &t, &error) != GLOO_OK) fail_msg("%s", error.message);
  ops->address(t, &address);
  ops->close(t);
  return address;
}

static const gli_transport_ops *transport(const char *name) {
  const gli_transport_ops *ops = gli_transport_find(name);
  assert_non_null(ops);
  return ops;
}

static void ranks_of_one_host(void **state) {
  (void)state;
  static const char *const names[] = {"shm", "auto"};
  for (size_t i = 0; i < 2; i++) {
    const gli_transport_ops *ops = transport(names[i]);
    gli_address a = address_of(ops), b = address_of(ops);
    assert_true(ops->maps(&a, &b) && ops->maps(&b, &a));
  }
  assert_null(transport("tcp")->maps);
}

/* The ranks differ in the boot of the host, the network namespace, or the
 * user. */
static void ranks_apart(void **state) {
  (void)state;
  const gli_transport_ops *ops = transport("shm");
  gli_address a = address_of(ops), b;
  gli_shm_endpoint endpoint;
  assert_true(gli_shm_endpoint_decode(&a, &endpoint));
  for (int i = 0; i < 3; i++) {
    gli_shm_endpoint other = endpoint;
    if (i == 0) other.boot[3] ^= 1;
    if (i == 1) other.inode++;
    if (i == 2) other.user++;
    gli_shm_endpoint_encode(&other, &b);
    assert_false(ops->maps(&a, &b) || ops->maps(&b, &a));
  }
}

/* A rank without shared memory publishes only its TCP address. */
static void rank_without_shared_memory(void **state) {
  (void)state;
  enum { HEAD = 5 };
  const gli_transport_ops *ops = transport("auto");
  gli_address both = address_of(ops), part[GLI_AUTO_CHILDREN];
  assert_true(gli_auto_address_decode(&both, part));
  gli_address rest = {.bytes = both.bytes};
  memcpy(rest.data, both.data, HEAD);
  rest.data[HEAD - 1] = 1;
  size_t skip = 2 + (size_t)part[GLI_AUTO_SHM].bytes;
  rest.bytes = (uint16_t)(both.bytes - skip);
  memcpy(rest.data + HEAD, both.data + HEAD + skip, rest.bytes - (size_t)HEAD);
  assert_true(gli_auto_address_decode(&rest, part));
  assert_int_equal(part[GLI_AUTO_SHM].bytes, 0);
  assert_false(ops->maps(&both, &rest) || ops->maps(&rest, &both));
  rest.bytes--; /* malformed */
  assert_false(ops->maps(&both, &rest));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(ranks_of_one_host),
      cmocka_unit_test(ranks_apart),
      cmocka_unit_test(rank_without_shared_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
