/* Queue pairs and their states. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "standin.h"

/* ---- making -------------------------------------------------------------- */

static int caps_check(const struct ibv_pd *pd,
                      const struct ibv_qp_init_attr *as) {
  const struct ibv_qp_cap *cap = &as->cap;
  if (as->qp_type != IBV_QPT_RC) return EINVAL;
  if (as->srq != NULL && as->srq->pd != pd) return EINVAL;
  if (as->send_cq == NULL || as->recv_cq == NULL) return EINVAL;
  if (cap->max_send_wr > STANDIN_WORK_MAX ||
      cap->max_recv_wr > STANDIN_WORK_MAX ||
      cap->max_send_sge > STANDIN_PARTS || cap->max_recv_sge > STANDIN_PARTS ||
      cap->max_inline_data > standin_port_of(pd->context)->inline_max)
    return EINVAL;
  return 0;
}

static void queue_make(standin_queue *queue, uint32_t room, uint32_t parts) {
  queue->room = room;
  queue->parts = parts;
  queue->work = calloc(room + 1, sizeof *queue->work);
}

enum { NUMBERS = 4096 };
static standin_qp *by_number[NUMBERS];

static standin_qp **list_of(uint32_t number) {
  return &by_number[number % NUMBERS];
}

/* A device may use the number of a destroyed queue pair again at once. */
static uint32_t number_free;

static uint32_t next_number(void) {
  static uint32_t number = 0x10;
  uint32_t again = number_free;
  number_free = 0;
  if (again != 0 && standin_random(2) == 0) return again;
  return number = (number + 1 + standin_random(16)) & 0xffffff;
}

/* Returns the size of the queues, in whole pages. */
static size_t queue_bytes(const struct ibv_qp_init_attr *as) {
  const struct ibv_qp_cap *cap = &as->cap;
  size_t receives = as->srq == NULL ? cap->max_recv_wr : 0;
  size_t bytes =
      (STANDIN_ENTRY_BYTES + cap->max_inline_data) * (size_t)cap->max_send_wr +
      STANDIN_ENTRY_BYTES * receives;
  return (bytes + 4095) / 4096 * 4096;
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *as) {
  int code = standin_enter(STANDIN_create_qp);
  standin_check(STANDIN_PD, pd, "ibv_create_qp");
  if (code == 0 && ((standin_context *)pd->context)->dead) code = EIO;
  if (code == 0 && as->srq != NULL)
    standin_check(STANDIN_SRQ, as->srq, "ibv_create_qp on");
  if (code == 0) code = caps_check(pd, as);
  size_t locked = queue_bytes(as);
  if (code == 0 && !standin_locks(pd->context, locked)) code = ENOMEM;
  standin_qp *qp = code == 0 ? calloc(1, sizeof *qp) : NULL;
  if (qp != NULL) {
    standin_check(STANDIN_CQ, as->send_cq, "ibv_create_qp on");
    standin_check(STANDIN_CQ, as->recv_cq, "ibv_create_qp on");
    qp->base.context = pd->context;
    qp->base.qp_context = as->qp_context;
    qp->base.pd = pd;
    qp->base.send_cq = as->send_cq;
    qp->base.recv_cq = as->recv_cq;
    qp->base.srq = as->srq;
    qp->srq = (standin_srq *)as->srq;
    qp->locked = locked;
    qp->base.qp_num = next_number();
    qp->base.qp_type = as->qp_type;
    qp->base.state = IBV_QPS_RESET;
    qp->signals_all = as->sq_sig_all != 0;
    qp->inline_max = as->cap.max_inline_data;
    queue_make(&qp->send, as->cap.max_send_wr, as->cap.max_send_sge);
    if (as->srq != NULL)
      queue_make(&qp->receive, 2, STANDIN_PARTS);
    else
      queue_make(&qp->receive, as->cap.max_recv_wr, as->cap.max_recv_sge);
    standin_add(&qp->object, STANDIN_QP, &qp->base, pd->context);
    qp->next_number = *list_of(qp->base.qp_num);
    *list_of(qp->base.qp_num) = qp;
  }
  standin_leave();
  errno = code;
  return qp != NULL ? &qp->base : NULL;
}

standin_qp *standin_find_qp(uint32_t number) {
  standin_qp *qp = *list_of(number);
  while (qp != NULL && qp->base.qp_num != number) qp = qp->next_number;
  return qp;
}

void standin_qp_gone(standin_qp *qp) {
  standin_qp **at = list_of(qp->base.qp_num);
  while (*at != qp) at = &(*at)->next_number;
  *at = qp->next_number;
  standin_wire_drop(qp);
}

void standin_qps_forget(void) {
  memset(by_number, 0, sizeof by_number);
}

standin_work *standin_work_at(standin_queue *queue, uint32_t number) {
  return &queue->work[number % queue->room];
}

/* ---- states -------------------------------------------------------------- */

/* Required and optional attributes of each state change. */
static const struct qp_change {
  enum ibv_qp_state from, to;
  int needs, allows;
} changes[] = {
    {IBV_QPS_RESET, IBV_QPS_INIT,
     IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, 0},
    {IBV_QPS_INIT, IBV_QPS_INIT, 0,
     IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS},
    {IBV_QPS_INIT, IBV_QPS_RTR,
     IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
         IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
     IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX},
    {IBV_QPS_RTR, IBV_QPS_RTS,
     IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
         IBV_QP_MAX_QP_RD_ATOMIC,
     IBV_QP_CUR_STATE | IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS |
         IBV_QP_MIN_RNR_TIMER | IBV_QP_PATH_MIG_STATE},
    {IBV_QPS_RTS, IBV_QPS_RTS, 0,
     IBV_QP_CUR_STATE | IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS |
         IBV_QP_MIN_RNR_TIMER | IBV_QP_PATH_MIG_STATE},
};

static bool change_is_allowed(enum ibv_qp_state from, enum ibv_qp_state to,
                              int mask) {
  mask &= ~IBV_QP_STATE;
  if (to == IBV_QPS_RESET || to == IBV_QPS_ERR) return mask == 0;
  for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
    const struct qp_change *c = &changes[i];
    if (c->from == from && c->to == to)
      return (mask & c->needs) == c->needs &&
             (mask & ~(c->needs | c->allows)) == 0;
  }
  return false;
}

static bool attributes_are_good(const standin_qp *qp,
                                const struct ibv_qp_attr *to, int mask) {
  const standin_port *port = standin_port_of(qp->base.context);
  if (mask & IBV_QP_PORT && to->port_num != 1) return false;
  if (mask & IBV_QP_PKEY_INDEX && to->pkey_index >= STANDIN_PKEYS) return false;
  if (mask & IBV_QP_AV && !standin_address_is_good(port, &to->ah_attr))
    return false;
  if (mask & IBV_QP_PATH_MTU &&
      (to->path_mtu < IBV_MTU_256 || to->path_mtu > port->mtu))
    return false;
  if (mask & (IBV_QP_RQ_PSN | IBV_QP_SQ_PSN) &&
      (to->rq_psn > 0xffffff || to->sq_psn > 0xffffff))
    return false;
  if ((mask & IBV_QP_MAX_QP_RD_ATOMIC && to->max_rd_atomic > port->reads) ||
      (mask & IBV_QP_MAX_DEST_RD_ATOMIC &&
       to->max_dest_rd_atomic > port->reads))
    return false;
  if (to->retry_cnt > 7 || to->rnr_retry > 7 || to->timeout > 31) return false;
  return to->min_rnr_timer < 32;
}

/* Stores the attributes that the mask names. */
static void attributes_take(struct ibv_qp_attr *is,
                            const struct ibv_qp_attr *to, int mask) {
  if (mask & IBV_QP_ACCESS_FLAGS) is->qp_access_flags = to->qp_access_flags;
  if (mask & IBV_QP_PKEY_INDEX) is->pkey_index = to->pkey_index;
  if (mask & IBV_QP_AV) is->ah_attr = to->ah_attr;
  if (mask & IBV_QP_PATH_MTU) is->path_mtu = to->path_mtu;
  if (mask & IBV_QP_DEST_QPN) is->dest_qp_num = to->dest_qp_num;
  if (mask & IBV_QP_RQ_PSN) is->rq_psn = to->rq_psn;
  if (mask & IBV_QP_SQ_PSN) is->sq_psn = to->sq_psn;
  if (mask & IBV_QP_TIMEOUT) is->timeout = to->timeout;
  if (mask & IBV_QP_RETRY_CNT) is->retry_cnt = to->retry_cnt;
  if (mask & IBV_QP_RNR_RETRY) is->rnr_retry = to->rnr_retry;
  if (mask & IBV_QP_MAX_QP_RD_ATOMIC) {
    is->max_rd_atomic = to->max_rd_atomic;
    if (standin_reads < to->max_rd_atomic) standin_reads = to->max_rd_atomic;
  }
  if (mask & IBV_QP_MAX_DEST_RD_ATOMIC)
    is->max_dest_rd_atomic = to->max_dest_rd_atomic;
}

static int queue_modify(standin_qp *qp, const struct ibv_qp_attr *to,
                        int mask) {
  enum ibv_qp_state state = mask & IBV_QP_STATE ? to->qp_state : qp->base.state;
  if (!change_is_allowed(qp->base.state, state, mask) ||
      !attributes_are_good(qp, to, mask))
    return EINVAL;
  attributes_take(&qp->is, to, mask);
  if (state == IBV_QPS_ERR) {
    standin_break(qp);
  } else if (state == IBV_QPS_RESET) {
    standin_clean(qp->base.send_cq, qp);
    standin_clean(qp->base.recv_cq, qp);
    qp->send.free = qp->send.over = qp->send.moved = qp->send.posted;
    qp->receive.free = qp->receive.over = qp->receive.moved =
        qp->receive.posted;
  }
  qp->base.state = state;
  return 0;
}

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *to, int mask) {
  bool receives = (mask & IBV_QP_STATE) && to->qp_state == IBV_QPS_RTR;
  int refused = receives ? standin_rtr_waits(qp->context) : 0;
  int code = standin_enter(STANDIN_modify_qp);
  if (code == 0) code = refused;
  standin_check(STANDIN_QP, qp, "ibv_modify_qp");
  if (code == 0 && ((standin_context *)qp->context)->dead) code = EIO;
  if (code == 0) code = queue_modify((standin_qp *)qp, to, mask);
  standin_leave();
  return code;
}

/* Not every driver reports the end of the use of a shared receive queue. */
void standin_break(standin_qp *qp) {
  bool was = qp->base.state == IBV_QPS_ERR;
  qp->base.state = IBV_QPS_ERR;
  if (!was && qp->srq != NULL && standin_random(2) == 0)
    standin_raise((standin_context *)qp->base.context,
                  IBV_EVENT_QP_LAST_WQE_REACHED, &qp->base);
  standin_wire_serve(qp);
}

int ibv_destroy_qp(struct ibv_qp *base) {
  standin_qp *qp = (standin_qp *)base;
  int code = standin_enter(STANDIN_destroy_qp);
  standin_check(STANDIN_QP, base, "ibv_destroy_qp");
  if (code == 0) {
    standin_purge_events(base);
    standin_clean(base->send_cq, qp);
    if (base->recv_cq != base->send_cq) standin_clean(base->recv_cq, qp);
    standin_remove(STANDIN_QP, base);
    standin_qp_gone(qp);
    standin_unlocks(base->context, qp->locked);
    number_free = base->qp_num;
    free(qp->send.work);
    free(qp->receive.work);
    free(qp);
  }
  standin_leave();
  return code;
}
