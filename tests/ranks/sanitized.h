/* SANITIZED is 1 in a build with a sanitizer. Such builds are slower, and find
 * errors with less data and, for threads, fewer ranks. */
#ifndef TESTS_RANKS_SANITIZED_H
#define TESTS_RANKS_SANITIZED_H

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SANITIZED_FOR_THREADS
#elif __has_feature(address_sanitizer)
#define SANITIZED_FOR_MEMORY
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define SANITIZED_FOR_THREADS
#elif defined(__SANITIZE_ADDRESS__)
#define SANITIZED_FOR_MEMORY
#endif

#if defined(SANITIZED_FOR_THREADS)
enum { SANITIZED = 1, SANITIZED_THREADS = 1 };
#elif defined(SANITIZED_FOR_MEMORY)
enum { SANITIZED = 1, SANITIZED_THREADS = 0 };
#else
enum { SANITIZED = 0, SANITIZED_THREADS = 0 };
#endif

#endif
