/* Steps on memory of other ranks: gets, puts, and steps that use them. */
#include "core/error.h"
#include "plan/raw.h"

uint32_t gli_windows(gli_builder *b, uint32_t n) {
  if (gli_build_failed(b)) return 0;
  if (n > UINT32_MAX - b->n_windows) {
    gli_build_fail(b, GLOO_ERR_INVALID, "too many gets and puts for one plan");
    return 0;
  }
  b->n_windows += n;
  return b->n_windows - n;
}

static bool are_windows(gli_builder *b, uint32_t first, uint32_t n) {
  if (gli_in_bounds(first, n, b->n_windows)) return true;
  gli_build_fail(b, GLOO_ERR_INTERNAL,
                 "names a window that gli_windows did not return");
  return false;
}

static bool is_in(gli_builder *b, gli_range r, gli_buffer buffer,
                  const char *what) {
  if (r.buffer == buffer) return true;
  gli_build_fail(b, GLOO_ERR_INTERNAL, what);
  return false;
}

static void push_send(gli_builder *b, uint32_t to, gli_role role, gli_range src,
                      uint32_t window) {
  gli_step s = {.kind = GLI_STEP_SEND,
                .role = (uint8_t)role,
                .a_buffer = (uint8_t)src.buffer,
                .a = src.offset,
                .bytes = src.bytes,
                .window = window,
                .peer = gli_build_peer(b, to)};
  if (s.peer != GLI_NO_PEER) gli_build_whole(b, &s);
}

static void push_recv(gli_builder *b, uint32_t from, gli_role role,
                      gli_range dst, uint32_t window) {
  gli_step s = {.kind = GLI_STEP_RECV,
                .role = (uint8_t)role,
                .dst_buffer = (uint8_t)dst.buffer,
                .dst = dst.offset,
                .bytes = dst.bytes,
                .window = window,
                .peer = gli_build_peer(b, from)};
  if (s.peer != GLI_NO_PEER) gli_build_whole(b, &s);
}

void gli_expose_get(gli_builder *b, uint32_t to, gli_range src) {
  if (gli_build_failed(b) || !gli_build_memory(b, src) ||
      !gli_build_reads(b, &src))
    return;
  if (src.bytes != 0) push_send(b, to, GLI_ROLE_EXPOSE_GET, src, 0);
}

void gli_recv_get(gli_builder *b, uint32_t from, gli_range dst,
                  uint32_t window) {
  if (gli_build_failed(b) || !are_windows(b, window, 1) ||
      !gli_build_writes(b, &dst))
    return;
  if (!is_in(b, dst, GLI_SCRATCH, "receives a get outside of SCRATCH")) return;
  if (dst.bytes != 0) push_recv(b, from, GLI_ROLE_EXPOSE_GET, dst, window);
}

void gli_expose_put(gli_builder *b, uint32_t to, gli_range dst) {
  if (gli_build_failed(b) || !gli_build_memory(b, dst) ||
      !gli_build_writes(b, &dst))
    return;
  if (dst.bytes != 0) push_send(b, to, GLI_ROLE_EXPOSE_PUT, dst, 0);
}

void gli_recv_window(gli_builder *b, uint32_t from, uint64_t bytes,
                     uint32_t window) {
  if (gli_build_failed(b) || !are_windows(b, window, 1) || bytes == 0) return;
  push_recv(b, from, GLI_ROLE_EXPOSE_PUT, gli_bytes(GLI_WINDOW, window, bytes),
            window);
}

void gli_put(gli_builder *b, uint32_t to, gli_range src, uint32_t put) {
  if (gli_build_failed(b) || !are_windows(b, put, 1)) return;
  if (!gli_build_memory(b, src) || !gli_build_reads(b, &src)) return;
  if (src.bytes != 0) push_send(b, to, GLI_ROLE_PUT, src, put);
}

void gli_recv_put(gli_builder *b, uint32_t from, gli_range dst) {
  if (gli_build_failed(b) || !gli_build_memory(b, dst) ||
      !gli_build_writes(b, &dst))
    return;
  if (dst.bytes != 0) push_recv(b, from, GLI_ROLE_PUT, dst, 0);
}

void gli_signal(gli_builder *b, uint32_t to, gli_range range) {
  if (gli_build_failed(b) || !gli_build_reads(b, &range)) return;
  if (range.bytes != 0) push_send(b, to, GLI_ROLE_SIGNAL, range, 0);
}

void gli_await(gli_builder *b, uint32_t from, gli_range range) {
  if (gli_build_failed(b) || !gli_build_writes(b, &range)) return;
  if (range.bytes != 0) push_recv(b, from, GLI_ROLE_SIGNAL, range, 0);
}

void gli_reduce_all(gli_builder *b, const gli_reduction *r) {
  const gli_many many = {.local = r->local,
                         .dst = r->dst,
                         .own = r->own,
                         .n = r->n,
                         .blocks = r->blocks,
                         .stride = r->stride};
  if (gli_build_failed(b) || !are_windows(b, r->get, r->n) ||
      !are_windows(b, r->put, r->n_puts))
    return;
  gli_step s;
  if (!gli_build_many(b, GLI_STEP_REDUCE_ALL, &many, &s)) return;
  s.window = r->get;
  s.put = r->put;
  s.n_puts = r->n_puts;
  gli_build_whole(b, &s);
}

static void push_copy(gli_builder *b, gli_step_kind kind, gli_range src,
                      uint32_t get, gli_range dst, uint32_t put,
                      uint32_t n_puts) {
  if (!gli_build_same(b, src.bytes, dst.bytes)) return;
  if (!are_windows(b, put, n_puts)) return;
  if (!gli_build_memory(b, src) || !gli_build_memory(b, dst)) return;
  if (!gli_build_reads(b, &src) || !gli_build_writes(b, &dst) || dst.bytes == 0)
    return;
  if (!gli_build_apart(b, src, dst)) return;
  gli_step s = {.kind = (uint8_t)kind,
                .a_buffer = (uint8_t)src.buffer,
                .dst_buffer = (uint8_t)dst.buffer,
                .a = src.offset,
                .dst = dst.offset,
                .bytes = dst.bytes,
                .window = get,
                .put = put,
                .n_puts = n_puts,
                .peer = GLI_NO_PEER};
  gli_build_whole(b, &s);
}

void gli_copy_all(gli_builder *b, gli_range src, gli_range dst, uint32_t put,
                  uint32_t n_puts) {
  if (gli_build_failed(b)) return;
  push_copy(b, GLI_STEP_COPY, src, 0, dst, put, n_puts);
}

void gli_copy_get(gli_builder *b, gli_range block, uint32_t get, gli_range dst,
                  uint32_t put, uint32_t n_puts) {
  if (gli_build_failed(b) || !are_windows(b, get, 1)) return;
  push_copy(b, GLI_STEP_COPY_GET, block, get, dst, put, n_puts);
}

void gli_recv_reduce_get(gli_builder *b, uint32_t from, gli_range local,
                         gli_range dst, bool incoming_first, uint32_t put,
                         uint32_t n_puts) {
  gli_step s;
  if (gli_build_failed(b) || !are_windows(b, put, n_puts) ||
      !gli_build_recv_reduce(b, from, local, dst, incoming_first, &s))
    return;
  s.role = GLI_ROLE_EXPOSE_GET;
  s.put = put;
  s.n_puts = n_puts;
  gli_build_whole(b, &s);
}
