/* Rendezvous stores, through which ranks find each other before they are
 * connected.
 *
 * A store maps keys (1 to 1,024 bytes of text) to values (up to 8 MiB of any
 * bytes). It is needed while contexts are created, not afterwards.
 *
 * All functions: any thread; many threads may use one store at once. `error`
 * may be NULL, and is filled on failure only. Timeouts are as status.h
 * documents; GLOO_TIMEOUT_DEFAULT is GLOO_START_TIMEOUT, or 30 s. Returned
 * values are allocated with malloc and belong to the caller: release them with
 * free(). A store belongs to the process that created it, see context.h: in a
 * forked child all calls fail with GLOO_ERR_FORKED. Callbacks are not called in
 * the child, not even `destroy`.
 *
 * Errors of all operations: GLOO_ERR_INVALID (an argument that is NULL, empty
 * or too long), GLOO_ERR_FORKED, GLOO_ERR_NO_MEMORY; for files GLOO_ERR_IO and
 * GLOO_ERR_TIMEOUT (their lock); over TCP GLOO_ERR_PEER (the server exited, or
 * did not answer within 0.4 s after the timeout), GLOO_ERR_PROTOCOL; and the
 * results of callbacks.
 *
 * Example:
 *
 *     gloo_status publish(const char *directory, const char *name,
 *                         gloo_error *error) {
 *       gloo_store_file_options options = GLOO_STORE_FILE_OPTIONS_INIT;
 *       options.directory = directory;
 *       gloo_store *store;
 *       gloo_status status = gloo_store_file_create(&options, &store, error);
 *       if (status != GLOO_OK) return status;
 *       status = gloo_store_set(store, "name", name, strlen(name), error);
 *       gloo_store_destroy(store);
 *       return status;
 *     }
 */
#ifndef GLOO_C_STORE_H
#define GLOO_C_STORE_H

#include <stddef.h>
#include <stdint.h>

#include "gloo_c/status.h"
#include "gloo_c/tls.h"

#ifdef __cplusplus
extern "C" {
#endif

#define GLOO_STORE_KEY_MAX ((size_t)1024)
#define GLOO_STORE_VALUE_MAX ((size_t)8 << 20)

typedef struct gloo_store gloo_store;

/* Bytes in a store. Release those that a store returns with free(). */
typedef struct gloo_value {
  void *data; /* malloc'ed; NULL if bytes is 0 */
  size_t bytes;
} gloo_value;

/* ---- kinds of stores ----------------------------------------------------- */

/* Creates a store in this process's memory, for ranks that are threads.
 * Errors: GLOO_ERR_INVALID (`store` is NULL), GLOO_ERR_NO_MEMORY.
 * Threads: any. Ownership: *store is the caller's. */
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

/* Creates a store in a directory that all ranks can access. A directory of
 * another job or epoch is refused; records left over from an earlier start of
 * the same job and epoch are an error on all ranks.
 * Errors: GLOO_ERR_STALE (another job or epoch), GLOO_ERR_INVALID (no
 * directory, a symbolic link, or a directory that another user owns or can
 * write to), GLOO_ERR_UNSUPPORTED (options of a newer version), GLOO_ERR_IO,
 * GLOO_ERR_TIMEOUT (its lock), GLOO_ERR_NO_MEMORY.
 * Threads: any. Ownership: *store is the caller's; options are copied.
 * Cost: a file per key; a waiting rank polls. */
GLOO_API gloo_status
gloo_store_file_create(const gloo_store_file_options *options,
                       gloo_store **store, gloo_error *error);

typedef struct gloo_store_tcp_options {
  size_t struct_size;
  const char *host; /* address of the server; required */
  uint16_t port;    /* 0 with `serve`: any free port, see gloo_store_tcp_port */
  int serve;        /* nonzero: this process also runs the server */
  const char *job;  /* clients of another job or epoch are refused */
  uint64_t epoch;
  /* Timeout of the lookup and the connection, which are retried until then, and
   * of operations without their own timeout, ns. */
  int64_t timeout_ns;
  /* Secret by which server and clients authenticate each other, as in
   * gloo_context_options; NULL: from the environment. */
  const void *secret;
  size_t secret_bytes;
  /* Encryption, the same on server and clients; NULL: from the environment. */
  const gloo_tls_options *tls;
} gloo_store_tcp_options;
#define GLOO_STORE_TCP_OPTIONS_INIT \
  { sizeof(gloo_store_tcp_options), 0, 0, 0, 0, 0, 0, 0, 0, 0 }

/* Creates a TCP store (IPv4 or IPv6): starts its server in this process with
 * `serve`, or connect to it. The server binds only `host`, and runs until the
 * store with `serve` is destroyed.
 * Errors: GLOO_ERR_INVALID (no host, or a client without a port),
 * GLOO_ERR_ADDRESS (the host does not resolve, or the port is in use),
 * GLOO_ERR_TIMEOUT (no server answers), GLOO_ERR_STALE (another job or epoch),
 * GLOO_ERR_AUTH (a missing or different secret, job or epoch),
 * GLOO_ERR_UNSUPPORTED (options of a newer version), GLOO_ERR_NO_MEMORY,
 * GLOO_ERR_IO, and the TLS errors of tls.h.
 * Threads: any; a client blocks until it is connected. Ownership: *store is the
 * caller's; options are copied.
 * Cost: a thread in the process that serves; one connection per client, and a
 * message and its answer per operation. */
GLOO_API gloo_status
gloo_store_tcp_create(const gloo_store_tcp_options *options, gloo_store **store,
                      gloo_error *error);
/* Returns the port of the server.
 * Errors: 0 for other kinds of stores, and for NULL. Threads: any. Ownership:
 * the store stays the caller's. */
GLOO_API uint16_t gloo_store_tcp_port(const gloo_store *store);

/* Opens a store by its URL:
 *
 *     file:///folder     as gloo_store_file_create, without a job
 *     tcp://host:port    a client of `gloo store`, or of a process with `serve`
 *                        in its gloo_store_tcp_options, without a job
 *     redis://user:password@host:port/prefix
 *                        a Redis server, see docs/guide/launchers.md; only the
 *                        host is required
 *     c10d://host:port/prefix
 *                        a TCPStore of PyTorch, such as torchrun's
 *     pmi: and pmix:     a TCP store served by rank 0, whose address mpiexec or
 *                        mpirun publishes; every rank must open it the same
 *                        number of times
 *     env:               the store of the job's launcher, as in gloo_init
 *                        (docs/guide/launchers.md); in memory for one rank
 *
 * Write special characters as %XX, and IPv6 addresses in brackets. Connecting
 * is retried until the timeout.
 * Errors: GLOO_ERR_INVALID (the message names the mistake in the URL, or the
 * password), GLOO_ERR_UNSUPPORTED (this build has no such store, or the PMIx
 * library is missing), and those of gloo_store_tcp_create or
 * gloo_store_file_create.
 * Threads: any; blocks until it is connected. Ownership: *store is the
 * caller's; the text is copied. */
GLOO_API gloo_status gloo_store_open(const char *url, int64_t timeout_ns,
                                     gloo_store **store, gloo_error *error);

/* Creates a view of `base` in which every key starts with `prefix`.
 * Errors: GLOO_ERR_INVALID (NULL, or a prefix of 1,024 bytes or more),
 * GLOO_ERR_NO_MEMORY.
 * Threads: any. Ownership: *store is the caller's; `base` stays the caller's,
 * and must outlive it; the prefix is copied. */
GLOO_API gloo_status gloo_store_prefix_create(gloo_store *base,
                                              const char *prefix,
                                              gloo_store **store,
                                              gloo_error *error);

/* A store of the host program. Each callback returns a gloo_status, may be
 * called from any thread, and gets `user`. set, get and wait are required. An
 * operation whose callback is NULL fails with GLOO_ERR_UNSUPPORTED, except that
 * without multi_get and multi_set keys are read and set one by one: provide
 * both if the store is reached over a network. get and multi_get wait for the
 * keys and must return malloc'ed memory. `values` is zeroed before the call,
 * and the library frees it whatever the result. `timeout_ns` is never
 * GLOO_TIMEOUT_DEFAULT: a negative value is no limit, and GLOO_TIMEOUT_NOW does
 * not wait. */
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
  gloo_status (*multi_get)(void *user, const char *const *keys, size_t n_keys,
                           int64_t timeout_ns, gloo_value *values);
  gloo_status (*multi_set)(void *user, const char *const *keys,
                           const gloo_value *values, size_t n_keys);
} gloo_store_callbacks;

/* Creates a store of callbacks. `destroy` is called when the store is
 * destroyed.
 * Errors: GLOO_ERR_INVALID (set, get, wait or `store` is NULL),
 * GLOO_ERR_UNSUPPORTED (callbacks of a newer version), GLOO_ERR_NO_MEMORY.
 * Threads: any. Ownership: *store is the caller's; the struct is copied; `user`
 * must stay valid until the store is destroyed. */
GLOO_API gloo_status
gloo_store_callbacks_create(const gloo_store_callbacks *callbacks,
                            gloo_store **store, gloo_error *error);

/* Destroys a store. NULL is allowed.
 * Errors: none. Threads: no other thread may use the store. Ownership: the
 * handle is invalid afterwards. */
GLOO_API void gloo_store_destroy(gloo_store *store);

/* ---- operations ---------------------------------------------------------- */

/* Sets `key`, replacing its value if it has one.
 * Shape: data has `bytes` bytes; may be NULL if `bytes` is 0.
 * Errors: those of all operations (head of this file).
 * Threads: any. Ownership: data stays the caller's and is copied. */
GLOO_API gloo_status gloo_store_set(gloo_store *store, const char *key,
                                    const void *data, size_t bytes,
                                    gloo_error *error);

/* Waits until `key` exists and copies its value.
 * Shape: *value is one value.
 * Errors: GLOO_ERR_TIMEOUT (names the key), those of all operations (head of
 * this file).
 * Threads: any; blocks. Ownership: value->data is the caller's: free(). */
GLOO_API gloo_status gloo_store_get(gloo_store *store, const char *key,
                                    int64_t timeout_ns, gloo_value *value,
                                    gloo_error *error);

/* Waits until all keys exist.
 * Shape: keys has n_keys entries.
 * Errors: GLOO_ERR_TIMEOUT (names as many missing keys as fit, and the number
 * of the others), those of all operations (head of this file).
 * Threads: any; blocks. Ownership: keys stay the caller's. */
GLOO_API gloo_status gloo_store_wait(gloo_store *store, const char *const *keys,
                                     size_t n_keys, int64_t timeout_ns,
                                     gloo_error *error);

/* Adds to the decimal integer in `key` (0 if absent), atomically; `result` gets
 * the sum. Values are ASCII decimal, so gloo_store_get can read them.
 * Errors: GLOO_ERR_INVALID also if the value is not an integer, or the sum
 * overflows; GLOO_ERR_UNSUPPORTED (no such callback), those of all operations
 * (head of this file).
 * Threads: any. Ownership: *result is the caller's. */
GLOO_API gloo_status gloo_store_add(gloo_store *store, const char *key,
                                    int64_t amount, int64_t *result,
                                    gloo_error *error);

/* If the value of `key` is `expected` (or the key is absent and expected_bytes
 * is 0), replace it by `desired`, atomically. `current` (may be NULL) gets the
 * value afterwards, in both cases.
 * Shape: expected has expected_bytes bytes, desired has desired_bytes.
 * Errors: GLOO_ERR_COMPARE (another value), GLOO_ERR_UNSUPPORTED (no such
 * callback), those of all operations (head of this file).
 * Threads: any. Ownership: arguments stay the caller's; current->data is the
 * caller's: free(). */
GLOO_API gloo_status gloo_store_compare_and_set(
    gloo_store *store, const char *key, const void *expected,
    size_t expected_bytes, const void *desired, size_t desired_bytes,
    gloo_value *current, gloo_error *error);

/* gloo_store_get and gloo_store_set for several keys; not atomic as a whole.
 * multi_get waits for all keys; on failure it returns no value.
 * Shape: keys and values have n_keys entries.
 * Errors: GLOO_ERR_TIMEOUT (multi_get; names the missing keys), those of all
 * operations (head of this file).
 * Threads: any; multi_get blocks. Ownership: keys, and values to set, stay the
 * caller's; values returned are the caller's: free() each data. */
GLOO_API gloo_status gloo_store_multi_get(gloo_store *store,
                                          const char *const *keys,
                                          size_t n_keys, int64_t timeout_ns,
                                          gloo_value *values,
                                          gloo_error *error);
GLOO_API gloo_status gloo_store_multi_set(gloo_store *store,
                                          const char *const *keys,
                                          const gloo_value *values,
                                          size_t n_keys, gloo_error *error);

/* Appends to the value of `key` (empty if absent), atomically.
 * Shape: data has `bytes` bytes; may be NULL if `bytes` is 0.
 * Errors: GLOO_ERR_INVALID also if the value would be too long;
 * GLOO_ERR_UNSUPPORTED (no such callback), those of all operations (head of
 * this file).
 * Threads: any. Ownership: data stays the caller's and is copied. */
GLOO_API gloo_status gloo_store_append(gloo_store *store, const char *key,
                                       const void *data, size_t bytes,
                                       gloo_error *error);

/* Deletes a key.
 * Errors: GLOO_ERR_NOT_FOUND (it does not exist), GLOO_ERR_UNSUPPORTED (no such
 * callback), those of all operations (head of this file).
 * Threads: any. Ownership: the store stays the caller's. */
GLOO_API gloo_status gloo_store_delete(gloo_store *store, const char *key,
                                       gloo_error *error);

#ifdef __cplusplus
}
#endif
#endif
