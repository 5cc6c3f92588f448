/* The steps of the wire for a queue pair. */
#include <string.h>

#include "standin.h"

enum { PIECE_MAX = 65536, RETRY_NS = 1000000, RNR_NS = 640000 };

unsigned long standin_delivered, standin_refused, standin_inlined;
unsigned long standin_reads, standin_vectors;

__attribute__((visibility("default"))) unsigned long standin_refusals(void) {
  pthread_mutex_lock(&standin_lock);
  unsigned long n = standin_refused;
  pthread_mutex_unlock(&standin_lock);
  return n;
}

/* ---- moving bytes -------------------------------------------------------- */

/* A contiguous run of a work request's bytes from `at` on. `mr` is the region
 * that it is in; NULL if the access is not allowed. */
typedef struct byte_run {
  uint8_t *at;
  size_t bytes;
  const standin_mr *mr;
} byte_run;

static byte_run run_at(const standin_qp *qp, const standin_work *work,
                       size_t at, int access) {
  int i = 0;
  while (i < work->n_parts - 1 && at >= work->part[i].length)
    at -= work->part[i++].length;
  const struct ibv_sge *part = &work->part[i];
  return (byte_run){.at = (uint8_t *)(uintptr_t)part->addr + at,
                    .bytes = part->length - at,
                    .mr = standin_find_mr(qp->base.pd, part->lkey, part->addr,
                                          part->length, access)};
}

/* Returns the bytes from `at` on that a sender reads, or NULL if it must
 * not. */
static const uint8_t *source_at(const standin_qp *qp, const standin_work *work,
                                size_t at, size_t *bytes) {
  static const uint8_t lost[PIECE_MAX];
  if (work->flags & IBV_SEND_INLINE) {
    *bytes = work->bytes - at;
    return work->inlined + at;
  }
  byte_run run = run_at(qp, work, at, 0);
  if (run.mr == NULL) return NULL;
  *bytes = run.bytes;
  if (!run.mr->orphan) return run.at;
  if (*bytes > sizeof lost) *bytes = sizeof lost;
  return lost;
}

bool standin_sum(const standin_qp *qp, const standin_work *work,
                 uint64_t *sum) {
  *sum = 0;
  for (size_t at = 0; at < work->bytes;) {
    size_t bytes;
    const uint8_t *from = source_at(qp, work, at, &bytes);
    if (from == NULL) return false;
    for (size_t i = 0; i < bytes; i += sizeof *sum) {
      uint64_t word = 0;
      size_t n = bytes - i < sizeof word ? bytes - i : sizeof word;
      memcpy(&word, from + i, n);
      *sum = (*sum ^ word) * UINT64_C(0x100000001b3);
      *sum ^= *sum >> 29;
    }
    at += bytes;
  }
  return true;
}

/* ---- ends ---------------------------------------------------------------- */

static enum ibv_wc_opcode opcode_of(const standin_work *work) {
  if (work->opcode == IBV_WR_SEND) return IBV_WC_SEND;
  return work->opcode == IBV_WR_RDMA_READ ? IBV_WC_RDMA_READ
                                          : IBV_WC_RDMA_WRITE;
}

static void complete_send(standin_qp *qp, const standin_work *work,
                          enum ibv_wc_status status) {
  standin_entry entry = {.qp = qp, .sends = true, .number = qp->send.over++};
  entry.wc = (struct ibv_wc){.wr_id = work->id,
                             .status = status,
                             .opcode = opcode_of(work),
                             .qp_num = qp->base.qp_num};
  bool tells = qp->signals_all || work->flags & IBV_SEND_SIGNALED;
  if (status != IBV_WC_SUCCESS || tells)
    standin_complete(qp->base.send_cq, &entry);
}

static void complete_receive(standin_qp *qp, enum ibv_wc_status status,
                             size_t bytes) {
  uint32_t number = qp->receive.over++;
  standin_entry entry = {.qp = qp, .number = number};
  qp->receive.moved = qp->receive.over;
  entry.wc = (struct ibv_wc){.wr_id = standin_work_at(&qp->receive, number)->id,
                             .status = status,
                             .opcode = IBV_WC_RECV,
                             .byte_len = (uint32_t)bytes,
                             .qp_num = qp->base.qp_num};
  entry.srq = qp->srq;
  standin_complete(qp->base.recv_cq, &entry);
}

/* Flushes one of the remaining work requests. */
static bool flush_one(standin_qp *qp) {
  bool sends = qp->send.over != qp->send.posted;
  bool receives = qp->receive.over != qp->receive.posted;
  if (sends && receives) sends = standin_random(2) == 0;
  if (sends)
    complete_send(qp, standin_work_at(&qp->send, qp->send.over),
                  IBV_WC_WR_FLUSH_ERR);
  else if (receives)
    complete_receive(qp, IBV_WC_WR_FLUSH_ERR, 0);
  return sends || receives;
}

/* Marks the work request being delivered as failed. The failure shows after all
 * earlier ones have completed. */
static void give_up(standin_qp *qp, standin_work *work,
                    enum ibv_wc_status status) {
  work->status = status;
  qp->send.moved++;
}

/* Retries later, within the retry time. */
static void try_again(standin_qp *qp, standin_work *work) {
  uint64_t now = standin_now_ns();
  /* A sixteenth of what hardware takes: 4.1 us x 2^timeout, each time. */
  if (work->until_ns == 0)
    work->until_ns = now + (256ul << qp->is.timeout) * (qp->is.retry_cnt + 1ul);
  if (now > work->until_ns)
    give_up(qp, work, IBV_WC_RETRY_EXC_ERR);
  else
    work->due_ns = now + RETRY_NS;
}

/* ---- delivering ---------------------------------------------------------- */

static bool is_connected(const standin_qp *qp, const standin_qp *peer) {
  return (peer->base.state == IBV_QPS_RTR || peer->base.state == IBV_QPS_RTS) &&
         peer->is.dest_qp_num == qp->base.qp_num &&
         peer->is.rq_psn == qp->is.sq_psn &&
         peer->is.path_mtu == qp->is.path_mtu &&
         peer->is.pkey_index == qp->is.pkey_index && standin_reaches(qp, peer);
}

static void break_peer(standin_qp *peer, enum ibv_event_type type) {
  if (type != 0)
    standin_raise((standin_context *)peer->base.context, type, &peer->base);
  standin_break(peer);
}

/* Returns the destination of the next piece of a message. NULL: there is none,
 * and both ends have the error. */
static uint8_t *place_of_message(standin_qp *qp, standin_qp *peer,
                                 standin_work *work, size_t *bytes,
                                 bool *orphan) {
  standin_work *buffer = standin_work_at(&peer->receive, peer->receive.over);
  if (work->bytes > buffer->bytes) {
    complete_receive(peer, IBV_WC_LOC_LEN_ERR, 0);
    break_peer(peer, 0);
    give_up(qp, work, IBV_WC_REM_INV_REQ_ERR);
    return NULL;
  }
  byte_run run = run_at(peer, buffer, work->moved, IBV_ACCESS_LOCAL_WRITE);
  if (run.mr == NULL) {
    complete_receive(peer, IBV_WC_LOC_PROT_ERR, 0);
    break_peer(peer, 0);
    give_up(qp, work, IBV_WC_REM_OP_ERR);
    return NULL;
  }
  if (*bytes > run.bytes) *bytes = run.bytes;
  *orphan = run.mr->orphan;
  return run.at;
}

/* Returns the part of the peer's memory that is written or read. */
static uint8_t *place_by_key(standin_qp *qp, standin_qp *peer,
                             standin_work *work, bool *orphan) {
  const standin_mr *mr = NULL;
  int access = work->opcode == IBV_WR_RDMA_READ ? IBV_ACCESS_REMOTE_READ
                                                : IBV_ACCESS_REMOTE_WRITE;
  if ((int)peer->is.qp_access_flags & access)
    mr = standin_find_mr(peer->base.pd, work->rkey, work->remote, work->bytes,
                         access);
  if (mr == NULL) {
    break_peer(peer, IBV_EVENT_QP_ACCESS_ERR);
    give_up(qp, work, IBV_WC_REM_ACCESS_ERR);
    return NULL;
  }
  *orphan = mr->orphan;
  return (uint8_t *)(uintptr_t)work->remote + work->moved;
}

/* Rejects a message for which no buffer is posted. */
static void refuse(standin_qp *qp, standin_work *work) {
  standin_refused++;
  if (standin_is_strict())
    standin_die("a message was sent that no buffer was there for");
  if (qp->is.rnr_retry != 7 && work->refused++ == qp->is.rnr_retry)
    give_up(qp, work, IBV_WC_RNR_RETRY_EXC_ERR);
  else
    work->due_ns = standin_now_ns() + RNR_NS;
}

static void deliver_piece(standin_qp *qp, standin_qp *peer,
                          standin_work *work) {
  size_t bytes = 0;
  bool orphan = false;
  const uint8_t *from = NULL;
  if (work->bytes > 0) {
    from = source_at(qp, work, work->moved, &bytes);
    if (from == NULL) {
      give_up(qp, work, IBV_WC_LOC_PROT_ERR);
      return;
    }
  }
  size_t most = 1 + standin_random(PIECE_MAX);
  if (bytes > most) bytes = most;
  uint8_t *to = work->opcode == IBV_WR_SEND
                    ? place_of_message(qp, peer, work, &bytes, &orphan)
                    : place_by_key(qp, peer, work, &orphan);
  if (to == NULL) return;
  if (bytes > 0 && !orphan) memcpy(to, from, bytes);
  work->moved += bytes;
  if (work->opcode != IBV_WR_SEND) standin_port_moves(qp, bytes);
  if (work->moved < work->bytes) return;
  standin_delivered++;
  qp->send.moved++;
  if (work->opcode == IBV_WR_SEND)
    complete_receive(peer, IBV_WC_SUCCESS, work->bytes);
}

/* Fetches the next piece of an RDMA read. More reads at once than the peer
 * serves are an error there. */
static void fetch_piece(standin_qp *qp, standin_qp *peer, standin_work *work) {
  byte_run run = run_at(qp, work, work->moved, IBV_ACCESS_LOCAL_WRITE);
  bool orphan = false;
  if (run.mr == NULL || qp->is.max_rd_atomic == 0) {
    give_up(qp, work, IBV_WC_LOC_PROT_ERR);
    return;
  }
  if (qp->is.max_rd_atomic > peer->is.max_dest_rd_atomic) {
    break_peer(peer, IBV_EVENT_QP_REQ_ERR);
    give_up(qp, work, IBV_WC_REM_INV_REQ_ERR);
    return;
  }
  const uint8_t *from = place_by_key(qp, peer, work, &orphan);
  if (from == NULL) return;
  size_t bytes = 1 + standin_random(PIECE_MAX);
  if (bytes > run.bytes) bytes = run.bytes;
  if (!orphan && !run.mr->orphan) memcpy(run.at, from, bytes);
  work->moved += bytes;
  standin_port_moves(qp, bytes);
  unsigned long delay_us = standin_port_of(qp->base.context)->delay_us;
  if (delay_us > 0) work->due_ns = standin_now_ns() + delay_us * 1000;
  if (work->moved < work->bytes) return;
  standin_delivered++;
  qp->send.moved++;
}

static void deliver(standin_qp *qp, standin_work *work) {
  standin_qp *peer = standin_find_qp(qp->is.dest_qp_num);
  if (work->doomed)
    give_up(qp, work, IBV_WC_RETRY_EXC_ERR);
  else if (peer == NULL || !is_connected(qp, peer) ||
           standin_network_loses(qp, work->bytes))
    try_again(qp, work);
  else if (work->opcode == IBV_WR_SEND && !standin_buffer_ready(peer))
    refuse(qp, work);
  else if (work->opcode == IBV_WR_RDMA_READ)
    fetch_piece(qp, peer, work);
  else
    deliver_piece(qp, peer, work);
}

/* ---- acknowledging ------------------------------------------------------- */

/* Dies if the source has changed: data in flight may be sent again, so it must
 * stay unchanged until its completion. */
static void check_unchanged(const standin_qp *qp, const standin_work *work) {
  uint64_t sum;
  if (work->opcode == IBV_WR_RDMA_READ) return; /* a read writes there */
  if (!standin_sum(qp, work, &sum) || sum == work->sum) return;
  standin_die(
      "what a work request of %zu bytes reads was written to before it "
      "was over",
      work->bytes);
}

static void acknowledge(standin_qp *qp) {
  standin_work *work = standin_work_at(&qp->send, qp->send.over);
  if (work->status == IBV_WC_SUCCESS) {
    standin_qp *peer = standin_find_qp(qp->is.dest_qp_num);
    check_unchanged(qp, work);
    /* Acknowledgements may be lost, and a destroyed peer sends no others. */
    if (peer == NULL && standin_random(4) == 0)
      work->status = IBV_WC_RETRY_EXC_ERR;
  }
  complete_send(qp, work, work->status);
  if (work->status != IBV_WC_SUCCESS) standin_break(qp);
}

/* Returns true if the next work request can move: nothing moves behind a failed
 * one. */
static bool can_deliver(standin_qp *qp, uint64_t *due_ns) {
  standin_queue *queue = &qp->send;
  if (queue->moved == queue->posted) return false;
  if (queue->moved != queue->over &&
      standin_work_at(queue, queue->moved - 1)->status != IBV_WC_SUCCESS)
    return false;
  uint64_t at = standin_work_at(queue, queue->moved)->due_ns;
  if (at <= standin_now_ns()) return true;
  if (at < *due_ns) *due_ns = at;
  return false;
}

bool standin_step(standin_qp *qp, uint64_t *due_ns) {
  if (qp->base.state == IBV_QPS_ERR) return flush_one(qp);
  if (qp->base.state != IBV_QPS_RTS) return false;
  bool acknowledges = qp->send.over != qp->send.moved;
  bool delivers = can_deliver(qp, due_ns);
  if (acknowledges && delivers) acknowledges = standin_random(2) == 0;
  if (acknowledges)
    acknowledge(qp);
  else if (delivers)
    deliver(qp, standin_work_at(&qp->send, qp->send.moved));
  return acknowledges || delivers;
}
