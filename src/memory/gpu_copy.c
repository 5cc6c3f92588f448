/* GPUs, events of their streams, and copies. */
#include <pthread.h>
#include <stdlib.h>

#include "core/error.h"
#include "memory/gpu_state.h"

/* Protects the list of GPUs that are not lost, and their unused events. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static gli_gpu *gpus;

/* ---- contexts ------------------------------------------------------------ */

gloo_status gli_gpu_failed(gli_gpu *gpu, gli_gpu_result result,
                           const char *what, gloo_error *error) {
  if (result == GLI_GPU_INVALID_CONTEXT || result == GLI_GPU_DEINITIALIZED ||
      result == GLI_GPU_CONTEXT_IS_DESTROYED ||
      result == GLI_GPU_INVALID_HANDLE)
    atomic_store(&gpu->lost, true);
  return gli_gpu_api_failed(gpu->api, result, what, error);
}

/* Capture mode of the calling thread. The library's work is not part of a graph
 * that a stream of the program captures, and must not end the capture. */
static _Thread_local int capture_mode;

gloo_status gli_gpu_enter(gli_gpu *gpu, gloo_error *error) {
  gli_gpu_result result = gpu->api->enter(gpu->context);
  if (result != GLI_GPU_SUCCESS)
    return gli_gpu_failed(gpu, result, "switching to the context of a buffer",
                          error);
  capture_mode = GLI_GPU_CAPTURE_MODE_RELAXED;
  (void)gpu->api->driver->exchange_capture_mode(&capture_mode);
  return GLOO_OK;
}

void gli_gpu_leave(const gli_gpu *gpu) {
  (void)gpu->api->driver->exchange_capture_mode(&capture_mode);
  gpu->api->leave();
}

static gloo_status make_streams(gli_gpu *gpu, gloo_error *error) {
  const gli_gpu_driver *driver = gpu->api->driver;
  gloo_status status = gli_gpu_enter(gpu, error);
  if (status != GLOO_OK) return status;
  for (int i = 0; i < GLI_GPU_DIRECTIONS && status == GLOO_OK; i++) {
    gli_gpu_result result =
        driver->stream_create(&gpu->streams[i], GLI_GPU_STREAM_NON_BLOCKING);
    if (result != GLI_GPU_SUCCESS)
      status = gli_gpu_failed(gpu, result, "making a stream", error);
    if (status != GLOO_OK && i > 0)
      (void)driver->stream_destroy(gpu->streams[0]);
  }
  gli_gpu_leave(gpu);
  return status;
}

static gloo_status new_gpu(gli_gpu_api *api, void *context, gli_gpu **out,
                           gloo_error *error) {
  gli_gpu *gpu = calloc(1, sizeof *gpu);
  if (gpu == NULL)
    return gli_fail(error, GLOO_ERR_NO_MEMORY, -1, "out of memory for a GPU");
  gpu->api = api;
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

static gloo_status gpu_in(gli_gpu_api *api, void *context, gli_gpu **out,
                          gloo_error *error) {
  pthread_mutex_lock(&lock);
  gli_gpu **at = &gpus;
  gloo_status status = GLOO_OK;
  while (*at != NULL &&
         ((*at)->api != api || (*at)->context != context || (*at)->lost)) {
    if ((*at)->lost) {
      *at = (*at)->next;
    } else {
      at = &(*at)->next;
    }
  }
  *out = *at;
  if (*out == NULL) status = new_gpu(api, context, out, error);
  pthread_mutex_unlock(&lock);
  return status;
}

/* Memory without a context, such as that of pools, uses the primary context. */
gloo_status gli_gpu_of(const gli_gpu_place *place, gli_gpu **gpu,
                       gloo_error *error) {
  void *context = place->context;
  if (context == NULL) {
    gli_gpu_result result =
        place->api->context_of_device(place->device, false, &context);
    if (result != GLI_GPU_SUCCESS)
      return gli_gpu_api_failed(place->api, result,
                                "switching to the device of a buffer", error);
  }
  return gpu_in(place->api, context, gpu, error);
}

gli_gpu *gli_gpu_enter_any(gli_gpu_api *api) {
  int devices = 0;
  pthread_mutex_lock(&lock);
  gli_gpu *gpu = gpus;
  while (gpu != NULL && (gpu->api != api || gpu->lost)) gpu = gpu->next;
  pthread_mutex_unlock(&lock);
  if (gpu == NULL) (void)api->driver->device_count(&devices);
  for (int i = 0; i < devices && gpu == NULL; i++) {
    gli_gpu_place place = {.api = api, .device = i};
    if (api->device_is_used(i)) (void)gli_gpu_of(&place, &gpu, NULL);
  }
  return gpu != NULL && gli_gpu_enter(gpu, NULL) == GLOO_OK ? gpu : NULL;
}

bool gli_gpu_is_default_stream(const void *stream) {
  return (uintptr_t)stream <= 2; /* NULL, legacy, per thread */
}

static gli_gpu_result query_stream(gli_gpu_api *api, void *stream,
                                   void **context, int *capturing) {
  gli_gpu_result result = api->context_of_stream(stream, context);
  if (result != GLI_GPU_SUCCESS) return result;
  return api->driver->stream_is_capturing(stream, capturing);
}

gloo_status gli_gpu_of_stream(void *stream, gli_gpu **gpu, gloo_error *error) {
  void *context = NULL;
  int capturing = GLI_GPU_CAPTURE_NONE;
  gli_gpu_result result = GLI_GPU_INVALID_HANDLE;
  gli_gpu_api *api = NULL;
  for (int i = 0; gli_gpu_apis[i] != NULL && result != GLI_GPU_SUCCESS; i++) {
    if (!gli_gpu_is_used(gli_gpu_apis[i])) continue;
    api = gli_gpu_apis[i];
    result = query_stream(api, stream, &context, &capturing);
    const gli_gpu *any = NULL;
    if (result == GLI_GPU_INVALID_CONTEXT) any = gli_gpu_enter_any(api);
    if (any == NULL) continue;
    result = query_stream(api, stream, &context, &capturing);
    gli_gpu_leave(any);
  }
  if (api == NULL)
    return gli_fail(error, GLOO_ERR_INVALID, -1,
                    "gloo_options.stream is set, but this process does not use "
                    "CUDA or HIP, or GLOO_CUDA or GLOO_HIP is 0");
  if (result != GLI_GPU_SUCCESS) {
    gloo_error why;
    (void)gli_gpu_api_failed(api, result, "using gloo_options.stream", &why);
    return gli_fail(error, GLOO_ERR_INVALID, -1, "%s", why.message);
  }
  if (capturing != GLI_GPU_CAPTURE_NONE)
    return gli_fail(error, GLOO_ERR_UNSUPPORTED, -1,
                    "gloo_options.stream is capturing a graph, which cannot "
                    "include calls of this library");
  return gpu_in(api, context, gpu, error);
}

/* ---- events -------------------------------------------------------------- */

static gli_gpu_event *event_reuse(gli_gpu *gpu) {
  pthread_mutex_lock(&lock);
  gli_gpu_event *e = gpu->free_events;
  if (e != NULL) gpu->free_events = e->next;
  pthread_mutex_unlock(&lock);
  return e;
}

/* Takes an event, in the current context of the GPU. */
static gloo_status event_take(gli_gpu *gpu, gli_gpu_event **event,
                              gloo_error *error) {
  *event = event_reuse(gpu);
  if (*event != NULL) return GLOO_OK;
  gli_gpu_event *e = malloc(sizeof *e);
  if (e == NULL)
    return gli_fail(error, GLOO_ERR_NO_MEMORY, -1, "out of memory for a copy");
  *e = (gli_gpu_event){.gpu = gpu};
  gli_gpu_result result =
      gpu->api->driver->event_create(&e->event, GLI_GPU_EVENT_DISABLE_TIMING);
  if (result != GLI_GPU_SUCCESS) {
    free(e);
    return gli_gpu_failed(gpu, result, "creating an event", error);
  }
  *event = e;
  return GLOO_OK;
}

void gli_gpu_forget(gli_gpu_event *e) {
  if (e == NULL) return;
  pthread_mutex_lock(&lock);
  e->next = e->gpu->free_events;
  e->gpu->free_events = e;
  pthread_mutex_unlock(&lock);
}

gloo_status gli_gpu_stream_failed(gli_gpu *gpu, gli_gpu_result result,
                                  const char *what, gloo_error *error) {
  bool gone = result == GLI_GPU_INVALID_HANDLE;
  return gone ? gli_gpu_api_failed(gpu->api, result, what, error)
              : gli_gpu_failed(gpu, result, what, error);
}

static gloo_status mark_stream(gli_gpu *gpu, void *stream,
                               gli_gpu_event **event, gloo_error *error) {
  gloo_status status = gli_gpu_enter(gpu, error);
  if (status != GLOO_OK) return status;
  status = event_take(gpu, event, error);
  if (status == GLOO_OK) {
    gli_gpu_result result =
        gpu->api->driver->event_record((*event)->event, stream);
    if (result != GLI_GPU_SUCCESS) {
      status = gli_gpu_stream_failed(gpu, result,
                                     "recording an event in a stream", error);
      gli_gpu_forget(*event);
    }
  }
  gli_gpu_leave(gpu);
  return status;
}

gloo_status gli_gpu_mark(gli_gpu *gpu, void *stream, gli_gpu_event **event,
                         gloo_error *error) {
  return mark_stream(gpu, stream, event, error);
}

gloo_status gli_gpu_mark_copies(gli_gpu *gpu, gli_gpu_direction direction,
                                gli_gpu_event **event, gloo_error *error) {
  return mark_stream(gpu, gpu->streams[direction], event, error);
}

gloo_status gli_gpu_reached(gli_gpu_event *e, gloo_error *error) {
  gloo_status status = gli_gpu_enter(e->gpu, error);
  if (status != GLOO_OK) return status;
  gli_gpu_result result = e->gpu->api->driver->event_query(e->event);
  gli_gpu_leave(e->gpu);
  if (result == GLI_GPU_SUCCESS) return GLOO_OK;
  if (result == GLI_GPU_NOT_READY) return GLOO_IN_PROGRESS;
  return gli_gpu_failed(e->gpu, result, "waiting for a stream", error);
}

void gli_gpu_await_copies(gli_gpu *gpu) {
  if (gli_gpu_enter(gpu, NULL) != GLOO_OK) return;
  for (int i = 0; i < GLI_GPU_DIRECTIONS; i++)
    (void)gpu->api->driver->stream_synchronize(gpu->streams[i]);
  gli_gpu_leave(gpu);
}

/* ---- copies -------------------------------------------------------------- */

gloo_status gli_gpu_copy(gli_gpu *gpu, gli_gpu_direction direction, void *to,
                         const void *from, size_t bytes, gloo_error *error) {
  gloo_status status = gli_gpu_enter(gpu, error);
  if (status != GLOO_OK) return status;
  gli_gpu_result result =
      gpu->api->copy(to, from, bytes, gpu->streams[direction]);
  gli_gpu_leave(gpu);
  if (result == GLI_GPU_SUCCESS) return GLOO_OK;
  return gli_gpu_failed(gpu, result,
                        direction == GLI_GPU_TO_HOST ? "copying from a buffer"
                                                     : "copying to a buffer",
                        error);
}
