/* Windows: memory that a rank exposes to all others of a context, for them to
 * put into, get from, and change with atomic operations.
 *
 * Each window has a group of its own, so messages find it by the number of the
 * group, and its collectives meet no others. What reaches another rank's memory
 * without its help is used (`reach`); else the request travels as a message,
 * and the owner, which checks bounds and key, does it when it arrives:
 *
 *   header.op      count     slot      payload
 *   PUT            offset    number    the bytes
 *   GET            offset    number    8: how many bytes
 *   ADD, SWAP      offset    number    8 or 16: the operands
 *   FLUSH          -         number    4: the puts of the epoch
 *   REACH          -         number    -
 *   REPLY          -         number    what was asked for
 *
 * `operation` of all of them is the key of the owner's part of the window.
 * The numbers are the origin's own.
 *
 * Epochs. `root` of a PUT is the epoch of its origin at that owner, which ends
 * with a FLUSH. That is answered when as many puts of the epoch have come as it
 * says, for messages of several streams overtake each other. The next FLUSH is
 * sent when the last one has been answered: so an owner sees two epochs at a
 * time, and what other threads put meanwhile keeps nobody waiting. */
#ifndef GLI_ENGINE_RMA_RMA_H
#define GLI_ENGINE_RMA_RMA_H

#include "engine/state/context.h"
#include "gloo_c/window.h"

typedef enum gli_rma_verb {
  GLI_RMA_PUT = 1,
  GLI_RMA_GET,
  GLI_RMA_ADD,
  GLI_RMA_SWAP,
  GLI_RMA_FLUSH,
  GLI_RMA_REACH,
  GLI_RMA_REPLY
} gli_rma_verb;

/* The most requests pending from one rank to another; further ones wait until
 * there are none. An owner has more answers pending where its transport reports
 * sends late. */
enum { GLI_RMA_UNDER_WAY_MAX = 1024, GLI_RMA_ANSWERS_MAX = 16384 };

/* Holds a request of the program. */
typedef struct gli_rma_call {
  gli_rma_verb verb;
  uint32_t rank;
  uint64_t offset;
  const void *from; /* PUT; the operands of ADD and SWAP */
  void *to;         /* GET; ADD and SWAP: the value before; NULL: unwanted */
  uint64_t bytes;   /* PUT, GET */
} gli_rma_call;

/* Something that an owner is to answer, or its device is to do. */
typedef struct gli_rma_request {
  gli_rma_work work; /* first: `rma_done` upcalls get its address */
  struct gli_rma_request *next;
  gli_link *link;
  uint64_t begun; /* so many before it */
  bool asks;      /* it has a number */
  uint32_t number;
  gli_rma_verb verb;
  bool answered; /* and the payload is arriving */
  void *to;
  uint64_t bytes;
} gli_rma_request;

typedef enum gli_rma_reach {
  GLI_RMA_UNKNOWN,
  GLI_RMA_ASKED,
  GLI_RMA_MESSAGES,
  GLI_RMA_MAPPED, /* `mapped` is its memory, here */
  GLI_RMA_DEVICE  /* by the transport's `rma`, as far as that goes */
} gli_rma_reach;

/* Flags in the second word of an answer to REACH; the rkey of the device of the
 * owner is above them. ASK_AGAIN: the owner does not know yet. */
enum {
  GLI_RMA_IS_MAPPED = 1,
  GLI_RMA_SHARES_ATOMICS = 2,
  GLI_RMA_IS_DEVICE = 4,
  GLI_RMA_ASK_AGAIN = 8
};

/* So many bytes are copied before they are used: words that several ranks reach
 * at a time are whole, and not called damaged where there are checksums. */
enum { GLI_RMA_WORDS = 2 * GLI_RKEY_BYTES };

/* Holds the state of another rank: the operations of this rank there, and those
 * of that rank here. */
typedef struct gli_rma_target {
  uint64_t key, bytes; /* of its part of the window */
  gli_rma_reach reach;
  uint8_t *mapped;
  bool mapped_atomics;
  uint64_t remote; /* DEVICE */
  uint32_t rkey;

  uint32_t epoch; /* of new puts */
  uint32_t puts;  /* of it */
  /* Puts of an epoch (modulo 2) that the transport still reads. An epoch begins
   * when those of the epoch before the last are sent. */
  uint32_t unsent[2];
  bool flushing; /* a FLUSH of the epoch before is under way */
  uint32_t numbers, under_way;
  uint64_t begun;                /* requests, ever */
  gli_rma_request *first, *last; /* not answered, as they were begun */

  uint32_t came[2]; /* puts of that rank, here, of its epoch % 2 */
  bool owes_flush;
  uint32_t owed_number, owed_epoch, owed_puts;
  uint32_t answers; /* to that rank, which the transport still has */
  bool exposed;     /* it knows where the memory of this rank is */
} gli_rma_target;

/* Marks a point in the sequence of requests to a rank. */
typedef struct gli_rma_goal {
  uint32_t epoch; /* of the last puts */
  uint64_t begun;
} gli_rma_goal;

/* A thread that waits until that is done. */
typedef struct gli_rma_wait {
  uint32_t rank;
  gli_rma_goal goal;
  bool over;
  struct gli_rma_wait *next;
} gli_rma_wait;

struct gloo_window {
  gloo_context *context; /* the group */
  uint8_t *memory;
  uint64_t bytes, key;
  void *ours; /* to be freed with it, or NULL */
  gli_rma_target *targets;
  gli_rma_wait *waits;
  gli_rma_request *spare;
  bool closing; /* no call may use it */
};

/* ---- the origin (origin.c) ----------------------------------------------- */

/* Begin what the arguments, which are within bounds, say. */
gloo_status gli_rma_begin(gloo_window *window, const gli_rma_call *call,
                          gloo_error *error);
/* All that has been called for at that rank so far. */
gli_rma_goal gli_rma_goal_now(const gloo_window *window, uint32_t rank);
bool gli_rma_reached(const gloo_window *window, uint32_t rank,
                     const gli_rma_goal *goal);
/* See to it that it will be reached, as far as that is possible now. */
gloo_status gli_rma_pursue(gloo_window *window, uint32_t rank,
                           const gli_rma_goal *goal, gloo_error *error);
/* Returns true if only the transport has not reported completion, which no
 * message will announce. */
bool gli_rma_waits_untold(const gloo_window *window, uint32_t rank);
gloo_status gli_rma_answered(gli_link *link, const gli_header *header,
                             gli_sink *sink, gloo_error *error);
gloo_status gli_rma_took_answer(gli_transfer *t, gloo_error *error);
/* The transport is done with something. */
gloo_status gli_rma_device_done(gli_rma_work *work, gloo_error *error);
/* Returns true if requests to a rank that has left are pending. */
bool gli_rma_needs(const gli_link *link);

/* ---- the owner (owner.c) ------------------------------------------------- */

/* A message for a window: where its payload goes. */
gloo_status gli_rma_arrives(gli_link *link, const gli_header *header,
                            gli_sink *sink, gloo_error *error);
/* Its payload is there. */
gloo_status gli_rma_arrived(gli_transfer *t, gloo_error *error);
/* A rank whose messages still use the window's memory, or this rank's for it;
 * GLI_NO_RANK: none. */
uint32_t gli_rma_user(const gloo_window *window);
/* Still what other ranks see? */
bool gli_rma_is_shared(const gloo_window *window);
/* Ends all access of other ranks to the memory of a window whose context has
 * failed. */
void gli_rma_fail(gloo_window *window);

/* The atomic operations, on memory that several processes may see. */
uint64_t gli_rma_atomic(gli_rma_verb verb, void *at,
                        const uint64_t operands[2]);
bool gli_rma_atomics_are_shared(void);

#endif
