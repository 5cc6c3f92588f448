/* The peer of fuzz_ibv: the other end of the library's queue pair, with a
 * device context of the peer. It can do what a peer's program can: send any
 * bytes as a frame, write and read memory whose key it has, and post buffers or
 * none. */
#ifndef TESTS_FUZZ_IBV_PEER_H
#define TESTS_FUZZ_IBV_PEER_H

#include "ibv_device.h"
#include "transport_ibv/frame.h"

enum {
  PEER_SLOTS = 16, /* each way */
  PEER_LANES = 2,
  PEER_OPEN_BYTES = 1 << 16 /* memory that the library may access */
};

typedef struct peer_end {
  struct ibv_context *context;
  struct ibv_pd *pd;
  struct ibv_cq *cq;
  struct ibv_qp *qp;
  struct ibv_mr *slots_mr, *open_mr;
  bool connected;
  uint32_t posted, done; /* work requests */
  uint32_t given, taken; /* buffers */
  uint32_t owed;         /* credits: reposted buffers */
  uint32_t asked;        /* number of the last message that asked for a place */
  bool placed;           /* the library sent a place: */
  uint64_t place;
  uint32_t place_key;
  /* Lanes, those of the library, and the payload that it offered last. */
  struct ibv_qp *lane[PEER_LANES];
  bool joined[PEER_LANES];
  uint32_t lane_posted[PEER_LANES], lane_done[PEER_LANES];
  uint32_t lane_number[PEER_LANES], lane_psn[PEER_LANES];
  uint64_t payload;
  uint32_t payload_key[PEER_LANES];
  uint8_t open[PEER_OPEN_BYTES];
} peer_end;

extern peer_end peer;

enum { PEER_PSN = 0x123456 };

/* Opens the device and makes the queue pair. */
void peer_open(void);
void peer_close(void);
/* Connects the peer's queue pair to the library's. */
void peer_connect(uint32_t number, uint32_t psn);
/* Fails the peer's queue pair: the library's messages no longer arrive. */
void peer_break(void);

/* Sends a frame if a slot is free. */
void peer_send(const uint8_t *frame, size_t bytes);
/* Writes to memory of the library, or reads it. */
void peer_reach(bool writes, uint64_t remote, uint32_t rkey, size_t bytes);
/* Writes or reads over a lane: the payload that the library offered, or memory
 * beside it. */
void peer_reach_lane(uint32_t lane, bool writes, uint64_t beside,
                     uint32_t other, size_t bytes);
/* Writes the offer of the peer's lanes. Returns its length. */
size_t peer_put_lanes(uint8_t *data, uint32_t n);
/* Posts at most `most` receive buffers. */
void peer_give(uint32_t most);
/* Takes the frames that have arrived. */
void peer_look(void);

#endif
