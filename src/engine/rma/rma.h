/* Windows: memory that a rank exposes to all others of a context, for put, get
 * and atomic operations.
 *
 * Each window has a separate group, so messages find it by the number of the
 * group, and its collectives are separate. Memory that can be accessed without
 * its owner is accessed directly (`reach`). Otherwise the request is a message,
 * and the owner, which checks bounds and key, executes it on arrival:
 *
 *   header.op      count     slot      payload
 *   PUT            offset    number    the bytes
 *   PUT_BLOCKS     offset    number    16: length and stride; the blocks
 *   GET            offset    number    16: length and stride of `root` blocks
 *   ATOMIC         offset    number    8 or 16: the operands
 *   SIGNAL         offset    number    8: the operand
 *   FLUSH          -         number    4: number of puts in the epoch
 *   REACH          -         number    -
 *   REPLY          -         number    the answer
 *
 * `operation` of all of them is the key of the owner's part of the window. The
 * origin chooses the numbers. `algorithm` of ATOMIC and SIGNAL is the
 * gli_rma_change, and `dtype` the length of the word.
 *
 * Signals. A SIGNAL changes a word once the PUT with the same number is
 * complete. Its header comes after that of the PUT, because messages with equal
 * slots stay in order, but its payload may arrive earlier: then it is held.
 *
 * Epochs. `root` of PUT, PUT_BLOCKS and SIGNAL is the epoch of its origin at
 * that owner, which ends with a FLUSH. The owner answers the FLUSH once the
 * stated number of them has arrived, because messages of several streams
 * overtake each other. The next FLUSH is sent when the last one has been
 * answered: so an owner sees two epochs at a time, and puts of other threads in
 * the meantime delay no flush. */
#ifndef GLI_ENGINE_RMA_RMA_H
#define GLI_ENGINE_RMA_RMA_H

#include <stdatomic.h>

#include "engine/state/context.h"
#include "gloo_c/window.h"

typedef enum gli_rma_verb {
  GLI_RMA_PUT = 1,
  GLI_RMA_PUT_BLOCKS,
  GLI_RMA_GET,
  GLI_RMA_ATOMIC,
  GLI_RMA_SIGNAL,
  GLI_RMA_FLUSH,
  GLI_RMA_REACH,
  GLI_RMA_REPLY
} gli_rma_verb;

/* The change of an atomic operation: those of gloo_atomic, and one more. */
typedef enum gli_rma_change {
  GLI_RMA_COMPARE_SWAP = GLOO_ATOMIC_SWAP + 1,
  GLI_RMA_CHANGES
} gli_rma_change;

/* The maximum number of requests pending from one rank to another; further ones
 * wait until none is pending. An owner has more answers pending if its
 * transport reports sends late. */
enum { GLI_RMA_UNDER_WAY_MAX = 1024, GLI_RMA_ANSWERS_MAX = 16384 };

/* Limit on the total length of blocks in one message; each longer block has a
 * message of its own. */
enum { GLI_RMA_PACK_MAX = 16384, GLI_RMA_BLOCKS_HEAD = 16 };

/* A call of the program. */
typedef struct gli_rma_call {
  gli_rma_verb verb; /* PUT, GET or ATOMIC */
  uint8_t change;    /* ATOMIC: gloo_atomic or gli_rma_change */
  uint32_t rank;
  uint64_t offset;
  const void *from; /* PUT */
  void *to;         /* GET; ATOMIC: the old value, NULL if not wanted */
  uint64_t bytes;   /* PUT, GET: of a block; ATOMIC: of the word, 4 or 8 */
  /* PUT, GET: the number of blocks, and from the start of one to the next, in
   * the window and in the buffer. */
  uint64_t blocks, stride, buffer_stride;
  uint64_t operands[2];              /* ATOMIC */
  const struct gli_rma_call *signal; /* PUT: ATOMIC to execute behind it */
} gli_rma_call;

/* A request that the owner must answer, or its device must execute. */
typedef struct gli_rma_request {
  gli_rma_work work; /* first member: `rma_done` upcalls get its address */
  struct gli_rma_request *next;
  gli_link *link;
  uint64_t begun; /* number of requests before it */
  bool asks;      /* the owner answers it, by number */
  uint32_t number;
  gli_rma_verb verb;
  bool answered; /* the payload of the answer is arriving */
  void *to;
  uint64_t bytes, blocks, buffer_stride; /* see gli_rma_call */
} gli_rma_request;

typedef enum gli_rma_reach {
  GLI_RMA_UNKNOWN,
  GLI_RMA_ASKED,
  GLI_RMA_MESSAGES,
  GLI_RMA_MAPPED, /* `mapped` is its memory in this process */
  GLI_RMA_DEVICE  /* the transport's `rma`, where it can */
} gli_rma_reach;

/* Flags in the second word of an answer to REACH; above them is the rkey of the
 * owner's device. ASK_AGAIN: the owner does not know yet. */
enum {
  GLI_RMA_IS_MAPPED = 1,
  GLI_RMA_SHARES_ATOMICS = 2,
  GLI_RMA_IS_DEVICE = 4,
  GLI_RMA_ASK_AGAIN = 8
};

/* The length up to which bytes are copied before use: words that several ranks
 * access at the same time are not torn, and do not fail checksums. */
enum { GLI_RMA_WORDS = 2 * GLI_RKEY_BYTES };

/* State of another rank: the operations of this rank there, and of that rank
 * here. */
typedef struct gli_rma_target {
  uint64_t key, bytes; /* key and size of its part of the window */
  gli_rma_reach reach;
  uint8_t *mapped;
  bool mapped_atomics;
  uint64_t remote; /* DEVICE */
  uint32_t rkey;

  uint32_t epoch; /* epoch of new puts */
  uint32_t puts;  /* number of puts in it */
  /* Number of puts of an epoch (modulo 2) that the transport still reads. An
   * epoch begins once the puts of the epoch before the last are sent. */
  uint32_t unsent[2];
  bool flushing; /* a FLUSH of the previous epoch is pending */
  uint32_t numbers, under_way;
  uint64_t begun;                /* number of requests, ever */
  gli_rma_request *first, *last; /* unanswered requests, oldest first */

  uint32_t came[2]; /* number of puts from that rank, by its epoch % 2 */
  bool owes_flush;
  uint32_t owed_number, owed_epoch, owed_puts;
  uint32_t answers; /* answers to that rank that the transport still has */
  bool exposed;     /* it knows the address of this rank's memory */
} gli_rma_target;

/* A point in the sequence of requests to a rank. */
typedef struct gli_rma_goal {
  uint32_t epoch; /* epoch of the last puts */
  uint64_t begun;
} gli_rma_goal;

/* A wait for a goal: of a thread, or part of a flush. */
typedef struct gli_rma_wait {
  uint32_t rank;
  gli_rma_goal goal;
  bool over;
  struct gli_rma_wait *next; /* of threads */
} gli_rma_wait;

/* A flush that is a request. */
typedef struct gli_rma_flush {
  gli_operation *request; /* NULL once it has ended */
  struct gli_rma_flush *next;
  uint32_t n, left; /* number of waits, and of pending ones */
  gli_rma_wait wait[];
} gli_rma_flush;

/* A thread that waits for a word of this rank's part, until it is `stirred` to
 * look at it. The thread unlists itself. */
typedef struct gli_rma_watch {
  const void *word;
  gloo_compare compare;
  uint64_t value, found;
  bool stirred;
  struct gli_rma_watch *next;
} gli_rma_watch;

struct gloo_window {
  gloo_context *context; /* the group */
  uint8_t *memory;
  uint64_t bytes, key;
  void *ours; /* memory to be freed with it, or NULL */
  gli_rma_target *targets;
  gli_rma_wait *waits;
  gli_rma_flush *flushes;
  gli_rma_watch *watches;
  gli_rma_request *spare;
  bool closing;     /* no call may use it any more */
  uint32_t callers; /* number of threads in a call: it is not freed */
  /* Number of threads that copy without the lock: pairs stay open. */
  atomic_uint copying;
};

/* ---- the origin (origin.c) ----------------------------------------------- */

/* Begins a call whose arguments are within bounds; several blocks are at most
 * as long as one message can be. */
gloo_status gli_rma_begin(gloo_window *window, const gli_rma_call *call,
                          gloo_error *error);
/* Returns the address of a PUT or GET that is a copy; NULL if it is not. */
uint8_t *gli_rma_place(gloo_window *window, const gli_rma_call *call);
void gli_rma_copy_blocks(void *to, uint64_t to_stride, const void *from,
                         uint64_t from_stride, uint64_t bytes, uint64_t blocks);
/* Copies the blocks of a PUT or GET. Needs no lock. */
void gli_rma_copy(const gli_rma_call *call, uint8_t *place);
gloo_status gli_rma_answered(gli_link *link, const gli_header *header,
                             gli_sink *sink, gloo_error *error);
gloo_status gli_rma_took_answer(gli_transfer *t, gloo_error *error);
/* Takes a work that the transport has completed. */
gloo_status gli_rma_device_done(gli_rma_work *work, gloo_error *error);
/* Returns true if requests to a rank that has left are pending, or a thread
 * waits for a word that it might have changed. */
bool gli_rma_needs(const gli_link *link);
/* Returns a new message to the owner; NULL if out of memory. */
gli_transfer *gli_rma_new_message(gli_link *link, gli_rma_verb verb,
                                  uint64_t offset);
/* Sends a request that the owner answers; the payload is in `rkey`. `call` may
 * be NULL. */
gloo_status gli_rma_ask(gli_link *link, gli_transfer *t, uint64_t bytes,
                        const gli_rma_call *call, gloo_error *error);
/* Gives a transfer memory that is freed with it; false if out of memory. */
bool gli_rma_allocate(gli_transfer *t, uint64_t bytes);

/* ---- flushes (flush.c) --------------------------------------------------- */

/* Returns the goal of all calls to that rank so far. */
gli_rma_goal gli_rma_goal_now(const gloo_window *window, uint32_t rank);
bool gli_rma_reached(const gloo_window *window, uint32_t rank,
                     const gli_rma_goal *goal);
/* Takes the next step to a goal, as far as possible now. */
gloo_status gli_rma_pursue(gloo_window *window, uint32_t rank,
                           const gli_rma_goal *goal, gloo_error *error);
/* Returns true if only a report of the transport is missing, which no message
 * will announce. */
bool gli_rma_waits_untold(const gloo_window *window, uint32_t rank);
/* Ends the waits for a rank that are complete, and continues others. */
gloo_status gli_rma_look(gloo_window *window, uint32_t rank, gloo_error *error);
/* Does that for all windows of a device and all ranks, after sends were
 * reported. */
void gli_rma_look_around(gloo_device *device);
/* Begins a flush of `rank`, or of all (GLI_NO_RANK), whose request is not set.
 * *flush is NULL if all is complete. */
gloo_status gli_rma_flush_begin(gloo_window *window, uint32_t rank,
                                gli_rma_flush **flush, gloo_error *error);
/* Ends the request of a flush without failing the context. */
void gli_rma_flush_cancel(gli_operation *request);
/* Ends the requests of a window that is closed or has failed. */
void gli_rma_flush_drop(gloo_window *window);
/* Fill in the error for a rank that did not answer in time: to a thread, or to
 * a request. */
gloo_status gli_rma_fail_late(const gloo_window *window, uint32_t rank,
                              gloo_error *error);
void gli_rma_flush_fail_late(const gli_operation *request, gloo_error *error);

/* ---- words (atomic.c) ---------------------------------------------------- */

/* Executes an atomic operation on a word of 4 or 8 bytes, in memory that
 * several processes may access. Returns the old value. */
uint64_t gli_rma_atomic(unsigned change, uint64_t bytes, void *at,
                        const uint64_t operands[2]);
bool gli_rma_atomics_are_shared(void);
/* Returns true if the word compares as wanted, and sets `found`. */
bool gli_rma_watch_ends(gli_rma_watch *watch);
/* Stirs the threads whose words have changed as wanted, or all. */
void gli_rma_look_at_words(gloo_window *window);
void gli_rma_stir(gloo_window *window);

/* ---- the owner (owner.c) ------------------------------------------------- */

/* Returns true if the blocks lie within `size` bytes and do not overlap. */
bool gli_rma_blocks_fit(uint64_t offset, uint64_t bytes, uint64_t stride,
                        uint64_t blocks, uint64_t size);
/* Takes the header of a message for a window, and returns the place of its
 * payload. */
gloo_status gli_rma_arrives(gli_link *link, const gli_header *header,
                            gli_sink *sink, gloo_error *error);
/* Takes the payload of a message for a window. */
gloo_status gli_rma_arrived(gli_transfer *t, gloo_error *error);
/* Returns a rank with pending messages that use the window's memory, in either
 * direction; GLI_NO_RANK if none. */
uint32_t gli_rma_user(const gloo_window *window);
/* Returns true if another rank can access the memory directly. */
bool gli_rma_is_exposed(const gloo_window *window);
/* Returns true if the memory is still what other ranks see. */
bool gli_rma_is_shared(const gloo_window *window);
/* Waits for the threads that copy without the lock, in a window whose context
 * has failed. */
void gli_rma_await_copies(gloo_window *window);
/* Ends all access of other ranks to the memory of a window whose context has
 * failed. */
void gli_rma_fail(gloo_window *window);

#endif
