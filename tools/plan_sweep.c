#include "tools/plan_sweep.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <uv.h>

#include "core/error.h"
#include "proof/check.h"
#include "tools/progress.h"
#include "tools/sample_counts.h"

enum { MAX_THREADS = 64, ELEM_BYTES = 4 };

/* Tasks are pairs of (ranks, algorithm), assigned largest first. */
typedef struct sweep {
  const gli_algorithm *algorithms;
  size_t n;
  uint32_t from, to;
  gli_sweep_result *results;
  uint32_t *failed_size; /* [n] ranks of the failure in results[].first */
  atomic_size_t next;
  uv_mutex_t lock; /* protects results */
  gloo_error error;
} sweep;

/* ---- one check ----------------------------------------------------------- */

/* Checks the promised cost, for vectors that twice the number of ranks divides.
 */
static gloo_status check_promises(const gli_algorithm *a,
                                  const gli_plan_params *p,
                                  const gli_check_report *report,
                                  gloo_error *error) {
  uint64_t vector = gli_plan_vector_bytes(p);
  uint32_t rounds = a->rounds != NULL ? a->rounds(p->size) : report->rounds;
  if (rounds != report->rounds && !report->streamed) {
    return gli_fail(error, GLOO_ERR_INTERNAL, -1,
                    "%s %s of %u ranks takes %u rounds, but declares %u",
                    gli_collective_name(a->collective), a->name, p->size,
                    report->rounds, rounds);
  }
  uint64_t bytes =
      a->bytes != NULL ? a->bytes(p->size, vector) : report->max_sent_bytes;
  if (bytes == report->max_sent_bytes) return GLOO_OK;
  return gli_fail(error, GLOO_ERR_INTERNAL, -1,
                  "%s %s of %u ranks sends up to %" PRIu64
                  " bytes per rank for a vector of %" PRIu64
                  ", but declares %" PRIu64,
                  gli_collective_name(a->collective), a->name, p->size,
                  report->max_sent_bytes, vector, bytes);
}

static void note_failure(gli_sweep_result *r, const gli_algorithm *a,
                         const gli_plan_params *p, gloo_error *error) {
  if (r->failures++ > 0) return;
  gli_error_prefix(error, "%s %s, %u ranks, root %u, count %" PRIu64 "%s%s: ",
                   gli_collective_name(a->collective), a->name, p->size,
                   p->root, p->count, p->in_place ? ", in place" : "",
                   p->segment_bytes != 0 ? ", in segments" : "");
  r->first = *error;
}

/* Checks that the algorithm keeps the order it is marked with. A scan holds
 * only sums, so it rounds one after the other. */
static gloo_status check_order(const gli_algorithm *a, const gli_plan_params *p,
                               const gli_check_report *report,
                               gloo_error *error) {
  static const char *const names[GLI_ORDERS] = {"any order", "rank order",
                                                "rank order, one by one"};
  gli_order marked = gli_algorithm_order(a);
  bool scans = p->collective == GLI_SCAN || p->collective == GLI_EXSCAN;
  if (report->order < marked) {
    return gli_fail(error, GLOO_ERR_INTERNAL, -1,
                    "%s %s of %u ranks combines in %s, but is marked with %s",
                    gli_collective_name(a->collective), a->name, p->size,
                    names[report->order], names[marked]);
  }
  if (!p->low_precision || marked < GLI_ORDER_FOLD || scans) return GLOO_OK;
  if (report->roundings <= 1) return GLOO_OK;
  return gli_fail(error, GLOO_ERR_INTERNAL, -1,
                  "%s %s of %u ranks rounds narrow elements %u times",
                  gli_collective_name(a->collective), a->name, p->size,
                  report->roundings);
}

static bool check_one(gli_checker *checker, const gli_algorithm *a,
                      const gli_plan_params *p, gli_sweep_result *r) {
  gli_check_report report;
  gloo_error error;
  gloo_status status = gli_checker_run(checker, a->build, p, &report, &error);
  bool divides = p->count != 0 && p->count % (2 * (uint64_t)p->size) == 0;
  if (status == GLOO_OK && divides && p->segment_bytes == 0) {
    status = check_promises(a, p, &report, &error);
  }
  if (status == GLOO_OK) status = check_order(a, p, &report, &error);
  if (status == GLOO_OK && report.order < r->order) r->order = report.order;
  r->plans += p->size;
  r->steps += report.steps;
  if (status == GLOO_OK) return true;
  note_failure(r, a, p, &error);
  return status != GLOO_ERR_NO_MEMORY;
}

/* ---- one number of ranks ------------------------------------------------- */

/* Returns true if a combination is skipped. With many ranks, each root gets one
 * of the counts, in place and not. Beyond GLI_SWEEP_ALL_RANKS one count is in
 * place, and the other not. */
static bool is_left_out(const gli_plan_params *p, size_t i, bool in_place) {
  if (p->size > GLI_SWEEP_ALL_RANKS) return in_place != (i == 0);
  bool many = p->size > GLI_SWEEP_ALL_PAIRS;
  return many && gli_collective_rooted(p->collective) && i != p->root % 7;
}

static bool check_counts(gli_checker *checker, const gli_algorithm *a,
                         gli_plan_params *p, gli_sweep_result *r) {
  uint64_t n = p->size;
  uint64_t counts[] = {64 * n + 13, 64 * n, 0, 1, n - 1, n, n + 1};
  size_t n_counts = n > GLI_SWEEP_ALL_RANKS ? 2 : 7;
  p->segment_bytes = 0;
  for (size_t i = 0; i < n_counts; i++) {
    for (int in_place = 0; in_place < 2; in_place++) {
      if (is_left_out(p, i, in_place != 0)) continue;
      p->count = counts[i];
      p->in_place = in_place != 0;
      if (!check_one(checker, a, p, r)) return false;
    }
  }
  return true;
}

/* Checks segments of two elements; every part of a vector is longer than one.
 */
static bool check_segments(gli_checker *checker, const gli_algorithm *a,
                           gli_plan_params *p, gli_sweep_result *r) {
  gli_plan_params one = {
      .collective = a->collective, .size = 2, .count = 1, .elem_bytes = 1};
  bool blocks = gli_plan_vector_bytes(&one) > 1;
  p->count = blocks ? 5 : 3 * (uint64_t)p->size + 1;
  p->in_place = p->size % 2 != 0;
  p->segment_bytes = 2 * ELEM_BYTES + 1;
  if (!check_one(checker, a, p, r)) return false;
  p->low_precision = gli_collective_reduces(a->collective);
  bool ok = !p->low_precision || check_one(checker, a, p, r);
  p->low_precision = false;
  return ok;
}

/* Checks uneven blocks, some of them empty; every other time in place, and with
 * gaps. */
static bool check_sample(gli_checker *checker, const gli_algorithm *a,
                         gli_plan_params p, uint64_t seed,
                         gli_sweep_result *r) {
  gli_sample_counts sample;
  p.in_place = seed % 2 != 0;
  p.segment_bytes = seed % 4 == 3 ? 5 * ELEM_BYTES : 0;
  if (!gli_sample_counts_make(&sample, a->collective, p.size, p.root, 13, seed,
                              seed % 4 >= 2, p.in_place)) {
    gli_fail(&r->first, GLOO_ERR_NO_MEMORY, -1, "out of memory for counts");
    r->failures++;
    return false;
  }
  p.counts = sample.of;
  p.count = sample.count;
  gli_check_report report;
  gloo_error error;
  gloo_status status = gli_checker_run(checker, a->build, &p, &report, &error);
  if (status == GLOO_OK) status = check_order(a, &p, &report, &error);
  gli_sample_counts_free(&sample);
  r->plans += p.size;
  r->steps += report.steps;
  if (status == GLOO_OK) return true;
  note_failure(r, a, &p, &error);
  return status != GLOO_ERR_NO_MEMORY;
}

static bool check_samples(gli_checker *checker, const gli_algorithm *a,
                          const gli_plan_params *p, gli_sweep_result *r) {
  if (p->size > GLI_SWEEP_ALL_RANKS) return true; /* P^2 numbers */
  for (uint64_t seed = 0; seed < 8; seed++) {
    if (!check_sample(checker, a, *p, seed, r)) return false;
  }
  return true;
}

static bool check_root(gli_checker *checker, const gli_algorithm *a,
                       gli_plan_params *p, gli_sweep_result *r) {
  return check_counts(checker, a, p, r) &&
         (p->size > GLI_SWEEP_ALL_RANKS || check_segments(checker, a, p, r)) &&
         (!gli_collective_counted(a->collective) ||
          check_samples(checker, a, p, r));
}

static bool check_size(gli_checker *checker, const gli_algorithm *a,
                       uint32_t size, gli_sweep_result *r) {
  gli_plan_params p = {
      .collective = a->collective, .size = size, .elem_bytes = ELEM_BYTES};
  if (!gli_collective_rooted(a->collective)) {
    return check_root(checker, a, &p, r);
  }
  if (size > GLI_SWEEP_ALL_RANKS) {
    uint32_t roots[] = {0, 1, size / 2, size - 1};
    for (int i = 0; i < 4; i++) {
      p.root = roots[i];
      if (!check_root(checker, a, &p, r)) return false;
    }
    return true;
  }
  for (p.root = 0; p.root < size; p.root++) {
    if (!check_root(checker, a, &p, r)) return false;
  }
  return true;
}

/* ---- threads ------------------------------------------------------------- */

static void add_result(sweep *s, size_t i, uint32_t size,
                       const gli_sweep_result *r) {
  uv_mutex_lock(&s->lock);
  gli_sweep_result *sum = &s->results[i];
  if (r->order < sum->order) sum->order = r->order;
  sum->plans += r->plans;
  sum->steps += r->steps;
  if (r->failures > 0 && (sum->failures == 0 || size < s->failed_size[i])) {
    sum->first = r->first;
    s->failed_size[i] = size;
  }
  sum->failures += r->failures;
  if (r->first.status == GLOO_ERR_NO_MEMORY) s->error = r->first;
  uv_mutex_unlock(&s->lock);
}

static void work(void *arg) {
  sweep *s = arg;
  gli_checker *checker = gli_checker_create(0);
  if (checker == NULL) {
    uv_mutex_lock(&s->lock);
    gli_fail(&s->error, GLOO_ERR_NO_MEMORY, -1, "out of memory for a checker");
    uv_mutex_unlock(&s->lock);
    return;
  }
  size_t items = s->n * ((size_t)(s->to - s->from) + 1);
  for (;;) {
    size_t item = atomic_fetch_add(&s->next, 1);
    if (item >= items) break;
    uint32_t size = s->to - (uint32_t)(item / s->n);
    size_t i = item % s->n;
    gli_sweep_result r = {.order = GLI_ORDER_FOLD};
    bool ok = check_size(checker, &s->algorithms[i], size, &r);
    add_result(s, i, size, &r);
    gli_progress_step();
    if (!ok) break;
  }
  gli_checker_destroy(checker);
}

static void run_threads(sweep *s, unsigned threads) {
  uv_thread_t ids[MAX_THREADS];
  unsigned started = 0;
  if (threads > MAX_THREADS) threads = MAX_THREADS;
  while (started + 1 < threads &&
         uv_thread_create(&ids[started], work, s) == 0) {
    started++;
  }
  work(s);
  for (unsigned i = 0; i < started; i++) uv_thread_join(&ids[i]);
}

gloo_status gli_sweep(const gli_algorithm *algorithms, size_t n, uint32_t from,
                      uint32_t to, unsigned threads, gli_sweep_result *results,
                      gloo_error *error) {
  sweep s = {.algorithms = algorithms,
             .n = n,
             .from = from,
             .to = to,
             .results = results};
  gli_error_clear(&s.error);
  atomic_init(&s.next, 0);
  for (size_t i = 0; i < n; i++) {
    results[i] = (gli_sweep_result){.algorithm = &algorithms[i],
                                    .order = GLI_ORDER_FOLD};
  }
  s.failed_size = calloc(n + 1, sizeof(*s.failed_size));
  if (s.failed_size == NULL || uv_mutex_init(&s.lock) != 0) {
    free(s.failed_size);
    return gli_fail(error, GLOO_ERR_NO_MEMORY, -1, "out of memory for a sweep");
  }
  run_threads(&s, threads);
  uv_mutex_destroy(&s.lock);
  free(s.failed_size);
  if (s.error.status != GLOO_OK && error != NULL) *error = s.error;
  return s.error.status;
}
