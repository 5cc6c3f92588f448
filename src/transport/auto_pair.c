/* Pairs of combined transports: the choice of a child, and the move to the
 * other. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/log.h"
#include "core/random.h"
#include "transport/auto.h"

static const char *const names[GLI_AUTO_CHILDREN] = {"shared memory", "TCP"};

static void auto_link_into(gli_auto_pair *pair, gli_auto_pair **list) {
  if (pair->link != NULL) {
    *pair->link = pair->next;
    if (pair->next != NULL) pair->next->link = pair->link;
  }
  pair->next = *list;
  pair->link = list;
  if (pair->next != NULL) pair->next->link = &pair->next;
  *list = pair;
}

/* ---- end of a pair ------------------------------------------------------- */

static void close_child(gli_auto_pair *pair, const gli_send_request *last) {
  if (pair->child == NULL) return;
  pair->t->count[pair->via]--;
  pair->child->ops->pair_close(pair->child, last);
  pair->child = NULL;
}

static void auto_forget_key(gli_auto_pair *pair) {
  pair->config.job_key = NULL;
  gli_wipe(pair->job_key, sizeof pair->job_key);
}

/* Ends a pair whose child has finished. */
static void auto_dispose(gli_auto_pair *pair) {
  gli_auto *t = pair->t;
  gli_request_copies_free(&pair->copies);
  pair->queue.head = pair->last = NULL;
  auto_forget_key(pair);
  gli_mark_undelivered(&t->base, &pair->base, false);
  auto_link_into(pair, &t->garbage);
}

void gli_auto_free_garbage(gli_auto *t) {
  while (t->garbage != NULL) {
    gli_auto_pair *pair = t->garbage;
    t->garbage = pair->next;
    free(pair);
  }
}

void gli_auto_free_pairs(gli_auto *t) {
  while (t->pairs != NULL) auto_dispose(t->pairs);
  while (t->trying != NULL) auto_dispose(t->trying);
  gli_auto_free_garbage(t);
}

/* ---- opening ------------------------------------------------------------- */

static gloo_status open_child(gli_auto_pair *pair, int via, gloo_error *error) {
  gli_auto *t = pair->t;
  gli_transport *child = t->child[via].t;
  gli_pair_config config = pair->config;
  config.address = pair->address[via];
  config.user = pair;
  gloo_status status =
      child->ops->pair_open(child, &config, &pair->child, error);
  if (status != GLOO_OK) return status;
  pair->via = via;
  pair->decided = via == GLI_AUTO_TCP;
  t->count[via]++;
  return GLOO_OK;
}

static void auto_tell(gli_auto_pair *pair, int via, const char *why) {
  (void)snprintf(pair->why, sizeof pair->why, "%.*s", GLI_WHY_BYTES - 1, why);
  gli_log(GLOO_LOG_INFO, "rank %u talks to rank %u through %s%s%s",
          (unsigned)pair->config.self_rank, (unsigned)pair->config.peer_rank,
          via == GLI_AUTO_TCP && pair->t->verbs ? "the network" : names[via],
          why[0] != '\0' ? ", not shared memory: " : "", why);
}

uint64_t gli_auto_heard(const gli_pair *base) {
  const gli_pair *child = ((const gli_auto_pair *)base)->child;
  return child != NULL ? child->ops->heard(child) : 0;
}

uint64_t gli_auto_heard_at(const gli_pair *base) {
  const gli_pair *child = ((const gli_auto_pair *)base)->child;
  return child != NULL && child->ops->heard_at != NULL
             ? child->ops->heard_at(child)
             : 0;
}

bool gli_auto_obstacle(const gli_pair *base, gli_obstacle *obstacle) {
  const gli_pair *child = ((const gli_auto_pair *)base)->child;
  return child != NULL && child->ops->obstacle != NULL &&
         child->ops->obstacle(child, obstacle);
}

bool gli_auto_shows_polls(const gli_pair *base) {
  const gli_auto_pair *pair = (const gli_auto_pair *)base;
  const gli_pair *child = pair->decided ? pair->child : NULL;
  return child != NULL && child->ops->shows_polls != NULL &&
         child->ops->shows_polls(child);
}

const char *gli_auto_route(const gli_pair *base, char why[GLI_WHY_BYTES]) {
  const gli_auto_pair *pair = (const gli_auto_pair *)base;
  if (!pair->decided || pair->child == NULL) return NULL;
  memcpy(why, pair->why, GLI_WHY_BYTES);
  const char *name = names[pair->via];
  char below[GLI_WHY_BYTES] = "";
  if (pair->child->ops->route != NULL)
    name = pair->child->ops->route(pair->child, below);
  else if (pair->via == GLI_AUTO_TCP)
    memcpy(below, pair->t->no_verbs, sizeof below);
  if (name != NULL && below[0] != '\0') {
    size_t used = strlen(why);
    (void)snprintf(why + used, GLI_WHY_BYTES - used, "%snot RDMA: %s",
                   used > 0 ? "; " : "", below);
  }
  return name;
}

/* Returns true if shared memory is worth trying; otherwise `why` has the
 * reason. */
static bool shares_memory(const gli_auto_pair *pair, char why[GLI_WHY_BYTES]) {
  const gli_auto *t = pair->t;
  const gli_transport *shm = t->child[GLI_AUTO_SHM].t;
  const gli_address *address = &pair->address[GLI_AUTO_SHM];
  const char *simple = NULL;
  if (shm == NULL)
    simple = t->absent.message;
  else if (address->bytes == 0)
    simple = "the other rank does not offer it";
  else if (!shm->ops->reachable(shm, address, why))
    return false;
  else if (t->opening_via == GLI_AUTO_TCP)
    simple = "the other rank cannot use it";
  if (simple == NULL) return true;
  size_t length = strlen(simple);
  if (length >= GLI_WHY_BYTES) length = GLI_WHY_BYTES - 1;
  memcpy(why, simple, length);
  why[length] = '\0';
  return false;
}

static gloo_status open_best(gli_auto_pair *pair, gloo_error *error) {
  char why[GLI_WHY_BYTES] = "";
  if (shares_memory(pair, why)) {
    if (open_child(pair, GLI_AUTO_SHM, error) == GLOO_OK) return GLOO_OK;
    memcpy(why, error->message, sizeof why - 1);
    why[sizeof why - 1] = '\0';
  }
  auto_tell(pair, GLI_AUTO_TCP, why);
  return open_child(pair, GLI_AUTO_TCP, error);
}

gloo_status gli_auto_pair_open(gli_transport *base,
                               const gli_pair_config *config, gli_pair **out,
                               gloo_error *error) {
  gli_auto *t = (gli_auto *)base;
  gli_auto_pair *pair = calloc(1, sizeof *pair);
  if (pair == NULL)
    return gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                    "no memory for a connection to rank %u",
                    (unsigned)config->peer_rank);
  pair->base.ops = &gli_transport_auto;
  pair->t = t;
  pair->config = *config;
  if (config->job_key != NULL) {
    memcpy(pair->job_key, config->job_key, sizeof pair->job_key);
    pair->config.job_key = pair->job_key;
  }
  gloo_error wrong;
  gloo_status status = GLOO_OK;
  if (!gli_auto_address_decode(&config->address, pair->address))
    status = gli_fail(&wrong, GLOO_ERR_ADDRESS, (int)config->peer_rank,
                      "rank %u published an invalid list of addresses; all "
                      "ranks must use the same transport",
                      (unsigned)config->peer_rank);
  if (status == GLOO_OK) status = open_best(pair, &wrong);
  if (status != GLOO_OK) {
    if (error != NULL) *error = wrong;
    auto_forget_key(pair);
    free(pair);
    return status;
  }
  auto_link_into(pair, pair->decided ? &t->pairs : &t->trying);
  *out = &pair->base;
  return GLOO_OK;
}

/* ---- deciding ------------------------------------------------------------ */

/* Passes waiting messages to the child. Returns false if it has no room for
 * all; a later poll offers the rest again. */
static bool auto_flush(gli_auto_pair *pair) {
  gli_request_queue *queue = &pair->queue;
  gli_send_request *request;
  while ((request = gli_request_pop(queue)) != NULL) {
    gli_post posted = pair->child->ops->send(pair->child, request);
    if (posted == GLI_POST_NO_ROOM) {
      gli_request_push_front(queue, request);
      return false;
    }
    if (posted == GLI_POST_DONE && !pair->closed)
      pair->t->upcalls->sent(pair->config.user, request);
  }
  return true;
}

/* Decides for the child: all messages go to it from now on, in order. While
 * some wait, the pair stays among those that are tried. A closed pair ends with
 * the last. */
static void auto_decide(gli_auto_pair *pair) {
  pair->decided = true;
  if (!auto_flush(pair) || pair->child == NULL) return;
  auto_link_into(pair, &pair->t->pairs);
  if (!pair->closed || pair->last == NULL) return;
  close_child(pair, pair->last);
  auto_dispose(pair);
}

/* Moves a pair from shared memory, which has not connected, to TCP. */
static void auto_move_to_tcp(gli_auto_pair *pair, const char *why) {
  gli_auto *t = pair->t;
  close_child(pair, NULL);
  auto_tell(pair, GLI_AUTO_TCP, why);
  gloo_error error;
  if (open_child(pair, GLI_AUTO_TCP, &error) == GLOO_OK) {
    auto_decide(pair);
    return;
  }
  pair->decided = true;
  pair->queue.head = NULL;
  if (pair->closed) {
    auto_dispose(pair);
    return;
  }
  if (error.rank < 0)
    error.rank = error.root_rank = (int)pair->config.self_rank;
  auto_link_into(pair, &t->pairs);
  t->upcalls->failed(pair->config.user, &error);
}

int gli_auto_decide(gli_auto *t) {
  int decided = 0;
  gli_auto_pair *next;
  for (gli_auto_pair *pair = t->trying; pair != NULL; pair = next) {
    next = pair->next;
    const gli_send_request *first = pair->queue.head;
    bool is_new = !pair->decided && pair->child->ops->pair_up(pair->child);
    if (is_new) auto_tell(pair, GLI_AUTO_SHM, "");
    if (is_new || pair->decided) auto_decide(pair);
    if (is_new || pair->queue.head != first) {
      decided++;
      next = t->trying; /* upcalls may have closed any pair */
    } else if (pair->closed) {
      gli_transport *tcp = t->child[GLI_AUTO_TCP].t;
      if (tcp->ops->now_ns(tcp) < pair->linger_until_ns) continue;
      close_child(pair, NULL);
      auto_dispose(pair);
    }
  }
  return decided;
}

/* ---- upcalls ------------------------------------------------------------- */

static gloo_status auto_on_header(void *pair_user, const gli_header *header,
                                  gli_sink *sink) {
  gli_auto_pair *pair = pair_user;
  if (pair->closed) return GLOO_ERR_CANCELLED;
  return pair->t->upcalls->header(pair->config.user, header, sink);
}

static gloo_status auto_on_message(void *pair_user, const gli_header *header,
                                   const void *payload, bool *taken) {
  gli_auto_pair *pair = pair_user;
  const gli_upcalls *upcalls = pair->t->upcalls;
  if (pair->closed) return GLOO_ERR_CANCELLED;
  if (upcalls->message == NULL) return GLOO_OK;
  return upcalls->message(pair->config.user, header, payload, taken);
}

static void auto_on_received(void *pair_user, void *token) {
  gli_auto_pair *pair = pair_user;
  pair->t->upcalls->received(pair->config.user, token);
}

static void auto_on_sent(void *pair_user, gli_send_request *request) {
  gli_auto_pair *pair = pair_user;
  if (!pair->closed) pair->t->upcalls->sent(pair->config.user, request);
}

static void auto_on_failed(void *pair_user, const gloo_error *cause) {
  gli_auto_pair *pair = pair_user;
  bool ours = cause->rank == (int)pair->config.self_rank;
  if (!pair->decided && (ours || cause->status == GLOO_ERR_UNSUPPORTED)) {
    auto_move_to_tcp(pair, cause->message);
  } else if (pair->closed) {
    close_child(pair, NULL);
    auto_dispose(pair);
  } else {
    pair->decided = true;
    pair->queue.head = NULL;
    auto_link_into(pair, &pair->t->pairs);
    pair->t->upcalls->failed(pair->config.user, cause);
  }
}

/* Takes the peer of a pair, which connects through child `via`. */
static gli_pair *auto_meet(gli_auto_pair *pair, int via) {
  if (pair->via == GLI_AUTO_SHM && via == GLI_AUTO_TCP && !pair->decided) {
    gli_auto_pair *closing = pair->closed ? pair : NULL;
    gli_pair *child = NULL;
    auto_move_to_tcp(pair, "the other rank cannot use it");
    /* The child of a closed pair is independent now, and found by its keys. */
    if (closing == NULL) child = pair->child;
    return child != NULL ? child : GLI_PAIR_LATER;
  }
  if (pair->via != via || pair->child == NULL) return GLI_PAIR_ELSEWHERE;
  return pair->child;
}

/* Returns a pair that is closed here and still delivering. Its engine no longer
 * knows it. */
static gli_auto_pair *auto_find_closed(const gli_auto *t, uint64_t key,
                                       uint32_t peer_rank) {
  for (gli_auto_pair *pair = t->trying; pair != NULL; pair = pair->next) {
    if (!pair->closed || pair->config.local_key != key) continue;
    if (pair->config.peer_rank == peer_rank) return pair;
  }
  return NULL;
}

static bool auto_on_expect(void *device_user, uint64_t key, uint32_t peer_rank,
                           gli_pair_config *config) {
  const gli_auto *t = ((const gli_auto_child *)device_user)->parent;
  const gli_auto_pair *closed = auto_find_closed(t, key, peer_rank);
  if (closed != NULL) *config = closed->config;
  return closed != NULL ||
         (t->upcalls->expect != NULL &&
          t->upcalls->expect(t->device_user, key, peer_rank, config));
}

static gli_pair *auto_on_accept(void *device_user, uint64_t key,
                                uint32_t peer_rank) {
  gli_auto_child *child = device_user;
  gli_auto *t = child->parent;
  int via = (int)(child - t->child);
  gli_auto_pair *closed = auto_find_closed(t, key, peer_rank);
  if (closed != NULL) return auto_meet(closed, via);
  t->opening_via = via;
  gli_pair *found = t->upcalls->accept(t->device_user, key, peer_rank);
  t->opening_via = GLI_AUTO_ANY;
  if (found == NULL || found == GLI_PAIR_LATER || found == GLI_PAIR_ELSEWHERE)
    return found;
  return auto_meet((gli_auto_pair *)found, via);
}

static void auto_on_rma_done(void *pair_user, gli_rma_work *work) {
  gli_auto_pair *pair = pair_user;
  if (!pair->closed) pair->t->upcalls->rma_done(pair->config.user, work);
}

const gli_upcalls gli_auto_upcalls = {
    .header = auto_on_header,
    .received = auto_on_received,
    .message = auto_on_message,
    .sent = auto_on_sent,
    .rma_done = auto_on_rma_done,
    .failed = auto_on_failed,
    .accept = auto_on_accept,
    .expect = auto_on_expect,
};

/* ---- messages ------------------------------------------------------------ */

/* Returns true if no earlier message waits here. */
static inline bool auto_passes(const gli_auto_pair *pair) {
  return pair->decided && pair->queue.head == NULL && pair->child != NULL;
}

gli_post gli_auto_send(gli_pair *base, gli_send_request *request) {
  gli_auto_pair *pair = (gli_auto_pair *)base;
  if (auto_passes(pair)) return pair->child->ops->send(pair->child, request);
  if (pair->child != NULL) gli_request_push(&pair->queue, request);
  return GLI_POST_IN_PROGRESS;
}

bool gli_auto_send_now(gli_pair *base, gli_header *header,
                       const void *payload) {
  gli_auto_pair *pair = (gli_auto_pair *)base;
  if (!auto_passes(pair)) return false;
  const gli_transport_ops *ops = pair->child->ops;
  return ops->send_now != NULL && ops->send_now(pair->child, header, payload);
}

bool gli_auto_take_now(gli_pair *base, const gli_header *expected,
                       gli_taken *taken) {
  gli_auto_pair *pair = (gli_auto_pair *)base;
  if (!pair->decided || pair->child == NULL) return false;
  const gli_transport_ops *ops = pair->child->ops;
  return ops->take_now != NULL && ops->take_now(pair->child, expected, taken);
}

/* ---- rkeys --------------------------------------------------------------- */

static gli_pair *sharing_child(gli_pair *base) {
  gli_pair *child = ((gli_auto_pair *)base)->child;
  return child != NULL && child->ops->rkey_pack != NULL ? child : NULL;
}

static gloo_status shares_nothing(gli_pair *base, gloo_error *error) {
  unsigned rank = (unsigned)((gli_auto_pair *)base)->config.peer_rank;
  return gli_fail(
      error, GLOO_ERR_PROTOCOL, (int)rank,
      "rank %u referred to shared memory, but shares none with this rank",
      rank);
}

bool gli_auto_rkey_pack(gli_pair *base, const void *memory, size_t bytes,
                        gli_access access, uint64_t *rkey) {
  gli_pair *child = sharing_child(base);
  return ((gli_auto_pair *)base)->decided && child != NULL &&
         child->ops->rkey_pack(child, memory, bytes, access, rkey);
}

gloo_status gli_auto_rkey_map(gli_pair *base, uint64_t rkey, size_t bytes,
                              bool write, void **memory, gloo_error *error) {
  gli_pair *child = sharing_child(base);
  if (child == NULL) return shares_nothing(base, error);
  return child->ops->rkey_map(child, rkey, bytes, write, memory, error);
}

gloo_status gli_auto_rkey_get(gli_pair *base, uint64_t rkey, void *dst,
                              size_t bytes, gloo_error *error) {
  gli_pair *child = sharing_child(base);
  if (child == NULL) return shares_nothing(base, error);
  return child->ops->get(child, rkey, dst, bytes, error);
}

bool gli_auto_revoked(gli_pair *base) {
  gli_pair *child = sharing_child(base);
  return child == NULL || child->ops->revoked(child);
}

gli_exposure gli_auto_rma_expose(gli_pair *base, const void *memory,
                                 size_t bytes, uint64_t *remote,
                                 uint32_t *rkey) {
  const gli_auto_pair *pair = (gli_auto_pair *)base;
  gli_pair *child = pair->decided ? pair->child : NULL;
  if (child == NULL) return GLI_EXPOSES_LATER;
  return child->ops->rma_expose != NULL
             ? child->ops->rma_expose(child, memory, bytes, remote, rkey)
             : GLI_EXPOSES_NOT;
}

bool gli_auto_rma(gli_pair *base, gli_rma_work *work) {
  const gli_auto_pair *pair = (gli_auto_pair *)base;
  gli_pair *child = pair->decided ? pair->child : NULL;
  return child != NULL && child->ops->rma != NULL &&
         child->ops->rma(child, work);
}

gli_shared_copy *gli_auto_shared_copy(gli_pair *base, bool sends) {
  gli_pair *child = sharing_child(base);
  return child == NULL ? NULL : child->ops->shared_copy(child, sends);
}

/* ---- the end ------------------------------------------------------------- */

/* Copies all that is queued, and `last`. */
static bool auto_keep(gli_auto_pair *pair, const gli_send_request *last) {
  gli_send_request *request = pair->queue.head;
  pair->queue.head = NULL;
  for (; request != NULL; request = request->next) {
    gli_send_request *copy = gli_request_keep(&pair->copies, request, 0);
    if (copy == NULL) return false;
    gli_request_push(&pair->queue, copy);
  }
  pair->last = gli_request_keep(&pair->copies, last, 0);
  return pair->last != NULL;
}

void gli_auto_pair_close(gli_pair *base, const gli_send_request *last) {
  gli_auto_pair *pair = (gli_auto_pair *)base;
  gli_auto *t = pair->t;
  pair->closed = true;
  bool owes = pair->queue.head != NULL && last != NULL &&
              last->header.type == GLI_MESSAGE_BYE;
  if (owes && auto_keep(pair, last)) {
    gli_transport *tcp = t->child[GLI_AUTO_TCP].t;
    pair->linger_until_ns = tcp->ops->now_ns(tcp) + (uint64_t)GLI_LINGER_NS;
    gli_mark_undelivered(&t->base, base, true);
    return;
  }
  close_child(pair, owes ? NULL : last);
  auto_dispose(pair);
  if (!t->in_poll) gli_auto_free_garbage(t);
}

bool gli_auto_waiting_to_deliver(const gli_auto *t) {
  for (const gli_auto_pair *pair = t->trying; pair != NULL; pair = pair->next)
    if (pair->closed) return true;
  return false;
}
