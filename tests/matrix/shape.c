/* Data that each collective reads and writes, according to its
 * documentation. */
#include <string.h>

#include "matrix.h"

typedef enum part { NONE, ONE, BLOCKS } part;
enum { MULTI = 1 << MATRIX_MULTI, LIST = 1 << MATRIX_LIST };

typedef struct traits {
  part in, out;
  bool in_at_root, out_at_root;  /* only there */
  bool has_place, place_at_root; /* has an in-place form; at the root only */
  bool same;                     /* all ranks get the same result */
  unsigned variants;             /* variants other than the plain call */
} traits;

static const traits all[GLI_COLLECTIVES] = {
    [GLI_BROADCAST] = {ONE, ONE, true, false, true, false, true, MULTI},
    [GLI_ALLREDUCE] = {ONE, ONE, false, false, true, false, true, MULTI | LIST},
    [GLI_REDUCE_SCATTER] = {BLOCKS, ONE, false, false, true, false, false,
                            MULTI | LIST},
    [GLI_ALLGATHER] = {ONE, BLOCKS, false, false, true, false, true,
                       MULTI | LIST},
    [GLI_SENDRECV] = {ONE, ONE, false, false, true, false, false, 0},
    [GLI_ALLTOALL] = {BLOCKS, BLOCKS, false, false, true, false, false, LIST},
    [GLI_REDUCE] = {ONE, ONE, false, true, true, false, false, MULTI},
    [GLI_GATHER] = {ONE, BLOCKS, false, true, true, true, false, LIST},
    [GLI_SCATTER] = {BLOCKS, ONE, true, false, true, true, false, LIST},
    [GLI_SCAN] = {ONE, ONE, false, false, true, false, false, 0},
    [GLI_EXSCAN] = {ONE, ONE, false, false, true, false, false, 0},
    [GLI_ALLGATHERV] = {ONE, BLOCKS, false, false, true, false, true, 0},
    [GLI_GATHERV] = {ONE, BLOCKS, false, true, true, true, false, 0},
    [GLI_SCATTERV] = {BLOCKS, ONE, true, false, true, true, false, 0},
    [GLI_ALLTOALLV] = {BLOCKS, BLOCKS, false, false, true, false, false, 0},
    [GLI_REDUCE_SCATTERV] = {BLOCKS, ONE, false, false, true, false, false, 0},
};

static bool is_known(gli_collective c) {
  return c == GLI_BARRIER || all[c].in != NONE;
}

bool matrix_is_same(gli_collective collective) {
  return all[collective].same;
}

bool matrix_has(gli_collective collective, matrix_variant variant) {
  return variant == MATRIX_PLAIN || all[collective].variants >> variant & 1;
}

/* A list with the parts of a vector has no block to hold the result in
 * place. */
bool matrix_has_place(const matrix_row *row) {
  bool parts =
      row->collective == GLI_REDUCE_SCATTER && row->variant == MATRIX_LIST;
  return all[row->collective].has_place && !parts;
}

static const matrix_row *row_of(const matrix_case *c) {
  const matrix_row *rows;
  matrix_rows(&rows);
  return &rows[c->row];
}

static gli_collective collective_of(const matrix_case *c) {
  return row_of(c)->collective;
}

static bool is_counted(gli_collective c) {
  return c == GLI_ALLGATHERV || c == GLI_GATHERV || c == GLI_SCATTERV ||
         c == GLI_ALLTOALLV || c == GLI_REDUCE_SCATTERV;
}

static bool is_multi(const matrix_case *c) {
  return row_of(c)->variant == MATRIX_MULTI;
}

static bool is_list(const matrix_case *c) {
  return row_of(c)->variant == MATRIX_LIST;
}

/* Blocks with displacements need more than one address, the two messages of an
 * exchange may differ in length, and a list is not an address; a list of inputs
 * can equal that of the outputs. */
bool matrix_has_address(const matrix_case *c) {
  gli_collective collective = collective_of(c);
  if (is_multi(c)) {
    return gli_collective_reduces(collective) || collective == GLI_BROADCAST;
  }
  if (is_list(c) && collective == GLI_SCATTER) return false;
  return collective != GLI_ALLTOALLV && collective != GLI_SENDRECV;
}

/* ---- lengths ------------------------------------------------------------- */

/* Returns the elements that one rank sends to another; in place, as many come
 * back. A quarter of all blocks are empty. */
static size_t between(const matrix_case *c, int from, int to) {
  gli_collective collective = collective_of(c);
  if (!is_counted(collective)) return c->count;
  bool pairs = collective == GLI_ALLTOALLV;
  if (pairs && c->place != MATRIX_APART && from > to) {
    return between(c, to, from);
  }
  uint64_t which = pairs ? (uint64_t)from << 8 | (uint64_t)to : (uint64_t)from;
  uint64_t drawn = reference_mix(matrix_drawn(c, MATRIX_LENGTHS), which);
  if (drawn % 4 == 0) return 0;
  return (size_t)(drawn / 4 % (2 * (uint64_t)c->count + 1));
}

static size_t block_of(const matrix_case *c, int rank) {
  return between(c, rank, rank);
}

/* Returns true if the blocks have gaps. Half of the cases do if blocks have
 * displacements: on all ranks, or, for lists of addresses, in most lists. An
 * output that holds the data to scatter is one buffer. */
static bool has_gaps(const matrix_case *c, int rank, bool input) {
  gli_collective collective = collective_of(c);
  uint64_t drawn = matrix_drawn(c, MATRIX_GAPS);
  if (drawn % 2 == 0) return false;
  if (!is_list(c)) {
    return is_counted(collective) && collective != GLI_REDUCE_SCATTERV;
  }
  bool apart = c->place == MATRIX_APART;
  if (collective == GLI_SCATTER && !apart) return false;
  unsigned list = (unsigned)rank << 1 | (input && apart);
  return reference_mix(drawn, list) % 4 != 0;
}

static matrix_list one_block(size_t n) {
  return (matrix_list){.count = {n}, .blocks = 1, .elements = n, .buffers = 1};
}

/* Returns a list of blocks. With gaps they are in descending order. */
static matrix_list blocks_of(const matrix_case *c, int size, int rank,
                             bool input) {
  bool gaps = has_gaps(c, rank, input);
  bool pairs = collective_of(c) == GLI_ALLTOALLV;
  matrix_list l = {
      .blocks = (size_t)size, .elements = gaps ? 3 : 0, .buffers = 1};
  for (int n = 0; n < size; n++) {
    int k = gaps ? size - 1 - n : n;
    l.count[k] = block_of(c, k);
    if (pairs) l.count[k] = input ? between(c, rank, k) : between(c, k, rank);
    l.first[k] = l.elements;
    l.elements += l.count[k] + (gaps ? 2 : 0);
  }
  return l;
}

/* ---- a vector in pieces -------------------------------------------------- */

enum { PARTS = 4 };

bool matrix_begins_piece(const matrix_case *c, int rank, size_t block) {
  uint64_t drawn =
      reference_mix(matrix_drawn(c, MATRIX_LENGTHS), (unsigned)rank);
  return block == 0 || (drawn >> block & 1) != 0;
}

/* Returns a vector's blocks, the same on all ranks; each rank divides them into
 * pieces in another way. */
static matrix_list pieces_of(const matrix_case *c, int rank, bool input) {
  bool gaps = has_gaps(c, rank, input);
  matrix_list l = {.blocks = PARTS, .buffers = 1};
  for (size_t k = 0; k < PARTS; k++) {
    if (gaps && matrix_begins_piece(c, rank, k)) l.elements += 2;
    l.count[k] = (k + 1) * c->count / PARTS - k * c->count / PARTS;
    l.first[k] = l.elements;
    l.elements += l.count[k];
  }
  return l;
}

static matrix_list list_of(const matrix_case *c, part is, int size, int rank,
                           bool input) {
  bool pieces = is_list(c) && collective_of(c) == GLI_ALLREDUCE;
  if (is == NONE) return (matrix_list){.buffers = 1};
  if (is == BLOCKS) return blocks_of(c, size, rank, input);
  return pieces ? pieces_of(c, rank, input) : one_block(block_of(c, rank));
}

/* ---- several buffers ----------------------------------------------------- */

enum { BETWEEN = 3 }; /* elements */

/* Returns a buffer with every rank's inputs, in their order. */
static matrix_list gathered(const matrix_case *c, int size) {
  matrix_list l = {.buffers = 1};
  for (int r = 0; r < size; r++) {
    for (int k = 0; k < reference_inputs(c->op, r); k++, l.blocks++) {
      l.count[l.blocks] = c->count;
      l.first[l.blocks] = l.elements;
      l.elements += c->count;
    }
  }
  return l;
}

/* Sets the number and spacing of buffers. In place, the inputs of a reduction
 * are in the outputs. */
static void set_buffers(const matrix_case *c, int size, int rank,
                        matrix_shape *s) {
  gli_collective kind = collective_of(c);
  bool combines = gli_collective_reduces(kind);
  if (kind != GLI_BROADCAST) {
    s->in.buffers = (size_t)reference_inputs(c->op, rank);
  }
  if (kind == GLI_ALLGATHER) s->out = gathered(c, size);
  s->out.buffers = 1 + (size_t)(rank * 2 + 1) % 3;
  if (combines && s->in_place) s->out.buffers = s->in.buffers;
  s->in.step = s->in.elements + BETWEEN;
}

/* Returns the offset of the first input within the first output. */
static size_t shift_of(const matrix_case *c, int rank, const matrix_shape *s) {
  const traits *is = &all[collective_of(c)];
  if (is->in != ONE || is->out != BLOCKS) return 0;
  int before = 0;
  for (int r = 0; r < rank; r++) {
    before += is_multi(c) ? reference_inputs(c->op, r) : 1;
  }
  return s->out.first[before];
}

size_t matrix_in_elements(const matrix_shape *s) {
  return (s->in.buffers - 1) * s->in.step + s->in.elements;
}

size_t matrix_out_elements(const matrix_shape *s) {
  return (s->out.buffers - 1) * s->out.step + s->elements;
}

/* ---- the whole layout ---------------------------------------------------- */

bool matrix_shape_of(const matrix_ranks *ranks, const matrix_case *c, int rank,
                     matrix_shape *s) {
  gli_collective kind = collective_of(c);
  const traits *is = &all[kind];
  bool root = rank == c->root;
  if (!is_known(kind)) return false;
  memset(s, 0, sizeof *s);
  s->reads = is->in != NONE && (!is->in_at_root || root);
  s->writes = is->out != NONE && (!is->out_at_root || root);
  s->in_place = c->place != MATRIX_APART && matrix_has_place(row_of(c)) &&
                (!is->place_at_root || root);
  s->in = list_of(c, s->reads ? is->in : NONE, ranks->size, rank, true);
  s->out = list_of(c, is->out, ranks->size, rank, false);
  if (is_multi(c)) set_buffers(c, ranks->size, rank, s);
  s->elements = s->undefined = s->out.elements;
  s->out.step = s->elements + BETWEEN;
  if (!s->in_place || !s->reads) return true;
  s->shift = shift_of(c, rank, s);
  if (s->in.elements > s->elements) s->elements = s->in.elements;
  s->out.step = s->elements + BETWEEN;
  s->in.step = is->out == BLOCKS ? s->in.elements : s->out.step;
  /* A scatter does not modify its input. */
  if (is->in_at_root) s->undefined = s->elements;
  return true;
}

/* ---- results ------------------------------------------------------------- */

static matrix_result kept(void) {
  return (matrix_result){.kept = true};
}

static matrix_result from(int rank, int block) {
  return (matrix_result){.first = rank, .n = 1, .block = block};
}

/* Returns the source of block b of a gathered result. */
static matrix_result gathered_from(const matrix_case *c, int b) {
  if (!is_multi(c)) return from(b, 0);
  matrix_result r = from(0, 0);
  while (b >= reference_inputs(c->op, r.first)) {
    b -= reference_inputs(c->op, r.first++);
  }
  r.number = b;
  return r;
}

static matrix_result of_first(int n, int block) {
  return (matrix_result){.first = 0, .n = n, .block = block};
}

matrix_result matrix_result_of(const matrix_ranks *ranks, const matrix_case *c,
                               int rank, size_t b) {
  int size = ranks->size;
  gli_collective kind = collective_of(c);
  matrix_shape s;
  if (!matrix_shape_of(ranks, c, rank, &s) || !s.writes) return kept();
  switch (kind) {
    case GLI_BROADCAST:
      return from(c->root, 0);
    case GLI_ALLREDUCE:
    case GLI_REDUCE:
      return of_first(size, (int)b);
    case GLI_SCAN:
      return of_first(rank + 1, 0);
    case GLI_EXSCAN:
      return rank == 0 ? kept() : of_first(rank, 0);
    case GLI_REDUCE_SCATTER:
    case GLI_REDUCE_SCATTERV:
      return of_first(size, rank);
    case GLI_ALLGATHER:
      return gathered_from(c, (int)b);
    case GLI_GATHER:
    case GLI_ALLGATHERV:
    case GLI_GATHERV:
      return from((int)b, 0);
    case GLI_SCATTER:
    case GLI_SCATTERV:
      return s.in_place ? kept() : from(c->root, rank);
    case GLI_ALLTOALL:
    case GLI_ALLTOALLV:
      return from((int)b, rank);
    case GLI_SENDRECV: /* `root` is the distance of the exchange */
      return from((rank + size - c->root) % size, 0);
    default:
      return kept();
  }
}

uint64_t matrix_bytes(const matrix_ranks *ranks, const matrix_case *c) {
  const traits *is = &all[collective_of(c)];
  uint64_t size = (uint64_t)ranks->size, blocks = 0;
  if (is->in != NONE) blocks += is->in == ONE || is->in_at_root ? 1 : size;
  if (is->out != NONE) blocks += is->out == ONE || is->out_at_root ? 1 : size;
  uint64_t longest = is_counted(collective_of(c)) ? 2 : 1;
  if (is_multi(c)) longest = REFERENCE_MOST_INPUTS * 2;
  /* The factor 2 counts both old and new contents, which are compared. */
  return 2 * size * blocks * longest * c->count *
         gloo_dtype_size((gloo_dtype)c->dtype);
}
