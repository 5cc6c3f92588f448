/* Watches on Linux. The next poll passes changes to the kernel, so changes that
 * cancel each other cost nothing: senders often wait for room only briefly. */
#define _GNU_SOURCE
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/descriptor.h"
#include "net/events.h"

struct gli_events {
  int epoll; /* -1 if abandoned */
  void (*touched)(void *user);
  void *user;
  gli_watch *changed;
  int next, n; /* next event of the batch, and their number */
  struct epoll_event batch[GLI_EVENTS_MAX];
};

gli_events *gli_events_open(void (*touched)(void *user), void *user) {
  gli_events *set = calloc(1, sizeof *set);
  if (set == NULL) return NULL;
  set->touched = touched;
  set->user = user;
  set->epoll = gli_fd_keep(epoll_create1(EPOLL_CLOEXEC));
  if (set->epoll >= 0) return set;
  int code = errno;
  free(set);
  errno = code;
  return NULL;
}

void gli_events_abandon(gli_events *set) {
  gli_fd_close(set->epoll);
  set->epoll = -1;
}

void gli_events_close(gli_events *set) {
  if (set == NULL) return;
  gli_fd_close(set->epoll);
  free(set);
}

int gli_events_fd(const gli_events *set) {
  return set->epoll;
}

/* ---- changes ------------------------------------------------------------- */

static void events_epoll_enlist(gli_watch *watch) {
  if (watch->link != NULL) return;
  gli_watch **list = &watch->set->changed;
  watch->changed = *list;
  watch->link = list;
  if (watch->changed != NULL) watch->changed->link = &watch->changed;
  *list = watch;
}

static void events_epoll_unlist(gli_watch *watch) {
  if (watch->link == NULL) return;
  *watch->link = watch->changed;
  if (watch->changed != NULL) watch->changed->link = watch->link;
  watch->changed = NULL;
  watch->link = NULL;
}

/* Passes a change to epoll. Returns 0, or errno. */
static int events_epoll_tell(gli_watch *watch) {
  if (watch->known == watch->events) return 0;
  int operation = watch->known == 0    ? EPOLL_CTL_ADD
                  : watch->events == 0 ? EPOLL_CTL_DEL
                                       : EPOLL_CTL_MOD;
  struct epoll_event event = {.data.ptr = watch};
  if ((watch->events & GLI_READABLE) != 0) event.events |= EPOLLIN;
  if ((watch->events & GLI_WRITABLE) != 0) event.events |= EPOLLOUT;
  int epoll = watch->set->epoll;
  bool told = epoll_ctl(epoll, operation, watch->fd, &event) == 0;
  /* A failed removal is harmless: a watch without events is never called. */
  if (!told && operation != EPOLL_CTL_DEL) return errno;
  watch->known = watch->events;
  return 0;
}

/* Passes all changes to epoll, and returns the number of refusals. Changes that
 * callbacks make wait for the next poll: owners of refused watches may
 * retry. */
static int tell_all(gli_events *set) {
  int refused = 0;
  gli_watch *watch, *list = set->changed;
  set->changed = NULL;
  list->link = &list;
  while ((watch = list) != NULL) {
    events_epoll_unlist(watch);
    int code = events_epoll_tell(watch);
    if (code == 0) continue;
    refused++;
    watch->events = watch->known;
    watch->code = code;
    watch->ready(watch->owner, GLI_UNWATCHED);
  }
  return refused;
}

/* ---- watches ------------------------------------------------------------- */

bool gli_watch_init(gli_watch *watch, gli_events *set, int fd, gli_ready ready,
                    void *owner) {
  *watch = (gli_watch){.set = set, .fd = fd, .ready = ready, .owner = owner};
  return true;
}

void gli_watch_for(gli_watch *watch, int events) {
  if (watch->events == events) return;
  gli_events *set = watch->set;
  watch->events = events;
  events_epoll_enlist(watch);
  if (set->touched != NULL) set->touched(set->user);
}

bool gli_watch_now(gli_watch *watch, int events) {
  int before = watch->events;
  watch->events = events;
  int code = events_epoll_tell(watch);
  if (code == 0) {
    events_epoll_unlist(watch);
    return true;
  }
  watch->events = before;
  errno = code;
  return false;
}

/* Removes the descriptor explicitly even if it is closed next: if a forked
 * child has a copy, epoll would continue to watch it. */
int gli_watch_release(gli_watch *watch) {
  gli_events *set = watch->set;
  int fd = watch->fd;
  events_epoll_unlist(watch);
  if (watch->known != 0 && set->epoll >= 0)
    (void)epoll_ctl(set->epoll, EPOLL_CTL_DEL, fd, NULL);
  for (int i = set->next; i < set->n; i++)
    if (set->batch[i].data.ptr == watch) set->batch[i].data.ptr = NULL;
  watch->known = watch->events = 0;
  watch->fd = -1;
  return fd;
}

/* shutdown ends the connection even if a forked child has a copy. */
void gli_watch_close(gli_watch *watch) {
  if (watch->fd < 0) return;
  bool ours = watch->set->epoll >= 0;
  int fd = gli_watch_release(watch);
  if (ours) (void)shutdown(fd, SHUT_RDWR);
  close(fd);
}

/* ---- polling ------------------------------------------------------------- */

static int events_epoll_happened(const gli_watch *watch, uint32_t seen) {
  int events = 0;
  if ((seen & EPOLLIN) != 0) events |= GLI_READABLE;
  if ((seen & EPOLLOUT) != 0) events |= GLI_WRITABLE;
  events &= watch->events;
  if ((seen & EPOLLERR) != 0) return watch->events | GLI_BROKEN;
  /* Reading and writing both find the end: report what is waited for. */
  if ((seen & EPOLLHUP) != 0 && events == 0) return watch->events;
  return events;
}

int gli_events_poll(gli_events *set) {
  int found = set->changed != NULL ? tell_all(set) : 0;
  int n;
  do n = epoll_wait(set->epoll, set->batch, GLI_EVENTS_MAX, 0);
  while (n < 0 && errno == EINTR);
  if (n <= 0) return found;
  set->n = n;
  for (set->next = 0; set->next < n;) {
    const struct epoll_event *event = &set->batch[set->next++];
    gli_watch *watch = event->data.ptr;
    if (watch == NULL || watch->events == 0) continue;
    int events = events_epoll_happened(watch, event->events);
    if (events != 0) watch->ready(watch->owner, events);
  }
  set->next = set->n = 0;
  return found + n;
}
