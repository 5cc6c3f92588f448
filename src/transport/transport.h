/* The contract between the engine and every transport.
 *
 * A transport moves messages between two ranks: a header and `length` bytes of
 * payload. It knows nothing of plans or operations. When a header has arrived
 * it asks the engine where the payload goes (the `header` upcall fills in a
 * sink), puts it there (storing it, or reducing it as it arrives) and reports
 * it. Matching, early messages and flow control are in the engine, once for all
 * transports.
 *
 * Threads. The engine calls everything but `sleep`, `wake` and `now_ns` with
 * its lock held: one call at a time per transport. `sleep` is called without
 * the lock and by several threads at once; `wake` and `now_ns` by any thread.
 * Upcalls come from within `poll` only, on the thread that polls.
 *
 * Blocking. Only `sleep` blocks, and `close` for at most the linger time.
 *
 * Trust. Nothing that arrives is trusted: a transport hands up only headers
 * that gli_header_decode accepts, and fails the pair otherwise. Where a pair
 * has a job key, its ends become connected only when each has proved to the
 * other that it has the same key. The keys of contexts are public then, and
 * prove nothing. */
#ifndef GLI_TRANSPORT_TRANSPORT_H
#define GLI_TRANSPORT_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/descriptor.h"
#include "gloo_c/status.h"
#include "kernels/reduce.h"
#include "transport/header.h"
#include "transport/shared_copy.h"

typedef struct gli_transport gli_transport; /* one per device */
typedef struct gli_pair gli_pair;           /* one per (context, other rank) */

#define GLI_ADDRESS_MAX ((size_t)240)
#define GLI_LINGER_NS ((int64_t)2000000000)

typedef struct gli_address {
  uint16_t bytes;
  uint8_t data[GLI_ADDRESS_MAX]; /* opaque to all but its transport */
} gli_address;

/* ---- sending ------------------------------------------------------------- */

/* A message to send. The engine owns it. Between a `send` that returned
 * GLI_POST_IN_PROGRESS and its `sent` upcall (or pair_close), the transport may
 * use `next` and `private_` freely, and reads header and payload. */
typedef struct gli_send_request {
  gli_header header; /* header.length bytes of payload */
  const void *payload;
  struct gli_send_request *next;
  uint64_t private_;
} gli_send_request;

typedef enum gli_post {
  GLI_POST_DONE, /* taken and done: payload may be reused, no upcall; further
                    work counts as owed */
  GLI_POST_IN_PROGRESS, /* taken; exactly one `sent` upcall follows, unless
                           the pair fails or is closed first */
  GLI_POST_NO_ROOM      /* nothing taken; offer it again after a later poll */
} gli_post;

/* ---- receiving ----------------------------------------------------------- */

/* The destination of a payload. With fn NULL it is stored at dst. Otherwise dst
 * = local op incoming (incoming op local if incoming_first), element by
 * element; header.length is then a multiple of elem_bytes. */
typedef struct gli_sink {
  void *dst;
  const void *local;
  gli_reduce_fn fn;
  uint32_t elem_bytes;
  bool incoming_first;
  bool nontemporal; /* not read soon: better stored non-temporally */
  void *token;      /* the engine's; comes back in `received` */
} gli_sink;

/* A put to, or a get from, memory of a window that the peer's device can access
 * by itself. The engine owns it until its `rma_done` upcall, or pair_close. */
typedef struct gli_rma_work {
  bool puts;
  uint8_t *local; /* a put only reads it */
  uint64_t bytes; /* above 0 */
  uint64_t remote;
  uint32_t rkey;
  struct gli_rma_work *next; /* for the transport's use while it has the work */
  uint64_t posted, over;     /* the same: bytes */
} gli_rma_work;

/* Result of exposing memory to the peer's device. */
typedef enum gli_exposure {
  GLI_EXPOSES_NOT,
  GLI_EXPOSES_LATER, /* not known yet: ask again */
  GLI_EXPOSES
} gli_exposure;

/* The message that take_now took. */
enum { GLI_TAKE_BYTES = 16384 };
typedef struct gli_taken {
  uint32_t credit; /* credit in its header */
  bool eager;
  const uint8_t *payload; /* valid for one read, before the next take_now or
                             poll */
  uint8_t room[8];        /* possible place of the payload */
} gli_taken;

/* ---- pairs and their upcalls --------------------------------------------- */

enum { GLI_JOB_KEY_BYTES = 32 };

typedef struct gli_pair_config {
  uint32_t self_rank, peer_rank; /* never equal */
  uint64_t local_key;            /* key that the peer must present */
  uint64_t remote_key;           /* key that this end presents to the peer */
  /* The key that the peer must prove, of GLI_JOB_KEY_BYTES; NULL if none. Not
   * used after pair_open has returned. */
  const uint8_t *job_key;
  gli_address address; /* where the peer listens */
  void *user;          /* pair_user of the upcalls */
} gli_pair_config;

#define GLI_PAIR_LATER ((gli_pair *)(uintptr_t)1)
#define GLI_PAIR_ELSEWHERE ((gli_pair *)(uintptr_t)2)

typedef struct gli_upcalls {
  /* A header of `pair_user`'s pair has arrived. On GLOO_OK the sink is filled
   * in, and `received` follows once the whole payload has arrived (also if it
   * has no bytes). Otherwise the transport stops reading from this pair and
   * makes no more upcalls for it; the engine has already handled the error. */
  gloo_status (*header)(void *pair_user, const gli_header *header,
                        gli_sink *sink);
  void (*received)(void *pair_user, void *token);
  /* A request that was in progress is done: its payload may be reused. */
  void (*sent)(void *pair_user, gli_send_request *request);
  /* The pair is dead (connection refused, reset or closed without a BYE or
   * ABORT message). At most once, and no more upcalls for it afterwards.
   * `cause` names the peer's rank. The engine calls pair_close later.
   * GLOO_ERR_AUTH: the ends do not have the same job key, or one has none.
   * GLOO_ERR_PROTOCOL: the data is invalid or damaged. The peer is alive and
   * does not know: pair_close notifies it, if it still can. */
  void (*failed)(void *pair_user, const gloo_error *cause);
  /* A peer requests a connection that is not open here yet. `key` is what it
   * presents, to be compared with the `local_key` of a context. The engine
   * opens the pair (pair_open, from inside this upcall) and returns it, or
   * returns the existing one. NULL refuses. GLI_PAIR_LATER refuses for now,
   * because the context is still being made: the peer, or the transport, tries
   * again. GLI_PAIR_ELSEWHERE refuses because these ranks talk through another
   * transport. */
  gli_pair *(*accept)(void *device_user, uint64_t key, uint32_t peer_rank);
  /* Gets the configuration of the pair of an `accept`, except its `user`; the
   * job_key is valid until the upcall's caller returns. Nothing is opened or
   * changed, because the peer has proved nothing yet. `accept` may still
   * refuse. Returns false if the pair does not exist, or not yet, and `accept`
   * reports that. NULL if no proof is required. */
  bool (*expect)(void *device_user, uint64_t key, uint32_t peer_rank,
                 gli_pair_config *config);

  /* Replaces `header` for a message that has arrived as a whole, in one piece:
   * the engine may take it at once. On GLOO_OK and *taken the message is done;
   * without *taken nothing was done, and `header` follows; on errors as for
   * `header`. NULL: use `header`. */
  gloo_status (*message)(void *pair_user, const gli_header *header,
                         const void *payload, bool *taken);
  /* The work is done. NULL if there is no `rma`. */
  void (*rma_done)(void *pair_user, gli_rma_work *work);
} gli_upcalls;

/* ---- the operations of a transport --------------------------------------- */

struct gli_tls_settings; /* net/tls.h */
struct gli_endpoints;    /* net/endpoint.h */

typedef struct gli_transport_config {
  const char *host; /* see gloo_device_options; NULL when not given */
  const char *interface;
  /* The numeric address of this host that reaches the rendezvous; NULL if
   * unknown. If it is loopback, all ranks are on this host. */
  const char *towards;
  uint16_t port;
  /* The time for which a host that does not resolve is looked up again. 0:
   * once, for as long as that takes. */
  int64_t lookup_ns;
  int streams; /* >= 1 */
  /* Enables checksums (CRC32C) for the messages of all pairs of which one end
   * has set this. The setting is published with the address, so both ends know
   * it when they open the pair. Messages are then received as they were sent,
   * or the pair fails with GLOO_ERR_PROTOCOL; and all bytes travel as messages:
   * no rkeys are used. Between threads of one process nothing travels, and the
   * setting is ignored. */
  bool checksum;
  /* A transport above this one uses RDMA if both ends can: published with the
   * address. TCP only. */
  bool verbs;
  /* Receives the addresses of this host at which it listens. NULL: not needed.
   * TCP only. */
  struct gli_endpoints *own;
  /* The TLS settings for bytes that cross a network; NULL for no encryption. A
   * transport that needs them holds them. All ends must have the same. */
  struct gli_tls_settings *tls;
  const gli_upcalls *upcalls;
  void *device_user; /* for the accept upcall */
  uint32_t *owed;    /* see gli_mark_undelivered */
} gli_transport_config;

/* ---- the table ----------------------------------------------------------- */

enum { GLI_WHY_BYTES = 160, GLI_OBSTACLE_BYTES = 544 };

/* The reason why messages to a peer do not get through. */
typedef struct gli_obstacle {
  int lack; /* errno of the resource that this process lacks for the connection;
               0 for another reason */
  char text[GLI_OBSTACLE_BYTES]; /* another reason: the end of a sentence */
} gli_obstacle;

/* Access of a peer to memory of this rank. */
typedef enum gli_access {
  GLI_ACCESS_READ,
  GLI_ACCESS_WRITE,
  GLI_ACCESS_SINGLE_COPY /* READ, and this rank has more to copy than the peer */
} gli_access;

typedef struct gli_transport_ops {
  const char *name;

  /* Opens the end point and listens. Errors: GLOO_ERR_ADDRESS (does not
   * resolve, cannot be bound; the message has the address and the reason),
   * GLOO_ERR_NOT_FOUND (interface), GLOO_ERR_NO_MEMORY, GLOO_ERR_IO. */
  gloo_status (*open)(const gli_transport_config *config, gli_transport **t,
                      gloo_error *error);

  /* Returns the address at which peers reach this end point. */
  void (*address)(const gli_transport *t, gli_address *address);

  /* Returns the clock of all deadlines: monotonic nanoseconds. */
  uint64_t (*now_ns)(gli_transport *t);

  /* Begins to connect. Does not wait; sends may be posted at once. Both sides
   * may do this at the same moment, and end up with one connection. */
  gloo_status (*pair_open)(gli_transport *t, const gli_pair_config *config,
                           gli_pair **pair, gloo_error *error);

  /* Sends a message. Messages of a pair arrive whole and once. Headers of
   * messages with equal slots arrive in the order in which they were posted, and
   * so do those with slot 0 and control messages (all types but GLI_MESSAGE_DATA
   * and _RMA); others may overtake when there are several streams. Messages that
   * are in progress when the peer's BYE arrives, or are posted later, are
   * dropped, and count as sent: the peer no longer needs them. A failing
   * connection is not an error here: take the message, and report `failed` from
   * poll. */
  gli_post (*send)(gli_pair *pair, gli_send_request *request);

  /* Sends a message if that is done at once, with nothing left to report, as
   * after GLI_POST_DONE. Returns false if nothing was taken; then call `send`.
   * For short messages. NULL if that is never possible. */
  bool (*send_now)(gli_pair *pair, gli_header *header, const void *payload);

  /* Takes the message with the header `expected`, except for `eager` and
   * `credit`, if it is the next one of this pair that poll would handle: it has
   * arrived as a whole, and no message before it must keep its place. It has
   * type DATA, form BYTES and at most GLI_TAKE_BYTES of payload. The message is
   * then done, without an upcall. Returns false if nothing has changed; poll
   * then handles all that comes. For a thread that waits for a single message;
   * poll serves all others, and must still be called now and then. Never called
   * from within an upcall. NULL if it would save nothing. */
  bool (*take_now)(gli_pair *pair, const gli_header *expected,
                   gli_taken *taken);

  /* Stops using a pair. When it returns, no more upcalls come for it, and none
   * of its requests, payloads and sinks is accessed any more: messages in
   * progress are copied or dropped. `last` (a BYE or ABORT, may be NULL; copied
   * with its payload) is still delivered if the peer is alive, after the
   * messages in progress (an ABORT may cut these short: they then have no
   * `received` upcall); with a BYE also after everything that was taken before.
   * The transport keeps what it needs for that, for at most GLI_LINGER_NS. */
  void (*pair_close)(gli_pair *pair, const gli_send_request *last);

  /* Does all that can be done without waiting, and makes upcalls. Returns the
   * number of events (0: idle). */
  int (*poll)(gli_transport *t);

  /* Waits, for at most timeout_ns (no limit if negative), until poll has
   * something to do or wake was called since the last poll. May return early
   * for no reason. */
  void (*sleep)(gli_transport *t, int64_t timeout_ns);

  /* Makes all present sleepers return, and the next one if there is none. */
  void (*wake)(gli_transport *t);

  /* Closes the end point. All pairs are closed already. Waits for lingering
   * pairs. */
  void (*close)(gli_transport *t);

  /* Functions for a forked child, which calls nothing else from then on. State
   * that is shared with the parent stays as it is: no message, no shutdown, no
   * change of a poll set, of a counter or of shared memory. No lock is taken,
   * because its owner may not exist in the child. Each may be NULL if there is
   * nothing to do. */

  /* Closes this process's copies of descriptors, as far as that needs no memory
   * to be allocated or freed. Called before fork returns, in every generation
   * of children. */
  void (*forked)(gli_transport *t);
  /* Frees a pair that was not closed. */
  void (*pair_abandon)(gli_pair *pair);
  /* Replaces close: frees all memory, that of pairs included, except pairs with
   * a pair_abandon. */
  void (*abandon)(gli_transport *t);

  /* Returns true if two ranks on one host that listen at these addresses can
   * access each other's memory. Called for any two ranks, with the same result
   * on all ranks. NULL means no. */
  bool (*maps)(const gli_address *a, const gli_address *b);

  /* Returns true if the end point at `address` was opened with `verbs`. NULL
   * means no. */
  bool (*speaks_verbs)(const gli_address *address);

  /* Returns a number that changes whenever bytes have come from the peer since
   * the last call: the peer runs and is reachable. NULL if that cannot be in
   * doubt, as between threads. */
  uint64_t (*heard)(const gli_pair *pair);
  /* Returns the last time of that, by the clock of this end; 0 if unknown. NULL
   * means unknown. May cost system calls. */
  uint64_t (*heard_at)(const gli_pair *pair);
  /* Returns true if each poll here that comes after a rest changes the peer's
   * `heard`, so that no message is needed for it. NULL means no. */
  bool (*shows_polls)(const gli_pair *pair);

  /* Finds the reason why messages of the pair do not get through, as far as
   * this end knows. Returns false if there is none. NULL if it never knows. May
   * cost system calls. */
  bool (*obstacle)(const gli_pair *pair, gli_obstacle *obstacle);

  /* Notes that no thread has polled for a while: the next poll checks
   * everything that it otherwise checks now and then. NULL if every poll
   * does. */
  void (*rested)(gli_transport *t);

  /* The operations from here on are for transports that are combined with
   * others (NULL elsewhere). */

  /* Returns true if the end point at `address` may be reached; otherwise `why`
   * continues a sentence about its rank. */
  bool (*reachable)(const gli_transport *t, const gli_address *address,
                    char why[GLI_WHY_BYTES]);

  /* Returns true if the pair has been connected, so that only the peer's end
   * can break it. Until then, and while nothing was sent, another transport may
   * take over: `failed` has GLOO_ERR_UNSUPPORTED when that is sensible. */
  bool (*pair_up)(const gli_pair *pair);

  /* Returns the transport of the pair's messages, in words, and in `why` the
   * reason against a better one (may be ""). For transports that combine
   * others. NULL until that is settled. */
  const char *(*route)(const gli_pair *pair, char why[GLI_WHY_BYTES]);

  /* Sets whether the ranks of this host outnumber its cores. Until it is
   * called: no. For a transport whose use of memory depends on it; any thread
   * may call it. NULL if nothing depends on it. */
  void (*set_oversubscribed)(gli_transport *t, bool oversubscribed);

  /* Begins `sleep` in parts, under the same rules: adds what would end it to
   * `sleep`. Returns false if there is something to do, and the thread must not
   * sleep. sleep_end follows in either case. */
  bool (*sleep_begin)(gli_transport *t, gli_sleep *sleep);
  void (*sleep_end)(gli_transport *t);

  /* Memory that one process accesses in place, in another. All five are NULL in
   * a transport without that. An rkey names a byte of one rank's memory to one
   * peer; rkey + n is n bytes further. */

  /* Makes the rkey by which the peer accesses [memory, memory + bytes). Returns
   * false if it cannot (now, or that memory). */
  bool (*rkey_pack)(gli_pair *pair, const void *memory, size_t bytes,
                    gli_access access, uint64_t *rkey);

  /* Maps the peer's memory of an rkey that it sent. On GLOO_OK `memory` is its
   * address here, until the pair is closed or the peer frees it, or NULL if
   * only `get` can access it. The rkey is not trusted: GLOO_ERR_PROTOCOL if it
   * is not within memory that the peer shares. */
  gloo_status (*rkey_map)(gli_pair *pair, uint64_t rkey, size_t bytes,
                          bool write, void **memory, gloo_error *error);

  /* Copies from the peer's memory what `rkey_map` did not map. */
  gloo_status (*get)(gli_pair *pair, uint64_t rkey, void *dst, size_t bytes,
                     gloo_error *error);

  /* Returns true if the peer has revoked all that it exposed (its pair_close
   * does that, before it returns). Otherwise the bytes read before were still
   * exposed. Called after reading and before the result is relied on. */
  bool (*revoked)(gli_pair *pair);

  /* Registers memory that the peer's device accesses without this process, as
   * long as the pair is open. `remote` and `rkey` are for the peer's `rma`.
   * NULL if not supported. */
  gli_exposure (*rma_expose)(gli_pair *pair, const void *memory, size_t bytes,
                             uint64_t *remote, uint32_t *rkey);
  /* Begins a put or a get. Returns true if it is taken: `rma_done` follows
   * unless the pair fails or is closed first. Returns false if a message is
   * better. Not ordered with messages or with each other. */
  bool (*rma)(gli_pair *pair, gli_rma_work *work);

  /* Returns memory that both ends of the pair map, for GLI_SHARED_COPIES copies
   * from the peer to here, or (`sends`) from here to the peer. */
  gli_shared_copy *(*shared_copy)(gli_pair *pair, bool sends);
} gli_transport_ops;

/* Common heads, so that the engine reaches the operations. A transport puts
 * them first in its structs and sets `ops` (in open and pair_open). A pair may
 * have a different table, with the name and the operations of pairs. */
struct gli_transport {
  const gli_transport_ops *ops;
  uint32_t *owed; /* from the configuration */
};
struct gli_pair {
  const gli_transport_ops *ops;
  bool owes; /* counted in the transport's `owed` */
};

/* Updates whether a pair owes. Messages that count as sent, or that a closed
 * pair leaves behind, reach the peer although no thread waits for them here: a
 * pair owes as long as poll has to be called for that, and `owed` counts the
 * pairs that owe something. Above 0 the engine continues polling when no
 * operation is left; at 0 it stops, and calls nothing until the program does.
 * Data that the system or the peer already has is not owed. A broken pair that
 * owed owes the report. */
static inline void gli_mark_undelivered(gli_transport *t, gli_pair *pair,
                                        bool owes) {
  if (pair->owes == owes) return;
  pair->owes = owes;
  *t->owed += owes ? 1u : UINT32_MAX; /* or one less */
}

/* Returns the transport with this name, or NULL. The list is in
 * transport/transports.c. */
const gli_transport_ops *gli_transport_find(const char *name);
/* Returns the transport with this index, or NULL. */
const gli_transport_ops *gli_transport_at(size_t index);

/* Implements `sleep` by its parts. */
static inline void gli_transport_sleep(gli_transport *t, int64_t timeout_ns) {
  gli_sleep sleep = {.fds = 0};
  if (t->ops->sleep_begin(t, &sleep))
    gli_sleep_wait(&sleep, t->ops->now_ns(t), timeout_ns);
  t->ops->sleep_end(t);
}

#endif
