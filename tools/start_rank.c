/* One rank of `gloo bench start`. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <uv.h>

#include "core/error.h"
#include "tools/own_memory.h"
#include "tools/start.h"

enum { POLL_MS = 1, STAY_MS = 60000 };

/* Counts sockets by /dev/fd if that exists, otherwise by trying low numbers. */
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

/* Waits until *count is at least `n`, but no longer than the starter's timeout.
 */
static bool await_all(const atomic_uint *count, uint32_t n) {
  for (int ms = 0; ms < STAY_MS && atomic_load(count) < n; ms += POLL_MS)
    uv_sleep(POLL_MS);
  return atomic_load(count) >= n;
}

/* A process measures its memory after all have been forked, because its share
 * of the parent's pages changes with every fork. */
static bool await_go(const gli_start_way *way, gli_start_area *area,
                     uint32_t *before_kib) {
  atomic_fetch_add(&area->ready, 1);
  if (before_kib != NULL) {
    if (!await_all(&area->ready, way->size)) return false;
    *before_kib = gli_own_memory_kib();
  }
  atomic_fetch_add(&area->settled, 1);
  return await_all(&area->go, 1);
}

/* A rank in progress. */
typedef struct walker {
  const gli_start_way *way;
  gli_start_area *area;
  gli_start_rank *mine;
  bool alone; /* true if it is the only rank of its process */
  uint32_t before_kib;
} walker;

static void arrive(const walker *w, gli_start_point point) {
  w->mine->at_ns[point] = uv_hrtime();
  atomic_fetch_add(&w->area->reached[point], 1);
  (void)await_all(&w->area->reached[point], w->way->size);
  if (w->alone) {
    uint32_t kib = gli_own_memory_kib();
    w->mine->sockets[point] = count_sockets();
    w->mine->memory_kib[point] = kib > w->before_kib ? kib - w->before_kib : 0;
  }
  atomic_fetch_add(&w->area->counted[point], 1);
  (void)await_all(&w->area->counted[point], w->way->size);
}

/* Records an error; the other ranks do not wait for this one. */
static void fail(const walker *w, gli_start_point point,
                 const gloo_error *error) {
  w->mine->error = *error;
  for (; point <= w->way->last; point++) {
    atomic_fetch_add(&w->area->reached[point], 1);
    atomic_fetch_add(&w->area->counted[point], 1);
  }
}

/* Goes in rounds, so that no rank receives from all at once. */
static gloo_status greet_all(gloo_context *context, gloo_error *error) {
  int rank = gloo_context_rank(context), size = gloo_context_size(context);
  uint32_t word = 1, came;
  gloo_status status = GLOO_OK;
  for (int away = 1; away < size && status == GLOO_OK; away++)
    status =
        gloo_sendrecv(context, &word, 1, (rank + away) % size, &came, 1,
                      (rank + size - away) % size, GLOO_UINT32, NULL, error);
  return status;
}

static gloo_status go_to(gloo_context *context, gli_start_point point,
                         gloo_context **group, gloo_error *error) {
  switch (point) {
    case GLI_START_PASSED:
      return gloo_barrier(context, NULL, error);
    case GLI_START_SPLIT:
      return gloo_context_split(context, 0, 0, NULL, group, error);
    case GLI_START_LINKED:
      return greet_all(context, error);
    case GLI_START_MET:
    case GLI_START_POINTS:
      break;
  }
  return GLOO_OK;
}

/* Walks through the points after the context exists. */
static void walk(const walker *w, gloo_context *context) {
  gloo_context *group = NULL;
  gloo_error error;
  arrive(w, GLI_START_MET);
  for (gli_start_point p = GLI_START_PASSED; p <= w->way->last; p++) {
    w->mine->from_ns[p] = uv_hrtime();
    if (go_to(context, p, &group, &error) != GLOO_OK) {
      fail(w, p, &error);
      break;
    }
    arrive(w, p);
  }
  gloo_context_destroy(group);
  gloo_context_destroy(context);
}

static void set_number(const char *name, uint32_t value) {
  char text[16];
  snprintf(text, sizeof text, "%u", (unsigned)value);
  (void)setenv(name, text, 1);
}

void gli_start_process(const gli_start_way *way, gli_start_area *area,
                       uint32_t rank) {
  walker w = {way, area, &area->ranks[rank], .alone = true};
  gloo_context *context;
  gloo_error error;
  if (!await_go(way, area, &w.before_kib)) return;
  set_number("GLOO_RANK", rank);
  set_number("GLOO_SIZE", way->size);
  (void)setenv("GLOO_STORE", area->store, 1);
  (void)setenv("GLOO_JOB_ID", way->job, 1);
  if (way->transport != NULL) (void)setenv("GLOO_TRANSPORT", way->transport, 1);
  if (gloo_init(NULL, &context, &error) == GLOO_OK)
    walk(&w, context);
  else
    fail(&w, GLI_START_MET, &error);
}

void gli_start_thread(const gli_start_way *way, gli_start_area *area,
                      uint32_t rank) {
  walker w = {way, area, &area->ranks[rank], .alone = false};
  gloo_device_options o = GLOO_DEVICE_OPTIONS_INIT;
  gloo_store *base = NULL, *store = NULL;
  gloo_device *device = NULL;
  gloo_context *context;
  gloo_error error;
  if (!await_go(way, area, NULL)) return;
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
    walk(&w, context);
  else
    fail(&w, GLI_START_MET, &error);
  gloo_device_destroy(device);
  gloo_store_destroy(store);
  gloo_store_destroy(base);
}
