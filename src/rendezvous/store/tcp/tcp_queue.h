/* A queue of sessions, in order of arrival. */
#ifndef GLI_RENDEZVOUS_STORE_TCP_TCP_QUEUE_H
#define GLI_RENDEZVOUS_STORE_TCP_TCP_QUEUE_H

#include <stddef.h>

typedef struct gli_session gli_session;

/* A session's entry in one queue. */
typedef struct gli_tcp_place {
  gli_session *session; /* NULL if it is in no queue */
  struct gli_tcp_place *before, *next;
} gli_tcp_place;

/* Zero initialisation makes an empty queue. */
typedef struct gli_tcp_queue {
  gli_tcp_place *first, *last;
  size_t n;
} gli_tcp_queue;

static inline void gli_tcp_queue_append(gli_tcp_queue *queue,
                                        gli_tcp_place *place,
                                        gli_session *session) {
  *place = (gli_tcp_place){session, queue->last, NULL};
  if (queue->last != NULL) {
    queue->last->next = place;
  } else {
    queue->first = place;
  }
  queue->last = place;
  queue->n++;
}

/* Removes an entry. Idempotent. */
static inline void gli_tcp_queue_remove(gli_tcp_queue *queue,
                                        gli_tcp_place *place) {
  if (place->session == NULL) return;
  if (place->before != NULL) {
    place->before->next = place->next;
  } else {
    queue->first = place->next;
  }
  if (place->next != NULL) {
    place->next->before = place->before;
  } else {
    queue->last = place->before;
  }
  *place = (gli_tcp_place){NULL, NULL, NULL};
  queue->n--;
}

/* Returns the first session, or NULL if the queue is empty. */
static inline gli_session *gli_tcp_queue_first(const gli_tcp_queue *queue) {
  return queue->first != NULL ? queue->first->session : NULL;
}

#endif
