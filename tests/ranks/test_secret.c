/* The job's secret: ranks with the same secret communicate; if one has another
 * or none, all of them report which one, and none waits for it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

#include "engine/engine.h"
#include "gloo_c/log.h"
#include "ranks.h"
#include "rendezvous/join/bootstrap.h"
#include "security/keys.h"

#define SECOND INT64_C(1000000000)
enum { MOST_RANKS = 4 };

static const char *transport;
static const char right[] = "sixteen or more bytes";
static const char wrong[] = "as many bytes, but others";

/* One rank, in its own thread. */
typedef struct member {
  gloo_store *store;
  uv_barrier_t *all_done; /* shared by all members */
  int rank, size;
  const char *secret;        /* set in its options; NULL: none */
  const uint8_t *job_key;    /* key of ranks that do not publish theirs */
  const gli_key *record_key; /* key with which these sign their records */
  gloo_status status;
  gloo_error error;
} member;

static gloo_status add_up(gloo_context *context, gloo_error *error) {
  int size = gloo_context_size(context);
  int64_t in = gloo_context_rank(context), out = 0;
  gloo_status status =
      gloo_allreduce(context, &in, &out, 1, GLOO_INT64, GLOO_SUM, NULL, error);
  if (status == GLOO_OK && out != size * (size - 1) / 2)
    return GLOO_ERR_INTERNAL;
  int64_t all[MOST_RANKS], more[MOST_RANKS] = {0};
  if (status == GLOO_OK) /* between all pairs */
    status = gloo_alltoall(context, more, all, 1, GLOO_INT64, NULL, error);
  return status;
}

static gloo_device *open_device(void) {
  gloo_device_options d = GLOO_DEVICE_OPTIONS_INIT;
  gloo_device *device;
  d.transport = transport;
  d.streams = 2;
  if (gloo_device_create(&d, &device, NULL) != GLOO_OK) abort();
  return device;
}

static void be_member(void *argument) {
  member *m = argument;
  gloo_context_options o = GLOO_CONTEXT_OPTIONS_INIT;
  gloo_device *device = open_device();
  gloo_context *context;
  o.timeout_ns = 60 * SECOND;
  o.secret = m->secret;
  o.secret_bytes = m->secret != NULL ? strlen(m->secret) : 0;
  m->status = gloo_context_create(m->rank, m->size, m->store, device, &o,
                                  &context, &m->error);
  if (m->status == GLOO_OK) {
    m->status = add_up(context, &m->error);
    gloo_context_destroy(context);
  }
  gloo_device_destroy(device);
}

static void run_members(member *members, int size, uv_thread_cb body) {
  uv_thread_t threads[MOST_RANKS];
  gloo_store *store;
  uv_barrier_t all_done;
  assert_int_equal(gloo_store_memory_create(&store, NULL), GLOO_OK);
  assert_int_equal(uv_barrier_init(&all_done, (unsigned)size), 0);
  for (int i = 0; i < size; i++) {
    members[i].store = store;
    members[i].all_done = &all_done;
    members[i].rank = i;
    members[i].size = size;
    assert_int_equal(uv_thread_create(&threads[i], body, &members[i]), 0);
  }
  for (int i = 0; i < size; i++) uv_thread_join(&threads[i]);
  uv_barrier_destroy(&all_done);
  gloo_store_destroy(store);
}

static void assert_all_work(const member *members, int size) {
  for (int i = 0; i < size; i++)
    if (members[i].status != GLOO_OK)
      fail_msg("rank %d: %s", i, members[i].error.message);
}

static void assert_all_blame(const member *members, int size, int rank,
                             const char *part) {
  for (int i = 0; i < size; i++) {
    assert_int_equal(members[i].status, GLOO_ERR_AUTH);
    assert_int_equal(members[i].error.rank, rank);
    if (strstr(members[i].error.message, part) == NULL)
      fail_msg("rank %d: %s", i, members[i].error.message);
  }
}

static void secret_in_the_options(void **state) {
  (void)state;
  for (int size = 1; size <= MOST_RANKS; size++) {
    member members[MOST_RANKS] = {{.secret = right},
                                  {.secret = right},
                                  {.secret = right},
                                  {.secret = right}};
    run_members(members, size, be_member);
    assert_all_work(members, size);
  }
}

static void secret_in_the_environment(void **state) {
  (void)state;
  member members[MOST_RANKS] = {{.secret = NULL}};
  setenv("GLOO_JOB_SECRET", "000102030405060708090a0b0c0d0e0f", 1);
  run_members(members, 3, be_member);
  unsetenv("GLOO_JOB_SECRET");
  assert_all_work(members, 3);
}

static void all_hear_of_another_secret(void **state) {
  (void)state;
  if (gli_openssl_version() == NULL) skip();
  for (int odd = 0; odd < 3; odd++) {
    member members[MOST_RANKS] = {
        {.secret = right}, {.secret = right}, {.secret = right}};
    members[odd].secret = wrong;
    run_members(members, 3, be_member);
    /* If two secrets differ, rank 0's counts as correct. */
    assert_all_blame(members, 3, odd == 0 ? 1 : odd, "different secret");
  }
}

static void all_hear_of_a_missing_secret(void **state) {
  (void)state;
  if (gli_openssl_version() == NULL) skip();
  for (int odd = 0; odd < 3; odd++) {
    member members[MOST_RANKS] = {
        {.secret = right}, {.secret = right}, {.secret = right}};
    members[odd].secret = NULL;
    run_members(members, 3, be_member);
    if (odd == 0)
      assert_all_blame(members, 3, 1, "rank 1 has a secret, unlike rank 0");
    else
      assert_all_blame(members, 3, odd, "has no secret, unlike rank 0");
  }
}

static void required_secret_is_missing(void **state) {
  (void)state;
  member members[MOST_RANKS] = {{.secret = NULL}};
  setenv("GLOO_SECURITY", "require", 1);
  run_members(members, 1, be_member);
  gloo_status alone = members[0].status;
  run_members(members, 2, be_member);
  unsetenv("GLOO_SECURITY");
  assert_int_equal(alone, GLOO_OK); /* a job of one rank has no peers */
  for (int i = 0; i < 2; i++)
    assert_int_equal(members[i].status, GLOO_ERR_AUTH);
}

/* ---- processes: GLOO_SECURITY is one for all ranks of a process ---------- */

static int be_process(const char *folder, int rank) {
  gloo_store_file_options f = GLOO_STORE_FILE_OPTIONS_INIT;
  gloo_store *store;
  member m = {.rank = rank, .size = 2, .secret = right};
  f.directory = folder;
  if (rank == 1) setenv("GLOO_SECURITY", "off", 1);
  if (gloo_store_file_create(&f, &store, NULL) != GLOO_OK) return 2;
  m.store = store;
  be_member(&m);
  gloo_store_destroy(store);
  bool told = m.error.rank == 1 && strstr(m.error.message, "no secret") != NULL;
  return m.status == GLOO_ERR_AUTH && told ? 0 : 1;
}

static void rank_that_does_not_look_at_secrets_is_named(void **state) {
  (void)state;
  if (strcmp(transport, "inproc") == 0 || gli_openssl_version() == NULL) skip();
  char folder[] = "/tmp/gloo_c_secret_XXXXXX", command[80];
  assert_non_null(mkdtemp(folder));
  pid_t children[2];
  for (int i = 0; i < 2; i++) {
    children[i] = fork();
    assert_true(children[i] >= 0);
    if (children[i] == 0) _exit(be_process(folder, i));
  }
  for (int i = 0; i < 2; i++) {
    int status;
    assert_int_equal(waitpid(children[i], &status, 0), children[i]);
    assert_int_equal(status, 0);
  }
  snprintf(command, sizeof command, "rm -r %s", folder);
  assert_int_equal(system(command), 0);
}

/* ---- pairs verify the key, whatever is published ------------------------- */

static void be_liar(void *argument) {
  member *m = argument;
  gloo_device *device = open_device();
  gloo_context *context;
  const gli_agreement agreement = {
      .asks = true, .mark = 1, .record_key = m->record_key};
  uint64_t key = 4711 + (uint64_t)m->rank;
  uint32_t rank = (uint32_t)m->rank, size = (uint32_t)m->size;
  m->status = gli_context_open(device, rank, size, key, m->job_key, 60 * SECOND,
                               &context, &m->error);
  if (m->status != GLOO_OK) abort();
  m->status = gli_bootstrap_ranks(context, m->store, key, NULL, &agreement,
                                  60 * SECOND, NULL, &m->error);
  if (m->status == GLOO_OK)
    m->status = gli_context_join_tree(context, &m->error);
  if (m->status == GLOO_OK) m->status = add_up(context, &m->error);
  if (m->status == GLOO_ERR_POISONED) m->status = m->error.cause;
  /* Each rank receives the others' refusals before one of them leaves. */
  uv_barrier_wait(m->all_done);
  gli_context_close(context);
  gloo_device_destroy(device);
}

static void pairs_refuse_another_secret(void **state) {
  static const uint8_t keys[2][GLI_JOB_KEY_BYTES] = {"one", "another"};
  (void)state;
  if (strcmp(transport, "inproc") == 0 || gli_openssl_version() == NULL) skip();
  for (int odd = 0; odd < 3; odd++) {
    member members[MOST_RANKS] = {
        {.job_key = keys[0]}, {.job_key = keys[0]}, {.job_key = keys[0]}};
    members[odd].job_key = odd == 1 ? NULL : keys[1];
    run_members(members, 3, be_liar);
    for (int i = 0; i < 3; i++)
      if (members[i].status != GLOO_ERR_AUTH)
        fail_msg("rank %d of 3, %d is odd: %s", i, odd,
                 members[i].error.message);
  }
}

static void all_see_a_record_without_the_right_tag(void **state) {
  static const uint8_t job_key[GLI_JOB_KEY_BYTES] = "one";
  const gli_key right_key = {{1}}, wrong_key = {{2}};
  (void)state;
  if (gli_openssl_version() == NULL) skip();
  for (int odd = 0; odd < 3; odd++) {
    member members[MOST_RANKS] = {{.status = GLOO_OK}};
    for (int i = 0; i < 3; i++) {
      members[i].job_key = job_key;
      members[i].record_key = i == odd ? &wrong_key : &right_key;
    }
    run_members(members, 3, be_liar);
    for (int i = 0; i < 3; i++) {
      int blamed = i == odd ? (odd == 0 ? 1 : 0) : odd;
      if (members[i].status != GLOO_ERR_AUTH ||
          members[i].error.rank != blamed ||
          strstr(members[i].error.message, "the record of rank") == NULL)
        fail_msg("rank %d of 3, %d is odd: %s", i, odd,
                 members[i].error.message);
    }
  }
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(secret_in_the_options),
      cmocka_unit_test(secret_in_the_environment),
      cmocka_unit_test(all_hear_of_another_secret),
      cmocka_unit_test(all_hear_of_a_missing_secret),
      cmocka_unit_test(required_secret_is_missing),
      cmocka_unit_test(rank_that_does_not_look_at_secrets_is_named),
      cmocka_unit_test(pairs_refuse_another_secret),
      cmocka_unit_test(all_see_a_record_without_the_right_tag),
  };
  transport = argc > 1 ? argv[1] : "inproc";
  gloo_log_set_level(GLOO_LOG_OFF);
  unsetenv("GLOO_JOB_SECRET");
  unsetenv("GLOO_JOB_SECRET_FILE");
  unsetenv("GLOO_SECURITY");
  setenv("HOME", "/nowhere", 1); /* hides a user's secret file */
  return cmocka_run_group_tests_name(transport, tests, NULL, NULL);
}
