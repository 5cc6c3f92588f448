/* Detection of CUDA in this process, and of the location of a buffer. */
#define _GNU_SOURCE /* pipe2 */
#include "memory/cuda.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "core/environment.h"
#include "core/error.h"
#include "core/text.h"
#include "memory/cuda_gpu.h"

atomic_bool gli_cuda_watched_flag;

/* ---- detection ----------------------------------------------------------- */

/* Returns true if a device file of the driver exists: on servers, in the
 * Windows Subsystem for Linux, or on boards. */
static bool machine_has_gpu(void) {
  static const char *const nodes[] = {"/dev/nvidiactl", "/dev/dxg",
                                      "/dev/nvmap", "/dev/nvhost-gpu"};
  for (size_t i = 0; i < sizeof nodes / sizeof nodes[0]; i++) {
    if (access(nodes[i], F_OK) == 0) return true;
  }
  return false;
}

gloo_status gli_cuda_watch(gloo_error *error) {
  bool wanted;
  gloo_status status =
      gli_switch_read(0, "GLOO_CUDA", machine_has_gpu(), &wanted, error);
  if (status == GLOO_OK) status = gli_pinned_read_settings(error);
  if (status == GLOO_OK && wanted) atomic_store(&gli_cuda_watched_flag, true);
  return status;
}

const gli_cu_driver *gli_cuda_driver(void) {
  static _Atomic(const gli_cu_driver *) known;
  const gli_cu_driver *driver = atomic_load(&known);
  char why[256];
  if (driver != NULL) return driver;
  driver = gli_cu_open(false, why, sizeof why);
  if (driver != NULL) atomic_store(&known, driver);
  return driver;
}

static void describe_devices(const gli_cu_driver *driver, char *text,
                             size_t bytes) {
  int version = 0, devices = 0;
  gli_cu_result result = driver->init(0);
  if (result == GLI_CU_SUCCESS) result = driver->driver_version(&version);
  if (result == GLI_CU_SUCCESS) result = driver->device_count(&devices);
  if (result != GLI_CU_SUCCESS) {
    gloo_error error;
    (void)gli_cuda_failed(result, "cuInit", &error);
    snprintf(text, bytes, "no: %s", error.message);
    return;
  }
  int used = snprintf(text, bytes, "the driver of CUDA %d.%d, %s",
                      version / 1000, version % 1000 / 10,
                      gli_count((uint64_t)devices, "device").text);
  for (int i = 0; i < devices && used >= 0 && (size_t)used < bytes; i++) {
    gli_cu_device device;
    char name[64];
    if (driver->device_get(&device, i) != GLI_CU_SUCCESS ||
        driver->device_name(name, sizeof name, device) != GLI_CU_SUCCESS)
      continue;
    used += snprintf(text + used, bytes - (size_t)used, "%s %s",
                     i == 0 ? ":" : ",", name);
  }
}

void gli_cuda_describe(char *text, size_t bytes) {
  char why[256];
  const gli_cu_driver *driver = gli_cu_open(true, why, sizeof why);
  if (driver == NULL) {
    snprintf(text, bytes, "no: %s", why);
  } else {
    describe_devices(driver, text, bytes);
  }
}

/* ---- errors -------------------------------------------------------------- */

gloo_status gli_cuda_failed(gli_cu_result result, const char *what,
                            gloo_error *error) {
  const gli_cu_driver *driver = gli_cuda_driver();
  const char *name = NULL, *text = NULL;
  if (driver != NULL) {
    if (driver->error_name(result, &name) != GLI_CU_SUCCESS) name = NULL;
    if (driver->error_string(result, &text) != GLI_CU_SUCCESS) text = NULL;
  }
  return gli_fail(
      error, result == GLI_CU_OUT_OF_MEMORY ? GLOO_ERR_NO_MEMORY : GLOO_ERR_IO,
      -1, "CUDA: %s failed: %.160s (%.60s, %d)", what,
      text != NULL ? text : "unknown error", name != NULL ? name : "no name",
      result);
}

/* ---- location of memory -------------------------------------------------- */

static gli_memory_kind memory_kind_of(unsigned type, unsigned managed) {
  if (type == 0) return GLI_MEMORY_HOST;
  if (managed != 0) return GLI_MEMORY_MANAGED;
  return type == GLI_CU_MEMORY_HOST ? GLI_MEMORY_PINNED : GLI_MEMORY_DEVICE;
}

/* Returns true if this process can read the byte: a system call copies it. */
static bool is_readable(const void *memory) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return false;
  bool readable = write(ends[1], memory, 1) == 1;
  close(ends[0]);
  close(ends[1]);
  return readable;
}

gloo_status gli_cuda_find(const void *memory, gli_cuda_place *place,
                          gloo_error *error) {
  static const int attributes[] = {
      GLI_CU_POINTER_MEMORY_TYPE, GLI_CU_POINTER_IS_MANAGED,
      GLI_CU_POINTER_DEVICE_ORDINAL, GLI_CU_POINTER_CONTEXT};
  *place = (gli_cuda_place){.kind = GLI_MEMORY_HOST, .device = -1};
  const gli_cu_driver *driver = gli_cuda_driver();
  if (driver == NULL) return GLOO_OK;
  unsigned type = 0, managed = 0;
  int device = -1;
  void *context = NULL;
  void *data[] = {&type, &managed, &device, &context};
  gli_cu_address address = (gli_cu_address)(uintptr_t)memory;
  gli_cu_result result =
      driver->pointer_attributes(4, attributes, data, address);
  if (result == GLI_CU_INVALID_CONTEXT && gli_cuda_enter_any()) {
    result = driver->pointer_attributes(4, attributes, data, address);
    gli_cuda_leave();
  }
  switch (result) {
    case GLI_CU_SUCCESS:
      break;
    case GLI_CU_INVALID_VALUE:   /* unknown pointer */
    case GLI_CU_NOT_INITIALIZED: /* driver not used yet, ... */
    case GLI_CU_DEINITIALIZED:   /* ... or not any more */
      return GLOO_OK;
    default:
      /* After a fault in a kernel the driver refuses every call. Host memory
       * stays usable, so that the program can tell the other ranks. */
      if (is_readable(memory)) return GLOO_OK;
      return gli_cuda_failed(result, "querying the memory type of a buffer",
                             error);
  }
  place->kind = memory_kind_of(type, managed);
  if (place->kind == GLI_MEMORY_HOST) return GLOO_OK;
  place->device = device;
  place->context = context;
  return GLOO_OK;
}

gloo_status gli_cuda_refuse(const char *function, const void *memory,
                            gloo_error *error) {
  gli_cuda_place place;
  if (!gli_cuda_is_watched() || memory == NULL) return GLOO_OK;
  gloo_status status = gli_cuda_find(memory, &place, error);
  if (status != GLOO_OK || place.kind != GLI_MEMORY_DEVICE) return status;
  return gli_fail(error, GLOO_ERR_BUFFER, -1,
                  "%s: %p is GPU memory, which this call does not support; "
                  "copy it to host memory first",
                  function, memory);
}
