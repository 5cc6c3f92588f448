/* One client's connection, as the server sees it. All with the server's lock
 * held. */
#ifndef GLI_RENDEZVOUS_STORE_TCP_SESSION_H
#define GLI_RENDEZVOUS_STORE_TCP_SESSION_H

#include <uv.h>

#include "net/conn.h"
#include "net/tcp_address.h"
#include "rendezvous/store/table.h"
#include "rendezvous/store/tcp_auth.h"
#include "rendezvous/store/tcp_budget.h"
#include "rendezvous/store/tcp_local.h"
#include "rendezvous/store/tcp_protocol.h"
#include "rendezvous/store/tcp_strangers.h"

#define GLI_TCP_WAIT_BUCKETS 1024 /* a power of two */

/* Links a parked session into the list of a key, or of all keys with its hash.
 */
typedef struct gli_wait {
  gli_session *session;
  const char *key;
  struct gli_wait *next, **link; /* link NULL: it does not wait */
} gli_wait;

/* Counts what a server has done since it began. */
typedef struct gli_tcp_served {
  uint64_t requests;
  uint64_t bytes_in, bytes_out;
  uint64_t gave_way; /* sessions that were closed for others to have a place */
} gli_tcp_served;

/* Holds the state that the sessions of a server share. */
struct gli_tcp_service {
  gli_table *table;
  const char *job;
  uint64_t epoch;
  const gli_key *key;    /* that clients have to know; NULL: they need not */
  gli_tls_settings *tls; /* that they have to use; NULL: they must not */
  gli_key tls_key;       /* of TLS by the secret */
  bool hides;            /* TLS may have bytes of some sessions */
  gli_user user;         /* of this process, for its clients on this host */
  bool own_user;         /* of clients on this host, only this user's */
  bool from_elsewhere;   /* ... and those of other hosts come over TCP */
  char address[sizeof(gli_tcp_name)];
  gli_events *events;
  uint64_t due_ns;       /* when a session's timer may end; 0: none is set */
  size_t n_sessions;     /* that are open */
  gli_session *sessions; /* all, until they are swept up */
  bool to_sweep;         /* some are closed */
  /* errno of what this process lacks to take clients, since one was refused for
   * it; 0: nothing. */
  int lack;
  bool full;        /* ... which is no descriptor: it has all its sessions */
  bool told_lack;   /* in the log */
  size_t n_refused; /* sessions that are only told so */
  gli_tcp_served served;
  gli_tcp_budget budget;
  gli_tcp_queue strangers; /* sessions that have not said hello */
  gli_tcp_lines lines;
  /* The parked sessions, by the hash of the next key that they need, and of the
   * key that ends their wait. */
  gli_wait *waiting[GLI_TCP_WAIT_BUCKETS];
};

typedef enum gli_session_state {
  GLI_SESSION_HELLO,   /* has to say hello, before its timer ends; and then
                          to show that it knows the key, where it must */
  GLI_SESSION_READY,   /* the next request is awaited: for ever, until its first
                          byte is there; then the rest, in time */
  GLI_SESSION_PARKED,  /* waits for keys; its timer is the deadline */
  GLI_SESSION_QUEUED,  /* waits for room: for more of a request, or a reply */
  GLI_SESSION_WRITING, /* a reply is on its way out, and taken in time */
  GLI_SESSION_CLOSED
} gli_session_state;

/* A FETCH in progress. Everything points into the session's body. */
typedef struct gli_tcp_fetch {
  const char **keys; /* for free() */
  size_t n_keys;
  size_t next; /* the keys before this one were there when last looked at */
  bool want_values;
  const char *alarm; /* NULL: none */
} gli_tcp_fetch;

/* The step of a greeting that a client has to make next. */
typedef enum gli_session_greeting {
  GLI_SESSION_TO_SAY_HELLO,
  GLI_SESSION_TO_SECURE, /* TLS, when the reply is written; then hello again */
  GLI_SESSION_TO_PROVE,  /* it has said hello, and is to show the secret */
  GLI_SESSION_GREETED
} gli_session_greeting;

struct gli_session {
  gli_conn conn;
  uint64_t due_ns; /* of its timer; 0: not set */
  gli_tcp_service *service;
  gli_session *next, **link; /* in `sessions` */
  gli_wait wait, alarm;      /* in `waiting`, when parked */
  uint8_t *will;             /* the body of a WILL, for free(); NULL: none */
  size_t will_bytes;
  bool lost; /* closed because the client is gone */
  gli_session_state state;
  bool refused; /* there is no room for it: to be told so */
  gli_tcp_process who;
  gli_session_greeting greeting;
  gli_tcp_seal *seal; /* NULL: no tags */
  /* For a request of the serving process itself, which has no connection:
   * signalled when the reply is in `out`. */
  uv_cond_t *answered;
  size_t got; /* bytes of the head, then of head and body */
  uint8_t head[GLI_TCP_HEAD_BYTES];
  uint8_t *body;
  size_t body_bytes; /* as the head says */
  size_t body_room;  /* of `body`: grows as they arrive */
  uint32_t op;
  uint8_t *out; /* what is being written */
  size_t out_bytes, out_room, written;
  size_t moved; /* bytes of a request or a reply since its timer was set */
  gli_tcp_share share;
  gli_tcp_place stranger;
  gli_tcp_fetch fetch;
  char peer[sizeof(gli_tcp_name)];
};

/* Begins a session on an accepted connection, and takes over fd. With `refused`
 * the client learns after its hello that there is no room for it. */
void gli_session_accept(gli_tcp_service *service, int fd, bool refused);

/* A request of the process that serves, which has neither connection nor place
 * in `sessions`. Takes the request's memory. NULL: out of memory. */
gli_session *gli_session_own(gli_tcp_service *service, gli_frame *request,
                             gli_tcp_op op, uv_cond_t *answered);
void gli_session_own_free(gli_session *session);

/* Look at the timers then, or before. 0: not at all. */
void gli_sessions_note_due(gli_tcp_service *service, uint64_t due_ns);

/* End the timers that are due. */
void gli_sessions_expire(gli_tcp_service *service, uint64_t now_ns);

/* Look at the requests that TLS has already. */
void gli_sessions_read_hidden(gli_tcp_service *service);

/* Free those that are closed; first what those that are lost have left in their
 * wills is done. */
void gli_sessions_sweep(gli_tcp_service *service);

/* Close it; its memory stays until sessions are swept up. Idempotent. */
void gli_session_close(gli_session *session);

/* Close it because of what the client sent or did; logged. */
void gli_session_drop(gli_session *session, const char *why);

/* End the state that the session is in after `ns`. */
void gli_session_set_timer(gli_session *session, uint64_t ns);
void gli_session_stop_timer(gli_session *session);

/* Send a reply. Takes the frame's memory. */
void gli_session_reply(gli_session *session, gli_frame *reply,
                       gloo_status status);
/* ... of no body, or of the error's sentence. */
void gli_session_reply_status(gli_session *session, gloo_status status,
                              const gloo_error *error);

/* There is room for what it was queued for. */
void gli_session_go_on(gli_session *session);

/* Closes a session whose client has ended. Idempotent. */
void gli_session_lost(gli_session *session);

/* Set what its will says. */
void gli_session_execute(gli_session *session);

/* Fills the error for a lack of resources in this process, for the ranks that
 * wait for it. */
void gli_tcp_service_lacks(const gli_tcp_service *service, gloo_error *error);

/* TLS is made: say so, or whose certificate it is not (tcp_hello.c). */
void gli_session_secured(gli_session *session);

/* Serve the first request, or the first two (tcp_hello.c). */
void gli_session_hello(gli_session *session, gli_body *body);
void gli_session_prove(gli_session *session, const gli_body *body);

/* Serve the request that is complete in `op` and `body`: reply, park or drop.
 */
void gli_session_serve(gli_session *session);

/* Runs a queued FETCH, as if a key that it waits for existed now. */
void gli_session_fetch_again(gli_session *session);

/* Replies to a parked session whose time has passed which keys are missing. */
void gli_session_expire(gli_session *session);

/* Take a session out of `waiting`. Idempotent. */
void gli_session_unpark(gli_session *session);

#endif
