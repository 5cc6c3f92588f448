/* Memory of the devices, and host memory that is registered with them. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "entry.h"

typedef struct range {
  cu_address from;
  size_t bytes;
  void *really; /* address of the bytes */
  int type;     /* CU_MEMORY_... */
  bool managed;
  bool pooled; /* its context is not told */
  cu_context context;
  struct range *next;
} range;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static range *ranges;

static gli_gpu_result add(cu_address from, size_t bytes, void *really, int type,
                          bool managed) {
  range *r = malloc(sizeof *r);
  if (r == NULL) return GLI_GPU_OUT_OF_MEMORY;
  pthread_mutex_lock(&lock);
  *r = (range){.from = from,
               .bytes = bytes,
               .really = really,
               .type = type,
               .managed = managed,
               .pooled = type == CU_MEMORY_DEVICE && !managed &&
                         standin_number("STANDIN_POOLED", 0) > 0,
               .context = standin_current(),
               .next = ranges};
  ranges = r;
  pthread_mutex_unlock(&lock);
  return GLI_GPU_SUCCESS;
}

/* Removes the range of this type that begins at `from` and hands it to the
 * caller. Returns NULL if none does. */
static range *take_out(cu_address from, int type) {
  pthread_mutex_lock(&lock);
  range **at = &ranges;
  while (*at != NULL && ((*at)->from != from || (*at)->type != type))
    at = &(*at)->next;
  range *r = *at;
  if (r != NULL) *at = r->next;
  pthread_mutex_unlock(&lock);
  return r;
}

static range *find(cu_address address) {
  range *r = ranges;
  while (r != NULL && address - r->from >= r->bytes) r = r->next;
  return r;
}

static gli_gpu_result allocate(cu_address *memory, size_t bytes, bool managed) {
  if (standin_current() == NULL) return GLI_GPU_INVALID_CONTEXT;
  if (bytes == 0) return GLI_GPU_INVALID_VALUE;
  void *at = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  void *really = malloc(bytes);
  if (at == MAP_FAILED || really == NULL) return GLI_GPU_OUT_OF_MEMORY;
  *memory = (cu_address)(uintptr_t)at;
  return add(*memory, bytes, really, CU_MEMORY_DEVICE, managed);
}

gli_gpu_result cuMemAlloc_v2(cu_address *memory, size_t bytes) {
  ENTER();
  return allocate(memory, bytes, false);
}

gli_gpu_result cuMemAllocAsync(cu_address *memory, size_t bytes,
                               cu_stream stream) {
  ENTER();
  (void)stream; /* allocation does not wait for the stream */
  gli_gpu_result result = allocate(memory, bytes, false);
  if (result != GLI_GPU_SUCCESS) return result;
  pthread_mutex_lock(&lock);
  find(*memory)->pooled = true;
  pthread_mutex_unlock(&lock);
  return result;
}

/* The host may access managed memory only while no device is busy, and cannot
 * know when that is, so the stand-in denies all access. */
gli_gpu_result cuMemAllocManaged(cu_address *memory, size_t bytes,
                                 unsigned flags) {
  ENTER();
  (void)flags;
  return allocate(memory, bytes, true);
}

gli_gpu_result cuMemFree_v2(cu_address memory) {
  ENTER();
  range *r = take_out(memory, CU_MEMORY_DEVICE);
  if (r == NULL) return GLI_GPU_INVALID_VALUE;
  munmap((void *)(uintptr_t)r->from, r->bytes);
  free(r->really);
  free(r);
  return GLI_GPU_SUCCESS;
}

/* Returns GLI_GPU_SUCCESS if host memory can be pinned in this way: 1,
 * registered, or 2, allocated. */
static gli_gpu_result may_pin(unsigned long way) {
  if (standin_current() == NULL) return GLI_GPU_INVALID_CONTEXT;
  if (standin_number("STANDIN_UNPINNED", 0) >= way)
    return GLI_GPU_NOT_SUPPORTED;
  if (standin_number("STANDIN_PIN_SYNCS", 0)) standin_await_device();
  return GLI_GPU_SUCCESS;
}

gli_gpu_result cuMemHostRegister_v2(void *memory, size_t bytes,
                                    unsigned flags) {
  ENTER();
  (void)flags;
  gli_gpu_result result = may_pin(1);
  if (result != GLI_GPU_SUCCESS) return result;
  return add((cu_address)(uintptr_t)memory, bytes, memory, CU_MEMORY_HOST,
             false);
}

gli_gpu_result cuMemHostAlloc(void **memory, size_t bytes, unsigned flags) {
  ENTER();
  (void)flags;
  gli_gpu_result result = may_pin(2);
  if (result != GLI_GPU_SUCCESS) return result;
  *memory = malloc(bytes);
  if (*memory == NULL) return GLI_GPU_OUT_OF_MEMORY;
  return add((cu_address)(uintptr_t)*memory, bytes, *memory, CU_MEMORY_HOST,
             false);
}

gli_gpu_result cuMemFreeHost(void *memory) {
  ENTER();
  if (standin_number("STANDIN_PIN_SYNCS", 0)) standin_await_device();
  range *r = take_out((cu_address)(uintptr_t)memory, CU_MEMORY_HOST);
  if (r == NULL) return GLI_GPU_INVALID_VALUE;
  free(r);
  free(memory);
  return GLI_GPU_SUCCESS;
}

gli_gpu_result cuMemHostUnregister(void *memory) {
  ENTER();
  if (standin_number("STANDIN_PIN_SYNCS", 0)) standin_await_device();
  range *r = take_out((cu_address)(uintptr_t)memory, CU_MEMORY_HOST);
  free(r);
  return r != NULL ? GLI_GPU_SUCCESS : GLI_GPU_INVALID_VALUE;
}

gli_gpu_result cuMemHostGetDevicePointer_v2(cu_address *pointer, void *memory,
                                            unsigned flags) {
  ENTER();
  (void)flags;
  *pointer = (cu_address)(uintptr_t)memory;
  return GLI_GPU_SUCCESS;
}

gli_gpu_result cuPointerGetAttributes(unsigned n, const int *attributes,
                                      void **data, cu_address pointer) {
  ENTER();
  if (standin_lacks_context()) return GLI_GPU_INVALID_CONTEXT;
  pthread_mutex_lock(&lock);
  const range *r = find(pointer);
  for (unsigned i = 0; i < n; i++) {
    switch (attributes[i]) {
      case CU_POINTER_MEMORY_TYPE:
        *(unsigned *)data[i] = r != NULL ? (unsigned)r->type : 0;
        break;
      case CU_POINTER_IS_MANAGED:
        *(unsigned *)data[i] = r != NULL && r->managed;
        break;
      case CU_POINTER_DEVICE_ORDINAL:
        *(int *)data[i] = r != NULL ? r->context->device : -2;
        break;
      case CU_POINTER_CONTEXT:
        *(cu_context *)data[i] = r != NULL && !r->pooled ? r->context : NULL;
        break;
      default:
        abort();
    }
  }
  pthread_mutex_unlock(&lock);
  return GLI_GPU_SUCCESS;
}

bool standin_is_known(cu_address address) {
  pthread_mutex_lock(&lock);
  bool known = find(address) != NULL;
  pthread_mutex_unlock(&lock);
  return known;
}

bool standin_may_access(cu_address address, int device) {
  pthread_mutex_lock(&lock);
  const range *r = find(address);
  bool may = r == NULL || !r->pooled || r->context->device == device;
  pthread_mutex_unlock(&lock);
  return may;
}

void *standin_bytes(cu_address address, size_t bytes) {
  pthread_mutex_lock(&lock);
  const range *r = find(address);
  void *at = (void *)(uintptr_t)address;
  if (r != NULL)
    at = bytes > r->bytes - (size_t)(address - r->from)
             ? NULL
             : (uint8_t *)r->really + (size_t)(address - r->from);
  pthread_mutex_unlock(&lock);
  return at;
}
