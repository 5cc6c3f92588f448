/* Collects the steps of an algorithm: segments, slot numbers. */
#include "plan/builder.h"

#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "plan/raw.h"

/* ---- scratch memory ------------------------------------------------------ */

gli_range gli_scratch(gli_builder *b, uint64_t bytes) {
  /* Each piece is aligned to 64 bytes, and starts a cache line. */
  uint64_t first = b->scratch_bytes, end;
  if (first > UINT64_MAX - 63 ||
      !gli_add_u64((first + 63) & ~(uint64_t)63, bytes, &end) ||
      end > SIZE_MAX / 2) {
    gli_build_fail(b, GLOO_ERR_INVALID,
                   "needs more scratch memory than fits a size_t");
    return gli_bytes(GLI_SCRATCH, 0, 0);
  }
  first = (first + 63) & ~(uint64_t)63;
  b->scratch_bytes = end;
  return gli_bytes(GLI_SCRATCH, first, bytes);
}

/* ---- peers --------------------------------------------------------------- */

static uint32_t hash_rank(uint32_t rank) {
  uint32_t h = rank * 2654435769u;
  return h ^ (h >> 16);
}

static bool grow_peers(gli_builder *b) {
  uint32_t capacity = b->peer_capacity * 2;
  bool inlined = b->peers == b->inline_peers;
  gli_plan_peer *peers =
      realloc(inlined ? NULL : b->peers, (size_t)capacity * sizeof *peers);
  if (peers == NULL) return false;
  if (inlined) memcpy(peers, b->peers, b->n_peers * sizeof *peers);
  b->peers = peers;
  b->peer_capacity = capacity;
  uint32_t slots = capacity * 2;
  uint32_t *table = calloc(slots, sizeof *table);
  if (table == NULL) return false;
  free(b->table);
  b->table = table;
  b->table_mask = slots - 1;
  for (uint32_t i = 0; i < b->n_peers; i++) {
    uint32_t at = hash_rank(peers[i].rank) & b->table_mask;
    while (table[at] != 0) at = (at + 1) & b->table_mask;
    table[at] = i + 1;
  }
  return true;
}

static uint32_t add_peer(gli_builder *b, uint32_t rank) {
  if (b->n_peers == b->peer_capacity && !grow_peers(b)) {
    gli_build_fail(b, GLOO_ERR_NO_MEMORY, "out of memory");
    return GLI_NO_PEER;
  }
  uint32_t index = b->n_peers++;
  b->peers[index] = (gli_plan_peer){.rank = rank};
  if (b->table != NULL) {
    uint32_t at = hash_rank(rank) & b->table_mask;
    while (b->table[at] != 0) at = (at + 1) & b->table_mask;
    b->table[at] = index + 1;
  }
  return index;
}

static uint32_t search_peer(const gli_builder *b, uint32_t rank) {
  if (b->table == NULL) {
    for (uint32_t i = 0; i < b->n_peers; i++) {
      if (b->peers[i].rank == rank) return i;
    }
    return GLI_NO_PEER;
  }
  uint32_t at = hash_rank(rank) & b->table_mask;
  for (; b->table[at] != 0; at = (at + 1) & b->table_mask) {
    if (b->peers[b->table[at] - 1].rank == rank) return b->table[at] - 1;
  }
  return GLI_NO_PEER;
}

uint32_t gli_build_peer(gli_builder *b, uint32_t rank) {
  if (b->sub != NULL) {
    if (rank >= b->sub->size) {
      gli_build_fail(b, GLOO_ERR_INTERNAL,
                     "talks to a rank that does not exist");
      return GLI_NO_PEER;
    }
    rank = b->sub->members[rank];
  }
  for (int i = 0; i < 2; i++) {
    uint32_t index = b->recent[i];
    if (index < b->n_peers && b->peers[index].rank == rank) return index;
  }
  if (rank >= b->params.size || rank == b->params.rank) {
    gli_build_fail(b, GLOO_ERR_INTERNAL,
                   rank == b->params.rank
                       ? "talks to itself"
                       : "talks to a rank that does not exist");
    return GLI_NO_PEER;
  }
  uint32_t index = search_peer(b, rank);
  if (index == GLI_NO_PEER) index = add_peer(b, rank);
  b->recent[1] = b->recent[0];
  b->recent[0] = index;
  return index;
}

/* ---- steps --------------------------------------------------------------- */

static bool grow_steps(gli_builder *b) {
  size_t capacity = b->capacity * 2;
  bool inlined = b->steps == b->inline_steps;
  gli_step *steps =
      realloc(inlined ? NULL : b->steps, capacity * sizeof *steps);
  if (steps == NULL) {
    gli_build_fail(b, GLOO_ERR_NO_MEMORY, "out of memory");
    return false;
  }
  if (inlined) memcpy(steps, b->steps, b->n_steps * sizeof *steps);
  b->steps = steps;
  b->capacity = capacity;
  return true;
}

static void builder_append(gli_builder *b, const gli_step *s) {
  uint64_t index = b->n_seen;
  if (index >= b->window_end || index < b->window_first) {
    b->n_seen++;
    return;
  }
  if (b->n_steps == b->capacity && !grow_steps(b)) return;
  b->n_seen++;
  b->steps[b->n_steps++] = *s;
}

/* Numbers the message that this step sends or receives. */
static void builder_number(gli_builder *b, gli_step *s) {
  gli_plan_peer *peer = &b->peers[s->peer];
  s->lane = b->lane;
  if (s->kind == GLI_STEP_SEND) {
    s->slot = peer->sends++;
    peer->send_bytes += gli_step_wire_bytes(s);
  } else {
    s->slot = peer->recvs++;
    peer->recv_bytes += gli_step_wire_bytes(s);
  }
}

/* Adds a step uncut. */
void gli_build_whole(gli_builder *b, gli_step *s) {
  if (b->n_seen >= UINT32_MAX - 1) {
    gli_build_fail(b, GLOO_ERR_INVALID, "too many steps for one plan");
    return;
  }
  b->one_sided = true;
  if (s->peer != GLI_NO_PEER) builder_number(b, s);
  builder_append(b, s);
}

/* Returns the segment length for a message whose length only its two ranks
 * know: at most about a thousand segments for all peers together. */
static uint64_t longest_segment(const gli_builder *b, uint64_t bytes) {
  if (!gli_collective_pairwise(b->params.collective)) return b->segment;
  uint64_t pieces = 1 + 1024 / b->params.size;
  uint64_t least = bytes / pieces + 1, elem = b->params.elem_bytes;
  if (b->segment > least) return b->segment;
  return (least + elem - 1) / elem * elem;
}

void gli_build_push(gli_builder *b, gli_step *s) {
  bool token =
      (s->kind == GLI_STEP_SEND ? s->a_buffer : s->dst_buffer) == GLI_TOKEN;
  uint64_t rest = s->bytes;
  uint64_t longest = token ? rest : longest_segment(b, rest);
  if (rest / longest >= UINT32_MAX - 1 - b->n_seen) {
    gli_build_fail(b, GLOO_ERR_INVALID,
                   "too many steps for one plan; use longer segments");
    return;
  }
  while (rest != 0 && !gli_build_failed(b)) {
    s->bytes = rest < longest ? rest : longest;
    if (s->peer != GLI_NO_PEER) builder_number(b, s);
    builder_append(b, s);
    s->a += s->bytes;
    s->b += s->bytes;
    s->dst += s->bytes;
    rest -= s->bytes;
  }
}

/* Returns the error text; the operands of REDUCE_ALL are gets. */
static const char *builder_miscounted(gli_step_kind kind, uint32_t n) {
  if (kind == GLI_STEP_REDUCE_ALL) {
    return n == 0 ? "reduces without gets"
                  : "is not among the gets that it reduces";
  }
  return n == 0 ? "reduces without blocks"
                : "is not among the blocks that it reduces";
}

bool gli_build_many(gli_builder *b, gli_step_kind kind, const gli_many *m,
                    gli_step *s) {
  gli_range local = m->local, dst = m->dst;
  if (gli_build_failed(b) || !gli_build_same(b, local.bytes, dst.bytes) ||
      !gli_build_same(b, m->blocks.bytes, dst.bytes))
    return false;
  if (m->n == 0 || m->own > m->n) {
    gli_build_fail(b, GLOO_ERR_INTERNAL, builder_miscounted(kind, m->n));
    return false;
  }
  if (!gli_build_memory(b, local) || !gli_build_memory(b, dst)) return false;
  if (!gli_build_reads(b, &local) || !gli_build_writes(b, &dst) ||
      dst.bytes == 0)
    return false;
  if (!gli_build_reduces(b, dst) || !gli_build_apart(b, local, dst) ||
      !gli_build_blocks(b, m->blocks, m->n, m->stride, dst))
    return false;
  *s = (gli_step){.kind = (uint8_t)kind,
                  .a_buffer = (uint8_t)local.buffer,
                  .b_buffer = GLI_SCRATCH,
                  .dst_buffer = (uint8_t)dst.buffer,
                  .peer = GLI_NO_PEER,
                  .n = m->n,
                  .own = m->own,
                  .stride = m->stride,
                  .a = local.offset,
                  .b = m->blocks.offset,
                  .dst = dst.offset,
                  .bytes = dst.bytes};
  return true;
}

void gli_reduce_many(gli_builder *b, const gli_many *m) {
  gli_step s;
  if (gli_build_many(b, GLI_STEP_REDUCE_MANY, m, &s)) gli_build_push(b, &s);
}

void gli_lane(gli_builder *b, unsigned lane) {
  if (lane <= UINT8_MAX) {
    b->lane = (uint8_t)lane;
    return;
  }
  gli_build_fail(b, GLOO_ERR_INTERNAL, "uses a lane that does not exist");
}

void gli_send(gli_builder *b, uint32_t to, gli_range src) {
  if (gli_build_failed(b) || !gli_build_reads(b, &src) || src.bytes == 0)
    return;
  gli_step s = {.kind = GLI_STEP_SEND,
                .a_buffer = (uint8_t)src.buffer,
                .a = src.offset,
                .bytes = src.bytes,
                .peer = gli_build_peer(b, to)};
  if (s.peer == GLI_NO_PEER) return;
  gli_build_push(b, &s);
}

void gli_recv(gli_builder *b, uint32_t from, gli_range dst) {
  if (gli_build_failed(b) || !gli_build_writes(b, &dst) || dst.bytes == 0)
    return;
  gli_step s = {.kind = GLI_STEP_RECV,
                .dst_buffer = (uint8_t)dst.buffer,
                .dst = dst.offset,
                .bytes = dst.bytes,
                .peer = gli_build_peer(b, from)};
  if (s.peer == GLI_NO_PEER) return;
  gli_build_push(b, &s);
}

bool gli_build_recv_reduce(gli_builder *b, uint32_t from, gli_range local,
                           gli_range dst, bool incoming_first, gli_step *s) {
  if (gli_build_failed(b) || !gli_build_same(b, local.bytes, dst.bytes) ||
      !gli_build_memory(b, local) || !gli_build_memory(b, dst) ||
      !gli_build_reads(b, &local) || !gli_build_writes(b, &dst) ||
      dst.bytes == 0 || !gli_build_reduces(b, dst) ||
      !gli_build_apart(b, local, dst))
    return false;
  *s = (gli_step){.kind = GLI_STEP_RECV_REDUCE,
                  .incoming_first = incoming_first,
                  .a_buffer = (uint8_t)local.buffer,
                  .dst_buffer = (uint8_t)dst.buffer,
                  .a = local.offset,
                  .dst = dst.offset,
                  .bytes = dst.bytes,
                  .peer = gli_build_peer(b, from)};
  return s->peer != GLI_NO_PEER;
}

void gli_recv_reduce(gli_builder *b, uint32_t from, gli_range local,
                     gli_range dst, bool incoming_first) {
  gli_step s;
  if (gli_build_recv_reduce(b, from, local, dst, incoming_first, &s))
    gli_build_push(b, &s);
}

void gli_copy(gli_builder *b, gli_range src, gli_range dst) {
  if (gli_build_failed(b) || !gli_build_same(b, src.bytes, dst.bytes)) return;
  if (!gli_build_memory(b, src) || !gli_build_memory(b, dst)) return;
  if (!gli_build_reads(b, &src) || !gli_build_writes(b, &dst) || dst.bytes == 0)
    return;
  if (src.buffer == dst.buffer && src.offset == dst.offset) return;
  if (!gli_build_apart(b, src, dst)) return;
  gli_step s = {.kind = GLI_STEP_COPY,
                .a_buffer = (uint8_t)src.buffer,
                .dst_buffer = (uint8_t)dst.buffer,
                .a = src.offset,
                .dst = dst.offset,
                .bytes = dst.bytes,
                .peer = GLI_NO_PEER};
  gli_build_push(b, &s);
}

void gli_reduce(gli_builder *b, gli_range left, gli_range right,
                gli_range dst) {
  if (gli_build_failed(b) || !gli_build_same(b, left.bytes, dst.bytes)) return;
  if (!gli_build_same(b, right.bytes, dst.bytes)) return;
  if (!gli_build_memory(b, left) || !gli_build_memory(b, right) ||
      !gli_build_memory(b, dst))
    return;
  if (!gli_build_reads(b, &left) || !gli_build_reads(b, &right)) return;
  if (!gli_build_writes(b, &dst) || dst.bytes == 0 ||
      !gli_build_reduces(b, dst))
    return;
  if (!gli_build_apart(b, left, dst) || !gli_build_apart(b, right, dst)) return;
  gli_step s = {.kind = GLI_STEP_REDUCE,
                .a_buffer = (uint8_t)left.buffer,
                .b_buffer = (uint8_t)right.buffer,
                .dst_buffer = (uint8_t)dst.buffer,
                .a = left.offset,
                .b = right.offset,
                .dst = dst.offset,
                .bytes = dst.bytes,
                .peer = GLI_NO_PEER};
  gli_build_push(b, &s);
}
