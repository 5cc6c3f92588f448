/* Connections to the server of a TCP store without a completed hello, and their
 * limit. The server's lock must be held. */
#ifndef GLI_RENDEZVOUS_STORE_TCP_TCP_STRANGERS_H
#define GLI_RENDEZVOUS_STORE_TCP_TCP_STRANGERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gloo_c/log.h"
#include "rendezvous/store/tcp/tcp_queue.h"

/* Maximum number of connections without a hello; lower if descriptors are
 * scarce. A new one is always accepted: the oldest makes room. */
#define GLI_TCP_STRANGERS_MAX ((size_t)256)

typedef struct gli_tcp_service gli_tcp_service;

/* Returns the maximum number of sessions: 65,536, or half of the process's
 * current limit on descriptors, which leaves some for its own connections. */
size_t gli_tcp_sessions_max(void);

/* Registers a connection, and removes one after its hello or its end
 * (idempotent). */
void gli_strangers_join(gli_session *session);
void gli_strangers_leave(gli_session *session);

/* Closes the connection that has waited longest for its hello. Returns false if
 * there is none. */
bool gli_strangers_give_way(gli_tcp_service *service);

/* Rate limit of log lines about dropped or refused clients: a number of
 * warnings per minute, and a final warning with the number of the other lines,
 * which have level debug. */
#define GLI_TCP_LINES_MAX 10

typedef struct gli_tcp_lines {
  uint64_t until_ns; /* end of the current minute */
  int n;             /* warnings in it */
  uint64_t left_out;
} gli_tcp_lines;

/* Returns the level of the next such line, and counts it. */
gloo_log_level gli_strangers_level(gli_tcp_service *service);

/* Logs the number of omitted lines when the minute has passed. Returns the time
 * of the next call, or 0 if none is needed. */
uint64_t gli_strangers_tell_rest(gli_tcp_service *service, uint64_t now_ns);

#endif
