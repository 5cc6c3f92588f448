/* The operators torch.ops.gloo_c.* for tensors in host memory. */
#ifndef GLOO_C_TORCH_OPERATORS_H
#define GLOO_C_TORCH_OPERATORS_H

#include <gloo_c/gloo_c.h>

/* Registers the kernels of the operators, which Python has defined. `path` is
 * the module torch._C. Returns NULL on success, or the reason why PyTorch
 * cannot call them. */
const char *torch_operators_register(const char *path);

/* Returns the error of the last operator that this thread has called, and
 * copies it, or GLOO_OK. It is returned once. `*refused` is not 0 if the
 * operator has refused its arguments. */
gloo_status torch_operators_failure(gloo_error *error, int *refused);

#endif
