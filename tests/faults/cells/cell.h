/* Cells of the fault matrix: one fault in one rank, at a random moment, while
 * all ranks make one kind of call over one transport. Ranks are processes.
 * Their results are in memory shared with the driver, where they outlive the
 * ranks. */
#ifndef TESTS_FAULTS_CELLS_CELL_H
#define TESTS_FAULTS_CELLS_CELL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "gloo_c/gloo_c.h"

enum { CELL_MIN_RANKS = 2, CELL_MAX_RANKS = 8 };

/* ---- faults -------------------------------------------------------------- */

/* Transports: on one host, or between two hosts that are network namespaces. */
typedef enum cell_over { CELL_TCP, CELL_SHM, CELL_HOSTS, CELL_OVERS } cell_over;
extern const char *const cell_over_names[CELL_OVERS];

typedef enum cell_outcome {
  CELL_ENDS,    /* every remaining rank gets an error */
  CELL_GOES_ON, /* no rank gets an error */
  CELL_EITHER   /* all ranks get an error, or none */
} cell_outcome;

/* The deviation of the rank at fault from the calls of the others, made
 * once. */
typedef enum cell_departure {
  CELL_NONE,
  CELL_COUNT,
  CELL_TYPE,
  CELL_OP,
  CELL_ROOT,
  CELL_ORDER,
  CELL_EXTRA,
  CELL_MISSING,
  CELL_ALONE /* a collective, while all others only send messages */
} cell_departure;

/* The ranks at fault. */
typedef enum cell_named {
  CELL_VICTIM,
  CELL_VICTIM_DEAF, /* the victim, which receives nothing, may name any rank */
  CELL_OTHER_SIDE,  /* ranks on the other host than the reporting rank */
  CELL_ANY          /* any rank: each may be an end of a broken connection */
} cell_named;

typedef struct cell_run cell_run;
typedef struct cell_board cell_board;

typedef struct cell_fault {
  const char *name;
  cell_outcome outcome;
  const char *heartbeat; /* GLOO_HEARTBEAT */
  int64_t timeout_ns;    /* timeout of operations; -1: none */
  int64_t promised_ns;   /* from the fault to the last rank's error */
  /* `strike` runs in the driver, `suffer` on a second thread of the rank at
   * fault. Either may be NULL. */
  void (*strike)(cell_run *run);
  void (*suffer)(void);
  void (*heal)(cell_run *run); /* later, in the driver; or NULL */
  /* Runs in the rank at fault, on its calling thread, before the next call. It
   * may not return. */
  void (*act)(gloo_context *context);
  cell_departure departure;
  unsigned over;     /* mask of 1 << cell_over: transports with the fault */
  bool victim_lives; /* the victim gets the error as well */
  bool settled;      /* the fault waits for connections and heartbeats */
  bool early;        /* the fault occurs during the rendezvous */
  bool served;       /* the store has a server, which dies */
  bool at_start;     /* in half of the cells the fault precedes the context */
  bool makes_groups; /* ranks create groups, to take memory and descriptors */
  bool others_leave; /* after some calls, unless they need the victim again */
  cell_named named;
  const char *setting, *value; /* environment variable, or NULL */
} cell_fault;

extern const cell_fault cell_faults[];
extern const int cell_fault_count;

/* ---- calls --------------------------------------------------------------- */

typedef struct cell_call {
  int kind; /* index of cell_call_names */
  unsigned number;
  size_t count;
  gloo_dtype type;
  gloo_op op;
  int root;
} cell_call;

extern const char *const cell_call_names[];
extern const int cell_call_count;

typedef struct cell_work {
  gloo_context *context;
  int rank, ranks;
  uint32_t *in, *out;
} cell_work;

bool cell_work_make(cell_work *w);
void cell_work_free(cell_work *w);

/* Returns the n-th call, the same on all ranks. */
cell_call cell_call_draw(int kind, unsigned seed, unsigned n, int ranks);
/* Returns true if calls of that kind have this deviation. */
bool cell_call_departs(int kind, cell_departure departure);
void cell_call_depart(cell_call *call, cell_departure departure, int rank,
                      int ranks);

/* Makes the call with distinct inputs. Sets *wrong if it succeeds with a wrong
 * result. */
gloo_status cell_call_make(cell_work *w, const cell_call *call, bool *wrong);

/* ---- a cell -------------------------------------------------------------- */

typedef struct cell {
  const cell_fault *fault;
  int kind;
  cell_over over;
  unsigned seed;
  /* Derived from the seed. */
  int ranks, victim;
  unsigned others;   /* bit mask of the ranks on the other host */
  bool before_start; /* the fault precedes the context */
  int64_t delay_ns;  /* otherwise the time from the first calls to the fault */
} cell;

void cell_draw(cell *c);
unsigned cell_random(unsigned *state, unsigned below);
uint64_t cell_now_ns(void);
void cell_nap_ns(int64_t ns);

/* Results of a rank. */
typedef struct cell_note {
  _Atomic bool works, ended; /* `ended`: the fields below are valid */
  bool wrong;                /* success with a wrong result */
  bool changed;              /* a later call did not return the same cause */
  gloo_status cause;
  int named;
  unsigned calls;
  uint64_t at_ns;
  int64_t leaving_ns; /* duration of gloo_context_destroy() */
  char text[GLOO_ERROR_MESSAGE_BYTES];
} cell_note;

struct cell_board {
  _Atomic bool struck, stop;
  _Atomic unsigned store_port;
  _Atomic unsigned stop_at; /* number of the call before which all ranks stop */
  _Atomic uint64_t struck_ns;
  cell_note notes[CELL_MAX_RANKS];
};

/* Runs a rank in a separate process. Returns its exit status. */
int cell_rank(const cell *c, int rank, const char *directory,
              cell_board *board);

struct cell_run {
  const cell *c;
  cell_board *board;
  pid_t pids[CELL_MAX_RANKS]; /* 0: ended, with status `exits` */
  int exits[CELL_MAX_RANKS];
  bool killed[CELL_MAX_RANKS]; /* by the driver, at the end */
  pid_t store;                 /* pid of the server; 0: a directory */
  char directory[32];
};

/* Runs the cell and appends the result of each rank to `records` (or NULL).
 * Returns true if all results are as expected. Prints violations. */
bool cell_play(const cell *c, FILE *records);

void cell_store_begin(cell_run *run);
void cell_store_end(cell_run *run);
gloo_status cell_store_open(const cell *c, const char *directory,
                            const cell_board *board, gloo_store **store,
                            gloo_error *error);

/* ---- two hosts ----------------------------------------------------------- */

/* A process in the network namespace of the other host; 0: none. */
extern pid_t cell_other_host;
bool cell_is_there(const cell *c, int rank);
void cell_enter_other_host(void);

#endif
