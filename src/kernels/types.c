/* Element types and operations: sizes and names. */
#include "gloo_c/types.h"

#include <string.h>

#include "kernels/reduce.h"

size_t gloo_dtype_size(gloo_dtype dtype) {
  static const size_t sizes[] = {
#define DTYPE_SIZE(constant, name, bytes) bytes,
      GLOO_DTYPE_LIST(DTYPE_SIZE)
#undef DTYPE_SIZE
  };
  return (unsigned)dtype < GLOO_DTYPE_COUNT ? sizes[dtype] : 0;
}

static const char *const dtype_names[] = {
#define DTYPE_NAME(constant, name, bytes) name,
    GLOO_DTYPE_LIST(DTYPE_NAME)
#undef DTYPE_NAME
};

static const char *const op_names[] = {
#define OP_NAME(constant, name) name,
    GLOO_OP_LIST(OP_NAME)
#undef OP_NAME
};

const char *gloo_dtype_name(gloo_dtype dtype) {
  if (dtype == GLOO_OPAQUE) return "opaque";
  return (unsigned)dtype < GLOO_DTYPE_COUNT ? dtype_names[dtype] : "unknown";
}

const char *gloo_op_name(gloo_op op) {
  if (op == GLOO_SCALED_SUM) return "scaled_sum";
  if (op == GLOO_CUSTOM) return "custom";
  return (unsigned)op < GLOO_OP_COUNT ? op_names[op] : "unknown";
}

bool gli_dtype_from_name(const char *name, gloo_dtype *dtype) {
  if (name == NULL) return false;
  for (unsigned i = 0; i < GLOO_DTYPE_COUNT; i++) {
    if (strcmp(name, dtype_names[i]) != 0) continue;
    *dtype = (gloo_dtype)i;
    return true;
  }
  return false;
}

bool gli_op_from_name(const char *name, gloo_op *op) {
  if (name == NULL) return false;
  for (unsigned i = 0; i < GLOO_OP_COUNT; i++) {
    if (strcmp(name, op_names[i]) != 0) continue;
    *op = (gloo_op)i;
    return true;
  }
  return false;
}
