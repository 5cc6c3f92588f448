/* Several transports as one: each pair of ranks uses the fastest transport that
 * reaches the peer.
 *
 * The children are TCP, which reaches every rank (below the RDMA transport
 * where GLOO_RDMA asks for it), and shared memory, which is faster. An end
 * point publishes the addresses of both. A pair is tried through the first
 * child that can reach the peer's; until that has connected, messages wait in
 * the pair's queue, so that none is lost if it cannot be set up after all (no
 * memory, no descriptors) and TCP takes over: then the child's `failed` upcall
 * has GLOO_ERR_UNSUPPORTED on both sides, or the peer's TCP connection arrives,
 * and the pair is moved. A child that has connected is final.
 *
 * The children's upcalls come through here, with the gli_auto_pair as their
 * pair_user: after pair_close a pair that still has messages to deliver waits
 * for its transport, and its engine must not get upcalls from it. */
#ifndef GLI_TRANSPORT_AUTO_H
#define GLI_TRANSPORT_AUTO_H

#include <stdatomic.h>

#include "transport/request.h"

extern const gli_transport_ops gli_transport_auto;

enum { GLI_AUTO_SHM, GLI_AUTO_TCP, GLI_AUTO_CHILDREN, GLI_AUTO_ANY = -1 };

typedef struct gli_auto_child {
  struct gli_auto *parent;
  gli_transport *t; /* NULL if not available here */
} gli_auto_child;

typedef struct gli_auto_pair {
  gli_pair base;
  struct gli_auto *t;
  struct gli_auto_pair *next, **link; /* member of one of the transport's
                                         lists */
  gli_pair_config config; /* its job_key is the copy below, or NULL */
  uint8_t job_key[GLI_JOB_KEY_BYTES];
  gli_address address[GLI_AUTO_CHILDREN]; /* bytes is 0 if there is none */
  int via;
  gli_pair *child; /* NULL after a failed move */
  bool decided;
  char why[GLI_WHY_BYTES]; /* why it is not shared memory */
  gli_request_queue queue; /* until decided, or while the child has no room */
  /* Closed, with the queue and `last` still to deliver, as copies. */
  bool closed;
  gli_send_request *last;
  gli_request_copies copies;
  uint64_t linger_until_ns;
} gli_auto_pair;

typedef struct gli_auto {
  gli_transport base;
  const gli_upcalls *upcalls;
  void *device_user;
  gli_auto_child child[GLI_AUTO_CHILDREN];
  gloo_error absent; /* why there is no shared memory */
  bool verbs;        /* the network uses RDMA where it can, over TCP */
  char no_verbs[GLI_WHY_BYTES]; /* otherwise why not; "" if not wanted */
  bool in_poll;
  int opening_via; /* child whose accept upcall is being passed on */
  size_t count[GLI_AUTO_CHILDREN]; /* number of pairs */
  gli_auto_pair *pairs, *trying, *garbage;
  unsigned polls, hot;
  uint64_t next_look_ns;
  atomic_bool look; /* a thread has slept: poll all children */
} gli_auto;

/* auto_address.c */
void gli_auto_address(const gli_transport *t, gli_address *address);
bool gli_auto_address_decode(const gli_address *address,
                             gli_address part[GLI_AUTO_CHILDREN]);

/* auto_pair.c */
extern const gli_upcalls gli_auto_upcalls;
gloo_status gli_auto_pair_open(gli_transport *t, const gli_pair_config *config,
                               gli_pair **pair, gloo_error *error);
gli_post gli_auto_send(gli_pair *pair, gli_send_request *request);
bool gli_auto_send_now(gli_pair *pair, gli_header *header, const void *payload);
bool gli_auto_take_now(gli_pair *pair, const gli_header *expected,
                       gli_taken *taken);
void gli_auto_pair_close(gli_pair *pair, const gli_send_request *last);
uint64_t gli_auto_heard(const gli_pair *pair);
uint64_t gli_auto_heard_at(const gli_pair *pair);
bool gli_auto_shows_polls(const gli_pair *pair);
bool gli_auto_obstacle(const gli_pair *pair, gli_obstacle *obstacle);
const char *gli_auto_route(const gli_pair *pair, char why[GLI_WHY_BYTES]);
bool gli_auto_rkey_pack(gli_pair *pair, const void *memory, size_t bytes,
                        gli_access access, uint64_t *rkey);
gloo_status gli_auto_rkey_map(gli_pair *pair, uint64_t rkey, size_t bytes,
                              bool write, void **memory, gloo_error *error);
gloo_status gli_auto_rkey_get(gli_pair *pair, uint64_t rkey, void *dst,
                              size_t bytes, gloo_error *error);
bool gli_auto_revoked(gli_pair *pair);
gli_exposure gli_auto_rma_expose(gli_pair *pair, const void *memory,
                                 size_t bytes, uint64_t *remote,
                                 uint32_t *rkey);
bool gli_auto_rma(gli_pair *pair, gli_rma_work *work);
gli_shared_copy *gli_auto_shared_copy(gli_pair *pair, bool sends);
/* Decides the pairs whose child has connected in the meantime. Returns their
 * number. */
int gli_auto_decide(gli_auto *t);
void gli_auto_free_garbage(gli_auto *t);
/* Frees all pairs; their children are left alone. */
void gli_auto_free_pairs(gli_auto *t);
bool gli_auto_waiting_to_deliver(const gli_auto *t);

#endif
