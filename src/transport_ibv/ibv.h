/* Inside the RDMA transport: reliable connections of InfiniBand or RoCE, beside
 * TCP.
 *
 * Each pair has a TCP connection, of a TCP transport of its own below this one.
 * There the ends agree about a queue pair (ibv_connect.c), with the proofs that
 * any TCP pair asks for; it tells at once when the peer is gone; BYE and ABORT
 * travel on it; and where the ends do not get a queue pair up, all messages do:
 * until that is settled they wait here, so none is lost.
 *
 * Frames. What goes through a queue pair are SENDs of frames (frame.h) into
 * SLOTS receive buffers of the pair, one of which each credit stands for, so
 * none ever finds no buffer. Short messages are one frame, longer ones several.
 * From LONG_MIN bytes on the receiver is asked first where the payload goes:
 * where that is registered memory, the sender writes it there (RDMA write).
 *
 * Failures are noted where they are seen (gli_ibv_pair_break) and reported at
 * the end of poll; upcalls may close any pair, so after each one look at
 * `pair->live`. Memory of pairs is freed at the end of a poll that has found
 * the completion queue empty after their queue pairs were destroyed; of those
 * that the device would not destroy, with the transport. */
#ifndef GLI_TRANSPORT_IBV_IBV_H
#define GLI_TRANSPORT_IBV_IBV_H

#include <stdatomic.h>
#include <uv.h>

#include "transport/request.h"
#include "transport_ibv/frame.h"
#include "transport_ibv/port.h"

extern const gli_transport_ops gli_transport_ibv;

enum {
  GLI_IBV_SLOTS = 16,      /* each way, of a pair */
  GLI_IBV_LONGS = 8,       /* messages of several frames under way at a time */
  GLI_IBV_LONG_MIN = 32768 /* bytes from which the receiver is asked */
};

typedef struct gli_ibv_pair gli_ibv_pair;

/* How the payload of a message travels. */
typedef enum gli_ibv_mode {
  GLI_IBV_ASKS,    /* the receiver has not said */
  GLI_IBV_STREAMS, /* in frames */
  GLI_IBV_WRITES   /* to where the receiver wants it */
} gli_ibv_mode;

/* A message of several frames that is being sent. */
typedef struct gli_ibv_out {
  gli_send_request *request; /* NULL: none */
  uint64_t posted;           /* bytes */
  uint32_t reads; /* work requests under way that read the payload itself */
  gli_ibv_mode mode;
  bool told;       /* WRITES: the last frame is posted */
  uint64_t remote; /* WRITES: where */
  uint32_t rkey;
  struct ibv_mr *mr; /* the payload's; NULL: it is in no registered memory */
} gli_ibv_out;

/* The work of a slot's request for a one-sided operation. */
typedef struct gli_ibv_piece {
  gli_rma_work *work; /* NULL: it is another's */
  size_t bytes;
  const uint8_t *from; /* what was read is here, and goes to `to`; NULL: it is
                          where it belongs */
  uint8_t *to;
} gli_ibv_piece;

typedef struct gli_ibv_rma_state {
  gli_rma_work *first, *last; /* not posted, or not all of it */
  gli_rma_work *done;         /* to be reported */
  uint32_t pieces;            /* under way */
} gli_ibv_rma_state;

/* A work request in the making. */
typedef struct gli_ibv_work {
  uint8_t *slot;
  struct ibv_sge part[2];
  struct ibv_send_wr wr;
} gli_ibv_work;

/* One that is being received. */
typedef struct gli_ibv_in {
  bool used, answered;
  gli_ibv_mode mode;
  gli_header header;
  gli_sink sink;
  struct ibv_mr *mr; /* WRITES: of where it goes */
  uint64_t placed;
  uint32_t sum, expected_sum; /* of the payload, if it is checked */
} gli_ibv_in;

/* Notes between the ends, over TCP. */
typedef enum gli_ibv_note_kind {
  GLI_IBV_OFFER = 1, /* "this is my queue pair" */
  GLI_IBV_CONNECTED, /* "it expects yours: try it" */
  GLI_IBV_READY,     /* "yours has answered" */
  GLI_IBV_DECLINED,  /* "let us stay with TCP, because ..." */
  GLI_IBV_LEAVES,    /* "I have sent so many frames, and a BYE follows" */
  GLI_IBV_NOTES
} gli_ibv_note_kind;

enum { GLI_IBV_NOTE_BYTES = GLI_LINK_LENGTH_MAX };
typedef struct gli_ibv_note {
  gli_send_request request;
  bool posted;
  uint8_t data[GLI_IBV_NOTE_BYTES];
} gli_ibv_note;

typedef enum gli_ibv_way {
  GLI_IBV_UNDECIDED,
  GLI_IBV_BY_VERBS,
  GLI_IBV_BY_TCP
} gli_ibv_way;

struct gli_ibv_pair {
  gli_pair base;
  struct gli_ibv *t;
  gli_ibv_pair *next, **link; /* in one of the transport's lists */
  gli_ibv_pair *next_busy;
  bool busy;              /* in the list of pairs that poll has to flush */
  gli_pair_config config; /* its job_key is the copy below, or NULL */
  uint8_t job_key[GLI_JOB_KEY_BYTES];
  gli_pair *tcp; /* NULL: closed */

  gli_ibv_way way;
  bool live;     /* upcalls may be made */
  bool closed;   /* pair_close was called: the pair lingers, and its requests
                    are copies of its own */
  bool departed; /* the peer's BYE or ABORT is here: it reads nothing more */
  bool leaving;  /* the peer's BYE is here, and frames before it are to come */
  bool checked;  /* messages have checksums */
  bool broken;   /* failed, for `cause` */
  bool to_tell;  /* by the `failed` upcall, from `report_ns` on */
  uint64_t report_ns;
  gloo_error cause;

  /* connecting */
  bool offered, connected, probed, peer_connected, peer_ready, said_ready;
  char why[GLI_WHY_BYTES]; /* it is TCP */
  gli_ibv_note note[GLI_IBV_NOTES];
  uint8_t note_in[GLI_IBV_NOTE_BYTES];
  size_t note_in_bytes;
  uint64_t decide_until_ns; /* until then an answer to the peer is owed */
  gli_header bye;           /* the peer's */
  uint32_t peer_frames;     /* that it has sent in all, when it leaves */
  void *abort_token;        /* of the sink of the peer's ABORT; NULL: none */

  /* the queue pair; NULL: none (any more) */
  struct ibv_qp *qp;
  bool undead;    /* the device would not destroy it, and may name the pair */
  uint8_t *slots; /* memory: those to send, then those to receive */
  size_t slots_bytes;
  struct ibv_mr *mr;
  uint32_t psn, inline_max;
  bool counted; /* in the completion queue's room */

  /* sending */
  uint32_t posted, done; /* work requests, and those known to be over */
  uint32_t frames;       /* sent, in all */
  /* What `posted` was after the last one that has to arrive, and after the last
   * one that tells when it is over. */
  uint32_t must_arrive, tells_at;
  uint8_t owner[GLI_IBV_SLOTS]; /* of a slot: its message's number + 1, or 0 */
  bool signalled[GLI_IBV_SLOTS];
  uint32_t credits;                  /* frames that the peer has room for */
  gli_request_queue queue, finished; /* that is to be reported */
  gli_ibv_out out[GLI_IBV_LONGS];
  uint32_t n_out, turn;
  gli_ibv_piece piece[GLI_IBV_SLOTS];
  gli_ibv_rma_state rma;

  /* receiving */
  uint32_t taken;     /* frames, in all */
  uint32_t posted_in; /* buffers, in all */
  uint32_t owed;      /* buffers that the peer has not been told of */
  gli_ibv_in in[GLI_IBV_LONGS];
  uint32_t to_answer;

  /* Of a closed pair: what it has still to deliver are copies of its own. */
  gli_send_request *last;
  gli_request_copies copies;
  uint64_t linger_until_ns;
};

/* The registration of memory: a region of memory/region.h. */
typedef struct gli_ibv_region {
  uint64_t serial;
  struct ibv_mr *mr; /* NULL: the system refused */
} gli_ibv_region;

enum { GLI_IBV_BATCH = 32 };

typedef struct gli_ibv {
  gli_transport base;
  const gli_upcalls *upcalls;
  void *device_user;
  gli_transport *tcp;
  gli_ibv_port port;
  bool checksum;
  bool in_poll;
  int happened; /* in this poll */

  gli_ibv_pair *pairs, *busy;
  /* Without a queue pair; `old` ones since before this poll. */
  gli_ibv_pair *garbage, *old_garbage;
  gli_ibv_pair *undead; /* disposed of, but may be named until the end */
  uint32_t n_by_verbs, n_others;
  atomic_bool gone; /* the device is */
  unsigned polls;
  uint64_t next_look_ns; /* at TCP */
  uint64_t next_ask_ns;  /* at what the device tells */

  /* ibv_register.c's */
  gli_ibv_region *regions;
  size_t n_regions, regions_capacity;
  struct gli_ibv *next_registering;

  /* Sleepers look into the completion queue, and so do those who wait for one
   * message; what they find and do not take is left to the next poll: first
   * come, first served. */
  uv_mutex_t cq_lock;
  struct ibv_wc *stash;
  size_t n_stash, stash_capacity;
  atomic_bool look, needs_poll;
  bool changed; /* in this poll, something that sleepers do not know */
  atomic_int sleepers;
  atomic_ullong next_due_ns;
} gli_ibv;

/* ibv_transport.c */
uint64_t gli_ibv_now(gli_ibv *t);
/* Something changed that only the next poll acts on: do not sleep before. */
void gli_ibv_touch(gli_ibv *t);
void gli_ibv_schedule(gli_ibv *t, uint64_t due_ns);

/* ibv_pair.c */
gloo_status gli_ibv_pair_open(gli_transport *t, const gli_pair_config *config,
                              gli_pair **pair, gloo_error *error);
void gli_ibv_pair_move(gli_ibv_pair *pair, gli_ibv_pair **list);
/* It has something to send. */
void gli_ibv_pair_busy(gli_ibv_pair *pair);
/* Something changed that decides whether the pair owes anything (gli_owe). */
void gli_ibv_reckon(gli_ibv_pair *pair);
/* The queue pair is of no use any more. TCP may say why, or that the peer has
 * left: it has a moment for that. */
void gli_ibv_pair_break(gli_ibv_pair *pair, gloo_status status,
                        const char *format, ...) GLI_PRINTF(3, 4);
/* Breaks the pair for a protocol error. */
void gli_ibv_pair_spoil(gli_ibv_pair *pair, const char *what);
uint64_t gli_ibv_pair_heard(const gli_pair *pair);
const char *gli_ibv_route(const gli_pair *pair, char why[GLI_WHY_BYTES]);
/* Due work of pairs: reports, ends of farewells. */
void gli_ibv_pairs_due(gli_ibv *t);
void gli_ibv_pair_dispose(gli_ibv_pair *pair);
void gli_ibv_free_pairs(gli_ibv_pair **list);

/* ibv_connect.c */
extern const gli_upcalls gli_ibv_upcalls;
/* Both ends speak verbs: offer what this one has. */
void gli_ibv_offer(gli_ibv_pair *pair);
/* The probe was answered. */
void gli_ibv_probed(gli_ibv_pair *pair);
/* A frame has come: was it the last one before the peer's BYE? */
void gli_ibv_check_bye(gli_ibv_pair *pair);
/* Tell how many frames were sent: a BYE is to follow. */
void gli_ibv_say_leaves(gli_ibv_pair *pair);
/* Stay with TCP; with decline the peer hears of it. */
void gli_ibv_stay(gli_ibv_pair *pair, const char *why);
void gli_ibv_decline(gli_ibv_pair *pair, const char *why);

/* queue.c */
/* Make the queue pair and its memory. NULL, or what could not be made, with
 * errno. */
const char *gli_ibv_queue_make(gli_ibv_pair *pair);
typedef struct gli_ibv_peer {
  uint32_t number, psn; /* of its queue pair */
  bool infiniband, checksum;
  enum ibv_mtu mtu;
  uint16_t lid;
  union ibv_gid gid;
} gli_ibv_peer;
/* Make it talk to that one. */
const char *gli_ibv_queue_connect(gli_ibv_pair *pair, const gli_ibv_peer *peer);
/* Destroy it: nothing is read or written for it when this returns. Where the
 * device refuses, it is in the state for errors, its memory is not registered
 * any more, and the pair is `undead`. */
void gli_ibv_queue_drop(gli_ibv_pair *pair);
bool gli_ibv_post_buffers(gli_ibv_pair *pair);

/* ibv_send.c */
gli_post gli_ibv_send(gli_pair *pair, gli_send_request *request);
bool gli_ibv_send_now(gli_pair *pair, gli_header *header, const void *payload);
/* A frame that says nothing, and tells of all before it. False: no room. */
bool gli_ibv_post_probe(gli_ibv_pair *pair);
/* Is all that has to arrive known to have arrived? */
bool gli_ibv_arrived(const gli_ibv_pair *pair);
/* Post what there is room for. */
void gli_ibv_flush(gli_ibv_pair *pair);
/* Work requests are over, all up to the next one that was to tell. */
void gli_ibv_send_done(gli_ibv_pair *pair);
/* Report what is sent. */
void gli_ibv_report_sent(gli_ibv_pair *pair);
/* There is room again: what has waited for it goes on in the next poll. */
void gli_ibv_room(gli_ibv_pair *pair);
/* Tell the peer of buffers that are free again, if there are many. */
void gli_ibv_give_credit(gli_ibv_pair *pair);
/* The peer reads nothing more: all that was taken counts as sent. */
void gli_ibv_drop_sends(gli_ibv_pair *pair);
/* The answer about a message that asked. False: it makes no sense. */
bool gli_ibv_answered(gli_ibv_pair *pair, const gli_ibv_frame *frame);

/* Where a slot is free: begin a work request there, which has no more than its
 * slot and its pair, and post it. `owner`: the number of the message whose
 * payload it reads where that lies; below 0: none. `tells` when it is over. */
void gli_ibv_work_begin(gli_ibv_pair *pair, gli_ibv_work *work);
bool gli_ibv_work_post(gli_ibv_pair *pair, gli_ibv_work *work, int owner,
                       bool tells);

/* ibv_one_sided.c */
bool gli_ibv_rma_expose(gli_pair *pair, const void *memory, size_t bytes,
                        uint64_t *remote, uint32_t *rkey);
bool gli_ibv_rma(gli_pair *pair, gli_rma_work *work);
/* Post what there is room for. */
void gli_ibv_rma_flush(gli_ibv_pair *pair);
void gli_ibv_rma_piece_done(gli_ibv_pair *pair, gli_ibv_piece *piece);
void gli_ibv_rma_report(gli_ibv_pair *pair);
/* They are the engine's again. */
void gli_ibv_rma_forget(gli_ibv_pair *pair);

/* ibv_close.c */
void gli_ibv_pair_close(gli_pair *pair, const gli_send_request *last);
/* A closed pair may have nothing left to do. */
void gli_ibv_linger_check(gli_ibv_pair *pair);

/* ibv_receive.c */
/* A buffer has been filled with that many bytes. */
void gli_ibv_receive(gli_ibv_pair *pair, uint32_t bytes);
bool gli_ibv_take_now(gli_pair *pair, const gli_header *expected,
                      gli_taken *taken);

/* complete.c */
/* Serve what is in the completion queue, or a part of it. */
void gli_ibv_drain(gli_ibv *t, bool all);
/* Is a filled buffer of the pair what poll would come to next? It stays so,
 * until it is dropped. */
bool gli_ibv_comes_next(gli_ibv_pair *pair, uint32_t *bytes);
void gli_ibv_drop_next(gli_ibv *t);
/* For a sleeper: arms the channel, and polls again. Returns false if
 * completions exist. */
bool gli_ibv_arm(gli_ibv *t);
/* Take back what the channel and the device have told. */
void gli_ibv_heard(gli_ibv *t);
/* Waits a moment until all posted work requests of the pair have completed; no
 * upcalls. */
void gli_ibv_settle(gli_ibv_pair *pair);

/* ibv_register.c */
/* For all of the transport's life its device may have regions. */
gloo_status gli_ibv_regions_begin(gli_ibv *t, gloo_error *error);
void gli_ibv_regions_end(gli_ibv *t);
/* The registered memory that all of [memory, memory + bytes) is in. NULL: none
 * is. */
struct ibv_mr *gli_ibv_registered(gli_ibv *t, const void *memory, size_t bytes);

#endif
