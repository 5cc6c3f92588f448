/* The handler of all operations. The attributes of a call are the number of its
 * context and its parameters. Its argument and its result are one array each
 * (none for a barrier), followed by a token that orders calls: of XLA's token
 * type, or a number that is passed on. */
#include "handler.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "ffi.h"
#include "native/contexts.h"

/* A call with its attributes decoded. `complaint` is the error, if any. */
typedef struct xla_request {
  int64_t call, context, op, peer, from, timeout_ns;
  const xla_buffer *input, *output;
  const char *complaint;
} xla_request;

static xla_error *xla_error_make(const xla_frame *frame, int code,
                                 const char *message) {
  xla_error_args args = {XLA_ERROR_ARGS_SIZE, NULL, message, code};
  /* cppcheck-suppress returnDanglingLifetime ; XLA copies them */
  return frame->api->error_create(&args);
}

static int xla_code_of(gloo_status cause) {
  switch (cause) {
    case GLOO_ERR_TIMEOUT:
      return XLA_DEADLINE_EXCEEDED;
    case GLOO_ERR_PEER:
      return XLA_UNAVAILABLE;
    case GLOO_ERR_MISMATCH:
      return XLA_FAILED_PRECONDITION;
    case GLOO_ERR_ABORTED:
    case GLOO_ERR_CANCELLED:
      return XLA_ABORTED;
    case GLOO_ERR_NO_MEMORY:
      return XLA_RESOURCE_EXHAUSTED;
    case GLOO_ERR_UNSUPPORTED:
      return XLA_UNIMPLEMENTED;
    case GLOO_ERR_INVALID:
    case GLOO_ERR_ROOT:
    case GLOO_ERR_RANK:
    case GLOO_ERR_COUNT:
    case GLOO_ERR_DTYPE:
    case GLOO_ERR_OP:
    case GLOO_ERR_BUFFER:
      return XLA_INVALID_ARGUMENT;
    default:
      return XLA_INTERNAL;
  }
}

static bool xla_dtype_of(int dtype, gloo_dtype *found) {
  static const struct {
    int xla;
    gloo_dtype dtype;
  } types[] = {
      {XLA_F32, GLOO_FLOAT32},
      {XLA_F64, GLOO_FLOAT64},
      {XLA_BF16, GLOO_BFLOAT16},
      {XLA_F16, GLOO_FLOAT16},
      {XLA_S8, GLOO_INT8},
      {XLA_S16, GLOO_INT16},
      {XLA_S32, GLOO_INT32},
      {XLA_S64, GLOO_INT64},
      {XLA_U8, GLOO_UINT8},
      {XLA_U16, GLOO_UINT16},
      {XLA_U32, GLOO_UINT32},
      {XLA_U64, GLOO_UINT64},
      {XLA_C64, GLOO_COMPLEX64},
      {XLA_C128, GLOO_COMPLEX128},
      {XLA_PRED, GLOO_BOOL},
      {XLA_F8E4M3FN, GLOO_FLOAT8_E4M3FN},
      {XLA_F8E5M2, GLOO_FLOAT8_E5M2},
  };
  for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
    if (types[i].xla != dtype) continue;
    *found = types[i].dtype;
    return true;
  }
  return false;
}

/* ---- what XLA hands over ------------------------------------------------- */

/* Returns the array at index `place`, not counting tokens of XLA's type. */
static const xla_buffer *xla_values_array(const xla_values *values,
                                          int64_t place) {
  for (int64_t i = 0; i < values->size; i++) {
    const xla_buffer *buffer = values->values[i];
    if (values->types[i] != XLA_BUFFER || buffer->dtype == XLA_TOKEN) continue;
    if (place-- == 0) return buffer;
  }
  return NULL;
}

/* Copies the number that serves as a token. */
static void xla_token_pass(const xla_frame *frame, int64_t place) {
  const xla_buffer *from = xla_values_array(&frame->arguments, place);
  const xla_buffer *to = xla_values_array(&frame->results, place);
  if (from == NULL || to == NULL || from->data == to->data) return;
  if (from->dtype != XLA_U32 || to->dtype != XLA_U32) return;
  memcpy(to->data, from->data, sizeof(uint32_t));
}

static size_t xla_buffer_count(const xla_buffer *buffer) {
  size_t count = 1;
  for (int64_t i = 0; i < buffer->rank; i++) count *= (size_t)buffer->dims[i];
  return count;
}

static bool xla_attribute_read(const xla_attributes *all, const char *name,
                               int64_t *value) {
  for (int64_t i = 0; i < all->size; i++) {
    const xla_text *text = all->names[i];
    if (text->length != strlen(name) ||
        memcmp(text->characters, name, text->length) != 0) {
      continue;
    }
    const xla_scalar *scalar = all->values[i];
    if (all->types[i] != XLA_SCALAR || scalar->dtype != XLA_S64) return false;
    memcpy(value, scalar->value, sizeof *value);
    return true;
  }
  return false;
}

static bool xla_request_read(const xla_frame *frame, xla_request *request) {
  const xla_attributes *all = &frame->attributes;
  request->complaint = NULL;
  if (!xla_attribute_read(all, "call", &request->call) ||
      !xla_attribute_read(all, "context", &request->context) ||
      !xla_attribute_read(all, "op", &request->op) ||
      !xla_attribute_read(all, "peer", &request->peer) ||
      !xla_attribute_read(all, "from", &request->from) ||
      !xla_attribute_read(all, "timeout_ns", &request->timeout_ns)) {
    request->complaint = "a call lacks attributes";
    return false;
  }
  xla_token_pass(frame, request->call == XLA_CALL_BARRIER ? 0 : 1);
  if (request->call == XLA_CALL_BARRIER) return true;
  request->input = xla_values_array(&frame->arguments, 0);
  request->output = xla_values_array(&frame->results, 0);
  if (request->input == NULL || request->output == NULL) {
    request->complaint = "a call lacks its arrays";
    return false;
  }
  if (request->input->dtype != request->output->dtype) {
    request->complaint = "types of input and output differ";
    return false;
  }
  return true;
}

/* ---- calls --------------------------------------------------------------- */

static gloo_status xla_shape_refuse(xla_request *request) {
  request->complaint = "the shape does not fit the number of ranks";
  return GLOO_ERR_COUNT;
}

static gloo_status xla_sendrecv(const xla_request *request,
                                gloo_context *context, size_t count,
                                gloo_dtype dtype, const gloo_options *options,
                                gloo_error *error) {
  const xla_buffer *output = request->output;
  if (request->from == GLOO_NO_RANK) {
    memset(output->data, 0, count * gloo_dtype_size(dtype));
  }
  return gloo_sendrecv(context, request->input->data, count, (int)request->peer,
                       output->data, count, (int)request->from, dtype, options,
                       error);
}

static gloo_status xla_request_run(xla_request *request, gloo_context *context,
                                   gloo_error *error) {
  gloo_options options = GLOO_OPTIONS_INIT;
  options.timeout_ns = request->timeout_ns;
  if (request->call == XLA_CALL_BARRIER) {
    return gloo_barrier(context, &options, error);
  }
  gloo_dtype dtype;
  if (!xla_dtype_of(request->input->dtype, &dtype)) {
    request->complaint = "gloo_c does not have this type of elements";
    return GLOO_ERR_DTYPE;
  }
  size_t ranks = (size_t)gloo_context_size(context);
  size_t in = xla_buffer_count(request->input);
  size_t out = xla_buffer_count(request->output);
  const void *input = request->input->data;
  void *output = request->output->data;
  switch (request->call) {
    case XLA_CALL_ALLREDUCE:
      if (in != out) return xla_shape_refuse(request);
      return gloo_allreduce(context, input, output, in, dtype,
                            (gloo_op)request->op, &options, error);
    case XLA_CALL_ALLGATHER:
      if (in * ranks != out) return xla_shape_refuse(request);
      return gloo_allgather(context, input, output, in, dtype, &options, error);
    case XLA_CALL_REDUCE_SCATTER:
      if (out * ranks != in) return xla_shape_refuse(request);
      return gloo_reduce_scatter(context, input, output, out, dtype,
                                 (gloo_op)request->op, &options, error);
    case XLA_CALL_ALLTOALL:
      if (in != out || in % ranks != 0) return xla_shape_refuse(request);
      return gloo_alltoall(context, input, output, in / ranks, dtype, &options,
                           error);
    case XLA_CALL_BROADCAST:
      if (in != out) return xla_shape_refuse(request);
      return gloo_broadcast(context, input, output, in, dtype,
                            (int)request->peer, &options, error);
    case XLA_CALL_SENDRECV:
      if (in != out) return xla_shape_refuse(request);
      return xla_sendrecv(request, context, in, dtype, &options, error);
    default:
      request->complaint = "unknown call";
      return GLOO_ERR_INVALID;
  }
}

static xla_error *xla_handler_run(const xla_frame *frame) {
  xla_request request;
  if (!xla_request_read(frame, &request)) {
    return xla_error_make(frame, XLA_INTERNAL, request.complaint);
  }
  gloo_context *context = NULL;
  native_context *held = native_context_enter(request.context, &context);
  if (held == NULL) {
    return xla_error_make(frame, XLA_FAILED_PRECONDITION,
                          "gloo_c: this context was closed");
  }
  gloo_error error = {.message = ""};
  gloo_status status = xla_request_run(&request, context, &error);
  native_context_leave(held);
  if (status == GLOO_OK) return NULL;
  char message[GLOO_ERROR_MESSAGE_BYTES + 16];
  const char *text =
      error.message[0] != '\0' ? error.message : gloo_status_string(status);
  snprintf(message, sizeof message, "gloo_c: %s",
           request.complaint != NULL ? request.complaint : text);
  bool poisoned = status == GLOO_ERR_POISONED && error.cause != GLOO_OK;
  return xla_error_make(frame, xla_code_of(poisoned ? error.cause : status),
                        message);
}

static xla_error *xla_handler(xla_frame *frame) {
  xla_extension *extension = frame->extensions;
  if (extension == NULL || extension->type != XLA_EXTENSION_METADATA) {
    return xla_handler_run(frame);
  }
  /* XLA asks for the version of the interface that the handler uses. */
  xla_metadata *metadata = ((xla_metadata_extension *)extension)->metadata;
  metadata->version.major = XLA_MAJOR;
  metadata->version.minor = XLA_MINOR;
  metadata->traits = 0;
  return NULL;
}

void *xla_handler_address(void) {
  xla_error *(*handler)(xla_frame *) = xla_handler;
  void *address;
  _Static_assert(sizeof handler == sizeof address, "POSIX");
  memcpy(&address, &handler, sizeof address);
  return address;
}
