/* The dependency pass against an oracle that compares all pairs of steps. */
#include <stdlib.h>
#include <string.h>

#include "plan/cmocka_all.h"
#include "plan/depend.h"
#include "plan/random.h"

enum { MAX_STEPS = 120 };

/* ---- the oracle ---------------------------------------------------------- */

typedef struct touch {
  uint8_t buffer;
  uint64_t offset, bytes;
  bool writes;
} touch;

enum { MAX_GETS = 5, MAX_TOUCHES = 4 + MAX_GETS };

static bool copied; /* inputs, by steps */

static int touches(const gli_step *s, touch t[MAX_TOUCHES]) {
  int n = 0;
  bool exposes = s->role == GLI_ROLE_EXPOSE_PUT;
  if (s->kind != GLI_STEP_RECV && s->kind != GLI_STEP_COPY_IN) {
    t[n++] = (touch){s->a_buffer, s->a, s->bytes,
                     s->kind == GLI_STEP_SEND && exposes};
  }
  if (s->kind == GLI_STEP_REDUCE) {
    t[n++] = (touch){s->b_buffer, s->b, s->bytes, false};
  }
  if (s->kind == GLI_STEP_SEND && s->role == GLI_ROLE_PUT) {
    t[n++] = (touch){GLI_WINDOW, s->window, 1, false};
  }
  for (uint32_t k = 0; gli_step_has_blocks(s) && k < s->n; k++) {
    t[n++] = (touch){s->b_buffer, s->b + k * s->stride, s->bytes, false};
  }
  if (s->n_puts > 0) {
    t[n++] = (touch){GLI_WINDOW, s->put, s->n_puts, false};
  }
  bool leaves = s->kind == GLI_STEP_COPY_OUT && s->dst_buffer == GLI_TOKEN;
  if (s->kind != GLI_STEP_SEND && !leaves) {
    bool receives = s->kind == GLI_STEP_RECV && exposes;
    t[n++] = (touch){s->dst_buffer, s->dst, receives ? 1 : s->bytes, true};
  }
  return n;
}

/* Returns true if step x must wait for the earlier step y. */
static bool conflict(const gli_step *x, const gli_step *y) {
  if (x->kind == GLI_STEP_SEND && x->lane != 0 && x->lane == y->lane) {
    return true;
  }
  touch a[MAX_TOUCHES], b[MAX_TOUCHES];
  int n = touches(x, a), m = touches(y, b);
  for (int i = 0; i < n; i++) {
    for (int j = 0; j < m; j++) {
      if (a[i].buffer != b[j].buffer || (!a[i].writes && !b[j].writes))
        continue;
      if (a[i].buffer == GLI_IN && !copied) continue;
      if (a[i].offset < b[j].offset + b[j].bytes &&
          b[j].offset < a[i].offset + a[i].bytes) {
        return true;
      }
    }
  }
  return false;
}

typedef bool matrix[MAX_STEPS][MAX_STEPS]; /* [later][earlier] */

static void close_over(matrix m, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) {
    for (uint32_t j = i; j-- > 0;) {
      if (!m[i][j]) continue;
      for (uint32_t k = 0; k < j; k++) m[i][k] = m[i][k] || m[j][k];
    }
  }
}

/* Compares the transitive closures. The pass may leave out edges that others
 * imply, and must add no edge that conflicts do not require. */
static void compare(gli_depend *d, const gli_step *steps, uint32_t n) {
  static matrix wanted, found, direct;
  memset(wanted, 0, sizeof(wanted));
  memset(found, 0, sizeof(found));
  memset(direct, 0, sizeof(direct));
  for (uint32_t i = 0; i < n; i++) {
    for (uint32_t j = 0; j < i; j++) {
      direct[i][j] = wanted[i][j] = conflict(&steps[i], &steps[j]);
    }
  }
  assert_true(gli_depend_derive(d, steps, n, copied));
  for (size_t i = 0; i < d->n_edges; i++) {
    gli_edge e = d->edges[i];
    assert_true(e.from < e.to && e.to < n);
    assert_false(found[e.to][e.from]); /* none twice */
    assert_true(direct[e.to][e.from]);
    found[e.to][e.from] = true;
    if (i > 0) assert_true(d->edges[i - 1].to <= e.to);
  }
  close_over(wanted, n);
  close_over(found, n);
  assert_memory_equal(wanted, found, sizeof(wanted));
}

/* ---- random steps -------------------------------------------------------- */

/* Turns some steps into steps for memory of other ranks. */
static void refer(gli_step *s, uint64_t *seed, uint32_t longest) {
  bool message = s->kind == GLI_STEP_SEND || s->kind == GLI_STEP_RECV;
  if (message) s->role = (uint8_t)random_below(seed, GLI_ROLES);
  if (message && random_below(seed, 4) == 0) {
    s->lane = (uint8_t)random_below(seed, 4);
  }
  s->window = random_below(seed, 8);
  if (s->kind == GLI_STEP_SEND && s->role == GLI_ROLE_EXPOSE_PUT) {
    s->a_buffer = s->dst_buffer; /* never IN */
  }
  if (s->kind == GLI_STEP_RECV && s->role == GLI_ROLE_EXPOSE_PUT) {
    s->dst_buffer = GLI_WINDOW;
    s->dst = s->window;
  }
  if (gli_step_has_blocks(s)) {
    s->b_buffer = GLI_SCRATCH;
    s->n = 1 + random_below(seed, MAX_GETS);
    s->stride = random_below(seed, 2 * longest);
  }
  if (s->kind == GLI_STEP_REDUCE_ALL || s->kind == GLI_STEP_RECV_REDUCE) {
    s->put = random_below(seed, 8);
    s->n_puts = random_below(seed, 4);
  }
}

static gli_step random_step(uint64_t *seed, uint32_t space, uint32_t longest) {
  static const uint8_t sources[] = {GLI_IN, GLI_OUT, GLI_OUT, GLI_SCRATCH,
                                    GLI_TOKEN};
  static const uint8_t targets[] = {GLI_OUT, GLI_OUT, GLI_SCRATCH, GLI_TOKEN};
  gli_step s = {.kind = (uint8_t)random_below(seed, GLI_STEP_KINDS),
                .a_buffer = sources[random_below(seed, 5)],
                .b_buffer = sources[random_below(seed, 5)],
                .dst_buffer = targets[random_below(seed, 4)],
                .a = random_below(seed, space),
                .b = random_below(seed, space),
                .dst = random_below(seed, space),
                .bytes = 1 + random_below(seed, longest)};
  if (s.kind == GLI_STEP_COPY_IN && copied && random_below(seed, 2) == 0)
    s.dst_buffer = GLI_IN;
  if (random_below(seed, 3) == 0) { /* read what is overwritten */
    s.a_buffer = s.dst_buffer;
    s.a = s.dst;
  }
  refer(&s, seed, longest);
  return s;
}

static void edges_are_those_of_all_pairs(void **state) {
  (void)state;
  uint64_t seed = 1;
  gli_depend d = {0};
  for (int round = 0; round < 1500; round++) {
    gli_step steps[MAX_STEPS];
    uint32_t n = 1 + random_below(&seed, MAX_STEPS);
    copied = round % 2 == 1;
    uint32_t space = 1 + random_below(&seed, 300);
    uint32_t longest = 1 + random_below(&seed, space);
    for (uint32_t i = 0; i < n; i++) {
      steps[i] = random_step(&seed, space, longest);
      if (round % 5 == 0) { /* large offsets test the sort */
        steps[i].a <<= 40;
        steps[i].b <<= 40;
        steps[i].stride <<= 40;
        if (steps[i].dst_buffer != GLI_WINDOW) steps[i].dst <<= 40;
        steps[i].bytes <<= 40;
      }
    }
    compare(&d, steps, n);
  }
  copied = false;
  gli_depend_free(&d);
}

static gli_step simple(uint8_t kind, uint8_t buffer, uint64_t at,
                       uint64_t bytes) {
  return (gli_step){.kind = kind,
                    .a_buffer = buffer,
                    .dst_buffer = buffer,
                    .a = at,
                    .dst = at,
                    .bytes = bytes};
}

static gli_step in_lane(gli_step s, uint8_t lane) {
  s.lane = lane;
  return s;
}

static void expect_edges(const gli_step *steps, uint32_t n,
                         const gli_edge *edges, size_t n_edges) {
  gli_depend d = {0};
  assert_true(gli_depend_derive(&d, steps, n, false));
  assert_int_equal(d.n_edges, n_edges);
  for (size_t i = 0; i < n_edges; i++) {
    assert_int_equal(d.edges[i].from, edges[i].from);
    assert_int_equal(d.edges[i].to, edges[i].to);
  }
  gli_depend_free(&d);
}

/* A send waits for earlier sends and receives in its lane; no other step
 * does. */
static void lanes_keep_sends_in_order(void **state) {
  (void)state;
  gli_step send = in_lane(simple(GLI_STEP_SEND, GLI_IN, 0, 8), 2);
  gli_step recv = in_lane(simple(GLI_STEP_RECV, GLI_OUT, 0, 8), 2);
  gli_step apart = in_lane(simple(GLI_STEP_RECV, GLI_OUT, 8, 8), 2);
  gli_step other = in_lane(send, 3), free = in_lane(send, 0);
  gli_edge both[] = {{0, 2}, {1, 2}}, back[] = {{1, 2}, {0, 2}};
  expect_edges((gli_step[]){send, recv, send}, 3, both, 2);
  expect_edges((gli_step[]){recv, apart, send}, 3, back, 2);
  expect_edges((gli_step[]){send, recv, apart}, 3, NULL, 0);
  expect_edges((gli_step[]){send, other, free, free}, 4, NULL, 0);
}

static void each_kind_of_order_is_found(void **state) {
  (void)state;
  gli_step write = simple(GLI_STEP_RECV, GLI_OUT, 0, 8);
  gli_step read = simple(GLI_STEP_SEND, GLI_OUT, 4, 8);
  gli_step beside = simple(GLI_STEP_RECV, GLI_OUT, 8, 8);
  gli_edge edge[] = {{0, 1}};
  expect_edges((gli_step[]){write, read}, 2, edge, 1);  /* read after write */
  expect_edges((gli_step[]){read, write}, 2, edge, 1);  /* write after read */
  expect_edges((gli_step[]){write, write}, 2, edge, 1); /* and after write */
  expect_edges((gli_step[]){read, read}, 2, NULL, 0);
  expect_edges((gli_step[]){write, beside}, 2, NULL, 0);
  gli_step token_write = simple(GLI_STEP_RECV, GLI_TOKEN, 0, 1);
  gli_step token_read = simple(GLI_STEP_SEND, GLI_TOKEN, 0, 1);
  expect_edges((gli_step[]){token_write, token_read}, 2, edge, 1);
  gli_step input = simple(GLI_STEP_SEND, GLI_IN, 0, 8);
  expect_edges((gli_step[]){input, input}, 2, NULL, 0);
}

static void implied_edges_are_left_out(void **state) {
  (void)state;
  gli_step write = simple(GLI_STEP_RECV, GLI_OUT, 0, 8);
  gli_step read = simple(GLI_STEP_SEND, GLI_OUT, 0, 8);
  gli_edge edges[] = {{0, 1}, {0, 2}, {2, 3}, {1, 3}};
  expect_edges((gli_step[]){write, read, read, write}, 4, edges, 4);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(lanes_keep_sends_in_order),
      cmocka_unit_test(each_kind_of_order_is_found),
      cmocka_unit_test(implied_edges_are_left_out),
      cmocka_unit_test(edges_are_those_of_all_pairs),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
