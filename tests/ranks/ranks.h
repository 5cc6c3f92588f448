/* Ranks as threads of one process, over any transport, for tests of the whole
 * library through its public interface. */
#ifndef TESTS_RANKS_RANKS_H
#define TESTS_RANKS_RANKS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "gloo_c/gloo_c.h"

/* State of one rank. Inside a body use RANK_CHECK, which records the first
 * failure, because a longjmp out of a thread is not possible. */
typedef struct rank_env {
  int rank, size;
  gloo_context *context;
  gloo_device *device;
  gloo_store *store; /* shared by all ranks */
  void *user;
  char failure[256];
} rank_env;

typedef void (*rank_body)(rank_env *env);

typedef struct ranks_options {
  const char *transport; /* NULL: "inproc" */
  int streams;
  int no_helper;
  int measure;                 /* see gloo_context_options */
  int shared_buffers;          /* likewise */
  int64_t timeout_ns;          /* 0: two minutes */
  const char *const *host_ids; /* [size] NULL: no host ids */
  const int *checksums;        /* [size] see gloo_device_options; NULL: 0 */
  gloo_store *store;           /* NULL: a store in memory */
  void *user;
} ranks_options;

/* Runs `body` on `size` ranks. Fails the test if a rank recorded a failure. */
void ranks_run(int size, const ranks_options *options, rank_body body);

#define RANK_CHECK(env, condition)                                    \
  do {                                                                \
    if (!(condition)) rank_fail(env, __FILE__, __LINE__, #condition); \
  } while (0)
void rank_fail(rank_env *env, const char *file, int line, const char *what);

/* Checks a status. On failure the message shows the context's error. */
#define RANK_OK(env, call) rank_ok(env, (call), __FILE__, __LINE__, #call)
void rank_ok(rank_env *env, gloo_status status, const char *file, int line,
             const char *what);

/* Checks that a call was refused as invalid, with `part` in the message. */
void rank_expect_invalid(rank_env *env, gloo_status status,
                         const gloo_error *error, const char *part);

/* Skips the test case, with the reason, on systems without Unix sockets. */
void ranks_need_unix_sockets(void);

#endif
