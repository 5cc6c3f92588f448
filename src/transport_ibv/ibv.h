/* Internals of the RDMA transport: reliable connections over InfiniBand or
 * RoCE, beside TCP.
 *
 * Each pair has a TCP connection, of a TCP transport below this one. Over it,
 * the ends negotiate a queue pair (ibv_connect.c), with the proofs that any TCP
 * pair requires. It reports at once that the peer has gone, and carries BYE and
 * ABORT. If the ends fail to set up a queue pair, it carries all messages:
 * until this is decided they wait here, so none is lost.
 *
 * Frames. A queue pair carries SENDs of frames (frame.h) into receive buffers
 * that pairs share (ibv_shared.h). A credit allows one frame. Short messages are
 * one frame, longer ones several. From LONG_MIN bytes on, the sender first asks
 * the receiver for the destination of the payload. If that is registered memory,
 * the sender writes the payload there (RDMA write). With several rails the
 * receiver reads the longest payloads instead (lanes.h).
 *
 * Failures are recorded when they are detected (gli_ibv_pair_break) and
 * reported at the end of poll. Upcalls may close any pair, so `pair->live` must
 * be checked after each. The memory of pairs is freed at the end of a poll that
 * has found the completion queue empty after their queue pairs were destroyed.
 * If the device refused to destroy a queue pair, the memory is freed with the
 * transport. */
#ifndef GLI_TRANSPORT_IBV_IBV_H
#define GLI_TRANSPORT_IBV_IBV_H

#include <stdatomic.h>
#include <uv.h>

#include "transport/request.h"
#include "transport_ibv/frame.h"
#include "transport_ibv/ibv_jobs.h"
#include "transport_ibv/ibv_shared.h"
#include "transport_ibv/lanes.h"

extern const gli_transport_ops gli_transport_ibv;

enum {
  GLI_IBV_SLOTS = 16,      /* frames on their way, per pair and direction */
  GLI_IBV_LONGS = 8,       /* concurrent messages of several frames */
  GLI_IBV_LONG_MIN = 32768 /* shortest message that asks the receiver */
};

typedef struct gli_ibv_pair gli_ibv_pair;

/* Transfer mode of a payload. */
typedef enum gli_ibv_mode {
  GLI_IBV_ASKS,    /* no answer from the receiver yet */
  GLI_IBV_STREAMS, /* in frames */
  GLI_IBV_WRITES,  /* by RDMA writes to its destination */
  GLI_IBV_READS    /* by RDMA reads of the receiver, over lanes */
} gli_ibv_mode;

/* State of an outgoing message of several frames. */
typedef struct gli_ibv_out {
  gli_send_request *request; /* NULL if unused */
  uint64_t posted;           /* in bytes */
  uint32_t reads; /* work requests in progress that read the payload in place */
  gli_ibv_mode mode;
  bool told;       /* true if the last frame is posted, or all has been read */
  bool offered;    /* true if the receiver may read the payload */
  uint64_t remote; /* WRITES: destination */
  uint32_t rkey;
  struct ibv_mr *mr; /* registration of the payload; NULL if it has none */
} gli_ibv_out;

/* Part of a one-sided operation, which the work request of a slot performs. */
typedef struct gli_ibv_piece {
  gli_rma_work *work; /* NULL if the request belongs to a message */
  size_t bytes;
  const uint8_t *from; /* data to be copied to `to`; NULL if it is in place */
  uint8_t *to;
} gli_ibv_piece;

typedef struct gli_ibv_rma_state {
  gli_rma_work *first, *last; /* queue of work that is not fully posted */
  gli_rma_work *done;         /* work to be reported */
  uint32_t pieces;            /* number of pieces in progress */
} gli_ibv_rma_state;

/* Work request in preparation. */
typedef struct gli_ibv_work {
  gli_ibv_slot *slot; /* NULL if none is needed */
  uint8_t *memory;    /* for a frame or a copy of payload; NULL if none */
  struct ibv_sge part[2];
  struct ibv_send_wr wr;
} gli_ibv_work;

/* State of an incoming message. */
typedef struct gli_ibv_in {
  bool used, answered;
  bool fetched; /* READS: true if all has been read */
  gli_ibv_mode mode;
  gli_header header;
  gli_sink sink;
  struct ibv_mr *mr; /* WRITES: registration of the destination */
  uint64_t placed;
  uint32_t sum, expected_sum; /* CRC32C of the payload */
} gli_ibv_in;

/* Notes that the ends exchange over TCP. */
#define GLI_IBV_NOTE_MAGIC UINT32_C(0x34564249) /* "IBV4" */
typedef enum gli_ibv_note_kind {
  GLI_IBV_OFFER = 1, /* offers the sender's queue pair */
  GLI_IBV_CONNECTED, /* it is connected to the receiver's: try it */
  GLI_IBV_READY,     /* the sender's probe has been acknowledged */
  GLI_IBV_DECLINED,  /* stay with TCP; with the reason */
  GLI_IBV_LEAVES,    /* number of frames sent; a BYE follows */
  GLI_IBV_ALIVE,     /* the sender is still busy with this; repeated */
  GLI_IBV_NOTES
} gli_ibv_note_kind;

enum { GLI_IBV_NOTE_BYTES = GLI_LINK_LENGTH_MAX };
typedef struct gli_ibv_note {
  gli_send_request request;
  bool posted;
  uint8_t data[GLI_IBV_NOTE_BYTES];
} gli_ibv_note;

/* Way of messages, and until it is decided the progress towards RDMA. */
typedef enum gli_ibv_way {
  GLI_IBV_WAY_NEW,        /* no queue pair is offered yet */
  GLI_IBV_WAY_OFFERED,    /* one is offered to the peer */
  GLI_IBV_WAY_CONNECTING, /* a thread connects it to the peer's */
  GLI_IBV_WAY_CONNECTED,  /* it is connected */
  GLI_IBV_WAY_PROBED,     /* the probe arrived, and the peer was notified */
  GLI_IBV_BY_VERBS,
  GLI_IBV_BY_TCP
} gli_ibv_way;

/* Progress of the peer, by its notes. */
typedef enum gli_ibv_peer_way {
  GLI_IBV_PEER_NEW,
  GLI_IBV_PEER_CONNECTED,
  GLI_IBV_PEER_READY
} gli_ibv_peer_way;

/* Owner of the queue pair and its memory. While it is a thread, poll does not
 * access them, and what it decides takes effect afterwards. */
typedef enum gli_ibv_setup {
  GLI_IBV_SETTLED, /* poll owns them */
  GLI_IBV_WORKING, /* a thread makes or connects them */
  GLI_IBV_DOOMED,  /* a thread; then they are destroyed */
  GLI_IBV_RETIRED /* a thread; then they are destroyed, and the pair is freed */
} gli_ibv_setup;

struct gli_ibv_pair {
  gli_pair base;
  struct gli_ibv *t;
  gli_ibv_pair *next, **link; /* in a list of the transport */
  gli_ibv_pair *next_busy;
  bool busy; /* true if in the list of pairs that poll has to flush */
  gli_pair_config config; /* its job_key is the copy below, or NULL */
  uint8_t job_key[GLI_JOB_KEY_BYTES];
  gli_pair *tcp; /* NULL if closed */

  gli_ibv_way way;
  gli_ibv_peer_way peer_way;
  bool live;   /* true if upcalls may be made */
  bool closed; /* pair_close was called: the pair lingers, and its requests are
                  copies */
  bool departed; /* by the peer's BYE or ABORT: it reads nothing more */
  bool leaving;  /* the peer's BYE has arrived, but frames before it have not */
  bool checked;  /* true if messages have checksums */
  bool broken;   /* true if failed, with `cause` */
  bool to_tell;  /* `failed` upcall pending, from `report_ns` on */
  uint64_t report_ns;
  gloo_error cause;

  /* connecting */
  char why[GLI_WHY_BYTES]; /* reason for TCP */
  gli_ibv_note note[GLI_IBV_NOTES];
  uint8_t note_in[GLI_IBV_NOTE_BYTES];
  size_t note_in_bytes;
  uint64_t decide_until_ns; /* until then the pair owes the peer an answer, and
                               waits for a thread, or for the probe's
                               acknowledgement */
  uint64_t alive_ns;        /* time of the next GLI_IBV_ALIVE */
  gli_ibv_peer peer;
  gli_ibv_setup setup;
  gli_ibv_job job;
  gli_header bye;       /* BYE of the peer */
  uint32_t peer_frames; /* number of frames that a leaving peer has sent */
  void *abort_token;    /* token of the peer's ABORT, or NULL */

  /* queue pair; NULL if there is none (any more). See `setup`. */
  struct ibv_qp *qp;
  bool qp_leaked; /* the device failed to destroy it, and may name the pair */
  uint32_t psn, inline_max;
  uint64_t doubtful_ns; /* end of the wait for the cause of a flush; 0: none */

  /* share of memory and queues (ibv_shared.h) */
  int cq_entries; /* reserved ones; 0 if the pair has no share */
  uint32_t number;
  gli_ibv_pair *next_number;
  struct gli_ibv_block *own; /* receive buffers; NULL: those of the SRQ */
  gli_ibv_refill refill;
  uint32_t held; /* slots of sends */
  bool waits;    /* true if in the list of pairs that lack a slot */
  gli_ibv_pair *next_waiting;

  /* sending */
  uint32_t posted, done; /* numbers of work requests; done: completed */
  uint32_t frames;       /* number of frames sent */
  /* Values of `posted` after the last work request that must arrive, and after
   * the last signalled one. */
  uint32_t must_arrive, tells_at;
  uint8_t owner[GLI_IBV_SLOTS]; /* per slot: message read in place + 1, or 0 */
  bool signalled[GLI_IBV_SLOTS];
  gli_ibv_slot *slot[GLI_IBV_SLOTS]; /* per work request; NULL if none */
  uint32_t credits; /* number of frames that the peer permits */
  gli_request_queue queue, finished; /* `finished`: to be reported */
  gli_ibv_out out[GLI_IBV_LONGS];
  uint32_t n_out, turn;
  gli_ibv_piece piece[GLI_IBV_SLOTS];
  gli_ibv_rma_state rma;

  /* receiving */
  uint32_t taken;   /* number of frames received */
  uint32_t allowed; /* frames that the peer still may send */
  uint32_t owed;    /* handled frames, not yet returned as credits */
  gli_ibv_in in[GLI_IBV_LONGS];
  uint32_t to_answer;

  gli_ibv_lanes *lanes; /* NULL if there are none */

  /* closed pairs: copies of what they still have to deliver */
  gli_send_request *last;
  gli_request_copies copies;
  uint64_t linger_until_ns;
};

/* Registration of a region (memory/region.h). */
typedef struct gli_ibv_region {
  uint64_t serial;
  struct ibv_mr *mr;                         /* NULL if the system refused */
  bool pending;                              /* true if a thread registers it */
  struct ibv_mr *of_rail[GLI_IBV_RAILS_MAX]; /* NULL if not its own home */
} gli_ibv_region;

enum { GLI_IBV_BATCH = 32 };

/* FAILING: a sleeper has found it, and the next poll handles it. */
typedef enum gli_ibv_device {
  GLI_IBV_WORKS,
  GLI_IBV_FAILING,
  GLI_IBV_GONE
} gli_ibv_device;

typedef struct gli_ibv {
  gli_transport base;
  const gli_upcalls *upcalls;
  void *device_user;
  gli_transport *tcp;
  gli_ibv_port port;
  gli_ibv_rails rails;
  bool checksum;
  bool in_poll;
  int happened; /* number of events in this poll */

  gli_ibv_pair *pairs, *busy;
  /* Pairs without a queue pair; `old_garbage`: from before this poll. */
  gli_ibv_pair *garbage, *old_garbage;
  gli_ibv_pair *qp_leaked; /* disposed of, but the device may name them */
  gli_ibv_pair *retired;   /* disposed of, but a thread has the queue pair */
  gli_ibv_jobs jobs;
  uint32_t n_by_verbs, n_others;
  atomic_int device; /* a gli_ibv_device */
  unsigned polls;
  uint64_t next_look_ns; /* time of the next poll of TCP */
  uint64_t next_ask_ns;  /* time of the next query for events */

  gli_ibv_shared shared;
  uint8_t scratch[GLI_IBV_SLOT_BYTES]; /* for frames that are sent inline */

  /* ibv_register.c */
  gli_ibv_region *regions;
  size_t n_regions, regions_capacity;
  struct gli_ibv *next_registering;

  /* The stash holds completions that sleepers, or callers that wait for one
   * message, find in the queue and do not handle. The next poll handles them,
   * in order. */
  uv_mutex_t cq_lock;
  struct ibv_wc *stash;
  size_t n_stash, stash_capacity;
  atomic_bool look, needs_poll;
  bool changed; /* a change in this poll of which sleepers do not know */
  atomic_int sleepers;
  atomic_ullong next_due_ns;
} gli_ibv;

static inline bool gli_ibv_is_gone(const gli_ibv *t) {
  return atomic_load(&t->device) == GLI_IBV_GONE;
}
static inline bool gli_ibv_is_decided(const gli_ibv_pair *pair) {
  return pair->way >= GLI_IBV_BY_VERBS;
}
/* Returns true if poll may use the queue pair. */
static inline bool gli_ibv_has_queue(const gli_ibv_pair *pair) {
  return pair->setup == GLI_IBV_SETTLED && pair->qp != NULL;
}
/* Returns true if this end may still choose TCP by itself: after PROBED, the
 * peer may already send by RDMA. */
static inline bool gli_ibv_may_decline(const gli_ibv_pair *pair) {
  return pair->way < GLI_IBV_WAY_PROBED;
}

/* Takes back a buffer whose frame is handled. It is posted by a later call, so it
 * keeps its contents until then. `pair` may be NULL, or have no queue pair.
 * Returns false if the device accepts no buffers, with errno. */
static inline bool gli_ibv_reuse(gli_ibv *t, gli_ibv_pair *pair,
                                 gli_ibv_slot *slot) {
  gli_ibv_refill *refill = &t->shared.refill;
  if (t->shared.srq == NULL || refill->n == GLI_IBV_REFILL)
    return gli_ibv_repost(t, pair, slot);
  refill->slot[refill->n++] = slot;
  return true;
}

/* Returns true if the pair can take a slot. Otherwise poll makes it busy when
 * slots are free again. */
static inline bool gli_ibv_slot_ready(gli_ibv_pair *pair) {
  const gli_ibv_shared *s = &pair->t->shared;
  return (s->free != NULL && (pair->held == 0 || s->extra < s->extra_max)) ||
         gli_ibv_slot_make(pair);
}
/* Takes a slot that is ready. */
static inline gli_ibv_slot *gli_ibv_slot_take(gli_ibv_pair *pair) {
  gli_ibv_shared *s = &pair->t->shared;
  gli_ibv_slot *slot = s->free;
  s->free = slot->next;
  s->sending++;
  if (pair->held++ > 0) s->extra++;
  return slot;
}
static inline void gli_ibv_slot_free(gli_ibv_pair *pair, gli_ibv_slot *slot) {
  gli_ibv_shared *s = &pair->t->shared;
  s->sending--;
  if (--pair->held > 0) s->extra--;
  slot->next = s->free;
  s->free = slot;
  if (s->waiting != NULL) gli_ibv_slots_freed(pair->t);
}

/* ibv_transport.c */
uint64_t gli_ibv_now(gli_ibv *t);
/* Prevents sleeping before the next poll, which has to handle a change. */
void gli_ibv_touch(gli_ibv *t);
void gli_ibv_schedule(gli_ibv *t, uint64_t due_ns);

/* ibv_pair.c */
gloo_status gli_ibv_pair_open(gli_transport *t, const gli_pair_config *config,
                              gli_pair **pair, gloo_error *error);
void gli_ibv_pair_move(gli_ibv_pair *pair, gli_ibv_pair **list);
/* Adds the pair to the list of pairs that have something to send. */
void gli_ibv_pair_busy(gli_ibv_pair *pair);
/* Recomputes whether the pair owes anything (gli_mark_undelivered). */
void gli_ibv_update_undelivered(gli_ibv_pair *pair);
/* Marks the queue pair as failed. The report may be delayed for a moment, in
 * which TCP may provide the reason, or the fact that the peer has left. */
void gli_ibv_pair_break(gli_ibv_pair *pair, gloo_status status,
                        const char *format, ...) GLI_PRINTF(3, 4);
/* Breaks the pair because of a protocol error. */
void gli_ibv_pair_spoil(gli_ibv_pair *pair, const char *what);
uint64_t gli_ibv_pair_heard(const gli_pair *pair);
const char *gli_ibv_route(const gli_pair *pair, char why[GLI_WHY_BYTES]);
/* Handles due work of pairs: reports and the end of lingering. */
void gli_ibv_pairs_due(gli_ibv *t);
void gli_ibv_pair_dispose(gli_ibv_pair *pair);
void gli_ibv_free_pairs(gli_ibv_pair **list);

/* ibv_connect.c */
extern const gli_upcalls gli_ibv_upcalls;
/* Begins to make a queue pair, which is then offered. */
void gli_ibv_offer(gli_ibv_pair *pair);
/* Handles the acknowledgement of the probe. */
void gli_ibv_probed(gli_ibv_pair *pair);
/* Declines for pairs that no thread has begun to set up in time, or whose probe
 * is not acknowledged in time. */
void gli_ibv_setups_due(gli_ibv *t, uint64_t now_ns);
/* Tells the peer now and then that this rank lives, until the pair is decided. */
void gli_ibv_show_life(gli_ibv_pair *pair, uint64_t now_ns);
/* Delivers the peer's BYE if the last frame before it has arrived. */
void gli_ibv_check_bye(gli_ibv_pair *pair);
/* Tells the peer how many frames were sent, before a BYE. */
void gli_ibv_say_leaves(gli_ibv_pair *pair);
/* Stay with TCP; gli_ibv_decline also tells the peer. */
void gli_ibv_stay(gli_ibv_pair *pair, const char *why);
void gli_ibv_decline(gli_ibv_pair *pair, const char *why);

/* queue.c */
/* Make the queue pair, and connect it to `pair->peer`. For the owner of the queue
 * pair; may take seconds. Return NULL, or the failed part with errno. */
const char *gli_ibv_queue_make(gli_ibv_pair *pair);
const char *gli_ibv_queue_connect(gli_ibv_pair *pair);
/* Encodes the offer of this end, of GLI_IBV_OFFER_BYTES. */
void gli_ibv_offer_write(const gli_ibv_pair *pair, uint8_t *data);
/* Destroys the queue pair: no memory is accessed for it after the return. If
 * the device refuses, the queue pair is in the error state, its slots are not
 * used again, and the pair is `qp_leaked`. If a thread has it, it was not yet
 * usable, and is destroyed when the thread returns it. */
void gli_ibv_queue_drop(gli_ibv_pair *pair);
/* Returns the number of reads that this end begins at once (qp.h). */
uint8_t gli_ibv_reads_begun(const gli_ibv_pair *pair);

/* ibv_send.c */
gli_post gli_ibv_send(gli_pair *pair, gli_send_request *request);
bool gli_ibv_send_now(gli_pair *pair, gli_header *header, const void *payload);
/* Posts a frame without meaning that confirms all before it. The first one has
 * the greatest length. Returns false if full. */
bool gli_ibv_post_probe(gli_ibv_pair *pair);
/* Returns true if everything that must arrive is known to have arrived. */
bool gli_ibv_arrived(const gli_ibv_pair *pair);
/* Posts messages, answers and credits, as far as there is room. */
void gli_ibv_flush(gli_ibv_pair *pair);
/* Handles the completion of all work requests up to the next signalled one. */
void gli_ibv_send_done(gli_ibv_pair *pair);
/* Reports sent messages. */
void gli_ibv_report_sent(gli_ibv_pair *pair);
/* Schedules work that waited for room for the next poll. */
void gli_ibv_room(gli_ibv_pair *pair);
/* Sends credits for reposted buffers, if there are many. */
void gli_ibv_give_credit(gli_ibv_pair *pair);
/* Counts all messages as sent, because the peer reads nothing more. */
void gli_ibv_drop_sends(gli_ibv_pair *pair);
/* Handles the answer to an ASK. Returns false if it is invalid. */
bool gli_ibv_answered(gli_ibv_pair *pair, const gli_ibv_frame *frame);

/* Returns true if the pair has memory for a work request that copies `bytes`:
 * few are sent inline, others need a slot. */
static inline bool gli_ibv_has_memory(gli_ibv_pair *pair, size_t bytes) {
  return bytes <= pair->inline_max || gli_ibv_slot_ready(pair);
}
/* Frame to be sent. */
typedef struct gli_ibv_parts {
  gli_ibv_kind kind;
  uint32_t number;
  const gli_header *header; /* NULL if none */
  const void *data;
  size_t bytes;
  struct ibv_mr *mr; /* registration of `data`, if it is read in place */
  bool tells;
} gli_ibv_parts;
/* Returns true if a frame of that length can be sent. */
bool gli_ibv_has_room(gli_ibv_pair *pair, size_t bytes);
bool gli_ibv_frame_post(gli_ibv_pair *pair, const gli_ibv_parts *f);

/* Begin and post a work request. gli_ibv_work_begin sets only the pair, and the
 * memory for `bytes` (gli_ibv_has_memory). `owner` is the message whose payload
 * the request reads in place, or negative. With `tells` the request is
 * signalled. */
void gli_ibv_work_begin(gli_ibv_pair *pair, gli_ibv_work *work, size_t bytes);
bool gli_ibv_work_post(gli_ibv_pair *pair, gli_ibv_work *work, int owner,
                       bool tells);

/* ibv_one_sided.c */
gli_exposure gli_ibv_rma_expose(gli_pair *pair, const void *memory,
                                size_t bytes, uint64_t *remote, uint32_t *rkey);
bool gli_ibv_rma(gli_pair *pair, gli_rma_work *work);
/* Posts pieces, as far as there is room. */
void gli_ibv_rma_flush(gli_ibv_pair *pair);
void gli_ibv_rma_piece_done(gli_ibv_pair *pair, gli_ibv_piece *piece);
void gli_ibv_rma_report(gli_ibv_pair *pair);
/* Drops all work, which belongs to the engine again. */
void gli_ibv_rma_forget(gli_ibv_pair *pair);
/* Writes address and keys of a registered payload that the receiver may read
 * over lanes. Returns their length; 0 if it may not. */
size_t gli_ibv_offer_payload(gli_ibv_pair *pair,
                             const gli_send_request *request, uint8_t *keys);
/* Handles a note about lanes. Returns false if it is invalid. */
bool gli_ibv_lanes_note(gli_ibv_pair *pair, const gli_ibv_frame *frame);
/* Posts notes and reads. */
void gli_ibv_lanes_flush(gli_ibv_pair *pair);

/* ibv_close.c */
void gli_ibv_pair_close(gli_pair *pair, const gli_send_request *last);
/* Disposes of a closed pair that has nothing left to do. */
void gli_ibv_linger_check(gli_ibv_pair *pair);

/* ibv_receive.c */
/* Handles a receive buffer that holds `bytes`. */
void gli_ibv_receive(gli_ibv_pair *pair, gli_ibv_slot *slot, uint32_t bytes);
bool gli_ibv_take_now(gli_pair *pair, const gli_header *expected,
                      gli_taken *taken);
/* Handles a payload that has been read over lanes: first the answer is due, and
 * then gli_ibv_report_fetched completes the message. */
void gli_ibv_fetched(gli_ibv_pair *pair, uint32_t n);
void gli_ibv_report_fetched(gli_ibv_pair *pair);

/* complete.c */
/* Handles all completions in the queue, or a limited number. */
void gli_ibv_drain(gli_ibv *t, bool all);
/* Returns the buffer if the next completion is a filled one of the pair, else
 * NULL. It remains the next one until it is dropped. */
gli_ibv_slot *gli_ibv_comes_next(gli_ibv_pair *pair, uint32_t *bytes);
void gli_ibv_drop_next(gli_ibv *t);
/* For a sleeper: arms the channel, and polls again. Returns false if
 * completions exist. */
bool gli_ibv_arm(gli_ibv *t);
/* Takes events from the channel and the device, and handles them. */
void gli_ibv_heard(gli_ibv *t);
/* Moves all completions from the queue to the stash. Receives of the queue pair
 * with the number `ended`, if not 0, are no pair's any more. */
void gli_ibv_stash_all(gli_ibv *t, uint32_t ended);
/* Waits a moment until all posted work requests of the pair have completed; no
 * upcalls. */
void gli_ibv_settle(gli_ibv_pair *pair);

/* ibv_register.c */
/* Adds the transport to those with registered regions, or removes it. */
void gli_ibv_regions_begin(gli_ibv *t);
void gli_ibv_regions_end(gli_ibv *t);
/* Frees what belongs to registrations, in a forked child. */
void gli_ibv_regions_abandon(gli_ibv *t);
/* Returns the registration that contains all of [memory, memory + bytes), or
 * NULL if there is none. The region is registered if necessary; if it is long, a
 * thread does that, and there is none meanwhile (`pending`). */
struct ibv_mr *gli_ibv_registered(gli_ibv *t, const void *memory, size_t bytes);
/* Gets the registrations with all homes of rails, the first port's at index
 * GLI_IBV_HOME_FIRST; NULL where the system refused. Returns false if that of
 * the first port is missing. */
bool gli_ibv_registered_rails(gli_ibv *t, const void *memory, size_t bytes,
                              struct ibv_mr *mr[GLI_IBV_RAILS_MAX + 1]);
bool gli_ibv_registration_pending(gli_ibv *t, const void *memory, size_t bytes);

#endif
