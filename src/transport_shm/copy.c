#include "transport_shm/copy.h"

#include <string.h>
#include <uv.h>

#include "core/reduce.h"

/* Timing costs two looks at the clock. */
enum { TIMED_EVERY = 8 };

/* The other way is tried soon, and then ever more rarely. It can be ten times
 * as slow, so of a chunk that streams only the beginning is tried. */
enum { TRY_FIRST = 16, TRY_MOST = 256 };

/* How many times as long as streaming the caches must take, in halves: what is
 * streamed takes longer to read. */
enum { LONG_TO_STREAM = 6, LONG_TO_CACHE = 4 };
enum { SHORT_TO_STREAM = 4, SHORT_TO_CACHE = 3 };

enum { SMOOTHING = 4, OUTLIER = 4 };

static void smooth(uint64_t *cost, uint64_t ns, size_t bytes) {
  const uint64_t most = (uint64_t)1 << 40; /* of ns: many minutes */
  if (ns > most) ns = most;
  uint64_t sample = (ns << 20) / bytes + 1;
  /* Something else ran in between. */
  if (*cost != 0 && sample / OUTLIER > *cost) sample = *cost * OUTLIER;
  if (*cost == 0)
    *cost = sample;
  else
    *cost = *cost - *cost / SMOOTHING + sample / SMOOTHING + 1;
}

void gli_shm_copier_note(gli_shm_copier *c, bool streamed, uint64_t ns,
                         size_t bytes) {
  smooth(streamed ? &c->cost_streamed : &c->cost_cached, ns, bytes);
  if (c->cost_streamed == 0 || c->cost_cached == 0) return;
  uint64_t halves = c->streams ? SHORT_TO_CACHE : SHORT_TO_STREAM;
  if (bytes >= GLI_SHM_STREAM_LONG)
    halves = c->streams ? LONG_TO_CACHE : LONG_TO_STREAM;
  c->streams = 2 * c->cost_cached / halves > c->cost_streamed;
}

static void copy(bool stream, void *dst, const void *src, size_t bytes) {
  if (stream)
    gli_copy_stream(dst, src, bytes);
  else
    memcpy(dst, src, bytes);
}

static void copy_timed(gli_shm_copier *c, bool stream, void *dst,
                       const void *src, size_t bytes) {
  uint64_t begin_ns = uv_hrtime();
  copy(stream, dst, src, bytes);
  gli_shm_copier_note(c, stream, uv_hrtime() - begin_ns, bytes);
}

static bool time_to_try(gli_shm_copier *c) {
  if (c->try_period == 0) {
    c->try_period = TRY_FIRST;
    c->try_at = c->chunks + TRY_FIRST;
  }
  if (c->chunks != c->try_at) return false;
  if (c->try_period < TRY_MOST) c->try_period *= 2;
  c->try_at = c->chunks + c->try_period;
  return true;
}

void gli_shm_copy(gli_shm_copier *c, void *dst, const void *src, size_t bytes) {
  bool stream = c->streams;
  c->chunks++;
  if (time_to_try(c)) {
    size_t tried = bytes;
    if (stream && bytes > GLI_SHM_STREAM_LONG) tried = GLI_SHM_STREAM_LONG;
    copy_timed(c, !stream, dst, src, tried);
    if (tried < bytes)
      copy(stream, (char *)dst + tried, (const char *)src + tried,
           bytes - tried);
  } else if (c->chunks % TIMED_EVERY == 0) {
    copy_timed(c, stream, dst, src, bytes);
  } else {
    copy(stream, dst, src, bytes);
  }
}
