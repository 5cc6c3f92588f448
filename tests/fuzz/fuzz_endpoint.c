/* Addresses as text, and choices of interfaces. The first byte is 'a' or 'c'.
 */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "net/endpoint.h"
#include "net/interfaces.h"

/* Fixed interfaces, independent of this host. */
static gli_interfaces some_interfaces(gli_interface list[4]) {
  static const struct {
    const char *name, *at;
    uint8_t prefix;
  } all[4] = {{"lo", "127.0.0.1", 8},
              {"eth0", "10.1.2.3", 16},
              {"eth0:1", "fe80::2", 64},
              {"docker0", "2001:db8::5", 48}};
  for (int i = 0; i < 4; i++) {
    list[i] = (gli_interface){.prefix = all[i].prefix, .up = i != 2};
    strcpy(list[i].name, all[i].name);
    list[i].loopback = i == 0;
    list[i].internal = gli_interface_name_is_internal(all[i].name);
    (void)gli_endpoint_from_text(all[i].at, &list[i].at);
  }
  return (gli_interfaces){4, list};
}

static void read_address(const char *text) {
  gli_endpoint at, again;
  char shown[GLI_ENDPOINT_TEXT_BYTES];
  if (!gli_endpoint_from_text(text, &at)) return;
  gli_endpoint_text(&at, shown);
  fuzz_check(gli_endpoint_from_text(shown, &again),
             "what is shown can be read");
  fuzz_check(gli_endpoint_equal(&at, &again), "and is the same");
  fuzz_check(gli_endpoint_from_socket(&at.any, gli_endpoint_bytes(&at), &again),
             "it is one of the system's as well");
  gli_endpoint_unmap(&at);
  gli_endpoint_set_port(&at, 4242);
  gli_endpoint_text(&at, shown);
  (void)gli_endpoint_is_link_local(&at);
  fuzz_check(gli_endpoint_common_bits(&at, &at) >= 32, "all bits are common");
}

static void read_choice(const char *text) {
  gli_interface list[4];
  gli_interfaces all = some_interfaces(list);
  gli_choice choice;
  gloo_error error;
  gloo_status status = gli_choice_read(text, "the fuzzer", &choice, &error);
  fuzz_check_error(status, &error);
  if (status != GLOO_OK) return;
  fuzz_check(choice.n <= GLI_CHOICE_ITEMS_MAX, "a choice has a bound");
  for (size_t i = 0; i < all.n; i++)
    (void)gli_choice_has(&choice, &all, &list[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  fuzz_input input = {data, bytes};
  uint8_t kind = fuzz_take_u8(&input);
  char *text = fuzz_text(&input);
  if (kind == 'c')
    read_choice(text);
  else
    read_address(text);
  free(text);
  return 0;
}
