#include "plan/spoil.h"

#include <stdlib.h>

#include "plan/raw.h"

static spoil now;

void spoil_set(spoil what) {
  now = what;
}

static void swap_ranges(gli_step *x, gli_step *y) {
  gli_step old = *x;
  x->a = y->a;
  x->b = y->b;
  x->dst = y->dst;
  y->a = old.a;
  y->b = old.b;
  y->dst = old.dst;
}

static gli_range range(uint8_t buffer, uint64_t at, const gli_step *s) {
  return gli_bytes((gli_buffer)buffer, at, s->bytes);
}

static void replay_send(gli_builder *b, const gli_step *s, uint32_t peer) {
  gli_range a = range(s->a_buffer, s->a, s);
  switch (s->role) {
    case GLI_ROLE_EXPOSE_GET:
      gli_expose_get(b, peer, a);
      break;
    case GLI_ROLE_EXPOSE_PUT:
      gli_expose_put(b, peer, a);
      break;
    case GLI_ROLE_PUT:
      gli_put(b, peer, a, s->window);
      break;
    case GLI_ROLE_SIGNAL:
      gli_signal(b, peer, a);
      break;
    default:
      gli_send(b, peer, a);
      break;
  }
}

static void replay_recv(gli_builder *b, const gli_step *s, uint32_t peer) {
  gli_range dst = range(s->dst_buffer, s->dst, s);
  switch (s->role) {
    case GLI_ROLE_EXPOSE_GET:
      gli_recv_get(b, peer, dst, s->window);
      break;
    case GLI_ROLE_EXPOSE_PUT:
      gli_recv_window(b, peer, s->bytes, s->window);
      break;
    case GLI_ROLE_PUT:
      gli_recv_put(b, peer, dst);
      break;
    case GLI_ROLE_SIGNAL:
      gli_await(b, peer, dst);
      break;
    default:
      gli_recv(b, peer, dst);
      break;
  }
}

static void replay_reduce_all(gli_builder *b, const gli_step *s) {
  gli_reduction r = {.local = range(s->a_buffer, s->a, s),
                     .dst = range(s->dst_buffer, s->dst, s),
                     .own = s->own,
                     .n = s->n,
                     .blocks = range(s->b_buffer, s->b, s),
                     .stride = s->stride,
                     .get = s->window,
                     .put = s->put,
                     .n_puts = s->n_puts};
  gli_reduce_all(b, &r);
}

static void replay_reduce_many(gli_builder *b, const gli_step *s) {
  gli_many m = {.local = range(s->a_buffer, s->a, s),
                .dst = range(s->dst_buffer, s->dst, s),
                .own = s->own,
                .n = s->n,
                .blocks = range(s->b_buffer, s->b, s),
                .stride = s->stride};
  gli_reduce_many(b, &m);
}

/* Adds the step to another builder. */
static void replay(gli_builder *b, const gli_step *s, uint32_t peer) {
  gli_range a = range(s->a_buffer, s->a, s),
            dst = range(s->dst_buffer, s->dst, s);
  switch (s->kind) {
    case GLI_STEP_SEND:
      replay_send(b, s, peer);
      break;
    case GLI_STEP_RECV:
      replay_recv(b, s, peer);
      break;
    case GLI_STEP_REDUCE_ALL:
      replay_reduce_all(b, s);
      break;
    case GLI_STEP_REDUCE_MANY:
      replay_reduce_many(b, s);
      break;
    case GLI_STEP_RECV_REDUCE:
      if (s->role == GLI_ROLE_EXPOSE_GET) {
        gli_recv_reduce_get(b, peer, a, dst, s->incoming_first != 0, s->put,
                            s->n_puts);
        break;
      }
      gli_recv_reduce(b, peer, a, dst, s->incoming_first != 0);
      break;
    case GLI_STEP_COPY:
      if (s->n_puts > 0) {
        gli_copy_all(b, a, dst, s->put, s->n_puts);
        break;
      }
      gli_copy(b, a, dst);
      break;
    case GLI_STEP_COPY_GET:
      gli_copy_get(b, a, s->window, dst, s->put, s->n_puts);
      break;
    default:
      gli_reduce(b, a, range(s->b_buffer, s->b, s), dst);
      break;
  }
}

static uint32_t peer_of(const gli_builder *inner, const gli_step *s) {
  return s->peer == GLI_NO_PEER ? 0 : inner->peers[s->peer].rank;
}

static void replay_spoilt(gli_builder *b, gli_builder *inner) {
  gli_step *at = &inner->steps[now.step];
  uint32_t size = b->params.size;
  if (now.how == SPOIL_BLOCK) swap_ranges(at, &inner->steps[now.other]);
  if (now.how == SPOIL_LENGTH) at->bytes -= b->params.elem_bytes;
  if (now.how == SPOIL_EARLY) replay(b, at, peer_of(inner, at));
  for (size_t i = 0; i < inner->n_steps; i++) {
    const gli_step *s = &inner->steps[i];
    uint32_t peer = peer_of(inner, s);
    if (s == at && (now.how == SPOIL_DROP || now.how == SPOIL_EARLY)) continue;
    if (s == at && now.how == SPOIL_PEER) {
      peer = (peer + 1) % size;
      if (peer == b->params.rank) peer = (peer + 1) % size;
    }
    replay(b, s, peer);
    if (s == at && now.how == SPOIL_TWICE) replay(b, s, peer);
  }
}

void spoil_build(gli_builder *b, const gli_plan_params *p) {
  if (now.how == SPOIL_NOTHING || p->rank != now.rank) {
    now.build(b, p);
    return;
  }
  gli_builder inner;
  gli_raw_init(&inner);
  if (gli_raw_begin(&inner, p, NULL) == GLOO_OK) {
    now.build(&inner, p);
    gli_scratch(b, inner.scratch_bytes);
    gli_windows(b, inner.n_windows);
    replay_spoilt(b, &inner);
  }
  gli_raw_free(&inner);
}

gli_plan *spoil_look(gli_build_fn build, gli_plan_params p, uint32_t rank) {
  gli_plan *plan = NULL;
  p.rank = rank;
  if (gli_plan_make(build, &p, &plan, NULL) != GLOO_OK) abort();
  return plan;
}
