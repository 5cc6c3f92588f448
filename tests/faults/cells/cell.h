/* Cells of the fault matrix: one fault, in one rank, at a moment drawn by
 * chance, while all ranks make one kind of call over one transport. Ranks are
 * processes. What they tell lies in memory that they share with the driver, so
 * that it is there whatever becomes of them. */
#ifndef TESTS_FAULTS_CELLS_CELL_H
#define TESTS_FAULTS_CELLS_CELL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "gloo_c/gloo_c.h"

enum { CELL_MIN_RANKS = 2, CELL_MAX_RANKS = 8 };

/* ---- what is done to a rank ---------------------------------------------- */

/* The transports: one host, or two that are network namespaces. */
typedef enum cell_over { CELL_TCP, CELL_SHM, CELL_HOSTS, CELL_OVERS } cell_over;
extern const char *const cell_over_names[CELL_OVERS];

typedef enum cell_outcome {
  CELL_ENDS,    /* every rank that is left is told */
  CELL_GOES_ON, /* no rank notices */
  CELL_EITHER   /* all are told, or none */
} cell_outcome;

/* How a rank at fault departs from what the others call, once. */
typedef enum cell_departure {
  CELL_NONE,
  CELL_COUNT,
  CELL_TYPE,
  CELL_OP,
  CELL_ROOT,
  CELL_ORDER,
  CELL_EXTRA,
  CELL_MISSING,
  CELL_ALONE /* a collective, where all others make messages only */
} cell_departure;

/* Which ranks are at fault. */
typedef enum cell_named {
  CELL_VICTIM,
  CELL_VICTIM_DEAF, /* it hears of nobody: it may name any */
  CELL_OTHER_SIDE,  /* of two hosts: those on another one than who is told */
  CELL_ANY          /* each is an end of a connection that broke */
} cell_named;

typedef struct cell_run cell_run;
typedef struct cell_board cell_board;

typedef struct cell_fault {
  const char *name;
  cell_outcome outcome;
  const char *heartbeat; /* GLOO_HEARTBEAT */
  int64_t timeout_ns;    /* of operations; -1: none */
  int64_t promised_ns;   /* from the fault to the last rank that is told */
  /* Either is NULL. `strike` runs in the driver. `suffer` runs in the rank,
   * on a thread beside the one that calls. */
  void (*strike)(cell_run *run);
  void (*suffer)(void);
  void (*heal)(cell_run *run); /* in the driver, some time later; or NULL */
  /* In the rank, by the thread that calls, before the next call. It may not
   * return. */
  void (*act)(gloo_context *context);
  cell_departure departure;
  unsigned over;     /* 1 << cell_over: where there is such a thing */
  bool victim_lives; /* it is told as well */
  bool settled;      /* it comes when connections and signs of life are there */
  bool early;        /* it comes while ranks meet */
  bool served;       /* at a server of the store, whose death it is */
  bool at_start;     /* half of the cells: before the context is made */
  bool makes_groups; /* what takes memory and descriptors */
  bool others_leave; /* after some calls, if they need no more of the victim */
  cell_named named;
  const char *setting, *value; /* of the environment, or NULL */
} cell_fault;

extern const cell_fault cell_faults[];
extern const int cell_fault_count;

/* ---- what ranks call ----------------------------------------------------- */

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

/* The n-th call of the ranks, the same on all of them. */
cell_call cell_call_draw(int kind, unsigned seed, unsigned n, int ranks);
/* Is there such a departure from that kind of call? */
bool cell_call_departs(int kind, cell_departure departure);
void cell_call_depart(cell_call *call, cell_departure departure, int rank,
                      int ranks);

/* Make it with inputs of its own. Success with a wrong result sets *wrong. */
gloo_status cell_call_make(cell_work *w, const cell_call *call, bool *wrong);

/* ---- a cell -------------------------------------------------------------- */

typedef struct cell {
  const cell_fault *fault;
  int kind;
  cell_over over;
  unsigned seed;
  /* These follow from the seed. */
  int ranks, victim;
  unsigned others;   /* bits: ranks on the other host */
  bool before_start; /* the fault comes before the context is made */
  int64_t delay_ns;  /* else: from the first calls to the fault */
} cell;

void cell_draw(cell *c);
unsigned cell_random(unsigned *state, unsigned below);
uint64_t cell_now_ns(void);
void cell_nap_ns(int64_t ns);

/* What a rank tells. */
typedef struct cell_note {
  _Atomic bool works, ended; /* nothing below counts before `ended` */
  bool wrong;                /* success with a wrong result */
  bool changed; /* calls after the error did not return its cause */
  gloo_status cause;
  int named;
  unsigned calls;
  uint64_t at_ns;
  int64_t leaving_ns; /* how long its destroy took */
  char text[GLOO_ERROR_MESSAGE_BYTES];
} cell_note;

struct cell_board {
  _Atomic bool struck, stop;
  _Atomic unsigned store_port;
  _Atomic unsigned stop_at; /* the number of the call before which all end */
  _Atomic uint64_t struck_ns;
  cell_note notes[CELL_MAX_RANKS];
};

/* In a process of its own. Returns its exit status. */
int cell_rank(const cell *c, int rank, const char *directory,
              cell_board *board);

struct cell_run {
  const cell *c;
  cell_board *board;
  pid_t pids[CELL_MAX_RANKS]; /* 0: has ended, `exits` says how */
  int exits[CELL_MAX_RANKS];
  bool killed[CELL_MAX_RANKS]; /* by the driver, when it was over */
  pid_t store;                 /* 0: it is the directory */
  char directory[32];
};

/* Run it, append what became of each rank to `records` (or NULL), and return
 * whether all is as promised. Says what is not so. */
bool cell_play(const cell *c, FILE *records);

void cell_store_begin(cell_run *run);
void cell_store_end(cell_run *run);
gloo_status cell_store_open(const cell *c, const char *directory,
                            const cell_board *board, gloo_store **store,
                            gloo_error *error);

/* ---- two hosts ----------------------------------------------------------- */

/* The process whose network namespace is the other host; 0: there is none. */
extern pid_t cell_other_host;
bool cell_is_there(const cell *c, int rank);
void cell_enter_other_host(void);

#endif
