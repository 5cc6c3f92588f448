/* One rank of `gloo bench start`. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <uv.h>

#include "core/error.h"
#include "tools/start.h"

enum { POLL_MS = 1, STAY_MS = 60000 };

/* /dev/fd lists them where there is one; elsewhere low numbers are tried. */
static uint32_t count_sockets(void) {
  uint32_t n = 0;
  struct stat s;
  DIR *all = opendir("/dev/fd");
  if (all == NULL) {
    for (int fd = 0; fd < 65536; fd++)
      n += fstat(fd, &s) == 0 && S_ISSOCK(s.st_mode);
    return n;
  }
  for (struct dirent *e = readdir(all); e != NULL; e = readdir(all)) {
    char *end;
    long fd = strtol(e->d_name, &end, 10);
    if (end == e->d_name || *end != '\0') continue;
    n += fstat((int)fd, &s) == 0 && S_ISSOCK(s.st_mode);
  }
  closedir(all);
  return n;
}

/* Until it counts so many; not longer than what starts them takes to give up.
 */
static bool await_all(const atomic_uint *count, uint32_t n) {
  for (int ms = 0; ms < STAY_MS && atomic_load(count) < n; ms += POLL_MS)
    uv_sleep(POLL_MS);
  return atomic_load(count) >= n;
}

static bool await_go(gli_start_area *area) {
  atomic_fetch_add(&area->ready, 1);
  return await_all(&area->go, 1);
}

/* From a context on. */
static void pass(gloo_context *context, gli_start_area *area,
                 gli_start_rank *mine, bool alone) {
  mine->met_ns = uv_hrtime();
  if (alone) mine->sockets_met = count_sockets();
  uint32_t size = (uint32_t)gloo_context_size(context);
  gloo_error error;
  if (gloo_barrier(context, NULL, &error) == GLOO_OK)
    mine->passed_ns = uv_hrtime();
  else
    mine->error = error;
  atomic_fetch_add(&area->passed, 1);
  (void)await_all(&area->passed, size);
  if (alone) mine->sockets_passed = count_sockets();
  atomic_fetch_add(&area->ended, 1);
  (void)await_all(&area->ended, size);
  gloo_context_destroy(context);
}

static void fail(gli_start_area *area, gli_start_rank *mine,
                 const gloo_error *error) {
  mine->error = *error;
  atomic_fetch_add(&area->passed, 1);
  atomic_fetch_add(&area->ended, 1);
}

static void set_number(const char *name, uint32_t value) {
  char text[16];
  snprintf(text, sizeof text, "%u", (unsigned)value);
  (void)setenv(name, text, 1);
}

void gli_start_process(const gli_start_way *way, gli_start_area *area,
                       uint32_t rank) {
  gli_start_rank *mine = &area->ranks[rank];
  gloo_context *context;
  gloo_error error;
  if (!await_go(area)) return;
  set_number("GLOO_RANK", rank);
  set_number("GLOO_SIZE", way->size);
  (void)setenv("GLOO_STORE", area->store, 1);
  (void)setenv("GLOO_JOB_ID", way->job, 1);
  if (way->transport != NULL) (void)setenv("GLOO_TRANSPORT", way->transport, 1);
  if (gloo_init(NULL, &context, &error) == GLOO_OK)
    pass(context, area, mine, true);
  else
    fail(area, mine, &error);
}

void gli_start_thread(const gli_start_way *way, gli_start_area *area,
                      uint32_t rank) {
  gli_start_rank *mine = &area->ranks[rank];
  gloo_device_options o = GLOO_DEVICE_OPTIONS_INIT;
  gloo_store *base = NULL, *store = NULL;
  gloo_device *device = NULL;
  gloo_context *context;
  gloo_error error;
  if (!await_go(area)) return;
  o.transport = way->transport;
  gloo_status status =
      gloo_store_open(area->store, GLOO_TIMEOUT_DEFAULT, &base, &error);
  if (status == GLOO_OK)
    status = gloo_store_prefix_create(base, way->job, &store, &error);
  if (status == GLOO_OK) status = gloo_device_create(&o, &device, &error);
  if (status == GLOO_OK)
    status = gloo_context_create((int)rank, (int)way->size, store, device, NULL,
                                 &context, &error);
  if (status == GLOO_OK)
    pass(context, area, mine, false);
  else
    fail(area, mine, &error);
  gloo_device_destroy(device);
  gloo_store_destroy(store);
  gloo_store_destroy(base);
}
