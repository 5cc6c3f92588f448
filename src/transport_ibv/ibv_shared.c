#define _DEFAULT_SOURCE
#include "transport_ibv/ibv_shared.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "core/log.h"
#include "transport_ibv/ibv.h"

enum {
  /* Buffers of a pair: one per credit, and those that wait to be posted. */
  OWN = GLI_IBV_SLOTS + GLI_IBV_REFILL,
  /* The SRQ has a buffer for each credit of the first 16 pairs. With more pairs it
   * grows on use. */
  BUFFERS_FIRST = 256,
  BUFFERS_MAX = 4096,
  /* The device reports when less than 1/LOW of the buffers is left. */
  LOW = 8,
  /* Slots that all pairs together may use beyond one each, so that peers that
   * do not receive leave a slot to the others. */
  EXTRA_MAX = 1024
};

/* Slots that are registered together. */
typedef struct gli_ibv_block {
  struct gli_ibv_block *next;
  struct ibv_mr *mr;
  uint8_t *memory;
  size_t bytes;
  uint32_t n;
  gli_ibv_slot slot[];
} gli_ibv_block;

/* The kernel also reports ENOMEM if RLIMIT_MEMLOCK is exceeded. */
const char *gli_ibv_lacks(const char *what) {
  struct rlimit limit;
  int code = errno;
  bool locked = code == ENOMEM && getrlimit(RLIMIT_MEMLOCK, &limit) == 0 &&
                limit.rlim_cur != RLIM_INFINITY;
  errno = code;
  return locked
             ? "locked memory (\"ulimit -l unlimited\" raises RLIMIT_MEMLOCK)"
             : what;
}

/* ---- completion queue ---------------------------------------------------- */

/* Reserves entries of the completion queue, which grows if it has too few. */
static const char *shared_reserve(gli_ibv *t, int n) {
  gli_ibv_port *port = &t->port;
  int more = port->cq_entries, most = port->cqe_max - port->cq_entries;
  if (more > most) more = most;
  if (port->cq_left >= n) {
    port->cq_left -= n;
    return NULL;
  }
  errno = ENOSPC;
  if (more < n) return "room in the completion queue";
  uv_mutex_lock(&t->cq_lock);
  int code = port->v->resize_cq(port->cq, port->cq_entries + more);
  uv_mutex_unlock(&t->cq_lock);
  if (code != 0) {
    errno = code;
    return gli_ibv_lacks("room in the completion queue");
  }
  port->cq_entries += more;
  port->cq_left += more - n;
  return NULL;
}

/* ---- blocks -------------------------------------------------------------- */

static void block_free(gli_ibv *t, gli_ibv_block *block) {
  if (block->mr != NULL) (void)t->port.v->dereg_mr(block->mr);
  (void)munmap(block->memory, block->bytes);
  free(block);
}

/* Makes a block of `n` slots. Returns NULL, or the missing part with errno. */
static const char *block_make(gli_ibv *t, uint32_t n, gli_ibv_block **made) {
  gli_ibv_block *block = calloc(1, sizeof *block + n * sizeof block->slot[0]);
  if (block == NULL) return "memory for frames";
  block->n = n;
  block->bytes = (size_t)n * GLI_IBV_SLOT_BYTES;
  block->memory = mmap(NULL, block->bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (block->memory == MAP_FAILED) {
    free(block);
    errno = ENOMEM;
    return "memory for frames";
  }
  block->mr = t->port.v->reg_mr(t->port.pd, block->memory, block->bytes,
                                IBV_ACCESS_LOCAL_WRITE);
  if (block->mr == NULL) {
    const char *lacks = gli_ibv_lacks("registered memory");
    int code = errno;
    block_free(t, block);
    errno = code;
    return lacks;
  }
  for (uint32_t i = 0; i < n; i++)
    block->slot[i] =
        (gli_ibv_slot){.memory = block->memory + i * GLI_IBV_SLOT_BYTES,
                       .lkey = block->mr->lkey};
  *made = block;
  return NULL;
}

static void block_keep(gli_ibv_shared *s, gli_ibv_block *block) {
  block->next = s->blocks;
  s->blocks = block;
}

/* ---- slots of sends ------------------------------------------------------ */

static void slots_push(gli_ibv_shared *s, gli_ibv_slot *slot) {
  slot->next = s->free;
  s->free = slot;
}

static const char *slots_grow(gli_ibv *t) {
  gli_ibv_block *block = NULL;
  const char *lacks = block_make(t, GLI_IBV_BLOCK, &block);
  if (lacks != NULL) return lacks;
  block_keep(&t->shared, block);
  for (uint32_t i = block->n; i-- > 0;) slots_push(&t->shared, &block->slot[i]);
  return NULL;
}

/* If memory runs out, pairs may use fewer beyond one each, so that others have
 * slots, too. */
bool gli_ibv_slot_make(gli_ibv_pair *pair) {
  gli_ibv_shared *s = &pair->t->shared;
  if (pair->held == 0 || s->extra < s->extra_max) {
    if (s->free != NULL || slots_grow(pair->t) == NULL) return true;
    if (s->extra < s->extra_max) s->extra_max = s->extra / 2;
  }
  if (pair->waits) return false;
  pair->waits = true;
  pair->next_waiting = s->waiting;
  s->waiting = pair;
  return false;
}

void gli_ibv_slots_freed(gli_ibv *t) {
  t->shared.freed = true;
  if (!t->in_poll) gli_ibv_touch(t);
}

/* The list is in reverse order, and so is that of busy pairs: the pair that has
 * waited longest comes first. */
void gli_ibv_slots_wake(gli_ibv *t) {
  gli_ibv_pair *pair = t->shared.waiting;
  if (!t->shared.freed) return;
  t->shared.freed = false;
  t->shared.waiting = NULL;
  for (; pair != NULL; pair = pair->next_waiting) {
    pair->waits = false;
    gli_ibv_pair_busy(pair);
  }
}

/* ---- receive buffers ----------------------------------------------------- */

/* Posts to the SRQ, or to the queue pair if there is none. */
static bool buffers_post(gli_ibv *t, struct ibv_qp *qp,
                         gli_ibv_slot *const *slot, uint32_t n) {
  struct ibv_sge part[GLI_IBV_REFILL];
  struct ibv_recv_wr wr[GLI_IBV_REFILL], *bad;
  for (uint32_t i = 0; i < n; i++) {
    part[i] =
        (struct ibv_sge){.addr = (uintptr_t)slot[i]->memory + GLI_IBV_FRAME_AT,
                         .length = GLI_IBV_FRAME_MAX,
                         .lkey = slot[i]->lkey};
    wr[i] = (struct ibv_recv_wr){.wr_id = (uintptr_t)slot[i] | 1,
                                 .next = i + 1 < n ? &wr[i + 1] : NULL,
                                 .sg_list = &part[i],
                                 .num_sge = 1};
  }
  int code = t->shared.srq != NULL ? ibv_post_srq_recv(t->shared.srq, wr, &bad)
                                   : ibv_post_recv(qp, wr, &bad);
  if (code != 0) errno = code;
  return code == 0;
}

bool gli_ibv_repost(gli_ibv *t, gli_ibv_pair *pair, gli_ibv_slot *slot) {
  gli_ibv_refill *refill = &t->shared.refill;
  if (t->shared.srq == NULL) {
    if (pair == NULL || pair->qp == NULL) return true;
    refill = &pair->refill;
  }
  if (refill->n == GLI_IBV_REFILL) {
    struct ibv_qp *qp = t->shared.srq == NULL ? pair->qp : NULL;
    if (!buffers_post(t, qp, refill->slot, refill->n)) return false;
    refill->n = 0;
  }
  refill->slot[refill->n++] = slot;
  return true;
}

bool gli_ibv_post_own(gli_ibv_pair *pair) {
  for (uint32_t i = 0; pair->own != NULL && i < pair->own->n; i++)
    if (!gli_ibv_reuse(pair->t, pair, &pair->own->slot[i])) return false;
  return true;
}

/* Adds a block to the SRQ. */
static const char *srq_add(gli_ibv *t) {
  gli_ibv_block *block = NULL;
  const char *lacks = block_make(t, GLI_IBV_BLOCK, &block);
  if (lacks != NULL) return lacks;
  lacks = shared_reserve(t, GLI_IBV_BLOCK);
  if (lacks != NULL) {
    block_free(t, block);
    return lacks;
  }
  block_keep(&t->shared, block);
  t->shared.buffers += block->n;
  for (uint32_t i = 0; i < block->n; i++)
    if (!gli_ibv_reuse(t, NULL, &block->slot[i])) return "receive buffers";
  return NULL;
}

static uint32_t srq_most(const gli_ibv *t) {
  uint32_t most = (uint32_t)t->port.srq_max;
  return most < BUFFERS_MAX ? most : BUFFERS_MAX;
}

/* Grows the SRQ to `n` buffers. With fewer it works as well, only slower. */
static const char *srq_grow(gli_ibv *t, uint32_t n) {
  gli_ibv_shared *s = &t->shared;
  uint32_t before = s->buffers, most = srq_most(t);
  const char *lacks = NULL;
  if (n > most) n = most;
  while (s->buffers < n && s->buffers + GLI_IBV_BLOCK <= most && lacks == NULL)
    lacks = srq_add(t);
  if (before == 0 && lacks != NULL) return lacks;
  if (lacks != NULL)
    gli_log(GLOO_LOG_INFO, "%s lacks %s: %s; %u receive buffers remain",
            t->port.name, lacks, strerror(errno), s->buffers);
  if (s->buffers == before) return NULL;
  struct ibv_srq_attr low = {.srq_limit = s->buffers / LOW};
  (void)t->port.v->modify_srq(s->srq, &low, IBV_SRQ_LIMIT);
  return NULL;
}

void gli_ibv_buffers_low(gli_ibv *t) {
  if (t->shared.srq != NULL) (void)srq_grow(t, 2 * t->shared.buffers);
}

/* ---- numbers of queue pairs ---------------------------------------------- */

gli_ibv_pair *gli_ibv_find(const gli_ibv *t, uint32_t number) {
  gli_ibv_pair *pair = t->shared.by_number[number % GLI_IBV_NUMBERS];
  while (pair != NULL && pair->number != number) pair = pair->next_number;
  return pair;
}

static void number_remove(const gli_ibv_pair *pair) {
  gli_ibv_pair **at =
      &pair->t->shared.by_number[pair->number % GLI_IBV_NUMBERS];
  while (*at != NULL && *at != pair) at = &(*at)->next_number;
  if (*at != NULL) *at = pair->next_number;
}

/* The number may be that of a destroyed queue pair, to which completions in the
 * queue still refer. */
void gli_ibv_number(gli_ibv_pair *pair) {
  gli_ibv *t = pair->t;
  gli_ibv_pair *old = gli_ibv_find(t, pair->qp->qp_num);
  if (old != NULL) {
    gli_ibv_stash_all(t, old->number);
    number_remove(old);
    old->number = 0;
  }
  pair->number = pair->qp->qp_num;
  gli_ibv_pair **list = &t->shared.by_number[pair->number % GLI_IBV_NUMBERS];
  pair->next_number = *list;
  *list = pair;
}

/* ---- sharing ------------------------------------------------------------- */

static void srq_make(gli_ibv *t) {
  gli_ibv_port *port = &t->port;
  struct ibv_srq_init_attr as = {.attr = {.max_wr = srq_most(t), .max_sge = 1}};
  errno = EOPNOTSUPP;
  if (port->srq_max >= GLI_IBV_BLOCK)
    t->shared.srq = port->v->create_srq(port->pd, &as);
  if (t->shared.srq == NULL)
    gli_log(GLOO_LOG_INFO,
            "RDMA device %s has no shared receive queue (%s), so each pair "
            "has receive buffers of its own",
            port->name, strerror(errno));
}

/* Frees all that pairs share; the last one has ended. */
static void shared_end(gli_ibv *t) {
  gli_ibv_shared *s = &t->shared;
  if (s->srq != NULL) (void)t->port.v->destroy_srq(s->srq);
  while (s->blocks != NULL) {
    gli_ibv_block *block = s->blocks;
    s->blocks = block->next;
    block_free(t, block);
  }
  t->port.cq_left += (int)s->buffers;
  memset(s, 0, sizeof *s);
}

const char *gli_ibv_share(gli_ibv_pair *pair) {
  gli_ibv *t = pair->t;
  gli_ibv_shared *s = &t->shared;
  if (s->n_pairs == 0) {
    s->extra_max = EXTRA_MAX;
    srq_make(t);
  }
  bool own = s->srq == NULL;
  int entries = GLI_IBV_SLOTS + (own ? OWN : 0);
  const char *lacks = shared_reserve(t, entries);
  if (lacks == NULL) {
    pair->cq_entries = entries;
    s->n_pairs++;
    if (s->n_pairs == 1) lacks = slots_grow(t);
  } else if (s->n_pairs == 0) {
    shared_end(t);
  }
  if (lacks != NULL) return lacks;
  if (own) return block_make(t, OWN, &pair->own);
  uint32_t n = s->n_pairs * GLI_IBV_SLOTS + GLI_IBV_REFILL;
  return srq_grow(t, n < BUFFERS_FIRST ? n : BUFFERS_FIRST);
}

void gli_ibv_unshare(gli_ibv_pair *pair) {
  gli_ibv *t = pair->t;
  if (pair->cq_entries == 0) return;
  number_remove(pair);
  if (pair->waits) {
    gli_ibv_pair **at = &t->shared.waiting;
    while (*at != pair) at = &(*at)->next_waiting;
    *at = pair->next_waiting;
  }
  pair->waits = false;
  if (pair->own != NULL) block_free(t, pair->own);
  pair->own = NULL;
  t->port.cq_left += pair->cq_entries;
  pair->cq_entries = 0;
  if (--t->shared.n_pairs == 0) shared_end(t);
}

void gli_ibv_unshare_unused(gli_ibv *t) {
  if (t->shared.n_unused == 0) return;
  t->shared.n_unused = 0;
  for (gli_ibv_pair *pair = t->pairs; pair != NULL; pair = pair->next) {
    if (pair->way != GLI_IBV_BY_TCP || pair->qp_leaked) continue;
    if (pair->setup == GLI_IBV_SETTLED)
      gli_ibv_unshare(pair);
    else
      t->shared.n_unused++; /* a thread still has the queue pair */
  }
}

void gli_ibv_shared_abandon(gli_ibv *t) {
  while (t->shared.blocks != NULL) {
    gli_ibv_block *block = t->shared.blocks;
    t->shared.blocks = block->next;
    free(block);
  }
}
