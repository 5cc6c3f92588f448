#include "tools/bench_meeting.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

#include "core/error.h"
#include "core/signals.h"

enum { NAME_BYTES = 32, SPINS_PER_CLOCK = 4096 };
#define PATIENCE_NS (UINT64_C(60) * 1000000000)

/* ---- shared memory ------------------------------------------------------ */

/* Have the memory before it is used: of a full file system it cannot be had
 * later, which is a signal then. */
static bool reserve(int fd, off_t bytes) {
  gli_signal_guard guard;
  gli_signal_guard_enter(&guard);
  bool good = ftruncate(fd, bytes) == 0;
#if defined(_POSIX_ADVISORY_INFO) && _POSIX_ADVISORY_INFO > 0
  if (good) good = posix_fallocate(fd, 0, bytes) == 0;
#endif
  gli_signal_guard_leave(&guard);
  return good;
}

/* Make a name that nobody has, or open it. NULL when it cannot be. */
static gli_meeting_area *map_area(const char *name, bool create) {
  int flags = create ? O_RDWR | O_CREAT | O_EXCL : O_RDWR;
  int fd = shm_open(name, flags, S_IRUSR | S_IWUSR);
  if (fd < 0) return NULL;
  void *memory = MAP_FAILED;
  if (!create || reserve(fd, (off_t)sizeof(gli_meeting_area))) {
    memory = mmap(NULL, sizeof(gli_meeting_area), PROT_READ | PROT_WRITE,
                  MAP_SHARED, fd, 0);
  }
  close(fd);
  if (memory == MAP_FAILED && create) shm_unlink(name);
  return memory == MAP_FAILED ? NULL : memory;
}

/* Rank 0 makes the area; an empty name means that it could not. */
static gli_meeting_area *create_area(char name[NAME_BYTES]) {
  uint64_t random;
  memset(name, 0, NAME_BYTES);
  if (uv_random(NULL, NULL, &random, sizeof random, 0, NULL) != 0) return NULL;
  snprintf(name, NAME_BYTES, "/gloo-bench-%016llx", (unsigned long long)random);
  gli_meeting_area *area = map_area(name, true);
  if (area == NULL) memset(name, 0, NAME_BYTES);
  return area;
}

gloo_status gli_meeting_open(gli_meeting *meeting, gloo_context *context,
                             gloo_error *error) {
  memset(meeting, 0, sizeof *meeting);
  meeting->context = context;
  meeting->ranks = (unsigned)gloo_context_size(context);
  bool first = gloo_context_rank(context) == 0;
  gloo_options options = GLOO_OPTIONS_INIT;
  options.error = error;

  char name[NAME_BYTES];
  gli_meeting_area *area = first ? create_area(name) : NULL;
  bool created = area != NULL;
  gloo_status status = gloo_broadcast(context, GLOO_IN_PLACE, name, NAME_BYTES,
                                      GLOO_UINT8, 0, &options);
  if (status == GLOO_OK && !first && name[0] != 0) {
    name[NAME_BYTES - 1] = 0;
    area = map_area(name, false);
  }
  int32_t all = area != NULL;
  if (status == GLOO_OK) {
    status = gloo_allreduce(context, GLOO_IN_PLACE, &all, 1, GLOO_INT32,
                            GLOO_MIN, &options);
  }
  if (created) shm_unlink(name);
  if (status == GLOO_OK && all == 0 && first) {
    fprintf(stderr,
            "gloo bench: the ranks share no memory, so they meet in "
            "gloo_barrier before each call\n");
  }
  meeting->area = area;
  meeting->mapped = area != NULL;
  if (status == GLOO_OK && all == 1) return status;
  gli_meeting_close(meeting);
  return status;
}

void gli_meeting_share(gli_meeting *meeting, gloo_context *context,
                       gli_meeting_area *area) {
  meeting->area = area;
  meeting->mapped = false;
  meeting->context = context;
  meeting->ranks = (unsigned)gloo_context_size(context);
}

void gli_meeting_close(gli_meeting *meeting) {
  if (meeting->mapped) munmap(meeting->area, sizeof *meeting->area);
  meeting->area = NULL;
  meeting->mapped = false;
}

/* ---- meeting ------------------------------------------------------------ */

void gli_meeting_break(gli_meeting *meeting) {
  if (meeting->area != NULL) atomic_store(&meeting->area->broken, 1);
}

static gloo_status wait_for_round(gli_meeting_area *area, unsigned round,
                                  gloo_error *error) {
  uint64_t patience_ends = uv_hrtime() + PATIENCE_NS;
  unsigned spins = 0;
  while (atomic_load_explicit(&area->round, memory_order_acquire) == round) {
    if (atomic_load_explicit(&area->broken, memory_order_relaxed)) {
      return gli_fail(error, GLOO_ERR_PEER, -1,
                      "another rank gave up, see its own message");
    }
    if (++spins % SPINS_PER_CLOCK == 0 && uv_hrtime() > patience_ends) {
      return gli_fail(error, GLOO_ERR_TIMEOUT, -1,
                      "another rank has not come to the next iteration for "
                      "a minute");
    }
    sched_yield();
  }
  return GLOO_OK;
}

gloo_status gli_meeting_wait(gli_meeting *meeting, gloo_error *error) {
  gli_meeting_area *area = meeting->area;
  if (area == NULL) {
    gloo_options options = GLOO_OPTIONS_INIT;
    options.error = error;
    return gloo_barrier(meeting->context, &options);
  }
  unsigned round = atomic_load_explicit(&area->round, memory_order_acquire);
  unsigned before =
      atomic_fetch_add_explicit(&area->arrived, 1, memory_order_acq_rel);
  if (before + 1 < meeting->ranks) return wait_for_round(area, round, error);
  atomic_store_explicit(&area->arrived, 0, memory_order_relaxed);
  atomic_store_explicit(&area->round, round + 1, memory_order_release);
  return GLOO_OK;
}
