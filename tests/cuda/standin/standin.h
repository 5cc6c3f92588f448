/* A test double of libcuda.so.1 whose devices are threads of this process.
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
 * Tests look up standin_fail and standin_break with dlsym. */
#ifndef TESTS_CUDA_STANDIN_H
#define TESTS_CUDA_STANDIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "memory/cuda_driver.h"

#define STANDIN_API __attribute__((visibility("default")))

enum { STANDIN_MOST_DEVICES = 8 };

/* ---- faults.c ------------------------------------------------------------ */

/* Makes the n-th call of an entry point from now on fail once, with that
 * result; n = 0 cancels. */
STANDIN_API void standin_fail(const char *name, unsigned n,
                              gli_cu_result result);
/* Makes every call fail with that result from now on, as after a fault in a
 * kernel; 0 cancels. */
STANDIN_API void standin_break(gli_cu_result result);

/* Returns GLI_CU_SUCCESS if the call may continue. */
gli_cu_result standin_enter(const char *name);
#define ENTER()                                      \
  do {                                               \
    gli_cu_result failed_ = standin_enter(__func__); \
    if (failed_ != GLI_CU_SUCCESS) return failed_;   \
  } while (0)

unsigned long standin_number(const char *name, unsigned long otherwise);

/* ---- contexts.c ---------------------------------------------------------- */

struct CUctx_st {
  int device;
  bool alive; /* true after it was retained */
  gli_cu_stream legacy;
};

gli_cu_context standin_current(void);
int standin_devices(void);

/* ---- memory.c ------------------------------------------------------------ */

/* Returns the real location of the bytes at an address that the program knows.
 * Returns NULL if a part of them is not in any allocation. */
void *standin_bytes(gli_cu_address address, size_t bytes);

/* ---- streams.c ----------------------------------------------------------- */

gli_cu_stream standin_stream_new(gli_cu_context context);
void standin_stream_end(gli_cu_stream stream);

#endif
