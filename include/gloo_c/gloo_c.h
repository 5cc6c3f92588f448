/* gloo_c: collectives for CPUs. Include this one header.
 *
 * Example:
 *
 *     int sum_of_ranks(int *sum) {
 *       gloo_context *context;
 *       if (gloo_init(NULL, &context, NULL) != GLOO_OK) return -1;
 *       *sum = gloo_context_rank(context);
 *       gloo_status status = gloo_allreduce(context, GLOO_IN_PLACE, sum, 1,
 *                                           GLOO_INT32, GLOO_SUM, NULL, NULL);
 *       gloo_context_destroy(context);
 *       return status == GLOO_OK ? 0 : -1;
 *     } */
#ifndef GLOO_C_H
#define GLOO_C_H

#include "gloo_c/collectives.h"
#include "gloo_c/context.h"
#include "gloo_c/elastic.h"
#include "gloo_c/lists.h"
#include "gloo_c/log.h"
#include "gloo_c/memory.h"
#include "gloo_c/metrics.h"
#include "gloo_c/multi.h"
#include "gloo_c/query.h"
#include "gloo_c/request.h"
#include "gloo_c/status.h"
#include "gloo_c/store.h"
#include "gloo_c/tls.h"
#include "gloo_c/trace.h"
#include "gloo_c/types.h"
#include "gloo_c/version.h"
#include "gloo_c/window.h"

#endif
