/* Build without CUDA: all buffers are host memory. */
#include <stdio.h>

#include "core/environment.h"
#include "core/error.h"
#include "memory/cuda.h"

atomic_bool gli_cuda_watched_flag;

gloo_status gli_cuda_watch(gloo_error *error) {
  bool wanted;
  gloo_status status = gli_switch_read(0, "GLOO_CUDA", false, &wanted, error);
  if (status != GLOO_OK || !wanted) return status;
  return gli_fail(error, GLOO_ERR_UNSUPPORTED, -1,
                  "GLOO_CUDA is 1, but this library was built without CUDA "
                  "(meson setup -Dcuda=enabled)");
}

void gli_cuda_describe(char *text, size_t bytes) {
  snprintf(text, bytes, "not built");
}

static gloo_status no_cuda(gloo_error *error) {
  return gli_fail(error, GLOO_ERR_UNSUPPORTED, -1,
                  "this library was built without CUDA");
}

size_t gli_pinned_limit(void) {
  return 0;
}

gloo_status gli_cuda_find(const void *memory, gli_cuda_place *place,
                          gloo_error *error) {
  (void)memory, (void)error;
  *place = (gli_cuda_place){.kind = GLI_MEMORY_HOST, .device = -1};
  return GLOO_OK;
}

gloo_status gli_cuda_refuse(const char *function, const void *memory,
                            gloo_error *error) {
  (void)function, (void)memory, (void)error;
  return GLOO_OK;
}

gloo_status gli_cuda_gpu_of(const gli_cuda_place *place, gli_cuda_gpu **gpu,
                            gloo_error *error) {
  (void)place, (void)gpu;
  return no_cuda(error);
}

gloo_status gli_cuda_gpu_of_stream(void *stream, gli_cuda_gpu **gpu,
                                   gloo_error *error) {
  (void)stream, (void)gpu;
  return no_cuda(error);
}

bool gli_cuda_is_default_stream(const void *stream) {
  return stream == NULL;
}

gloo_status gli_cuda_mark(gli_cuda_gpu *gpu, void *stream,
                          gli_cuda_event **event, gloo_error *error) {
  (void)gpu, (void)stream, (void)event;
  return no_cuda(error);
}

gloo_status gli_cuda_copy(gli_cuda_gpu *gpu, gli_cuda_direction direction,
                          void *to, const void *from, size_t bytes,
                          gloo_error *error) {
  (void)gpu, (void)direction, (void)to, (void)from, (void)bytes;
  return no_cuda(error);
}

gloo_status gli_cuda_mark_copies(gli_cuda_gpu *gpu,
                                 gli_cuda_direction direction,
                                 gli_cuda_event **event, gloo_error *error) {
  (void)gpu, (void)direction, (void)event;
  return no_cuda(error);
}

gloo_status gli_cuda_reached(gli_cuda_event *event, gloo_error *error) {
  (void)event;
  return no_cuda(error);
}

void gli_cuda_await_copies(gli_cuda_gpu *gpu) {
  (void)gpu;
}

void gli_cuda_forget(gli_cuda_event *event) {
  (void)event;
}

gloo_status gli_pinned_take(gli_cuda_gpu *gpu, size_t bytes, void **memory,
                            gloo_error *error) {
  (void)gpu, (void)bytes, (void)memory;
  return no_cuda(error);
}

void gli_pinned_give(void *memory) {
  (void)memory;
}

void gli_pinned_trim(void) {}

gloo_status gli_cuda_allocate(int device, size_t bytes, void **memory,
                              gloo_error *error) {
  (void)device, (void)bytes, (void)memory;
  return no_cuda(error);
}

void gli_cuda_free(void *memory) {
  (void)memory;
}

gloo_status gli_cuda_copy_now(void *gpu_memory, void *host_memory, size_t bytes,
                              gli_cuda_direction direction, gloo_error *error) {
  (void)gpu_memory, (void)host_memory, (void)bytes, (void)direction;
  return no_cuda(error);
}

gloo_status gli_cuda_flag_take(gli_cuda_gpu *gpu, gli_cuda_flag **flag,
                               gloo_error *error) {
  (void)gpu, (void)flag;
  return no_cuda(error);
}

void gli_cuda_flag_give(gli_cuda_flag *flag) {
  (void)flag;
}

bool gli_cuda_flag_expect(gli_cuda_flag *flag, uint32_t *value) {
  (void)flag, (void)value;
  return false;
}

gloo_status gli_cuda_flag_wait(gli_cuda_flag *flag, uint32_t value,
                               gli_cuda_gpu *gpu, void *stream,
                               gloo_error *error) {
  (void)flag, (void)value, (void)gpu, (void)stream;
  return no_cuda(error);
}

void gli_cuda_flag_raise(gli_cuda_flag *flag) {
  (void)flag;
}
