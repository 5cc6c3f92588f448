/* Who connects to a TCP store's server, and how many of them there may be. With
 * the server's lock held. */
#ifndef GLI_RENDEZVOUS_TCP_STRANGERS_H
#define GLI_RENDEZVOUS_TCP_STRANGERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gloo_c/log.h"
#include "rendezvous/tcp_queue.h"

/* So many may not have said hello, and fewer where descriptors are scarce. A
 * new one is always taken: the oldest of them gives way to it. */
#define GLI_TCP_STRANGERS_MAX ((size_t)256)

typedef struct gli_tcp_service gli_tcp_service;

/* How many sessions a server has at most: 65,536, or half of the descriptors
 * that this process may open now, so that some are left for its own
 * connections. */
size_t gli_tcp_sessions_max(void);

/* It has connected. It has said hello, or is closed: idempotent. */
void gli_strangers_join(gli_session *session);
void gli_strangers_leave(gli_session *session);

/* Close the one that has waited longest with its hello. False: there is none.
 */
bool gli_strangers_give_way(gli_tcp_service *service);

/* Lines in the log about clients that are dropped or refused: so many warnings
 * in a minute, and one more that counts the rest, which are for debugging. */
#define GLI_TCP_LINES_MAX 10

typedef struct gli_tcp_lines {
  uint64_t until_ns; /* the end of that minute */
  int n;             /* warnings in it */
  uint64_t left_out;
} gli_tcp_lines;

/* Of the next such line; it is counted. */
gloo_log_level gli_strangers_level(gli_tcp_service *service);

/* Say how many were left out, if the minute is over. When to come again; 0: not
 * before there are more. */
uint64_t gli_strangers_tell_rest(gli_tcp_service *service, uint64_t now_ns);

#endif
