/* Queues of send requests, and copies of requests that outlive their sender. */
#ifndef GLI_TRANSPORT_REQUEST_H
#define GLI_TRANSPORT_REQUEST_H

#include "transport/transport.h"

/* `tail` is valid only while `head` is not NULL. */
typedef struct gli_request_queue {
  gli_send_request *head, *tail;
} gli_request_queue;

static inline void gli_request_push(gli_request_queue *queue,
                                    gli_send_request *request) {
  request->next = NULL;
  if (queue->head == NULL)
    queue->head = request;
  else
    queue->tail->next = request;
  queue->tail = request;
}

/* Puts a request back at the front, where gli_request_pop took it from. */
static inline void gli_request_push_front(gli_request_queue *queue,
                                          gli_send_request *request) {
  request->next = queue->head;
  if (queue->head == NULL) queue->tail = request;
  queue->head = request;
}

/* Returns NULL if the queue is empty. */
static inline gli_send_request *gli_request_pop(gli_request_queue *queue) {
  gli_send_request *head = queue->head;
  if (head != NULL) queue->head = head->next;
  return head;
}

/* Returns a copy of a request with its payload, whose first `begun` bytes are
 * no longer needed. To be released with free(). NULL if out of memory. */
gli_send_request *gli_request_copy(const gli_send_request *request,
                                   uint64_t begun);

/* Copies of one owner, in any queue. NULL: none. */
typedef struct gli_request_copy_entry *gli_request_copies;
/* Makes such a copy, which is in `copies` until these are freed. */
gli_send_request *gli_request_keep(gli_request_copies *copies,
                                   const gli_send_request *request,
                                   uint64_t begun);
void gli_request_copies_free(gli_request_copies *copies);

/* Frees all copies in a queue. */
void gli_request_free_all(gli_request_queue *queue);

#endif
