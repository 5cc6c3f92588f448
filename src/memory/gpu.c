/* Locations of buffers, and errors of drivers. */
#include "memory/gpu.h"

#include <stdio.h>
#include <unistd.h>

#include "core/descriptor.h"
#include "core/error.h"
#include "core/text.h"
#include "memory/gpu_state.h"

atomic_bool gli_gpu_watched_flag;

static void describe_devices(const gli_gpu_api *api, char *text, size_t bytes) {
  const gli_gpu_driver *driver = api->driver;
  int version = 0, devices = 0;
  gli_gpu_result result = driver->init(0);
  if (result == GLI_GPU_SUCCESS) result = driver->version(&version);
  if (result == GLI_GPU_SUCCESS) result = driver->device_count(&devices);
  if (result != GLI_GPU_SUCCESS) {
    gloo_error error;
    (void)gli_gpu_api_failed(api, result, "initialising", &error);
    snprintf(text, bytes, "no: %s", error.message);
    return;
  }
  char number[32];
  api->version_text(version, number, sizeof number);
  int used = snprintf(text, bytes, "the driver of %s %s, %s", api->name, number,
                      gli_count((uint64_t)devices, "device").text);
  for (int i = 0; i < devices && used >= 0 && (size_t)used < bytes; i++) {
    char name[64];
    if (driver->device_name(name, sizeof name, i) != GLI_GPU_SUCCESS) continue;
    used += snprintf(text + used, bytes - (size_t)used, "%s %s",
                     i == 0 ? ":" : ",", name);
  }
}

const char *gli_gpu_describe(size_t i, char *text, size_t bytes) {
  gli_gpu_api *api = gli_gpu_apis[i];
  if (api == NULL) return NULL;
  if (gli_gpu_open(api, true)) {
    describe_devices(api, text, bytes);
  } else {
    snprintf(text, bytes, "no: %s", api->why);
  }
  return api->name;
}

gloo_status gli_gpu_api_failed(const gli_gpu_api *api, gli_gpu_result result,
                               const char *what, gloo_error *error) {
  const char *name = NULL, *text = NULL;
  api->error_text(result, &name, &text);
  return gli_fail(
      error, result == GLI_GPU_OUT_OF_MEMORY ? GLOO_ERR_NO_MEMORY : GLOO_ERR_IO,
      -1, "%s: %s failed: %.160s (%.60s, %d)", api->name, what,
      text != NULL ? text : "unknown error", name != NULL ? name : "no name",
      result);
}

/* ---- location of memory -------------------------------------------------- */

/* Returns true if this process can read the byte: a system call copies it. */
static bool is_readable(const void *memory) {
  int ends[2];
  if (!gli_pipe_open(ends)) return false;
  bool readable = write(ends[1], memory, 1) == 1;
  gli_fd_close(ends[0]);
  gli_fd_close(ends[1]);
  return readable;
}

/* Asks one kind. *place stays that of host memory if the memory is not of it. */
static gloo_status find_of(gli_gpu_api *api, const void *memory,
                           gli_gpu_place *place, gloo_error *error) {
  gli_gpu_result result = api->find(memory, place);
  const gli_gpu *gpu = NULL;
  if (result == GLI_GPU_INVALID_CONTEXT) gpu = gli_gpu_enter_any(api);
  if (gpu != NULL) {
    result = api->find(memory, place);
    gli_gpu_leave(gpu);
  }
  switch (result) {
    case GLI_GPU_SUCCESS:
    case GLI_GPU_INVALID_VALUE:   /* unknown pointer */
    case GLI_GPU_NO_DEVICE:       /* the driver finds no GPU */
    case GLI_GPU_NOT_INITIALIZED: /* driver not used yet, ... */
    case GLI_GPU_DEINITIALIZED:   /* ... or not any more */
      return GLOO_OK;
    default:
      /* After a fault in a kernel the driver refuses every call. Host memory
       * stays usable, so that the program can tell the other ranks. */
      if (is_readable(memory)) return GLOO_OK;
      return gli_gpu_api_failed(api, result,
                                "querying the memory type of a buffer", error);
  }
}

gloo_status gli_gpu_find(const void *memory, gli_gpu_place *place,
                         gloo_error *error) {
  gloo_status status = GLOO_OK;
  *place = (gli_gpu_place){.kind = GLI_MEMORY_HOST, .device = -1};
  for (int i = 0; gli_gpu_apis[i] != NULL && status == GLOO_OK; i++) {
    if (!gli_gpu_is_used(gli_gpu_apis[i])) continue;
    status = find_of(gli_gpu_apis[i], memory, place, error);
    if (place->kind == GLI_MEMORY_HOST) continue;
    place->api = gli_gpu_apis[i];
    break;
  }
  return status;
}

gloo_status gli_gpu_refuse(const char *function, const void *memory,
                           gloo_error *error) {
  gli_gpu_place place;
  if (!gli_gpu_is_watched() || memory == NULL) return GLOO_OK;
  gloo_status status = gli_gpu_find(memory, &place, error);
  if (status != GLOO_OK || place.kind != GLI_MEMORY_DEVICE) return status;
  return gli_fail(error, GLOO_ERR_BUFFER, -1,
                  "%s: %p is GPU memory, which this call does not support; "
                  "copy it to host memory first",
                  function, memory);
}
