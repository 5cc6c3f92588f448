/* A bare rank with links, and scripted pairs that log the messages they
 * take. */
#ifndef GLI_TESTS_ENGINE_WIRE_WORLD_H
#define GLI_TESTS_ENGINE_WIRE_WORLD_H

#include "engine/bare.h"
#include "engine/wire/wire.h"

/* ---- pairs --------------------------------------------------------------- */

enum { LOG = 8192, IN_PROGRESS = 4096 };

/* A message as the pair took it. */
typedef struct logged {
  gli_header header;
  const gloo_request *op; /* NULL: a control message, or sent by send_now */
} logged;

typedef struct wire_pair {
  gli_pair base;
  uint32_t room;   /* number of messages that it still takes */
  bool slow;       /* messages stay in progress until wire_sent */
  uint64_t *seed;  /* NULL: scripted; else it acts at random */
  logged log[LOG]; /* all messages taken */
  uint32_t n_log;
  gli_send_request *in_progress[IN_PROGRESS];
  uint32_t n_in_progress;
} wire_pair;

/* ---- a rank -------------------------------------------------------------- */

/* More transfers than are ever in flight at once. No others are allocated, so
 * that a lost one is detected. */
enum { TRANSFERS = 4096 };

typedef struct wire_world {
  bare rank;
  wire_pair pairs[BARE_SIZE]; /* the one to itself is unused */
} wire_world;

wire_world *wire_begin(uint32_t budget);
/* Drops all links, and asserts that nothing is left. */
void wire_end(wire_world *w);

/* Sets all counters to `start`, as after a long run. */
void wire_count_from(wire_world *w, uint32_t start);

/* Returns an operation with peers 0 ... BARE_SIZE - 1, one for each link. */
gloo_request *wire_operation(wire_world *w);
void wire_operation_free(gloo_request *op);

/* Posts the next message of a step, immediately or as wire.h says. */
void wire_post_step(gloo_request *op, uint32_t peer, uint32_t step,
                    const gli_header *h, bool stuck);

/* Calls `sent` for all messages in progress, or for one. */
void wire_sent(wire_pair *pair);
void wire_sent_one(wire_pair *pair, uint32_t which);

/* Checks the invariants of every state. */
void wire_check(const wire_world *w);
uint32_t wire_list_length(const gli_transfer_list *list);

#endif
