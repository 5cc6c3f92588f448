/* Queries: algorithms, types and operations, and the state of a context. */
#include "gloo_c/query.h"

#include <stdio.h>

#include "algorithms/registry.h"
#include "algorithms/tuning.h"
#include "api/call_read.h"
#include "core/cpu.h"
#include "core/error.h"
#include "core/options.h"
#include "kernels/custom_op.h"
#include "kernels/reduce.h"

/* ---- lists --------------------------------------------------------------- */

const char *gloo_transport_name(size_t index) {
  const gli_transport_ops *ops = gli_transport_at(index);
  return ops != NULL ? ops->name : NULL;
}

const char *gloo_collective_name(size_t index) {
  return index < GLI_COLLECTIVES ? gli_collective_name((gli_collective)index)
                                 : NULL;
}

const char *gloo_algorithm_name(const char *collective, size_t index) {
  gli_collective which;
  if (collective == NULL || !gli_collective_from_name(collective, &which))
    return NULL;
  for (size_t i = 0; i < gli_algorithm_count; i++) {
    if (gli_algorithms[i].collective != which) continue;
    if (index-- == 0) return gli_algorithms[i].name;
  }
  return NULL;
}

gloo_status gloo_transport_usable(const char *transport, gloo_error *error) {
  gloo_device_options o = GLOO_DEVICE_OPTIONS_INIT;
  gloo_device *device;
  o.transport = transport;
  o.no_helper = 1;
  gloo_status status = gloo_device_create(&o, &device, error);
  if (status == GLOO_OK) gloo_device_destroy(device);
  return status;
}

gloo_dtype gloo_dtype_from_name(const char *name) {
  gloo_dtype dtype;
  return gli_dtype_from_name(name, &dtype) ? dtype : GLOO_DTYPE_COUNT;
}

gloo_op gloo_op_from_name(const char *name) {
  gloo_op op;
  return gli_op_from_name(name, &op) ? op : GLOO_OP_COUNT;
}

const char *gloo_device_transport(const gloo_device *device) {
  return device != NULL ? gli_device_transport(device) : NULL;
}

const char *gloo_device_waiting(const gloo_device *device) {
  return device != NULL ? gli_device_wait_policy(device) : NULL;
}

int gloo_cores(void) {
  return (int)gli_cpu_effective();
}

/* ---- the state of a context ---------------------------------------------- */

static gloo_status query_check(const char *function,
                               const gloo_context *context,
                               const gloo_answer *answer, gloo_error *error) {
  if (context == NULL || answer == NULL)
    return gli_fail(error, GLOO_ERR_INVALID, -1, "%s: `%s` must not be NULL",
                    function, context == NULL ? "context" : "answer");
  if (gli_custom_op_inside()) return gli_custom_op_refuse(function, error);
  return GLOO_OK;
}

gloo_status gloo_context_route(gloo_context *context, int peer,
                               gloo_answer *answer, gloo_error *error) {
  gloo_status status =
      query_check("gloo_context_route", context, answer, error);
  if (status != GLOO_OK) return status;
  if (peer < 0 || peer >= gloo_context_size(context))
    return gli_fail(error, GLOO_ERR_RANK, -1,
                    "gloo_context_route: %d is not a rank; ranks are 0 to %d",
                    peer, gloo_context_size(context) - 1);
  *answer = (gloo_answer){.text = ""};
  _Static_assert(sizeof answer->why >= GLI_WHY_BYTES, "room for the reason");
  const char *route = gli_context_route(context, (uint32_t)peer, answer->why);
  if (route == NULL) return GLOO_IN_PROGRESS;
  snprintf(answer->text, sizeof answer->text, "%s", route);
  return GLOO_OK;
}

static const char *query_reason(const gloo_options *options,
                                const gli_call *call) {
  const gli_plan_params *p = &call->params;
  if (options->algorithm != NULL) return "named in the call";
  if (gli_tuning_find(p->tuning, p) != NULL)
    return "chosen by GLOO_ALGORITHM or the tuning file";
  return p->tuning != NULL
             ? "lowest cost for these ranks, hosts and bytes; costs measured "
               "or given"
             : "lowest cost for these ranks, hosts and bytes; costs estimated";
}

gloo_status gloo_context_choice(gloo_context *context, const char *collective,
                                size_t count, gloo_dtype dtype, gloo_op op,
                                int root, const gloo_options *options,
                                gloo_answer *answer, gloo_error *error) {
  static const char function[] = "gloo_context_choice";
  gli_arguments a = {.function = function,
                     .count = count,
                     .dtype = dtype,
                     .op = op,
                     .root = root};
  gloo_options ours;
  gli_call call;
  gloo_status status = query_check(function, context, answer, error);
  if (status != GLOO_OK) return status;
  if (collective == NULL ||
      !gli_collective_from_name(collective, &a.collective))
    return gli_fail(error, GLOO_ERR_NOT_FOUND, -1,
                    "%s: unknown collective \"%.64s\"", function,
                    collective != NULL ? collective : "");
  if (a.collective == GLI_SENDRECV || gli_collective_counted(a.collective))
    return gli_fail(error, GLOO_ERR_UNSUPPORTED, -1,
                    "%s: the choice for %s does not depend on a single count",
                    function, collective);
  status = gli_options_load(&ours, sizeof ours, options, "gloo_options", error);
  if (status == GLOO_OK)
    status = gli_call_choice(context, &a, &ours, &call, error);
  if (status != GLOO_OK) return status;
  snprintf(answer->text, sizeof answer->text, "%s",
           gli_algorithm_name(call.algorithm));
  snprintf(answer->why, sizeof answer->why, "%s", query_reason(&ours, &call));
  return GLOO_OK;
}
