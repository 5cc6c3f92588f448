/* The peer of fuzz_ibv: the other end of the library's queue pair, by a device
 * of its own. It does what a peer's program can do: sends any bytes as a frame,
 * writes and reads memory whose key it has, posts buffers or none. */
#ifndef TESTS_FUZZ_IBV_PEER_H
#define TESTS_FUZZ_IBV_PEER_H

#include "ibv_device.h"
#include "transport_ibv/frame.h"

enum {
  PEER_SLOTS = 16,          /* each way */
  PEER_OPEN_BYTES = 1 << 16 /* of memory that the library may reach */
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
  uint32_t owed;         /* credits: buffers that were given again */
  uint32_t asked;        /* number of the last message that asked where */
  bool placed;           /* a place was told: */
  uint64_t place;
  uint32_t place_key;
  uint8_t open[PEER_OPEN_BYTES];
} peer_end;

extern peer_end peer;

enum { PEER_PSN = 0x123456 };

/* Opens the device and makes the queue pair. */
void peer_open(void);
void peer_close(void);
/* Connects the peer's queue pair to the one that the library offered. */
void peer_connect(uint32_t number, uint32_t psn);
/* Its queue pair fails: what the library sends does not arrive any more. */
void peer_break(void);

/* Sends a frame, if there is a slot for it. */
void peer_send(const uint8_t *frame, size_t bytes);
/* Writes to memory of the library, or reads it. */
void peer_reach(bool writes, uint64_t remote, uint32_t rkey, size_t bytes);
/* Posts at most `most` receive buffers. */
void peer_give(uint32_t most);
/* Takes the frames that have arrived. */
void peer_look(void);

#endif
