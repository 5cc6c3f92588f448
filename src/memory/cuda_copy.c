/* GPUs, events of their streams, and copies. */
#include <pthread.h>
#include <stdlib.h>

#include "core/error.h"
#include "memory/cuda_gpu.h"

/* Protects the list of GPUs that are not lost, and their unused events. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static gli_cuda_gpu *gpus;

/* ---- contexts ------------------------------------------------------------ */

gloo_status gli_cuda_gpu_failed(gli_cuda_gpu *gpu, gli_cu_result result,
                                const char *what, gloo_error *error) {
  if (result == GLI_CU_INVALID_CONTEXT || result == GLI_CU_DEINITIALIZED ||
      result == GLI_CU_CONTEXT_IS_DESTROYED || result == GLI_CU_INVALID_HANDLE)
    atomic_store(&gpu->lost, true);
  return gli_cuda_failed(result, what, error);
}

/* Capture mode of the calling thread. The library's work is not part of a graph
 * that a stream of the program captures, and must not end the capture. */
static _Thread_local int capture_mode;

gloo_status gli_cuda_enter(gli_cuda_gpu *gpu, gloo_error *error) {
  const gli_cu_driver *driver = gli_cuda_driver();
  gli_cu_result result = driver->context_push(gpu->context);
  if (result != GLI_CU_SUCCESS)
    return gli_cuda_gpu_failed(gpu, result,
                               "switching to the context of a buffer", error);
  capture_mode = GLI_CU_CAPTURE_MODE_RELAXED;
  (void)driver->exchange_capture_mode(&capture_mode);
  return GLOO_OK;
}

void gli_cuda_leave(void) {
  const gli_cu_driver *driver = gli_cuda_driver();
  gli_cu_context left;
  (void)driver->exchange_capture_mode(&capture_mode);
  (void)driver->context_pop(&left);
}

static gloo_status make_streams(gli_cuda_gpu *gpu, gloo_error *error) {
  const gli_cu_driver *driver = gli_cuda_driver();
  gloo_status status = gli_cuda_enter(gpu, error);
  if (status != GLOO_OK) return status;
  for (int i = 0; i < GLI_CUDA_DIRECTIONS && status == GLOO_OK; i++) {
    gli_cu_result result =
        driver->stream_create(&gpu->streams[i], GLI_CU_STREAM_NON_BLOCKING);
    if (result != GLI_CU_SUCCESS)
      status = gli_cuda_gpu_failed(gpu, result, "making a stream", error);
    if (status != GLOO_OK && i > 0)
      (void)driver->stream_destroy(gpu->streams[0]);
  }
  gli_cuda_leave();
  return status;
}

static gloo_status new_gpu(gli_cu_context context, gli_cuda_gpu **out,
                           gloo_error *error) {
  gli_cuda_gpu *gpu = calloc(1, sizeof *gpu);
  if (gpu == NULL)
    return gli_fail(error, GLOO_ERR_NO_MEMORY, -1, "out of memory for a GPU");
  gpu->context = context;
  gloo_status status = make_streams(gpu, error);
  if (status != GLOO_OK) {
    free(gpu);
    return status;
  }
  gpu->next = gpus;
  gpus = gpu;
  *out = gpu;
  return GLOO_OK;
}

static gloo_status gpu_in(gli_cu_context context, gli_cuda_gpu **out,
                          gloo_error *error) {
  pthread_mutex_lock(&lock);
  gli_cuda_gpu **at = &gpus;
  gloo_status status = GLOO_OK;
  while (*at != NULL && ((*at)->context != context || (*at)->lost)) {
    if ((*at)->lost) {
      *at = (*at)->next;
    } else {
      at = &(*at)->next;
    }
  }
  *out = *at;
  if (*out == NULL) status = new_gpu(context, out, error);
  pthread_mutex_unlock(&lock);
  return status;
}

gloo_status gli_cuda_gpu_of(const gli_cuda_place *place, gli_cuda_gpu **gpu,
                            gloo_error *error) {
  const gli_cu_driver *driver = gli_cuda_driver();
  if (place->context != NULL) return gpu_in(place->context, gpu, error);
  /* Memory without a context, such as that of pools, uses the primary context.
   * This reference is released at once, because the program holds its own. */
  gli_cu_context context;
  gli_cu_device device;
  gli_cu_result result = driver->device_get(&device, place->device);
  if (result == GLI_CU_SUCCESS)
    result = driver->primary_retain(&context, device);
  if (result != GLI_CU_SUCCESS)
    return gli_cuda_failed(result, "switching to the device of a buffer",
                           error);
  gloo_status status = gpu_in(context, gpu, error);
  (void)driver->primary_release(device);
  return status;
}

bool gli_cuda_enter_any(void) {
  const gli_cu_driver *driver = gli_cuda_driver();
  int devices = 0, active = 0;
  unsigned flags;
  pthread_mutex_lock(&lock);
  gli_cuda_gpu *gpu = gpus;
  while (gpu != NULL && gpu->lost) gpu = gpu->next;
  pthread_mutex_unlock(&lock);
  if (gpu == NULL) (void)driver->device_count(&devices);
  for (int i = 0; i < devices && gpu == NULL; i++) {
    gli_cuda_place place = {.device = i};
    if (driver->primary_state(i, &flags, &active) == GLI_CU_SUCCESS && active)
      (void)gli_cuda_gpu_of(&place, &gpu, NULL);
  }
  return gpu != NULL && gli_cuda_enter(gpu, NULL) == GLOO_OK;
}

bool gli_cuda_is_default_stream(const void *stream) {
  return (uintptr_t)stream <= 2; /* NULL, legacy, per thread */
}

static gli_cu_result query_stream(void *stream, gli_cu_context *context,
                                  int *capturing) {
  const gli_cu_driver *driver = gli_cuda_driver();
  gli_cu_result result = driver->stream_context(stream, context);
  if (result != GLI_CU_SUCCESS) return result;
  return driver->stream_is_capturing(stream, capturing);
}

gloo_status gli_cuda_gpu_of_stream(void *stream, gli_cuda_gpu **gpu,
                                   gloo_error *error) {
  const gli_cu_driver *driver = gli_cuda_driver();
  gli_cu_context context = NULL;
  int capturing = GLI_CU_CAPTURE_NONE;
  if (driver == NULL)
    return gli_fail(error, GLOO_ERR_INVALID, -1,
                    "gloo_options.stream is set, but this process does not use "
                    "CUDA, or GLOO_CUDA is 0");
  gli_cu_result result = query_stream(stream, &context, &capturing);
  if (result == GLI_CU_INVALID_CONTEXT && gli_cuda_enter_any()) {
    result = query_stream(stream, &context, &capturing);
    gli_cuda_leave();
  }
  if (result != GLI_CU_SUCCESS) {
    gloo_error why;
    (void)gli_cuda_failed(result, "using gloo_options.stream", &why);
    return gli_fail(error, GLOO_ERR_INVALID, -1, "%s", why.message);
  }
  if (capturing != GLI_CU_CAPTURE_NONE)
    return gli_fail(error, GLOO_ERR_UNSUPPORTED, -1,
                    "gloo_options.stream is capturing a CUDA graph, which "
                    "cannot include calls of this library");
  return gpu_in(context, gpu, error);
}

/* ---- events -------------------------------------------------------------- */

static gli_cuda_event *event_reuse(gli_cuda_gpu *gpu) {
  pthread_mutex_lock(&lock);
  gli_cuda_event *e = gpu->free_events;
  if (e != NULL) gpu->free_events = e->next;
  pthread_mutex_unlock(&lock);
  return e;
}

/* Takes an event, in the current context of the GPU. */
static gloo_status event_take(gli_cuda_gpu *gpu, gli_cuda_event **event,
                              gloo_error *error) {
  *event = event_reuse(gpu);
  if (*event != NULL) return GLOO_OK;
  gli_cuda_event *e = malloc(sizeof *e);
  if (e == NULL)
    return gli_fail(error, GLOO_ERR_NO_MEMORY, -1, "out of memory for a copy");
  *e = (gli_cuda_event){.gpu = gpu};
  gli_cu_result result =
      gli_cuda_driver()->event_create(&e->event, GLI_CU_EVENT_DISABLE_TIMING);
  if (result != GLI_CU_SUCCESS) {
    free(e);
    return gli_cuda_gpu_failed(gpu, result, "creating an event", error);
  }
  *event = e;
  return GLOO_OK;
}

void gli_cuda_forget(gli_cuda_event *e) {
  if (e == NULL) return;
  pthread_mutex_lock(&lock);
  e->next = e->gpu->free_events;
  e->gpu->free_events = e;
  pthread_mutex_unlock(&lock);
}

gloo_status gli_cuda_stream_failed(gli_cuda_gpu *gpu, gli_cu_result result,
                                   const char *what, gloo_error *error) {
  bool gone = result == GLI_CU_INVALID_HANDLE;
  return gone ? gli_cuda_failed(result, what, error)
              : gli_cuda_gpu_failed(gpu, result, what, error);
}

static gloo_status mark_stream(gli_cuda_gpu *gpu, gli_cu_stream stream,
                               gli_cuda_event **event, gloo_error *error) {
  gloo_status status = gli_cuda_enter(gpu, error);
  if (status != GLOO_OK) return status;
  status = event_take(gpu, event, error);
  if (status == GLOO_OK) {
    gli_cu_result result =
        gli_cuda_driver()->event_record((*event)->event, stream);
    if (result != GLI_CU_SUCCESS) {
      status = gli_cuda_stream_failed(gpu, result,
                                      "recording an event in a stream", error);
      gli_cuda_forget(*event);
    }
  }
  gli_cuda_leave();
  return status;
}

gloo_status gli_cuda_mark(gli_cuda_gpu *gpu, void *stream,
                          gli_cuda_event **event, gloo_error *error) {
  return mark_stream(gpu, stream != NULL ? stream : GLI_CU_STREAM_LEGACY, event,
                     error);
}

gloo_status gli_cuda_mark_copies(gli_cuda_gpu *gpu,
                                 gli_cuda_direction direction,
                                 gli_cuda_event **event, gloo_error *error) {
  return mark_stream(gpu, gpu->streams[direction], event, error);
}

gloo_status gli_cuda_reached(gli_cuda_event *e, gloo_error *error) {
  gloo_status status = gli_cuda_enter(e->gpu, error);
  if (status != GLOO_OK) return status;
  gli_cu_result result = gli_cuda_driver()->event_query(e->event);
  gli_cuda_leave();
  if (result == GLI_CU_SUCCESS) return GLOO_OK;
  if (result == GLI_CU_NOT_READY) return GLOO_IN_PROGRESS;
  return gli_cuda_gpu_failed(e->gpu, result, "waiting for a stream", error);
}

void gli_cuda_await_copies(gli_cuda_gpu *gpu) {
  if (gli_cuda_enter(gpu, NULL) != GLOO_OK) return;
  for (int i = 0; i < GLI_CUDA_DIRECTIONS; i++)
    (void)gli_cuda_driver()->stream_synchronize(gpu->streams[i]);
  gli_cuda_leave();
}

/* ---- copies -------------------------------------------------------------- */

gloo_status gli_cuda_copy(gli_cuda_gpu *gpu, gli_cuda_direction direction,
                          void *to, const void *from, size_t bytes,
                          gloo_error *error) {
  gloo_status status = gli_cuda_enter(gpu, error);
  if (status != GLOO_OK) return status;
  gli_cu_result result = gli_cuda_driver()->copy(
      (gli_cu_address)(uintptr_t)to, (gli_cu_address)(uintptr_t)from, bytes,
      gpu->streams[direction]);
  gli_cuda_leave();
  if (result == GLI_CU_SUCCESS) return GLOO_OK;
  return gli_cuda_gpu_failed(gpu, result,
                             direction == GLI_CUDA_TO_HOST
                                 ? "copying from a buffer"
                                 : "copying to a buffer",
                             error);
}
