/* The parts of the c10d store's client: the store, its requests, and tags
 * before values (store_c10d.c explains the tags). */
#ifndef GLI_RENDEZVOUS_STORE_C10D_STORE_H
#define GLI_RENDEZVOUS_STORE_C10D_STORE_H

#include "rendezvous/store/c10d_connection.h"
#include "rendezvous/store/store.h"
#include "rendezvous/store/tcp/tcp_pool.h"

typedef struct gli_c10d_store {
  gloo_store base;
  gli_tcp_pool pool;
  int64_t timeout_ns;
  size_t prefix_bytes;
  char prefix[]; /* "/" or "/PATH/" */
} gli_c10d_store;

/* Time that a server always has for an answer, even after the deadline. */
#define GLI_C10D_GRACE_NS ((int64_t)5000000000)

/* ---- tags ---------------------------------------------------------------- */

#define GLI_C10D_MARK_BYTES ((size_t)16) /* constant part of a tag */

typedef struct gli_c10d_tag {
  uint8_t bytes[GLI_C10D_MARK_BYTES + 16];
} gli_c10d_tag;

/* Makes a unique tag. */
gloo_status gli_c10d_tag_make(const gli_c10d_store *self, gli_c10d_tag *tag,
                              gloo_error *error);

/* Refuses a value of the program that looks like a tag, with
 * GLOO_ERR_UNSUPPORTED. */
gloo_status gli_c10d_refuse_mark(const gli_c10d_store *self, const char *key,
                                 const void *data, size_t bytes,
                                 gloo_error *error);

/* Returns the key's value within `raw`, a value of the server. */
gloo_value gli_c10d_untagged(const gloo_value *raw);

bool gli_c10d_equal(const gloo_value *a, const gloo_value *b);

/* ---- requests ------------------------------------------------------------ */

void gli_c10d_put_key(const gli_c10d_store *self, gli_frame *frame,
                      const char *key);
/* Appends a CHECK, WAIT or MULTI_GET. */
void gli_c10d_put_keys(const gli_c10d_store *self, gli_frame *frame,
                       gli_c10d_op op, const char *const *keys, size_t n_keys);
/* Appends a SET or APPEND. */
void gli_c10d_put_set(const gli_c10d_store *self, gli_frame *frame,
                      gli_c10d_op op, const char *key, const void *data,
                      size_t bytes);
void gli_c10d_put_compare(const gli_c10d_store *self, gli_frame *frame,
                          const char *key, const gloo_value *expected,
                          const gloo_value *desired);

/* Appends a request that always has a reply, after requests without one and
 * after one whose reply ends with a value. The reply confirms the requests
 * before it, also towards later requests on other connections. Besides, one
 * kind of server delays a reply that ends with an empty value by 200 ms unless
 * more follows. */
void gli_c10d_put_end(gli_frame *frame);
void gli_c10d_take_end(gli_c10d_connection *connection);

/* Returns the time to give up on a silent server: the earlier of the store's
 * timeout and the deadline, but not before the grace has passed. */
uint64_t gli_c10d_patience(const gli_c10d_store *self, uint64_t deadline_ns);

/* Begins and ends an exchange on a separate connection. The end frees the
 * request, as does a failed beginning. */
gloo_status gli_c10d_begin(gli_c10d_store *self, gli_frame *request,
                           uint64_t limit, gli_c10d_connection **connection,
                           gloo_error *error);
gloo_status gli_c10d_end(gli_c10d_store *self, gli_frame *request,
                         gli_c10d_connection *connection, gloo_error *error);

/* ---- the value of a key -------------------------------------------------- */

/* Gets the server's value for `key`, for free(). */
gloo_status gli_c10d_look(gli_c10d_store *self, const char *key, uint64_t limit,
                          bool *present, gloo_value *raw, gloo_error *error);

/* Gets the value, and removes its tag at the server if it has one. */
gloo_status gli_c10d_settle(gli_c10d_store *self, const char *key,
                            bool *present, gloo_value *value,
                            gloo_error *error);

/* Fills the error for a key that other clients keep changing. */
gloo_status gli_c10d_restless(const gli_c10d_store *self, const char *key,
                              gloo_error *error);

/* ---- operations ---------------------------------------------------------- */

gloo_status gli_c10d_fetch(gloo_store *store, const char *const *keys,
                           size_t n_keys, uint64_t deadline_ns,
                           gloo_value *values, bool *present,
                           gloo_error *error);

#endif
