/* Completion queues and completion channels. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "standin.h"

/* ---- channels ------------------------------------------------------------ */

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context) {
  int code = standin_enter(STANDIN_create_comp_channel);
  standin_check(STANDIN_CONTEXT, context, "ibv_create_comp_channel");
  if (code == 0 && ((standin_context *)context)->dead) code = EIO;
  standin_channel *channel = code == 0 ? calloc(1, sizeof *channel) : NULL;
  if (channel != NULL) {
    channel->base.context = context;
    channel->base.fd = eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
    if (channel->base.fd < 0) standin_die("no descriptor for a channel");
    standin_add(&channel->object, STANDIN_CHANNEL, &channel->base, context);
  }
  standin_leave();
  errno = code;
  return channel != NULL ? &channel->base : NULL;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *channel) {
  int code = standin_enter(STANDIN_destroy_comp_channel);
  standin_check(STANDIN_CHANNEL, channel, "ibv_destroy_comp_channel");
  if (code == 0 && channel->refcnt > 0) code = EBUSY;
  if (code == 0) {
    standin_remove(STANDIN_CHANNEL, channel);
    close(channel->fd);
    free(channel);
  }
  standin_leave();
  return code;
}

/* Returns a completion queue of the channel with a pending event, or NULL. */
static standin_cq *told_cq(const struct ibv_comp_channel *channel) {
  for (standin_object *o = standin_first[STANDIN_CQ]; o != NULL; o = o->next) {
    standin_cq *cq = o->self;
    if (cq->base.channel == channel && cq->told != cq->taken) return cq;
  }
  return NULL;
}

int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq,
                     void **user) {
  int code = standin_enter(STANDIN_get_cq_event);
  standin_check(STANDIN_CHANNEL, channel, "ibv_get_cq_event");
  standin_leave();
  while (code == 0) {
    uint64_t one;
    if (read(channel->fd, &one, sizeof one) != sizeof one) {
      code = errno;
      break;
    }
    pthread_mutex_lock(&standin_lock);
    standin_cq *told = told_cq(channel);
    if (told != NULL) told->taken++;
    pthread_mutex_unlock(&standin_lock);
    if (told == NULL) continue; /* destroyed */
    *cq = &told->base;
    *user = told->base.cq_context;
    return 0;
  }
  errno = code;
  return -1;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned n) {
  (void)standin_enter(STANDIN_ack_cq_events);
  standin_check(STANDIN_CQ, cq, "ibv_ack_cq_events");
  standin_cq *c = (standin_cq *)cq;
  c->acknowledged += n;
  if (c->acknowledged > c->taken)
    standin_die("more events were acknowledged than taken");
  standin_leave();
}

/* ---- queues -------------------------------------------------------------- */

struct ibv_cq *ibv_create_cq(struct ibv_context *context, int entries,
                             void *user, struct ibv_comp_channel *channel,
                             int vector) {
  int code = standin_enter(STANDIN_create_cq);
  standin_check(STANDIN_CONTEXT, context, "ibv_create_cq");
  if (channel != NULL)
    standin_check(STANDIN_CHANNEL, channel, "ibv_create_cq on");
  if (code == 0 && ((standin_context *)context)->dead) code = EIO;
  if (code == 0 &&
      (entries < 1 || (uint32_t)entries > standin_port_of(context)->cqe_max ||
       (channel != NULL &&
        (vector < 0 || vector >= context->num_comp_vectors))))
    code = EINVAL;
  size_t bytes = (size_t)entries * STANDIN_ENTRY_BYTES;
  if (code == 0 && !standin_locks(context, bytes)) code = ENOMEM;
  standin_cq *cq = code == 0 ? calloc(1, sizeof *cq) : NULL;
  if (cq != NULL) {
    cq->base.context = context;
    cq->base.channel = channel;
    cq->base.cq_context = user;
    cq->base.cqe = entries;
    cq->entries = calloc((size_t)entries, sizeof *cq->entries);
    if (channel != NULL) channel->refcnt++;
    standin_vectors |= 1ul << vector;
    standin_add(&cq->object, STANDIN_CQ, &cq->base, context);
  }
  standin_leave();
  errno = code;
  return cq != NULL ? &cq->base : NULL;
}

int ibv_resize_cq(struct ibv_cq *base, int entries) {
  standin_cq *cq = (standin_cq *)base;
  int code = standin_enter(STANDIN_resize_cq);
  standin_check(STANDIN_CQ, base, "ibv_resize_cq");
  uint32_t used = cq->head - cq->tail;
  if (code == 0 && ((standin_context *)base->context)->dead) code = EIO;
  if (code == 0 &&
      ((uint32_t)entries < used ||
       (uint32_t)entries > standin_port_of(base->context)->cqe_max))
    code = EINVAL;
  size_t more = (size_t)entries * STANDIN_ENTRY_BYTES;
  size_t less = (size_t)base->cqe * STANDIN_ENTRY_BYTES;
  if (code == 0 && !standin_locks(base->context, more)) code = ENOMEM;
  if (code == 0) {
    standin_entry *ring = calloc((size_t)entries, sizeof *ring);
    for (uint32_t i = 0; i < used; i++)
      ring[i] = cq->entries[(cq->tail + i) % (uint32_t)base->cqe];
    free(cq->entries);
    cq->entries = ring;
    cq->tail = 0;
    cq->head = used;
    base->cqe = entries;
    standin_unlocks(base->context, less);
  }
  standin_leave();
  return code;
}

static bool cq_is_used(const struct ibv_cq *cq) {
  for (standin_object *o = standin_first[STANDIN_QP]; o != NULL; o = o->next) {
    const struct ibv_qp *qp = o->self;
    if (qp->send_cq == cq || qp->recv_cq == cq) return true;
  }
  return false;
}

int ibv_destroy_cq(struct ibv_cq *cq) {
  standin_cq *c = (standin_cq *)cq;
  int code = standin_enter(STANDIN_destroy_cq);
  standin_check(STANDIN_CQ, cq, "ibv_destroy_cq");
  if (code == 0 && cq_is_used(cq)) code = EBUSY;
  if (code == 0) {
    if (c->taken != c->acknowledged)
      standin_die("ibv_destroy_cq would wait for events without end");
    for (; c->told != c->taken; c->taken++) standin_uncount(cq->channel->fd);
    if (cq->channel != NULL) cq->channel->refcnt--;
    standin_remove(STANDIN_CQ, cq);
    standin_unlocks(cq->context, (size_t)cq->cqe * STANDIN_ENTRY_BYTES);
    free(c->entries);
    free(c);
  }
  standin_leave();
  return code;
}

void standin_complete(struct ibv_cq *base, const standin_entry *entry) {
  const uint64_t one = 1;
  standin_cq *cq = (standin_cq *)base;
  if (cq->head - cq->tail == (uint32_t)base->cqe)
    standin_die("a completion queue of %d entries ran over", base->cqe);
  cq->entries[cq->head++ % (uint32_t)base->cqe] = *entry;
  if (!cq->armed) return;
  cq->armed = false;
  cq->told++;
  if (write(base->channel->fd, &one, sizeof one) != sizeof one)
    standin_die("a completion cannot be told");
}

/* Frees the places in queues that this completion covers. */
static void entry_free(const standin_entry *entry) {
  if (entry->srq != NULL) entry->srq->under_way--;
  if (entry->qp == NULL) return;
  standin_queue *queue = entry->sends ? &entry->qp->send : &entry->qp->receive;
  queue->free = entry->number + 1;
}

/* Removes entries of a queue pair, or keeps them, as drivers differ in this. */
void standin_clean(struct ibv_cq *base, const standin_qp *qp) {
  standin_cq *cq = (standin_cq *)base;
  uint32_t room = (uint32_t)base->cqe, kept = cq->tail;
  bool stay = standin_random(2) == 0;
  for (uint32_t i = cq->tail; i != cq->head; i++) {
    standin_entry entry = cq->entries[i % room];
    if (entry.qp == qp) {
      if (!stay) entry_free(&entry);
      if (!stay) continue;
      entry.qp = NULL;
    }
    cq->entries[kept++ % room] = entry;
  }
  cq->head = kept;
}

int standin_poll_cq(struct ibv_cq *base, int n, struct ibv_wc *wc) {
  standin_cq *cq = (standin_cq *)base;
  int code = standin_enter(STANDIN_poll_cq), got = 0;
  standin_check(STANDIN_CQ, base, "ibv_poll_cq");
  if (standin_is_prompt()) standin_wire_finish();
  for (; code == 0 && got < n && cq->tail != cq->head; cq->tail++) {
    const standin_entry *entry = &cq->entries[cq->tail % (uint32_t)base->cqe];
    entry_free(entry);
    wc[got++] = entry->wc;
  }
  standin_leave();
  return code == 0 ? got : -code;
}

int standin_req_notify_cq(struct ibv_cq *base, int solicited_only) {
  int code = standin_enter(STANDIN_req_notify_cq);
  standin_check(STANDIN_CQ, base, "ibv_req_notify_cq");
  if (solicited_only || base->channel == NULL) code = EINVAL;
  if (code == 0) ((standin_cq *)base)->armed = true;
  standin_leave();
  return code;
}
