/* Steps that connect a queue pair of one port to that of a peer. */
#ifndef GLI_TRANSPORT_IBV_QP_H
#define GLI_TRANSPORT_IBV_QP_H

#include "transport_ibv/port.h"

/* The peer's offer, as checked. */
typedef struct gli_ibv_peer {
  uint32_t number, psn; /* number and first PSN of its queue pair */
  bool infiniband, needs_grh, checksum;
  enum ibv_mtu mtu; /* 0: no offer has come yet */
  gli_ibv_reads reads;
  uint8_t rails; /* number of its rails (rails.h); 0: none */
  uint16_t lid;
  union ibv_gid gid;
} gli_ibv_peer;

/* Chooses the first PSN. Like the next two, returns NULL, or the failed part with
 * errno. */
const char *gli_ibv_qp_psn(uint32_t *psn);
/* Prepares a new queue pair for the port. `access`: what the peer may do. */
const char *gli_ibv_qp_init(const gli_ibv_port *port, struct ibv_qp *qp,
                            unsigned access);
/* Connects it to the peer's. May take seconds. */
const char *gli_ibv_qp_connect(const gli_ibv_port *port, struct ibv_qp *qp,
                               uint32_t psn, const gli_ibv_peer *peer);
/* Returns the number of reads that this end begins at once: as many as the
 * devices of both ends can. 0: none. */
uint8_t gli_ibv_qp_reads(const gli_ibv_port *port, const gli_ibv_peer *peer);

/* Encode the offer of a queue pair, from byte 5 on, and decode one. Decoding
 * returns false if the offer is invalid. */
enum { GLI_IBV_OFFER_BYTES = 40 };
void gli_ibv_qp_offer(const gli_ibv_port *port, const struct ibv_qp *qp,
                      uint32_t psn, uint8_t *data);
bool gli_ibv_offer_read(const uint8_t *data, gli_ibv_peer *peer);

#endif
