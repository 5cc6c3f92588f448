/* The checker's data structures against simple ones: sets of ranks against
 * arrays of flags, content against arrays of bytes, packed steps against plain
 * steps. */
#include <stdlib.h>
#include <string.h>

#include "plan/cmocka_all.h"
#include "plan/content.h"
#include "plan/pack.h"
#include "plan/random.h"
#include "plan/ranks.h"

/* ---- sets of ranks ------------------------------------------------------- */

enum { MAX_RANKS = 40, SETS = 64 };

typedef struct plain_set {
  bool has[MAX_RANKS];
} plain_set;

static bool any_common(const plain_set *a, const plain_set *b) {
  for (int i = 0; i < MAX_RANKS; i++) {
    if (a->has[i] && b->has[i]) return true;
  }
  return false;
}

static void check_sum(const gli_ranks_pool *pool, gli_ranks sum,
                      const plain_set *plain, uint32_t size) {
  for (uint32_t i = 0; i < size; i++) {
    uint32_t extra;
    gli_ranks one = {i, 1};
    bool outside = gli_ranks_first_extra(pool, one, sum, &extra);
    assert_int_equal(outside, !plain->has[i]);
  }
}

static void sets_are_united_like_flags(void **state) {
  (void)state;
  uint64_t seed = 7;
  gli_ranks_pool *pool = gli_ranks_pool_create(1);
  for (int round = 0; round < 300; round++) {
    uint32_t size = 1 + random_below(&seed, MAX_RANKS);
    gli_ranks_pool_reset(pool, size);
    gli_ranks sets[SETS];
    plain_set plain[SETS];
    memset(plain, 0, sizeof(plain));
    for (uint32_t i = 0; i < SETS; i++) {
      if (i < size) {
        sets[i] = (gli_ranks){i, 1};
        plain[i].has[i] = true;
        continue;
      }
      uint32_t a = random_below(&seed, i), b = random_below(&seed, i), common;
      bool apart = !any_common(&plain[a], &plain[b]);
      gli_ranks sum;
      gli_ranks_result result =
          gli_ranks_add(pool, sets[a], sets[b], &sum, &common);
      assert_int_equal(result, apart ? GLI_RANKS_OK : GLI_RANKS_COMMON);
      if (!apart) {
        assert_true(plain[a].has[common] && plain[b].has[common]);
        assert_int_equal(gli_ranks_merge(pool, sets[a], sets[b], &sum),
                         GLI_RANKS_OK);
      }
      for (uint32_t j = 0; j < size; j++) {
        plain[i].has[j] = plain[a].has[j] || plain[b].has[j];
      }
      sets[i] = sum;
      check_sum(pool, sum, &plain[i], size);
    }
    for (uint32_t i = 0; i < SETS; i++) { /* equal sets are equal values */
      for (uint32_t j = 0; j < i; j++) {
        bool same = memcmp(&plain[i], &plain[j], sizeof(plain[i])) == 0;
        assert_int_equal(gli_ranks_equal(sets[i], sets[j]), same);
      }
    }
  }
  gli_ranks_pool_destroy(pool);
}

static void differences_of_sets_are_found(void **state) {
  (void)state;
  gli_ranks_pool *pool = gli_ranks_pool_create(20);
  gli_ranks a, b;
  uint32_t rank;
  assert_int_equal(
      gli_ranks_merge(pool, (gli_ranks){2, 3}, (gli_ranks){10, 2}, &a),
      GLI_RANKS_OK);
  assert_int_equal(gli_ranks_merge(pool, a, (gli_ranks){18, 4}, &b),
                   GLI_RANKS_OK);
  assert_false(gli_ranks_first_extra(pool, a, b, &rank));
  assert_true(gli_ranks_first_extra(pool, b, a, &rank));
  assert_int_equal(rank, 0);
  assert_true(gli_ranks_first_extra(pool, (gli_ranks){0, 20}, b, &rank));
  assert_int_equal(rank, 5);
  char text[64];
  gli_ranks_print(pool, b, text, sizeof(text));
  assert_string_equal(text, "0-4, 10-11, 18-19");
  gli_ranks_print(pool, b, text, 14);
  assert_string_equal(text, "0-4, ...");
  gli_ranks_pool_destroy(pool);
}

/* ---- content ------------------------------------------------------------- */

enum { SPACE = 60, SIZE = 16 };

typedef struct plain_byte {
  bool defined;
  gli_ranks ranks;
  uint64_t source;
} plain_byte;

static void expand(const gli_content *c, plain_byte out[SPACE]) {
  memset(out, 0, SPACE * sizeof(*out));
  uint64_t behind = 0;
  for (size_t i = 0; i < c->n; i++) {
    assert_true(c->pieces[i].start >= behind);
    assert_true(c->pieces[i].end > c->pieces[i].start);
    behind = c->pieces[i].end;
    for (uint64_t j = 0; j < gli_piece_blocks(&c->pieces[i]); j++) {
      gli_piece b = gli_piece_block(&c->pieces[i], SIZE, j);
      for (uint64_t x = b.start; x < b.end; x++) {
        out[x] = (plain_byte){true, b.ranks, b.source + (x - b.start)};
      }
    }
  }
}

static void expect_same(const gli_content *c, const plain_byte *plain,
                        size_t n) {
  plain_byte has[SPACE];
  expand(c, has);
  for (size_t i = 0; i < n; i++) {
    assert_int_equal(has[i].defined, plain[i].defined);
    if (!has[i].defined) continue;
    assert_true(gli_ranks_equal(has[i].ranks, plain[i].ranks));
    assert_int_equal(has[i].source, plain[i].source);
  }
}

/* Blocks of a few bytes that often continue the adjacent block. */
static void random_content(uint64_t *seed, uint64_t bytes, gli_content *c,
                           plain_byte *plain) {
  c->n = 0;
  uint32_t block = 1 + random_below(seed, 4);
  uint32_t first = random_below(seed, SIZE), step = random_below(seed, 3);
  uint32_t shape = random_below(seed, 3);
  for (uint64_t at = 0, j = 0; at < bytes; j++) {
    uint64_t end = at + block < bytes ? at + block : bytes;
    if (random_below(seed, 12) == 0) first = random_below(seed, SIZE);
    gli_piece p = {.start = at,
                   .end = end,
                   .source = shape == 0 ? 0 : at,
                   .ranks = {(uint32_t)((first + j * step) % SIZE),
                             shape == 2 ? 1 + (uint32_t)j % 3 : 1}};
    assert_true(gli_content_append(c, SIZE, p));
    for (uint64_t x = at; x < end; x++) {
      plain[x] = (plain_byte){true, p.ranks, p.source + (x - at)};
    }
    at = end;
  }
}

static void content_is_read_and_written_like_bytes(void **state) {
  (void)state;
  uint64_t seed = 3;
  gli_content c = {0}, part = {0};
  for (int round = 0; round < 400; round++) {
    plain_byte plain[SPACE], fresh[SPACE];
    memset(plain, 0, sizeof(plain));
    c.n = 0;
    for (int i = 0; i < 40; i++) {
      uint64_t at = random_below(&seed, SPACE);
      uint64_t bytes = 1 + random_below(&seed, (uint32_t)(SPACE - at));
      random_content(&seed, bytes, &part, fresh);
      expect_same(&part, fresh, (size_t)bytes);
      assert_true(gli_content_write(&c, SIZE, at, bytes, &part));
      memcpy(&plain[at], fresh, (size_t)bytes * sizeof(*plain));
      expect_same(&c, plain, SPACE);
      at = random_below(&seed, SPACE);
      bytes = 1 + random_below(&seed, (uint32_t)(SPACE - at));
      assert_true(gli_content_read(&c, SIZE, at, bytes, &part));
      expect_same(&part, &plain[at], (size_t)bytes);
      uint64_t gap = 0;
      while (gap < bytes && plain[at + gap].defined) gap++;
      assert_int_equal(gli_content_first_gap(&part, bytes), gap);
    }
  }
  gli_content_free(&c);
  gli_content_free(&part);
}

static void regular_blocks_take_one_piece(void **state) {
  (void)state;
  gli_content c = {0};
  for (uint32_t i = 0; i < 10000; i++) { /* an allgather */
    gli_piece p = {
        .start = 8 * (uint64_t)i, .end = 8 * (uint64_t)i + 8, .ranks = {i, 1}};
    assert_true(gli_content_append(&c, 10000, p));
  }
  assert_int_equal(c.n, 1);
  gli_content_free(&c);
}

/* ---- packed steps -------------------------------------------------------- */

static void expect_unpacked(const gli_step *steps, size_t n, gli_pack *pack,
                            size_t window) {
  gli_step *out = calloc(n + 1, sizeof(*out));
  assert_true(gli_pack_fill(pack, steps, n));
  size_t at = 0, got;
  while ((got = gli_pack_take(pack, out + at, window)) > 0) at += got;
  assert_int_equal(at, n);
  for (size_t i = 0; i < n; i++) {
    assert_int_equal(out[i].kind, steps[i].kind);
    assert_int_equal(out[i].incoming_first, steps[i].incoming_first);
    assert_int_equal(out[i].a_buffer, steps[i].a_buffer);
    assert_int_equal(out[i].b_buffer, steps[i].b_buffer);
    assert_int_equal(out[i].dst_buffer, steps[i].dst_buffer);
    assert_int_equal(out[i].peer, steps[i].peer);
    assert_int_equal(out[i].role, steps[i].role);
    assert_int_equal(out[i].window, steps[i].window);
    assert_int_equal(out[i].n, steps[i].n);
    assert_int_equal(out[i].own, steps[i].own);
    assert_int_equal(out[i].put, steps[i].put);
    assert_int_equal(out[i].n_puts, steps[i].n_puts);
    assert_int_equal(out[i].stride, steps[i].stride);
    assert_int_equal(out[i].slot, steps[i].slot);
    assert_int_equal(out[i].a, steps[i].a);
    assert_int_equal(out[i].b, steps[i].b);
    assert_int_equal(out[i].dst, steps[i].dst);
    assert_int_equal(out[i].bytes, steps[i].bytes);
  }
  free(out);
}

static void packed_steps_come_out_as_they_were(void **state) {
  (void)state;
  uint64_t seed = 11;
  gli_pack pack = {0};
  enum { N = 500 };
  gli_step steps[N];
  for (int round = 0; round < 300; round++) {
    uint32_t period = 1 + random_below(&seed, 5);
    uint32_t noise = 2 + random_below(&seed, 100);
    for (uint32_t i = 0; i < N; i++) {
      steps[i] = (gli_step){.kind = (uint8_t)(i % period % 4),
                            .peer = i % period,
                            .slot = i / period,
                            .role = (uint8_t)(i % period % 3),
                            .window = 2 * i,
                            .n = i % period,
                            .own = period,
                            .put = 5000 - i,
                            .n_puts = i % period,
                            .stride = 64 * (i % period),
                            .a = 1000 - (i / period),
                            .dst = 8 * (uint64_t)i,
                            .bytes = 8};
      if (random_below(&seed, noise) == 0) steps[i].dst = random_next(&seed);
      if (random_below(&seed, noise) == 0) steps[i].peer++;
      if (random_below(&seed, noise) == 0) steps[i].bytes++;
      if (random_below(&seed, noise) == 0) steps[i].window++;
      if (random_below(&seed, noise) == 0) steps[i].put++;
      if (random_below(&seed, noise) == 0) steps[i].n++;
      if (random_below(&seed, noise) == 0) steps[i].own++;
      if (random_below(&seed, noise) == 0) steps[i].n_puts++;
      if (random_below(&seed, noise) == 0) steps[i].role++;
      if (random_below(&seed, noise) == 0) steps[i].stride++;
    }
    expect_unpacked(steps, random_below(&seed, N + 1), &pack,
                    1 + random_below(&seed, 40));
  }
  for (uint32_t i = 0; i < N; i++) {
    steps[i] = (gli_step){.slot = i, .a = 8 * (uint64_t)i, .bytes = 8};
  }
  expect_unpacked(steps, N, &pack, 7);
  assert_true(pack.n_lines <= 2);
  gli_pack_free(&pack);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sets_are_united_like_flags),
      cmocka_unit_test(differences_of_sets_are_found),
      cmocka_unit_test(content_is_read_and_written_like_bytes),
      cmocka_unit_test(regular_blocks_take_one_piece),
      cmocka_unit_test(packed_steps_come_out_as_they_were),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
