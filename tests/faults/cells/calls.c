/* All collectives, and messages, with inputs distinct for each call and results
 * checked element by element. */
#include <stdlib.h>
#include <string.h>

#include "cell.h"

enum {
  BARRIER,
  BROADCAST,
  ALLREDUCE,
  REDUCE_SCATTER,
  ALLGATHER,
  ALLTOALL,
  REDUCE,
  GATHER,
  SCATTER,
  SCAN,
  EXSCAN,
  ALLGATHERV,
  REDUCE_SCATTERV,
  GATHERV,
  SCATTERV,
  ALLTOALLV,
  RING,
  PAIRS,
  WORKERS,
  KINDS
};
const char *const cell_call_names[] = {
    "barrier",   "broadcast",  "allreduce",       "reduce_scatter", "allgather",
    "alltoall",  "reduce",     "gather",          "scatter",        "scan",
    "exscan",    "allgatherv", "reduce_scatterv", "gatherv",        "scatterv",
    "alltoallv", "ring",       "pairs",           "workers"};
const int cell_call_count = KINDS;

/* Elements per block. A call adds its number modulo ADDED, so that consecutive
 * calls differ in count; blocks of uneven length add up to two more. */
static const size_t lengths[] = {1, 8, 8, 300, 5000, 30000};
enum { ADDED = 7, UNEVEN = 3, MOST = 30000 + ADDED + UNEVEN };
enum { ROOM = MOST * CELL_MAX_RANKS };
enum { BARRIER_IN = 8 };

bool cell_work_make(cell_work *w) {
  w->in = malloc(ROOM * sizeof *w->in);
  w->out = malloc(ROOM * sizeof *w->out);
  return w->in != NULL && w->out != NULL;
}

void cell_work_free(cell_work *w) {
  free(w->in);
  free(w->out);
}

/* ---- which call ---------------------------------------------------------- */

cell_call cell_call_draw(int kind, unsigned seed, unsigned n, int ranks) {
  unsigned random = seed * 7919u + n;
  (void)cell_random(&random, 2);
  size_t length =
      lengths[cell_random(&random, sizeof lengths / sizeof lengths[0])];
  return (cell_call){.kind = n % BARRIER_IN == BARRIER_IN - 1 ? BARRIER : kind,
                     .number = n,
                     .count = length + n % ADDED,
                     .type = GLOO_UINT32,
                     .op = GLOO_SUM,
                     .root = (int)cell_random(&random, (unsigned)ranks)};
}

static bool combines(int kind) {
  return kind == ALLREDUCE || kind == REDUCE_SCATTER || kind == REDUCE ||
         kind == SCAN || kind == EXSCAN || kind == REDUCE_SCATTERV;
}

static bool has_root(int kind) {
  return kind == BROADCAST || kind == REDUCE || kind == GATHER ||
         kind == SCATTER || kind == GATHERV || kind == SCATTERV;
}

bool cell_call_departs(int kind, cell_departure departure) {
  switch (departure) {
    case CELL_NONE:
      return true;
    case CELL_OP:
      return combines(kind);
    case CELL_ROOT:
      return has_root(kind);
    case CELL_ALONE:
      return kind >= RING;
    default: /* barriers have no variants */
      return kind != BARRIER;
  }
}

/* Turns the call into a collective in which this rank waits for others. */
static void call_alone(cell_call *call, int rank, int ranks) {
  call->kind = (int)(call->number % (SCAN - BARRIER));
  bool gives = call->kind == BROADCAST || call->kind == SCATTER;
  call->root = gives ? (rank + 1) % ranks : rank;
}

void cell_call_depart(cell_call *call, cell_departure departure, int rank,
                      int ranks) {
  switch (departure) {
    case CELL_COUNT:
      call->count++;
      break;
    case CELL_TYPE:
      call->type = GLOO_INT32;
      break;
    case CELL_OP:
      call->op = GLOO_MAX;
      break;
    case CELL_ROOT:
      call->root = (call->root + 1) % ranks;
      break;
    case CELL_EXTRA:
      call->kind = BARRIER;
      break;
    case CELL_ALONE:
      call_alone(call, rank, ranks);
      break;
    default:
      break;
  }
}

/* ---- blocks -------------------------------------------------------------- */

/* Returns the length of the block from rank `from` to rank `to` in calls with
 * uneven blocks. */
static size_t uneven(const cell_call *call, int from, int to) {
  return call->count + (size_t)(from + to) % UNEVEN;
}

typedef struct blocks {
  size_t counts[CELL_MAX_RANKS], at[CELL_MAX_RANKS];
} blocks;

/* Returns the blocks of `rank`; with `together`, all ranks have the same. */
static blocks blocks_of(const cell_call *call, int rank, int ranks,
                        bool together) {
  blocks b = {{0}, {0}};
  size_t at = 0;
  for (int r = 0; r < ranks; r++) {
    b.counts[r] = uneven(call, together ? 0 : rank, r);
    b.at[r] = at;
    at += b.counts[r];
  }
  return b;
}

/* ---- contents ------------------------------------------------------------ */

static uint32_t content(const cell_call *call, int rank, size_t at) {
  return (uint32_t)(rank + 1) * 2654435761u + call->number * 40503u +
         (uint32_t)at;
}

static void fill(cell_work *w, const cell_call *call) {
  size_t n = (call->count + UNEVEN) * (size_t)w->ranks;
  for (size_t i = 0; i < n && i < ROOM; i++)
    w->in[i] = content(call, w->rank, i);
  memset(w->out, 0xa5, (n < ROOM ? n : ROOM) * sizeof *w->out);
}

/* Returns true if `n` elements of the output from `at` on are sums over ranks
 * `first` to `end` - 1 of their elements from `source` on. */
static bool holds(const cell_work *w, const cell_call *call, size_t at,
                  size_t n, int first, int end, size_t source) {
  for (size_t i = 0; i < n; i++) {
    uint32_t sum = 0;
    for (int r = first; r < end; r++) sum += content(call, r, source + i);
    if (w->out[at + i] != sum) return false;
  }
  return true;
}

/* Returns true if block r holds the input of rank r, from its start, or with
 * `own` from this rank's block on. */
static bool holds_even(const cell_work *w, const cell_call *call, bool own) {
  size_t n = call->count, source = own ? (size_t)w->rank * n : 0;
  for (int r = 0; r < w->ranks; r++)
    if (!holds(w, call, (size_t)r * n, n, r, r + 1, source)) return false;
  return true;
}

static bool holds_uneven(const cell_work *w, const cell_call *call, bool own) {
  blocks mine = blocks_of(call, w->rank, w->ranks, !own);
  for (int r = 0; r < w->ranks; r++) {
    size_t source = own ? blocks_of(call, r, w->ranks, false).at[w->rank] : 0;
    if (!holds(w, call, mine.at[r], mine.counts[r], r, r + 1, source))
      return false;
  }
  return true;
}

static int partner(const cell_work *w) {
  int other = w->rank ^ 1;
  return other < w->ranks ? other : w->rank;
}

static bool is_right(const cell_work *w, const cell_call *call) {
  size_t n = call->count, own = (size_t)w->rank * n;
  int before = (w->rank + w->ranks - 1) % w->ranks;
  blocks all = blocks_of(call, 0, w->ranks, true);
  switch (call->kind) {
    case BROADCAST:
      return holds(w, call, 0, n, call->root, call->root + 1, 0);
    case ALLREDUCE:
      return holds(w, call, 0, n, 0, w->ranks, 0);
    case REDUCE:
      return w->rank != call->root || holds(w, call, 0, n, 0, w->ranks, 0);
    case REDUCE_SCATTER:
      return holds(w, call, 0, n, 0, w->ranks, own);
    case REDUCE_SCATTERV:
      return holds(w, call, 0, all.counts[w->rank], 0, w->ranks,
                   all.at[w->rank]);
    case ALLGATHER:
      return holds_even(w, call, false);
    case ALLTOALL:
      return holds_even(w, call, true);
    case ALLGATHERV:
      return holds_uneven(w, call, false);
    case ALLTOALLV:
      return holds_uneven(w, call, true);
    case GATHER:
      return w->rank != call->root || holds_even(w, call, false);
    case GATHERV:
      return w->rank != call->root || holds_uneven(w, call, false);
    case SCATTER:
      return holds(w, call, 0, n, call->root, call->root + 1, own);
    case SCATTERV:
      return holds(w, call, 0, all.counts[w->rank], call->root, call->root + 1,
                   all.at[w->rank]);
    case SCAN:
      return holds(w, call, 0, n, 0, w->rank + 1, 0);
    case EXSCAN:
      return w->rank == 0 || holds(w, call, 0, n, 0, w->rank, 0);
    case RING:
      return holds(w, call, 0, n, before, before + 1, 0);
    case PAIRS:
      return holds(w, call, 0, n, partner(w), partner(w) + 1, 0);
    case WORKERS:
      return w->rank == 0 || holds(w, call, 0, n, 0, 1, 0);
    default:
      return true;
  }
}

/* ---- the calls ----------------------------------------------------------- */

static gloo_status pass_on(const cell_work *w, const cell_call *call) {
  gloo_request *sending;
  int to = (w->rank + 1) % w->ranks, from = (w->rank + w->ranks - 1) % w->ranks;
  gloo_status status = gloo_send_start(w->context, w->in, call->count,
                                       call->type, to, NULL, &sending, NULL);
  if (status != GLOO_OK) return status;
  status =
      gloo_recv(w->context, w->out, call->count, call->type, from, NULL, NULL);
  gloo_status sent = gloo_request_wait(sending, GLOO_TIMEOUT_DEFAULT, NULL);
  gloo_request_destroy(sending);
  return status == GLOO_OK ? sent : status;
}

/* Rank 0 receives a message from each of the others, then answers them. */
static gloo_status serve(const cell_work *w, const cell_call *call) {
  gloo_status status = GLOO_OK;
  for (int r = 1; r < w->ranks && status == GLOO_OK; r++)
    status =
        gloo_recv(w->context, w->out, call->count, call->type, r, NULL, NULL);
  for (int r = 1; r < w->ranks && status == GLOO_OK; r++)
    status =
        gloo_send(w->context, w->in, call->count, call->type, r, NULL, NULL);
  return status;
}

static gloo_status work(const cell_work *w, const cell_call *call) {
  if (w->rank == 0) return serve(w, call);
  return gloo_sendrecv(w->context, w->in, call->count, 0, w->out, call->count,
                       0, call->type, NULL, NULL);
}

static gloo_status make_counted(const cell_work *w, const cell_call *call) {
  blocks all = blocks_of(call, 0, w->ranks, true);
  blocks own = blocks_of(call, w->rank, w->ranks, false);
  size_t mine = all.counts[w->rank];
  switch (call->kind) {
    case ALLGATHERV:
      return gloo_allgatherv(w->context, w->in, w->out, all.counts, all.at,
                             call->type, NULL, NULL);
    case REDUCE_SCATTERV:
      return gloo_reduce_scatterv(w->context, w->in, w->out, all.counts,
                                  call->type, call->op, NULL, NULL);
    case GATHERV:
      return gloo_gatherv(w->context, w->in, mine, w->out, all.counts, all.at,
                          call->type, call->root, NULL, NULL);
    case SCATTERV:
      return gloo_scatterv(w->context, w->in, all.counts, all.at, w->out, mine,
                           call->type, call->root, NULL, NULL);
    case ALLTOALLV:
      return gloo_alltoallv(w->context, w->in, own.counts, own.at, w->out,
                            own.counts, own.at, call->type, NULL, NULL);
    case RING:
      return pass_on(w, call);
    case WORKERS:
      return work(w, call);
    default:
      return gloo_sendrecv(w->context, w->in, call->count, partner(w), w->out,
                           call->count, partner(w), call->type, NULL, NULL);
  }
}

static gloo_status make_even(const cell_work *w, const cell_call *c) {
  switch (c->kind) {
    case BARRIER:
      return gloo_barrier(w->context, NULL, NULL);
    case BROADCAST:
      return gloo_broadcast(w->context, w->in, w->out, c->count, c->type,
                            c->root, NULL, NULL);
    case ALLREDUCE:
      return gloo_allreduce(w->context, w->in, w->out, c->count, c->type, c->op,
                            NULL, NULL);
    case REDUCE_SCATTER:
      return gloo_reduce_scatter(w->context, w->in, w->out, c->count, c->type,
                                 c->op, NULL, NULL);
    case ALLGATHER:
      return gloo_allgather(w->context, w->in, w->out, c->count, c->type, NULL,
                            NULL);
    case ALLTOALL:
      return gloo_alltoall(w->context, w->in, w->out, c->count, c->type, NULL,
                           NULL);
    case REDUCE:
      return gloo_reduce(w->context, w->in, w->out, c->count, c->type, c->op,
                         c->root, NULL, NULL);
    case GATHER:
      return gloo_gather(w->context, w->in, w->out, c->count, c->type, c->root,
                         NULL, NULL);
    case SCATTER:
      return gloo_scatter(w->context, w->in, w->out, c->count, c->type, c->root,
                          NULL, NULL);
    case SCAN:
      return gloo_scan(w->context, w->in, w->out, c->count, c->type, c->op,
                       NULL, NULL);
    case EXSCAN:
      return gloo_exscan(w->context, w->in, w->out, c->count, c->type, c->op,
                         NULL, NULL);
    default:
      return make_counted(w, c);
  }
}

gloo_status cell_call_make(cell_work *w, const cell_call *call, bool *wrong) {
  fill(w, call);
  gloo_status status = make_even(w, call);
  if (status == GLOO_OK && !is_right(w, call)) *wrong = true;
  return status;
}
