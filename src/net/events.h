/* Readiness of descriptors: a set of level-triggered watches. On Linux the set
 * is an epoll instance (events_epoll.c), elsewhere libuv's loop (events_uv.c).
 *
 * One thread at a time uses a set and its watches; any thread may sleep on
 * gli_events_fd. No function aborts the program: if the system refuses, the
 * watch reports an error. */
#ifndef GLI_NET_EVENTS_H
#define GLI_NET_EVENTS_H

#include <stdbool.h>

enum {
  GLI_READABLE = 1,
  GLI_WRITABLE = 2,
  /* The socket has an error, which the next read or getsockopt returns; data
   * that arrived before it can still be read. */
  GLI_BROKEN = 4,
  /* The system refused to watch for the events requested; `code` is the cause.
   * No other event is set with it. */
  GLI_UNWATCHED = 8
};

typedef struct gli_events gli_events;
typedef void (*gli_ready)(void *owner, int events);

/* A descriptor in a set. The owner allocates it, and only reads its fields. */
typedef struct gli_watch {
  gli_events *set;
  int fd;     /* -1 if closed */
  int events; /* requested events: GLI_READABLE, GLI_WRITABLE, both or 0 */
  int code;   /* errno, with GLI_UNWATCHED */
  gli_ready ready;
  void *owner;
  int known;                         /* events that the system watches for */
  struct gli_watch *changed, **link; /* set while `events` is not `known` */
  void *handle;
} gli_watch;

/* Opens a set. `touched` (may be NULL) is called with `user` after a change
 * that takes effect at the next poll. Returns NULL with errno. */
gli_events *gli_events_open(void (*touched)(void *user), void *user);

/* Closes a set whose watches are all closed. NULL is allowed. */
void gli_events_close(gli_events *set);

/* Detaches a forked child from the set that it shares with its parent: the
 * child may then close the descriptors of the set and its watches without
 * removing the parent's from it. Nothing else may be done with them. */
void gli_events_abandon(gli_events *set);

/* Returns a descriptor that is readable while a watched descriptor is ready. */
int gli_events_fd(const gli_events *set);

/* Calls `ready` of the watches that are ready, without waiting, and returns
 * their number; GLI_EVENTS_MAX or more if there may be others. A watch that is
 * closed in the meantime is not called. */
enum { GLI_EVENTS_MAX = 64 };
int gli_events_poll(gli_events *set);

/* Adds a watch without events. Returns false with errno, and leaves the
 * descriptor to the caller, on failure. */
bool gli_watch_init(gli_watch *watch, gli_events *set, int fd, gli_ready ready,
                    void *owner);

/* Sets the events to wait for, from the next poll on. */
void gli_watch_for(gli_watch *watch, int events);

/* Sets the events at once; libuv's loop also needs a poll (`touched`). Returns
 * false with errno, and leaves the watch unchanged, on failure. */
bool gli_watch_now(gli_watch *watch, int events);

/* Remove a watch from its set. It may be freed then, even from `ready`. */
int gli_watch_release(gli_watch *watch); /* returns the descriptor, open */
void gli_watch_close(gli_watch *watch);

#endif
