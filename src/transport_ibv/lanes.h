/* Lanes: the queue pairs of a pair on the rails (rails.h), which have no receive
 * buffers. They are made with the first message that is long enough, and tried
 * before use. A sender whose payload is registered offers its address and its
 * key on each lane; the receiver reads the payload in parts over all lanes, each
 * part over the lane that is free next. A lane that fails is not used any more,
 * and its parts are read over the others. So reads are the only work requests,
 * and only the receiver knows which lanes work. An end that closes the pair
 * leaves its lanes at once, and payloads that have not been read are sent in
 * frames.
 *
 * The ends set up lanes by notes in frames of the first queue pair. All functions
 * except jobs are for the thread that polls. None makes upcalls. */
#ifndef GLI_TRANSPORT_IBV_LANES_H
#define GLI_TRANSPORT_IBV_LANES_H

#include "transport_ibv/ibv_jobs.h"
#include "transport_ibv/qp.h"
#include "transport_ibv/rails.h"

struct gli_ibv;
struct gli_ibv_pair;

enum {
  GLI_IBV_LANE_DEPTH = 4, /* reads in progress, per lane */
  GLI_IBV_LANE_MESSAGES = 8,
  GLI_IBV_LANE_BYTES = 52, /* length of a lane's part of a note */
  GLI_IBV_LANE_NOTE_MAX = GLI_IBV_RAILS_MAX * GLI_IBV_LANE_BYTES,
  /* Address and keys of a payload. */
  GLI_IBV_LANE_KEYS_MAX = 8 + 4 * GLI_IBV_RAILS_MAX
};

/* Notes, in this order. */
typedef enum gli_ibv_lane_note {
  GLI_IBV_LANES_NONE,
  GLI_IBV_LANES_OFFER, /* queue pairs of the sender, and memory to try them */
  GLI_IBV_LANES_CONNECTED, /* lanes (4), as bits, that are connected */
  GLI_IBV_LANES_READY,     /* lanes (4) over which the sender can read */
  GLI_IBV_LANES_LEFT       /* the sender has left its lanes */
} gli_ibv_lane_note;

typedef enum gli_ibv_lanes_state {
  GLI_IBV_LANES_MAKING, /* a thread makes queue pairs */
  GLI_IBV_LANES_MADE,
  GLI_IBV_LANES_CONNECTING, /* a thread connects them */
  GLI_IBV_LANES_WORK,
  GLI_IBV_LANES_LEAVING, /* without queue pairs; LEFT is due */
  GLI_IBV_LANES_DOOMED,  /* a thread has them, and they end when it returns */
  GLI_IBV_LANES_ENDED
} gli_ibv_lanes_state;

/* Part of a payload, read over a lane. */
typedef struct gli_ibv_read {
  uint32_t message; /* GLI_IBV_LANE_MESSAGES: a trial */
  uint32_t bytes;
  uint64_t at;
} gli_ibv_read;

/* The peer's end of a lane. */
typedef struct gli_ibv_far {
  gli_ibv_peer peer;
  uint64_t trial; /* address of memory to be read */
  uint32_t key;
} gli_ibv_far;

typedef struct gli_ibv_lane {
  struct gli_ibv_lanes *of;
  uint32_t rail;
  struct ibv_qp *qp;
  uint32_t psn;
  gli_ibv_far far;
  uint32_t posted, done; /* numbers of reads */
  gli_ibv_read read[GLI_IBV_LANE_DEPTH];
} gli_ibv_lane;

/* Payload that is being read. */
typedef struct gli_ibv_fetch {
  uint64_t bytes, begun, done; /* bytes: 0 if none */
  uint32_t part;               /* length of a part */
  uint8_t *to;
  uint64_t from;
  uint32_t lkey[GLI_IBV_RAILS_MAX], rkey[GLI_IBV_RAILS_MAX]; /* by lane */
} gli_ibv_fetch;

typedef struct gli_ibv_lanes {
  gli_ibv_job job; /* first */
  struct gli_ibv *t;
  struct gli_ibv_pair *pair;
  void (*busy)(struct gli_ibv_pair *pair);
  struct gli_ibv_lanes *next;
  uint32_t self, other; /* the ranks */
  gli_ibv_lanes_state state;
  gli_ibv_lane lane[GLI_IBV_RAILS_MAX];
  uint32_t n;
  gli_ibv_far far[GLI_IBV_RAILS_MAX]; /* the peer's offer */
  uint32_t n_far;
  gli_ibv_lane_note heard, said;
  /* Sets of lanes, as bits: connected at each end, tried so far, tried now,
   * usable by this end, as last said, and usable by the peer. */
  uint32_t connected, far_connected, begun, tried, up, up_said, far_up;
  gli_ibv_fetch fetch[GLI_IBV_LANE_MESSAGES];
  gli_ibv_read again[GLI_IBV_RAILS_MAX * GLI_IBV_LANE_DEPTH]; /* parts */
  uint32_t n_again, turn;
  bool failed;   /* `why`: a payload cannot be read */
  char why[160]; /* cause of the last failure of a lane */
} gli_ibv_lanes;

/* Begins to set up lanes. Returns NULL if out of memory. `busy` is called when
 * there is a note to be sent, or a part to be read. */
gli_ibv_lanes *gli_ibv_lanes_begin(struct gli_ibv_pair *pair,
                                   void (*busy)(struct gli_ibv_pair *pair));
/* Destroys the queue pairs: nothing is read or written for them after the
 * return. Threads that have them end them later. */
void gli_ibv_lanes_drop(gli_ibv_lanes *lanes);
/* Destroys the queue pairs of lanes that work; the next note tells the peer. */
void gli_ibv_lanes_leave(gli_ibv_lanes *lanes);
void gli_ibv_lanes_free(gli_ibv_rails *rails);
void gli_ibv_lanes_abandon(gli_ibv_rails *rails);
/* Handles the loss of a rail. */
void gli_ibv_lanes_lose(gli_ibv_rails *rails, uint32_t rail, const char *how);

/* Writes the next note, of up to GLI_IBV_LANE_NOTE_MAX bytes. */
gli_ibv_lane_note gli_ibv_lanes_say(gli_ibv_lanes *lanes, uint8_t *data,
                                    size_t *bytes);
/* Handles a note. Returns false if it is invalid. */
bool gli_ibv_lanes_hear(gli_ibv_lanes *lanes, uint32_t note,
                        const uint8_t *data, size_t bytes);

/* lane_reads.c */
/* Writes address and keys of a payload. Returns their length; 0 if it cannot be
 * read over lanes. */
size_t gli_ibv_lanes_keys(gli_ibv_lanes *lanes, const void *payload,
                          size_t bytes, uint8_t *keys);
/* Returns true if the peer may offer keys of that length. */
bool gli_ibv_lanes_allow(const gli_ibv_lanes *lanes, size_t keys_bytes);
/* Begins to read a payload. Returns false if it is to come another way. */
bool gli_ibv_lanes_fetch(gli_ibv_lanes *lanes, uint32_t message, void *to,
                         size_t bytes, const uint8_t *keys);
/* Posts and completes reads. Returns true if it must be called again soon. */
bool gli_ibv_lanes_serve(gli_ibv_lanes *lanes);
/* Returns true once if all of the payload has been read. */
bool gli_ibv_lanes_fetched(gli_ibv_lanes *lanes, uint32_t message);
/* Handles the completion of a read. */
void gli_ibv_read_done(const struct ibv_wc *wc);
/* Gives up a lane, with the cause. */
void gli_ibv_lane_fail(gli_ibv_lane *lane, const char *why);
/* Returns "RDMA", or a text with the number of lanes that this end reads over. */
const char *gli_ibv_lanes_route(const gli_ibv_lanes *lanes);
/* Logs the lanes that this end reads over. */
void gli_ibv_lanes_log(const gli_ibv_lanes *lanes);

#endif
