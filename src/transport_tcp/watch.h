/* A socket and the eye on it (core/events.h), in memory of its own. It may
 * change hands: a connection begins as a half-open connection and becomes a
 * stream. */
#ifndef GLI_TRANSPORT_TCP_WATCH_H
#define GLI_TRANSPORT_TCP_WATCH_H

#include "core/events.h"

struct gli_tcp;

typedef gli_watch gli_tcp_watch;

/* Takes over fd, and closes it when there is no memory (NULL). */
gli_tcp_watch *gli_tcp_watch_new(struct gli_tcp *t, int fd, gli_ready ready,
                                 void *owner);
void gli_tcp_watch_give(gli_tcp_watch *watch, gli_ready ready, void *owner);
/* GLI_READABLE, GLI_WRITABLE, both or 0. */
void gli_tcp_watch_for(gli_tcp_watch *watch, int events);
/* Closes the socket too. */
void gli_tcp_watch_close(gli_tcp_watch *watch);
/* In a forked child: only this process's copy of the socket is closed. NULL is
 * allowed. */
void gli_tcp_watch_forked(gli_tcp_watch *watch);

#endif
