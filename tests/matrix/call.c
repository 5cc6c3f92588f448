/* Calls of the public functions, in the three forms of each. */
#include "matrix.h"

/* Counts and displacements of a call. Rooted collectives read them at the root
 * only. Without displacements the blocks are contiguous. */
typedef struct lists {
  const size_t *in_count, *in_first, *out_count, *out_first;
} lists;

static lists lists_of(const matrix_case *c, gli_collective collective, int rank,
                      const matrix_shape *s) {
  bool gaps = matrix_drawn(c, MATRIX_GAPS) % 2 != 0;
  lists l = {s->in.count, gaps ? s->in.first : NULL, s->out.count,
             gaps ? s->out.first : NULL};
  bool rooted = gli_collective_rooted(collective);
  if (rooted && rank != c->root) return (lists){NULL, NULL, NULL, NULL};
  if (collective == GLI_ALLTOALLV && s->in_place) {
    l.in_count = l.in_first = NULL;
  }
  return l;
}

gloo_op matrix_op(int op) {
  if (op == REFERENCE_SCALED) return GLOO_SCALED_SUM;
  if (op == REFERENCE_AFFINE || op == REFERENCE_BYTES) return GLOO_CUSTOM;
  return (gloo_op)op;
}

#define FORMS(name, ...)                                            \
  (c->form == MATRIX_BLOCKING ? gloo_##name(x, __VA_ARGS__ o, NULL) \
   : c->form == MATRIX_STARTED                                      \
       ? gloo_##name##_start(x, __VA_ARGS__ o, op, NULL)            \
       : gloo_##name##_init(x, __VA_ARGS__ o, op, NULL))

static gloo_status call_counted(gloo_context *x, gli_collective collective,
                                const matrix_case *c, int rank,
                                const matrix_shape *s, const matrix_buffers *b,
                                const gloo_options *o, gloo_request **op) {
  gloo_dtype t = (gloo_dtype)c->dtype;
  lists l = lists_of(c, collective, rank, s);
  switch ((int)collective) {
    case GLI_ALLGATHERV:
      return FORMS(allgatherv, b->in, b->out, l.out_count, l.out_first, t, );
    case GLI_REDUCE_SCATTERV:
      return FORMS(reduce_scatterv, b->in, b->out, s->in.count, t,
                   matrix_op(c->op), );
    case GLI_GATHERV:
      return FORMS(gatherv, b->in, s->in.count[0], b->out, l.out_count,
                   l.out_first, t, c->root, );
    case GLI_SCATTERV:
      return FORMS(scatterv, b->in, l.in_count, l.in_first, b->out,
                   s->out.count[0], t, c->root, );
    default:
      return FORMS(alltoallv, b->in, l.in_count, l.in_first, b->out,
                   l.out_count, l.out_first, t, );
  }
}

static gloo_status call_plain(gloo_context *x, gli_collective collective,
                              const matrix_case *c, const matrix_buffers *b,
                              const gloo_options *o, gloo_request **op) {
  gloo_op reduction = matrix_op(c->op);
#define ARGS b->in, b->out, c->count, (gloo_dtype)c->dtype
  switch ((int)collective) {
    case GLI_BARRIER:
      return FORMS(barrier, );
    case GLI_BROADCAST:
      return FORMS(broadcast, ARGS, c->root, );
    case GLI_ALLREDUCE:
      return FORMS(allreduce, ARGS, reduction, );
    case GLI_REDUCE_SCATTER:
      return FORMS(reduce_scatter, ARGS, reduction, );
    case GLI_ALLGATHER:
      return FORMS(allgather, ARGS, );
    case GLI_ALLTOALL:
      return FORMS(alltoall, ARGS, );
    case GLI_REDUCE:
      return FORMS(reduce, ARGS, reduction, c->root, );
    case GLI_GATHER:
      return FORMS(gather, ARGS, c->root, );
    case GLI_SCATTER:
      return FORMS(scatter, ARGS, c->root, );
    case GLI_SCAN:
      return FORMS(scan, ARGS, reduction, );
    case GLI_EXSCAN:
      return FORMS(exscan, ARGS, reduction, );
    default:
      return GLOO_ERR_INTERNAL;
  }
#undef ARGS
}

/* Buffers of one rank, or their blocks. */
typedef struct several {
  const void *in[MATRIX_MOST_BUFFERS];
  void *out[MATRIX_MOST_BUFFERS];
  const void *const *ins; /* NULL: no inputs, or in place */
  void *const *outs;
  size_t counts[MATRIX_MOST_BUFFERS], pieces; /* pieces of a vector */
} several;

static size_t several_of(const matrix_row *row, const matrix_list *l) {
  return row->variant == MATRIX_LIST ? l->blocks : l->buffers;
}

static size_t several_begin(const matrix_row *row, const matrix_list *l,
                            size_t k) {
  return row->variant == MATRIX_LIST ? l->first[k] : k * l->step;
}

/* Lists the buffers. A list that the call does not access may be NULL, or hold
 * NULLs. */
static void list_buffers(several *l, const matrix_row *row,
                         const matrix_case *c, const matrix_shape *s,
                         const matrix_buffers *b) {
  size_t element = gloo_dtype_size((gloo_dtype)c->dtype);
  bool in_place = b->in == GLOO_IN_PLACE;
  const uint8_t *in = in_place ? NULL : b->in;
  uint8_t *out = b->out;
  for (size_t k = 0; k < several_of(row, &s->in); k++) {
    l->in[k] = in ? in + several_begin(row, &s->in, k) * element : NULL;
  }
  for (size_t k = 0; k < several_of(row, &s->out); k++) {
    l->out[k] = out ? out + several_begin(row, &s->out, k) * element : NULL;
  }
  l->ins = in_place || (!in && !s->reads) ? NULL : l->in;
  l->outs = !out && !s->writes ? NULL : l->out;
}

/* Joins the blocks between two piece boundaries of a vector into one piece. */
static void join_pieces(several *l, const matrix_case *c, int rank,
                        const matrix_list *blocks) {
  for (size_t k = 0; k < blocks->blocks; k++) {
    if (matrix_begins_piece(c, rank, k)) {
      l->in[l->pieces] = l->in[k];
      l->out[l->pieces++] = l->out[k];
    }
    l->counts[l->pieces - 1] += blocks->count[k];
  }
}

static gloo_status call_multi(gloo_context *x, const matrix_row *row,
                              const matrix_case *c, const matrix_shape *s,
                              const matrix_buffers *b, const gloo_options *o,
                              gloo_request **op) {
  gloo_op reduction = matrix_op(c->op);
  several l;
  list_buffers(&l, row, c, s, b);
#define OUTS l.outs, s->out.buffers, c->count, (gloo_dtype)c->dtype
#define ARGS l.ins, s->in.buffers, OUTS
  switch ((int)row->collective) {
    case GLI_BROADCAST:
      return FORMS(broadcast_multi, b->in, OUTS, c->root, );
    case GLI_ALLREDUCE:
      return FORMS(allreduce_multi, ARGS, reduction, );
    case GLI_REDUCE_SCATTER:
      return FORMS(reduce_scatter_multi, ARGS, reduction, );
    case GLI_ALLGATHER:
      return FORMS(allgather_multi, ARGS, );
    case GLI_REDUCE:
      return FORMS(reduce_multi, ARGS, reduction, c->root, );
    default:
      return GLOO_ERR_INTERNAL;
  }
#undef ARGS
#undef OUTS
}

static gloo_status call_list(gloo_context *x, const matrix_row *row,
                             const matrix_case *c, int rank,
                             const matrix_shape *s, const matrix_buffers *b,
                             const gloo_options *o, gloo_request **op) {
  gloo_op reduction = matrix_op(c->op);
  gloo_dtype t = (gloo_dtype)c->dtype;
  several l = {.pieces = 0};
  list_buffers(&l, row, c, s, b);
  switch ((int)row->collective) {
    case GLI_ALLREDUCE:
      join_pieces(&l, c, rank, &s->out);
      return FORMS(allreduce_list, l.ins, l.outs, l.counts, l.pieces, t,
                   reduction, );
    case GLI_REDUCE_SCATTER:
      return FORMS(reduce_scatter_list, l.ins, b->out, c->count, t,
                   reduction, );
    case GLI_ALLGATHER:
      return FORMS(allgather_list, b->in, l.outs, c->count, t, );
    case GLI_ALLTOALL:
      return FORMS(alltoall_list, l.ins, l.outs, c->count, t, );
    case GLI_GATHER:
      return FORMS(gather_list, b->in, l.outs, c->count, t, c->root, );
    case GLI_SCATTER:
      return FORMS(scatter_list, l.ins, b->out, c->count, t, c->root, );
    default:
      return GLOO_ERR_INTERNAL;
  }
}

/* A message to the rank `root` places ahead, and one from the rank `root`
 * places behind. */
typedef struct exchange {
  int to, from;
  gloo_dtype dtype;
} exchange;

/* Makes the exchange of two operations; the receive accepts any source in a
 * list of one rank. */
static gloo_status call_parts(gloo_context *x, const matrix_case *c,
                              const exchange *e, const matrix_buffers *b,
                              const gloo_options *o, matrix_operations *ops) {
  bool start = c->form == MATRIX_STARTED;
  gloo_request **recv = &ops->of[0], **send = &ops->of[1];
  gloo_status status = start
                           ? gloo_recv_any_start(x, b->out, c->count, e->dtype,
                                                 &e->from, 1, o, recv, NULL)
                           : gloo_recv_any_init(x, b->out, c->count, e->dtype,
                                                &e->from, 1, o, recv, NULL);
  if (status != GLOO_OK) return status;
  ops->n = 1;
  status =
      start
          ? gloo_send_start(x, b->in, c->count, e->dtype, e->to, o, send, NULL)
          : gloo_send_init(x, b->in, c->count, e->dtype, e->to, o, send, NULL);
  if (status == GLOO_OK) ops->n = 2;
  return status;
}

static gloo_status call_exchange(gloo_context *x, const matrix_ranks *ranks,
                                 const matrix_case *c, int rank,
                                 const matrix_buffers *b, const gloo_options *o,
                                 matrix_operations *ops) {
  int size = ranks->size;
  exchange e = {.to = (rank + c->root) % size,
                .from = (rank + size - c->root) % size,
                .dtype = (gloo_dtype)c->dtype};
  bool parts = matrix_drawn(c, MATRIX_ABSENT) % 2 != 0;
  if (parts && c->form != MATRIX_BLOCKING && c->place == MATRIX_APART) {
    return call_parts(x, c, &e, b, o, ops);
  }
  gloo_request **op = &ops->of[0];
  gloo_status status = FORMS(sendrecv, b->in, c->count, e.to, b->out, c->count,
                             e.from, e.dtype, );
  if (status == GLOO_OK && c->form != MATRIX_BLOCKING) ops->n = 1;
  return status;
}

#undef FORMS

gloo_status matrix_call(gloo_context *context, const matrix_ranks *ranks,
                        const matrix_case *c, int rank,
                        const matrix_shape *shape, const matrix_buffers *b,
                        const gloo_options *o, matrix_operations *ops) {
  const matrix_row *rows;
  matrix_rows(&rows);
  const matrix_row *row = &rows[c->row];
  gli_collective collective = row->collective;
  ops->n = 0;
  ops->of[0] = ops->of[1] = NULL;
  if (collective == GLI_SENDRECV) {
    return call_exchange(context, ranks, c, rank, b, o, ops);
  }
  gloo_status status;
  gloo_request **op = &ops->of[0];
  if (row->variant == MATRIX_MULTI) {
    status = call_multi(context, row, c, shape, b, o, op);
  } else if (row->variant == MATRIX_LIST) {
    status = call_list(context, row, c, rank, shape, b, o, op);
  } else if (gli_collective_counted(collective)) {
    status = call_counted(context, collective, c, rank, shape, b, o, op);
  } else {
    status = call_plain(context, collective, c, b, o, op);
  }
  if (status == GLOO_OK && c->form != MATRIX_BLOCKING) ops->n = 1;
  return status;
}
