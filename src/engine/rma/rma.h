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
 *   FLUSH          -         number    4: the puts so far
 *   REACH          -         number    -
 *   REPLY          -         number    what was asked for
 *
 * `operation` of all of them is the key of the owner's part of the window.
 * The numbers are the origin's own.
 * Messages of several streams overtake each other, so a FLUSH is answered when
 * as many puts have come as it says. */
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

/* Under way from one rank to one other: who wants more waits until there are
 * none. An owner has more answers on their way than that where its transport is
 * slow to say that they are sent. */
enum { GLI_RMA_UNDER_WAY_MAX = 1024, GLI_RMA_ANSWERS_MAX = 16384 };

/* What the program asks for. */
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
  bool asks; /* it has a number */
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

/* Of an answer to REACH, in the second word; above them is the rkey of the
 * owner's device. */
enum {
  GLI_RMA_IS_MAPPED = 1,
  GLI_RMA_SHARES_ATOMICS = 2,
  GLI_RMA_IS_DEVICE = 4
};

/* One other rank: what this one does there, and what that one does here. */
typedef struct gli_rma_target {
  uint64_t key, bytes; /* of its part of the window */
  gli_rma_reach reach;
  uint8_t *mapped;
  bool mapped_atomics;
  uint64_t remote; /* DEVICE */
  uint32_t rkey;

  /* Mod 2^32: puts that were sent, and those known to be there. */
  uint32_t puts, puts_there, puts_asked;
  uint32_t unsent; /* puts that the transport still reads */
  bool flushing;   /* a FLUSH for puts_asked is under way */
  uint32_t numbers, under_way;
  gli_rma_request *first, *last; /* not answered */

  uint32_t came; /* puts of that rank, here, mod 2^32 */
  bool owes_flush;
  uint32_t owed_number, owed_puts;
  bool mapped_there; /* it was told where this rank's memory is mapped */
} gli_rma_target;

/* A thread that waits until nothing is under way to a rank. */
typedef struct gli_rma_wait {
  uint32_t rank; /* GLI_NO_RANK: to any */
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
};

/* ---- the origin (origin.c) ----------------------------------------------- */

/* Begin what the arguments, which are within bounds, say. */
gloo_status gli_rma_begin(gloo_window *window, const gli_rma_call *call,
                          gloo_error *error);
/* Is anything under way to that rank (GLI_NO_RANK: to any)? */
bool gli_rma_is_quiet(const gloo_window *window, uint32_t rank);
/* Ask for an answer about all puts so far. */
gloo_status gli_rma_ask_flush(gloo_window *window, uint32_t rank,
                              gloo_error *error);
/* The rank that is waited for. */
uint32_t gli_rma_late_rank(const gloo_window *window, uint32_t rank);
gloo_status gli_rma_answered(gli_link *link, const gli_header *header,
                             gli_sink *sink, gloo_error *error);
gloo_status gli_rma_took_answer(gli_transfer *t, gloo_error *error);
/* The transport is done with something. */
gloo_status gli_rma_device_done(gli_rma_work *work, gloo_error *error);
/* It has left; is something under way to it? */
bool gli_rma_needs(const gli_link *link);

/* ---- the owner (owner.c) ------------------------------------------------- */

/* A message for a window: where its payload goes. */
gloo_status gli_rma_arrives(gli_link *link, const gli_header *header,
                            gli_sink *sink, gloo_error *error);
/* Its payload is there. */
gloo_status gli_rma_arrived(gli_transfer *t, gloo_error *error);
/* Still what other ranks see? */
bool gli_rma_is_shared(const gloo_window *window);
/* The context has failed: from now on nobody writes to its memory. */
void gli_rma_fail(gloo_window *window);

/* The atomic operations, on memory that several processes may see. */
uint64_t gli_rma_atomic(gli_rma_verb verb, void *at,
                        const uint64_t operands[2]);
bool gli_rma_atomics_are_shared(void);

#endif
