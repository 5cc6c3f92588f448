#include "operators.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "native/contexts.h"
#include "shim.h"

enum { TORCH_DIMENSIONS_MAX = 64 };
/* Version 2.10 of PyTorch's stable interface, the first with strings. */
#define TORCH_VERSION ((uint64_t)2 << 56 | (uint64_t)10 << 48)

/* A call. It owns tensors and strings. */
typedef struct torch_call {
  torch_operator operator;
  const char *name;
  torch_tensor *input;
  torch_string *op, *group;
  int64_t number;       /* the size of the group, or the root */
  torch_tensor *source; /* contiguous copy of the input, or NULL */
  torch_tensor *output; /* new tensor, or NULL */
  const char *group_name;
} torch_call;

static _Thread_local struct {
  gloo_status status;
  int refused;
  gloo_error error;
} torch_last;

static gloo_status torch_call_refuse(const torch_call *call, gloo_status status,
                                     const char *format, ...) {
  gloo_error *error = &torch_last.error;
  *error = (gloo_error){.struct_size = sizeof *error,
                        .status = status,
                        .cause = status,
                        .rank = -1,
                        .root_rank = -1};
  int length = snprintf(error->message, sizeof error->message,
                        "torch.ops.gloo_c.%s: ", call->name);
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(error->message + length, sizeof error->message - (size_t)length,
            format, arguments);
  va_end(arguments);
  torch_last.refused = 1;
  return status;
}

/* For functions of PyTorch, which return no reason. */
static gloo_status torch_call_lack(const torch_call *call, const char *task) {
  return torch_call_refuse(call, GLOO_ERR_NO_MEMORY,
                           "PyTorch could not %s; is memory exhausted?", task);
}

/* ---- arguments ----------------------------------------------------------- */

static bool torch_operator_reduces(torch_operator operator) {
  return operator<= TORCH_ALL_REDUCE || operator== TORCH_REDUCE_SCATTER;
}

static bool torch_operator_is_in_place(torch_operator operator) {
  return operator== TORCH_ALL_REDUCE_IN_PLACE || operator== TORCH_BROADCAST;
}

static void *torch_handle(torch_value value) {
  return (void *)(uintptr_t)value;
}

/* Takes the arguments from the stack, in the order of the schemas in
 * gloo_c/torch/_operators.py. */
static torch_call torch_call_take(torch_operator operator, const char * name,
                                  const torch_value *stack) {
  torch_call call = {.operator= operator, .name = name };
  call.input = torch_handle(*stack++);
  if (torch_operator_reduces(operator)) call.op = torch_handle(*stack++);
  if (operator== TORCH_ALL_GATHER || operator== TORCH_REDUCE_SCATTER ||
      operator== TORCH_BROADCAST) {
    call.number = (int64_t)*stack++;
  }
  call.group = torch_handle(*stack);
  return call;
}

static void torch_call_release(const torch_call *call) {
  torch.aoti_torch_delete_tensor_object(call->input);
  if (call->source != NULL) torch.aoti_torch_delete_tensor_object(call->source);
  if (call->op != NULL) torch.torch_delete_string(call->op);
  torch.torch_delete_string(call->group);
}

static gloo_status torch_call_op(const torch_call *call, gloo_dtype dtype,
                                 gloo_op *op) {
  /* A sum of booleans is true if any is, a product if all are. */
  static const struct {
    const char *name;
    int op, of_bools;
  } ops[] = {
      {"sum", GLOO_SUM, GLOO_LOR},          {"avg", GLOO_AVERAGE, -1},
      {"max", GLOO_MAX, GLOO_LOR},          {"min", GLOO_MIN, GLOO_LAND},
      {"product", GLOO_PRODUCT, GLOO_LAND}, {"band", GLOO_BAND, GLOO_LAND},
      {"bor", GLOO_BOR, GLOO_LOR},          {"bxor", GLOO_BXOR, GLOO_LXOR}};
  const char *name = NULL;
  torch.torch_string_c_str(call->op, &name);
  for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
    if (strcmp(ops[i].name, name) != 0) continue;
    int found = dtype == GLOO_BOOL ? ops[i].of_bools : ops[i].op;
    if (found < 0) {
      return torch_call_refuse(call, GLOO_ERR_OP,
                               "'%s' is not defined for bool", name);
    }
    *op = (gloo_op)found;
    return GLOO_OK;
  }
  return torch_call_refuse(call, GLOO_ERR_INVALID,
                           "reduce_op is '%.40s'; valid: sum, avg, max, min, "
                           "product, band, bor, bxor",
                           name);
}

/* Sets type and count of the input. Elements that are only moved can have any
 * type, and count as bytes if the library does not have it. */
static gloo_status torch_call_elements(const torch_call *call,
                                       gloo_dtype *dtype, size_t *count) {
  int32_t type;
  int64_t elements;
  torch.aoti_torch_get_dtype(call->input, &type);
  torch.aoti_torch_get_numel(call->input, &elements);
  *count = (size_t)elements;
  int found = torch_dtype_of(type);
  if (found < 0) {
    if (torch_operator_reduces(call->operator)) {
      return torch_call_refuse(call, GLOO_ERR_DTYPE,
                               "this type of elements has no arithmetic");
    }
    found = GLOO_UINT8;
    *count *= torch.aoti_torch_dtype_element_size(type);
  }
  *dtype = (gloo_dtype)found;
  return GLOO_OK;
}

/* ---- memory -------------------------------------------------------------- */

/* Creates a contiguous tensor like the input whose first dimension is
 * `first`. */
static gloo_status torch_call_new(const torch_call *call, int64_t dimensions,
                                  int64_t first, torch_tensor **made) {
  int64_t sizes[TORCH_DIMENSIONS_MAX], strides[TORCH_DIMENSIONS_MAX], *given;
  int64_t stride = 1, dimension;
  int32_t type;
  torch.aoti_torch_get_dtype(call->input, &type);
  torch.aoti_torch_get_sizes(call->input, &given);
  torch.aoti_torch_get_dim(call->input, &dimension);
  for (int64_t i = dimensions; i-- > 0;) {
    sizes[i] = i == 0 ? first : given[i];
    strides[i] = stride;
    stride *= sizes[i] > 1 ? sizes[i] : 1;
  }
  if (torch.aoti_torch_empty_strided(dimensions, sizes, strides, type,
                                     torch.aoti_torch_device_type_cpu(), 0,
                                     made) != 0) {
    *made = NULL;
    return torch_call_lack(call, "create a tensor");
  }
  return GLOO_OK;
}

/* Copies elements between tensors; gradients are not its concern. */
static gloo_status torch_call_copy(const torch_call *call, torch_tensor *target,
                                   torch_tensor *source) {
  bool gradients = torch.aoti_torch_grad_mode_is_enabled();
  torch.aoti_torch_grad_mode_set_enabled(false);
  int32_t failed = torch.aoti_torch_copy_(target, source, 0);
  torch.aoti_torch_grad_mode_set_enabled(gradients);
  return failed == 0 ? GLOO_OK : torch_call_lack(call, "copy a tensor");
}

/* Makes a contiguous copy of the input if it is not contiguous, and the
 * output. */
static gloo_status torch_call_buffers(torch_call *call, int64_t ranks) {
  int64_t dimensions, *sizes, first = 0;
  bool contiguous = false;
  torch.aoti_torch_get_dim(call->input, &dimensions);
  torch.aoti_torch_get_sizes(call->input, &sizes);
  torch.aoti_torch_is_contiguous(call->input, &contiguous);
  if (dimensions > TORCH_DIMENSIONS_MAX) {
    return torch_call_refuse(call, GLOO_ERR_INVALID,
                             "the tensor has %lld dimensions, more than %d",
                             (long long)dimensions, TORCH_DIMENSIONS_MAX);
  }
  if (dimensions > 0) first = sizes[0];
  if (!contiguous) {
    gloo_status status = torch_call_new(call, dimensions, first, &call->source);
    if (status == GLOO_OK) {
      status = torch_call_copy(call, call->source, call->input);
    }
    if (status != GLOO_OK) return status;
  }
  if (torch_operator_is_in_place(call->operator)) return GLOO_OK;
  if (call->operator== TORCH_ALL_GATHER) {
    return torch_call_new(call, dimensions > 0 ? dimensions : 1,
                          dimensions > 0 ? first * ranks : ranks,
                          &call->output);
  }
  if (call->operator== TORCH_ALL_REDUCE) {
    return torch_call_new(call, dimensions, first, &call->output);
  }
  if (dimensions == 0 || first % ranks != 0) {
    return torch_call_refuse(
        call, GLOO_ERR_COUNT,
        "the %lld rows of the tensor cannot be divided among %lld ranks",
        (long long)(dimensions > 0 ? first : 1), (long long)ranks);
  }
  return torch_call_new(
      call, dimensions,
      call->operator== TORCH_REDUCE_SCATTER ? first / ranks : first,
      &call->output);
}

/* ---- calls --------------------------------------------------------------- */

/* A collective of the library, on host memory. */
typedef struct torch_collective {
  torch_operator operator;
  gloo_context *context;
  const void *input; /* GLOO_IN_PLACE as in the library */
  void *output;
  size_t count; /* elements of the input */
  gloo_dtype dtype;
  int number; /* gloo_op or root */
  const gloo_options *options;
  gloo_request **request; /* NULL: the call blocks */
} torch_collective;

static gloo_status torch_collective_run(const torch_collective *of) {
  gloo_error *error = &torch_last.error;
  size_t ranks = (size_t)gloo_context_size(of->context);
#define TORCH_RUN(function, ...)                                              \
  (of->request == NULL ? gloo_##function(of->context, of->input, of->output,  \
                                         __VA_ARGS__, of->options, error)     \
                       : gloo_##function##_start(                             \
                             of->context, of->input, of->output, __VA_ARGS__, \
                             of->options, of->request, error))
  switch (of->operator) {
    case TORCH_ALL_REDUCE_IN_PLACE:
    case TORCH_ALL_REDUCE:
      return TORCH_RUN(allreduce, of->count, of->dtype, (gloo_op)of->number);
    case TORCH_ALL_GATHER:
      return TORCH_RUN(allgather, of->count, of->dtype);
    case TORCH_REDUCE_SCATTER:
      return TORCH_RUN(reduce_scatter, of->count / ranks, of->dtype,
                       (gloo_op)of->number);
    case TORCH_BROADCAST:
      return TORCH_RUN(broadcast, of->count, of->dtype, of->number);
    case TORCH_ALL_TO_ALL:
    default:
      return TORCH_RUN(alltoall, of->count / ranks, of->dtype);
  }
#undef TORCH_RUN
}

static gloo_status torch_call_library(const torch_call *call,
                                      gloo_context *context, size_t count,
                                      gloo_dtype dtype, gloo_op op) {
  void *input = NULL, *output = NULL;
  torch.aoti_torch_get_data_ptr(
      call->source != NULL ? call->source : call->input, &input);
  if (call->output != NULL)
    torch.aoti_torch_get_data_ptr(call->output, &output);
  bool in_place = torch_operator_is_in_place(call->operator);
  return torch_collective_run(&(torch_collective){
      .operator= call->operator,
      .context = context,
      .input = in_place ? GLOO_IN_PLACE : input,
      .output = in_place ? input : output,
      .count = count,
      .dtype = dtype,
      .number =
          call->operator== TORCH_BROADCAST ? (int)call->number : (int)op});
}

static gloo_status torch_call_run_in(torch_call *call, gloo_context *context) {
  int64_t ranks = gloo_context_size(context);
  gloo_dtype dtype = GLOO_UINT8;
  gloo_op op = GLOO_SUM;
  size_t count = 0;
  gloo_status status = torch_call_elements(call, &dtype, &count);
  if (status == GLOO_OK && call->op != NULL) {
    status = torch_call_op(call, dtype, &op);
  }
  if (status != GLOO_OK) return status;
  if (call->operator== TORCH_BROADCAST) {
    if (call->number < 0 || call->number >= ranks) {
      return torch_call_refuse(call, GLOO_ERR_ROOT,
                               "src is %lld; the group has ranks 0 to %lld",
                               (long long)call->number, (long long)ranks - 1);
    }
  } else if ((call->operator== TORCH_ALL_GATHER || call->operator==
              TORCH_REDUCE_SCATTER) &&
             call->number != ranks) {
    return torch_call_refuse(
        call, GLOO_ERR_INVALID,
        "group_size is %lld, and the process group '%s' has %lld ranks",
        (long long)call->number, call->group_name, (long long)ranks);
  }
  status = torch_call_buffers(call, ranks);
  if (status == GLOO_OK) {
    status = torch_call_library(call, context, count, dtype, op);
  }
  if (status == GLOO_OK && call->source != NULL && call->output == NULL) {
    status = torch_call_copy(call, call->input, call->source);
  }
  return status;
}

static gloo_status torch_call_run(torch_call *call) {
  size_t length = 0;
  torch.torch_string_length(call->group, &length);
  torch.torch_string_c_str(call->group, &call->group_name);
  gloo_context *context = NULL;
  int several = 0;
  native_context *held =
      native_context_enter_named(call->group_name, length, &context, &several);
  if (held == NULL) {
    return torch_call_refuse(
        call, GLOO_ERR_INVALID,
        several ? "this process has several process groups named '%.80s'; "
                  "their ranks must be separate processes"
                : "this process has no process group of gloo_c named '%.80s': "
                  "it was destroyed, or has another backend. Pass the "
                  "group_name of an existing one",
        call->group_name);
  }
  gloo_status status = torch_call_run_in(call, context);
  native_context_leave(held);
  return status;
}

static void torch_operator_run(torch_operator operator, const char * name,
                               torch_value *stack) {
  torch_call call = torch_call_take(operator, name, stack);
  torch_last.refused = 0;
  torch_last.error.message[0] = '\0';
  gloo_status status = torch_call_run(&call);
  torch_last.status = status;
  torch_call_release(&call);
  if (status == GLOO_OK) {
    if (call.output != NULL) stack[0] = (torch_value)(uintptr_t)call.output;
    return;
  }
  if (call.output != NULL) torch.aoti_torch_delete_tensor_object(call.output);
  torch_throw(torch_last.error.message);
}

/* ---- calls of process groups --------------------------------------------- */

int torch_group_call(gloo_context *context, torch_operator operator,
                     uintptr_t input, uintptr_t output, size_t count, int dtype,
                     int number, int64_t timeout_ns, gloo_request **request) {
  /* In place it would change the rest of the input, too. */
  if (operator== TORCH_REDUCE_SCATTER && input == output)
    return GLOO_ERR_BUFFER;
  gloo_options options = GLOO_OPTIONS_INIT;
  options.timeout_ns = timeout_ns;
  torch_last.refused = 0;
  torch_last.error.message[0] = '\0';
  torch_last.status = torch_collective_run(&(torch_collective){
      .operator= operator,
      .context = context,
      .input = torch_operator_is_in_place(operator) ? GLOO_IN_PLACE
                                                    : (const void *)input,
      .output = (void *)output,
      .count = count,
      .dtype = (gloo_dtype)dtype,
      .number = number,
      .options = timeout_ns == GLOO_TIMEOUT_DEFAULT ? NULL : &options,
      .request = request});
  return (int)torch_last.status;
}

int torch_request_ends(gloo_request *request, int64_t patience_ns) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  int64_t begin_s = now.tv_sec, begin_ns = now.tv_nsec, spent;
  gloo_status status;
  do {
    status = gloo_request_test(request, NULL);
    clock_gettime(CLOCK_MONOTONIC, &now);
    spent = (now.tv_sec - begin_s) * 1000000000 + now.tv_nsec - begin_ns;
  } while (status == GLOO_IN_PROGRESS && spent < patience_ns);
  return (int)status;
}

/* ---- registration -------------------------------------------------------- */

#define TORCH_OPERATOR(name, operator)                          \
  static void torch_##name(torch_value *stack, uint64_t inputs, \
                           uint64_t outputs) {                  \
    (void)inputs;                                               \
    (void)outputs;                                              \
    torch_operator_run(operator, #name, stack);                 \
  }
TORCH_OPERATOR(all_reduce_, TORCH_ALL_REDUCE_IN_PLACE)
TORCH_OPERATOR(all_reduce, TORCH_ALL_REDUCE)
TORCH_OPERATOR(all_gather, TORCH_ALL_GATHER)
TORCH_OPERATOR(reduce_scatter, TORCH_REDUCE_SCATTER)
TORCH_OPERATOR(broadcast_, TORCH_BROADCAST)
TORCH_OPERATOR(all_to_all, TORCH_ALL_TO_ALL)
#undef TORCH_OPERATOR

const char *torch_operators_register(const char *path) {
  static const struct {
    const char *name;
    torch_kernel *kernel;
  } kernels[] = {{"all_reduce_", torch_all_reduce_},
                 {"all_reduce", torch_all_reduce},
                 {"all_gather", torch_all_gather},
                 {"reduce_scatter", torch_reduce_scatter},
                 {"broadcast_", torch_broadcast_},
                 {"all_to_all", torch_all_to_all}};
  const char *reason = torch_shim_load(path);
  if (reason != NULL) return reason;
  torch_library *library; /* its end would remove the kernels */
  if (torch.aoti_torch_library_init_impl("gloo_c", "CPU", __FILE__, __LINE__,
                                         &library) != 0) {
    return "it does not open the library gloo_c";
  }
  for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++) {
    if (torch.torch_library_impl(library, kernels[i].name, kernels[i].kernel,
                                 TORCH_VERSION) != 0) {
      return "it refuses the kernels of gloo_c";
    }
  }
  return NULL;
}

gloo_status torch_operators_failure(gloo_error *error, int *refused) {
  gloo_status status = torch_last.status;
  if (status != GLOO_OK) {
    *error = torch_last.error;
    *refused = torch_last.refused;
    torch_last.status = GLOO_OK;
  }
  return status;
}
