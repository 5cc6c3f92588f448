/* Test double of libcuda.so.1, which emulates devices by threads. The test double
 * of HIP has the same body and other entry points (hip.c); tests inject faults
 * into it by CUDA's names.
 *
 * Device memory is a range of addresses without access rights, backed by bytes
 * elsewhere: an access other than by a copy crashes. Each stream is a thread
 * that does its work in order, with delays drawn from STANDIN_SEED before some
 * of it: code that does not wait for the stream reads wrong data.
 *
 *   STANDIN_SEED     seed of the delays (0: no delays)
 *   STANDIN_MBPS     copy rate in each direction (0: unlimited)
 *   STANDIN_DEVICES  number of devices (2)
 *
 * Switches (0) make it behave as drivers may, at their worst:
 *
 *   STANDIN_QUEUE           pieces of work that a stream holds (0: any number); a
 *                           call that puts in more waits
 *   STANDIN_LANES           channels that streams share: one that waits for a word
 *                           stops the others of its channel (0: none is shared)
 *   STANDIN_PIN_SYNCS       pinning and unpinning host memory wait for the device
 *   STANDIN_PAGEABLE_SYNCS  copies from and to pageable memory wait for the stream
 *   STANDIN_POOLED          device memory has no context, like that of pools
 *   STANDIN_NEEDS_CONTEXT   queries fail in threads without a current context
 *   STANDIN_UNPINNED        1: memory cannot be registered; 2: nor allocated pinned
 *
 * Always, an event and its stream must have the same context, work needs a
 * current one, a stream that captures (standin_capture) takes no work, and only
 * the streams of its own device copy memory of pools.
 *
 * Tests look up the functions with STANDIN_API with dlsym. */
#ifndef TESTS_CUDA_STANDIN_H
#define TESTS_CUDA_STANDIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "memory/gpu_api.h"

#define STANDIN_API __attribute__((visibility("default")))

/* CUDA's types, and its attributes of pointers. */
typedef int cu_device;
typedef unsigned long long cu_address;
typedef struct CUctx_st *cu_context;
typedef struct CUstream_st *cu_stream;
typedef struct CUevent_st *cu_event;
enum {
  CU_POINTER_CONTEXT = 1,
  CU_POINTER_MEMORY_TYPE = 2,
  CU_POINTER_IS_MANAGED = 8,
  CU_POINTER_DEVICE_ORDINAL = 9,
  CU_MEMORY_HOST = 1,
  CU_MEMORY_DEVICE = 2
};

enum { STANDIN_MOST_DEVICES = 8, STANDIN_CAPTURE_UNSUPPORTED = 900 };

/* ---- faults.c ------------------------------------------------------------ */

/* Makes the n-th call of an entry point from now on fail once, with that
 * result; n = 0 cancels. */
STANDIN_API void standin_fail(const char *name, unsigned n,
                              gli_gpu_result result);
/* Makes every call fail with that result from now on, as after a fault in a
 * kernel; 0 cancels. */
STANDIN_API void standin_break(gli_gpu_result result);

/* Returns GLI_GPU_SUCCESS if the call may continue. */
gli_gpu_result standin_enter(const char *name);
#define ENTER()                                       \
  do {                                                \
    gli_gpu_result failed_ = standin_enter(__func__); \
    if (failed_ != GLI_GPU_SUCCESS) return failed_;   \
  } while (0)

unsigned long standin_number(const char *name, unsigned long otherwise);

/* ---- contexts.c ---------------------------------------------------------- */

struct CUctx_st {
  int device;
  bool alive;    /* true after it was retained */
  unsigned made; /* number of times; a reset ends the streams made before */
  cu_stream legacy;
};

cu_context standin_current(void);
void standin_pop(void);
int standin_devices(void);
/* Returns true if a query fails for the lack of a current context. */
bool standin_lacks_context(void);

/* ---- memory.c ------------------------------------------------------------ */

/* Returns the real location of the bytes at an address that the program knows.
 * Returns NULL if a part of them is not in any allocation. */
void *standin_bytes(cu_address address, size_t bytes);
/* Returns false for pageable host memory. */
bool standin_is_known(cu_address address);
/* Returns false for memory of a pool of another device. */
bool standin_may_access(cu_address address, int device);

/* ---- streams.c ----------------------------------------------------------- */

cu_stream standin_stream_new(cu_context context);
void standin_stream_end(cu_stream stream);
/* Waits until no stream of the current context has work. */
void standin_await_device(void);
/* Returns the number of calls that wait for a stream or a device now. */
STANDIN_API int standin_blocked(void);
/* Begins (1) or ends (0) to capture a graph. */
STANDIN_API void standin_capture(cu_stream stream, int on);

#endif
