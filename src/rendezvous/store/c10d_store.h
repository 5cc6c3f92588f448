/* What the parts of the client of a c10d store share: the store, its requests,
 * and tags before values (store_c10d.c says why there are any). */
#ifndef GLI_RENDEZVOUS_STORE_C10D_STORE_H
#define GLI_RENDEZVOUS_STORE_C10D_STORE_H

#include "rendezvous/store/c10d_connection.h"
#include "rendezvous/store/store.h"
#include "rendezvous/store/tcp_pool.h"

typedef struct gli_c10d_store {
  gloo_store base;
  gli_tcp_pool pool;
  int64_t timeout_ns;
  size_t prefix_bytes;
  char prefix[]; /* "/" or "/PATH/" */
} gli_c10d_store;

/* The time that a server has for an answer, whatever the deadline is. */
#define GLI_C10D_GRACE_NS ((int64_t)5000000000)

/* ---- tags --------------------------------------------------------------- */

#define GLI_C10D_MARK_BYTES ((size_t)16) /* the same in all tags */

typedef struct gli_c10d_tag {
  uint8_t bytes[GLI_C10D_MARK_BYTES + 16];
} gli_c10d_tag;

/* One that nobody else has. */
gloo_status gli_c10d_tag_make(const gli_c10d_store *self, gli_c10d_tag *tag,
                              gloo_error *error);

/* A value of the program's that looks like a tag: GLOO_ERR_UNSUPPORTED. */
gloo_status gli_c10d_refuse_mark(const gli_c10d_store *self, const char *key,
                                 const void *data, size_t bytes,
                                 gloo_error *error);

/* Returns the part of `raw`, a value of the server, that is the value of the
 * key. */
gloo_value gli_c10d_untagged(const gloo_value *raw);

bool gli_c10d_equal(const gloo_value *a, const gloo_value *b);

/* ---- requests ----------------------------------------------------------- */

void gli_c10d_put_key(const gli_c10d_store *self, gli_frame *frame,
                      const char *key);
/* CHECK, WAIT, MULTI_GET. */
void gli_c10d_put_keys(const gli_c10d_store *self, gli_frame *frame,
                       gli_c10d_op op, const char *const *keys, size_t n_keys);
/* SET, APPEND. */
void gli_c10d_put_set(const gli_c10d_store *self, gli_frame *frame,
                      gli_c10d_op op, const char *key, const void *data,
                      size_t bytes);
void gli_c10d_put_compare(const gli_c10d_store *self, gli_frame *frame,
                          const char *key, const gloo_value *expected,
                          const gloo_value *desired);

/* A request with a reply, for the end of those that have none, or one that ends
 * with a value. What has no reply is done when this one's comes, and so before
 * what this client asks on other connections; and one kind of server keeps a
 * reply that ends with an empty value back for 200 ms unless more follows. */
void gli_c10d_put_end(gli_frame *frame);
void gli_c10d_take_end(gli_c10d_connection *connection);

/* When to give up on a server that stays silent: when the store's timeout has
 * passed, or the deadline, but not before the grace has. */
uint64_t gli_c10d_patience(const gli_c10d_store *self, uint64_t deadline_ns);

/* An exchange on a connection of its own. Its end frees the request, as does a
 * beginning that fails. */
gloo_status gli_c10d_begin(gli_c10d_store *self, gli_frame *request,
                           uint64_t limit, gli_c10d_connection **connection,
                           gloo_error *error);
gloo_status gli_c10d_end(gli_c10d_store *self, gli_frame *request,
                         gli_c10d_connection *connection, gloo_error *error);

/* ---- what a key holds --------------------------------------------------- */

/* Gets the value that the server holds for `key`, for free(). */
gloo_status gli_c10d_look(gli_c10d_store *self, const char *key, uint64_t limit,
                          bool *present, gloo_value *raw, gloo_error *error);

/* Gets the value, and removes its tag at the server if it has one. */
gloo_status gli_c10d_settle(gli_c10d_store *self, const char *key,
                            bool *present, gloo_value *value,
                            gloo_error *error);

/* The error for a key that is changed in between, again and again. */
gloo_status gli_c10d_restless(const gli_c10d_store *self, const char *key,
                              gloo_error *error);

/* ---- operations --------------------------------------------------------- */

gloo_status gli_c10d_fetch(gloo_store *store, const char *const *keys,
                           size_t n_keys, uint64_t deadline_ns,
                           gloo_value *values, bool *present,
                           gloo_error *error);

#endif
