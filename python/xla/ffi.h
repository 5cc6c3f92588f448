/* The part of XLA's foreign function interface (XLA_FFI) that a handler needs,
 * rewritten from its C header, xla/ffi/api/c_api.h, version 0.3. That header is
 * part of jaxlib, but a wheel must build without jaxlib, and work with more
 * than one version. The interface is stable: structs contain their size and
 * only grow at the end, and a breaking change increments the major version,
 * which XLA compares. tests/python/test_jax_ffi.py compares this file with the
 * header of the installed jaxlib. */
#ifndef GLOO_C_XLA_FFI_H
#define GLOO_C_XLA_FFI_H

#include <stddef.h>
#include <stdint.h>

enum { XLA_MAJOR = 0, XLA_MINOR = 1 };

/* Extensions of a struct. The only kind requests the version of the handler. */
enum { XLA_EXTENSION_METADATA = 1 };
typedef struct xla_extension {
  size_t struct_size;
  int type;
  struct xla_extension *next;
} xla_extension;

typedef struct xla_version {
  size_t struct_size;
  xla_extension *extensions;
  int major;
  int minor;
} xla_version;

typedef struct xla_metadata {
  size_t struct_size;
  xla_version version;
  uint32_t traits;
} xla_metadata;

typedef struct xla_metadata_extension {
  xla_extension base;
  xla_metadata *metadata;
} xla_metadata_extension;

typedef struct xla_error xla_error;
typedef struct xla_error_args {
  size_t struct_size;
  xla_extension *extensions;
  const char *message; /* copied */
  int code;
} xla_error_args;
#define XLA_ERROR_ARGS_SIZE (offsetof(xla_error_args, code) + sizeof(int))

/* Error codes, equal to those of Abseil. */
enum {
  XLA_INVALID_ARGUMENT = 3,
  XLA_DEADLINE_EXCEEDED = 4,
  XLA_RESOURCE_EXHAUSTED = 8,
  XLA_FAILED_PRECONDITION = 9,
  XLA_ABORTED = 10,
  XLA_UNIMPLEMENTED = 12,
  XLA_INTERNAL = 13,
  XLA_UNAVAILABLE = 14
};

typedef struct xla_api {
  size_t struct_size;
  xla_extension *extensions;
  xla_version version;
  const void *internal;
  xla_error *(*error_create)(xla_error_args *args);
} xla_api;

/* Element types. */
enum {
  XLA_PRED = 1,
  XLA_S8 = 2,
  XLA_S16 = 3,
  XLA_S32 = 4,
  XLA_S64 = 5,
  XLA_U8 = 6,
  XLA_U16 = 7,
  XLA_U32 = 8,
  XLA_U64 = 9,
  XLA_F16 = 10,
  XLA_F32 = 11,
  XLA_F64 = 12,
  XLA_C64 = 15,
  XLA_BF16 = 16,
  XLA_TOKEN = 17,
  XLA_C128 = 18,
  XLA_F8E5M2 = 19,
  XLA_F8E4M3FN = 20
};

enum { XLA_BUFFER = 1 }; /* type of arguments and results */
typedef struct xla_buffer {
  size_t struct_size;
  xla_extension *extensions;
  int dtype;
  void *data;
  int64_t rank;
  int64_t *dims;
} xla_buffer;

/* Arguments or results of a call. */
typedef struct xla_values {
  size_t struct_size;
  xla_extension *extensions;
  int64_t size;
  int *types;
  void **values;
} xla_values;

typedef struct xla_text {
  const char *characters; /* not NUL-terminated */
  size_t length;
} xla_text;

enum { XLA_SCALAR = 3 }; /* type of the attributes used here */
typedef struct xla_scalar {
  int dtype;
  void *value;
} xla_scalar;

typedef struct xla_attributes {
  size_t struct_size;
  xla_extension *extensions;
  int64_t size;
  int *types;
  xla_text **names;
  void **values;
} xla_attributes;

typedef struct xla_frame {
  size_t struct_size;
  xla_extension *extensions;
  const xla_api *api;
  void *execution;
  int stage;
  xla_values arguments;
  xla_values results;
  xla_attributes attributes;
} xla_frame;

#endif
