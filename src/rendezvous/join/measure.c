#include "rendezvous/join/measure.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "algorithms/tuning.h"
#include "core/error.h"
#include "core/log.h"
#include "kernels/reduce.h"

/* Sequence numbers are per tag, so these operations do not disturb those of the
 * caller. */
#define TAG UINT32_MAX

#define NOBODY (-1)

/* ---- one link ------------------------------------------------------------ */

/* Protocol of a measured link: messages go back and forth, short ones first.
 * The first byte tells the other rank how to continue. Short messages are
 * repeated more often, until their minimum is the time of the idle link. */
enum { AGAIN = 1, LONGER, ENOUGH };
enum { SIZES = 3, LONGEST = 128 << 10, MESSAGES = 24 + 6 + 8 };
static const struct {
  size_t bytes;
  int times;         /* maximum number of round trips */
  uint64_t until_ns; /* time limit, since the first message of any size */
} sizes[SIZES] = {
    {8, 24, 4000000}, {16 << 10, 6, 8000000}, {LONGEST, 8, 16000000}};
#define LIMIT_NS (sizes[SIZES - 1].until_ns)

typedef struct meter {
  gloo_context *context;
  gloo_options options;
  gloo_error *error; /* never NULL */
  uint8_t *data;     /* LONGEST bytes */
} meter;

static gloo_status measure_put(meter *m, int peer, size_t bytes) {
  return gloo_send(m->context, m->data, bytes, GLOO_UINT8, peer, &m->options,
                   m->error);
}

static gloo_status measure_get(meter *m, int peer, size_t bytes) {
  return gloo_recv(m->context, m->data, bytes, GLOO_UINT8, peer, &m->options,
                   m->error);
}

/* Holds the results for a link. */
typedef struct trips {
  uint64_t least_ns[SIZES]; /* shortest round trip; 0 if not measured */
} trips;

/* Returns the byte that follows message n of a size; `trip_ns` is the last
 * round trip, 0 if there is none. The next round trip is assumed to take as
 * long, and four times as long with the next size. */
static uint8_t what_next(int size, int n, uint64_t spent_ns, uint64_t trip_ns) {
  uint64_t then = spent_ns + 2 * trip_ns;
  bool first = size == 0 && n == 1; /* the first message also connects */
  if (n < sizes[size].times && (first || then < sizes[size].until_ns))
    return AGAIN;
  bool last = size == SIZES - 1 || spent_ns + 5 * trip_ns > LIMIT_NS;
  return last ? ENOUGH : LONGER;
}

static gloo_status measure_ping(meter *m, int peer, trips *out) {
  uint64_t began = uv_hrtime(), trip_ns = 0;
  memset(m->data, 0, LONGEST);
  *out = (trips){{0}};
  uint8_t next = AGAIN;
  for (int size = 0, n = 1; next != ENOUGH; n++) {
    uint64_t start = uv_hrtime();
    next = what_next(size, n, start - began, trip_ns);
    m->data[0] = next;
    gloo_status status = measure_put(m, peer, sizes[size].bytes);
    if (status == GLOO_OK) status = measure_get(m, peer, sizes[size].bytes);
    if (status != GLOO_OK) return status;
    trip_ns = uv_hrtime() - start;
    uint64_t *least = &out->least_ns[size];
    if (*least == 0 || trip_ns < *least) *least = trip_ns > 0 ? trip_ns : 1;
    if (next != LONGER) continue;
    size++;
    n = 0;
  }
  return GLOO_OK;
}

/* Answers at the other end of the link. */
static gloo_status measure_pong(meter *m, int peer) {
  int size = 0;
  for (int i = 0; i < MESSAGES; i++) {
    gloo_status status = measure_get(m, peer, sizes[size].bytes);
    uint8_t next = m->data[0];
    if (status == GLOO_OK) status = measure_put(m, peer, sizes[size].bytes);
    if (status != GLOO_OK || next == ENOUGH) return status;
    if (next == LONGER && size < SIZES - 1)
      size++;
    else if (next != AGAIN)
      break;
  }
  return gli_fail(m->error, GLOO_ERR_PROTOCOL, peer,
                  "rank %d measures links differently; do all ranks run the "
                  "same version of the library?",
                  peer);
}

/* ---- figures ------------------------------------------------------------- */

/* Computes the cost of a link. If a longer message was faster, its time also
 * bounds that of the short ones. */
static void take_link(gli_costs *costs, gli_link_kind kind, const trips *t) {
  uint64_t alpha_ns = t->least_ns[0] / 2, there_ns = 0;
  uint64_t beta_ps = gli_costs_estimate.link[kind].beta_ps;
  for (int size = 1; size < SIZES && t->least_ns[size] > 0; size++) {
    there_ns = t->least_ns[size] / 2;
    if (there_ns < alpha_ns) alpha_ns = there_ns;
    if (there_ns > alpha_ns)
      beta_ps = (there_ns - alpha_ns) * 1000 / sizes[size].bytes;
  }
  const gli_link_cost cost = gli_costs_snap_link(kind, alpha_ns, beta_ps);
  costs->link[kind] = cost;
  gli_log(GLOO_LOG_INFO,
          "measured %s: alpha %" PRIu64 " ns, beta %" PRIu64
          " ps per byte; using %u ns and %u ps",
          gli_link_kind_name(kind), alpha_ns, beta_ps, cost.alpha_ns,
          cost.beta_ps);
}

/* Measures reductions of vectors that exceed the caches of one core, where
 * their cost matters. */
static gloo_status take_gamma(gli_costs *costs, gloo_error *error) {
  enum { COUNT = 1 << 19, TIMES = 3 };
  float *a = calloc(2 * COUNT, sizeof *a);
  if (a == NULL) {
    return gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                    "out of memory for measuring reductions");
  }
  for (int i = 0; i < 2 * COUNT; i++) a[i] = (float)(i & 7);
  gli_reduce_fn add = gli_reduce_kernel(GLOO_FLOAT32, GLOO_SUM);
  uint64_t least_ns = UINT64_MAX;
  for (int i = 0; i < TIMES; i++) {
    uint64_t start = uv_hrtime();
    add(a, a, a + COUNT, COUNT);
    uint64_t took = uv_hrtime() - start;
    if (took < least_ns) least_ns = took;
  }
  free(a);
  uint64_t gamma_ps = least_ns * 1000 / (COUNT * sizeof *a);
  costs->gamma_ps = gli_costs_snap_gamma(gamma_ps);
  gli_log(GLOO_LOG_INFO,
          "measured reductions: gamma %" PRIu64 " ps per byte; using %u ps",
          gamma_ps, costs->gamma_ps);
  return GLOO_OK;
}

/* ---- all ranks ----------------------------------------------------------- */

/* Ranks that rank 0 exchanges messages with; all ranks find the same ones. */
typedef struct partners {
  int near, far; /* NOBODY if not measured */
} partners;

static partners find_partners(const gloo_context *context) {
  const gli_hosts *hosts = gli_context_hosts(context);
  partners p = {NOBODY, NOBODY};
  bool shares = hosts == NULL || hosts->first[1] - hosts->first[0] > 1;
  if (shares && !gli_context_oversubscribed(context))
    p.near = hosts == NULL ? 1 : (int)hosts->ranks[1];
  if (hosts != NULL) p.far = (int)hosts->ranks[hosts->first[1]];
  return p;
}

static gloo_status measure_all(meter *m, partners with, gli_costs *costs) {
  trips t;
  gloo_status status = GLOO_OK;
  *costs = gli_costs_estimate;
  if (with.near != NOBODY) {
    status = measure_ping(m, with.near, &t);
    if (status != GLOO_OK) return status;
    bool shm = gli_context_locality(m->context);
    take_link(costs, shm ? GLI_LINK_SHM : GLI_LINK_TCP, &t);
  }
  if (with.far != NOBODY) {
    status = measure_ping(m, with.far, &t);
    if (status != GLOO_OK) return status;
    take_link(costs, GLI_LINK_FAR, &t);
  }
  return take_gamma(costs, m->error);
}

/* Broadcasts the costs from rank 0. */
static gloo_status measure_share(meter *m, gli_costs *costs) {
  uint8_t bytes[GLI_COSTS_BYTES] = {0};
  if (gloo_context_rank(m->context) == 0) gli_costs_encode(costs, bytes);
  gloo_options options = m->options;
  options.algorithm = "binomial"; /* reuses the existing links */
  gloo_status status =
      gloo_broadcast(m->context, GLOO_IN_PLACE, bytes, sizeof bytes, GLOO_UINT8,
                     0, &options, m->error);
  if (status != GLOO_OK) return status;
  if (gli_costs_decode(bytes, costs)) return GLOO_OK;
  return gli_fail(m->error, GLOO_ERR_PROTOCOL, 0,
                  "rank 0 sent invalid costs; do all ranks run the same "
                  "version of the library?");
}

static gloo_status measure_run(meter *m, partners with) {
  gli_costs costs;
  int rank = gloo_context_rank(m->context);
  gloo_status status = GLOO_OK;
  if (rank == 0)
    status = measure_all(m, with, &costs);
  else if (rank == with.near || rank == with.far)
    status = measure_pong(m, 0);
  if (status == GLOO_OK) status = measure_share(m, &costs);
  if (status != GLOO_OK) return status;
  gli_tuning *tuning;
  status = gli_tuning_with_costs(gli_context_tuning(m->context), &costs,
                                 &tuning, m->error);
  if (status == GLOO_OK) gli_context_tune(m->context, tuning);
  return status;
}

gloo_status gli_measure(gloo_context *context, gloo_error *error) {
  partners with = find_partners(context);
  if (with.near == NOBODY && with.far == NOBODY) return GLOO_OK;
  meter m = {.context = context,
             .options = GLOO_OPTIONS_INIT,
             .data = malloc(LONGEST)};
  if (m.data == NULL) {
    return gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                    "out of memory for measuring links");
  }
  gloo_error none = {.status = GLOO_OK};
  m.error = error != NULL ? error : &none;
  m.options.tag = TAG;
  gloo_status status = measure_run(&m, with);
  if (status != GLOO_OK) gli_error_prefix(error, "measuring links: ");
  free(m.data);
  return status;
}
