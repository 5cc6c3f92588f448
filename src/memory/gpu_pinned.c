/* Pinned host memory, and counters in it that streams wait for. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "core/aligned.h"
#include "core/environment.h"
#include "core/error.h"
#include "core/log.h"
#include "memory/gpu_state.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Drivers may wait for all of a device's work to pin and to unpin memory. A
 * stream that waits for a flag is such work, whose end may depend on the thread
 * that pins, so the two exclude each other. */
static size_t pinning; /* calls that pin or unpin now */
static size_t awaited; /* flags that streams wait for */

/* Returns false if memory cannot be pinned now. Otherwise pin_leave follows. */
static bool pin_enter(void) {
  pthread_mutex_lock(&lock);
  bool may = awaited == 0;
  pinning += may;
  pthread_mutex_unlock(&lock);
  return may;
}

static void pin_leave(void) {
  pthread_mutex_lock(&lock);
  pinning--;
  pthread_mutex_unlock(&lock);
}

/* ---- blocks -------------------------------------------------------------- */

/* Granularity of blocks: at least a page of any system, and coarse enough that
 * a block also fits a slightly longer call. */
#define UNIT ((size_t)64 << 10)

/* How the memory of a block is known to the driver. Registered memory outlives
 * the driver's context. Systems that cannot register it (boards without coherent
 * caches, confidential computing) allocate pinned memory, or have none. */
typedef enum block_kind {
  BLOCK_REGISTERED,
  BLOCK_ALLOCATED, /* by the driver */
  BLOCK_PAGEABLE   /* not at all: the driver copies in a slower way */
} block_kind;

typedef struct block {
  void *memory;
  size_t bytes;
  block_kind kind;
  gli_gpu *gpu; /* GPU whose context was current when it was pinned */
  struct block *next;
} block;

enum { PINNED_FLAGS = GLI_GPU_HOST_PORTABLE | GLI_GPU_HOST_MAPPED };

static block *used, *idle; /* both lists: newest first */
static size_t idle_most = (size_t)256 << 20;

static atomic_bool waits_in_memory; /* GLOO_STREAM_WAIT_VALUE */

gloo_status gli_pinned_read_settings(gloo_error *error) {
  bool waits;
  gloo_status status =
      gli_switch_read(0, "GLOO_STREAM_WAIT_VALUE", false, &waits, error);
  if (status != GLOO_OK) return status;
  atomic_store(&waits_in_memory, waits);
  const char *text = gli_environment_read("GLOO_CUDA_STAGING");
  if (text == NULL) return GLOO_OK;
  char *end;
  errno = 0;
  unsigned long long bytes = strtoull(text, &end, 10);
  if (*end != '\0' || errno != 0 || text[0] == '-' || bytes > SIZE_MAX)
    return gli_fail(error, GLOO_ERR_INVALID, -1,
                    "GLOO_CUDA_STAGING is \"%s\"; it must be the number of "
                    "bytes of pinned memory to keep between calls",
                    text);
  pthread_mutex_lock(&lock);
  idle_most = (size_t)bytes;
  pthread_mutex_unlock(&lock);
  return GLOO_OK;
}

size_t gli_pinned_limit(void) {
  pthread_mutex_lock(&lock);
  size_t bytes = idle_most;
  pthread_mutex_unlock(&lock);
  return bytes;
}

static void free_block(block *b) {
  if (b->kind != BLOCK_PAGEABLE && gli_gpu_enter(b->gpu, NULL) == GLOO_OK) {
    const gli_gpu_driver *driver = b->gpu->api->driver;
    (void)(b->kind == BLOCK_REGISTERED ? driver->host_unregister(b->memory)
                                       : driver->host_free(b->memory));
    gli_gpu_leave(b->gpu);
  }
  if (b->kind != BLOCK_ALLOCATED) gli_aligned_free(b->memory);
  free(b);
}

static gloo_status pinned_no_memory(size_t bytes, gloo_error *error) {
  return gli_fail(
      error, GLOO_ERR_NO_MEMORY, -1,
      "out of memory for %zu bytes of staging memory for GPU buffers", bytes);
}

/* Allocates pinned memory where memory cannot be registered. */
static void pin_otherwise(block *b, gli_gpu_result refused) {
  static atomic_bool told;
  void *memory;
  if (b->gpu->api->driver->host_alloc(&memory, b->bytes, PINNED_FLAGS) ==
      GLI_GPU_SUCCESS) {
    gli_aligned_free(b->memory);
    b->memory = memory;
    b->kind = BLOCK_ALLOCATED;
  } else if (!atomic_exchange(&told, true)) {
    gloo_error why;
    (void)gli_gpu_api_failed(b->gpu->api, refused, "pinning host memory", &why);
    gli_log(GLOO_LOG_WARN, "%s; copies use pageable memory, and are slower",
            why.message);
  }
}

/* Pins the pageable memory of a block. */
static gloo_status block_pin(block *b, gloo_error *error) {
  gloo_status status = gli_gpu_enter(b->gpu, error);
  if (status != GLOO_OK) return status;
  gli_gpu_result result =
      b->gpu->api->driver->host_register(b->memory, b->bytes, PINNED_FLAGS);
  if (result == GLI_GPU_SUCCESS) b->kind = BLOCK_REGISTERED;
  bool refused =
      result == GLI_GPU_NOT_SUPPORTED || result == GLI_GPU_NOT_PERMITTED;
  if (refused) pin_otherwise(b, result);
  gli_gpu_leave(b->gpu);
  if (result == GLI_GPU_SUCCESS || refused) return GLOO_OK;
  return gli_gpu_failed(b->gpu, result, "pinning staging memory", error);
}

static gloo_status new_block(gli_gpu *gpu, size_t bytes, block **out,
                             gloo_error *error) {
  block *b = malloc(sizeof *b);
  void *memory = gli_aligned_alloc(UNIT, bytes);
  if (b == NULL || memory == NULL) {
    free(b);
    gli_aligned_free(memory);
    return pinned_no_memory(bytes, error);
  }
  *b = (block){memory, bytes, BLOCK_PAGEABLE, gpu, NULL};
  gloo_status status = GLOO_OK;
  if (pin_enter()) {
    status = block_pin(b, error);
    pin_leave();
  }
  if (status != GLOO_OK) {
    free_block(b);
    return status;
  }
  *out = b;
  return GLOO_OK;
}

/* Takes the shortest idle block that is long enough, at most twice as long. */
static block *take_idle(const gli_gpu *gpu, size_t bytes) {
  block **best = NULL;
  for (block **at = &idle; *at != NULL; at = &(*at)->next) {
    const block *b = *at;
    if (b->bytes < bytes || b->bytes / 2 > bytes || b->gpu->lost ||
        b->gpu->api != gpu->api)
      continue;
    if (best == NULL || b->bytes < (*best)->bytes) best = at;
  }
  if (best == NULL) return NULL;
  block *b = *best;
  *best = b->next;
  return b;
}

gloo_status gli_pinned_take(gli_gpu *gpu, size_t bytes, void **memory,
                            gloo_error *error) {
  if (bytes > SIZE_MAX - UNIT) return pinned_no_memory(bytes, error);
  bytes = (bytes + UNIT - 1) / UNIT * UNIT;
  if (bytes == 0) bytes = UNIT;
  pthread_mutex_lock(&lock);
  block *b = take_idle(gpu, bytes);
  pthread_mutex_unlock(&lock);
  if (b == NULL) {
    gloo_status status = new_block(gpu, bytes, &b, error);
    if (status != GLOO_OK) return status;
  }
  *memory = b->memory;
  pthread_mutex_lock(&lock);
  b->next = used;
  used = b;
  pthread_mutex_unlock(&lock);
  return GLOO_OK;
}

/* Unlinks the blocks at the end of the idle list that exceed the limit. */
static block *idle_surplus(void) {
  size_t kept = 0;
  block **at = &idle;
  while (*at != NULL && (*at)->bytes <= idle_most - kept) {
    kept += (*at)->bytes;
    at = &(*at)->next;
  }
  block *rest = *at;
  *at = NULL;
  return rest;
}

void gli_pinned_give(void *memory) {
  if (memory == NULL) return;
  pthread_mutex_lock(&lock);
  block **at = &used;
  while ((*at)->memory != memory) at = &(*at)->next;
  block *b = *at;
  *at = b->next;
  if (b->kind != BLOCK_PAGEABLE) {
    b->next = idle;
    idle = b;
  }
  pthread_mutex_unlock(&lock);
  if (b->kind == BLOCK_PAGEABLE) free_block(b);
}

void gli_pinned_trim(void) {
  if (!gli_gpu_is_watched() || !pin_enter()) return;
  pthread_mutex_lock(&lock);
  block *rest = idle_surplus();
  pthread_mutex_unlock(&lock);
  while (rest != NULL) {
    block *next = rest->next;
    free_block(rest);
    rest = next;
  }
  pin_leave();
}

/* ---- flags --------------------------------------------------------------- */

/* Flag of a stream. Streams may wait for a flag long after its user has
 * finished, so flags are never freed, and their numbers never decrease. */
struct gli_gpu_flag {
  gli_gpu *gpu; /* GPU whose device reaches the word at `address` */
  void *address;
  _Atomic uint32_t *word;
  bool awaited; /* counted in `awaited` */
  gli_gpu_flag *next;
};

static gli_gpu_flag *free_flags;

static gloo_status device_address(gli_gpu *gpu, void *memory, void **address,
                                  gloo_error *error) {
  gloo_status status = gli_gpu_enter(gpu, error);
  if (status != GLOO_OK) return status;
  gli_gpu_result result =
      gpu->api->driver->host_device_pointer(address, memory, 0);
  gli_gpu_leave(gpu);
  if (result == GLI_GPU_SUCCESS) return GLOO_OK;
  return gli_gpu_failed(gpu, result, "mapping host memory", error);
}

/* Makes a block of flags, or none if memory cannot be pinned now. */
static gloo_status make_flags(gli_gpu *gpu, gloo_error *error) {
  enum { FLAGS = 1024 };
  block *b;
  void *address = NULL;
  gli_gpu_flag *flags = calloc(FLAGS, sizeof *flags);
  if (flags == NULL) return pinned_no_memory(FLAGS * sizeof *flags, error);
  gloo_status status = new_block(gpu, UNIT, &b, error);
  if (status != GLOO_OK) {
    free(flags);
    return status;
  }
  if (b->kind != BLOCK_PAGEABLE)
    status = device_address(gpu, b->memory, &address, error);
  if (status != GLOO_OK || b->kind == BLOCK_PAGEABLE) {
    free_block(b);
    free(flags);
    return status;
  }
  _Atomic uint32_t *words = b->memory;
  pthread_mutex_lock(&lock);
  for (size_t i = 0; i < FLAGS; i++) {
    atomic_init(&words[i], 0);
    flags[i] =
        (gli_gpu_flag){.gpu = gpu,
                       .address = (uint8_t *)address + i * sizeof words[i],
                       .word = &words[i],
                       .next = free_flags};
    free_flags = &flags[i];
  }
  b->next = used; /* never given back */
  used = b;
  pthread_mutex_unlock(&lock);
  return GLOO_OK;
}

static gli_gpu_flag *take_flag(const gli_gpu *gpu) {
  pthread_mutex_lock(&lock);
  gli_gpu_flag **at = &free_flags;
  while (*at != NULL && ((*at)->gpu != gpu || (*at)->gpu->lost))
    at = &(*at)->next;
  gli_gpu_flag *flag = *at;
  if (flag != NULL) *at = flag->next;
  pthread_mutex_unlock(&lock);
  return flag;
}

gloo_status gli_gpu_flag_take(gli_gpu *gpu, gli_gpu_flag **flag,
                              gloo_error *error) {
  *flag = NULL;
  if (!atomic_load(&waits_in_memory) ||
      gpu->api->driver->stream_wait_value == NULL ||
      gpu->api->driver->host_device_pointer == NULL)
    return GLOO_OK;
  *flag = take_flag(gpu);
  if (*flag != NULL) return GLOO_OK;
  gloo_status status = make_flags(gpu, error);
  if (status == GLOO_OK) *flag = take_flag(gpu);
  return status;
}

void gli_gpu_flag_give(gli_gpu_flag *flag) {
  if (flag == NULL) return;
  pthread_mutex_lock(&lock);
  flag->next = free_flags;
  free_flags = flag;
  pthread_mutex_unlock(&lock);
}

bool gli_gpu_flag_expect(gli_gpu_flag *flag, uint32_t *value) {
  if (flag == NULL) return false;
  pthread_mutex_lock(&lock);
  bool may = pinning == 0;
  if (may && !flag->awaited) {
    flag->awaited = true;
    awaited++;
  }
  *value = atomic_load(flag->word) + 1;
  pthread_mutex_unlock(&lock);
  return may;
}

gloo_status gli_gpu_flag_wait(gli_gpu_flag *flag, uint32_t value, gli_gpu *gpu,
                              void *stream, gloo_error *error) {
  gloo_status status = gli_gpu_enter(gpu, error);
  if (status != GLOO_OK) return status;
  gli_gpu_result result = gpu->api->driver->stream_wait_value(
      stream, flag->address, value, GLI_GPU_WAIT_GEQ);
  gli_gpu_leave(gpu);
  if (result == GLI_GPU_SUCCESS) return GLOO_OK;
  if (result == GLI_GPU_NOT_SUPPORTED) return GLOO_IN_PROGRESS;
  return gli_gpu_stream_failed(gpu, result, "making a stream wait", error);
}

void gli_gpu_flag_raise(gli_gpu_flag *flag) {
  pthread_mutex_lock(&lock);
  awaited -= flag->awaited;
  flag->awaited = false;
  atomic_fetch_add(flag->word, 1);
  pthread_mutex_unlock(&lock);
}
