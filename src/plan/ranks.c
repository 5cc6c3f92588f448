/* Sets of ranks: runs in the value, lists in a pool. */
#include "plan/ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct run {
  uint32_t first, end; /* [first, end), no wrap */
} run;

typedef struct list {
  size_t at;  /* index of the first run in pool->runs */
  uint32_t n; /* runs */
  uint64_t hash;
} list;

/* Cache of earlier unions: the same few unions of lists recur. */
#define MEMOS 4096
typedef struct memo {
  gli_ranks a, b, sum; /* a.n is 0 if empty */
} memo;

struct gli_ranks_pool {
  uint32_t size;
  run *runs;
  size_t n_runs, run_capacity;
  list *lists;
  uint32_t n_lists, list_capacity;
  uint32_t *table; /* list number + 1 by hash; twice list_capacity */
  memo memos[MEMOS];
};

gli_ranks_pool *gli_ranks_pool_create(uint32_t size) {
  gli_ranks_pool *pool = calloc(1, sizeof *pool);
  if (pool != NULL) pool->size = size;
  return pool;
}

void gli_ranks_pool_destroy(gli_ranks_pool *pool) {
  if (pool == NULL) return;
  free(pool->runs);
  free(pool->lists);
  free(pool->table);
  free(pool);
}

void gli_ranks_pool_reset(gli_ranks_pool *pool, uint32_t size) {
  pool->size = size;
  if (pool->n_lists == 0) return;
  memset(pool->table, 0, (size_t)pool->list_capacity * 2 * sizeof(uint32_t));
  memset(pool->memos, 0, sizeof pool->memos);
  pool->n_lists = 0;
  pool->n_runs = 0;
}

/* ---- runs of a set ------------------------------------------------------- */

/* Returns the runs of a set, ascending; `two` has room for an unlisted set. */
static const run *runs_of(const gli_ranks_pool *pool, gli_ranks s, run two[2],
                          uint32_t *n) {
  if (s.n == GLI_RANKS_LISTED) {
    const list *l = &pool->lists[s.first];
    *n = l->n;
    return &pool->runs[l->at];
  }
  if (s.n <= pool->size - s.first) {
    two[0] = (run){s.first, s.first + s.n};
    *n = 1;
    return two;
  }
  two[0] = (run){0, s.n - (pool->size - s.first)};
  two[1] = (run){s.first, pool->size};
  *n = 2;
  return two;
}

static uint64_t hash_runs(const run *runs, uint32_t n) {
  uint64_t h = n;
  for (uint32_t i = 0; i < n; i++) {
    h ^= (uint64_t)runs[i].first << 32 | runs[i].end;
    h *= 0x9E3779B97F4A7C15u;
    h ^= h >> 31;
  }
  return h;
}

/* ---- the pool ------------------------------------------------------------ */

static bool grow_lists(gli_ranks_pool *pool) {
  uint32_t capacity = pool->list_capacity == 0 ? 64 : pool->list_capacity * 2;
  list *lists = realloc(pool->lists, capacity * sizeof *lists);
  if (lists == NULL) return false;
  pool->lists = lists;
  uint32_t *table = calloc((size_t)capacity * 2, sizeof *table);
  if (table == NULL) return false;
  free(pool->table);
  pool->table = table;
  pool->list_capacity = capacity;
  for (uint32_t i = 0; i < pool->n_lists; i++) {
    size_t at = (size_t)lists[i].hash & (capacity * 2 - 1);
    while (table[at] != 0) at = (at + 1) & (capacity * 2 - 1);
    table[at] = i + 1;
  }
  return true;
}

static bool reserve_runs(gli_ranks_pool *pool, size_t n) {
  if (pool->run_capacity - pool->n_runs >= n) return true;
  size_t capacity = pool->run_capacity == 0 ? 1024 : pool->run_capacity * 2;
  while (capacity - pool->n_runs < n) capacity *= 2;
  run *runs = realloc(pool->runs, capacity * sizeof *runs);
  if (runs == NULL) return false;
  pool->runs = runs;
  pool->run_capacity = capacity;
  return true;
}

/* Makes a value of the n runs just behind the pool's last. */
static bool ranks_intern(gli_ranks_pool *pool, uint32_t n, gli_ranks *set) {
  const run *runs = &pool->runs[pool->n_runs];
  bool wraps = n == 2 && runs[0].first == 0 && runs[1].end == pool->size;
  if (n == 1) {
    *set = (gli_ranks){runs[0].first, runs[0].end - runs[0].first};
    return true;
  }
  if (wraps) {
    *set =
        (gli_ranks){runs[1].first, runs[1].end - runs[1].first + runs[0].end};
    return true;
  }
  if (pool->n_lists == pool->list_capacity && !grow_lists(pool)) return false;
  uint64_t hash = hash_runs(runs, n);
  size_t mask = (size_t)pool->list_capacity * 2 - 1;
  size_t at = (size_t)hash & mask;
  for (; pool->table[at] != 0; at = (at + 1) & mask) {
    const list *l = &pool->lists[pool->table[at] - 1];
    if (l->hash == hash && l->n == n &&
        memcmp(&pool->runs[l->at], runs, n * sizeof(run)) == 0) {
      *set = (gli_ranks){pool->table[at] - 1, GLI_RANKS_LISTED};
      return true;
    }
  }
  pool->lists[pool->n_lists] = (list){pool->n_runs, n, hash};
  pool->n_runs += n;
  pool->table[at] = ++pool->n_lists;
  *set = (gli_ranks){pool->n_lists - 1, GLI_RANKS_LISTED};
  return true;
}

/* ---- union --------------------------------------------------------------- */

static gli_ranks_result unite_lists(gli_ranks_pool *pool, gli_ranks a,
                                    gli_ranks b, bool apart, gli_ranks *sum,
                                    uint32_t *common) {
  run a_two[2], b_two[2];
  uint32_t a_n, b_n, n = 0;
  runs_of(pool, a, a_two, &a_n);
  runs_of(pool, b, b_two, &b_n);
  if (!reserve_runs(pool, (size_t)a_n + b_n)) return GLI_RANKS_NO_MEMORY;
  const run *x = runs_of(pool, a, a_two, &a_n);
  const run *y = runs_of(pool, b, b_two, &b_n);
  run *out = &pool->runs[pool->n_runs];
  for (uint32_t i = 0, j = 0; i < a_n || j < b_n;) {
    bool take_x = j == b_n || (i < a_n && x[i].first <= y[j].first);
    run next = take_x ? x[i++] : y[j++];
    if (n == 0 || next.first > out[n - 1].end) {
      out[n++] = next;
      continue;
    }
    if (apart && next.first < out[n - 1].end) {
      *common = next.first;
      return GLI_RANKS_COMMON;
    }
    if (next.end > out[n - 1].end) out[n - 1].end = next.end;
  }
  return ranks_intern(pool, n, sum) ? GLI_RANKS_OK : GLI_RANKS_NO_MEMORY;
}

static gli_ranks_result ranks_unite(gli_ranks_pool *pool, gli_ranks a,
                                    gli_ranks b, bool apart, gli_ranks *sum,
                                    uint32_t *common) {
  uint64_t h = ((uint64_t)a.first * 31 + a.n) * 0x9E3779B97F4A7C15u +
               ((uint64_t)b.first * 31 + b.n) * 0xC2B2AE3D27D4EB4Fu;
  memo *m = &pool->memos[(h >> 40) % MEMOS];
  if (m->a.n != 0 && gli_ranks_equal(m->a, a) && gli_ranks_equal(m->b, b) &&
      apart) {
    *sum = m->sum;
    return GLI_RANKS_OK;
  }
  gli_ranks_result result = unite_lists(pool, a, b, apart, sum, common);
  if (result == GLI_RANKS_OK && apart) *m = (memo){a, b, *sum};
  return result;
}

static uint32_t ranks_distance(uint32_t from, uint32_t to, uint32_t size) {
  return to >= from ? to - from : to + (size - from);
}

gli_ranks_result gli_ranks_add(gli_ranks_pool *pool, gli_ranks a, gli_ranks b,
                               gli_ranks *sum, uint32_t *common) {
  if (a.n == GLI_RANKS_LISTED || b.n == GLI_RANKS_LISTED) {
    return ranks_unite(pool, a, b, true, sum, common);
  }
  uint32_t ab = ranks_distance(a.first, b.first, pool->size);
  uint32_t ba = ranks_distance(b.first, a.first, pool->size);
  if (ab < a.n) {
    *common = b.first;
    return GLI_RANKS_COMMON;
  }
  if (ba < b.n) {
    *common = a.first;
    return GLI_RANKS_COMMON;
  }
  if (a.n + b.n == pool->size && ab == a.n) {
    *sum = (gli_ranks){0, pool->size};
    return GLI_RANKS_OK;
  }
  if (ab == a.n || ba == b.n) {
    *sum = (gli_ranks){ab == a.n ? a.first : b.first, a.n + b.n};
    return GLI_RANKS_OK;
  }
  return ranks_unite(pool, a, b, true, sum, common);
}

gli_ranks_result gli_ranks_merge(gli_ranks_pool *pool, gli_ranks a, gli_ranks b,
                                 gli_ranks *sum) {
  uint32_t common;
  return ranks_unite(pool, a, b, false, sum, &common);
}

/* ---- looking ------------------------------------------------------------- */

bool gli_ranks_first_extra(const gli_ranks_pool *pool, gli_ranks a, gli_ranks b,
                           uint32_t *rank) {
  run a_two[2], b_two[2];
  uint32_t a_n, b_n, j = 0;
  const run *x = runs_of(pool, a, a_two, &a_n);
  const run *y = runs_of(pool, b, b_two, &b_n);
  for (uint32_t i = 0; i < a_n; i++) {
    uint32_t at = x[i].first;
    while (j < b_n && y[j].end <= at) j++;
    while (j < b_n && y[j].first <= at && at < x[i].end) at = y[j++].end;
    if (at < x[i].end) {
      *rank = at;
      return true;
    }
    if (j > 0) j--;
  }
  return false;
}

void gli_ranks_print(const gli_ranks_pool *pool, gli_ranks set, char *text,
                     size_t bytes) {
  run two[2];
  uint32_t n;
  const run *runs = runs_of(pool, set, two, &n);
  size_t used = 0;
  text[0] = '\0';
  for (uint32_t i = 0; i < n; i++) {
    char one[32];
    uint32_t last = runs[i].end - 1;
    const char *comma = i == 0 ? "" : ", ";
    if (last == runs[i].first) {
      snprintf(one, sizeof one, "%s%u", comma, last);
    } else {
      snprintf(one, sizeof one, "%s%u-%u", comma, runs[i].first, last);
    }
    size_t length = strlen(one);
    if (used + length + 6 > bytes) {
      snprintf(text + used, bytes - used, ", ...");
      return;
    }
    memcpy(text + used, one, length + 1);
    used += length;
  }
}
