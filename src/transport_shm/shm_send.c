/* Sending, and closing a pair.
 *
 * When a pair is closed, its unsent messages are copied, so that the caller may
 * reuse its memory at once, and go into the ring while the pair lingers. With a
 * BYE these are all earlier messages; with an ABORT, a CUT replaces the rest of
 * a partly written message. Once everything is in the ring, and the peer has
 * mapped it, nothing remains to wait for: the memory lives as long as the peer
 * maps it. */
#include <stdlib.h>

#include "core/error.h"
#include "core/hints.h"
#include "transport_shm/shm.h"

/* Breaks the pair whose ring takes no further record. */
static void shm_send_broken(gli_shm_pair *pair) {
  if (pair->out.lack != 0) {
    gli_peer_fail_resource(&pair->peer, pair->out.lack);
    return;
  }
  gli_peer_break(&pair->peer, GLOO_ERR_PROTOCOL,
                 "rank %u corrupted the shared memory: its read position is "
                 "beyond the data written",
                 (unsigned)pair->peer.config.peer_rank);
}

static bool shm_send_put(gli_shm_pair *pair, gli_send_request *request) {
  uint32_t before = pair->out.next;
  bool (*put_in)(gli_shm_out *, gli_header *, const uint8_t *, uint64_t *) =
      pair->peer.checked ? gli_shm_put_checked : gli_shm_put;
  bool all = put_in(&pair->out, &request->header, request->payload,
                    &request->private_);
  if (pair->out.next != before && gli_shm_peer_sleeps(pair)) gli_shm_ring(pair);
  if (pair->out.broken) shm_send_broken(pair);
  return all;
}

/* Sends a message longer than its slot, or without room at first sight. */
GLI_APART static bool send_longer(gli_shm_pair *pair, gli_header *header,
                                  const void *payload) {
  if (!gli_shm_put_one(&pair->out, header, payload)) {
    if (pair->out.broken) shm_send_broken(pair);
    return false;
  }
  if (gli_shm_peer_sleeps(pair)) gli_shm_ring(pair);
  return true;
}

/* Returns true if the pair is connected: the peer gets what is in the ring. */
static inline bool is_open(const gli_shm_pair *pair) {
  static const gli_transport_peer open = {.live = true, .up = true},
                                  seen = {.live = true,
                                          .up = true,
                                          .departed = true};
  return (pair->peer.rx_state & seen.rx_state) == open.rx_state;
}

/* Sends a message before the peer has mapped the ring; it is then owed until
 * the connection is made. The same applies to post_early. */
GLI_COLD static bool send_early(gli_shm_pair *pair, gli_header *header,
                                const void *payload) {
  if (!pair->peer.live || pair->peer.departed || pair->queue.head != NULL)
    return false;
  if (!send_longer(pair, header, payload)) return false;
  gli_shm_update_undelivered(pair);
  return true;
}

bool gli_shm_send_now(gli_pair *base, gli_header *header, const void *payload) {
  gli_shm_pair *pair = (gli_shm_pair *)base;
  if (!is_open(pair)) return send_early(pair, header, payload);
  if (pair->queue.head != NULL) return false;
  if (!gli_shm_put_short(&pair->out, header, payload))
    return send_longer(pair, header, payload);
  if (gli_shm_peer_sleeps(pair)) gli_shm_ring(pair);
  return true;
}

static void await_room(gli_shm_pair *pair) {
  if (atomic_load_explicit(&pair->waiting, memory_order_relaxed)) return;
  atomic_store(&pair->out.memory->wants, 1);
  atomic_store(&pair->waiting, true);
  /* The receiver may have made room before it could see `wants`. It then does
   * not ring, and a thread that already sleeps does not watch for room. */
  if (gli_shm_room_made(&pair->out)) gli_peers_touch(&pair->t->peers);
}

static inline gli_post shm_send_post(gli_shm_pair *pair,
                                     gli_send_request *request) {
  if (pair->queue.head == NULL && shm_send_put(pair, request))
    return GLI_POST_DONE;
  gli_request_push(&pair->queue, request);
  await_room(pair);
  return GLI_POST_IN_PROGRESS;
}

GLI_COLD static gli_post post_early(gli_shm_pair *pair,
                                    gli_send_request *request) {
  if (pair->peer.departed) return GLI_POST_DONE;
  if (!pair->peer.live) return GLI_POST_IN_PROGRESS;
  gli_post posted = shm_send_post(pair, request);
  gli_shm_update_undelivered(pair);
  return posted;
}

gli_post gli_shm_send(gli_pair *base, gli_send_request *request) {
  gli_shm_pair *pair = (gli_shm_pair *)base;
  request->private_ = 0;
  return is_open(pair) ? shm_send_post(pair, request)
                       : post_early(pair, request);
}

static void all_sent(gli_shm_pair *pair) {
  atomic_store_explicit(&pair->waiting, false, memory_order_relaxed);
  atomic_store_explicit(&pair->out.memory->wants, 0, memory_order_relaxed);
}

/* Completes the request at the head of the queue. */
static void shm_send_finish(gli_shm_pair *pair) {
  gli_send_request *request = gli_request_pop(&pair->queue);
  if (pair->peer.closed) {
    free(request);
    return;
  }
  if (pair->queue.head == NULL) all_sent(pair);
  pair->t->peers.upcalls->sent(pair->peer.config.user, request);
}

int gli_shm_flush(gli_shm_pair *pair) {
  int done = 0;
  if (pair->peer.cut) {
    if (!gli_shm_put_cut(&pair->out)) return 0;
    pair->peer.cut = false;
  }
  while (pair->queue.head != NULL && (pair->peer.live || pair->peer.closed)) {
    /* A departed peer reads nothing more. */
    if (!pair->peer.departed && !shm_send_put(pair, pair->queue.head)) break;
    shm_send_finish(pair);
    done++;
  }
  return done;
}

/* ---- closing ------------------------------------------------------------- */

/* Returns a copy of the unsent part of a request, or NULL if out of memory. */
static gli_send_request *shm_copy_request(const gli_send_request *from) {
  return gli_request_copy(from, from->private_ > 0 ? from->private_ - 1 : 0);
}

/* Replaces the caller's requests by copies. Returns false if out of memory; the
 * queue then holds only copies, too. */
static bool shm_own_queue(gli_shm_pair *pair) {
  gli_send_request *request = pair->queue.head;
  pair->queue = (gli_request_queue){NULL, NULL};
  for (; request != NULL; request = request->next) {
    gli_send_request *copy = shm_copy_request(request);
    if (copy == NULL) return false;
    gli_request_push(&pair->queue, copy);
  }
  return true;
}

static void shm_drop_queue(gli_shm_pair *pair) {
  const gli_send_request *head = pair->queue.head;
  pair->peer.cut = head != NULL && head->private_ > 0;
  pair->queue = (gli_request_queue){NULL, NULL};
}

/* Returns true if the peer does not know this pair, and only gets a BYE. */
static bool shm_never_spoke(const gli_shm_pair *pair, bool bye) {
  return bye && !pair->peer.greeted && pair->out.next == 0 &&
         pair->queue.head == NULL;
}

static bool shm_worth_lingering(gli_shm_pair *pair,
                                const gli_send_request *last) {
  bool bye = last != NULL && last->header.type == GLI_MESSAGE_BYE;
  if (pair->peer.broken || pair->peer.departed || last == NULL ||
      shm_never_spoke(pair, bye)) {
    pair->queue = (gli_request_queue){NULL, NULL};
    return false;
  }
  if (!bye) shm_drop_queue(pair);
  if (bye && !shm_own_queue(pair)) return false;
  gli_send_request *farewell = shm_copy_request(last);
  if (farewell == NULL) return false;
  farewell->private_ = 0;
  gli_request_push(&pair->queue, farewell);
  return true;
}

void gli_shm_pair_close(gli_pair *base, const gli_send_request *last) {
  gli_shm_pair *pair = (gli_shm_pair *)base;
  gli_shm *t = pair->t;
  gli_peer_leave(&pair->peer);
  gli_shm_update_undelivered(pair);
  gli_shm_revoke(&pair->out);
  if (shm_worth_lingering(pair, last)) {
    uint64_t now_ns = uv_hrtime();
    pair->peer.linger_until_ns = now_ns + (uint64_t)GLI_LINGER_NS;
    gli_peers_schedule(&t->peers, pair->peer.linger_until_ns);
    (void)gli_shm_flush(pair);
    if (pair->queue.head != NULL) await_room(pair);
    gli_shm_linger_check(pair, now_ns);
  } else {
    gli_shm_pair_dispose(pair);
  }
  if (!t->peers.in_poll) gli_shm_free_garbage(t);
}

void gli_shm_linger_check(gli_shm_pair *pair, uint64_t now_ns) {
  bool delivered = pair->state == GLI_SHM_UP && pair->queue.head == NULL;
  if (!delivered && !pair->peer.peer_closed &&
      now_ns < pair->peer.linger_until_ns)
    return;
  gli_shm_pair_dispose(pair);
}

bool gli_shm_lingering(const gli_shm *t) {
  return t->peers.leaving != NULL;
}
