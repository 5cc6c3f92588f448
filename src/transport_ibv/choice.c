/* Parser of GLOO_IBV_DEVICE. */
#include <stdlib.h>
#include <string.h>

#include "transport_ibv/port.h"

/* Item of the list. */
typedef struct choice_item {
  const char *name;
  size_t length;
  unsigned long port; /* 0 if any */
} choice_item;

/* Reads the item at `at`. Returns the start of the next one, or NULL. */
static const char *ibv_choice_next(const char *at, choice_item *item) {
  size_t length = strcspn(at, ",");
  const char *colon = memchr(at, ':', length);
  item->name = at;
  item->length = colon != NULL ? (size_t)(colon - at) : length;
  item->port = colon != NULL ? strtoul(colon + 1, NULL, 10) : 0;
  return at[length] == ',' ? at + length + 1 : NULL;
}

gloo_status gli_ibv_choice_check(const char *list, gloo_error *error) {
  const char *at = list + (list[0] == '^');
  while (at != NULL) {
    choice_item item;
    const char *next = ibv_choice_next(at, &item);
    size_t length = next != NULL ? (size_t)(next - at) - 1 : strlen(at);
    size_t port = length - item.length;
    bool good = item.length > 0 && memchr(item.name, '^', item.length) == NULL;
    if (port > 0) {
      size_t digits = strspn(at + item.length + 1, "0123456789");
      good = good && digits == port - 1 && item.port > 0 && item.port < 256;
    }
    if (!good)
      return gli_fail(
          error, GLOO_ERR_INVALID, -1,
          "GLOO_IBV_DEVICE is '%.100s': '%.*s' is not a device; valid: mlx5_0, "
          "mlx5_0:1 (a port), mlx5 (a prefix), several separated by commas, or "
          "^ in front to exclude them",
          list, (int)(length < 60 ? length : 60), at);
    at = next;
  }
  return GLOO_OK;
}

bool gli_ibv_choice_allows(const char *list, const char *device,
                           unsigned number) {
  bool excludes = list[0] == '^', found = false;
  const char *at = list + excludes;
  while (at != NULL && !found) {
    choice_item item;
    at = ibv_choice_next(at, &item);
    found = strncmp(device, item.name, item.length) == 0 &&
            (item.port == 0 || item.port == number);
  }
  return found != excludes;
}
