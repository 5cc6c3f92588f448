/* Messages of the in-process transport: sending, and a side in poll. */
#include <stdlib.h>

#include "core/error.h"
#include "kernels/copy.h"
#include "transport/sink.h"
#include "transport_inproc/inproc.h"

typedef struct node {
  gli_send_request request;
  uint8_t bytes[GLI_INPROC_INLINE_BYTES];
} node;

/* ---- sending ------------------------------------------------------------- */

/* Returns a node for a message to `to`, or NULL to queue the request itself. */
static gli_send_request *take_node(gli_inproc_side *to) {
  gli_send_request *m = to->spare;
  if (m != NULL) {
    to->spare = m->next;
    return m;
  }
  if (to->nodes == GLI_INPROC_NODES_MAX) return NULL;
  node *fresh = malloc(sizeof *fresh);
  if (fresh == NULL) return NULL;
  to->nodes++;
  fresh->request.private_ = GLI_INPROC_POOLED;
  fresh->request.payload = fresh->bytes;
  return &fresh->request;
}

static gli_post inproc_message_post(gli_inproc_side *peer,
                                    gli_send_request *request) {
  uint64_t bytes = request->header.length;
  gli_send_request *m = NULL;
  if (bytes <= GLI_INPROC_INLINE_BYTES) m = take_node(peer);
  if (m == NULL) {
    request->private_ = GLI_INPROC_BORROWED;
    gli_request_push(&peer->queue, request);
    return GLI_POST_IN_PROGRESS;
  }
  m->header = request->header;
  if (bytes > 0) {
    gli_copy_bytes(((node *)m)->bytes, request->payload, (size_t)bytes);
  }
  gli_request_push(&peer->queue, m);
  return GLI_POST_DONE;
}

gli_post gli_inproc_send(gli_pair *pair, gli_send_request *request) {
  gli_inproc_side *side = (gli_inproc_side *)pair;
  gli_inproc_side *peer = gli_inproc_other_side(side);
  gli_post result;
  uv_mutex_lock(&side->link->lock);
  if (side->failure != GLI_INPROC_NO_FAILURE) {
    result = GLI_POST_IN_PROGRESS; /* poll calls `failed`, or has done so */
  } else if (peer->closed) {
    result = GLI_POST_DONE; /* after BYE or ABORT the peer reads nothing */
  } else {
    result = inproc_message_post(peer, request);
    gli_inproc_mark_ready(peer);
  }
  uv_mutex_unlock(&side->link->lock);
  return result;
}

/* ---- receiving ----------------------------------------------------------- */

static void inproc_message_stop(gli_inproc_side *side) {
  uv_mutex_lock(&side->link->lock);
  side->stopped = true;
  uv_mutex_unlock(&side->link->lock);
}

/* Recycles or frees a message that is off the queue and not the engine's. The
 * link's lock is held. */
static void inproc_message_recycle(gli_inproc_side *side, gli_send_request *m) {
  if (m->private_ == GLI_INPROC_POOLED) {
    m->next = side->spare;
    side->spare = m;
  } else {
    free(m);
  }
}

static void inproc_message_absorb(const gli_sink *sink, const void *payload,
                                  uint64_t bytes) {
  if (bytes > 0) gli_sink_place(sink, 0, payload, (size_t)bytes);
}

/* Reads the request of the sender's engine in place. Returns false if the
 * sender has closed since the header upcall: the head of the queue is then a
 * copy, or `failure` is set. */
static bool absorb_borrowed(gli_inproc_side *side, const gli_sink *sink) {
  gli_inproc_link *link = side->link;
  gli_inproc_side *peer = gli_inproc_other_side(side);
  uv_mutex_lock(&link->lock);
  gli_send_request *m = side->queue.head;
  bool there = side->failure == GLI_INPROC_NO_FAILURE &&
               m->private_ == GLI_INPROC_BORROWED;
  if (there) {
    side->reading = true;
    uv_mutex_unlock(&link->lock);
    inproc_message_absorb(sink, m->payload, m->header.length);
    uv_mutex_lock(&link->lock);
    side->reading = false;
    gli_request_pop(&side->queue);
    if (peer->closed) {
      uv_cond_signal(&link->read);
    } else {
      gli_request_push(&peer->done, m);
      gli_inproc_mark_ready(peer);
    }
  }
  side->begun = false;
  uv_mutex_unlock(&link->lock);
  return there;
}

/* Returns the next message for a header upcall. Own nodes leave the queue; a
 * borrowed request stays at its head until it has been read. `*used` is the
 * previous node, which is recycled. */
static gli_send_request *take_message(gli_inproc_side *side,
                                      gli_send_request **used,
                                      gli_header *header) {
  uv_mutex_lock(&side->link->lock);
  if (*used != NULL) inproc_message_recycle(side, *used);
  *used = NULL;
  gli_send_request *m = side->closed ? NULL : side->queue.head;
  if (m != NULL) {
    *header = m->header;
    if (m->private_ == GLI_INPROC_BORROWED) {
      side->begun = true;
    } else {
      *used = gli_request_pop(&side->queue);
    }
  }
  uv_mutex_unlock(&side->link->lock);
  return m;
}

/* Takes the copy that replaced a borrowed request between its header and its
 * payload. Returns NULL if the connection failed instead. */
static gli_send_request *take_copy(gli_inproc_side *side) {
  uv_mutex_lock(&side->link->lock);
  gli_send_request *m = NULL;
  if (side->failure == GLI_INPROC_NO_FAILURE) {
    m = gli_request_pop(&side->queue);
  }
  uv_mutex_unlock(&side->link->lock);
  return m;
}

/* Delivers one message. Returns false if there was none, or no more follow. */
static bool receive_one(gli_inproc_side *side, gli_send_request **used) {
  const gli_upcalls *up = &side->endpoint->upcalls;
  gli_header header;
  if (take_message(side, used, &header) == NULL) return false;

  gli_sink sink = {0};
  gloo_status status = up->header(side->user, &header, &sink);
  if (side->closed) return false;
  if (status != GLOO_OK) {
    inproc_message_stop(side);
    return false;
  }
  if (*used == NULL && !absorb_borrowed(side, &sink)) {
    *used = take_copy(side);
    if (*used == NULL) return false;
  }
  if (*used != NULL)
    inproc_message_absorb(&sink, (*used)->payload, header.length);
  up->received(side->user, sink.token);
  return !side->closed;
}

static int inproc_message_receive(gli_inproc_side *side) {
  gli_inproc_link *link = side->link;
  gli_send_request *used = NULL;
  int n = 0;
  while (n < GLI_INPROC_MESSAGES_PER_POLL && receive_one(side, &used)) n++;
  uv_mutex_lock(&link->lock);
  if (used != NULL) inproc_message_recycle(side, used);
  bool more = side->queue.head != NULL && !side->closed && !side->stopped;
  if (more) gli_inproc_mark_ready(side);
  uv_mutex_unlock(&link->lock);
  return n;
}

/* ---- processing of a side ------------------------------------------------ */

/* Handles an offer: asks the engine to open the side, or refuses. */
static int inproc_message_greet(gli_inproc_side *side) {
  gli_inproc_endpoint *e = side->endpoint;
  gli_inproc_link *link = side->link;
  gli_inproc_table_lock();
  bool offered = link->offered;
  gli_inproc_table_unlock();
  if (!offered) return 0;

  uint32_t peer_rank = gli_inproc_other_side(side)->rank;
  gli_pair *pair = e->upcalls.accept(e->device_user, side->key, peer_rank);
  gli_inproc_table_lock();
  bool later = link->offered && pair == GLI_PAIR_LATER;
  if (later) {
    uv_mutex_lock(&link->lock);
    gli_inproc_mark_ready(side);
    uv_mutex_unlock(&link->lock);
    uv_mutex_lock(&e->lock);
    e->n_later++;
    uv_mutex_unlock(&e->lock);
  } else if (link->offered) {
    gli_inproc_link **at = &e->offers;
    while (*at != link) at = &(*at)->offer_next;
    *at = link->offer_next;
    gli_inproc_link_refuse(link, GLI_INPROC_REFUSED);
  }
  gli_inproc_table_unlock();
  return !later;
}

static int inproc_message_complete(gli_inproc_side *side) {
  uv_mutex_lock(&side->link->lock);
  gli_request_queue done = side->done;
  side->done = (gli_request_queue){NULL, NULL};
  uv_mutex_unlock(&side->link->lock);
  int n = 0;
  while (!side->closed && !side->stopped) {
    gli_send_request *m = gli_request_pop(&done);
    if (m == NULL) break;
    side->endpoint->upcalls.sent(side->user, m);
    n++;
  }
  return n;
}

static int report_failure(gli_inproc_side *side) {
  static const char *const texts[] = {
      [GLI_INPROC_FOREIGN] =
          "rank %u is not in this process, so the in-process "
          "transport cannot reach it; use tcp",
      [GLI_INPROC_ABSENT] = "rank %u has closed its in-process endpoint",
      [GLI_INPROC_REFUSED] =
          "rank %u rejected the connection: this rank is not in any of its "
          "contexts",
      [GLI_INPROC_DROPPED] = "rank %u closed the connection unexpectedly",
      [GLI_INPROC_EXHAUSTED] =
          "rank %u left, and its last messages were lost: out of memory",
  };
  uv_mutex_lock(&side->link->lock);
  gli_inproc_failure failure = side->failure;
  bool report =
      failure != GLI_INPROC_NO_FAILURE && !side->closed && !side->stopped;
  if (report) side->stopped = true;
  uv_mutex_unlock(&side->link->lock);
  if (!report) return 0;

  uint32_t rank = gli_inproc_other_side(side)->rank;
  gloo_error cause;
  gli_fail(&cause, GLOO_ERR_PEER, (int)rank, texts[failure], (unsigned)rank);
  side->endpoint->upcalls.failed(side->user, &cause);
  return 1;
}

int gli_inproc_side_poll(gli_inproc_side *side) {
  int events = 0;
  if (!side->attached && !side->closed) events += inproc_message_greet(side);
  if (!side->attached || side->closed) return events;
  events += inproc_message_complete(side);
  if (side->closed || side->stopped) return events;
  events += inproc_message_receive(side);
  if (side->closed || side->stopped) return events;
  return events + report_failure(side);
}
