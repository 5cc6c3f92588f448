#include "core/environment.h"

#include <stdlib.h>
#include <string.h>

#include "core/error.h"

const char *gli_environment_read(const char *name) {
  const char *value = getenv(name);
  return value != NULL && value[0] != '\0' ? value : NULL;
}

gloo_status gli_switch_read(int option, const char *name, bool by_default,
                            bool *wanted, gloo_error *error) {
  const char *said = gli_environment_read(name);
  if (option != 0) {
    *wanted = option > 0;
  } else if (said == NULL) {
    *wanted = by_default;
  } else if (strcmp(said, "0") == 0 || strcmp(said, "1") == 0) {
    *wanted = said[0] == '1';
  } else {
    return gli_fail(error, GLOO_ERR_INVALID, -1,
                    "%s is '%.40s'; it may be 0 or 1", name, said);
  }
  return GLOO_OK;
}

/* ---- times --------------------------------------------------------------- */

#define NS_PER_MS INT64_C(1000000)
#define NS_PER_S INT64_C(1000000000)
/* Longest time limit: eleven days, in seconds. */
#define SECONDS_MAX INT64_C(1000000)

static const gli_seconds timeout_start = {
    "GLOO_START_TIMEOUT", "none",        1, SECONDS_MAX * 1000,
    GLOO_TIMEOUT_NONE,    GLI_TIMEOUT_NS};
static const gli_seconds timeout_operations = {
    "GLOO_TIMEOUT",    "none",        1, SECONDS_MAX * 1000,
    GLOO_TIMEOUT_NONE, GLI_TIMEOUT_NS};

/* Converts seconds with up to nine decimals to ns; -1 for other text. */
static int64_t seconds_parse(const char *text) {
  int64_t ns = 0, unit = NS_PER_S;
  const char *at = text;
  for (; *at >= '0' && *at <= '9'; at++) {
    ns = ns * 10 + (*at - '0') * NS_PER_S;
    if (ns > SECONDS_MAX * NS_PER_S) return -1;
  }
  if (at == text) return -1;
  if (*at == '.')
    for (at++; *at >= '0' && *at <= '9'; at++) {
      unit /= 10;
      ns += (*at - '0') * unit;
    }
  return *at == '\0' ? ns : -1;
}

gloo_status gli_seconds_read(const gli_seconds *variable, int64_t *ns,
                             gloo_error *error) {
  const char *text = gli_environment_read(variable->name);
  *ns = variable->usual_ns;
  if (text == NULL) return GLOO_OK;
  *ns = variable->none_ns;
  if (strcmp(text, variable->none) == 0) return GLOO_OK;
  *ns = seconds_parse(text);
  if (*ns >= variable->least_ms * NS_PER_MS &&
      *ns <= variable->most_ms * NS_PER_MS)
    return GLOO_OK;
  return gli_fail(error, GLOO_ERR_INVALID, -1,
                  "%s is '%.40s'; it must be a number of seconds from %.10g to "
                  "%.10g, or '%s' for no limit",
                  variable->name, text, (double)variable->least_ms / 1e3,
                  (double)variable->most_ms / 1e3, variable->none);
}

/* Uses the program's limit, or the variable if that is GLOO_TIMEOUT_DEFAULT. */
static gloo_status timeout_resolve(const gli_seconds *variable,
                                   int64_t option_ns, int64_t *ns,
                                   gloo_error *error) {
  *ns = option_ns;
  if (option_ns != GLOO_TIMEOUT_DEFAULT) return GLOO_OK;
  return gli_seconds_read(variable, ns, error);
}

gloo_status gli_timeout_of_start(int64_t option_ns, int64_t *ns,
                                 gloo_error *error) {
  return timeout_resolve(&timeout_start, option_ns, ns, error);
}

gloo_status gli_timeout_of_operations(int64_t option_ns, int64_t *ns,
                                      gloo_error *error) {
  return timeout_resolve(&timeout_operations, option_ns, ns, error);
}
