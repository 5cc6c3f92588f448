/* The common part of pairs of transports that make connections: the
 * configuration, the match with a hello, failures, the report of a poll, and
 * the delivery of the rest after a close.
 *
 * A transport puts a gli_transport_peer first in its pairs and a
 * gli_transport_peers first in its end point. Failures are noted when they are
 * detected and reported at the end of a poll; upcalls may close any pair, so
 * `live` is checked after each one. The transport frees the memory of pairs, at
 * the end of a poll only. */
#ifndef GLI_TRANSPORT_PEER_H
#define GLI_TRANSPORT_PEER_H

#include <stdatomic.h>

#include "core/error.h"
#include "security/keys.h"
#include "transport/transport.h"

typedef struct gli_transport_peers gli_transport_peers;

typedef struct gli_transport_peer {
  gli_pair base;
  gli_transport_peers *set;
  struct gli_transport_peer *next, **link; /* member of one of the lists of
                                              `set` */
  gli_pair_config config;                  /* without the job key */
  /* State that decides whether arriving bytes are read. */
  union {
    struct {
      bool live;       /* upcalls may be made */
      bool up;         /* connected; used by transports with one connection */
      bool departed;   /* BYE or ABORT of the peer has arrived: it reads nothing
                          more */
      bool in_message; /* the first bytes of a message have arrived */
    };
    uint32_t rx_state;
  };
  /* Work for every poll, of a transport that checks it. */
  union {
    struct {
      bool closed;      /* pair_close was called: the pair lingers */
      bool peer_closed; /* the peer's end of the connection is closed */
      bool cut;         /* closed in the middle of a message */
      bool spare;
    };
    uint32_t pending_work; /* 0 if no flag above is set */
  };
  bool begun;     /* gli_peers_begin has visited the pair */
  bool greeted;   /* the peer may know of this pair */
  bool checked;   /* messages have checksums */
  bool broken;    /* failed with `cause`; its connections must end */
  bool to_report; /* poll must handle that */
  bool to_tell;   /* by the `failed` upcall */
  gloo_error cause;
  uint64_t linger_until_ns; /* end of the delivery of a closed pair */
  /* In a job with a secret: the key that the peer must prove. */
  bool asks;
  gli_key key;
} gli_transport_peer;

/* Functions that a transport supplies. */
typedef struct gli_peer_kind {
  const char *without; /* begins a message: "no connection with rank" */
  /* Begins to connect, unless that has begun or is pointless. */
  void (*begin)(gli_transport_peer *peer);
  /* Checks all of its deadlines, and schedules the next ones. */
  void (*due)(gli_transport_peer *peer, uint64_t now_ns);
  /* Updates the mark of undelivered data (gli_mark_undelivered). */
  void (*update_undelivered)(gli_transport_peer *peer);
  /* Stops reading after invalid data. NULL if polls check `live`. */
  void (*ignore)(gli_transport_peer *peer);
  /* Drops the connections of a broken pair. */
  void (*end)(gli_transport_peer *peer);
  /* Drops all that it holds, and has its memory freed. */
  void (*dispose)(gli_transport_peer *peer);
} gli_peer_kind;

struct gli_transport_peers {
  gli_transport base;
  const gli_peer_kind *kind;
  const gli_upcalls *upcalls;
  void *device_user;
  gli_transport_peer *pairs, *leaving /* closed ones */, *garbage;
  int happened; /* number of events in this poll */
  bool in_poll;
  bool closing;   /* only lingering pairs are served */
  bool to_begin;  /* a pair has not begun to connect */
  bool to_report; /* a pair is newly broken */
  atomic_int sleepers;
  atomic_bool needs_poll; /* something changed that only poll acts on */
  atomic_ullong next_due_ns;
};

/* ---- opening ------------------------------------------------------------- */

/* Derives the key of both ends of a pair from the job's key, which must
 * exist. */
gloo_status gli_peer_key(const gli_pair_config *config, gli_key *key,
                         gloo_error *error);
/* Fills a pair, in zeroed memory, and derives its key. */
gloo_status gli_peer_init(gli_transport_peer *peer, gli_transport_peers *set,
                          const gli_pair_config *config, gloo_error *error);
/* Adds a complete pair: the next poll begins to connect, unless the peer's
 * hello comes first. */
void gli_peer_add(gli_transport_peer *peer);
void gli_peer_move(gli_transport_peer *peer, gli_transport_peer **list);
/* Moves a pair to the list of closed pairs. Upcalls end. */
void gli_peer_leave(gli_transport_peer *peer);

/* ---- a hello from a peer ------------------------------------------------- */

/* The key of a context that a hello presents, and the ranks that it names. */
typedef struct gli_peer_name {
  uint64_t key;
  uint32_t from, to;
} gli_peer_name;

/* Facts about the pair that a hello is for. */
typedef struct gli_peer_expected {
  bool known; /* false if there is none, or not yet */
  bool asks;
  uint32_t self_rank;
  gli_key key; /* if `asks`; the caller wipes it */
  gli_address address;
} gli_peer_expected;

gloo_status gli_peer_expect(gli_transport_peers *set, const gli_peer_name *name,
                            gli_peer_expected *expected, gloo_error *error);

typedef enum gli_peer_refusal {
  GLI_PEER_UNKNOWN,  /* no context has this key and these ranks */
  GLI_PEER_LATER,    /* its context is still being made */
  GLI_PEER_ELSEWHERE /* its ranks talk through another transport */
} gli_peer_refusal;

/* Returns the pair that a hello is for, which the engine may open for it, or
 * NULL with the refusal. */
gli_transport_peer *gli_peer_find(gli_transport_peers *set,
                                  const gli_peer_name *name,
                                  gli_peer_refusal *refusal);

/* ---- failing ------------------------------------------------------------- */

/* Breaks the pair, once. */
void gli_peer_break(gli_transport_peer *peer, gloo_status status,
                    const char *format, ...) GLI_PRINTF(3, 4);
/* Breaks the pair because this process lacks a resource (errno); the error
 * names this rank. */
void gli_peer_fail_resource(gli_transport_peer *peer, int code);
/* Breaks the pair after a protocol error: nothing more is read, but the peer
 * can still be notified. */
void gli_peer_spoil(gli_transport_peer *peer, const char *format, ...)
    GLI_PRINTF(2, 3);

/* ---- one turn ------------------------------------------------------------ */

void gli_peers_begin(gli_transport_peers *set);
void gli_peers_due(gli_transport_peers *set, uint64_t now_ns);
/* Reports the pairs that broke. */
void gli_peers_report(gli_transport_peers *set);

/* Keeps threads from sleeping before the next poll, which acts on a change. */
void gli_peers_touch(gli_transport_peers *set);
/* Schedules a look at deadlines, no later than due_ns. */
void gli_peers_schedule(gli_transport_peers *set, uint64_t due_ns);

#endif
