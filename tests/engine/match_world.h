/* A rank with operations to match messages with: a bare one, and what is asked
 * of it. */
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
  /* What the model goes by. */
  made_as as;
  bool there;     /* messages find it */
  uint32_t with;  /* of a message: the other rank */
  uint32_t takes; /* posted: from which ranks, a bit each */
} made;

typedef struct world {
  bare rank;
  gloo_context other; /* of the same family */
  made ops[OPS + 1];
  uint32_t n_ops;
  gli_early *early[PARKED]; /* as they came */
  uint32_t n_early;
  uint64_t started[TAGS], found[BARE_SIZE][TAGS]; /* for the model */
  gli_header pushed[PUSHED]; /* signatures of what is over, oldest first */
  uint32_t n_pushed;
} world;

world *world_new(void);
void world_free(world *w);

/* ---- what is here -------------------------------------------------------- */

made *make(world *w, made_as as, const gli_header *signature);
/* Steps are told apart by their numbers: 10, 11, ... of the first peer, 20, 21,
 * ... of the second. */
void add_peer(made *m, gli_link *link, uint32_t plan_rank, uint32_t recvs,
              uint64_t elements);
/* Messages find it from now on. */
void let_find(made *m);

/* Receives two messages, of 10 elements together, from rank 1 and one without
 * elements from rank 2. */
void collective(world *w, const gli_header *signature);
/* Three messages from a rank, or to it. */
void message(world *w, made_as as, uint32_t with, const gli_header *signature);
/* A receive. `takes` has a bit for each rank that it takes messages from. */
void post(world *w, uint32_t tag, uint32_t takes, bool elsewhere);
/* A message that came early. */
void park(world *w, uint32_t from, const gli_header *h, bool envelope);
/* So many collectives with a tag were started, and receives were found for so
 * many messages from a rank. */
void start_so_many(world *w, uint32_t tag, uint64_t n);
void find_so_many(world *w, uint32_t from, uint32_t tag, uint64_t n);
/* An operation that is over. */
void push_finished(world *w, const gli_header *signature);

/* ---- it changes nothing -------------------------------------------------- */

enum { COUNTERS = 16 };

typedef struct snapshot {
  world w;
  uint8_t early[PARKED][sizeof(gli_early)];
  uint64_t counters[1 + BARE_SIZE][COUNTERS];
} snapshot;

void remember(const world *w, snapshot *s);
/* But for the hints of links, to every byte. `name` is for messages. */
void assert_unchanged(const char *name, world *w, const snapshot *s);

/* ---- asking -------------------------------------------------------------- */

/* All that there is to say of a message. */
typedef struct answer {
  uint32_t op; /* NOBODY, A, ... */
  gloo_status status;
  uint32_t step; /* 0: none */
  bool over;     /* asked where nobody is found */
  gloo_status late;
  uint32_t posted; /* the receive that it could go to */
} answer;

/* Whatever is asked changes nothing, and errors name the rank of the link. */
answer ask(const char *name, world *w, uint32_t from, const gli_header *h);
void assert_answer(const char *name, const answer *got, const answer *expected);
/* Of one operation; 0 with an error. */
gloo_status ask_step(const char *name, const gloo_request *op, gli_link *link,
                     const gli_header *h, uint32_t *step);

#endif
