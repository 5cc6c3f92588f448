/* Shared receive queues. */
#include <errno.h>
#include <stdlib.h>

#include "standin.h"

struct ibv_srq *ibv_create_srq(struct ibv_pd *pd,
                               struct ibv_srq_init_attr *as) {
  int code = standin_enter(STANDIN_create_srq);
  standin_check(STANDIN_PD, pd, "ibv_create_srq");
  uint32_t room = as->attr.max_wr, most = standin_port_of(pd->context)->srq_max;
  if (code == 0 && ((standin_context *)pd->context)->dead) code = EIO;
  if (code == 0 && (room == 0 || room > most || as->attr.max_sge == 0 ||
                    as->attr.max_sge > STANDIN_PARTS))
    code = EINVAL;
  if (code == 0 && !standin_locks(pd->context, room * STANDIN_ENTRY_BYTES))
    code = ENOMEM;
  standin_srq *srq = code == 0 ? calloc(1, sizeof *srq) : NULL;
  if (srq != NULL) {
    srq->base.context = pd->context;
    srq->base.srq_context = as->srq_context;
    srq->base.pd = pd;
    srq->room = room;
    srq->parts = as->attr.max_sge;
    srq->work = calloc(room, sizeof *srq->work);
    standin_add(&srq->object, STANDIN_SRQ, &srq->base, pd->context);
  }
  standin_leave();
  errno = code;
  return srq != NULL ? &srq->base : NULL;
}

/* The event comes when fewer are left. If so already, with the next message. */
int ibv_modify_srq(struct ibv_srq *base, struct ibv_srq_attr *to, int mask) {
  standin_srq *srq = (standin_srq *)base;
  int code = standin_enter(STANDIN_modify_srq);
  standin_check(STANDIN_SRQ, base, "ibv_modify_srq");
  if (code == 0 && (mask != IBV_SRQ_LIMIT || to->srq_limit > srq->room))
    code = EINVAL;
  if (code == 0) srq->limit = to->srq_limit;
  standin_leave();
  return code;
}

static bool srq_is_used(const struct ibv_srq *srq) {
  for (standin_object *o = standin_first[STANDIN_QP]; o != NULL; o = o->next)
    if (((struct ibv_qp *)o->self)->srq == srq) return true;
  return false;
}

/* Completions may outlive the queue. */
static void srq_detach(const standin_srq *srq) {
  for (standin_object *o = standin_first[STANDIN_CQ]; o != NULL; o = o->next) {
    standin_cq *cq = o->self;
    for (uint32_t i = cq->tail; i != cq->head; i++) {
      standin_entry *entry = &cq->entries[i % (uint32_t)cq->base.cqe];
      if (entry->srq == srq) entry->srq = NULL;
    }
  }
}

int ibv_destroy_srq(struct ibv_srq *base) {
  standin_srq *srq = (standin_srq *)base;
  int code = standin_enter(STANDIN_destroy_srq);
  standin_check(STANDIN_SRQ, base, "ibv_destroy_srq");
  if (code == 0 && srq_is_used(base)) code = EBUSY;
  if (code == 0) {
    srq_detach(srq);
    standin_drop_events((standin_context *)base->context, base);
    standin_unlocks(base->context, srq->room * STANDIN_ENTRY_BYTES);
    standin_remove(STANDIN_SRQ, base);
    free(srq->work);
    free(srq);
  }
  standin_leave();
  return code;
}

static int receive_shared(standin_srq *srq, const struct ibv_recv_wr *wr) {
  if (srq->under_way == srq->room) return ENOMEM;
  standin_work *work = &srq->work[srq->posted % srq->room];
  *work = (standin_work){.id = wr->wr_id};
  int code = standin_parts_take(work, wr->sg_list, wr->num_sge, srq->parts);
  if (code != 0) return code;
  srq->posted++;
  srq->under_way++;
  return 0;
}

int standin_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr,
                          struct ibv_recv_wr **bad) {
  int code = standin_enter(STANDIN_post_srq_recv);
  standin_check(STANDIN_SRQ, srq, "ibv_post_srq_recv");
  for (; wr != NULL && code == 0; wr = wr->next) {
    code = receive_shared((standin_srq *)srq, wr);
    if (code != 0) break;
  }
  if (code != 0) *bad = wr;
  standin_wire_wake();
  standin_leave();
  return code;
}

/* Gives the first buffer to the queue pair. */
static bool srq_give(standin_srq *srq, standin_qp *qp) {
  if (srq->taken == srq->posted) return false;
  *standin_work_at(&qp->receive, qp->receive.posted++) =
      srq->work[srq->taken++ % srq->room];
  if (srq->posted - srq->taken >= srq->limit) return true;
  srq->limit = 0;
  standin_raise((standin_context *)srq->base.context,
                IBV_EVENT_SRQ_LIMIT_REACHED, &srq->base);
  return true;
}

bool standin_buffer_ready(standin_qp *qp) {
  if (qp->receive.over != qp->receive.posted) return true;
  return qp->srq != NULL && srq_give(qp->srq, qp);
}
