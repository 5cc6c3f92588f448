/* A bare rank with operations to match messages with, and queries to it. */
#ifndef GLI_TESTS_ENGINE_MATCH_WORLD_H
#define GLI_TESTS_ENGINE_MATCH_WORLD_H

#include "engine/bare.h"
#include "engine/match/match.h"

/* ---- a rank with operations ---------------------------------------------- */

enum { NOBODY, A, B, C, D, OPS = 40, PEERS = 2, RECVS = 3, PARKED = 12 };
enum { FORGETS = GLI_TRACE_LEAST, PUSHED = FORGETS + 40, TAGS = 10 };

typedef enum made_as { COLLECTIVE, RECEIVE, SEND, POSTED } made_as;

typedef struct made {
  gloo_request op;
  gli_op_peer peers[PEERS];
  gli_plan plan;
  gli_plan_peer plan_peers[PEERS];
  uint32_t recv_steps[PEERS * RECVS];
  int candidates[2];
  /* Values for the model. */
  made_as as;
  bool there;     /* messages match it */
  uint32_t with;  /* peer of a message */
  uint32_t takes; /* posted: bit set of source ranks */
} made;

typedef struct world {
  bare rank;
  gloo_context other; /* another context of the family */
  made ops[OPS + 1];
  uint32_t n_ops;
  gli_early *early[PARKED]; /* in order of arrival */
  uint32_t n_early;
  uint64_t started[TAGS], found[BARE_SIZE][TAGS]; /* for the model */
  gli_header pushed[PUSHED]; /* signatures of completed operations, oldest
                                first */
  uint32_t n_pushed;
} world;

world *world_new(void);
void world_free(world *w);

/* ---- operations and early messages --------------------------------------- */

made *make(world *w, made_as as, const gli_header *signature);
/* Adds a peer. Steps are numbered 10, 11, ... for the first peer and 20, 21,
 * ... for the second. */
void add_peer(made *m, gli_link *link, uint32_t plan_rank, uint32_t recvs,
              uint64_t elements);
/* Makes the operation visible to messages. */
void let_find(made *m);

/* Adds a collective that receives two messages with 10 elements in total from
 * rank 1, and one without elements from rank 2. */
void collective(world *w, const gli_header *signature);
/* Adds an operation with three messages from or to a rank. */
void message(world *w, made_as as, uint32_t with, const gli_header *signature);
/* Posts a receive. `takes` has a bit for each rank that it takes messages
 * from. */
void post(world *w, uint32_t tag, uint32_t takes, bool elsewhere);
/* Adds an early message. */
void park(world *w, uint32_t from, const gli_header *h, bool envelope);
/* Set the number of collectives started with a tag, and of messages from a rank
 * that have receives. */
void start_so_many(world *w, uint32_t tag, uint64_t n);
void find_so_many(world *w, uint32_t from, uint32_t tag, uint64_t n);
/* Adds a completed operation to the trace. */
void push_finished(world *w, const gli_header *signature);

/* ---- no state changes ---------------------------------------------------- */

enum { COUNTERS = 16 };

typedef struct snapshot {
  world w;
  uint8_t early[PARKED][sizeof(gli_early)];
  uint64_t counters[1 + BARE_SIZE][COUNTERS];
} snapshot;

void remember(const world *w, snapshot *s);
/* Compares every byte except the hints of links. `name` is for failure
 * messages. */
void assert_unchanged(const char *name, world *w, const snapshot *s);

/* ---- queries ------------------------------------------------------------- */

/* The complete result for a message. */
typedef struct answer {
  uint32_t op; /* NOBODY, A, ... */
  gloo_status status;
  uint32_t step; /* 0: none */
  bool over;     /* the operation has completed; only asked if none matches */
  gloo_status late;
  uint32_t posted; /* the receive that it could match */
} answer;

/* Queries everything about a message. Checks that no state changes, and that
 * errors name the rank of the link. */
answer ask(const char *name, world *w, uint32_t from, const gli_header *h);
void assert_answer(const char *name, const answer *got, const answer *expected);
/* Queries the step of one operation; 0 with an error. */
gloo_status ask_step(const char *name, const gloo_request *op, gli_link *link,
                     const gli_header *h, uint32_t *step);

#endif
