/* The interface of all kinds of stores, and their common parts.
 *
 * The public functions (store.c) check their arguments and dispatch here, so an
 * implementation gets only keys of 1 to GLOO_STORE_KEY_MAX bytes and values of
 * at most GLOO_STORE_VALUE_MAX bytes. Stores that wrap another store (prefix),
 * and the bootstrap, use the gli_store_ functions.
 *
 * Threads: any thread, several at once, except destroy. */
#ifndef GLI_RENDEZVOUS_STORE_STORE_H
#define GLI_RENDEZVOUS_STORE_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/error.h"
#include "core/fork.h"
#include "gloo_c/store.h"
#include "net/time_limit.h"
#include "security/secret.h"

#define GLI_JOB_MAX ((size_t)1024) /* maximum length of a job's name */
#define GLI_STORE_LABEL_BYTES 256
/* Maximum number of ranks, and of clients of the TCP store. */
#define GLI_RANKS_MAX ((uint32_t)65536)

/* A will: keys that the store sets if the process that left it ends without
 * having taken it back. The first `n_if` keys are set unless the first of them
 * exists, the others in any case. A will without keys takes back the one
 * before. */
#define GLI_WILL_MAX ((size_t)64 << 10) /* size of all, encoded */
typedef struct gli_will {
  const char *const *keys;
  const gloo_value *values;
  size_t n, n_if;
} gli_will;

typedef struct gli_store_ops {
  gloo_status (*set)(gloo_store *store, const char *key, const void *data,
                     size_t bytes, gloo_error *error);

  /* Waits until all keys exist and, unless `values` is NULL, copies their
   * values. `values` is zeroed; on failure the caller frees its elements. With
   * GLOO_ERR_TIMEOUT `present` (never NULL) tells for each key whether it
   * exists, and the caller writes the message. Checks at least once, even after
   * the deadline. */
  gloo_status (*fetch)(gloo_store *store, const char *const *keys,
                       size_t n_keys, uint64_t deadline_ns, gloo_value *values,
                       bool *present, gloo_error *error);

  /* Sets several keys. NULL: the caller sets one after the other. */
  gloo_status (*multi_set)(gloo_store *store, const char *const *keys,
                           const gloo_value *values, size_t n_keys,
                           gloo_error *error);

  /* The following may be NULL: not supported. `current` may be NULL; it is set
   * with GLOO_OK and GLOO_ERR_COMPARE only. GLOO_ERR_COMPARE and the
   * GLOO_ERR_NOT_FOUND of `remove` need no message. */
  gloo_status (*add)(gloo_store *store, const char *key, int64_t amount,
                     int64_t *result, gloo_error *error);
  gloo_status (*compare_and_set)(gloo_store *store, const char *key,
                                 const void *expected, size_t expected_bytes,
                                 const void *desired, size_t desired_bytes,
                                 gloo_value *current, gloo_error *error);
  gloo_status (*append)(gloo_store *store, const char *key, const void *data,
                        size_t bytes, gloo_error *error);
  gloo_status (*remove)(gloo_store *store, const char *key, gloo_error *error);

  /* For the rendezvous, see below; all may be NULL. */
  gloo_status (*await)(gloo_store *store, const char *const *keys,
                       size_t n_keys, const char *alarm, uint64_t deadline_ns,
                       bool *present, gloo_error *error);
  gloo_status (*visit)(gloo_store *store, uint64_t deadline_ns,
                       gloo_store **visit, gloo_error *error);
  gloo_status (*leave_will)(gloo_store *visit, const gli_will *will,
                            gloo_error *error);
  /* Returns true if the contents outlive the processes that use the store.
   * NULL: no. */
  bool (*lasts)(const gloo_store *store);

  /* Returns true if other processes lose the store when this one destroys it.
   * NULL: no. */
  bool (*serves)(const gloo_store *store);
  /* Returns true if this process tried to connect before the store's server
   * listened. NULL: no. */
  bool (*was_first)(const gloo_store *store);
  void (*destroy)(gloo_store *store);
  /* Frees memory and descriptors in a forked child, and changes no state that
   * it shares with the parent. NULL: destroy does that. */
  void (*abandon)(gloo_store *store);
} gli_store_ops;

/* The common head: an implementation puts it first in its own struct. `label`
 * names the store in messages ("the file store in /tmp/job"). `told` is the
 * job's secret if a launcher has distributed it with the store's address
 * (store_pmi.c); otherwise its n_bytes is 0. */
struct gloo_store {
  const gli_store_ops *ops;
  gli_birth birth;
  char label[GLI_STORE_LABEL_BYTES];
  gli_secret told;
};

/* Call the operations above. They return GLOO_ERR_UNSUPPORTED with a message if
 * the store lacks an operation, and add messages for COMPARE and NOT_FOUND. */
gloo_status gli_store_fetch(gloo_store *store, const char *const *keys,
                            size_t n_keys, uint64_t deadline_ns,
                            gloo_value *values, bool *present,
                            gloo_error *error);
gloo_status gli_store_set(gloo_store *store, const char *key, const void *data,
                          size_t bytes, gloo_error *error);
gloo_status gli_store_multi_set(gloo_store *store, const char *const *keys,
                                const gloo_value *values, size_t n_keys,
                                gloo_error *error);
gloo_status gli_store_add(gloo_store *store, const char *key, int64_t amount,
                          int64_t *result, gloo_error *error);
gloo_status gli_store_compare_and_set(gloo_store *store, const char *key,
                                      const void *expected,
                                      size_t expected_bytes,
                                      const void *desired, size_t desired_bytes,
                                      gloo_value *current, gloo_error *error);
gloo_status gli_store_append(gloo_store *store, const char *key,
                             const void *data, size_t bytes, gloo_error *error);
gloo_status gli_store_remove(gloo_store *store, const char *key,
                             gloo_error *error);
bool gli_store_serves(const gloo_store *store);
bool gli_store_was_first(const gloo_store *store);

/* ---- rendezvous ---------------------------------------------------------- */

/* Time that an operation may take beyond its deadline: the server keeps the
 * deadline of a fetch itself, and its answer takes a while under load. */
#define GLI_STORE_SLACK_NS ((int64_t)400000000)

/* Waits until all keys exist, or `alarm` does, which returns GLOO_ERR_POISONED
 * without a message. Otherwise it acts as fetch without values. A store that
 * cannot wait so is polled several times a second. */
gloo_status gli_store_await(gloo_store *store, const char *const *keys,
                            size_t n_keys, const char *alarm,
                            uint64_t deadline_ns, bool *present,
                            gloo_error *error);

/* Makes a visit: the same store for one thread, whose operations end by the
 * deadline, or GLI_STORE_SLACK_NS later. `*visit` is `store` itself if the
 * store has no visits. End the visit with gli_store_visit_end: a will that was
 * left in it and not taken back stays with `store`, and later visits inherit
 * it, until `store` is destroyed. */
gloo_status gli_store_visit(gloo_store *store, uint64_t deadline_ns,
                            gloo_store **visit, gloo_error *error);
void gli_store_visit_end(gloo_store *visit, gloo_store *store);

/* Leaves a will in a visit, in place of the one before. Returns GLOO_OK also if
 * the store cannot detect that a process has ended. */
gloo_status gli_store_leave_will(gloo_store *visit, const gli_will *will,
                                 gloo_error *error);
bool gli_store_lasts(const gloo_store *store);

/* ---- shared by the implementations --------------------------------------- */

/* Replaces NULL by "", and refuses a name that is too long. */
gloo_status gli_job_check(const char **job, gloo_error *error);

#endif
