/* Numbers hosts, given keys that only say which ranks share one. */
#include "plan/hosts.h"

#include <stdlib.h>

#include "core/error.h"

/* One allocation: two sets of hosts, then the arrays of both. */
typedef struct block {
  gli_hosts hosts, apart;
  uint32_t words[];
} block;

typedef struct named {
  uint64_t key;
  uint32_t rank;
} named;

static int hosts_by_key(const void *a, const void *b) {
  const named *x = a, *y = b;
  if (x->key != y->key) return x->key < y->key ? -1 : 1;
  return x->rank < y->rank ? -1 : x->rank > y->rank;
}

/* ---- numbering ----------------------------------------------------------- */

/* Sets lowest[r] to the lowest rank on the host of rank r. */
static bool find_lowest(const uint64_t *keys, uint32_t size, uint32_t *lowest) {
  named *sorted = calloc(size, sizeof *sorted);
  if (sorted == NULL) return false;
  for (uint32_t i = 0; i < size; i++) sorted[i] = (named){keys[i], i};
  qsort(sorted, size, sizeof *sorted, hosts_by_key);
  for (uint32_t i = 0; i < size; i++) {
    bool same = i > 0 && sorted[i].key == sorted[i - 1].key;
    lowest[sorted[i].rank] = same ? lowest[sorted[i - 1].rank] : sorted[i].rank;
  }
  free(sorted);
  return true;
}

/* A rank that is the lowest of its host starts a new number; any other takes
 * the number of the lowest rank's host. */
static uint32_t number_hosts(uint32_t *of, uint32_t size) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < size; i++) of[i] = of[i] == i ? n++ : of[of[i]];
  return n;
}

/* ---- arrays -------------------------------------------------------------- */

typedef struct arrays {
  uint32_t *of, *place, *ranks, *first, *leaders;
} arrays;

/* `first` holds the ranks per host, and then their prefix sum. */
static void count_ranks(gli_hosts *h, const arrays *a) {
  for (uint32_t i = 0; i <= h->n; i++) a->first[i] = 0;
  for (uint32_t i = 0; i < h->size; i++) {
    a->place[i] = a->first[a->of[i] + 1]++;
  }
  h->least = h->size;
  h->most = 0;
  for (uint32_t i = 1; i <= h->n; i++) {
    if (a->first[i] < h->least) h->least = a->first[i];
    if (a->first[i] > h->most) h->most = a->first[i];
    a->first[i] += a->first[i - 1];
  }
}

static void hosts_list_ranks(const gli_hosts *h, const arrays *a) {
  for (uint32_t i = 0; i < h->size; i++) {
    a->ranks[a->first[a->of[i]] + a->place[i]] = i;
    if (a->place[i] >= h->least) continue;
    a->leaders[(size_t)a->place[i] * h->n + a->of[i]] = i;
  }
}

/* Uses place[] for counters; it is filled in later. */
static void count_leaving(gli_hosts *h, const arrays *a) {
  h->leaving = 0;
  for (uint32_t i = 0; i < h->n; i++) a->place[i] = 0;
  for (uint32_t i = 0; i < h->size; i++) {
    uint32_t next = i + 1 == h->size ? 0 : i + 1;
    if (a->of[i] == a->of[next]) continue;
    uint32_t leaving = ++a->place[a->of[i]];
    if (leaving > h->leaving) h->leaving = leaving;
  }
}

static void hosts_fill(gli_hosts *h, const arrays *a) {
  count_leaving(h, a);
  count_ranks(h, a);
  hosts_list_ranks(h, a);
  h->of = a->of;
  h->place = a->place;
  h->ranks = a->ranks;
  h->first = a->first;
  h->leaders = a->leaders;
}

/* Leaders are at most as many as ranks: each host has at least `least`. */
static uint32_t *hosts_take(uint32_t *words, uint32_t size, uint32_t n,
                            arrays *a) {
  *a = (arrays){.of = words,
                .place = words + size,
                .ranks = words + 2 * (size_t)size,
                .leaders = words + 3 * (size_t)size,
                .first = words + 4 * (size_t)size};
  return a->first + n + 1;
}

/* ---- interface ----------------------------------------------------------- */

static gloo_status hosts_no_memory(uint32_t size, gloo_error *error) {
  return gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                  "out of memory for the hosts of %u ranks", size);
}

gloo_status gli_hosts_make(const uint64_t *keys, uint32_t size,
                           gli_hosts **hosts, gloo_error *error) {
  if (size == 0) {
    return gli_fail(error, GLOO_ERR_INVALID, -1, "the hosts have 0 ranks");
  }
  /* There are at most as many hosts as ranks. */
  uint64_t bytes = sizeof(block) + ((uint64_t)size + 1) * 10 * sizeof(uint32_t);
  block *b = bytes > SIZE_MAX ? NULL : malloc((size_t)bytes);
  if (b == NULL) return hosts_no_memory(size, error);
  if (!find_lowest(keys, size, b->words)) {
    free(b);
    return hosts_no_memory(size, error);
  }
  uint32_t n = number_hosts(b->words, size);
  arrays a;
  uint32_t *rest = hosts_take(b->words, size, n, &a);
  b->hosts = (gli_hosts){.size = size, .n = n, .apart = &b->apart};
  hosts_fill(&b->hosts, &a);
  b->hosts.crowd = b->hosts.most;
  hosts_take(rest, n, n, &a);
  for (uint32_t i = 0; i < n; i++) a.of[i] = i;
  b->apart = (gli_hosts){.size = n, .n = n, .apart = &b->apart};
  hosts_fill(&b->apart, &a);
  b->apart.crowd = b->apart.leaving = b->hosts.least;
  *hosts = &b->hosts;
  return GLOO_OK;
}

void gli_hosts_free(gli_hosts *hosts) {
  free(hosts); /* the first member of the block */
}
