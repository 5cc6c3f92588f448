/* The part of PyTorch's stable C interface that the operators need, rewritten
 * from torch/csrc/inductor/aoti_torch/c/shim.h and torch/csrc/stable/c/shim.h.
 * A wheel must build without PyTorch, and work with several versions and
 * without any, so the functions are looked up in the PyTorch that is loaded.
 * tests/python/test_torch_operators.py compares this file with the headers of
 * the installed PyTorch. */
#ifndef GLOO_C_TORCH_SHIM_H
#define GLOO_C_TORCH_SHIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef uint64_t torch_value; /* StableIValue: a number or a handle */
typedef struct torch_tensor torch_tensor;
typedef struct torch_string torch_string;
typedef struct torch_library torch_library;
typedef void torch_kernel(torch_value *stack, uint64_t inputs,
                          uint64_t outputs);

/* X(result, name, arguments). Results of type int32_t are 0 on success, except
 * for aoti_torch_device_type_cpu. Tensors and strings are handles that the
 * receiver deletes; sizes, characters and data belong to them. */
#define TORCH_SHIM(X)                                                         \
  X(int32_t, aoti_torch_library_init_impl,                                    \
    (const char *space, const char *key, const char *file, uint32_t line,     \
     torch_library **made))                                                   \
  X(int32_t, torch_library_impl,                                              \
    (torch_library * library, const char *name, torch_kernel *kernel,         \
     uint64_t version))                                                       \
  X(int32_t, aoti_torch_delete_tensor_object, (torch_tensor * tensor))        \
  X(int32_t, aoti_torch_get_data_ptr, (torch_tensor * tensor, void **data))   \
  X(int32_t, aoti_torch_get_numel, (torch_tensor * tensor, int64_t * count))  \
  X(int32_t, aoti_torch_get_dim,                                              \
    (torch_tensor * tensor, int64_t * dimensions))                            \
  X(int32_t, aoti_torch_get_sizes, (torch_tensor * tensor, int64_t * *sizes)) \
  X(int32_t, aoti_torch_get_dtype, (torch_tensor * tensor, int32_t * dtype))  \
  X(int32_t, aoti_torch_is_contiguous,                                        \
    (torch_tensor * tensor, bool *is_contiguous))                             \
  X(int32_t, aoti_torch_empty_strided,                                        \
    (int64_t dimensions, const int64_t *sizes, const int64_t *strides,        \
     int32_t dtype, int32_t device_type, int32_t device_index,                \
     torch_tensor **made))                                                    \
  X(int32_t, aoti_torch_copy_,                                                \
    (torch_tensor * target, torch_tensor * source, int32_t non_blocking))     \
  X(int32_t, aoti_torch_device_type_cpu, (void))                              \
  X(size_t, aoti_torch_dtype_element_size, (int32_t dtype))                   \
  X(bool, aoti_torch_grad_mode_is_enabled, (void))                            \
  X(void, aoti_torch_grad_mode_set_enabled, (bool enabled))                   \
  X(int32_t, torch_string_length, (torch_string * string, size_t * length))   \
  X(int32_t, torch_string_c_str, (torch_string * string, const char **data))  \
  X(int32_t, torch_delete_string, (torch_string * string))

/* X(name of a type, gloo_dtype). PyTorch returns its number of the type from a
 * function aoti_torch_dtype_<name>. */
#define TORCH_DTYPES(X)                \
  X(float32, GLOO_FLOAT32)             \
  X(bfloat16, GLOO_BFLOAT16)           \
  X(float16, GLOO_FLOAT16)             \
  X(float64, GLOO_FLOAT64)             \
  X(int8, GLOO_INT8)                   \
  X(int16, GLOO_INT16)                 \
  X(int32, GLOO_INT32)                 \
  X(int64, GLOO_INT64)                 \
  X(uint8, GLOO_UINT8)                 \
  X(uint16, GLOO_UINT16)               \
  X(uint32, GLOO_UINT32)               \
  X(uint64, GLOO_UINT64)               \
  X(complex64, GLOO_COMPLEX64)         \
  X(complex128, GLOO_COMPLEX128)       \
  X(bool, GLOO_BOOL)                   \
  X(float8_e4m3fn, GLOO_FLOAT8_E4M3FN) \
  X(float8_e5m2, GLOO_FLOAT8_E5M2)

typedef struct torch_shim {
#define TORCH_FIELD(result, name, arguments) result(*name) arguments;
  TORCH_SHIM(TORCH_FIELD)
#undef TORCH_FIELD
} torch_shim;

/* Set by torch_shim_load. */
extern torch_shim torch;

/* Looks up the functions in the module at `path`, which is loaded, and in the
 * libraries that it uses. Returns NULL on success, or the reason. */
const char *torch_shim_load(const char *path);

/* Returns the gloo_dtype for a type of PyTorch, or -1. */
int torch_dtype_of(int32_t dtype);

/* Throws a std::runtime_error, by which an operator reports failure to
 * PyTorch. Callers are compiled with -fexceptions. */
_Noreturn void torch_throw(const char *message);

#endif
