/* gloo plan --simulate bootstrap: estimates how long the ranks of a job take to
 * meet. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/text.h"
#include "rendezvous/join/tree_exchange.h"
#include "tools/plan_tool.h"
#include "tools/tools.h"
#include "transport/transport.h"

/* Requests to the store, as `gloo bench start` counts them: before ranks can
 * communicate with each other, and after all have met. */
enum { REQUESTS_BEFORE = 7, REQUESTS_AFTER = 3 };
/* Bytes of a request, of a reply without a value, and of a published record. */
enum { REQUEST_BYTES = 90, REPLY_BYTES = 16, RECORD_BYTES = 350 };
/* Bytes on the tree for a record that equals the one before except for key and
 * port. */
enum { SHORT_RECORD_BYTES = 40 };
/* The processor time of the store's server per request. docs/performance.md
 * says how it was measured. */
#define SERVER_NS 10000.0

typedef struct bootstrap {
  const gli_sim_model *model;
  const gli_hosts *hosts; /* NULL: all ranks share one */
  uint32_t size;
  bool tree;            /* false: every rank reads all records from the store */
  uint32_t *hosts_upto; /* [size + 1] number of changes of host before each
                           rank */
  double *up_ns, *down_ns;
} bootstrap;

typedef struct bootstrap_report {
  double store_ns, up_ns, down_ns, end_ns;
  double store_in, store_out;   /* bytes per rank */
  uint64_t most_sent, most_got; /* bytes of a rank on the tree */
  uint32_t links;               /* number of links of the rank with the most */
} bootstrap_report;

static const gli_sim_link *link_between(const bootstrap *b, uint32_t a,
                                        uint32_t c) {
  bool inside = b->hosts == NULL || b->hosts->of[a] == b->hosts->of[c];
  return inside ? &b->model->inside : &b->model->across;
}

/* Returns the bytes of the records of ranks first to end - 1 on the tree. */
static uint64_t records_bytes(const bootstrap *b, uint32_t first,
                              uint32_t end) {
  uint64_t whole = 1 + b->hosts_upto[end] - b->hosts_upto[first + 1];
  return whole * RECORD_BYTES + (end - first - whole) * SHORT_RECORD_BYTES;
}

/* Returns the time of requests that all ranks send at once: each waits for its
 * own round trips, or for the server, which serves one after the other. */
static double store_time(const bootstrap *b, uint32_t requests, double bytes) {
  const gli_sim_link *l =
      b->hosts == NULL ? &b->model->inside : &b->model->across;
  double trips = requests * 2 * (l->latency_ns + l->overhead_ns);
  double server = (double)b->size * requests * SERVER_NS;
  double wire = (double)b->size * bytes * l->per_byte_ns;
  double busy = server > wire ? server : wire;
  return trips > busy ? trips : busy;
}

/* Returns the arrival of the last byte of a message sent at `at_ns`. `fresh` is
 * true if a connection is made for it. */
static double arrival(const gli_sim_link *l, double at_ns, uint64_t bytes,
                      bool fresh) {
  double trip = fresh ? 2 * (l->latency_ns + l->overhead_ns) : 0;
  return at_ns + trip + l->overhead_ns + l->latency_ns +
         (double)bytes * l->per_byte_ns;
}

/* Later ranks come first, because earlier ranks wait for them. */
static void records_go_up(bootstrap *b, bootstrap_report *r) {
  for (uint32_t rank = b->size; rank-- > 0;) {
    gli_tree_place at = gli_tree_find(rank, b->size);
    double now = 0;
    uint64_t got = 0;
    for (uint32_t i = 0; i < at.n_children; i++) {
      uint32_t child = at.children[i];
      uint32_t end = gli_tree_find(child, b->size).end;
      if (end - child == 1) continue; /* its record was in the store */
      const gli_sim_link *l = link_between(b, rank, child);
      uint64_t bytes = records_bytes(b, child, end);
      double there = arrival(l, b->up_ns[child], bytes, true);
      now = (there > now ? there : now) + l->overhead_ns +
            (double)bytes * b->model->copy_ns;
      got += bytes;
    }
    b->up_ns[rank] = now;
    if (got > r->most_got) r->most_got = got;
    uint32_t links = at.n_children + (rank > 0);
    if (links > r->links) r->links = links;
  }
  r->up_ns = b->up_ns[0];
}

static void records_go_down(bootstrap *b, bootstrap_report *r) {
  uint64_t bytes = records_bytes(b, 0, b->size);
  b->down_ns[0] = 0;
  for (uint32_t rank = 0; rank < b->size; rank++) {
    gli_tree_place at = gli_tree_find(rank, b->size);
    double now = b->down_ns[rank];
    for (uint32_t i = at.n_children; i-- > 0;) {
      uint32_t child = at.children[i];
      const gli_sim_link *l = link_between(b, rank, child);
      bool leaf = gli_tree_find(child, b->size).end == child + 1;
      now += l->overhead_ns + l->gap_ns;
      b->down_ns[child] =
          arrival(l, now, bytes, leaf) + (double)bytes * b->model->copy_ns;
      now += (double)bytes * l->per_byte_ns;
    }
    double known = b->down_ns[rank];
    if (known > r->down_ns) r->down_ns = known;
    if (at.n_children * bytes > r->most_sent)
      r->most_sent = at.n_children * bytes;
  }
  r->most_got += bytes;
}

static bootstrap_report simulate_bootstrap(bootstrap *b) {
  bootstrap_report r = {0};
  /* On the tree, both ends of each link read a record. */
  double read = b->tree ? 1 + 2.0 * (b->size - 1) / b->size : b->size;
  r.store_in =
      (REQUESTS_BEFORE + REQUESTS_AFTER) * REQUEST_BYTES + RECORD_BYTES;
  r.store_out = (REQUESTS_BEFORE + REQUESTS_AFTER) * REPLY_BYTES +
                read * (double)RECORD_BYTES;
  r.store_ns = store_time(b, REQUESTS_BEFORE, r.store_in + r.store_out);
  if (b->tree) {
    records_go_up(b, &r);
    records_go_down(b, &r);
  }
  r.end_ns = store_time(b, REQUESTS_AFTER, REQUEST_BYTES + REPLY_BYTES);
  return r;
}

static uint32_t log2_above(uint32_t n) {
  uint32_t bits = 0;
  while (bits < 32 && UINT64_C(1) << bits < n) bits++;
  return bits;
}

static void print_report(const bootstrap *b, const bootstrap_report *r) {
  uint32_t rounds = log2_above(b->size);
  double all = r->store_ns + r->up_ns + r->down_ns + r->end_ns;
  printf(
      "\nmet         %12.3f ms: store %.3f, up the tree %.3f, down %.3f, "
      "end %.3f\n",
      all / 1e6, r->store_ns / 1e6, r->up_ns / 1e6, r->down_ns / 1e6,
      r->end_ns / 1e6);
  printf("store       %12d requests per rank, %.0f bytes in, %.0f out\n",
         REQUESTS_BEFORE + REQUESTS_AFTER, r->store_in, r->store_out);
  if (b->tree) {
    printf("tree        %12u steps up, and as many down\n", rounds);
    printf("links       %12u of a rank at most (2 log2 N is %u)\n", r->links,
           2 * rounds);
    printf("bytes       %12" PRIu64 " sent by a rank at most, %" PRIu64
           " received\n",
           r->most_sent, r->most_got);
  }
  printf("memory      %12zu bytes of keys and addresses per rank\n",
         b->size * (sizeof(gli_address) + sizeof(uint64_t)));
}

int gli_plan_bootstrap(const gli_plan_question *q, const gli_sim_model *model) {
  bootstrap b = {.model = model, .hosts = q->params.hosts};
  b.size = q->params.size;
  b.tree = b.size >= GLI_SPREAD_RANKS_MIN;
  b.hosts_upto = calloc((size_t)b.size + 1, sizeof *b.hosts_upto);
  b.up_ns = calloc(b.size, sizeof *b.up_ns);
  b.down_ns = calloc(b.size, sizeof *b.down_ns);
  bool ok = b.hosts_upto != NULL && b.up_ns != NULL && b.down_ns != NULL;
  if (ok) {
    for (uint32_t i = 0; i < b.size; i++) {
      bool other =
          i > 0 && b.hosts != NULL && b.hosts->of[i] != b.hosts->of[i - 1];
      b.hosts_upto[i + 1] = b.hosts_upto[i] + other;
    }
    printf("bootstrap of %s on %s\n", gli_count(b.size, "rank").text,
           gli_count(b.hosts != NULL ? b.hosts->n : 1, "host").text);
    gli_plan_print_links(model);
    bootstrap_report r = simulate_bootstrap(&b);
    print_report(&b, &r);
  } else {
    fprintf(stderr, "gloo plan: out of memory\n");
  }
  free(b.hosts_upto);
  free(b.up_ns);
  free(b.down_ns);
  return ok ? GLI_EXIT_OK : GLI_EXIT_FAILED;
}
