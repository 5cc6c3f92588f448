/* Cases for every collective and algorithm, in every form, on every set of
 * ranks, generated from the library's own lists. */
#ifndef TESTS_MATRIX_MATRIX_H
#define TESTS_MATRIX_MATRIX_H

#include "algorithms/registry.h"
#include "ranks/ranks.h"
#include "reference.h"

/* ---- cases --------------------------------------------------------------- */

/* Variants of a collective's call. */
typedef enum matrix_variant {
  MATRIX_PLAIN, /* one buffer */
  MATRIX_MULTI, /* several inputs and outputs */
  MATRIX_LIST,  /* blocks, or pieces, each at its own address */
  MATRIX_VARIANTS
} matrix_variant;

/* A variant of a collective, with one of its algorithms. */
typedef struct matrix_row {
  gli_collective collective;
  matrix_variant variant;
  const char *algorithm; /* NULL: the library chooses */
} matrix_row;

/* Returns all rows; the library's choice comes first for each variant. */
size_t matrix_rows(const matrix_row **rows);
bool matrix_is_first(const matrix_row *row); /* in its variant */

/* "allreduce", "allreduce_list"; "ring", "chosen". */
enum { MATRIX_NAME = 64 };
const char *matrix_collective(const matrix_row *row, char *name);
const char *matrix_algorithm(const matrix_row *row);

/* Returns true if the algorithm adds in rank order, which leaves no choice in
 * rounding. */
bool matrix_is_ordered(const matrix_row *row);

/* Returns true if the collective accepts this operation. REFERENCE_NO_OP stands
 * for a call without one. */
bool matrix_applies(const matrix_row *row, gloo_dtype dtype, int op);

/* Ranks that connect once and then run case after case. */
typedef struct matrix_ranks {
  const char *transport;
  int size;
  int hosts; /* assignment of ranks to hosts: see matrix_host_ids */
} matrix_ranks;

enum {
  MATRIX_HOSTS = 3,
  MATRIX_GROUP = MATRIX_HOSTS, /* one host, a group of a larger context */
  MATRIX_SETS,
  MATRIX_MOST_RANKS = REFERENCE_MOST_RANKS
};

/* Returns NULL if all ranks are on one host; else the host ids of two halves,
 * or of three hosts in rotation. */
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
  MATRIX_SAME, /* in place: the same address is passed twice */
  MATRIX_PLACES
} matrix_place;

typedef struct matrix_case {
  uint64_t seed; /* determines everything not specified here */
  uint32_t count;
  uint16_t row;
  uint8_t dtype;
  uint8_t op; /* REFERENCE_NO_OP if the call takes none */
  uint8_t root;
  uint8_t place, form;
} matrix_case;

typedef struct matrix_cases {
  size_t n, room;
  matrix_case *list;   /* NULL, with no room: cases are counted only */
  uint64_t most_bytes; /* limit on all buffers of one case */
  size_t left_out;     /* cases above the limit */
} matrix_cases;

/* Add the core, which always runs; `sample` random cases; or the full
 * product. */
void matrix_core(const matrix_ranks *ranks, uint64_t seed, matrix_cases *to);
void matrix_sample(const matrix_ranks *ranks, uint64_t seed, size_t sample,
                   matrix_cases *to);
void matrix_product(const matrix_ranks *ranks, uint64_t seed, matrix_cases *to);

/* Text form of a case and its ranks, as one word. */
enum { MATRIX_TEXT = 256 };
void matrix_print(const matrix_ranks *ranks, const matrix_case *c, char *text);
bool matrix_parse(const char *text, matrix_ranks *ranks, matrix_case *c);

/* ---- values derived from a case's seed ----------------------------------- */

/* Purposes of derived numbers; each has an independent one. */
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

/* Returns true if the case sets `ordered`. Only algorithms that support it
 * do. */
bool matrix_asks_for_order(const matrix_case *c);

/* ---- what the collectives do --------------------------------------------- */

enum {
  MATRIX_MOST_BLOCKS = MATRIX_MOST_RANKS * REFERENCE_MOST_INPUTS,
  MATRIX_MOST_BUFFERS = MATRIX_MOST_RANKS /* per rank */
};

/* Blocks of a buffer, or of several buffers with the same layout, `step`
 * elements apart. */
typedef struct matrix_list {
  size_t count[MATRIX_MOST_BLOCKS], first[MATRIX_MOST_BLOCKS];
  size_t blocks, elements; /* elements per buffer, including gaps */
  size_t buffers, step;
} matrix_list;

/* Layout of one rank's buffers in one case. */
typedef struct matrix_shape {
  bool reads, writes; /* has an input, an output */
  bool in_place;
  matrix_list in, out;
  size_t shift;     /* in place: element of the output where the input
                       begins */
  size_t elements;  /* elements of an output buffer, which may also hold the
                       input */
  size_t undefined; /* the output is undefined from this element on after the
                       call */
} matrix_shape;

/* Returns false if the collective is unknown. */
bool matrix_shape_of(const matrix_ranks *ranks, const matrix_case *c, int rank,
                     matrix_shape *shape);

/* Elements from the first of the first buffer to the last of the last. */
size_t matrix_in_elements(const matrix_shape *shape);
size_t matrix_out_elements(const matrix_shape *shape);

/* Content of block b of a rank's output: block `block` of an input of rank
 * `first`, or the combined inputs of the first n ranks. */
typedef struct matrix_result {
  bool kept; /* unchanged */
  int first, n, block, number;
} matrix_result;
matrix_result matrix_result_of(const matrix_ranks *ranks, const matrix_case *c,
                               int rank, size_t b);

/* Returns true if all ranks get the same result. */
bool matrix_is_same(gli_collective collective);

/* Returns true if the collective has this variant. */
bool matrix_has(gli_collective collective, matrix_variant variant);

/* Returns true if the call can be in place on some rank. */
bool matrix_has_place(const matrix_row *row);

/* Returns true if an in-place call may pass the same address twice. */
bool matrix_has_address(const matrix_case *c);

/* Returns true if the rank begins another piece of its vector at this block. */
bool matrix_begins_piece(const matrix_case *c, int rank, size_t block);

/* Returns an upper bound on the bytes of all ranks' buffers. */
uint64_t matrix_bytes(const matrix_ranks *ranks, const matrix_case *c);

/* ---- calls --------------------------------------------------------------- */

/* Buffers of a call; the first of each side if there are several. */
typedef struct matrix_buffers {
  const void *in;
  void *out;
} matrix_buffers;

/* Operations of a call that does not block: one, or two to start and wait for
 * together. */
typedef struct matrix_operations {
  gloo_request *of[2];
  int n;
} matrix_operations;

/* Returns the library's operation for one of the reference's. */
gloo_op matrix_op(int op);

gloo_status matrix_call(gloo_context *context, const matrix_ranks *ranks,
                        const matrix_case *c, int rank,
                        const matrix_shape *shape,
                        const matrix_buffers *buffers, const gloo_options *o,
                        matrix_operations *operations);

/* ---- running ------------------------------------------------------------- */

/* Places most buffers of all further runs in GPU memory of some kind. */
void matrix_use_gpus(void);

/* Runs the cases in this order and prints each failed one with the command that
 * repeats it. Returns the number of failed cases. */
size_t matrix_run(const matrix_ranks *ranks, const matrix_case *cases,
                  size_t n);

/* Errors to insert on rank 0 after the last run of each case. */
typedef enum matrix_spoil {
  MATRIX_NOTHING,
  MATRIX_FIRST_ELEMENT, /* of the result */
  MATRIX_LAST_ELEMENT,
  MATRIX_LOWEST_BIT,
  MATRIX_MOVED, /* two elements are swapped */
  MATRIX_UNWRITTEN,
  MATRIX_INPUT,
  MATRIX_BEFORE, /* a byte just before the output */
  MATRIX_BEHIND,
  MATRIX_SPOILS
} matrix_spoil;

/* Runs the cases with an error inserted where the case allows it. Fails the
 * test unless exactly these cases fail. Returns their number. */
size_t matrix_run_spoiled(const matrix_ranks *ranks, const matrix_case *cases,
                          size_t n, matrix_spoil spoil);

/* Runs all calls that must be refused and returns their number. Fails the test
 * if one is not refused. */
size_t matrix_refusals(const matrix_ranks *ranks);

#endif
