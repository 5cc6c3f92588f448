/* The functions that compilers call for ThreadSanitizer. */
#include "tsan.h"

#include <string.h>

#include "runtime.h"

/* ---- atomics ------------------------------------------------------------- */

#define ATOMICS(bits, type)                                                    \
  type __tsan_atomic##bits##_load(const volatile type *at, int order) {        \
    return (type)model_operate(MODEL_LOAD, at, sizeof(type), 0, order);        \
  }                                                                            \
  void __tsan_atomic##bits##_store(volatile type *at, type value, int order) { \
    (void)model_operate(MODEL_STORE, at, sizeof(type), value, order);          \
  }                                                                            \
  type __tsan_atomic##bits##_exchange(volatile type *at, type value,           \
                                      int order) {                             \
    return (type)model_operate(MODEL_EXCHANGE, at, sizeof(type), value,        \
                               order);                                         \
  }                                                                            \
  type __tsan_atomic##bits##_fetch_add(volatile type *at, type value,          \
                                       int order) {                            \
    return (type)model_operate(MODEL_ADD, at, sizeof(type), value, order);     \
  }                                                                            \
  type __tsan_atomic##bits##_fetch_sub(volatile type *at, type value,          \
                                       int order) {                            \
    uint64_t minus = UINT64_C(0) - value;                                      \
    return (type)model_operate(MODEL_ADD, at, sizeof(type), minus, order);     \
  }                                                                            \
  type __tsan_atomic##bits##_fetch_and(volatile type *at, type value,          \
                                       int order) {                            \
    (void)at, (void)value, (void)order;                                        \
    model_not_covered("atomic and");                                           \
  }                                                                            \
  type __tsan_atomic##bits##_fetch_or(volatile type *at, type value,           \
                                      int order) {                             \
    return (type)model_operate(MODEL_OR, at, sizeof(type), value, order);      \
  }                                                                            \
  int __tsan_atomic##bits##_compare_exchange_weak(                             \
      volatile type *at, type *expected, type value, int order, int failed) {  \
    (void)at, (void)expected, (void)value, (void)order, (void)failed;          \
    model_not_covered("compare-exchange");                                     \
  }                                                                            \
  int __tsan_atomic##bits##_compare_exchange_strong(                           \
      volatile type *at, type *expected, type value, int order, int failed) {  \
    (void)at, (void)expected, (void)value, (void)order, (void)failed;          \
    model_not_covered("compare-exchange");                                     \
  }                                                                            \
  type __tsan_atomic##bits##_compare_exchange_val(                             \
      volatile type *at, type expected, type value, int order, int failed) {   \
    (void)at, (void)expected, (void)value, (void)order, (void)failed;          \
    model_not_covered("compare-exchange");                                     \
  }

ATOMICS(8, uint8_t)
ATOMICS(16, uint16_t)
ATOMICS(32, uint32_t)
ATOMICS(64, uint64_t)

void __tsan_atomic_thread_fence(int order) {
  model_fence(order);
}

void __tsan_atomic_signal_fence(int order) {
  (void)order;
}

/* ---- plain accesses ------------------------------------------------------ */

#define ACCESSES(bytes)                          \
  void __tsan_read##bytes(void *at) {            \
    model_read(at, bytes);                       \
  }                                              \
  void __tsan_write##bytes(void *at) {           \
    model_write(at, bytes);                      \
  }                                              \
  void __tsan_unaligned_read##bytes(void *at) {  \
    model_read(at, bytes);                       \
  }                                              \
  void __tsan_unaligned_write##bytes(void *at) { \
    model_write(at, bytes);                      \
  }                                              \
  void __tsan_volatile_read##bytes(void *at) {   \
    model_read(at, bytes);                       \
  }                                              \
  void __tsan_volatile_write##bytes(void *at) {  \
    model_write(at, bytes);                      \
  }

ACCESSES(1)
ACCESSES(2)
ACCESSES(4)
ACCESSES(8)
ACCESSES(16)

void __tsan_read_range(void *at, unsigned long bytes) {
  model_read(at, bytes);
}
void __tsan_write_range(void *at, unsigned long bytes) {
  model_write(at, bytes);
}
void __tsan_init(void) {}
void __tsan_func_entry(void *caller) {
  (void)caller;
}
void __tsan_func_exit(void) {}

void *__tsan_memcpy(void *to, const void *from, unsigned long bytes) {
  return model_memcpy(to, from, bytes);
}

void *__tsan_memmove(void *to, const void *from, unsigned long bytes) {
  model_read(from, bytes);
  model_write(to, bytes);
  return memmove(to, from, bytes);
}

void *__tsan_memset(void *to, int value, unsigned long bytes) {
  model_write(to, bytes);
  return memset(to, value, bytes);
}
