/* What every kind of store implements, and what they share.
 *
 * The public functions (store.c) check their arguments and dispatch here, so
 * an implementation sees only keys of 1 to GLOO_STORE_KEY_MAX bytes and values
 * of at most GLOO_STORE_VALUE_MAX bytes. Stores that keep another one inside
 * (prefix), and the bootstrap, use the gli_store_ functions.
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

#define GLI_JOB_MAX ((size_t)1024) /* bytes of a job's name */
#define GLI_STORE_LABEL_BYTES 256
/* The most ranks that can meet: as many clients as the TCP store takes. */
#define GLI_RANKS_MAX ((uint32_t)65536)

/* Holds a will: keys that the store sets when the process that left it ends
 * without having taken it back. The first `n_if` keys are set unless the first
 * of them exists, the others in any case. A will without keys takes back the
 * one before. */
#define GLI_WILL_MAX ((size_t)64 << 10) /* bytes of all, as they are kept */
typedef struct gli_will {
  const char *const *keys;
  const gloo_value *values;
  size_t n, n_if;
} gli_will;

typedef struct gli_store_ops {
  gloo_status (*set)(gloo_store *store, const char *key, const void *data,
                     size_t bytes, gloo_error *error);

  /* Wait until all keys exist and, unless `values` is NULL, copy their values.
   * `values` comes in zeroed; on failure the caller frees what is in it. With
   * GLOO_ERR_TIMEOUT `present` (never NULL) says for each key whether it
   * exists, and the caller writes the message. Looks at least once, whatever
   * the deadline. */
  gloo_status (*fetch)(gloo_store *store, const char *const *keys,
                       size_t n_keys, uint64_t deadline_ns, gloo_value *values,
                       bool *present, gloo_error *error);

  /* Set several keys. NULL: one after the other. */
  gloo_status (*multi_set)(gloo_store *store, const char *const *keys,
                           const gloo_value *values, size_t n_keys,
                           gloo_error *error);

  /* The others may be NULL: not supported. `current` may be NULL; it is set
   * with GLOO_OK and GLOO_ERR_COMPARE, and only then. GLOO_ERR_COMPARE and the
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

  /* For ranks that meet, see below; all may be NULL. */
  gloo_status (*await)(gloo_store *store, const char *const *keys,
                       size_t n_keys, const char *alarm, uint64_t deadline_ns,
                       bool *present, gloo_error *error);
  gloo_status (*visit)(gloo_store *store, uint64_t deadline_ns,
                       gloo_store **visit, gloo_error *error);
  gloo_status (*leave_will)(gloo_store *visit, const gli_will *will,
                            gloo_error *error);
  /* Does what it holds outlive the processes that use it? NULL: no. */
  bool (*lasts)(const gloo_store *store);

  /* Do other processes lose the store when this one destroys it? NULL: no. */
  bool (*serves)(const gloo_store *store);
  /* Returns true if this process came before the one that serves the store.
   * NULL: no. */
  bool (*was_first)(const gloo_store *store);
  void (*destroy)(gloo_store *store);
  /* Instead of destroy, in a forked child: free memory and close descriptors,
   * and change nothing that is the parent's as well. NULL: destroy does. */
  void (*abandon)(gloo_store *store);
} gli_store_ops;

/* The common head: an implementation puts it first in its own struct. `label`
 * says which store it is in messages ("the file store in /tmp/job"). `told` is
 * the job's secret, where a launcher has carried it to the ranks together with
 * the store's place (store_pmi.c); elsewhere its n_bytes is 0. */
struct gloo_store {
  const gli_store_ops *ops;
  gli_birth birth;
  char label[GLI_STORE_LABEL_BYTES];
  gli_secret told;
};

/* As the operations above, with a clear GLOO_ERR_UNSUPPORTED for those that
 * the store does not have, and messages for COMPARE and NOT_FOUND. */
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

/* ---- ranks that meet ---------------------------------------------------- */

/* How much later than its deadline an operation may end: the server keeps the
 * deadline of a fetch itself, and its answer takes a while on a busy machine.
 */
#define GLI_STORE_SLACK_NS ((int64_t)400000000)

/* Wait until all keys exist, or `alarm` does: GLOO_ERR_POISONED, without a
 * message. Otherwise as fetch without values. Where the store cannot, it is
 * looked at several times a second. */
gloo_status gli_store_await(gloo_store *store, const char *const *keys,
                            size_t n_keys, const char *alarm,
                            uint64_t deadline_ns, bool *present,
                            gloo_error *error);

/* The same store, for one thread, so that all operations end by the deadline,
 * or GLI_STORE_SLACK_NS later. `*visit` is `store` itself where the store has
 * nothing of the kind. End it by gli_store_visit_end: a will that was left in
 * it and not taken back stays with `store`, and later visits have it, until
 * `store` is destroyed. */
gloo_status gli_store_visit(gloo_store *store, uint64_t deadline_ns,
                            gloo_store **visit, gloo_error *error);
void gli_store_visit_end(gloo_store *visit, gloo_store *store);

/* In a visit. Instead of one that was left before. GLOO_OK also where the store
 * cannot tell whether a process is gone. */
gloo_status gli_store_leave_will(gloo_store *visit, const gli_will *will,
                                 gloo_error *error);
bool gli_store_lasts(const gloo_store *store);

/* ---- shared by the implementations -------------------------------------- */

/* NULL becomes ""; too long a name is refused. */
gloo_status gli_job_check(const char **job, gloo_error *error);

#endif
