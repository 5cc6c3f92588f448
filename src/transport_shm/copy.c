#include "transport_shm/copy.h"

#include <string.h>
#include <uv.h>

#include "core/reduce.h"

static const gli_storing_bars LONG = {.to_stream = 6, .to_cache = 4};
static const gli_storing_bars SHORT = {.to_stream = 4, .to_cache = 3};

void gli_shm_copier_note(gli_storing *copier, bool streamed, uint64_t ns,
                         size_t bytes) {
  gli_storing_note(copier, bytes >= GLI_SHM_STREAM_LONG ? LONG : SHORT,
                   streamed, ns, bytes);
}

static void copy(bool stream, void *dst, const void *src, size_t bytes) {
  if (stream)
    gli_copy_stream(dst, src, bytes);
  else
    memcpy(dst, src, bytes);
}

void gli_shm_copy(gli_storing *copier, void *dst, const void *src,
                  size_t bytes) {
  gli_storing_way way = gli_storing_next(copier);
  if (!way.timed) {
    copy(way.stream, dst, src, bytes);
    return;
  }
  /* Of a chunk that streams only the beginning is tried through the caches. */
  size_t timed = bytes;
  if (way.tried && !way.stream && bytes > GLI_SHM_STREAM_LONG)
    timed = GLI_SHM_STREAM_LONG;
  uint64_t begin_ns = uv_hrtime();
  copy(way.stream, dst, src, timed);
  gli_shm_copier_note(copier, way.stream, uv_hrtime() - begin_ns, timed);
  if (timed < bytes)
    copy(true, (char *)dst + timed, (const char *)src + timed, bytes - timed);
}
