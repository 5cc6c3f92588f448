/* Posting. */
#include <errno.h>
#include <string.h>

#include "standin.h"

static bool queue_is_full(const standin_queue *queue) {
  return queue->posted - queue->free >= queue->room;
}

int standin_parts_take(standin_work *work, const struct ibv_sge *parts, int n,
                       uint32_t most) {
  if (n < 0 || (uint32_t)n > most) return EINVAL;
  work->n_parts = n;
  for (int i = 0; i < n; i++) {
    work->part[i] = parts[i];
    work->bytes += parts[i].length;
  }
  return 0;
}

static void inline_take(standin_work *work) {
  size_t at = 0;
  for (int i = 0; i < work->n_parts; i++) {
    const struct ibv_sge *part = &work->part[i];
    memcpy(work->inlined + at, (const void *)(uintptr_t)part->addr,
           part->length);
    at += part->length;
  }
}

/* ---- sending ------------------------------------------------------------- */

/* Injects faults that are due with the nth work request. */
static void meet_faults(standin_qp *qp, standin_work *work) {
  static unsigned long sent;
  standin_context *context = (standin_context *)qp->base.context;
  standin_network_counts(++sent);
  work->doomed = standin_happens(STANDIN_completion) != 0;
  if (standin_happens(STANDIN_qp_fatal) != 0) {
    standin_raise(context, IBV_EVENT_QP_FATAL, &qp->base);
    standin_break(qp);
  }
  if (standin_happens(STANDIN_qp_silent) != 0) {
    qp->base.state = IBV_QPS_ERR; /* no event: standin_break might raise one */
    standin_wire_serve(qp);
  }
  standin_qp *peer = standin_happens(STANDIN_qp_drained) != 0
                         ? standin_find_qp(qp->is.dest_qp_num)
                         : NULL;
  if (peer != NULL) {
    peer->base.state = IBV_QPS_ERR;
    standin_wire_serve(peer);
    standin_raise((standin_context *)peer->base.context,
                  IBV_EVENT_QP_LAST_WQE_REACHED, &peer->base);
  }
  if (standin_happens(STANDIN_device_fatal) == 0) return;
  context->dead = true;
  standin_raise(context, IBV_EVENT_DEVICE_FATAL, NULL);
  for (standin_object *o = standin_first[STANDIN_QP]; o != NULL; o = o->next)
    if (o->context == &context->base) standin_break(o->self);
}

static int send_one(standin_qp *qp, const struct ibv_send_wr *wr) {
  if (qp->base.state != IBV_QPS_RTS && qp->base.state != IBV_QPS_ERR)
    return EINVAL;
  bool reads = wr->opcode == IBV_WR_RDMA_READ;
  if (wr->opcode != IBV_WR_SEND && wr->opcode != IBV_WR_RDMA_WRITE && !reads)
    return EINVAL;
  if (reads && (wr->send_flags & IBV_SEND_INLINE)) return EINVAL;
  if (queue_is_full(&qp->send)) return ENOMEM;
  standin_work *work = standin_work_at(&qp->send, qp->send.posted);
  *work = (standin_work){.id = wr->wr_id,
                         .opcode = wr->opcode,
                         .flags = wr->send_flags,
                         .remote = wr->wr.rdma.remote_addr,
                         .rkey = wr->wr.rdma.rkey};
  int code = standin_parts_take(work, wr->sg_list, wr->num_sge, qp->send.parts);
  if (code != 0) return code;
  if (wr->send_flags & IBV_SEND_INLINE) {
    if (work->bytes > qp->inline_max) return EINVAL;
    inline_take(work);
    standin_inlined++;
  }
  if (!standin_sum(qp, work, &work->sum)) work->sum = 0; /* fails later */
  qp->send.posted++;
  meet_faults(qp, work);
  return 0;
}

int standin_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr,
                      struct ibv_send_wr **bad) {
  int code = standin_enter(STANDIN_post_send);
  standin_check(STANDIN_QP, qp, "ibv_post_send");
  for (; wr != NULL && code == 0; wr = wr->next) {
    code = send_one((standin_qp *)qp, wr);
    if (code != 0) break;
  }
  if (code != 0) *bad = wr;
  standin_wire_serve((standin_qp *)qp);
  standin_leave();
  return code;
}

/* ---- receiving ----------------------------------------------------------- */

static int receive_one(standin_qp *qp, const struct ibv_recv_wr *wr) {
  if (qp->base.state == IBV_QPS_RESET || qp->srq != NULL) return EINVAL;
  if (queue_is_full(&qp->receive)) return ENOMEM;
  standin_work *work = standin_work_at(&qp->receive, qp->receive.posted);
  *work = (standin_work){.id = wr->wr_id};
  int code =
      standin_parts_take(work, wr->sg_list, wr->num_sge, qp->receive.parts);
  if (code == 0) qp->receive.posted++;
  return code;
}

int standin_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr,
                      struct ibv_recv_wr **bad) {
  int code = standin_enter(STANDIN_post_recv);
  standin_check(STANDIN_QP, qp, "ibv_post_recv");
  for (; wr != NULL && code == 0; wr = wr->next) {
    code = receive_one((standin_qp *)qp, wr);
    if (code != 0) break;
  }
  if (code != 0) *bad = wr;
  standin_wire_serve((standin_qp *)qp);
  standin_leave();
  return code;
}
