/* The memory that a server's clients may make it hold: one budget for all
 * requests that arrive, all that wait for keys, and all replies that are on
 * their way out, whoever sent them. With the server's lock held.
 *
 * A request takes memory as its bytes arrive, at most twice as much as did. A
 * session that asks for more than there is waits, unread, until others are
 * through; in turn, so that no small request passes a large one for ever. So
 * that sessions which all hold a part cannot wait for each other, the first of
 * them goes on beyond the budget, one at a time. What is small never waits: a
 * server whose budget is spent answers small requests as ever.
 *
 * Requests that wait for keys, and wills, may stay for ever. They have half of
 * the budget, and when that is spent the largest one is refused. */
#ifndef GLI_RENDEZVOUS_STORE_TCP_BUDGET_H
#define GLI_RENDEZVOUS_STORE_TCP_BUDGET_H

#include <stdbool.h>
#include <stddef.h>

#include "rendezvous/store/tcp_queue.h"

/* At most this is held, and two frames of the session that goes on beyond it,
 * and what is small: 64 MiB in all. */
#define GLI_TCP_BUDGET ((size_t)28 << 20)
#define GLI_TCP_BUDGET_KEPT (GLI_TCP_BUDGET / 2)
/* The size up to which a request, a reply or a will counts as small. */
#define GLI_TCP_BUDGET_SMALL ((size_t)4096)

typedef struct gli_tcp_service gli_tcp_service;

typedef struct gli_tcp_budget {
  size_t held;         /* bytes, of all sessions */
  size_t most;         /* ... that were ever held at a time */
  size_t kept;         /* ... of requests that wait for keys, and of wills */
  gli_tcp_queue queue; /* sessions that wait for room */
  gli_session *beyond; /* goes on whatever is held; NULL: none */
} gli_tcp_budget;

/* Holds the memory that is charged to a session, and what it waits for. */
typedef struct gli_tcp_share {
  size_t held, kept;
  size_t wants, granted;
  gli_tcp_place place;
} gli_tcp_share;

/* Count what the session holds, after that has changed. */
void gli_budget_count(gli_session *session);
/* Releases all that a session holds. */
void gli_budget_forget(gli_session *session);

/* May it take `more` bytes, for something of `size` bytes then? If not it is
 * GLI_SESSION_QUEUED: gli_session_go_on comes when there is room. */
bool gli_budget_ask(gli_session *session, size_t more, size_t size);

/* Ends the request of a session, or the session itself; others may continue.
 * Idempotent. */
void gli_budget_leave(gli_session *session);

/* Go on with those for which there is room now. False: there is for none. */
bool gli_budget_go_on(gli_tcp_service *service);

/* Marks a session as parked. This one, or another one, may be refused for it.
 */
void gli_budget_park(gli_session *session);

/* Returns true if a session may leave a will of this size. */
bool gli_budget_keeps_will(const gli_session *session, size_t bytes);

#endif
