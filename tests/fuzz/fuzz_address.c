/* Addresses that ranks publish, of all transports. */
#include <string.h>

#include "fuzz.h"
#include "transport/auto.h"
#include "transport_tcp/contact.h"
#if GLI_LINUX
#include "transport_shm/address.h"
#endif

static bool address_is(const gli_address *a, const gli_address *b) {
  return a->bytes == b->bytes && memcmp(a->data, b->data, a->bytes) == 0;
}

/* Orders the addresses for a host in two networks, one of each family. */
static void order_addresses(const gli_tcp_contact *contact) {
  gli_interface list[2] = {{.name = "eth0", .prefix = 16, .up = true},
                           {.name = "eth1", .prefix = 64, .up = true}};
  const gli_interfaces own = {2, list};
  gli_endpoints order;
  (void)gli_endpoint_from_text("10.1.0.1", &list[0].at);
  (void)gli_endpoint_from_text("fe80::1", &list[1].at);
  for (uint64_t place = 0; place < 2; place++) {
    gli_tcp_order(contact, place, &own, &order);
    fuzz_check(order.n >= 1 && order.n <= GLI_ENDPOINTS_MAX,
               "there is an address to connect to");
    for (uint32_t i = 0; i < order.n; i++)
      fuzz_check(gli_endpoint_port(&order.at[i]) == contact->port,
                 "with the port");
  }
}

static void read_tcp(const gli_address *address) {
  gli_tcp_contact contact;
  gli_address again;
  if (!gli_tcp_contact_decode(address, &contact)) return;
  fuzz_check(contact.n >= 1 && contact.n <= GLI_TCP_CONTACT_MAX,
             "there are addresses");
  gli_tcp_contact_encode(&contact, &again);
  fuzz_check(address_is(address, &again), "what was read is written the same");
  order_addresses(&contact);
}

static void read_shm(const gli_address *address) {
#if GLI_LINUX
  gli_shm_endpoint endpoint, other = {.user = 1};
  gli_address again;
  if (!gli_shm_endpoint_decode(address, &endpoint)) return;
  gli_shm_endpoint_encode(&endpoint, &again);
  fuzz_check(address_is(address, &again), "what was read is written the same");
  fuzz_check(gli_shm_endpoint_unreachable(&endpoint, &endpoint) == NULL,
             "an end point reaches itself");
  (void)gli_shm_endpoint_unreachable(&endpoint, &other);
#else
  (void)address;
#endif
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz_input input = {data, size};
  gli_address address, part[GLI_AUTO_CHILDREN];
  memset(&address, 0xee, sizeof address);
  address.bytes =
      (uint16_t)(size < GLI_ADDRESS_MAX ? size : (size_t)GLI_ADDRESS_MAX);
  fuzz_take_bytes(&input, address.data, address.bytes);
  for (size_t i = 0; gli_transport_at(i) != NULL; i++) {
    const gli_transport_ops *ops = gli_transport_at(i);
    if (ops->maps != NULL) (void)ops->maps(&address, &address);
  }
  read_tcp(&address);
  read_shm(&address);
  if (!gli_auto_address_decode(&address, part)) return 0;
  for (int i = 0; i < GLI_AUTO_CHILDREN; i++) {
    fuzz_check(part[i].bytes <= GLI_ADDRESS_MAX, "a part is an address");
    read_tcp(&part[i]);
    read_shm(&part[i]);
  }
  return 0;
}
