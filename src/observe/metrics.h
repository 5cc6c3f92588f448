/* Figures as text. */
#ifndef GLI_OBSERVE_METRICS_H
#define GLI_OBSERVE_METRICS_H

#include <stdbool.h>
#include <stdio.h>

#include "gloo_c/metrics.h"

#define GLI_METRICS_TYPE \
  "application/openmetrics-text; version=1.0.0; charset=utf-8"

/* OpenMetrics; false: out of memory. */
bool gli_metrics_print(FILE *to, gloo_context *context);

#endif
