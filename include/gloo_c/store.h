/* Rendezvous stores: where ranks find each other before they are connected.
 *
 * A store maps keys (1 to 1,024 bytes of text) to values (up to 8 MiB of any
 * bytes). It is needed while contexts are being created, not afterwards.
 *
 * All functions: any thread; one store may be used by many threads at once.
 * `error` may be NULL; when given it is filled on failure only. Timeouts are as
 * status.h says; GLOO_TIMEOUT_DEFAULT is 30 s. Values handed out are
 * allocated with malloc and belong to the caller: release them with free(). A
 * store belongs to the process that made it, see context.h: in a forked child
 * everything fails with GLOO_ERR_FORKED, also with the program's own stores,
 * whose callbacks are not called there, `destroy` included. */
#ifndef GLOO_C_STORE_H
#define GLOO_C_STORE_H

#include <stddef.h>
#include <stdint.h>

#include "gloo_c/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define GLOO_STORE_KEY_MAX ((size_t)1024)
#define GLOO_STORE_VALUE_MAX ((size_t)8 << 20)

typedef struct gloo_store gloo_store;

typedef struct gloo_value {
  void *data; /* malloc'ed, NULL when bytes is 0 */
  size_t bytes;
} gloo_value;

/* ---- kinds of stores ----------------------------------------------------- */

/* A store in this process's memory, for ranks that are threads. */
GLOO_API gloo_status gloo_store_memory_create(gloo_store **store,
                                              gloo_error *error);

typedef struct gloo_store_file_options {
  size_t struct_size;
  const char *directory; /* created (mode 0700) when absent; required */
  const char *job;       /* identifies the job; NULL means "" */
  uint64_t epoch;        /* attempt number of that job */
} gloo_store_file_options;
#define GLOO_STORE_FILE_OPTIONS_INIT \
  { sizeof(gloo_store_file_options), 0, 0, 0 }

/* A store in a directory that all ranks can reach. A directory that was made
 * by another job or epoch is refused with GLOO_ERR_STALE, never mixed with. */
GLOO_API gloo_status
gloo_store_file_create(const gloo_store_file_options *options,
                       gloo_store **store, gloo_error *error);

typedef struct gloo_store_tcp_options {
  size_t struct_size;
  const char *host; /* address of the server; required */
  uint16_t port;    /* 0 with `serve`: pick a free one, see ..._port() */
  int serve;        /* nonzero: this process runs the server as well */
  const char *job;  /* a client of another job or epoch is refused */
  uint64_t epoch;
  int64_t timeout_ns; /* for connecting, retried until then */
} gloo_store_tcp_options;
#define GLOO_STORE_TCP_OPTIONS_INIT \
  { sizeof(gloo_store_tcp_options), 0, 0, 0, 0, 0, 0 }

/* A store kept by one process and reached over TCP (IPv4 or IPv6). The server
 * binds `host` only. It lives until the store that serves it is destroyed. */
GLOO_API gloo_status
gloo_store_tcp_create(const gloo_store_tcp_options *options, gloo_store **store,
                      gloo_error *error);
/* The port the server listens on, 0 for other kinds of stores. */
GLOO_API uint16_t gloo_store_tcp_port(const gloo_store *store);

/* A view of `base` in which every key starts with `prefix`. `base` must
 * outlive it and stays the caller's. */
GLOO_API gloo_status gloo_store_prefix_create(gloo_store *base,
                                              const char *prefix,
                                              gloo_store **store,
                                              gloo_error *error);

/* A host program's own store. Each callback returns a gloo_status, may be
 * called from any thread, and gets `user`. set, get and wait are required;
 * those left NULL make the matching call fail with GLOO_ERR_UNSUPPORTED
 * (multi_get and multi_set fall back to get and set). get must hand out
 * malloc'ed memory; it waits for the key. Their `timeout_ns` is never
 * GLOO_TIMEOUT_DEFAULT: below 0 there is no limit, and GLOO_TIMEOUT_NOW is not
 * to wait. */
typedef struct gloo_store_callbacks {
  size_t struct_size;
  void *user;
  gloo_status (*set)(void *user, const char *key, const void *data,
                     size_t bytes);
  gloo_status (*get)(void *user, const char *key, int64_t timeout_ns,
                     gloo_value *value);
  gloo_status (*wait)(void *user, const char *const *keys, size_t n_keys,
                      int64_t timeout_ns);
  gloo_status (*add)(void *user, const char *key, int64_t amount,
                     int64_t *result);
  gloo_status (*compare_and_set)(void *user, const char *key,
                                 const void *expected, size_t expected_bytes,
                                 const void *desired, size_t desired_bytes,
                                 gloo_value *current);
  gloo_status (*append)(void *user, const char *key, const void *data,
                        size_t bytes);
  gloo_status (*remove)(void *user, const char *key);
  void (*destroy)(void *user); /* optional */
} gloo_store_callbacks;
GLOO_API gloo_status
gloo_store_callbacks_create(const gloo_store_callbacks *callbacks,
                            gloo_store **store, gloo_error *error);

/* Close a store. Nobody may be using it. NULL is allowed. */
GLOO_API void gloo_store_destroy(gloo_store *store);

/* ---- operations ---------------------------------------------------------- */

/* Set `key`, whatever it held. */
GLOO_API gloo_status gloo_store_set(gloo_store *store, const char *key,
                                    const void *data, size_t bytes,
                                    gloo_error *error);

/* Wait until `key` exists and copy its value. GLOO_ERR_TIMEOUT names it. */
GLOO_API gloo_status gloo_store_get(gloo_store *store, const char *key,
                                    int64_t timeout_ns, gloo_value *value,
                                    gloo_error *error);

/* Wait until all keys exist. On GLOO_ERR_TIMEOUT the message names those that
 * never came (as many as fit, and how many more). */
GLOO_API gloo_status gloo_store_wait(gloo_store *store, const char *const *keys,
                                     size_t n_keys, int64_t timeout_ns,
                                     gloo_error *error);

/* Add to the decimal integer that `key` holds (0 when absent); `result` gets
 * the sum. Values are ASCII decimal, so that get reads them. */
GLOO_API gloo_status gloo_store_add(gloo_store *store, const char *key,
                                    int64_t amount, int64_t *result,
                                    gloo_error *error);

/* If `key` holds `expected` (or is absent and expected_bytes is 0), store
 * `desired` and return GLOO_OK, else GLOO_ERR_COMPARE. `current` (may be NULL)
 * gets what the key holds afterwards, in both cases. */
GLOO_API gloo_status gloo_store_compare_and_set(
    gloo_store *store, const char *key, const void *expected,
    size_t expected_bytes, const void *desired, size_t desired_bytes,
    gloo_value *current, gloo_error *error);

/* Several at once; not atomic as a whole. multi_get waits for all keys; on
 * failure no value is handed out. */
GLOO_API gloo_status gloo_store_multi_get(gloo_store *store,
                                          const char *const *keys,
                                          size_t n_keys, int64_t timeout_ns,
                                          gloo_value *values,
                                          gloo_error *error);
GLOO_API gloo_status gloo_store_multi_set(gloo_store *store,
                                          const char *const *keys,
                                          const gloo_value *values,
                                          size_t n_keys, gloo_error *error);

/* Append to what `key` holds (nothing when absent). */
GLOO_API gloo_status gloo_store_append(gloo_store *store, const char *key,
                                       const void *data, size_t bytes,
                                       gloo_error *error);

/* Delete a key. GLOO_ERR_NOT_FOUND when it does not exist. */
GLOO_API gloo_status gloo_store_delete(gloo_store *store, const char *key,
                                       gloo_error *error);

#ifdef __cplusplus
}
#endif
#endif
