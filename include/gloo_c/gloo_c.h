/* gloo_c: collectives for CPUs. Include this one header. */
#ifndef GLOO_C_H
#define GLOO_C_H

#include "gloo_c/collectives.h"
#include "gloo_c/context.h"
#include "gloo_c/lists.h"
#include "gloo_c/log.h"
#include "gloo_c/memory.h"
#include "gloo_c/multi.h"
#include "gloo_c/query.h"
#include "gloo_c/request.h"
#include "gloo_c/status.h"
#include "gloo_c/store.h"
#include "gloo_c/types.h"
#include "gloo_c/version.h"

#endif
