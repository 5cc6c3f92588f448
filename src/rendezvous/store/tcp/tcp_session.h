/* One client's connection in the server. The server's lock must be held. */
#ifndef GLI_RENDEZVOUS_STORE_TCP_TCP_SESSION_H
#define GLI_RENDEZVOUS_STORE_TCP_TCP_SESSION_H

#include <uv.h>

#include "net/conn.h"
#include "net/tcp_address.h"
#include "rendezvous/store/table.h"
#include "rendezvous/store/tcp/tcp_auth.h"
#include "rendezvous/store/tcp/tcp_budget.h"
#include "rendezvous/store/tcp/tcp_local.h"
#include "rendezvous/store/tcp/tcp_protocol.h"
#include "rendezvous/store/tcp/tcp_strangers.h"

#define GLI_TCP_WAIT_BUCKETS 1024 /* a power of two */

/* Links a parked session into a list of sessions whose keys share a hash. */
typedef struct gli_wait {
  gli_session *session;
  const char *key;
  struct gli_wait *next, **link; /* link NULL if it does not wait */
} gli_wait;

/* Counters of a server since its start. */
typedef struct gli_tcp_served {
  uint64_t requests;
  uint64_t bytes_in, bytes_out;
  uint64_t gave_way; /* sessions closed to make room for others */
} gli_tcp_served;

/* State that the sessions of a server share. */
struct gli_tcp_service {
  gli_table *table;
  const char *job;
  uint64_t epoch;
  const gli_key *key;    /* key that clients must know; NULL if there is none */
  gli_tls_settings *tls; /* TLS that clients must use; NULL: none */
  gli_key tls_key;       /* key of TLS by the secret */
  bool hides;            /* true if TLS may have bytes of some sessions */
  gli_user user;       /* user of this process, to compare with local clients */
  bool own_user;       /* true if local clients must be this user's */
  bool from_elsewhere; /* true if other hosts can connect, over TCP */
  char address[sizeof(gli_tcp_name)];
  gli_events *events;
  uint64_t due_ns;       /* earliest end of a timer; 0 if none is set */
  size_t n_sessions;     /* number of open sessions */
  gli_session *sessions; /* all sessions, until they are swept */
  bool to_sweep;         /* true if some are closed */
  /* errno of the lack for which a client was refused; 0 if there is none. */
  int lack;
  bool full;        /* true if the limit on sessions was reached, not errno */
  bool told_lack;   /* true once the log has the lack */
  bool told_loss;   /* true once the log has a path that drops replies */
  size_t n_refused; /* number of sessions that only get a refusal */
  gli_tcp_served served;
  gli_tcp_budget budget;
  gli_tcp_queue strangers; /* sessions before their hello */
  gli_tcp_lines lines;
  /* Parked sessions, by the hash of the next key that they need, and by that of
   * their alarm. */
  gli_wait *waiting[GLI_TCP_WAIT_BUCKETS];
};

typedef enum gli_session_state {
  GLI_SESSION_HELLO,   /* must greet, and prove a key, before its timer ends */
  GLI_SESSION_READY,   /* waits for a request; its first byte sets the timer */
  GLI_SESSION_PARKED,  /* waits for keys; its timer is the deadline */
  GLI_SESSION_QUEUED,  /* waits for memory for a request or a reply */
  GLI_SESSION_WRITING, /* sends a reply, with a timer */
  GLI_SESSION_CLOSED
} gli_session_state;

/* A FETCH in progress. Its pointers point into the session's body. */
typedef struct gli_tcp_fetch {
  const char **keys; /* for free() */
  size_t n_keys;
  size_t next; /* number of keys that existed at the last check */
  bool want_values;
  const char *alarm; /* NULL if there is none */
} gli_tcp_fetch;

/* The next step of a client's greeting. */
typedef enum gli_session_greeting {
  GLI_SESSION_TO_SAY_HELLO,
  GLI_SESSION_TO_SECURE, /* TLS, after the reply; then hello again */
  GLI_SESSION_TO_PROVE,  /* said hello, must prove the secret */
  GLI_SESSION_GREETED
} gli_session_greeting;

struct gli_session {
  gli_conn conn;
  uint64_t due_ns;  /* time of its timer; 0 if not set */
  uint64_t look_ns; /* time by which a long reply must have been acknowledged */
  gli_tcp_service *service;
  gli_session *next, **link; /* list of all sessions */
  gli_wait wait, alarm;      /* entries in `waiting`, if parked */
  uint8_t *will; /* body of a WILL, for free(); NULL if there is none */
  size_t will_bytes;
  bool lost; /* true if it was closed because the client is gone */
  gli_session_state state;
  bool refused; /* true if the client only gets a refusal */
  gli_tcp_process who;
  gli_session_greeting greeting;
  gli_tcp_seal *seal; /* NULL without tags */
  /* Condition of a request of the serving process itself, which has no
   * connection: signalled when the reply is in `out`. */
  uv_cond_t *answered;
  size_t got; /* bytes of the head, then of head and body */
  uint8_t head[GLI_TCP_HEAD_BYTES];
  uint8_t *body;
  size_t body_bytes; /* size according to the head */
  size_t body_room;  /* size of the buffer, which grows with the input */
  uint32_t op;
  uint8_t *out; /* reply */
  size_t out_bytes, out_room, written;
  size_t moved; /* bytes read or written since the timer was set */
  gli_tcp_share share;
  gli_tcp_place stranger;
  gli_tcp_fetch fetch;
  char peer[sizeof(gli_tcp_name)];
};

/* Begins a session on an accepted connection, and takes over fd. If `refused`,
 * the reply to the client's hello reports a lack of resources. */
void gli_session_accept(gli_tcp_service *service, int fd, bool refused);

/* Makes a session for a request of the serving process, without a connection or
 * an entry in `sessions`. Takes the request's memory. Returns NULL if out of
 * memory. */
gli_session *gli_session_own(gli_tcp_service *service, gli_frame *request,
                             gli_tcp_op op, uv_cond_t *answered);
void gli_session_own_free(gli_session *session);

/* Requests a check of the timers by `due_ns`. 0: no check. */
void gli_sessions_note_due(gli_tcp_service *service, uint64_t due_ns);

/* Ends the timers that are due. */
void gli_sessions_expire(gli_tcp_service *service, uint64_t now_ns);

/* Reads the requests that TLS has decrypted already. */
void gli_sessions_read_tls_pending(gli_tcp_service *service);

/* Frees the closed sessions, after executing the wills of lost clients. */
void gli_sessions_sweep(gli_tcp_service *service);

/* Closes the session; its memory stays until the sweep. Idempotent. */
void gli_session_close(gli_session *session);

/* Closes the session because of a fault of its client; logged. */
void gli_session_drop(gli_session *session, const char *why);

/* Sets a timer that ends the state of the session after `ns`. */
void gli_session_set_timer(gli_session *session, uint64_t ns);
void gli_session_stop_timer(gli_session *session);

/* Sends a reply. Takes the frame's memory. */
void gli_session_reply(gli_session *session, gli_frame *reply,
                       gloo_status status);
/* Sends a reply without a body, or with the error's message. */
void gli_session_reply_status(gli_session *session, gloo_status status,
                              const gloo_error *error);

/* Resumes a session that was queued for memory. */
void gli_session_go_on(gli_session *session);

/* Closes a session whose client has ended. Idempotent. */
void gli_session_lost(gli_session *session);

/* Sets the keys of the session's will. */
void gli_session_execute(gli_session *session);

/* Fills the error for a lack of resources in this process, which waiting ranks
 * report. */
void gli_tcp_service_lacks(const gli_tcp_service *service, gloo_error *error);

/* Reports the result of TLS, also a rejected certificate (tcp_hello.c). */
void gli_session_secured(gli_session *session);

/* Serve the first request, or the first two (tcp_hello.c). */
void gli_session_hello(gli_session *session, gli_body *body);
void gli_session_prove(gli_session *session, const gli_body *body);

/* Serves the complete request in `op` and `body`: replies, parks or drops. */
void gli_session_serve(gli_session *session);

/* Runs a queued FETCH, as if a key that it waits for existed now. */
void gli_session_fetch_again(gli_session *session);

/* Tells a parked session after its deadline which keys are missing. */
void gli_session_expire(gli_session *session);

/* Takes a session out of `waiting`. Idempotent. */
void gli_session_unpark(gli_session *session);

#endif
