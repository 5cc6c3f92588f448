/* The RDMA device of fuzz_ibv: the stand-in for libibverbs of
 * tests/transport_ibv, linked into the target. Its rules (clock, random
 * numbers, failing calls) are here instead of in its faults.c, so that an input
 * always does the same: the clock moves only when device_pass says so, and
 * whatever can be delivered is delivered within the call that posts it. */
#ifndef TESTS_FUZZ_IBV_DEVICE_H
#define TESTS_FUZZ_IBV_DEVICE_H

#include "../transport_ibv/standin/standin.h"
#include "fuzz.h"

/* Restarts clock and random numbers. */
void device_begin(void);
/* Makes the `nth` call of that kind from now on fail; from 1. */
void device_fail(standin_call call, unsigned nth);
/* No call fails any more. */
void device_heal(void);
/* Runs the threads that the library has started: they do not run before, so that
 * an input always does the same. */
void device_run_threads(void);
/* Moves the clock, and delivers the frames that waited for it. */
void device_pass(uint64_t ns);
uint64_t device_now_ns(void);
/* Checks that the library has destroyed every object that it made. */
void device_end(void);

#endif
