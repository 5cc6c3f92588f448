/* Every collective, every algorithm, in every form, on every kind of ranks, as
 * far as the library's own lists say what there is. */
#ifndef TESTS_MATRIX_MATRIX_H
#define TESTS_MATRIX_MATRIX_H

#include "algorithms/registry.h"
#include "ranks/ranks.h"
#include "reference.h"

/* ---- cases --------------------------------------------------------------- */

/* Calls that a collective may have. */
typedef enum matrix_variant {
  MATRIX_PLAIN, /* one buffer */
  MATRIX_MULTI, /* several inputs and outputs */
  MATRIX_LIST,  /* blocks, or pieces, each at an address of its own */
  MATRIX_VARIANTS
} matrix_variant;

/* One of these, by one of the collective's algorithms. */
typedef struct matrix_row {
  gli_collective collective;
  matrix_variant variant;
  const char *algorithm; /* NULL: the library chooses */
} matrix_row;

/* All there are: of each collective first the choice. */
size_t matrix_rows(const matrix_row **rows);
bool matrix_is_first(const matrix_row *row); /* of those it is among */

/* "allreduce", "allreduce_list"; "ring", "chosen". */
enum { MATRIX_NAME = 64 };
const char *matrix_collective(const matrix_row *row, char *name);
const char *matrix_algorithm(const matrix_row *row);

/* Does it add in rank order, so that rounding leaves no choice? */
bool matrix_is_ordered(const matrix_row *row);

/* May the collective be called with this operation? REFERENCE_NO_OP: it takes
 * none. */
bool matrix_applies(const matrix_row *row, gloo_dtype dtype, int op);

/* Ranks that meet once and then run case after case. */
typedef struct matrix_ranks {
  const char *transport;
  int size;
  int hosts; /* how ranks are told to be on hosts: see matrix_host_ids */
} matrix_ranks;

enum {
  MATRIX_HOSTS = 3,
  MATRIX_GROUP = MATRIX_HOSTS, /* one host, and some ranks of more */
  MATRIX_SETS,
  MATRIX_MOST_RANKS = REFERENCE_MOST_RANKS
};

/* NULL, all on one; in two halves; or dealt to three. */
const char *const *matrix_host_ids(int hosts, int size);

typedef enum matrix_form {
  MATRIX_BLOCKING,
  MATRIX_STARTED,
  MATRIX_PERSISTENT, /* several runs */
  MATRIX_FORMS
} matrix_form;

typedef enum matrix_place {
  MATRIX_APART,
  MATRIX_IN_PLACE,
  MATRIX_SAME, /* in place, by giving the same address twice */
  MATRIX_PLACES
} matrix_place;

typedef struct matrix_case {
  uint64_t seed; /* of everything that is not said here */
  uint32_t count;
  uint16_t row;
  uint8_t dtype;
  uint8_t op; /* REFERENCE_NO_OP where none is given */
  uint8_t root;
  uint8_t place, form;
} matrix_case;

typedef struct matrix_cases {
  size_t n, room;
  matrix_case *list;   /* NULL, and no room: they are only counted */
  uint64_t most_bytes; /* of all buffers of one case */
  size_t left_out;     /* those that need more */
} matrix_cases;

/* The part that always runs; `sample` others, drawn at random; and all. */
void matrix_core(const matrix_ranks *ranks, uint64_t seed, matrix_cases *to);
void matrix_sample(const matrix_ranks *ranks, uint64_t seed, size_t sample,
                   matrix_cases *to);
void matrix_product(const matrix_ranks *ranks, uint64_t seed, matrix_cases *to);

/* A case and its ranks as one word, and back. */
enum { MATRIX_TEXT = 256 };
void matrix_print(const matrix_ranks *ranks, const matrix_case *c, char *text);
bool matrix_parse(const char *text, matrix_ranks *ranks, matrix_case *c);

/* ---- what follows from a case's seed ------------------------------------- */

/* A number for each purpose. */
typedef enum matrix_purpose {
  MATRIX_INPUTS,
  MATRIX_LENGTHS,
  MATRIX_GAPS,
  MATRIX_MEMORY,
  MATRIX_ABSENT,
  MATRIX_WAITING,
  MATRIX_KEYS,
  MATRIX_ORDER,
  MATRIX_GPU
} matrix_purpose;
uint64_t matrix_drawn(const matrix_case *c, matrix_purpose purpose);

inputs matrix_inputs(const matrix_case *c);

/* Is it to be `ordered`? Only where the algorithm can do that. */
bool matrix_asks_for_order(const matrix_case *c);

/* ---- what the collectives do --------------------------------------------- */

enum {
  MATRIX_MOST_BLOCKS = MATRIX_MOST_RANKS * REFERENCE_MOST_INPUTS,
  MATRIX_MOST_BUFFERS = MATRIX_MOST_RANKS /* of a rank */
};

/* Blocks of a buffer, or of several that are all like it, `step` elements from
 * one to the next. */
typedef struct matrix_list {
  size_t count[MATRIX_MOST_BLOCKS], first[MATRIX_MOST_BLOCKS];
  size_t blocks, elements; /* of one buffer, gaps included */
  size_t buffers, step;
} matrix_list;

/* Of one rank in one case. */
typedef struct matrix_shape {
  bool reads, writes; /* has an input, an output */
  bool in_place;
  matrix_list in, out;
  size_t shift;     /* in place: the element of the output where the input
                       begins */
  size_t elements;  /* of an output buffer, which may hold the input, too */
  size_t undefined; /* from this element on, afterwards */
} matrix_shape;

/* false: there is no such collective here. */
bool matrix_shape_of(const matrix_ranks *ranks, const matrix_case *c, int rank,
                     matrix_shape *shape);

/* From the first element of the first buffer to the last of the last. */
size_t matrix_in_elements(const matrix_shape *shape);
size_t matrix_out_elements(const matrix_shape *shape);

/* What block b of a rank's output is: block `block` of an input of rank
 * `first`, or of the first n ranks' inputs combined. */
typedef struct matrix_result {
  bool kept; /* what was there before */
  int first, n, block, number;
} matrix_result;
matrix_result matrix_result_of(const matrix_ranks *ranks, const matrix_case *c,
                               int rank, size_t b);

/* Do all ranks get the same? */
bool matrix_is_same(gli_collective collective);

/* Is there such a call? */
bool matrix_has(gli_collective collective, matrix_variant variant);

/* Can it be in place, on some rank? */
bool matrix_has_place(const matrix_row *row);

/* Can that be said by giving the same address twice? */
bool matrix_has_address(const matrix_case *c);

/* Of a vector in pieces: does the rank's list have another one from this block
 * on? */
bool matrix_begins_piece(const matrix_case *c, int rank, size_t block);

/* Bytes of the buffers of all ranks, at most. */
uint64_t matrix_bytes(const matrix_ranks *ranks, const matrix_case *c);

/* ---- calls --------------------------------------------------------------- */

/* The first ones, where there are several. */
typedef struct matrix_buffers {
  const void *in;
  void *out;
} matrix_buffers;

/* Forms other than the blocking one give operations: one, or two to be started
 * and waited for together. */
typedef struct matrix_operations {
  gloo_request *of[2];
  int n;
} matrix_operations;

/* The library's for one of the reference's. */
gloo_op matrix_op(int op);

gloo_status matrix_call(gloo_context *context, const matrix_ranks *ranks,
                        const matrix_case *c, int rank,
                        const matrix_shape *shape,
                        const matrix_buffers *buffers, const gloo_options *o,
                        matrix_operations *operations);

/* ---- running ------------------------------------------------------------- */

/* Have buffers of all further runs be in GPU memory of some kind, most of them.
 */
void matrix_use_gpus(void);

/* Run the cases, in this order. Each that fails is told with how to repeat it.
 * The number of those that did. */
size_t matrix_run(const matrix_ranks *ranks, const matrix_case *cases,
                  size_t n);

/* Errors that are put in after the last run of each case, on rank 0. */
typedef enum matrix_spoil {
  MATRIX_NOTHING,
  MATRIX_FIRST_ELEMENT, /* of the result */
  MATRIX_LAST_ELEMENT,
  MATRIX_LOWEST_BIT,
  MATRIX_MOVED, /* two elements have changed places */
  MATRIX_UNWRITTEN,
  MATRIX_INPUT,
  MATRIX_BEFORE, /* the output, next to it */
  MATRIX_BEHIND,
  MATRIX_SPOILS
} matrix_spoil;

/* Run the cases, and put an error into each that can have it. Fails the test
 * unless exactly these fail. How many there were. */
size_t matrix_run_spoiled(const matrix_ranks *ranks, const matrix_case *cases,
                          size_t n, matrix_spoil spoil);

/* Run all calls that must be refused; how many they were. Fails the test. */
size_t matrix_refusals(const matrix_ranks *ranks);

#endif
