/* Connections to the server of a TCP store without a completed hello, and their
 * limit. With the lock of the server held. */
#ifndef GLI_RENDEZVOUS_STORE_TCP_STRANGERS_H
#define GLI_RENDEZVOUS_STORE_TCP_STRANGERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gloo_c/log.h"
#include "rendezvous/store/tcp_queue.h"

/* The most connections without a hello; fewer where descriptors are scarce. A
 * new one is always accepted: the oldest makes room. */
#define GLI_TCP_STRANGERS_MAX ((size_t)256)

typedef struct gli_tcp_service gli_tcp_service;

/* How many sessions a server has at most: 65,536, or half of the descriptors
 * that this process may open now, so that some are left for its own
 * connections. */
size_t gli_tcp_sessions_max(void);

/* Registers a connection; removes one that has completed its hello or is closed
 * (idempotent). */
void gli_strangers_join(gli_session *session);
void gli_strangers_leave(gli_session *session);

/* Closes the connection that has waited longest for its hello. Returns false if
 * there is none. */
bool gli_strangers_give_way(gli_tcp_service *service);

/* Limits log lines about clients that are dropped or refused: a number of
 * warnings per minute, and a last one that counts the rest, which are logged at
 * level debug. */
#define GLI_TCP_LINES_MAX 10

typedef struct gli_tcp_lines {
  uint64_t until_ns; /* the end of that minute */
  int n;             /* warnings in it */
  uint64_t left_out;
} gli_tcp_lines;

/* Returns the level of the next such line, and counts it. */
gloo_log_level gli_strangers_level(gli_tcp_service *service);

/* Logs the number of omitted lines when the minute has passed. Returns when to
 * call it again; 0: not until there are more. */
uint64_t gli_strangers_tell_rest(gli_tcp_service *service, uint64_t now_ns);

#endif
