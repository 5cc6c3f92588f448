/* The contract between the engine and every transport.
 *
 * A transport moves messages between two ranks: a header and `length` bytes of
 * payload. It knows nothing of plans or operations. When a header has arrived
 * it asks the engine where the payload goes (the `header` upcall fills in a
 * sink), puts it there (storing it, or reducing it as it arrives) and reports
 * it. The engine does all matching, keeping of early messages and flow control,
 * once for all transports.
 *
 * Threads. The engine calls everything but `sleep`, `wake` and `now_ns` with
 * its lock held: one call at a time per transport. `sleep` is called without
 * the lock and by several threads at once; `wake` and `now_ns` by any thread.
 * Upcalls come from within `poll` only, on the thread that polls.
 * Blocking. Only `sleep` blocks, and `close` for at most the linger time.
 * Trust. Nothing that arrives is trusted: a transport hands up only headers
 * that gli_header_decode accepts, and fails the pair otherwise. Where a pair
 * has a job's key, its ends become connected only when each has shown the other
 * that it has the same; the keys of contexts are public then, and prove
 * nothing. */
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

/* ---- sending ------------------------------------------------------------ */

/* One message to send. The engine owns it; between a `send` that returned
 * GLI_POST_IN_PROGRESS and its `sent` upcall (or pair_close) the transport uses
 * `next` and `private_` freely, and reads header and payload. */
typedef struct gli_send_request {
  gli_header header; /* header.length bytes of payload */
  const void *payload;
  struct gli_send_request *next;
  uint64_t private_;
} gli_send_request;

typedef enum gli_post {
  GLI_POST_DONE,        /* taken and done: payload may be reused, no upcall;
                           what is still to be done for it is owed */
  GLI_POST_IN_PROGRESS, /* taken; exactly one `sent` upcall follows, unless
                           the pair fails or is closed first */
  GLI_POST_NO_ROOM      /* nothing taken; offer it again after a later poll */
} gli_post;

/* ---- receiving ---------------------------------------------------------- */

/* Where a payload goes. With fn NULL it is stored at dst; else
 * dst = local op incoming (incoming op local when incoming_first), element by
 * element, with header.length a multiple of elem_bytes. */
typedef struct gli_sink {
  void *dst;
  const void *local;
  gli_reduce_fn fn;
  uint32_t elem_bytes;
  bool incoming_first;
  bool nontemporal; /* no thread reads it soon: better stored non-temporally */
  void *token;      /* the engine's; comes back in `received` */
} gli_sink;

/* Bytes to be put to, or to be got from, memory that the peer's device reaches
 * by itself: of windows. The engine owns it until its `rma_done` upcall, or
 * pair_close. */
typedef struct gli_rma_work {
  bool puts;
  uint8_t *local; /* only read by a put */
  uint64_t bytes; /* above 0 */
  uint64_t remote;
  uint32_t rkey;
  struct gli_rma_work *next; /* the transport's, as long as it has it */
  uint64_t posted, over;     /* likewise: bytes */
} gli_rma_work;

/* What take_now got. */
enum { GLI_TAKE_BYTES = 16384 };
typedef struct gli_taken {
  uint32_t credit; /* of its header */
  bool eager;
  const uint8_t *payload; /* read it once, before the next take_now or poll; */
  uint8_t room[8];        /* perhaps here */
} gli_taken;

/* ---- pairs and their upcalls --------------------------------------------- */

enum { GLI_JOB_KEY_BYTES = 32 };

typedef struct gli_pair_config {
  uint32_t self_rank, peer_rank; /* never equal */
  uint64_t local_key;            /* what the peer must present */
  uint64_t remote_key;           /* what to present to the peer */
  /* The key that the peer has to prove, of GLI_JOB_KEY_BYTES; NULL: none. Not
   * used after pair_open has returned. */
  const uint8_t *job_key;
  gli_address address; /* where the peer listens */
  void *user;          /* pair_user of the upcalls */
} gli_pair_config;

#define GLI_PAIR_LATER ((gli_pair *)(uintptr_t)1)
#define GLI_PAIR_ELSEWHERE ((gli_pair *)(uintptr_t)2)

typedef struct gli_upcalls {
  /* A header of `pair_user`'s pair has arrived. On GLOO_OK the sink is filled
   * in and `received` follows once the whole payload is there (also when it has
   * no bytes). Otherwise the transport stops reading from this pair and makes
   * no more upcalls for it; the engine has already dealt with the error. */
  gloo_status (*header)(void *pair_user, const gli_header *header,
                        gli_sink *sink);
  void (*received)(void *pair_user, void *token);
  /* A request that was in progress is done: its payload may be reused. */
  void (*sent)(void *pair_user, gli_send_request *request);
  /* The pair is dead (connection refused, reset or closed without a BYE or
   * ABORT message). At most once, and no more upcalls for it afterwards.
   * `cause` names the peer's rank. The engine calls pair_close later.
   * GLOO_ERR_AUTH: the ends do not have the same job's key, or one has none.
   * GLOO_ERR_PROTOCOL: the data is invalid or damaged. The peer exists and does
   * not know: pair_close notifies it, if it still can. */
  void (*failed)(void *pair_user, const gloo_error *cause);
  /* A peer asks for a connection that is not open here yet. `key` is what it
   * presents, to be compared with the `local_key` of a context. The engine
   * opens the pair (pair_open, from inside this upcall) and returns it, or
   * returns the existing one. NULL refuses; GLI_PAIR_LATER does so for now, for
   * the context is still being made: the peer, or the transport, tries again.
   * GLI_PAIR_ELSEWHERE refuses because these ranks talk through another
   * transport. */
  gli_pair *(*accept)(void *device_user, uint64_t key, uint32_t peer_rank);
  /* Gets the configuration of the pair of an `accept`, except its `user`; the
   * job_key is valid until the upcall's caller returns. Nothing is opened or
   * changed, for the peer has proved nothing yet. `accept` may still refuse.
   * False: there is no such pair, or not yet, and `accept` says so. NULL:
   * nobody is asked for a proof. */
  bool (*expect)(void *device_user, uint64_t key, uint32_t peer_rank,
                 gli_pair_config *config);

  /* Instead of `header`, for a message that is there as a whole, in one piece:
   * the engine may take it at once. On GLOO_OK and *taken it is over; without
   * *taken, nothing has been done, and `header` follows; else as for `header`.
   * NULL: `header` it is. */
  gloo_status (*message)(void *pair_user, const gli_header *header,
                         const void *payload, bool *taken);
  /* All of it is done. NULL where there is no `rma`. */
  void (*rma_done)(void *pair_user, gli_rma_work *work);
} gli_upcalls;

/* ---- the operations of a transport -------------------------------------- */

struct gli_tls_settings; /* net/tls.h */

typedef struct gli_transport_config {
  const char *host; /* see gloo_device_options; NULL when not given */
  const char *interface;
  /* The numeric address of this host that reaches the rendezvous; NULL:
   * unknown. If it is loopback, all ranks are on this host. */
  const char *towards;
  uint16_t port;
  /* How long a host that does not resolve is looked up again; 0: once, and as
   * long as that takes. */
  int64_t lookup_ns;
  int streams; /* >= 1 */
  /* Messages are to have checksums (CRC32C): those of each pair of which one
   * end says so. It is published with the address, so both ends know it when
   * they open the pair. A message of such a pair is received as it was sent, or
   * the pair fails with GLOO_ERR_PROTOCOL; and all bytes travel as messages: no
   * rkeys are used. Between threads nothing travels, and nothing is said. */
  bool checksum;
  /* A transport above this one goes by RDMA where both ends can: published with
   * the address. Of TCP alone. */
  bool verbs;
  /* How what crosses a network is encrypted (TLS); NULL: not at all. A
   * transport that needs it holds it. All ends have to say the same. */
  struct gli_tls_settings *tls;
  const gli_upcalls *upcalls;
  void *device_user; /* for the accept upcall */
  uint32_t *owed;    /* see gli_owe */
} gli_transport_config;

/* ---- the table ----------------------------------------------------------- */

enum { GLI_WHY_BYTES = 160, GLI_OBSTACLE_BYTES = 320 };

/* Why messages to a peer do not get through. */
typedef struct gli_obstacle {
  int lack; /* errno: what this process has run out of, so that it cannot make
               the connection; 0: it is something else */
  char text[GLI_OBSTACLE_BYTES]; /* of something else: ends a sentence */
} gli_obstacle;

typedef struct gli_transport_ops {
  const char *name;

  /* Open the end point and listen. Errors: GLOO_ERR_ADDRESS (does not resolve,
   * cannot be bound; says which and why), GLOO_ERR_NOT_FOUND (interface),
   * GLOO_ERR_NO_MEMORY, GLOO_ERR_IO. */
  gloo_status (*open)(const gli_transport_config *config, gli_transport **t,
                      gloo_error *error);

  /* Where peers reach this end point. */
  void (*address)(const gli_transport *t, gli_address *address);

  /* The clock that all deadlines use: monotonic nanoseconds. */
  uint64_t (*now_ns)(gli_transport *t);

  /* Begin to connect. Does not wait; sends may be posted at once. Both sides
   * may do this at the same moment, and end up with one connection. */
  gloo_status (*pair_open)(gli_transport *t, const gli_pair_config *config,
                           gli_pair **pair, gloo_error *error);

  /* Messages of a pair arrive whole and once. Those with slot 0 and control
   * messages (all types but GLI_MESSAGE_DATA and _RMA) arrive in the order in
   * which they were posted; others may overtake when there are several streams.
   * What is under way to a peer when its BYE arrives, or is posted later, is
   * dropped, and counts as sent: the peer needs it no more. A failing
   * connection is not an error here: take it, and report `failed` from poll. */
  gli_post (*send)(gli_pair *pair, gli_send_request *request);

  /* Send a message if it is done with at once, with nothing left to report, as
   * after GLI_POST_DONE. False: nothing was taken; `send` does it. For short
   * messages; NULL where that is never so. */
  bool (*send_now)(gli_pair *pair, gli_header *header, const void *payload);

  /* Take the message that `expected` is the header of, but for `eager` and
   * `credit`, if it is what poll would come to next of this pair: it is there
   * as a whole, and nothing that has to keep its place is before it. It has
   * type DATA, form BYTES and at most GLI_TAKE_BYTES of payload. It is over
   * then, with no upcall. False: nothing has changed, and whatever comes is
   * poll's. For a thread that waits for one message and nothing else; others
   * are served by poll, which is to be called now and then all the same. Never
   * from within an upcall. NULL where that would save nothing. */
  bool (*take_now)(gli_pair *pair, const gli_header *expected,
                   gli_taken *taken);

  /* Stop using a pair. When it returns, no more upcalls come for it, and none
   * of its requests, payloads and sinks is touched any more: what was begun is
   * copied or dropped. `last` (a BYE or ABORT, may be NULL; copied with its
   * payload) is still delivered if the peer is there, after what was begun (an
   * ABORT may cut that short: it then has no `received` upcall); with a BYE
   * also after everything that was taken before. The transport keeps what it
   * needs for that, at most GLI_LINGER_NS long. */
  void (*pair_close)(gli_pair *pair, const gli_send_request *last);

  /* Do all that can be done without waiting, making upcalls. Returns how many
   * things happened (0: idle). */
  int (*poll)(gli_transport *t);

  /* Wait, at most timeout_ns (below 0: no limit), until poll has something to
   * do or wake was called since the last poll. May return early for no reason.
   */
  void (*sleep)(gli_transport *t, int64_t timeout_ns);

  /* Make all present sleepers return, and the next one if there is none. */
  void (*wake)(gli_transport *t);

  /* Close the end point. All pairs are closed already. Waits for what lingers.
   */
  void (*close)(gli_transport *t);

  /* In a forked child, where nothing else is called from then on. What others
   * share with the parent stays as it is: no message, no shutdown, no change of
   * a poll set, of a counter or of memory in common; and no lock is taken, for
   * its owner may not exist here. Each may be NULL: there is nothing to do. */

  /* Close this process's copies of descriptors, as far as that needs no memory
   * to be allocated or freed. Called before fork returns, in every generation
   * of children. */
  void (*forked)(gli_transport *t);
  /* A pair that is not closed goes away. */
  void (*pair_abandon)(gli_pair *pair);
  /* Instead of close: free all memory, that of pairs included but for those
   * that have a pair_abandon. */
  void (*abandon)(gli_transport *t);

  /* Could two ranks on one host that listen there refer to each other's memory?
   * It is asked of any two, and is the same on all ranks. NULL: no. */
  bool (*maps)(const gli_address *a, const gli_address *b);

  /* Was the end point at `address` opened with `verbs`? NULL: none ever is. */
  bool (*speaks_verbs)(const gli_address *address);

  /* A number that is another one whenever bytes have come from the peer since
   * it was asked last: the peer runs, and is reached. NULL where that cannot be
   * doubted, as between threads. */
  uint64_t (*heard)(const gli_pair *pair);
  /* When that was for the last time, by the clock of this end; 0: that is not
   * known. NULL: it never is. It costs a system call, or less. */
  uint64_t (*heard_at)(const gli_pair *pair);
  /* Does the peer's `heard` change by each poll here that comes after a rest,
   * so that nothing has to be sent for it? NULL: no. */
  bool (*shows_polls)(const gli_pair *pair);

  /* Finds what keeps messages of the pair from getting through, as far as this
   * end knows; false: nothing. NULL: it never knows. It may cost system calls.
   */
  bool (*obstacle)(const gli_pair *pair, gli_obstacle *obstacle);

  /* No thread has polled for a while: the next poll looks at all that it
   * otherwise looks at now and then. NULL: every poll does. */
  void (*rested)(gli_transport *t);

  /* The rest is for transports that others are combined with (NULL elsewhere).
   */

  /* Could the end point at `address` be reached? If not, `why` continues a
   * sentence about its rank. */
  bool (*reachable)(const gli_transport *t, const gli_address *address,
                    char why[GLI_WHY_BYTES]);

  /* Has the pair been connected, so that only the peer's end can break it? As
   * long as it is not, and nothing was sent, another transport may take over:
   * `failed` has GLOO_ERR_UNSUPPORTED when that is sensible. */
  bool (*pair_up)(const gli_pair *pair);

  /* For transports that combine others: returns the transport of the pair's
   * messages, in words for people, and in `why` the reason against a better one
   * (may be ""). NULL until that is settled. */
  const char *(*route)(const gli_pair *pair, char why[GLI_WHY_BYTES]);

  /* Do the ranks of this host outnumber its cores? Until this is called: no.
   * For a transport whose use of memory depends on it; any thread may call.
   * NULL: nothing does. */
  void (*set_oversubscribed)(gli_transport *t, bool oversubscribed);

  /* `sleep` in parts, under the same rules: add to `sleep` what would end it.
   * False: there is something to do, do not sleep. sleep_end follows in either
   * case. */
  bool (*sleep_begin)(gli_transport *t, gli_sleep *sleep);
  void (*sleep_end)(gli_transport *t);

  /* Memory that one process reads or writes where it is, in another. All five
   * are NULL in a transport that has no such thing. An rkey names a byte
   * of one rank's memory to one peer; rkey + n is n bytes further. */

  /* Makes the rkey by which the peer reads, or also writes, [memory, memory +
   * bytes). Returns false if it cannot (now, or that memory). */
  bool (*rkey_pack)(gli_pair *pair, const void *memory, size_t bytes,
                    bool write, uint64_t *rkey);

  /* The peer's memory, by an rkey that it sent. On GLOO_OK `memory` is
   * where it is mapped here, until the pair is closed or the peer frees it, or
   * NULL when only `get` gets at it. Nothing in the rkey is trusted:
   * GLOO_ERR_PROTOCOL when it is not within memory that the peer shares. */
  gloo_status (*rkey_map)(gli_pair *pair, uint64_t rkey, size_t bytes,
                          bool write, void **memory, gloo_error *error);

  /* Copy from the peer's memory what `rkey_map` did not map. */
  gloo_status (*get)(gli_pair *pair, uint64_t rkey, void *dst, size_t bytes,
                     gloo_error *error);

  /* Has the peer taken back all that it exposed (its pair_close does that,
   * before it returns)? False: what has been read was still the peer's to
   * expose. To be asked after reading and before the result is relied on. */
  bool (*revoked)(gli_pair *pair);

  /* Memory that the device of a peer reaches without this process, as long as
   * the pair is open: what to tell the peer so that it can, by `rma`. False: it
   * cannot. NULL where there is no such thing. */
  bool (*rma_expose)(gli_pair *pair, const void *memory, size_t bytes,
                     uint64_t *remote, uint32_t *rkey);
  /* Begin to put or get. True: it is taken, and `rma_done` follows unless the
   * pair fails or is closed first. False: a message does it better. In no order
   * with messages or with each other. */
  bool (*rma)(gli_pair *pair, gli_rma_work *work);

  /* Memory that both ends of the pair see, for copies of something from the
   * peer to here, or (`sends`) from here to the peer: GLI_SHARED_COPIES of
   * them. */
  gli_shared_copy *(*shared_copy)(gli_pair *pair, bool sends);
} gli_transport_ops;

/* Common heads, so that the engine reaches the operations. A transport puts
 * them first in its own structs and sets `ops` (open, pair_open do). Those of a
 * pair may be others, with the name and what is asked of pairs. */
struct gli_transport {
  const gli_transport_ops *ops;
  uint32_t *owed; /* of the configuration */
};
struct gli_pair {
  const gli_transport_ops *ops;
  bool owes; /* counted in the transport's `owed` */
};

/* Messages that count as sent, or that a closed pair leaves behind, reach the
 * peer although no thread waits for them here: a pair owes it as long as poll
 * has to be called for that, and `owed` counts the pairs that owe something.
 * Above 0 the engine goes on polling when no operation is left; at 0 it stops,
 * and calls nothing until the program does. Data that the system or the peer
 * already has is not owed. A pair that owed and is broken owes the report. */
static inline void gli_owe(gli_transport *t, gli_pair *pair, bool owes) {
  if (pair->owes == owes) return;
  pair->owes = owes;
  *t->owed += owes ? 1u : UINT32_MAX; /* or one less */
}

/* By name; NULL when there is none. The list is in transport/transports.c. */
const gli_transport_ops *gli_transport_find(const char *name);
/* The one with that number; NULL: there are fewer. */
const gli_transport_ops *gli_transport_at(size_t index);

#endif
