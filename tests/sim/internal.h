/* Internal declarations of the simulated transport. */
#ifndef TESTS_SIM_INTERNAL_H
#define TESTS_SIM_INTERNAL_H

#include <stdnoreturn.h>

#include "core/error.h"
#include "sim.h"

#define SIM_NEVER UINT64_MAX

typedef struct sim_node sim_node;
typedef struct sim_link sim_link;
typedef struct sim_side sim_side;
typedef struct sim_message sim_message;

/* A request in progress, whose `sent` upcall is due at `due_ns`. While
 * `message` is set, the payload has not been read completely. */
typedef struct sim_flight {
  gli_send_request *request;
  sim_message *message;
  uint64_t due_ns;
  struct sim_flight *next;
} sim_flight;

/* A message in transit; its next event is due at `due_ns`. */
struct sim_message {
  gli_header header;
  const uint8_t *payload; /* the sender's, or `copy` */
  uint8_t *copy;
  sim_flight *flight; /* NULL once the payload is copied */
  uint64_t digest;    /* payload digest when posted */
  uint64_t due_ns;
  uint64_t arrived; /* bytes written to the sink */
  gli_sink sink;
  bool begun; /* the header was delivered */
  bool last;  /* BYE or ABORT, after all other streams */
  sim_message *next;
};

typedef struct sim_queue {
  sim_message *head, *tail;
} sim_queue;

/* One rank's end of a link: the engine's gli_pair. */
struct sim_side {
  gli_pair pair;
  sim_world *world;
  sim_link *link;
  sim_node *node; /* NULL: no such endpoint */
  uint32_t rank;
  uint64_t key; /* expected from the other side */
  void *user;
  bool attached, closed, stopped;
  uint64_t heard;      /* messages whose delivery to this side has begun */
  uint64_t heard_ns;   /* time of the last one */
  uint64_t failure_ns; /* when `failed` is reported */
  const char *failure;
  uint8_t taken[GLI_TAKE_BYTES]; /* payload of the last take_now */
  gli_shared_copy *shared_copy;  /* [GLI_SHARED_COPIES] for what comes here */
  sim_queue streams[SIM_STREAMS_MAX]; /* incoming messages */
  sim_flight *flights;                /* this side's requests */
  sim_side *next;                     /* in the node's list of open sides */
};

/* A link, kept until the world ends so that use after close is detected. */
struct sim_link {
  sim_side sides[2]; /* [0] opened it first */
  bool offered;      /* waits for side 1, asked at `offer_ns` */
  uint64_t offer_ns;
  sim_link *next;
};

/* Memory that one side may read from the other. Kept until the world ends. */
typedef struct sim_grant {
  sim_side *owner;
  uint64_t number;
  const uint8_t *memory;
  size_t bytes;
  uint64_t digest;
  bool mapped, writable;
  uint8_t *junk;
  struct sim_grant *next;
} sim_grant;

struct sim_node {
  gli_transport transport;
  sim_world *world;
  uint32_t rank;
  uint64_t id;
  gli_upcalls upcalls;
  void *device_user;
  bool open, dead, frozen;
  bool polling;
  sim_side *sides;
  sim_node *next; /* closed endpoints stay in the list */
};

struct sim_world {
  sim_options options;
  uint64_t random;
  uint64_t now_ns;
  uint64_t last_id;
  int number;
  sim_node *nodes;
  sim_link *links;
  sim_grant *grants;
  uint64_t n_grants;
  int n_windowed;
  int access; /* see sim_last_access */
  char hosts[SIM_RANKS_MAX][32];
};

/* ---- world.c ------------------------------------------------------------- */

/* Reports a broken contract and ends the program. */
noreturn void sim_violation(const sim_world *world, const char *format, ...)
    GLI_PRINTF(2, 3);

/* Returns a random time at least 1 ns from now. */
uint64_t sim_soon_ns(sim_world *world);
bool sim_chance(sim_world *world, int percent);
void *sim_alloc(size_t bytes); /* zeroed; never NULL */
uint64_t sim_digest(const void *data, uint64_t bytes);

/* ---- link.c -------------------------------------------------------------- */

sim_side *sim_other(sim_side *side);
gloo_status sim_pair_open(gli_transport *t, const gli_pair_config *config,
                          gli_pair **pair, gloo_error *error);
void sim_pair_close(gli_pair *pair, const gli_send_request *last);
/* Fails the side because the other end or the connection is gone. */
void sim_fail(sim_side *side, const char *why);
/* Drops messages that need the sender's memory, and all behind them. */
void sim_drop_borrowed(sim_side *to);
void sim_drop_all(sim_side *to);
void sim_free_flights(sim_side *side);

/* ---- rkey.c -------------------------------------------------------------- */

bool sim_rkey_pack(gli_pair *pair, const void *memory, size_t bytes,
                   gli_access access, uint64_t *rkey);
gloo_status sim_rkey_map(gli_pair *pair, uint64_t rkey, size_t bytes,
                         bool write, void **memory, gloo_error *error);
gloo_status sim_get(gli_pair *pair, uint64_t rkey, void *dst, size_t bytes,
                    gloo_error *error);
bool sim_revoked(gli_pair *pair);
gli_shared_copy *sim_shared_copy(gli_pair *pair, bool sends);
/* Handles a message of this side that asks for help with a copy. */
void sim_shared_copy_asked(sim_side *side, const gli_header *header);
void sim_free_grants(sim_world *world);

/* ---- message.c ----------------------------------------------------------- */

gli_post sim_send(gli_pair *pair, gli_send_request *request);
bool sim_send_now(gli_pair *pair, gli_header *header, const void *payload);
bool sim_take_now(gli_pair *pair, const gli_header *expected, gli_taken *taken);
void sim_queue_push(sim_queue *queue, sim_message *m);
void sim_message_free(sim_message *m);
void sim_message_copy(sim_side *sender, sim_message *m);
/* Returns the time of this side's next event, or SIM_NEVER. */
uint64_t sim_side_due_ns(sim_side *side);
/* Handles one event that is due; at least one must be. */
void sim_side_act(sim_side *side);

#endif
