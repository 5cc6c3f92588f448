/* A socket and the loop's eye on it. It may change hands: a connection begins
 * as a guest and becomes a stream. */
#ifndef GLI_TRANSPORT_TCP_WATCH_H
#define GLI_TRANSPORT_TCP_WATCH_H

#include <stdbool.h>
#include <uv.h>

struct gli_tcp;

/* `broken`: the socket has an error, which the next read or getsockopt tells;
 * what arrived before it can still be read. */
typedef void (*gli_tcp_ready)(void *owner, int events, bool broken);

typedef struct gli_tcp_watch {
  uv_poll_t poll;
  struct gli_tcp *t;
  int fd; /* -1: closed */
  int events;
  gli_tcp_ready ready;
  void *owner;
} gli_tcp_watch;

/* Takes over fd, and closes it when there is no memory (NULL). */
gli_tcp_watch *gli_tcp_watch_new(struct gli_tcp *t, int fd, gli_tcp_ready ready,
                                 void *owner);
void gli_tcp_watch_give(gli_tcp_watch *watch, gli_tcp_ready ready, void *owner);
/* UV_READABLE, UV_WRITABLE, both or 0. */
void gli_tcp_watch_for(gli_tcp_watch *watch, int events);
/* Closes the socket too; the memory goes when the loop lets go of it. */
void gli_tcp_watch_close(gli_tcp_watch *watch);
/* In a forked child: only this process's copy of the socket is closed. NULL is
 * allowed. */
void gli_tcp_watch_forked(gli_tcp_watch *watch);

#endif
