/* The secret drawn by rank 0 if a launcher's ranks have none, and sent to the
 * others through the launcher's key-value space. Each rank is a process, and
 * the launcher speaks PMI-1. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../rendezvous/pmi_server.h"
#include "gloo_c/gloo_c.h"
#include "rendezvous/store/store.h"
#include "security/keys.h"

#define SECRET "000102030405060708090a0b0c0d0e0f"
#define LONG INT64_C(20000000000)

static int expect(bool good, const char *what, const gloo_error *error) {
  if (!good) fprintf(stderr, "# %s: %s\n", what, error->message);
  return good ? 0 : 1;
}
#define EXPECT(condition) \
  if (expect(condition, #condition, &error) != 0) return 1

static int forget(void **state) {
  (void)state;
  unsetenv("GLOO_SECURITY");
  unsetenv("GLOO_TLS");
  unsetenv("GLOO_JOB_SECRET");
  unsetenv("GLOO_JOB_SECRET_FILE");
  setenv("HOME", "/nonexistent", 1);
  return 0;
}

/* ---- the announced secret ------------------------------------------------ */

typedef struct told {
  int bytes; /* length of the secret in the store */
  const char *warns;
} told;

static int lines;

static void count_warnings(gloo_log_level level, const char *line, void *user) {
  (void)user;
  if (level == GLOO_LOG_WARN && strstr(line, "can join this job: ") != NULL)
    lines++;
}

/* All ranks get the same secret, and a context on a store with a secret
 * requires it. */
static int rank_is_told(int rank, void *argument) {
  const told *t = argument;
  gloo_error error = {.message = ""};
  gloo_store *store;
  gloo_value first;
  gloo_context *context;
  gloo_log_set_sink(count_warnings, NULL);
  EXPECT(gloo_store_open("pmi:", LONG, &store, &error) == GLOO_OK);
  EXPECT((int)store->told.n_bytes == t->bytes);
  /* Only a test puts the secret into a store; ranks never do. */
  if (rank == 0)
    EXPECT(gloo_store_set(store, "test", store->told.bytes, store->told.n_bytes,
                          &error) == GLOO_OK);
  EXPECT(gloo_store_get(store, "test", LONG, &first, &error) == GLOO_OK);
  EXPECT(first.bytes == store->told.n_bytes);
  EXPECT(first.bytes == 0 ||
         memcmp(first.data, store->told.bytes, first.bytes) == 0);
  free(first.data);
  EXPECT(gloo_context_create(rank, 3, store, NULL, NULL, &context, &error) ==
         GLOO_OK);
  float one = 1;
  EXPECT(gloo_allreduce(context, GLOO_IN_PLACE, &one, 1, GLOO_FLOAT32, GLOO_SUM,
                        NULL, &error) == GLOO_OK);
  EXPECT(gloo_barrier(context, NULL, &error) == GLOO_OK);
  gloo_context_destroy(context);
  gloo_store_destroy(store);
  EXPECT(lines == (rank == 0 && t->warns != NULL));
  return 0;
}

static void all_ranks_get_one_that_rank_0_draws(void **state) {
  (void)state;
  bool has_openssl = gli_openssl_version() != NULL;
  told t = {has_openssl ? 32 : 0, has_openssl ? NULL : "without OpenSSL"};
  pmi_run(&(pmi_script){.ranks = 3}, rank_is_told, &t, NULL);
}

static void none_is_drawn_where_the_user_has_one(void **state) {
  (void)state;
  told t = {0, gli_openssl_version() != NULL ? NULL : "without OpenSSL"};
  setenv("GLOO_JOB_SECRET", SECRET, 1);
  pmi_run(&(pmi_script){.ranks = 3}, rank_is_told, &t, NULL);
}

static void none_is_drawn_where_security_is_off(void **state) {
  (void)state;
  told t = {0, NULL};
  setenv("GLOO_SECURITY", "off", 1);
  pmi_run(&(pmi_script){.ranks = 3}, rank_is_told, &t, NULL);
}

/* ---- gloo_init ----------------------------------------------------------- */

static int rank_starts(int rank, void *argument) {
  const gloo_init_options *options = argument;
  gloo_error error = {.message = ""};
  gloo_context *context;
  for (int start = 0; start < 2; start++) {
    EXPECT(gloo_init(options, &context, &error) == GLOO_OK);
    EXPECT(gloo_context_rank(context) == rank);
    EXPECT(gloo_barrier(context, NULL, &error) == GLOO_OK);
    gloo_context_destroy(context);
  }
  return 0;
}

static void that_is_enough_where_a_secret_is_required(void **state) {
  (void)state;
  if (gli_openssl_version() == NULL) skip();
  setenv("GLOO_SECURITY", "required", 1);
  pmi_run(&(pmi_script){.ranks = 3}, rank_starts, NULL, NULL);
}

static void and_for_tls(void **state) {
  (void)state;
  if (gli_openssl_version() == NULL) skip();
  setenv("GLOO_TLS", "1", 1);
  pmi_run(&(pmi_script){.ranks = 3}, rank_starts, NULL, NULL);
}

static void one_in_options_goes_first(void **state) {
  (void)state;
  if (gli_openssl_version() == NULL) skip();
  gloo_context_options c = GLOO_CONTEXT_OPTIONS_INIT;
  gloo_init_options o = GLOO_INIT_OPTIONS_INIT;
  c.secret = "of this program";
  c.secret_bytes = 16;
  o.context = &c;
  pmi_run(&(pmi_script){.ranks = 3}, rank_starts, &o, NULL);
}

/* Rank 1 has a configured secret, and rank 0 has drawn another. */
static int odd_rank_is_named(int rank, void *argument) {
  gloo_error error = {.message = ""};
  gloo_context *context;
  (void)argument;
  if (rank == 1) setenv("GLOO_JOB_SECRET", SECRET, 1);
  EXPECT(gloo_init(NULL, &context, &error) == GLOO_ERR_AUTH);
  EXPECT(error.rank == 1);
  EXPECT(strstr(error.message, "rank 1 and rank 0 have different secrets"));
  return 0;
}

static void a_rank_with_another_one_is_named_by_all(void **state) {
  (void)state;
  if (gli_openssl_version() == NULL) skip();
  pmi_run(&(pmi_script){.ranks = 3}, odd_rank_is_named, NULL, NULL);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, forget, forget)

int main(void) {
  const struct CMUnitTest tests[] = {
      CASE(all_ranks_get_one_that_rank_0_draws),
      CASE(none_is_drawn_where_the_user_has_one),
      CASE(none_is_drawn_where_security_is_off),
      CASE(that_is_enough_where_a_secret_is_required),
      CASE(and_for_tls),
      CASE(one_in_options_goes_first),
      CASE(a_rank_with_another_one_is_named_by_all),
  };
  return cmocka_run_group_tests_name("launcher_secret", tests, NULL, NULL);
}
