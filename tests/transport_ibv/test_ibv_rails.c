/* Long messages over several ports: contents, shares, and failures of ports. The
 * stand-in counts the bytes of each port, and fails one as STANDIN_PORTS says. */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/bytes.h"
#include "ranks/ranks.h"
#include "transport_ibv/lanes.h"

enum {
  MIN = 1 << 20, /* GLOO_IBV_RAILS_MIN */
  BYTES = 4 << 20,
  ROOM = BYTES + 64,
  TRIES = 2000,
  ROUNDS = 8
};

static unsigned long (*moved)(const char *name);
static atomic_int n_dropped, n_left_out;
static char last_dropped[512];

static void load_standin(void) {
  void *library = dlopen("libibverbs.so.1", RTLD_NOW);
  void *symbol = library != NULL ? dlsym(library, "standin_moved") : NULL;
  if (symbol == NULL) {
    fprintf(stderr, "this needs the stand-in for libibverbs\n");
    exit(1);
  }
  memcpy(&moved, &symbol, sizeof moved);
}

static void on_line(gloo_log_level level, const char *line, void *user) {
  (void)level;
  (void)user;
  if (strstr(line, "no longer reads from rank") != NULL) {
    if (atomic_fetch_add(&n_dropped, 1) == 0)
      (void)snprintf(last_dropped, sizeof last_dropped, "%s", line);
  }
  if (strstr(line, "is not used between ranks") != NULL)
    atomic_fetch_add(&n_left_out, 1);
}

/* ---- messages ------------------------------------------------------------ */

/* Buffers of a rank, registered. */
typedef struct rail_buffers {
  uint8_t *out, *in;
  uint32_t seed; /* number of the next message, alike on both ranks */
} rail_buffers;

static void buffers_begin(rank_env *env, rail_buffers *b) {
  b->out = malloc(ROOM);
  b->in = malloc(ROOM);
  b->seed = 1;
  RANK_CHECK(env, b->out != NULL && b->in != NULL);
  RANK_OK(env, gloo_memory_register(b->out, ROOM, NULL));
  RANK_OK(env, gloo_memory_register(b->in, ROOM, NULL));
}

static void buffers_end(rank_env *env, rail_buffers *b) {
  RANK_OK(env, gloo_memory_deregister(b->out, NULL));
  RANK_OK(env, gloo_memory_deregister(b->in, NULL));
  free(b->out);
  free(b->in);
}

static uint8_t rail_byte(uint32_t seed, size_t i) {
  return (uint8_t)(seed * 31 + i % 251 + i / 65536);
}

/* Passes a message from rank `from` to the other, at an offset of the buffers.
 * Bytes around it must stay. */
static gloo_status pass(rank_env *env, rail_buffers *b, int from, size_t at,
                        size_t bytes) {
  uint32_t seed = b->seed++;
  if (env->rank == from) {
    for (size_t i = 0; i < bytes; i++) b->out[at + i] = rail_byte(seed, i);
    return gloo_send(env->context, b->out + at, bytes, GLOO_UINT8, 1 - from,
                     NULL, NULL);
  }
  memset(b->in, 0xee, ROOM);
  gloo_status status =
      gloo_recv(env->context, b->in + at, bytes, GLOO_UINT8, from, NULL, NULL);
  if (status != GLOO_OK) return status;
  size_t i = bytes; /* the last bytes may be late */
  while (i > 0 && b->in[at + i - 1] == rail_byte(seed, i - 1)) i--;
  RANK_CHECK(env, i == 0);
  RANK_CHECK(env, at == 0 || b->in[at - 1] == 0xee);
  RANK_CHECK(env, b->in[at + bytes] == 0xee);
  return status;
}

static void rail_barrier(rank_env *env) {
  RANK_OK(env, gloo_barrier(env->context, NULL, NULL));
}

/* Returns the bytes that `name` has moved; both ranks get the same number. */
static unsigned long moved_now(rank_env *env, const char *name) {
  rail_barrier(env);
  unsigned long n = moved(name);
  rail_barrier(env);
  return n;
}

/* Passes messages until the port `name` carries parts in both directions. Returns
 * false if it carries none after TRIES messages. */
static bool warm_up(rank_env *env, rail_buffers *b, const char *name) {
  int in_a_row = 0;
  for (int i = 0; i < TRIES && in_a_row < 2; i++) {
    unsigned long before = moved_now(env, name);
    RANK_OK(env, pass(env, b, i % 2, 0, MIN));
    in_a_row = moved_now(env, name) >= before + MIN / 8 ? in_a_row + 1 : 0;
  }
  return in_a_row == 2;
}

/* Returns the shares of ports a and b in a number of messages. */
static void pass_many(rank_env *env, rail_buffers *b, int n,
                      unsigned long share[2]) {
  unsigned long before[2] = {moved_now(env, "a"), moved_now(env, "b")};
  for (int i = 0; i < n; i++)
    RANK_OK(env, pass(env, b, i % 2, (size_t)i % 7, BYTES + (size_t)i % 5));
  share[0] = moved_now(env, "a") - before[0];
  share[1] = moved_now(env, "b") - before[1];
}

/* ---- all ports work ------------------------------------------------------ */

static void use_all(rank_env *env) {
  static const size_t sizes[] = {32768,   MIN - 1,     MIN,          MIN + 1,
                                 2 * MIN, MIN + 12345, 3 * MIN + 77, BYTES};
  rail_buffers b;
  unsigned long share[2];
  buffers_begin(env, &b);
  RANK_CHECK(env, warm_up(env, &b, "b"));
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    unsigned long before = moved_now(env, "b");
    for (size_t at = 0; at < 4; at++)
      for (int from = 0; from < 2; from++)
        RANK_OK(env, pass(env, &b, from, at, sizes[i]));
    bool used = moved_now(env, "b") != before;
    RANK_CHECK(env, used == (sizes[i] >= MIN));
  }
  pass_many(env, &b, ROUNDS, share);
  gloo_answer route = {.text = ""};
  RANK_OK(env, gloo_context_route(env->context, 1 - env->rank, &route, NULL));
  RANK_CHECK(env, strcmp(route.text, "RDMA over 2 ports") == 0);
  RANK_CHECK(env, share[0] + share[1] >= (unsigned long)ROUNDS * BYTES);
  RANK_CHECK(env, share[0] + share[1] < (unsigned long)ROUNDS * BYTES + MIN);
  for (int i = 0; i < 2; i++)
    RANK_CHECK(env, share[i] > (unsigned long)ROUNDS * BYTES / 3);
  buffers_end(env, &b);
}

/* Several messages of a pair at once, and in both directions. */
static void use_at_once(rank_env *env) {
  enum { N = 5, EACH = MIN + 4097 };
  uint8_t *out = NULL, *in = NULL;
  gloo_request *sends[N], *receives[N];
  rail_buffers b;
  buffers_begin(env, &b);
  RANK_CHECK(env, warm_up(env, &b, "b"));
  RANK_OK(env, gloo_alloc((size_t)N * EACH, (void **)&out, NULL));
  RANK_OK(env, gloo_alloc((size_t)N * EACH, (void **)&in, NULL));
  for (int round = 0; round < 3; round++) {
    for (uint32_t n = 0; n < N; n++) {
      gloo_options call = GLOO_OPTIONS_INIT;
      call.tag = n;
      for (size_t i = 0; i < EACH; i++)
        out[n * EACH + i] = rail_byte(n + (uint32_t)env->rank, i);
      RANK_OK(env,
              gloo_recv_start(env->context, in + n * EACH, EACH, GLOO_UINT8,
                              1 - env->rank, &call, &receives[n], NULL));
      RANK_OK(env,
              gloo_send_start(env->context, out + n * EACH, EACH, GLOO_UINT8,
                              1 - env->rank, &call, &sends[n], NULL));
    }
    for (uint32_t n = 0; n < N; n++) {
      RANK_OK(env, gloo_request_wait(receives[n], GLOO_TIMEOUT_DEFAULT, NULL));
      RANK_OK(env, gloo_request_wait(sends[n], GLOO_TIMEOUT_DEFAULT, NULL));
      gloo_request_destroy(receives[n]);
      gloo_request_destroy(sends[n]);
      size_t i = 0;
      while (i < EACH &&
             in[n * EACH + i] == rail_byte(n + 1 - (uint32_t)env->rank, i))
        i++;
      RANK_CHECK(env, i == EACH);
    }
  }
  gloo_free(out);
  gloo_free(in);
  buffers_end(env, &b);
}

static void ranks_use(void (*body)(rank_env *env)) {
  ranks_options o = {.transport = "ibv"};
  gloo_log_set_level(GLOO_LOG_INFO);
  gloo_log_set_sink(on_line, NULL);
  ranks_run(2, &o, body);
  gloo_log_set_sink(NULL, NULL);
}

static void messages_share_all_ports(void **state) {
  (void)state;
  ranks_use(use_all);
  assert_int_equal(atomic_load(&n_dropped) + atomic_load(&n_left_out), 0);
}

static void messages_at_once_are_kept_apart(void **state) {
  (void)state;
  ranks_use(use_at_once);
}

static void use_one(rank_env *env) {
  rail_buffers b;
  unsigned long share[2];
  buffers_begin(env, &b);
  pass_many(env, &b, ROUNDS, share);
  RANK_CHECK(env, share[0] >= (unsigned long)ROUNDS * BYTES);
  RANK_CHECK(env, share[1] == 0);
  buffers_end(env, &b);
}

static void one_port_is_the_default(void **state) {
  (void)state;
  ranks_use(use_one);
}

/* ---- ports that differ --------------------------------------------------- */

static void use_slow(rank_env *env) {
  rail_buffers b;
  unsigned long share[2];
  buffers_begin(env, &b);
  RANK_CHECK(env, warm_up(env, &b, "b"));
  pass_many(env, &b, ROUNDS, share);
  RANK_CHECK(env, share[0] > 2 * share[1]);
  RANK_CHECK(env, share[1] > 0);
  buffers_end(env, &b);
}

static void a_slow_port_takes_less(void **state) {
  (void)state;
  ranks_use(use_slow);
}

/* Rank 0 has ports a, b and c, the other a and c. */
static void use_uneven(rank_env *env) {
  rail_buffers b;
  unsigned long share[2];
  buffers_begin(env, &b);
  RANK_CHECK(env, warm_up(env, &b, "c"));
  unsigned long before = moved_now(env, "c");
  pass_many(env, &b, ROUNDS, share);
  RANK_CHECK(env, share[0] > BYTES);
  RANK_CHECK(env, share[1] == 0);
  RANK_CHECK(env, moved_now(env, "c") - before > BYTES);
  buffers_end(env, &b);
}

static void ports_of_one_network_are_joined(void **state) {
  (void)state;
  ranks_use(use_uneven);
  assert_int_equal(atomic_load(&n_dropped) + atomic_load(&n_left_out), 0);
}

/* ---- ports that fail ----------------------------------------------------- */

/* Messages have the right contents, and in the end none goes over b. */
static void use_without_b(rank_env *env) {
  rail_buffers b;
  unsigned long share[2];
  buffers_begin(env, &b);
  for (int i = 0; i < 20; i++) pass_many(env, &b, 2, share);
  while (n_dropped + n_left_out < 2) pass_many(env, &b, 2, share);
  pass_many(env, &b, ROUNDS, share);
  RANK_CHECK(env, share[0] >= (unsigned long)ROUNDS * BYTES);
  RANK_CHECK(env, share[1] == 0);
  buffers_end(env, &b);
}

static void a_port_without_a_path_is_left_out(void **state) {
  (void)state;
  ranks_use(use_without_b);
  assert_int_equal(atomic_load(&n_left_out), 2); /* at each end */
  assert_int_equal(atomic_load(&n_dropped), 0);
}

static void a_port_that_fails_its_trial_is_left_out(void **state) {
  (void)state;
  ranks_use(use_without_b);
  assert_int_equal(atomic_load(&n_dropped), 2);
  assert_non_null(
      strstr(last_dropped, "the rail b:1: transport retry counter exceeded"));
  assert_int_equal(moved("b"), 0);
}

static void others_take_over_from_a_failing_port(void **state) {
  (void)state;
  ranks_use(use_without_b);
  assert_int_equal(atomic_load(&n_dropped), 2);
  assert_non_null(strstr(last_dropped, "over the rail b:1: "));
  assert_true(moved("b") > MIN);
}

/* Keys that permit nothing end the pair, and name the port. */
static void use_bad_keys(rank_env *env) {
  rail_buffers b;
  gloo_error error = {.message = ""};
  gloo_status status = GLOO_OK;
  buffers_begin(env, &b);
  for (int i = 0; i < TRIES && status == GLOO_OK; i++)
    status = pass(env, &b, 0, 0, BYTES);
  RANK_CHECK(env, status != GLOO_OK);
  RANK_CHECK(env, gloo_context_error(env->context, &error) != GLOO_OK);
  if (env->rank == 1)
    RANK_CHECK(env, strstr(error.message,
                           "rank 1 cannot read a message of rank 0 over its "
                           "rails; the last failed: b:1: remote access "
                           "error") != NULL);
  buffers_end(env, &b);
}

static void keys_that_permit_nothing_end_the_pair(void **state) {
  (void)state;
  ranks_use(use_bad_keys);
}

/* ---- notes --------------------------------------------------------------- */

static bool hears(gli_ibv_lanes *lanes, uint32_t note, const void *data,
                  size_t bytes) {
  return gli_ibv_lanes_hear(lanes, note, data, bytes);
}

static void bad_notes_are_refused(void **state) {
  (void)state;
  static gli_ibv_lanes lanes;
  static uint8_t data[(GLI_IBV_RAILS_MAX + 1) * GLI_IBV_LANE_BYTES];
  for (size_t i = 0; i < sizeof data; i += GLI_IBV_LANE_BYTES)
    data[i + 6] = IBV_MTU_1024;
  assert_false(hears(&lanes, GLI_IBV_LANES_OFFER, data, sizeof data));
  assert_false(hears(&lanes, GLI_IBV_LANES_OFFER, data, 51));
  assert_false(hears(&lanes, GLI_IBV_LANES_CONNECTED, data, 4));
  assert_false(hears(&lanes, GLI_IBV_LANES_READY, data, 4));
  assert_false(hears(&lanes, GLI_IBV_LANES_NONE, data, 0));
  assert_false(hears(&lanes, 4, data, 4));
  data[6] = 0; /* no MTU */
  assert_false(hears(&lanes, GLI_IBV_LANES_OFFER, data, GLI_IBV_LANE_BYTES));
  memset(&lanes, 0, sizeof lanes);
  data[6] = IBV_MTU_1024;
  assert_true(hears(&lanes, GLI_IBV_LANES_OFFER, data, GLI_IBV_LANE_BYTES));
  assert_false(hears(&lanes, GLI_IBV_LANES_OFFER, data, GLI_IBV_LANE_BYTES));
  assert_int_equal(lanes.n_far, 1);
  /* As if two lanes were being connected. */
  lanes.said = GLI_IBV_LANES_CONNECTED;
  lanes.state = GLI_IBV_LANES_CONNECTING;
  lanes.n = 2;
  lanes.connected = 1;
  gli_put_u32(data, 3);
  assert_false(hears(&lanes, GLI_IBV_LANES_READY, data, 4));
  gli_put_u32(data, 4);
  assert_false(hears(&lanes, GLI_IBV_LANES_CONNECTED, data, 4));
  gli_put_u32(data, 3);
  assert_false(hears(&lanes, GLI_IBV_LANES_CONNECTED, data, 3));
  assert_true(hears(&lanes, GLI_IBV_LANES_CONNECTED, data, 4));
  assert_false(hears(&lanes, GLI_IBV_LANES_CONNECTED, data, 4));
  assert_false(hears(&lanes, GLI_IBV_LANES_READY, data, 4)); /* not connected */
  gli_put_u32(data, 1);
  assert_true(hears(&lanes, GLI_IBV_LANES_READY, data, 4));
  assert_int_equal(lanes.far_up, 1);
  /* Keys count only after READY of this end, one for each lane. */
  assert_false(gli_ibv_lanes_allow(&lanes, 16));
  lanes.up_said = 1;
  assert_true(gli_ibv_lanes_allow(&lanes, 16));
  assert_false(gli_ibv_lanes_allow(&lanes, 12));
  assert_false(gli_ibv_lanes_allow(&lanes, 20));
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(messages_share_all_ports),
      cmocka_unit_test(messages_at_once_are_kept_apart),
      cmocka_unit_test(bad_notes_are_refused),
      cmocka_unit_test(one_port_is_the_default),
      cmocka_unit_test(a_slow_port_takes_less),
      cmocka_unit_test(ports_of_one_network_are_joined),
      cmocka_unit_test(a_port_without_a_path_is_left_out),
      cmocka_unit_test(a_port_that_fails_its_trial_is_left_out),
      cmocka_unit_test(others_take_over_from_a_failing_port),
      cmocka_unit_test(keys_that_permit_nothing_end_the_pair),
  };
  load_standin();
  if (argc < 2) return 2;
  cmocka_set_test_filter(argv[1]);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
