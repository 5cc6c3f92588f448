/* battery VARIANT GROUP: run part of the transport battery on one transport.
 * Exits with 77 (skipped) where the machine lacks what the variant needs. */
#include <stdio.h>
#include <stdlib.h>

#include "battery.h"

enum { SKIPPED = 77 };

static const bat_variant *find(const char *name) {
  for (size_t i = 0; i < bat_variant_count; i++) {
    if (strcmp(bat_variants[i].name, name) == 0) return &bat_variants[i];
  }
  return NULL;
}

/* Returns false for a host that cannot be bound (no IPv6, say): that is no
 * failure of the transport. */
static bool usable(const bat_variant *v) {
  if (v->create != NULL) return true;
  static const gli_upcalls none;
  gli_transport_config config = {
      .host = v->host, .streams = v->streams, .upcalls = &none};
  gli_transport *t;
  gloo_error error;
  gloo_status status = v->ops->open(&config, &t, &error);
  if (status == GLOO_OK) v->ops->close(t);
  if (status == GLOO_ERR_ADDRESS) {
    printf("1..0 # SKIP %s: %s\n", v->name, error.message);
    return false;
  }
  return true;
}

static const struct group {
  const char *name;
  int (*run)(void *variant);
  bool threads;
} groups[] = {
    {"connect", bat_run_connect_tests, false},
    {"message", bat_run_message_tests, false},
    {"close", bat_run_close_tests, false},
    {"thread", bat_run_thread_tests, true},
    {"reach", bat_run_rkey_tests, false},
    {"take", bat_run_take_tests, false},
    {"owed", bat_run_owed_tests, false},
};
enum { GROUPS = sizeof groups / sizeof groups[0] };

static int usage(const char *program) {
  fprintf(stderr, "usage: %s VARIANT GROUP\nvariants:", program);
  for (size_t i = 0; i < bat_variant_count; i++) {
    fprintf(stderr, " %s", bat_variants[i].name);
  }
  fprintf(stderr, "\ngroups:");
  for (size_t i = 0; i < GROUPS; i++) fprintf(stderr, " %s", groups[i].name);
  fprintf(stderr, "\n");
  return 2;
}

int main(int argc, char **argv) {
  if (argc != 3) return usage(argv[0]);
  const bat_variant *v = find(argv[1]);
  if (v == NULL) return usage(argv[0]);
  for (size_t i = 0; i < GROUPS; i++) {
    if (strcmp(groups[i].name, argv[2]) != 0) continue;
    if (!usable(v)) return SKIPPED;
    if (groups[i].run == bat_run_rkey_tests && v->ops->rkey_pack == NULL) {
      printf("1..0 # SKIP %s does not reach memory of others\n", v->name);
      return SKIPPED;
    }
    if (groups[i].run == bat_run_take_tests && v->ops->take_now == NULL) {
      printf("1..0 # SKIP %s has messages taken by poll alone\n", v->name);
      return SKIPPED;
    }
    if (groups[i].threads && v->create != NULL) return usage(argv[0]);
    return groups[i].run((void *)(uintptr_t)v) == 0 ? 0 : 1;
  }
  return usage(argv[0]);
}
