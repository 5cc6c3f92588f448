/* Readiness of descriptors: a set of watches, level-triggered. On Linux it is
 * an epoll (events_epoll.c), elsewhere libuv's loop (events_uv.c).
 *
 * One thread at a time uses a set and its watches; any thread may sleep on
 * gli_events_fd. No function ends the program: a refusal of the system is an
 * error of the watch. */
#ifndef GLI_NET_EVENTS_H
#define GLI_NET_EVENTS_H

#include <stdbool.h>

enum {
  GLI_READABLE = 1,
  GLI_WRITABLE = 2,
  /* The socket has an error, which the next read or getsockopt tells; what
   * arrived before it can still be read. */
  GLI_BROKEN = 4,
  /* Alone: the system does not watch it as was asked for. `code` says why. */
  GLI_UNWATCHED = 8
};

typedef struct gli_events gli_events;
typedef void (*gli_ready)(void *owner, int events);

/* A descriptor in a set. The owner keeps its memory; what is here is for
 * reading only. */
typedef struct gli_watch {
  gli_events *set;
  int fd;     /* -1: closed */
  int events; /* that are asked for: GLI_READABLE, GLI_WRITABLE, both or 0 */
  int code;   /* errno, with GLI_UNWATCHED */
  gli_ready ready;
  void *owner;
  int known;                         /* to the system: `events` or what was */
  struct gli_watch *changed, **link; /* while these differ */
  void *handle;
} gli_watch;

/* `touched` (may be NULL) is called with `user` when something was changed that
 * only the next poll tells the system. NULL with errno. */
gli_events *gli_events_open(void (*touched)(void *user), void *user);

/* All watches are closed. NULL is allowed. */
void gli_events_close(gli_events *set);

/* In the child of a fork: the descriptors of the set and its watches may be
 * closed without taking the parent's out of the system's set, which both have.
 * Nothing else may be done with them. */
void gli_events_abandon(gli_events *set);

/* Readable when a watched descriptor is ready. */
int gli_events_fd(const gli_events *set);

/* Call `ready` of the watches that are, without waiting; how many there were,
 * GLI_EVENTS_MAX or more if there may be others. A watch that is closed
 * meanwhile is not called any more. */
enum { GLI_EVENTS_MAX = 64 };
int gli_events_poll(gli_events *set);

/* Nothing is asked for at first. False with errno; the descriptor stays the
 * caller's then. */
bool gli_watch_init(gli_watch *watch, gli_events *set, int fd, gli_ready ready,
                    void *owner);

/* Sets the events to wait for, from the next poll on. */
void gli_watch_for(gli_watch *watch, int events);

/* Sets the events at once. Returns false with errno, and leaves the watch
 * unchanged, on failure. */
bool gli_watch_now(gli_watch *watch, int events);

/* Take it out of the set. The memory is free to go, from within `ready` too. */
int gli_watch_release(gli_watch *watch); /* the descriptor, open */
void gli_watch_close(gli_watch *watch);

#endif
