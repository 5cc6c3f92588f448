/* The memory budget of a server's clients: one limit for the requests that
 * arrive, the requests that wait for keys, and the pending replies of all
 * sessions. With the server's lock held.
 *
 * A request takes memory as its bytes arrive, at most twice their number. A
 * session that asks for more than is left waits, unread, until others finish,
 * first come first served, so that small requests cannot starve a large one. To
 * prevent a deadlock of sessions that all hold a part, the first of them may
 * exceed the budget, one at a time. Small requests never wait: a server whose
 * budget is used up still answers them.
 *
 * Requests that wait for keys, and wills, may stay for any time. They have half
 * of the budget; beyond that the largest one is refused. */
#ifndef GLI_RENDEZVOUS_STORE_TCP_TCP_BUDGET_H
#define GLI_RENDEZVOUS_STORE_TCP_TCP_BUDGET_H

#include <stdbool.h>
#include <stddef.h>

#include "rendezvous/store/tcp/tcp_queue.h"

/* Memory limit. Two frames of the session that may exceed it, and small
 * requests, come on top: 64 MiB in all. */
#define GLI_TCP_BUDGET ((size_t)28 << 20)
#define GLI_TCP_BUDGET_KEPT (GLI_TCP_BUDGET / 2)
/* Size up to which a request, a reply or a will counts as small. */
#define GLI_TCP_BUDGET_SMALL ((size_t)4096)

typedef struct gli_tcp_service gli_tcp_service;

typedef struct gli_tcp_budget {
  size_t held;         /* bytes of all sessions */
  size_t most;         /* maximum of `held` so far */
  size_t kept;         /* part of `held`: waiting requests and wills */
  gli_tcp_queue queue; /* sessions that wait for room */
  gli_session *beyond; /* the session beyond the budget, or NULL */
} gli_tcp_budget;

/* The memory that is charged to a session, and the amount that it waits for. */
typedef struct gli_tcp_share {
  size_t held, kept;
  size_t wants, granted;
  gli_tcp_place place;
} gli_tcp_share;

/* Recounts the session's memory after a change. */
void gli_budget_count(gli_session *session);
/* Releases all that a session holds. */
void gli_budget_forget(gli_session *session);

/* Returns true if the session may take `more` bytes, for something that then
 * has `size` bytes. Otherwise it becomes GLI_SESSION_QUEUED, and
 * gli_session_go_on is called when there is room. */
bool gli_budget_ask(gli_session *session, size_t more, size_t size);

/* Ends the request of a session, or the session itself; others may continue.
 * Idempotent. */
void gli_budget_leave(gli_session *session);

/* Resumes queued sessions as far as there is room. Returns false if it resumed
 * none. */
bool gli_budget_go_on(gli_tcp_service *service);

/* Marks a session as parked. To make room, it or another one may be refused. */
void gli_budget_park(gli_session *session);

/* Returns true if a session may leave a will of this size. */
bool gli_budget_keeps_will(const gli_session *session, size_t bytes);

#endif
