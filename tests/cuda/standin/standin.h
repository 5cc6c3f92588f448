/* A libcuda.so.1 whose devices are threads of this process: test code.
 *
 * Device memory is a range of addresses without access rights, and the bytes
 * are elsewhere: whoever touches it but by a copy crashes. Each stream is a
 * thread that does its work in order, with delays drawn from STANDIN_SEED
 * before some of it: whoever does not wait for it sees something wrong.
 *
 *   STANDIN_SEED     draws delays (0: none)
 *   STANDIN_MBPS     how fast copies are, in each direction (0: as they are)
 *   STANDIN_DEVICES  how many devices (2)
 *
 * Tests reach the rest by dlsym: standin_fail, standin_break. */
#ifndef TESTS_CUDA_STANDIN_H
#define TESTS_CUDA_STANDIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "memory/cuda_driver.h"

#define STANDIN_API __attribute__((visibility("default")))

enum { STANDIN_MOST_DEVICES = 8 };

/* ---- faults.c ------------------------------------------------------------ */

/* Have the n-th call from now on of an entry point fail once, with that result;
 * n = 0: no more. */
STANDIN_API void standin_fail(const char *name, unsigned n,
                              gli_cu_result result);
/* From now on every call fails so, as after a fault in a kernel; 0: no more. */
STANDIN_API void standin_break(gli_cu_result result);

/* GLI_CU_SUCCESS: the call may go on. */
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
  bool alive; /* it was retained */
  gli_cu_stream legacy;
};

gli_cu_context standin_current(void);
int standin_devices(void);

/* ---- memory.c ------------------------------------------------------------ */

/* Where the bytes really are that a program knows by this address. NULL: some
 * of them are of no memory. */
void *standin_bytes(gli_cu_address address, size_t bytes);

/* ---- streams.c ----------------------------------------------------------- */

gli_cu_stream standin_stream_new(gli_cu_context context);
void standin_stream_end(gli_cu_stream stream);

#endif
