/* The checks of `gloo doctor --selftest`, as one rank makes them. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "tools/bench.h"
#include "tools/options.h"
#include "tools/selftest.h"

enum { WRONG_SHOWN = 3, MESSAGE_BYTES = 300000 };

const char *const gli_selftest_states[GLI_SELFTEST_STATES] = {"passed",
                                                              "failed", "info"};

/* A rank. */
typedef struct tester {
  gloo_context *context;
  gli_meeting *meeting;
  int rank, ranks;
  unsigned wrong; /* wrong results of the current check */
  bool failed;    /* a check has failed here */
  bool broken;    /* the context has failed: no further check is possible */
  gli_bench_case c;
} tester;

void gli_selftest_say(gli_selftest_state state, const char *what,
                      const char *format, ...) {
  char text[sizeof((gli_selftest_line *)0)->text];
  va_list list;
  va_start(list, format);
  (void)vsnprintf(text, sizeof text, format, list);
  va_end(list);
  gli_make_printable(text);
  printf("%s %s: %s\n", gli_selftest_states[state], what, text);
  fflush(stdout);
}

/* Reports an error of a call, after which the context is of no use. */
static bool broke(tester *t, const char *what, const gloo_error *error) {
  t->failed = t->broken = true;
  gli_selftest_say(GLI_SELFTEST_FAILED, what, "rank %d: %s", t->rank,
                   error->message);
  return false;
}

static void is_wrong(tester *t, const char *what, const char *text) {
  t->failed = true;
  if (++t->wrong <= WRONG_SHOWN)
    gli_selftest_say(GLI_SELFTEST_FAILED, what, "rank %d: %s", t->rank, text);
}

/* Ends a check: rank 0 says that it passed on all ranks. */
static bool passed(tester *t, const char *what, const char *text) {
  gloo_error error;
  int32_t right = t->wrong == 0;
  t->wrong = 0;
  if (t->broken) return false;
  if (gloo_allreduce(t->context, GLOO_IN_PLACE, &right, 1, GLOO_INT32, GLOO_MIN,
                     NULL, &error) != GLOO_OK)
    return broke(t, what, &error);
  if (right == 1 && t->rank == 0)
    gli_selftest_say(GLI_SELFTEST_PASSED, what, "%s", text);
  return true;
}

/* ---- collectives --------------------------------------------------------- */

static const gloo_dtype dtypes[] = {GLOO_INT8,     GLOO_INT32,   GLOO_UINT64,
                                    GLOO_BFLOAT16, GLOO_FLOAT32, GLOO_FLOAT64};
static const gloo_op ops[] = {GLOO_SUM, GLOO_PRODUCT, GLOO_MIN, GLOO_MAX};
static const uint64_t sizes[] = {4, 3000, 65536, 1000000};
enum {
  DTYPES = sizeof dtypes / sizeof dtypes[0],
  OPS = sizeof ops / sizeof ops[0],
  SIZES = sizeof sizes / sizeof sizes[0]
};

/* Makes one call and compares each element with the expected one. */
static bool try_call(tester *t, const gli_bench_call *call, uint64_t bytes) {
  const char *what = call->algorithm != NULL ? "algorithms" : "collectives";
  gli_bench_buffers buffers;
  gloo_error error;
  char where[GLI_CASE_WHERE], text[GLI_CASE_WHERE + 128];
  gli_bench_case *c = &t->c;
  bool ready = gli_case_init(c, call, t->context, bytes) &&
               gli_case_allocate(c, &buffers);
  if (!ready) {
    gli_case_destroy(c);
    gli_fail(&error, GLOO_ERR_NO_MEMORY, -1,
             "no memory for buffers of %" PRIu64 " bytes", bytes);
    return broke(t, what, &error);
  }
  (void)gli_case_fill(c, &buffers);
  gloo_status status = gli_case_run(c, &buffers, &error);
  if (status == GLOO_OK && !gli_case_check(c, &buffers, where)) {
    (void)snprintf(text, sizeof text,
                   "wrong result of %s%s%s%s, %s %s, %" PRIu64 " bytes: %s",
                   gli_collective_name(call->collective),
                   call->algorithm != NULL ? " by " : "",
                   call->algorithm != NULL ? call->algorithm : "",
                   call->in_place ? " in place" : "",
                   gloo_dtype_name(call->dtype), gloo_op_name(call->op),
                   c->bytes, where);
    is_wrong(t, what, text);
  }
  gli_case_free(&buffers);
  gli_case_destroy(c);
  if (status == GLOO_ERR_UNSUPPORTED && call->algorithm != NULL) return true;
  return status == GLOO_OK || broke(t, what, &error);
}

/* Tries every type and size, with algorithms that the library chooses. */
static bool try_types(tester *t, gli_collective collective, unsigned *calls) {
  int ways = collective == GLI_SENDRECV ? 1 : 2;
  for (unsigned d = 0; d < DTYPES; d++)
    for (unsigned s = 0; s < SIZES; s++)
      for (int in_place = 0; in_place < ways; in_place++) {
        unsigned n = *calls / 2;
        gli_bench_call call = {.collective = collective,
                               .dtype = dtypes[d],
                               .op = ops[n % OPS],
                               .root = (int)(n % (unsigned)t->ranks),
                               .in_place = in_place == 1};
        ++*calls;
        if (!try_call(t, &call, sizes[s])) return false;
      }
  return true;
}

/* Tries every algorithm, if it can work on these ranks. */
static bool try_algorithms(tester *t, gli_collective collective,
                           unsigned *calls) {
  const char *of = gli_collective_name(collective), *name;
  for (size_t i = 0; (name = gloo_algorithm_name(of, i)) != NULL; i++)
    for (unsigned s = 0; s < SIZES; s++) {
      gli_bench_call call = {.collective = collective,
                             .dtype = GLOO_INT32,
                             .op = GLOO_SUM,
                             .root = (int)(i % (size_t)t->ranks),
                             .algorithm = name};
      ++*calls;
      if (!try_call(t, &call, sizes[s])) return false;
    }
  return true;
}

static bool check_collectives(tester *t) {
  unsigned calls = 0, chosen = 0;
  char text[160];
  for (int i = 0; i < GLI_COLLECTIVES; i++)
    if (!try_types(t, (gli_collective)i, &calls)) return false;
  (void)snprintf(text, sizeof text,
                 "%u calls of %d collectives with %d types, 4 bytes to 1 MB; "
                 "all bits are as computed",
                 calls, GLI_COLLECTIVES, DTYPES);
  if (!passed(t, "collectives", text)) return false;
  for (int i = 0; i < GLI_COLLECTIVES; i++)
    if (!try_algorithms(t, (gli_collective)i, &chosen)) return false;
  (void)snprintf(text, sizeof text, "%u calls, by every algorithm", chosen);
  return passed(t, "algorithms", text);
}

/* ---- messages ------------------------------------------------------------ */

/* Passes a message around a ring of ranks at some distance. */
static bool pass_around(tester *t, int away, size_t bytes, uint8_t *in,
                        uint8_t *out) {
  gloo_error error;
  gli_period *period = &t->c.expected;
  int to = (t->rank + away) % t->ranks;
  int from = (t->rank + t->ranks - away) % t->ranks;
  gli_period_moved(period, GLOO_UINT8, t->rank);
  gli_period_fill(period, in, 0, bytes);
  memset(out, 0xa5, bytes);
  if (gloo_sendrecv(t->context, in, bytes, to, out, bytes, from, GLOO_UINT8,
                    NULL, &error) != GLOO_OK)
    return broke(t, "messages", &error);
  gli_period_moved(period, GLOO_UINT8, from);
  size_t wrong = gli_period_mismatch(period, out, 0, bytes);
  if (wrong == bytes) return true;
  char text[128];
  (void)snprintf(text, sizeof text,
                 "byte %zu of a message of %zu bytes from rank %d is wrong",
                 wrong, bytes, from);
  is_wrong(t, "messages", text);
  return true;
}

/* Sends two messages to the next rank, which takes the second first, by its
 * tag. */
static bool swap_tags(tester *t) {
  gloo_error error = {0};
  gloo_options options[2] = {GLOO_OPTIONS_INIT, GLOO_OPTIONS_INIT};
  int32_t sent[2] = {t->rank * 2, t->rank * 2 + 1}, got[2] = {-1, -1};
  int to = (t->rank + 1) % t->ranks, from = (t->rank + t->ranks - 1) % t->ranks;
  gloo_request *sends[2] = {NULL, NULL};
  gloo_status status = GLOO_OK;
  for (uint32_t i = 0; i < 2 && status == GLOO_OK; i++) {
    options[i].tag = 7 + i;
    status = gloo_send_start(t->context, &sent[i], 1, GLOO_INT32, to,
                             &options[i], &sends[i], &error);
  }
  for (int i = 1; i >= 0 && status == GLOO_OK; i--)
    status = gloo_recv(t->context, &got[i], 1, GLOO_INT32, from, &options[i],
                       &error);
  for (int i = 0; i < 2; i++) {
    if (status == GLOO_OK)
      status = gloo_request_wait(sends[i], GLOO_TIMEOUT_DEFAULT, &error);
    gloo_request_destroy(sends[i]);
  }
  if (status != GLOO_OK) return broke(t, "messages", &error);
  if (got[0] != from * 2 || got[1] != from * 2 + 1)
    is_wrong(t, "messages", "messages with two tags were mixed up");
  return true;
}

static bool check_messages(tester *t) {
  static const size_t lengths[] = {1, 1000, 40000, MESSAGE_BYTES};
  uint8_t *in = malloc(MESSAGE_BYTES), *out = malloc(MESSAGE_BYTES);
  bool good = in != NULL && out != NULL;
  for (int away = 0; away < t->ranks && good; away++)
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0] && good; i++)
      good = pass_around(t, away, lengths[i], in, out);
  good = good && swap_tags(t);
  free(in);
  free(out);
  return good && passed(t, "messages",
                        "1 byte to 300 kB, between all pairs, and two tags");
}

/* ---- windows ------------------------------------------------------------- */

/* Each rank puts its words into the next one, reads what its other neighbour
 * got there, and adds to a counter of rank 0. */
static bool check_windows(tester *t) {
  enum { WORDS = 1000 };
  static const char what[] = "windows";
  gloo_error error;
  gloo_window *window;
  uint64_t mine[WORDS], got[WORDS] = {0};
  int next = (t->rank + 1) % t->ranks,
      last = (t->rank + t->ranks - 1) % t->ranks;
  for (uint64_t i = 0; i < WORDS; i++) mine[i] = (uint64_t)t->rank << 32 | i;
  gloo_status status = gloo_window_create(
      t->context, NULL, (WORDS + 1) * sizeof *mine, NULL, &window, &error);
  if (status == GLOO_ERR_UNSUPPORTED) {
    if (t->rank == 0)
      gli_selftest_say(GLI_SELFTEST_FIGURE, what, "%s", error.message);
    return true;
  }
  if (status != GLOO_OK) return broke(t, what, &error);
  status = gloo_window_put(window, next, 0, mine, sizeof mine, &error);
  if (status == GLOO_OK)
    status = gloo_window_fetch_add(window, 0, sizeof mine, 1, NULL, &error);
  if (status == GLOO_OK) status = gloo_window_fence(window, &error);
  if (status == GLOO_OK)
    status = gloo_window_get(window, next, 0, got, sizeof got, &error);
  if (status == GLOO_OK) status = gloo_window_flush_all(window, &error);
  const uint64_t *own = gloo_window_memory(window);
  if (status == GLOO_OK && memcmp(got, mine, sizeof mine) != 0)
    is_wrong(t, what, "a get differs from the put before it");
  if (status == GLOO_OK && (own[0] >> 32 != (uint64_t)last ||
                            (own[WORDS - 1] & UINT32_MAX) != WORDS - 1))
    is_wrong(t, what, "the put of another rank is missing");
  if (status == GLOO_OK && t->rank == 0 && own[WORDS] != (uint64_t)t->ranks)
    is_wrong(t, what, "the counter differs from the number of ranks");
  gloo_error second;
  gloo_status end = gloo_window_destroy(window, &second);
  if (status != GLOO_OK) return broke(t, what, &error);
  if (end != GLOO_OK) return broke(t, what, &second);
  return passed(t, what, "put, get, and a counter that all ranks raise");
}

/* ---- times --------------------------------------------------------------- */

static bool measure(tester *t) {
  static const uint64_t of[] = {4, 65536, 4 << 20};
  gli_bench_settings settings = {.seconds = 0.1, .warmup = 3};
  gli_bench_rank rank = {
      .settings = &settings, .context = t->context, .meeting = *t->meeting};
  gli_bench_call call = {
      .collective = GLI_ALLREDUCE, .dtype = GLOO_FLOAT32, .op = GLOO_SUM};
  char text[160] = "", bytes[GLI_BYTES_TEXT];
  size_t used = 0;
  rank.times_us = malloc(GLI_BENCH_MAX_ITERATIONS * sizeof(double));
  bool good = rank.times_us != NULL;
  for (size_t i = 0; i < sizeof of / sizeof of[0] && good; i++) {
    gli_bench_result result;
    good = gli_bench_measure(&rank, &call, of[i], &result);
    if (good && used < sizeof text)
      used += (size_t)snprintf(text + used, sizeof text - used,
                               "%s %sB %.4g us", i > 0 ? "," : "",
                               gli_format_bytes(of[i], bytes), result.p50_us);
  }
  free(rank.times_us);
  if (!good) {
    t->failed = t->broken = true;
    gli_selftest_say(GLI_SELFTEST_FAILED, "times", "rank %d: measuring failed",
                     t->rank);
  } else if (t->rank == 0) {
    gli_selftest_say(GLI_SELFTEST_FIGURE, "times", "allreduce of float32:%s",
                     text);
  }
  return good;
}

/* ---- the sequence of checks ---------------------------------------------- */

bool gli_selftest_checks(gloo_context *context, gli_meeting *meeting,
                         bool *right) {
  tester *t = calloc(1, sizeof *t);
  *right = false;
  if (t == NULL) {
    gli_selftest_say(GLI_SELFTEST_FAILED, "start", "out of memory");
    return false;
  }
  t->context = context;
  t->meeting = meeting;
  t->rank = gloo_context_rank(context);
  t->ranks = gloo_context_size(context);
  bool usable = check_collectives(t) && check_messages(t) && check_windows(t) &&
                measure(t);
  *right = !t->failed;
  free(t);
  return usable;
}
