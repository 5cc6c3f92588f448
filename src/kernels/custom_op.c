/* Custom operations: calling the caller's function on operands. */
#include "kernels/custom_op.h"

#include <stdalign.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/options.h"

enum { NAME_BYTES = 64, MOST_ALIGNED = 16 };

/* Size of the buffers for unaligned operands, and for sums of several. A buffer
 * holds at least one element, or else the call's `work` is used. */
#define BLOCK_BYTES GLI_CUSTOM_SHORT

struct gloo_custom_op {
  atomic_size_t holders;
  gloo_custom_fn function;
  void *user;
  void (*release)(void *user);
  size_t element_bytes;
  bool commutative;
  char name[NAME_BYTES];
};

_Thread_local bool gli_inside_custom_op;

/* ---- life ---------------------------------------------------------------- */

static gloo_status custom_op_check(gloo_custom_fn function,
                                   const gloo_custom_op_options *o,
                                   gloo_error *error) {
  if (function == NULL) {
    return gli_fail(error, GLOO_ERR_INVALID, -1,
                    "gloo_custom_op_create: `function` must not be NULL");
  }
  if (o->name != NULL && strlen(o->name) >= NAME_BYTES) {
    return gli_fail(
        error, GLOO_ERR_INVALID, -1,
        "gloo_custom_op_create: the name has %zu characters; the limit is %d",
        strlen(o->name), NAME_BYTES - 1);
  }
  return GLOO_OK;
}

gloo_status gloo_custom_op_create(gloo_custom_fn function,
                                  const gloo_custom_op_options *options,
                                  gloo_custom_op **op, gloo_error *error) {
  gloo_custom_op_options o;
  if (op == NULL)
    return gli_fail(error, GLOO_ERR_INVALID, -1,
                    "gloo_custom_op_create: `op` must not be NULL");
  gloo_status status =
      gli_options_load(&o, sizeof o, options, "gloo_custom_op_options", error);
  if (status == GLOO_OK) status = custom_op_check(function, &o, error);
  if (status != GLOO_OK) return status;
  gloo_custom_op *made = calloc(1, sizeof *made);
  if (made == NULL) {
    return gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                    "gloo_custom_op_create: out of memory");
  }
  const char *name = o.name != NULL ? o.name : "custom";
  atomic_init(&made->holders, 1);
  made->function = function;
  made->user = o.user;
  made->release = o.release;
  made->element_bytes = o.element_bytes;
  made->commutative = o.commutative != 0;
  memcpy(made->name, name, strlen(name) + 1);
  *op = made;
  return GLOO_OK;
}

void gli_custom_op_hold(gloo_custom_op *op) {
  atomic_fetch_add_explicit(&op->holders, 1, memory_order_relaxed);
}

void gloo_custom_op_destroy(gloo_custom_op *op) {
  if (op == NULL) return;
  if (atomic_fetch_sub(&op->holders, 1) != 1) return;
  if (op->release != NULL) op->release(op->user);
  free(op);
}

/* ---- properties ---------------------------------------------------------- */

const char *gli_custom_op_name(const gloo_custom_op *op) {
  return op->name;
}

bool gli_custom_op_commutes(const gloo_custom_op *op) {
  return op->commutative;
}

size_t gli_custom_op_element_bytes(const gloo_custom_op *op) {
  return op->element_bytes;
}

static uint32_t custom_op_mix(uint32_t hash, const char *bytes, size_t n) {
  for (size_t i = 0; i < n; i++) {
    hash = (hash ^ (uint8_t)bytes[i]) * UINT32_C(0x01000193);
  }
  return hash;
}

/* FNV-1a (Fowler, Noll, Vo, 1991), with the finaliser of MurmurHash3 (Appleby,
 * 2011), so that each input bit affects the whole hash. */
uint32_t gli_custom_op_hash(const gloo_custom_op *op, size_t element_bytes) {
  char rest[17];
  for (int i = 0; i < 8; i++) {
    rest[i] = (char)((uint64_t)op->element_bytes >> 8 * i);
    rest[8 + i] = (char)((uint64_t)element_bytes >> 8 * i);
  }
  rest[16] = op->commutative;
  uint32_t hash =
      custom_op_mix(UINT32_C(0x811c9dc5), op->name, strlen(op->name));
  hash = custom_op_mix(hash, rest, sizeof rest);
  hash = (hash ^ hash >> 16) * UINT32_C(0x85ebca6b);
  hash = (hash ^ hash >> 13) * UINT32_C(0xc2b2ae35);
  return hash ^ hash >> 16;
}

/* ---- applying ------------------------------------------------------------ */

static void custom_op_run(const gli_custom_call *c, void *dst, const void *left,
                          const void *right, size_t count) {
  const gloo_custom_args args = {.struct_size = sizeof args,
                                 .left = left,
                                 .right = right,
                                 .result = dst,
                                 .count = count,
                                 .element_bytes = c->element_bytes,
                                 .dtype = c->dtype,
                                 .type = c->type,
                                 .user = c->op->user};
  gli_inside_custom_op = true;
  c->op->function(&args);
  gli_inside_custom_op = false;
}

static bool custom_op_aligned(const gli_custom_call *c, const void *p) {
  size_t alignment = c->element_bytes & (~c->element_bytes + 1);
  if (alignment > MOST_ALIGNED) alignment = MOST_ALIGNED;
  return (uintptr_t)p % alignment == 0;
}

/* Applies the function to operands copied to `l` and `r`, `most` at a time. */
static void custom_op_run_copied(const gli_custom_call *c, uint8_t *l,
                                 uint8_t *r, size_t most, void *dst,
                                 const void *left, const void *right,
                                 size_t count) {
  for (size_t done = 0, n; done < count; done += n) {
    n = count - done < most ? count - done : most;
    size_t at = done * c->element_bytes, bytes = n * c->element_bytes;
    memcpy(l, (const uint8_t *)left + at, bytes);
    memcpy(r, (const uint8_t *)right + at, bytes);
    custom_op_run(c, l, l, r, n);
    memcpy((uint8_t *)dst + at, l, bytes);
  }
}

/* Returns one of the three elements of `work`. */
static uint8_t *custom_op_work(const gli_custom_call *c, size_t which) {
  return c->work + which * gli_custom_op_stride(c->element_bytes);
}

void gli_custom_op_apply(const gli_custom_call *c, void *dst, const void *left,
                         const void *right, size_t count) {
  alignas(64) uint8_t l[BLOCK_BYTES], r[BLOCK_BYTES];
  if (custom_op_aligned(c, dst) && custom_op_aligned(c, left) &&
      custom_op_aligned(c, right)) {
    if (count > 0) custom_op_run(c, dst, left, right, count);
  } else if (c->work != NULL) {
    custom_op_run_copied(c, custom_op_work(c, 0), custom_op_work(c, 1), 1, dst,
                         left, right, count);
  } else {
    custom_op_run_copied(c, l, r, BLOCK_BYTES / c->element_bytes, dst, left,
                         right, count);
  }
}

void gli_custom_op_combine(const gli_custom_call *c, void *const *dsts,
                           size_t n_dsts, const void *const *srcs,
                           size_t n_srcs, size_t count) {
  alignas(64) uint8_t block[BLOCK_BYTES];
  uint8_t *sum = c->work != NULL ? custom_op_work(c, 2) : block;
  size_t most = c->work != NULL ? 1 : BLOCK_BYTES / c->element_bytes;
  for (size_t done = 0, n; done < count; done += n) {
    n = count - done < most ? count - done : most;
    size_t at = done * c->element_bytes, bytes = n * c->element_bytes;
    memcpy(sum, (const uint8_t *)srcs[0] + at, bytes);
    for (size_t i = 1; i < n_srcs; i++) {
      gli_custom_op_apply(c, sum, sum, (const uint8_t *)srcs[i] + at, n);
    }
    for (size_t i = 0; i < n_dsts; i++) {
      memcpy((uint8_t *)dsts[i] + at, sum, bytes);
    }
  }
}

gloo_status gli_custom_op_refuse(const char *function, gloo_error *error) {
  return gli_fail(error, GLOO_ERR_INVALID, -1,
                  "%s: called from within a custom operation", function);
}
