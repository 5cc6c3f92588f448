/* The operators torch.ops.gloo_c.* for tensors in host memory, and the calls of
 * process groups that do the same. */
#ifndef GLOO_C_TORCH_OPERATORS_H
#define GLOO_C_TORCH_OPERATORS_H

#include <gloo_c/gloo_c.h>
#include <stdint.h>

typedef enum torch_operator {
  TORCH_ALL_REDUCE_IN_PLACE,
  TORCH_ALL_REDUCE,
  TORCH_ALL_GATHER,
  TORCH_REDUCE_SCATTER,
  TORCH_BROADCAST,
  TORCH_ALL_TO_ALL
} torch_operator;

/* Registers the kernels of the operators, which Python has defined. `path` is
 * the module torch._C. Returns NULL on success, or the reason why PyTorch
 * cannot call them. */
const char *torch_operators_register(const char *path);

/* Runs the collective of an operator on memory at these addresses; `count` is
 * the number of elements of the input, and `number` the gloo_op or the root.
 * `request` NULL: blocks, else starts it. Refuses input and output that overlap
 * (GLOO_ERR_BUFFER), other than in place. */
int torch_group_call(gloo_context *context, torch_operator operator,
                     uintptr_t input, uintptr_t output, size_t count, int dtype,
                     int number, int64_t timeout_ns, gloo_request **request);

/* Waits up to `patience_ns` for the end of a request, without sleeping as
 * gloo_request_wait may. Returns gloo_request_test. */
int torch_request_ends(gloo_request *request, int64_t patience_ns);

/* Returns the error of the last operator or torch_group_call that this thread has called, and
 * copies it, or GLOO_OK. It is returned once. `*refused` is not 0 if the
 * operator has refused its arguments. */
gloo_status torch_operators_failure(gloo_error *error, int *refused);

#endif
