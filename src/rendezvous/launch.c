#include "rendezvous/launch.h"

#include <inttypes.h>
#include <string.h>

#include "core/environment.h"
#include "rendezvous/bootstrap.h"
#include "rendezvous/text.h"

/* A decimal number, digits only, between `min` and `max`. */
static gloo_status launch_read_number(const char *name, const char *meaning,
                                      uint64_t min, uint64_t max,
                                      uint64_t *number, gloo_error *error) {
  const char *text = gli_environment_read(name);
  uint64_t value = 0;
  bool good = true;
  for (const char *at = text; *at != '\0' && good; at++) {
    uint64_t digit = (uint64_t)(*at - '0');
    good = *at >= '0' && *at <= '9' && gli_mul_u64(value, 10, &value) &&
           gli_add_u64(value, digit, &value);
  }
  if (!good || value < min || value > max)
    return gli_fail(error, GLOO_ERR_INVALID, -1,
                    "the environment variable %s is '%s', expected %s: a "
                    "number from %" PRIu64 " to %" PRIu64,
                    name, gli_quote(text).text, meaning, min, max);
  *number = value;
  return GLOO_OK;
}

static gloo_status launch_read_text(const char *name, const char *meaning,
                                    size_t max_bytes, char *out,
                                    gloo_error *error) {
  const char *text = gli_environment_read(name);
  size_t bytes = strlen(text);
  if (bytes > max_bytes)
    return gli_fail(error, GLOO_ERR_INVALID, -1,
                    "the environment variable %s is '%s' (%zu bytes), expected "
                    "%s of at most %zu bytes",
                    name, gli_quote(text).text, bytes, meaning, max_bytes);
  memcpy(out, text, bytes + 1);
  return GLOO_OK;
}

/* ---- the launchers ------------------------------------------------------ */

static gloo_status read_torchrun(gli_launch *launch, gloo_error *error) {
  uint64_t size, rank, port;
  gloo_status status = launch_read_number("WORLD_SIZE", "the number of ranks",
                                          1, GLI_RANKS_MAX, &size, error);
  if (status != GLOO_OK) return status;
  status = launch_read_number("RANK", "the rank, below WORLD_SIZE", 0, size - 1,
                              &rank, error);
  if (status == GLOO_OK)
    status =
        launch_read_text("MASTER_ADDR", "the host name or address of rank 0",
                         GLI_HOST_MAX, launch->host, error);
  if (status == GLOO_OK)
    status =
        launch_read_number("MASTER_PORT", "the port that rank 0 listens on", 1,
                           65535, &port, error);
  if (status != GLOO_OK) return status;
  launch->size = (uint32_t)size;
  launch->rank = (uint32_t)rank;
  launch->port = (uint16_t)port;
  return GLOO_OK;
}

static gloo_status read_alone(gli_launch *launch, gloo_error *error) {
  (void)error;
  launch->rank = 0;
  launch->size = 1;
  return GLOO_OK;
}

#define VARIABLES_MAX 4

/* One applies when any of its variables is set, and needs them all. The last
 * has none and always applies. */
typedef struct launcher {
  const char *name;
  const char *variables[VARIABLES_MAX];
  gloo_status (*read)(gli_launch *launch, gloo_error *error);
} launcher;

static const launcher launchers[] = {
    {"torchrun",
     {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"},
     read_torchrun},
    {"none", {NULL}, read_alone},
};

static bool launch_applies(const launcher *l) {
  if (l->variables[0] == NULL) return true;
  for (size_t i = 0; i < VARIABLES_MAX && l->variables[i] != NULL; i++)
    if (gli_environment_read(l->variables[i]) != NULL) return true;
  return false;
}

/* Append `name` to a list in words. */
static void list_name(char *list, size_t room, const char *name) {
  if (*list != '\0') strncat(list, ", ", room - strlen(list) - 1);
  strncat(list, name, room - strlen(list) - 1);
}

static gloo_status check_complete(const launcher *l, gloo_error *error) {
  char missing[128] = "", set[128] = "";
  for (size_t i = 0; i < VARIABLES_MAX && l->variables[i] != NULL; i++) {
    const char *name = l->variables[i];
    if (gli_environment_read(name) == NULL) {
      list_name(missing, sizeof missing, name);
    } else {
      list_name(set, sizeof set, name);
    }
  }
  if (missing[0] == '\0') return GLOO_OK;
  return gli_fail(
      error, GLOO_ERR_INVALID, -1,
      "the environment has %s, but not %s: set all of them to something, "
      "or none for a job of one rank",
      set, missing);
}

/* torchrun names its jobs, if it is told a name: it is "none" otherwise. Other
 * launchers' numbers (of Slurm's steps, of PMIx's name spaces) may differ
 * between ranks of one job, when it was started in several pieces. */
static gloo_status read_job(gli_launch *launch, gloo_error *error) {
  const char *run = gli_environment_read("TORCHELASTIC_RUN_ID");
  const char *name = NULL;
  gloo_status status = GLOO_OK;
  if (run != NULL && strcmp(run, "none") != 0) name = "TORCHELASTIC_RUN_ID";
  if (gli_environment_read("GLOO_JOB_ID") != NULL) name = "GLOO_JOB_ID";
  if (name != NULL)
    status = launch_read_text(name, "the name of the job", GLI_JOB_MAX,
                              launch->job, error);
  if (status == GLOO_OK && gli_environment_read("GLOO_EPOCH") != NULL)
    status = launch_read_number("GLOO_EPOCH", "the number of the attempt", 0,
                                UINT64_MAX, &launch->epoch, error);
  return status;
}

gloo_status gli_launch_read(gli_launch *out, gloo_error *error) {
  gli_launch launch = {0};
  const launcher *l = launchers;
  while (!launch_applies(l)) l++;
  launch.launcher = l->name;
  gloo_status status = check_complete(l, error);
  if (status == GLOO_OK) status = l->read(&launch, error);
  if (status == GLOO_OK) status = read_job(&launch, error);
  if (status == GLOO_OK) *out = launch;
  return status;
}
