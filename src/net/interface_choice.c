/* The grammar of GLOO_SOCKET_IFNAME. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "net/alternative_name.h"
#include "net/interfaces.h"

enum { CHOICE_PART_BYTES = GLI_ALTERNATIVE_NAME_BYTES };

/* ---- reading ------------------------------------------------------------- */

/* Parses "10.0.0.0/8", "fe80::/10", or an address. Returns false on failure. */
static bool choice_read_block(const char *text, gli_choice_item *item) {
  char figures[64];
  unsigned all;
  const char *slash = strchr(text, '/');
  size_t bytes = slash != NULL ? (size_t)(slash - text) : strlen(text);
  if (bytes >= sizeof figures) return false;
  memcpy(figures, text, bytes);
  figures[bytes] = '\0';
  if (!gli_endpoint_from_text(figures, &item->net)) return false;
  (void)gli_endpoint_figures(&item->net, &all);
  item->bits = (uint8_t)all;
  if (slash == NULL) return true;
  char *end;
  unsigned long bits = strtoul(slash + 1, &end, 10);
  if (slash[1] < '0' || slash[1] > '9' || *end != '\0' || bits > all)
    return false;
  item->bits = (uint8_t)bits;
  return true;
}

static bool choice_read_item(const char *text, gli_choice_item *item) {
  memset(item, 0, sizeof *item);
  if (choice_read_block(text, item)) return true;
  memset(item, 0, sizeof *item);
  if (strchr(text, '/') != NULL || strlen(text) >= sizeof item->name)
    return false;
  memcpy(item->name, text, strlen(text));
  return true;
}

static gloo_status choice_wrong(const char *text, const char *origin,
                                const char *what, const char *part,
                                gloo_error *error) {
  return gli_fail(error, GLOO_ERR_INVALID, -1,
                  "the choice of network interfaces \"%.64s\" (from %s) %s%.64s"
                  ": expected a list such as eth0,ib or ^docker,lo or =eth0 or "
                  "10.0.0.0/8",
                  text, origin, what, part);
}

/* Copies the next item, trimmed, to `part`. Returns NULL at the end. */
static const char *choice_next(const char *at, char part[CHOICE_PART_BYTES],
                               bool *fits) {
  while (*at == ' ' || *at == '\t' || *at == ',') at++;
  if (*at == '\0') return NULL;
  size_t bytes = strcspn(at, ",");
  const char *next = at + bytes;
  while (at[bytes - 1] == ' ' || at[bytes - 1] == '\t') bytes--;
  *fits = bytes < CHOICE_PART_BYTES;
  if (!*fits) bytes = CHOICE_PART_BYTES - 1;
  memcpy(part, at, bytes);
  part[bytes] = '\0';
  return next;
}

gloo_status gli_choice_read(const char *text, const char *origin,
                            gli_choice *choice, gloo_error *error) {
  char part[CHOICE_PART_BYTES];
  bool fits;
  gli_choice made = {.n = 0};
  const char *at = text + strspn(text, " \t");
  made.excludes = *at == '^';
  if (made.excludes) at++;
  made.exact = *at == '=';
  if (made.exact) at++;
  while ((at = choice_next(at, part, &fits)) != NULL) {
    if (made.n == GLI_CHOICE_ITEMS_MAX)
      return choice_wrong(text, origin, "has too many items", "", error);
    if (part[0] == '^' || part[0] == '=')
      return choice_wrong(text, origin,
                          "has ^ or = after the first item: ", part, error);
    if (!fits || !choice_read_item(part, &made.item[made.n++]))
      return choice_wrong(text, origin,
                          "has an item that is neither an interface name nor "
                          "an address block: ",
                          part, error);
  }
  if (made.n == 0) return choice_wrong(text, origin, "is empty", "", error);
  *choice = made;
  return GLOO_OK;
}

/* ---- matching ------------------------------------------------------------ */

/* Returns true if `item` is the whole name: "eth0" is that of eth0 and
 * eth0:1. */
static bool choice_whole_name(const char *item, const char *name) {
  size_t bytes = strlen(item);
  if (strncmp(item, name, bytes) != 0) return false;
  return name[bytes] == '\0' || name[bytes] == ':';
}

static bool choice_names_one(const char *item, const gli_interfaces *all) {
  for (size_t i = 0; i < all->n; i++)
    if (choice_whole_name(item, all->list[i].name)) return true;
  return false;
}

/* The name of an interface takes precedence over an alternative name. */
void gli_choice_resolve(gli_choice *choice, const gli_interfaces *all) {
  for (uint32_t i = 0; i < choice->n; i++) {
    gli_choice_item *item = &choice->item[i];
    char name[IF_NAMESIZE];
    if (item->name[0] == '\0' || choice_names_one(item->name, all)) continue;
    if (!gli_alternative_name_find(item->name, name)) continue;
    memcpy(item->name, name, strlen(name) + 1);
    item->whole = true;
  }
}

bool gli_choice_means(const gli_choice *choice, uint32_t i,
                      const gli_interfaces *all, const gli_interface *one) {
  const gli_choice_item *item = &choice->item[i];
  if (item->name[0] == '\0')
    return item->net.any.sa_family == one->at.any.sa_family &&
           gli_endpoint_common_bits(&item->net, &one->at) >= item->bits;
  bool whole = choice->exact || item->whole ||
               (!choice->excludes && choice_names_one(item->name, all));
  if (whole) return choice_whole_name(item->name, one->name);
  return strncmp(item->name, one->name, strlen(item->name)) == 0;
}

bool gli_choice_has(const gli_choice *choice, const gli_interfaces *all,
                    const gli_interface *one) {
  for (uint32_t i = 0; i < choice->n; i++)
    if (gli_choice_means(choice, i, all, one)) return true;
  return false;
}
