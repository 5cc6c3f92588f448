/* Creation, connection and destruction of queue pairs. */
#include <errno.h>
#include <string.h>

#include "core/bytes.h"
#include "core/random.h"
#include "transport_ibv/ibv.h"

enum {
  PSN_MASK = 0xffffff,
  HOP_LIMIT = 64,
  /* Encoded by the tables of InfiniBand: 0.64 ms before a peer without a buffer
   * is tried again, without end. */
  RNR_TIMER = 12,
  RNR_RETRIES = 7
};

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

static int queue_to(gli_ibv_pair *pair, struct ibv_qp_attr *to, int mask) {
  int code = pair->t->port.v->modify_qp(pair->qp, to, mask);
  if (code != 0) errno = code;
  return code;
}

static const char *queue_init(gli_ibv_pair *pair) {
  struct ibv_qp_attr to = {
      .qp_state = IBV_QPS_INIT,
      .pkey_index = pair->t->port.pkey_index,
      .port_num = pair->t->port.number,
      .qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ};
  int code = queue_to(
      pair, &to,
      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
  return code != 0 ? "an initialised queue pair" : NULL;
}

const char *gli_ibv_queue_make(gli_ibv_pair *pair) {
  const char *what;
  uint32_t psn;
  int code = gli_random(&psn, sizeof psn, &what);
  if (code != 0) {
    errno = code;
    return "a random number";
  }
  pair->psn = psn & PSN_MASK;
  what = queue_create(pair);
  if (what == NULL) what = queue_init(pair);
  if (what == NULL && !gli_ibv_post_own(pair)) what = "receive buffers";
  return what;
}

/* Fills in the way to the peer's port. Returns false if InfiniBand needs a
 * router, and the peer's GID names none. */
static bool queue_find_way(const gli_ibv_port *port, const gli_ibv_peer *peer,
                           struct ibv_ah_attr *way) {
  *way = (struct ibv_ah_attr){.sl = (uint8_t)port->wishes.service_level,
                              .port_num = port->number};
  bool near =
      port->infiniband && gli_ibv_gid_same_subnet(&port->gid, &peer->gid);
  if (port->infiniband)
    way->dlid = near ? peer->lid : gli_ibv_gid_router(&peer->gid);
  if (!near || port->needs_grh || peer->needs_grh) {
    way->is_global = 1;
    way->grh = (struct ibv_global_route){
        .dgid = peer->gid,
        .sgid_index = port->gid_index,
        .hop_limit = HOP_LIMIT,
        .traffic_class = (uint8_t)port->wishes.traffic_class};
  }
  return !port->infiniband || way->dlid != 0;
}

static uint8_t reads_least(uint8_t a, uint8_t b) {
  return a < b ? a : b;
}

uint8_t gli_ibv_reads_begun(const gli_ibv_pair *pair) {
  return reads_least(pair->t->port.reads.begun, pair->peer.reads.served);
}

static const char *queue_to_receive(gli_ibv_pair *pair) {
  const gli_ibv_port *port = &pair->t->port;
  const gli_ibv_peer *peer = &pair->peer;
  struct ibv_qp_attr to = {
      .qp_state = IBV_QPS_RTR,
      .path_mtu = peer->mtu < port->mtu ? peer->mtu : port->mtu,
      .dest_qp_num = peer->number,
      .rq_psn = peer->psn,
      .max_dest_rd_atomic = reads_least(port->reads.served, peer->reads.begun),
      .min_rnr_timer = RNR_TIMER};
  if (!queue_find_way(port, peer, &to.ah_attr)) {
    errno = EHOSTUNREACH;
    return "a router's LID in the other rank's GID";
  }
  int code = queue_to(pair, &to,
                      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
                          IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                          IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
  return code != 0 ? "a path to the other rank's port" : NULL;
}

const char *gli_ibv_queue_connect(gli_ibv_pair *pair) {
  const gli_ibv_wishes *wishes = &pair->t->port.wishes;
  const char *what = queue_to_receive(pair);
  if (what != NULL) return what;
  struct ibv_qp_attr to = {.qp_state = IBV_QPS_RTS,
                           .sq_psn = pair->psn,
                           .timeout = (uint8_t)wishes->ack_timeout,
                           .retry_cnt = (uint8_t)wishes->retries,
                           .rnr_retry = RNR_RETRIES,
                           .max_rd_atomic = gli_ibv_reads_begun(pair)};
  int code = queue_to(pair, &to,
                      IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT |
                          IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                          IBV_QP_MAX_QP_RD_ATOMIC);
  return code != 0 ? "a queue pair ready to send" : NULL;
}

/* ---- offers -------------------------------------------------------------- */

/* An offer, little-endian:  5 port, MTU, checksums  8 number  12 PSN  16 GID
 *   32 LID  36 reads begun, served. Bits of the port: 1 InfiniBand, 2 needs the
 *   GRH. */
enum { PORT_INFINIBAND = 1, PORT_GRH = 2 };

void gli_ibv_offer_write(const gli_ibv_pair *pair, uint8_t *data) {
  const gli_ibv_port *port = &pair->t->port;
  data[5] = (uint8_t)((port->infiniband ? PORT_INFINIBAND : 0) |
                      (port->needs_grh ? PORT_GRH : 0));
  data[6] = (uint8_t)port->mtu;
  data[7] = pair->t->checksum;
  gli_put_u32(data + 8, pair->qp->qp_num);
  gli_put_u32(data + 12, pair->psn);
  memcpy(data + 16, port->gid.raw, sizeof port->gid.raw);
  gli_put_u32(data + 32, port->lid);
  data[36] = port->reads.begun;
  data[37] = port->reads.served;
}

bool gli_ibv_offer_read(const uint8_t *data, gli_ibv_peer *peer) {
  *peer = (gli_ibv_peer){.infiniband = (data[5] & PORT_INFINIBAND) != 0,
                         .needs_grh = (data[5] & PORT_GRH) != 0,
                         .mtu = (enum ibv_mtu)data[6],
                         .checksum = data[7] != 0,
                         .number = gli_get_u32(data + 8),
                         .psn = gli_get_u32(data + 12) & PSN_MASK,
                         .lid = (uint16_t)gli_get_u32(data + 32),
                         .reads = {data[36], data[37]}};
  memcpy(peer->gid.raw, data + 16, sizeof peer->gid.raw);
  return peer->mtu >= IBV_MTU_256 && peer->mtu <= IBV_MTU_4096;
}

/* ---- the end ------------------------------------------------------------- */

/* With an SRQ, completions are taken first: a driver may discard those of a
 * queue pair that it destroys, and their buffers with them. */
void gli_ibv_queue_drop(gli_ibv_pair *pair) {
  gli_ibv *t = pair->t;
  if (pair->setup != GLI_IBV_SETTLED && !gli_ibv_job_cancel(t, &pair->job)) {
    if (pair->setup == GLI_IBV_WORKING) pair->setup = GLI_IBV_DOOMED;
    return;
  }
  pair->setup = GLI_IBV_SETTLED;
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
