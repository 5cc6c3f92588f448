/* Compiler hints. */
#ifndef GLI_CORE_HINTS_H
#define GLI_CORE_HINTS_H

/* Marks a function that is seldom called and then costs more than the call. It
 * is not inlined, so that callers save no registers for it on short paths. */
#ifdef __GNUC__
#define GLI_COLD __attribute__((cold, noinline))
#else
#define GLI_COLD
#endif

/* Marks a function that is not inlined for the same reason, but is called
 * often. */
#ifdef __GNUC__
#define GLI_APART __attribute__((noinline))
#else
#define GLI_APART
#endif

/* Marks a function that is inlined into all callers, because it costs less than
 * the call, or one caller is on the critical path. */
#ifdef __GNUC__
#define GLI_INLINE static inline __attribute__((always_inline))
#else
#define GLI_INLINE static inline
#endif

#endif
