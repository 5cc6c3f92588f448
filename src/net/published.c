#include "net/published.h"

#include <string.h>

#include "core/environment.h"
#include "core/error.h"
#include "net/host_name.h"

/* ---- addresses of this host ---------------------------------------------- */

static void published_add(gli_endpoints *list, const gli_endpoint *endpoint) {
  if (list->n < GLI_PUBLISHED_MAX) (void)gli_endpoints_add(list, endpoint);
}

/* Returns true if an interface with a link-local address has no others. */
static bool published_only_link_local(const gli_interfaces *all,
                                      const gli_interface *one) {
  for (size_t i = 0; i < all->n; i++)
    if (strcmp(all->list[i].name, one->name) == 0 &&
        !gli_endpoint_is_link_local(&all->list[i].at))
      return false;
  return true;
}

/* Adds the addresses in the order of the choice. Of an interface selected by
 * name, link-local addresses are added only if it has no others. */
static void published_choose(const gli_choice *choice,
                             const gli_interfaces *all, gli_endpoints *own) {
  for (uint32_t i = 0; i < choice->n; i++)
    for (size_t k = 0; k < all->n; k++) {
      const gli_interface *one = &all->list[k];
      bool named = choice->item[i].name[0] != '\0';
      if (!one->up || !gli_choice_means(choice, i, all, one)) continue;
      if (named && gli_endpoint_is_link_local(&one->at) &&
          !published_only_link_local(all, one))
        continue;
      published_add(own, &one->at);
    }
}

typedef enum published_kind {
  PUBLISHED_USUAL,
  PUBLISHED_INTERNAL,
  PUBLISHED_LINK_LOCAL,
  PUBLISHED_LOOPBACK,
  PUBLISHED_KINDS
} published_kind;

static published_kind published_kind_of(const gli_interface *one) {
  if (one->loopback) return PUBLISHED_LOOPBACK;
  if (gli_endpoint_is_link_local(&one->at)) return PUBLISHED_LINK_LOCAL;
  return one->internal ? PUBLISHED_INTERNAL : PUBLISHED_USUAL;
}

/* Adds the addresses of one kind, starting with the interface of `first`. */
static void published_add_kind(const gli_interfaces *all, published_kind kind,
                               const gli_choice *without,
                               const gli_interface *first, gli_endpoints *own) {
  for (int others = 0; others < 2; others++)
    for (size_t i = 0; i < all->n; i++) {
      const gli_interface *one = &all->list[i];
      bool together = first != NULL && strcmp(first->name, one->name) == 0;
      if (!one->up || published_kind_of(one) != kind) continue;
      if (without != NULL && gli_choice_has(without, all, one)) continue;
      if (together == (others == 0)) published_add(own, &one->at);
    }
}

/* Adds addresses without a choice by the user. If the store's host is this one,
 * all ranks are on it, and loopback suffices. */
static void published_usual(const gli_interfaces *all,
                            const gli_choice *without,
                            const gli_endpoint *towards, gli_endpoints *own) {
  const gli_interface *first =
      towards != NULL ? gli_interfaces_find(all, towards) : NULL;
  if (first != NULL && without != NULL && gli_choice_has(without, all, first))
    towards = NULL;
  if (towards != NULL) {
    gli_endpoint at = *towards;
    gli_endpoint_set_port(&at, 0);
    published_add(own, &at);
    if (!gli_endpoint_is_loopback(&at))
      published_add_kind(all, PUBLISHED_USUAL, without, first, own);
    return;
  }
  for (int kind = 0; kind < PUBLISHED_KINDS && own->n == 0; kind++)
    published_add_kind(all, (published_kind)kind, without, NULL, own);
}

/* ---- the variables ------------------------------------------------------- */

/* Resolves a list of names and addresses. */
static gloo_status published_resolve(const char *variable, const char *text,
                                     gli_endpoints *out, gloo_error *error) {
  char name[GLI_HOST_NAME_BYTES];
  while (*text != '\0') {
    size_t bytes = strcspn(text, ", \t");
    if (bytes >= sizeof name)
      return gli_fail(error, GLOO_ERR_INVALID, -1,
                      "%s: a name in \"%.64s\" is longer than %zu bytes",
                      variable, text, sizeof name - 1);
    memcpy(name, text, bytes);
    name[bytes] = '\0';
    text += bytes;
    text += strspn(text, ", \t");
    if (bytes == 0) continue;
    gli_endpoints some;
    gloo_status status = gli_host_resolve(name, 0, &some, error);
    if (status != GLOO_OK) {
      gli_error_prefix(error, "%s: ", variable);
      return status;
    }
    for (uint32_t i = 0; i < some.n; i++) published_add(out, &some.at[i]);
  }
  if (out->n > 0) return GLOO_OK;
  return gli_fail(error, GLOO_ERR_INVALID, -1,
                  "%s is empty: expected names or addresses of this host, such "
                  "as 192.0.2.7 or host.example",
                  variable);
}

gloo_status gli_bind_read(gli_endpoints *out, gloo_error *error) {
  out->n = 0;
  const char *text = gli_environment_read("GLOO_BIND_ADDR");
  if (text == NULL) return GLOO_OK;
  return published_resolve("GLOO_BIND_ADDR", text, out, error);
}

static gloo_status published_read_told(gli_published *out, gloo_error *error) {
  const char *text = gli_environment_read("GLOO_PUBLISH_ADDR");
  if (text == NULL) {
    out->told = out->own;
    return GLOO_OK;
  }
  out->translated = true;
  gloo_status status =
      published_resolve("GLOO_PUBLISH_ADDR", text, &out->told, error);
  for (uint32_t i = 0; i < out->told.n && status == GLOO_OK; i++)
    if (gli_endpoint_is_wildcard(&out->told.at[i]))
      status = gli_fail(error, GLOO_ERR_ADDRESS, -1,
                        "GLOO_PUBLISH_ADDR is \"%.64s\": other ranks cannot "
                        "connect to a wildcard address",
                        text);
  return status;
}

gloo_status gli_published_given(gli_published *out, gloo_error *error) {
  gli_published made;
  memset(&made, 0, sizeof made);
  gloo_status status = published_read_told(&made, error);
  if (status == GLOO_OK) *out = made;
  return status;
}

/* ---- finding ------------------------------------------------------------- */

static gloo_status published_none(const char *text, const char *origin,
                                  const gli_choice *choice,
                                  const gli_interfaces *all,
                                  gloo_error *error) {
  char known[GLI_INTERFACES_TEXT_BYTES];
  bool down = false;
  for (size_t i = 0; i < all->n && !choice->excludes; i++)
    down = down || gli_choice_has(choice, all, &all->list[i]);
  gli_interfaces_text(all, known);
  return gli_fail(
      error, GLOO_ERR_NOT_FOUND, -1, "%s \"%.64s\"%s (from %s); available: %s",
      choice->excludes ? "no network interface with an address matches"
                       : "no network interface",
      text,
      down               ? " that is up"
      : choice->excludes ? ""
                         : " with an address",
      origin, known);
}

gloo_status gli_published_find(const gli_publishing *how,
                               const gli_interfaces *interfaces,
                               gli_published *out, gloo_error *error) {
  const char *text = how->choice, *origin = how->origin;
  gli_published made;
  memset(&made, 0, sizeof made);
  if (text == NULL) {
    text = gli_environment_read("GLOO_SOCKET_IFNAME");
    origin = "GLOO_SOCKET_IFNAME";
  }
  gli_choice choice, *without = NULL;
  if (text != NULL) {
    gloo_status status = gli_choice_read(text, origin, &choice, error);
    if (status != GLOO_OK) return status;
    gli_choice_resolve(&choice, interfaces);
    made.chosen = !choice.excludes;
    if (choice.excludes) without = &choice;
  }
  if (made.chosen)
    published_choose(&choice, interfaces, &made.own);
  else
    published_usual(interfaces, without, how->towards, &made.own);
  if (made.own.n == 0 && text != NULL)
    return published_none(text, origin, &choice, interfaces, error);
  gloo_status status = published_read_told(&made, error);
  if (status == GLOO_OK) *out = made;
  return status;
}
