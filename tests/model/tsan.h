/* Functions that instrumented code calls. The names are the compilers'. */
#ifndef GLI_TESTS_MODEL_TSAN_H
#define GLI_TESTS_MODEL_TSAN_H

#include <stddef.h>
#include <stdint.h>

#define DECLARE_ATOMICS(bits, type)                                           \
  type __tsan_atomic##bits##_load(const volatile type *at, int order);        \
  void __tsan_atomic##bits##_store(volatile type *at, type value, int order); \
  type __tsan_atomic##bits##_exchange(volatile type *at, type value,          \
                                      int order);                             \
  type __tsan_atomic##bits##_fetch_add(volatile type *at, type value,         \
                                       int order);                            \
  type __tsan_atomic##bits##_fetch_sub(volatile type *at, type value,         \
                                       int order);                            \
  type __tsan_atomic##bits##_fetch_and(volatile type *at, type value,         \
                                       int order);                            \
  type __tsan_atomic##bits##_fetch_or(volatile type *at, type value,          \
                                      int order);                             \
  int __tsan_atomic##bits##_compare_exchange_weak(                            \
      volatile type *at, type *expected, type value, int order, int failed);  \
  int __tsan_atomic##bits##_compare_exchange_strong(                          \
      volatile type *at, type *expected, type value, int order, int failed);  \
  type __tsan_atomic##bits##_compare_exchange_val(                            \
      volatile type *at, type expected, type value, int order, int failed);

DECLARE_ATOMICS(8, uint8_t)
DECLARE_ATOMICS(16, uint16_t)
DECLARE_ATOMICS(32, uint32_t)
DECLARE_ATOMICS(64, uint64_t)
void __tsan_atomic_thread_fence(int order);
void __tsan_atomic_signal_fence(int order);

#define DECLARE_ACCESSES(bytes)                 \
  void __tsan_read##bytes(void *at);            \
  void __tsan_write##bytes(void *at);           \
  void __tsan_unaligned_read##bytes(void *at);  \
  void __tsan_unaligned_write##bytes(void *at); \
  void __tsan_volatile_read##bytes(void *at);   \
  void __tsan_volatile_write##bytes(void *at);

DECLARE_ACCESSES(1)
DECLARE_ACCESSES(2)
DECLARE_ACCESSES(4)
DECLARE_ACCESSES(8)
DECLARE_ACCESSES(16)
void __tsan_read_range(void *at, unsigned long bytes);
void __tsan_write_range(void *at, unsigned long bytes);
void __tsan_init(void);
void __tsan_func_entry(void *caller);
void __tsan_func_exit(void);
void *__tsan_memcpy(void *to, const void *from, unsigned long bytes);
void *__tsan_memmove(void *to, const void *from, unsigned long bytes);
void *__tsan_memset(void *to, int value, unsigned long bytes);

#endif
