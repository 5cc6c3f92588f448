/* A rank with links for messages to go through: a bare one, and pairs that do
 * as they are told and write down what they took. */
#ifndef GLI_TESTS_ENGINE_WIRE_WORLD_H
#define GLI_TESTS_ENGINE_WIRE_WORLD_H

#include "engine/bare.h"
#include "engine/wire/wire.h"

/* ---- pairs --------------------------------------------------------------- */

enum { LOG = 8192, IN_PROGRESS = 4096 };

/* What a message was when the pair took it. */
typedef struct logged {
  gli_header header;
  const gloo_request *op; /* NULL: a control message, or sent by send_now */
} logged;

typedef struct wire_pair {
  gli_pair base;
  uint32_t room;   /* so many messages it takes, and then no more */
  bool slow;       /* what it takes is in progress until wire_sent */
  uint64_t *seed;  /* NULL: all as said; else it does as it likes */
  logged log[LOG]; /* of all that it has taken */
  uint32_t n_log;
  gli_send_request *in_progress[IN_PROGRESS];
  uint32_t n_in_progress;
} wire_pair;

/* ---- a rank -------------------------------------------------------------- */

/* More transfers than are ever under way at once: none is allocated but these,
 * so that one that is lost is missed. */
enum { TRANSFERS = 4096 };

typedef struct wire_world {
  bare rank;
  wire_pair pairs[BARE_SIZE]; /* not used: that to itself */
} wire_world;

wire_world *wire_begin(uint32_t budget);
/* Drops what is left, and asserts that nothing is. */
void wire_end(wire_world *w);

/* As if it had been so busy that its counters were there. */
void wire_count_from(wire_world *w, uint32_t start);

/* An operation with peers 0 ... BARE_SIZE - 1, one for each link. */
gloo_request *wire_operation(wire_world *w);
void wire_operation_free(gloo_request *op);

/* The next message of a step: at once, or as wire.h says. */
void wire_post_step(gloo_request *op, uint32_t peer, uint32_t step,
                    const gli_header *h, bool stuck);

/* The transport says `sent`, of all or of one that is in progress. */
void wire_sent(wire_pair *pair);
void wire_sent_one(wire_pair *pair, uint32_t which);

/* What every state must be like. */
void wire_check(const wire_world *w);
uint32_t wire_list_length(const gli_transfer_list *list);

#endif
