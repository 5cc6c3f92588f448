/* Creation, connection and destruction of queue pairs. */
#include <errno.h>
#include <string.h>

#include "transport_ibv/ibv.h"

static const char *queue_create(gli_ibv_pair *pair) {
  gli_ibv_port *port = &pair->t->port;
  struct ibv_srq *srq = pair->t->shared.srq;
  struct ibv_qp_init_attr attributes = {
      .qp_context = pair,
      .send_cq = port->cq,
      .recv_cq = port->cq,
      .srq = srq,
      .cap = {.max_send_wr = GLI_IBV_SLOTS,
              .max_recv_wr = srq == NULL ? GLI_IBV_SLOTS + GLI_IBV_REFILL : 0,
              .max_send_sge = 2,
              .max_recv_sge = 1},
      .qp_type = IBV_QPT_RC};
  uint32_t asked = atomic_load(&port->inline_max);
  for (;; asked /= 2) {
    attributes.cap.max_inline_data = asked;
    pair->qp = port->v->create_qp(port->pd, &attributes);
    if (pair->qp != NULL || errno != EINVAL || asked == 0) break;
  }
  if (pair->qp == NULL) return gli_ibv_lacks("a queue pair");
  atomic_store(&port->inline_max, asked);
  pair->inline_max = attributes.cap.max_inline_data;
  if (pair->inline_max >= GLI_IBV_SLOT_BYTES)
    pair->inline_max = GLI_IBV_SLOT_BYTES - 1; /* longer data takes a slot */
  return NULL;
}

const char *gli_ibv_queue_make(gli_ibv_pair *pair) {
  const char *what = gli_ibv_qp_psn(&pair->psn);
  if (what == NULL) what = queue_create(pair);
  if (what == NULL)
    what = gli_ibv_qp_init(&pair->t->port, pair->qp,
                           IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
  if (what == NULL && !gli_ibv_post_own(pair)) what = "receive buffers";
  return what;
}

const char *gli_ibv_queue_connect(gli_ibv_pair *pair) {
  return gli_ibv_qp_connect(&pair->t->port, pair->qp, pair->psn, &pair->peer);
}

uint8_t gli_ibv_reads_begun(const gli_ibv_pair *pair) {
  return gli_ibv_qp_reads(&pair->t->port, &pair->peer);
}

void gli_ibv_offer_write(const gli_ibv_pair *pair, uint8_t *data) {
  gli_ibv_qp_offer(&pair->t->port, pair->qp, pair->psn, data);
  data[7] = pair->t->checksum;
  data[38] = (uint8_t)pair->t->rails.n;
}

/* With an SRQ, completions are taken first: a driver may discard those of a
 * queue pair that it destroys, and their buffers with them. */
void gli_ibv_queue_drop(gli_ibv_pair *pair) {
  gli_ibv *t = pair->t;
  if (pair->setup != GLI_IBV_SETTLED && !gli_ibv_job_cancel(t, &pair->job)) {
    if (pair->setup == GLI_IBV_WORKING) pair->setup = GLI_IBV_DOOMED;
    return;
  }
  pair->setup = GLI_IBV_SETTLED;
  if (pair->lanes != NULL) gli_ibv_lanes_drop(pair->lanes);
  pair->lanes = NULL;
  if (pair->qp == NULL) return;
  struct ibv_qp_attr to = {.qp_state = IBV_QPS_ERR};
  (void)t->port.v->modify_qp(pair->qp, &to, IBV_QP_STATE);
  if (pair->own == NULL) gli_ibv_stash_all(t, 0);
  pair->qp_leaked = t->port.v->destroy_qp(pair->qp) != 0;
  pair->qp = NULL;
  for (int i = 0; i < GLI_IBV_SLOTS && !pair->qp_leaked; i++) {
    if (pair->slot[i] != NULL) gli_ibv_slot_free(pair, pair->slot[i]);
    pair->slot[i] = NULL;
  }
}
