#include "ibv_peer.h"

#include <string.h>

#include "core/bytes.h"
#include "transport_ibv/lanes.h"

enum { ENTRIES = 4 * PEER_SLOTS };

peer_end peer;
static uint8_t peer_slots[2 * PEER_SLOTS][GLI_IBV_SLOT_BYTES];

/* Any call of the device may fail, also one of the peer. */
static bool peer_modify(struct ibv_qp *qp, struct ibv_qp_attr *to, int mask) {
  return ibv_modify_qp(qp, to, mask) == 0;
}

static struct ibv_qp *peer_make_qp(void) {
  struct ibv_qp_init_attr as = {.send_cq = peer.cq,
                                .recv_cq = peer.cq,
                                .cap = {.max_send_wr = PEER_SLOTS,
                                        .max_recv_wr = PEER_SLOTS,
                                        .max_send_sge = 1,
                                        .max_recv_sge = 1},
                                .qp_type = IBV_QPT_RC,
                                .sq_sig_all = 1};
  struct ibv_qp *qp = ibv_create_qp(peer.pd, &as);
  struct ibv_qp_attr to = {
      .qp_state = IBV_QPS_INIT,
      .port_num = 1,
      .qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ};
  fuzz_check(peer_modify(qp, &to,
                         IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                             IBV_QP_ACCESS_FLAGS),
             "the peer has a queue pair");
  return qp;
}

void peer_open(void) {
  struct ibv_device **list = ibv_get_device_list(NULL);
  peer.context = ibv_open_device(list[0]);
  ibv_free_device_list(list);
  peer.pd = ibv_alloc_pd(peer.context);
  peer.cq = ibv_create_cq(peer.context, ENTRIES, NULL, NULL, 0);
  peer.slots_mr = ibv_reg_mr(peer.pd, peer_slots, sizeof peer_slots,
                             IBV_ACCESS_LOCAL_WRITE);
  peer.open_mr = ibv_reg_mr(peer.pd, peer.open, sizeof peer.open,
                            IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                IBV_ACCESS_REMOTE_READ);
  peer.qp = peer_make_qp();
  for (int i = 0; i < PEER_LANES; i++) peer.lane[i] = peer_make_qp();
}

void peer_close(void) {
  device_heal();
  if (peer.context == NULL) return;
  (void)ibv_destroy_qp(peer.qp);
  for (int i = 0; i < PEER_LANES; i++) (void)ibv_destroy_qp(peer.lane[i]);
  (void)ibv_dereg_mr(peer.open_mr);
  (void)ibv_dereg_mr(peer.slots_mr);
  (void)ibv_destroy_cq(peer.cq);
  (void)ibv_dealloc_pd(peer.pd);
  (void)ibv_close_device(peer.context);
  peer.context = NULL;
}

/* Connects a queue pair to one of the library's. */
static bool peer_join(struct ibv_qp *qp, uint32_t number, uint32_t psn) {
  struct ibv_qp_attr to = {
      .qp_state = IBV_QPS_RTR,
      .path_mtu = IBV_MTU_1024,
      .dest_qp_num = number,
      .rq_psn = psn & 0xffffff,
      .max_dest_rd_atomic = 1,
      .ah_attr = {.is_global = 1,
                  .port_num = 1,
                  .grh = {.dgid = standin_port_at(0)->gid[1],
                          .sgid_index = 1,
                          .hop_limit = 1}}};
  if (!peer_modify(qp, &to,
                   IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
                       IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER))
    return false;
  to = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS,
                            .sq_psn = PEER_PSN,
                            .timeout = 1,
                            .retry_cnt = 1,
                            .rnr_retry = 7,
                            .max_rd_atomic = 1};
  return peer_modify(qp, &to,
                     IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT |
                         IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                         IBV_QP_MAX_QP_RD_ATOMIC);
}

void peer_connect(uint32_t number, uint32_t psn) {
  if (peer.context == NULL) return;
  if (!peer.connected && number != 0)
    peer.connected = peer_join(peer.qp, number, psn);
  for (int i = 0; i < PEER_LANES; i++)
    if (!peer.joined[i] && peer.lane_number[i] != 0)
      peer.joined[i] =
          peer_join(peer.lane[i], peer.lane_number[i], peer.lane_psn[i]);
}

void peer_break(void) {
  struct ibv_qp_attr to = {.qp_state = IBV_QPS_ERR};
  if (peer.context != NULL) (void)peer_modify(peer.qp, &to, IBV_QP_STATE);
}

/* ---- actions ------------------------------------------------------------- */

static void peer_post(struct ibv_send_wr *wr, size_t bytes) {
  struct ibv_send_wr *bad;
  uint8_t *slot = peer_slots[peer.posted % PEER_SLOTS];
  struct ibv_sge part = {.addr = (uintptr_t)slot,
                         .length = (uint32_t)bytes,
                         .lkey = peer.slots_mr->lkey};
  wr->sg_list = &part;
  wr->num_sge = 1;
  if (ibv_post_send(peer.qp, wr, &bad) == 0) peer.posted++;
}

static bool peer_may_post(void) {
  return peer.context != NULL && peer.connected &&
         peer.posted - peer.done < PEER_SLOTS;
}

void peer_send(const uint8_t *frame, size_t bytes) {
  struct ibv_send_wr wr = {.opcode = IBV_WR_SEND};
  if (!peer_may_post()) return;
  if (bytes > 0) memcpy(peer_slots[peer.posted % PEER_SLOTS], frame, bytes);
  peer_post(&wr, bytes);
}

void peer_reach(bool writes, uint64_t remote, uint32_t rkey, size_t bytes) {
  struct ibv_send_wr wr = {
      .opcode = writes ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ,
      .wr.rdma = {.remote_addr = remote, .rkey = rkey}};
  if (peer_may_post()) peer_post(&wr, bytes);
}

void peer_reach_lane(uint32_t lane, bool writes, uint64_t beside,
                     uint32_t other, size_t bytes) {
  struct ibv_sge part = {.addr = (uintptr_t)peer.open,
                         .length = (uint32_t)bytes,
                         .lkey = peer.context != NULL ? peer.open_mr->lkey : 0};
  struct ibv_send_wr *bad,
      wr = {.sg_list = &part,
            .num_sge = 1,
            .opcode = writes ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ,
            .wr.rdma = {.remote_addr = peer.payload + beside,
                        .rkey = peer.payload_key[lane] + other}};
  if (peer.context == NULL || !peer.joined[lane] ||
      peer.lane_posted[lane] - peer.lane_done[lane] == PEER_SLOTS)
    return;
  if (ibv_post_send(peer.lane[lane], &wr, &bad) == 0) peer.lane_posted[lane]++;
}

size_t peer_put_lanes(uint8_t *data, uint32_t n) {
  for (uint32_t i = 0; i < n; i++, data += GLI_IBV_LANE_BYTES) {
    data[6] = IBV_MTU_1024;
    gli_put_u32(data + 8, peer.context != NULL ? peer.lane[i]->qp_num : 7);
    gli_put_u32(data + 12, PEER_PSN);
    memcpy(data + 16, standin_port_at(0)->gid[1].raw, 16);
    data[36] = data[37] = 1;
    gli_put_u64(data + GLI_IBV_OFFER_BYTES, (uintptr_t)peer.open);
    gli_put_u32(data + GLI_IBV_OFFER_BYTES + 8,
                peer.context != NULL ? peer.open_mr->rkey : 7);
  }
  return (size_t)n * GLI_IBV_LANE_BYTES;
}

void peer_give(uint32_t most) {
  struct ibv_recv_wr *bad;
  if (peer.context == NULL) return;
  for (; most > 0 && peer.given - peer.taken < PEER_SLOTS; most--) {
    uint8_t *slot = peer_slots[PEER_SLOTS + peer.given % PEER_SLOTS];
    struct ibv_sge part = {.addr = (uintptr_t)slot,
                           .length = GLI_IBV_SLOT_BYTES,
                           .lkey = peer.slots_mr->lkey};
    struct ibv_recv_wr wr = {.sg_list = &part, .num_sge = 1};
    if (ibv_post_recv(peer.qp, &wr, &bad) != 0) return;
    if (peer.given++ >= PEER_SLOTS) peer.owed++;
  }
}

static void peer_read(const uint8_t *frame, size_t bytes) {
  fuzz_check(bytes >= GLI_IBV_FRAME_HEAD && frame[0] > 0 &&
                 frame[0] < GLI_IBV_KINDS && frame[1] == 0,
             "the library sends frames");
  const uint8_t *data = frame + GLI_IBV_FRAME_HEAD;
  bool offers = frame[0] == GLI_IBV_LANES &&
                gli_get_u32(frame + 4) == GLI_IBV_LANES_OFFER;
  size_t n = offers ? (bytes - GLI_IBV_FRAME_HEAD) / GLI_IBV_LANE_BYTES : 0;
  for (size_t i = 0; i < n && i < PEER_LANES; i++) {
    peer.lane_number[i] = gli_get_u32(data + i * GLI_IBV_LANE_BYTES + 8);
    peer.lane_psn[i] = gli_get_u32(data + i * GLI_IBV_LANE_BYTES + 12);
  }
  if (frame[0] == GLI_IBV_ASK) {
    const uint8_t *keys = data + GLI_HEADER_BYTES;
    peer.asked = gli_get_u32(frame + 4);
    size_t n_keys = (bytes - GLI_IBV_FRAME_HEAD - GLI_HEADER_BYTES) / 4;
    if (n_keys > 0) peer.payload = gli_get_u64(keys);
    for (size_t i = 0; i + 2 < n_keys && i < PEER_LANES; i++)
      peer.payload_key[i] = gli_get_u32(keys + 8 + 4 * i);
  }
  if (frame[0] != GLI_IBV_PLACE) return;
  fuzz_check(bytes == GLI_IBV_FRAME_HEAD + GLI_IBV_PLACE_BYTES,
             "a place is as long as that");
  peer.placed = true;
  peer.place = gli_get_u64(data);
  peer.place_key = gli_get_u32(data + 8);
}

void peer_look(void) {
  struct ibv_wc wc;
  while (peer.context != NULL && ibv_poll_cq(peer.cq, 1, &wc) == 1) {
    if (wc.opcode != IBV_WC_RECV) {
      uint32_t *done = &peer.done;
      for (int i = 0; i < PEER_LANES; i++)
        if (wc.qp_num == peer.lane[i]->qp_num) done = &peer.lane_done[i];
      ++*done;
      continue;
    }
    const uint8_t *slot = peer_slots[PEER_SLOTS + peer.taken++ % PEER_SLOTS];
    if (wc.status == IBV_WC_SUCCESS) peer_read(slot, wc.byte_len);
  }
}
