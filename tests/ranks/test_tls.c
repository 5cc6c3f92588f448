/* TLS between ranks: ranks with the same settings communicate; if one has other
 * settings, or another rank's certificate, all of them report which one. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "../security/pki.h"
#include "gloo_c/log.h"
#include "ranks.h"

#define SECOND INT64_C(1000000000)
enum { RANKS = 3 };

static const char secret[] = "sixteen or more bytes";
static const char *folder;
static char authority[96];

/* One rank, in its own thread. */
typedef struct member {
  gloo_store *store;
  uv_barrier_t *all_done; /* shared by all members */
  int rank;
  int use;            /* value in its options */
  int paper;          /* owner of its certificate; -1: none */
  const char *secret; /* NULL: none */
  gloo_status status;
  gloo_error error;
} member;

static const char *paper_of(int rank, char path[96]) {
  snprintf(path, 96, "%s/rank%d.pem", folder, rank);
  return path;
}

static int set_up_files(void **state) {
  pki_authority *ca = pki_authority_new("the authority");
  (void)state;
  folder = pki_folder();
  snprintf(authority, sizeof authority, "%s/ca.pem", folder);
  pki_authority_write(ca, authority);
  for (int i = 0; i < RANKS; i++) {
    char path[96], names[32];
    snprintf(names, sizeof names, "URI:gloo:rank/%d", i);
    pki_issue(ca, &(pki_paper){.names = names}, paper_of(i, path), NULL);
  }
  pki_authority_free(ca);
  return 0;
}

static int tear_down_files(void **state) {
  (void)state;
  pki_folder_remove(folder);
  return 0;
}

static gloo_device *open_device(const member *m) {
  gloo_device_options d = GLOO_DEVICE_OPTIONS_INIT;
  gloo_tls_options tls = GLOO_TLS_OPTIONS_INIT;
  gloo_device *device;
  gloo_error e;
  char path[96];
  tls.use = m->use;
  if (m->paper >= 0) {
    tls.certificate = paper_of(m->paper, path);
    tls.authority = authority;
  }
  d.transport = "tcp";
  d.streams = 2;
  d.tls = &tls;
  if (gloo_device_create(&d, &device, &e) == GLOO_OK) return device;
  fprintf(stderr, "%s\n", e.message);
  abort();
}

/* Exchanges messages of all lengths between all pairs. */
static gloo_status exchange_all(gloo_context *context, gloo_error *error) {
  enum { COUNT = 100000 };
  static uint8_t in[RANKS][RANKS * COUNT], out[RANKS][RANKS * COUNT];
  int rank = gloo_context_rank(context), size = gloo_context_size(context);
  gloo_status status = GLOO_OK;
  for (int i = 0; i < size * COUNT; i++) in[rank][i] = (uint8_t)(rank + i);
  for (size_t count = 1; count <= COUNT && status == GLOO_OK; count *= 10)
    status = gloo_alltoall(context, in[rank], out[rank], count, GLOO_UINT8,
                           NULL, error);
  for (int from = 0; from < size && status == GLOO_OK; from++)
    for (int i = 0; i < COUNT; i++)
      if (out[rank][from * COUNT + i] != (uint8_t)(from + rank * COUNT + i))
        return GLOO_ERR_INTERNAL;
  return status;
}

static void be_member(void *argument) {
  member *m = argument;
  gloo_context_options o = GLOO_CONTEXT_OPTIONS_INIT;
  gloo_device *device = open_device(m);
  gloo_context *context;
  o.timeout_ns = 60 * SECOND;
  o.secret = m->secret;
  o.secret_bytes = m->secret != NULL ? strlen(m->secret) : 0;
  m->status = gloo_context_create(m->rank, RANKS, m->store, device, &o,
                                  &context, &m->error);
  if (m->status == GLOO_OK) {
    m->status = exchange_all(context, &m->error);
    gloo_context_destroy(context);
  }
  /* A rank that has left refuses connections, which others would report
   * first. */
  uv_barrier_wait(m->all_done);
  gloo_device_destroy(device);
}

static void run_members(member *members) {
  uv_thread_t threads[RANKS];
  gloo_store *store;
  uv_barrier_t all_done;
  assert_int_equal(gloo_store_memory_create(&store, NULL), GLOO_OK);
  assert_int_equal(uv_barrier_init(&all_done, RANKS), 0);
  for (int i = 0; i < RANKS; i++) {
    members[i].store = store;
    members[i].all_done = &all_done;
    members[i].rank = i;
    assert_int_equal(uv_thread_create(&threads[i], be_member, &members[i]), 0);
  }
  for (int i = 0; i < RANKS; i++) uv_thread_join(&threads[i]);
  uv_barrier_destroy(&all_done);
  gloo_store_destroy(store);
}

static void assert_all_work(const member *members) {
  for (int i = 0; i < RANKS; i++)
    if (members[i].status != GLOO_OK)
      fail_msg("rank %d: %s", i, members[i].error.message);
}

static void assert_blames(const member *m, int rank, const char *part) {
  gloo_status status = m->status;
  if (status == GLOO_ERR_POISONED) status = m->error.cause;
  if (status != GLOO_ERR_AUTH || strstr(m->error.message, part) == NULL)
    fail_msg("rank %d: %s", m->rank, m->error.message);
  if (rank >= 0) assert_int_equal(m->error.rank, rank);
}

static void assert_all_blame(const member *members, int rank,
                             const char *part) {
  for (int i = 0; i < RANKS; i++) assert_blames(&members[i], rank, part);
}

static void ranks_that_say_the_same_talk(void **state) {
  (void)state;
  for (int kind = 0; kind < 3; kind++) {
    member members[RANKS];
    for (int i = 0; i < RANKS; i++)
      members[i] = (member){.use = 1,
                            .paper = kind == 0 ? -1 : i,
                            .secret = kind == 1 ? NULL : secret};
    run_members(members);
    assert_all_work(members);
  }
}

static void all_hear_of_one_that_says_otherwise(void **state) {
  (void)state;
  for (int odd = 0; odd < RANKS; odd++) {
    for (int kind = 0; kind < 3; kind++) {
      member members[RANKS];
      for (int i = 0; i < RANKS; i++)
        members[i] =
            (member){.use = 1, .paper = kind == 2 ? i : -1, .secret = secret};
      /* The odd rank uses no TLS, or another kind. */
      members[odd].use = kind == 1 ? 1 : -1;
      if (kind == 1) members[odd].paper = odd;
      run_members(members);
      assert_all_blame(members, odd == 0 ? 1 : odd,
                       "must be the same on all ranks");
    }
  }
}

static void nothing_to_know_each_other_by_is_refused(void **state) {
  member members[RANKS];
  (void)state;
  for (int i = 0; i < RANKS; i++) members[i] = (member){.use = 1, .paper = -1};
  run_members(members);
  assert_all_blame(members, -1, "GLOO_JOB_SECRET");
}

/* Returns false if a connection was refused. A rank that has refused another
 * one exits soon, and a third one may not have connected to it yet. */
static bool found_somebody(const member *m) {
  return strstr(m->error.message, uv_strerror(UV_ECONNREFUSED)) == NULL;
}

/* Returns true if every rank refuses rank 1, and rank 1 reports why. */
static bool all_refuse_the_certificate(const char *shared_secret) {
  member members[RANKS];
  bool all = true;
  for (int i = 0; i < RANKS; i++)
    members[i] =
        (member){.use = 1, .paper = i == 1 ? 2 : i, .secret = shared_secret};
  run_members(members);
  for (int i = 0; i < RANKS; i++) {
    if (found_somebody(&members[i]))
      assert_blames(&members[i], -1, "certificate");
    else
      all = false;
  }
  return all;
}

static void certificate_of_another_rank_is_refused(void **state) {
  (void)state;
  for (int with_secret = 0; with_secret < 2; with_secret++) {
    int attempts = 8;
    while (attempts > 0 &&
           !all_refuse_the_certificate(with_secret ? secret : NULL))
      attempts--;
    assert_true(attempts > 0);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(ranks_that_say_the_same_talk),
      cmocka_unit_test(all_hear_of_one_that_says_otherwise),
      cmocka_unit_test(nothing_to_know_each_other_by_is_refused),
      cmocka_unit_test(certificate_of_another_rank_is_refused),
  };
  static const char *const variables[] = {
      "GLOO_JOB_SECRET",      "GLOO_JOB_SECRET_FILE",
      "GLOO_SECURITY",        "GLOO_TLS",
      "GLOO_TLS_KEY",         "GLOO_TLS_NAME",
      "GLOO_TLS_CERTIFICATE", "GLOO_TLS_AUTHORITY"};
  for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
    unsetenv(variables[i]);
  gloo_log_set_level(GLOO_LOG_OFF);
  setenv("HOME", "/nowhere", 1); /* hides a user's secret file */
  return cmocka_run_group_tests(tests, set_up_files, tear_down_files);
}
