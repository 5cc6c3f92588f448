/* States of queue pairs, and offers. */
#include "transport_ibv/qp.h"

#include <errno.h>
#include <string.h>

#include "core/bytes.h"
#include "core/random.h"

enum {
  PSN_MASK = 0xffffff,
  HOP_LIMIT = 64,
  /* Encoded by the tables of InfiniBand: 0.64 ms before a peer without a buffer
   * is tried again, without end. */
  RNR_TIMER = 12,
  RNR_RETRIES = 7
};

const char *gli_ibv_qp_psn(uint32_t *psn) {
  const char *what;
  int code = gli_random(psn, sizeof *psn, &what);
  if (code != 0) {
    errno = code;
    return "a random number";
  }
  *psn &= PSN_MASK;
  return NULL;
}

static int qp_to(const gli_ibv_port *port, struct ibv_qp *qp,
                 struct ibv_qp_attr *to, int mask) {
  int code = port->v->modify_qp(qp, to, mask);
  if (code != 0) errno = code;
  return code;
}

const char *gli_ibv_qp_init(const gli_ibv_port *port, struct ibv_qp *qp,
                            unsigned access) {
  struct ibv_qp_attr to = {.qp_state = IBV_QPS_INIT,
                           .pkey_index = port->pkey_index,
                           .port_num = port->number,
                           .qp_access_flags = access};
  int code = qp_to(
      port, qp, &to,
      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
  return code != 0 ? "an initialised queue pair" : NULL;
}

/* Fills in the way to the peer's port. Returns false if InfiniBand needs a
 * router, and the peer's GID names none. */
static bool qp_find_way(const gli_ibv_port *port, const gli_ibv_peer *peer,
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

uint8_t gli_ibv_qp_reads(const gli_ibv_port *port, const gli_ibv_peer *peer) {
  return reads_least(port->reads.begun, peer->reads.served);
}

static const char *qp_to_receive(const gli_ibv_port *port, struct ibv_qp *qp,
                                 const gli_ibv_peer *peer) {
  struct ibv_qp_attr to = {
      .qp_state = IBV_QPS_RTR,
      .path_mtu = peer->mtu < port->mtu ? peer->mtu : port->mtu,
      .dest_qp_num = peer->number,
      .rq_psn = peer->psn,
      .max_dest_rd_atomic = reads_least(port->reads.served, peer->reads.begun),
      .min_rnr_timer = RNR_TIMER};
  if (!qp_find_way(port, peer, &to.ah_attr)) {
    errno = EHOSTUNREACH;
    return "a router's LID in the other rank's GID";
  }
  int code = qp_to(port, qp, &to,
                   IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
                       IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
  return code != 0 ? "a path to the other rank's port" : NULL;
}

const char *gli_ibv_qp_connect(const gli_ibv_port *port, struct ibv_qp *qp,
                               uint32_t psn, const gli_ibv_peer *peer) {
  const char *what = qp_to_receive(port, qp, peer);
  if (what != NULL) return what;
  struct ibv_qp_attr to = {.qp_state = IBV_QPS_RTS,
                           .sq_psn = psn,
                           .timeout = (uint8_t)port->wishes.ack_timeout,
                           .retry_cnt = (uint8_t)port->wishes.retries,
                           .rnr_retry = RNR_RETRIES,
                           .max_rd_atomic = gli_ibv_qp_reads(port, peer)};
  int code =
      qp_to(port, qp, &to,
            IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
  return code != 0 ? "a queue pair ready to send" : NULL;
}

/* ---- offers -------------------------------------------------------------- */

/* An offer, little-endian:  5 port, MTU, checksums  8 number  12 PSN  16 GID
 *   32 LID  36 reads begun, served  38 number of rails. Bits of the port: 1
 *   InfiniBand, 2 needs the GRH. */
enum { PORT_INFINIBAND = 1, PORT_GRH = 2 };

void gli_ibv_qp_offer(const gli_ibv_port *port, const struct ibv_qp *qp,
                      uint32_t psn, uint8_t *data) {
  data[5] = (uint8_t)((port->infiniband ? PORT_INFINIBAND : 0) |
                      (port->needs_grh ? PORT_GRH : 0));
  data[6] = (uint8_t)port->mtu;
  gli_put_u32(data + 8, qp->qp_num);
  gli_put_u32(data + 12, psn);
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
                         .reads = {data[36], data[37]},
                         .rails = data[38]};
  memcpy(peer->gid.raw, data + 16, sizeof peer->gid.raw);
  return peer->mtu >= IBV_MTU_256 && peer->mtu <= IBV_MTU_4096;
}
