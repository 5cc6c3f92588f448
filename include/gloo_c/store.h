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
 * free(). A store belongs to the process that made it, see context.h: in a
 * forked child all calls fail with GLOO_ERR_FORKED, also for the program's own
 * stores, whose callbacks, `destroy` included, are not called there.
 *
 * Errors of all operations: GLOO_ERR_INVALID (an argument that is NULL, empty
 * or too long), GLOO_ERR_FORKED, GLOO_ERR_NO_MEMORY; for files GLOO_ERR_IO and
 * GLOO_ERR_TIMEOUT (their lock); over TCP GLOO_ERR_PEER (the server ended, or
 * did not answer 0.4 s after the timeout), GLOO_ERR_PROTOCOL; and what
 * callbacks return.
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

/* Bytes that a store holds. Those of a store's answer are released by free. */
typedef struct gloo_value {
  void *data; /* malloc'ed, NULL when bytes is 0 */
  size_t bytes;
} gloo_value;

/* ---- kinds of stores ----------------------------------------------------- */

/* Create a store in this process's memory, for ranks that are threads.
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

/* Create a store in a directory that all ranks can reach. A directory of
 * another job or epoch is refused; records that an earlier start of the same
 * job and epoch left there are an error on all ranks that meet there.
 * Errors: GLOO_ERR_STALE (another job or epoch), GLOO_ERR_INVALID (no
 * directory; a symbolic link; a directory that another user owns or may write),
 * GLOO_ERR_UNSUPPORTED (options of a newer version), GLOO_ERR_IO,
 * GLOO_ERR_TIMEOUT (its lock), GLOO_ERR_NO_MEMORY.
 * Threads: any. Ownership: *store is the caller's; options are copied.
 * Cost: a file per key; a waiting rank polls. */
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
  int64_t timeout_ns; /* for looking up and connecting, retried until then, and
                         for each operation that has none of its own */
  const void *secret; /* by which server and clients know one another, as in
                         gloo_context_options; NULL: the environment's */
  size_t secret_bytes;
  const gloo_tls_options *tls; /* encryption, the same at server and clients;
                                  NULL: the environment's */
} gloo_store_tcp_options;
#define GLOO_STORE_TCP_OPTIONS_INIT \
  { sizeof(gloo_store_tcp_options), 0, 0, 0, 0, 0, 0, 0, 0, 0 }

/* A store kept by one process and reached over TCP (IPv4 or IPv6). The server
 * binds `host` only. It lives until the store that serves it is destroyed.
 * Errors: GLOO_ERR_INVALID (no host, a client without port), GLOO_ERR_ADDRESS
 * (the host does not resolve, the port is taken), GLOO_ERR_TIMEOUT (no server
 * answers there), GLOO_ERR_STALE (another job or epoch), GLOO_ERR_AUTH (server
 * or client has no secret, or the other's is not the same, or of another job or
 * epoch), GLOO_ERR_UNSUPPORTED (options of a newer version),
 * GLOO_ERR_NO_MEMORY, GLOO_ERR_IO; of TLS see tls.h.
 * Threads: any; a client blocks until it is connected. Ownership: *store is the
 * caller's; options are copied.
 * Cost: a thread in the process that serves; one connection per client, and a
 * message and its answer per operation. */
GLOO_API gloo_status
gloo_store_tcp_create(const gloo_store_tcp_options *options, gloo_store **store,
                      gloo_error *error);
/* The port the server listens on.
 * Errors: 0 for other kinds of stores, and for NULL. Threads: any. Ownership:
 * the store stays the caller's. */
GLOO_API uint16_t gloo_store_tcp_port(const gloo_store *store);

/* Open a store by its URL:
 *
 *   file:///folder        as gloo_store_file_create, of no job
 *   tcp://host:port       a client of a server: `gloo store`, or a process with
 *                         `serve` in its gloo_store_tcp_options, of no job
 *   redis://user:password@host:port/prefix
 *                         a Redis server, see docs/guide/launchers.md; all but
 *                         the host may be left out
 *   c10d://host:port/prefix
 *                         a TCPStore of PyTorch, such as torchrun's agent keeps
 *   pmi: and pmix:        a TCP store that rank 0 serves, and of which mpiexec
 *                         or mpirun tells the others; as often on each rank
 *   env:                  what the launcher of the job says (docs/guide/
 *                         launchers.md): where gloo_init meets, too. For a job
 *                         of one rank a store in memory
 *
 * A character that would not be itself there is written as %XX; addresses of
 * IPv6 stand in brackets. Connecting is tried until the time is up.
 * Errors: GLOO_ERR_INVALID (says what is wrong with the URL, or the password),
 * GLOO_ERR_UNSUPPORTED (this build has no such store; no library of PMIx), and
 * those of gloo_store_tcp_create or gloo_store_file_create.
 * Threads: any; blocks until it is connected. Ownership: *store is the
 * caller's; the text is copied. */
GLOO_API gloo_status gloo_store_open(const char *url, int64_t timeout_ns,
                                     gloo_store **store, gloo_error *error);

/* Create a view of `base` in which every key starts with `prefix`.
 * Errors: GLOO_ERR_INVALID (NULL, or a prefix of 1,024 bytes or more),
 * GLOO_ERR_NO_MEMORY.
 * Threads: any. Ownership: *store is the caller's; `base` stays the caller's,
 * and must outlive it; the prefix is copied. */
GLOO_API gloo_status gloo_store_prefix_create(gloo_store *base,
                                              const char *prefix,
                                              gloo_store **store,
                                              gloo_error *error);

/* A host program's own store. Each callback returns a gloo_status, may be
 * called from any thread, and gets `user`. set, get and wait are required;
 * those left NULL make the matching call fail with GLOO_ERR_UNSUPPORTED
 * (without multi_get and multi_set each key is got and set alone: a store that
 * is reached over a network should have them). get and multi_get must hand out
 * malloc'ed memory; they wait for the keys. `values` comes in zeroed, and is
 * freed here whatever they return. Their `timeout_ns` is never
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
  gloo_status (*multi_get)(void *user, const char *const *keys, size_t n_keys,
                           int64_t timeout_ns, gloo_value *values);
  gloo_status (*multi_set)(void *user, const char *const *keys,
                           const gloo_value *values, size_t n_keys);
} gloo_store_callbacks;

/* Make a store of callbacks. `destroy` is called when the store is destroyed.
 * Errors: GLOO_ERR_INVALID (set, get or wait is NULL, or no place for it),
 * GLOO_ERR_UNSUPPORTED (callbacks of a newer version), GLOO_ERR_NO_MEMORY.
 * Threads: any. Ownership: *store is the caller's; the struct is copied; `user`
 * must be there until the store is destroyed. */
GLOO_API gloo_status
gloo_store_callbacks_create(const gloo_store_callbacks *callbacks,
                            gloo_store **store, gloo_error *error);

/* Close a store. NULL is allowed.
 * Errors: none. Threads: no other thread may use it. Ownership: the handle is
 * not valid any more. */
GLOO_API void gloo_store_destroy(gloo_store *store);

/* ---- operations ---------------------------------------------------------- */

/* Set `key`, whatever it held.
 * Shape: data has `bytes` bytes; NULL when there are none.
 * Errors: those of all operations (head of this file).
 * Threads: any. Ownership: data stays the caller's and is copied. */
GLOO_API gloo_status gloo_store_set(gloo_store *store, const char *key,
                                    const void *data, size_t bytes,
                                    gloo_error *error);

/* Wait until `key` exists and copy its value.
 * Shape: *value is one value.
 * Errors: GLOO_ERR_TIMEOUT (names the key), those of all operations (head of
 * this file).
 * Threads: any; blocks. Ownership: value->data is the caller's: free(). */
GLOO_API gloo_status gloo_store_get(gloo_store *store, const char *key,
                                    int64_t timeout_ns, gloo_value *value,
                                    gloo_error *error);

/* Wait until all keys exist.
 * Shape: keys has n_keys entries.
 * Errors: GLOO_ERR_TIMEOUT (names the keys that never came, as many as fit, and
 * how many more), those of all operations (head of this file).
 * Threads: any; blocks. Ownership: keys stay the caller's. */
GLOO_API gloo_status gloo_store_wait(gloo_store *store, const char *const *keys,
                                     size_t n_keys, int64_t timeout_ns,
                                     gloo_error *error);

/* Add to the decimal integer that `key` holds (0 when absent); `result` gets
 * the sum. Values are ASCII decimal, so that get reads them. Atomic.
 * Errors: GLOO_ERR_INVALID also when the key holds something else, or the sum
 * does not fit; GLOO_ERR_UNSUPPORTED (no such callback), those of all
 * operations (head of this file).
 * Threads: any. Ownership: *result is the caller's. */
GLOO_API gloo_status gloo_store_add(gloo_store *store, const char *key,
                                    int64_t amount, int64_t *result,
                                    gloo_error *error);

/* If `key` holds `expected` (or is absent and expected_bytes is 0), store
 * `desired`, atomically. `current` (may be NULL) gets what the key holds
 * afterwards, in both cases.
 * Shape: expected and desired have as many bytes as the arguments behind them
 * say.
 * Errors: GLOO_ERR_COMPARE (it holds something else), GLOO_ERR_UNSUPPORTED (no
 * such callback), those of all operations (head of this file).
 * Threads: any. Ownership: arguments stay the caller's; current->data is the
 * caller's: free(). */
GLOO_API gloo_status gloo_store_compare_and_set(
    gloo_store *store, const char *key, const void *expected,
    size_t expected_bytes, const void *desired, size_t desired_bytes,
    gloo_value *current, gloo_error *error);

/* gloo_store_get or gloo_store_set of several keys; not atomic as a whole.
 * multi_get waits for all keys; on failure no value is handed out.
 * Shape: keys and values have n_keys entries.
 * Errors: GLOO_ERR_TIMEOUT (multi_get; names the keys that never came), those
 * of all operations (head of this file).
 * Threads: any; multi_get blocks. Ownership: keys, and values that are set,
 * stay the caller's; values that are got are the caller's: free() each data. */
GLOO_API gloo_status gloo_store_multi_get(gloo_store *store,
                                          const char *const *keys,
                                          size_t n_keys, int64_t timeout_ns,
                                          gloo_value *values,
                                          gloo_error *error);
GLOO_API gloo_status gloo_store_multi_set(gloo_store *store,
                                          const char *const *keys,
                                          const gloo_value *values,
                                          size_t n_keys, gloo_error *error);

/* Append to what `key` holds (nothing when absent), atomically.
 * Shape: data has `bytes` bytes; NULL when there are none.
 * Errors: GLOO_ERR_INVALID also when the value would be too long;
 * GLOO_ERR_UNSUPPORTED (no such callback), those of all operations (head of
 * this file).
 * Threads: any. Ownership: data stays the caller's and is copied. */
GLOO_API gloo_status gloo_store_append(gloo_store *store, const char *key,
                                       const void *data, size_t bytes,
                                       gloo_error *error);

/* Delete a key.
 * Errors: GLOO_ERR_NOT_FOUND (it does not exist), GLOO_ERR_UNSUPPORTED (no such
 * callback), those of all operations (head of this file).
 * Threads: any. Ownership: the store stays the caller's. */
GLOO_API gloo_status gloo_store_delete(gloo_store *store, const char *key,
                                       gloo_error *error);

#ifdef __cplusplus
}
#endif
#endif
