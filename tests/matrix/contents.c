/* Contents of a rank's buffers before and after a call. Passes over long
 * buffers dominate the time of a case, so there is one pass to fill and one to
 * check, and neither accesses other memory: expected values are computed
 * piecewise, in the caches. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "player.h"

/* ---- memory -------------------------------------------------------------- */

/* Returns at least `bytes`, from the heap or from gloo_alloc. */
static uint8_t *take(player *p, area *a, size_t bytes, bool shared) {
  size_t *have = shared ? &a->shared_bytes : &a->heap_bytes;
  uint8_t **at = shared ? &a->shared : &a->heap;
  if (bytes <= *have) return *at;
  size_t want = bytes + bytes / 2;
  void *memory = NULL;
  if (shared) {
    gloo_free(*at);
    gloo_alloc(want, &memory, NULL);
  } else {
    free(*at);
    memory = malloc(want);
  }
  *at = memory;
  *have = memory ? want : 0;
  if (memory == NULL) player_tell(p, "out of memory");
  return memory;
}

void player_free_buffers(player *p) {
  for (int i = 0; i < 2; i++) {
    free(p->areas[i].heap);
    gloo_free(p->areas[i].shared);
    for (int k = GPU_HOST + 1; k < GPU_KINDS; k++)
      gpu_free(p->device, (gpu_kind)k, p->areas[i].gpu[k]);
  }
}

/* ---- GPUs ---------------------------------------------------------------- */

/* Returns GPU memory of that kind, of the area's length. */
static uint8_t *take_gpu(player *p, area *a, gpu_kind kind, size_t bytes) {
  if (bytes <= a->gpu_bytes[kind]) return a->gpu[kind];
  gpu_free(p->device, kind, a->gpu[kind]);
  a->gpu_bytes[kind] = bytes + bytes / 2;
  a->gpu[kind] = gpu_alloc(p->device, kind, a->gpu_bytes[kind]);
  return a->gpu[kind];
}

static void give_to_gpu(player *p, const buffer *b) {
  if (b->kind == GPU_HOST) return;
  gpu_copy(p->device, p->order, b->given - GUARD, b->at - GUARD,
           b->bytes + 2 * GUARD);
  /* The library does not wait for a stream if none is given and the host can
   * read the buffer. */
  if (b->kind == GPU_PINNED && p->order == NULL) gpu_sync(p->device, p->order);
}

static void fetch(player *p, const buffer *b, gpu_stream stream) {
  if (b->kind == GPU_HOST) return;
  gpu_copy(p->device, stream, b->at - GUARD, b->given - GUARD,
           b->bytes + 2 * GUARD);
}

static bool has_elements(const matrix_list *l) {
  size_t n = 0;
  for (size_t i = 0; l->buffers > 0 && i < l->blocks; i++) n += l->count[i];
  return n > 0;
}

/* Returns true if the call had to wait for the copy that filled the buffer. */
static bool waited(const player *p, const buffer *b) {
  const matrix_shape *s = &p->shape;
  if (b->kind == GPU_HOST || (b->kind == GPU_PINNED && p->order == NULL))
    return false;
  bool reads = s->reads && has_elements(&s->in);
  bool writes = s->writes && has_elements(&s->out);
  if (b == &p->in) return reads && !s->in_place;
  return writes || (reads && s->in_place);
}

void player_fetch(player *p, bool in_order) {
  gpu_stream stream = in_order ? p->order : p->other;
  if (!player_has_gpu(p)) return;
  if (!waited(p, &p->in) && !waited(p, &p->out)) gpu_sync(p->device, p->order);
  fetch(p, &p->in, stream);
  fetch(p, &p->out, stream);
  gpu_sync(p->device, stream);
}

bool player_has_gpu(const player *p) {
  return p->in.kind != GPU_HOST || p->out.kind != GPU_HOST;
}

/* Makes a buffer, in half of the cases at an unaligned address; a quarter of
 * them are memory that other ranks can access. */
static bool make_buffer(player *p, buffer *b, area *a, size_t elements,
                        unsigned salt) {
  uint64_t drawn = reference_mix(matrix_drawn(p->c, MATRIX_MEMORY),
                                 (uint64_t)salt << 8 | (unsigned)p->env->rank);
  bool shared = drawn % 4 == 0;
  size_t skew = drawn % 2 ? (size_t)(drawn >> 8) % 16 : 0;
  b->bytes = elements * p->element;
  uint8_t *at = take(p, a, b->bytes + 2 * GUARD + 16, shared);
  if (!at) return false;
  b->at = b->given = at + skew + GUARD;
  b->kind =
      p->stream != NULL ? (gpu_kind)((drawn >> 16) % GPU_KINDS) : GPU_HOST;
  if (b->kind == GPU_HOST) return true;
  b->given = take_gpu(p, a, b->kind, b->bytes + 2 * GUARD + 16) + skew + GUARD;
  return true;
}

/* ---- layout -------------------------------------------------------------- */

/* Returns the i-th block by address: some lists run backwards. */
static size_t in_order(const matrix_list *l, size_t i) {
  bool backwards = l->blocks > 0 && l->first[0] > l->first[l->blocks - 1];
  return backwards ? l->blocks - 1 - i : i;
}

/* Locates the inputs. In place, they are blocks of the output, shifted by
 * `shift`. */
static void place_inputs(player *p) {
  const matrix_shape *s = &p->shape;
  p->n_inputs = 0;
  for (size_t k = 0; s->reads && k < s->in.buffers; k++) {
    size_t begin = k * s->in.step + (s->in_place ? s->shift : 0);
    for (size_t i = 0; i < s->in.blocks; i++) {
      size_t b = in_order(&s->in, i);
      if (s->in.count[b] == 0) continue;
      assert_true(p->n_inputs < MATRIX_MOST_BLOCKS);
      p->inputs[p->n_inputs++] = (placed){.first = begin + s->in.first[b],
                                          .n = s->in.count[b],
                                          .block = b,
                                          .number = (int)k};
    }
  }
}

bool player_make_buffers(player *p) {
  const matrix_shape *s = &p->shape;
  place_inputs(p);
  p->order = matrix_drawn(p->c, MATRIX_GPU) % 4 == 0 ? NULL : p->stream;
  return make_buffer(p, &p->in, &p->areas[0],
                     s->in_place ? 0 : matrix_in_elements(s), 0) &&
         make_buffer(p, &p->out, &p->areas[1], matrix_out_elements(s), 1);
}

/* Returns how many inputs are in this buffer: all, or none. */
static size_t inputs_in(const player *p, const buffer *b) {
  bool here = (b == &p->out) == p->shape.in_place;
  return here ? p->n_inputs : 0;
}

/* ---- before -------------------------------------------------------------- */

/* Returns the key of one block in one run, the same on all ranks that have the
 * block. */
static uint64_t key_of(const player *p, size_t block, int run) {
  return reference_mix(matrix_drawn(p->c, MATRIX_KEYS),
                       (uint64_t)block << 8 | (unsigned)run);
}

/* Writes the inputs, and filler around and between them. */
static void fill(player *p, const buffer *b, int run) {
  uint8_t *at = b->at - GUARD, *end = b->at + b->bytes + GUARD;
  for (size_t i = 0; i < inputs_in(p, b); i++) {
    const placed *x = &p->inputs[i];
    uint8_t *to = b->at + x->first * p->element;
    memset(at, FILLER, (size_t)(to - at));
    reference_input(p->reference, p->env->rank, x->number,
                    key_of(p, x->block, run), x->n, to);
    at = to + x->n * p->element;
  }
  memset(at, FILLER, (size_t)(end - at));
}

void player_fill(player *p, int run) {
  fill(p, &p->in, run);
  fill(p, &p->out, run);
  if (!player_has_gpu(p)) return;
  uint64_t drawn = reference_mix(matrix_drawn(p->c, MATRIX_GPU),
                                 (uint64_t)run << 8 | (unsigned)p->env->rank);
  if (drawn % 2 == 0)
    gpu_delay(p->device, p->order, (unsigned)(drawn >> 8) % 400);
  give_to_gpu(p, &p->in);
  give_to_gpu(p, &p->out);
}

/* ---- unchanged bytes ----------------------------------------------------- */

/* Returns the first byte that is not filler, or NULL. */
static const uint8_t *find_no_filler(const uint8_t *at, const uint8_t *end) {
  if (at >= end) return NULL;
  size_t others = (size_t)(end - at) - 1;
  if (*at == FILLER && memcmp(at, at + 1, others) == 0) return NULL;
  while (*at == FILLER) at++;
  return at;
}

/* Returns the first byte of [at, end) in an input that has changed, or NULL.
 * Callers check whole elements of an input only. */
static const uint8_t *find_changed(const player *p, const placed *x,
                                   const uint8_t *begin, const uint8_t *at,
                                   const uint8_t *end, int run) {
  size_t from = (size_t)(at - begin) / p->element;
  size_t n = (size_t)(end - at) / p->element;
  size_t wrong = reference_check_input(p->reference, p->env->rank, x->number,
                                       key_of(p, x->block, run), from, n, at);
  return wrong < n ? at + wrong * p->element : NULL;
}

/* Fails the case if a byte of [at, end) has changed since before the call. */
static void check_kept(player *p, const buffer *b, const uint8_t *at,
                       const uint8_t *end, int run, const char *what) {
  const uint8_t *wrong = NULL;
  for (size_t i = 0; !wrong && i < inputs_in(p, b); i++) {
    const placed *x = &p->inputs[i];
    const uint8_t *begin = b->at + x->first * p->element;
    const uint8_t *over = begin + x->n * p->element;
    if (over <= at || begin >= end) continue;
    if (at < begin) {
      wrong = find_no_filler(at, begin);
      at = begin;
    }
    if (over > end) over = end;
    if (!wrong) wrong = find_changed(p, x, begin, at, over, run);
    at = over;
  }
  if (!wrong) wrong = find_no_filler(at, end);
  if (!wrong) return;
  char text[128];
  snprintf(text, sizeof text, "%s has changed at byte %td of %zu", what,
           wrong - b->at, b->bytes);
  player_tell(p, text);
}

/* ---- results ------------------------------------------------------------- */

static int print_bytes(char *to, size_t room, const uint8_t *at, size_t n) {
  int used = 0;
  for (size_t k = 0; k < n; k++) {
    used += snprintf(to + used, room - (size_t)used, " %02x", at[k]);
  }
  return used;
}

static void tell_element(player *p, size_t block, size_t i, const uint8_t *is,
                         const uint8_t *want) {
  char text[256];
  int used = snprintf(text, sizeof text, "block %zu, element %zu is", block, i);
  used += print_bytes(text + used, sizeof text - (size_t)used, is, p->element);
  used += snprintf(text + used, sizeof text - (size_t)used, ", not");
  print_bytes(text + used, sizeof text - (size_t)used, want, p->element);
  player_tell(p, text);
}

bool player_is_loose(const player *p) {
  return p->c->op != REFERENCE_NO_OP && !p->ordered &&
         reference_is_loose(p->reference);
}

/* Returns the number of ranks whose inputs are combined, or 0 if all are
 * combined at once and rounded once. A scan rounds at each rank. */
static int operands_of(const player *p, const matrix_result *r) {
  bool all = r->n == p->scene->ranks->size;
  bool at_once = p->ordered && all && !p->is_prefix;
  return at_once ? 0 : r->n;
}

/* Returns the first wrong element of a block, or n if there is none, and sets
 * `want` to the expected element. */
static size_t find_wrong(const player *p, const matrix_result *r, uint64_t key,
                         size_t n, const uint8_t *is, uint8_t *want) {
  const reference *f = p->reference;
  size_t wrong;
  if (p->c->op == REFERENCE_NO_OP) {
    wrong = reference_check_input(f, r->first, r->number, key, 0, n, is);
    if (wrong < n) {
      reference_input_at(f, r->first, r->number, key, wrong, want);
    }
    return wrong;
  }
  int operands = operands_of(p, r);
  wrong = player_is_loose(p) ? reference_check_bounds(f, operands, key, n, is)
                             : reference_check_result(f, operands, key, n, is);
  if (wrong < n) reference_result_at(f, operands, key, wrong, want);
  return wrong;
}

/* Checks a block of output k. */
static void check_block(player *p, const matrix_result *r, size_t k, size_t b,
                        int run) {
  const matrix_list *l = &p->shape.out;
  size_t n = l->count[b];
  const uint8_t *first = p->out.at + l->first[b] * p->element;
  const uint8_t *is = first + k * l->step * p->element;
  uint8_t want[REFERENCE_MOST_BYTES];
  size_t wrong =
      find_wrong(p, r, key_of(p, (size_t)r->block, run), n, is, want);
  if (wrong < n) tell_element(p, b, wrong, is + wrong * p->element, want);
  if (k == 0 || !player_is_loose(p)) return;
  if (memcmp(is, first, n * p->element) != 0) player_tell(p, "outputs differ");
}

/* Checks output k and the bytes before it, starting at `at`. Returns where it
 * ends. */
static const uint8_t *check_output(player *p, const uint8_t *at, size_t k,
                                   int run) {
  static const char around[] = "what is around the result";
  const matrix_shape *s = &p->shape;
  const uint8_t *begin = p->out.at + k * s->out.step * p->element;
  for (size_t i = 0; s->writes && i < s->out.blocks; i++) {
    size_t b = in_order(&s->out, i);
    matrix_result r = matrix_result_of(p->scene->ranks, p->c, p->env->rank, b);
    if (r.kept || s->out.count[b] == 0) continue;
    const uint8_t *block = begin + s->out.first[b] * p->element;
    check_kept(p, &p->out, at, block, run, around);
    check_block(p, &r, k, b, run);
    at = block + s->out.count[b] * p->element;
  }
  if (s->undefined >= s->elements) return at;
  const uint8_t *undefined = begin + s->undefined * p->element;
  if (undefined > at) check_kept(p, &p->out, at, undefined, run, around);
  return begin + s->elements * p->element;
}

void player_check(player *p, int run) {
  const uint8_t *at = p->out.at - GUARD;
  for (size_t k = 0; k < p->shape.out.buffers; k++) {
    at = check_output(p, at, k, run);
  }
  check_kept(p, &p->out, at, p->out.at + p->out.bytes + GUARD, run,
             "what is around the result");
  check_kept(p, &p->in, p->in.at - GUARD, p->in.at + p->in.bytes + GUARD, run,
             "the input");
}

/* ---- digests ------------------------------------------------------------- */

static uint64_t join(uint64_t h, uint64_t word) {
  h = (h ^ word) * UINT64_C(0x100000001b3);
  return h ^ h >> 32;
}

/* FNV-1a (Fowler, Noll and Vo) of whole words, in four lanes, because each
 * multiplication depends on the one before it. */
static uint64_t digest(const uint8_t *at, size_t bytes) {
  uint64_t h[4] = {UINT64_C(0xcbf29ce484222325), 1, 2, 3}, word[4];
  size_t i = 0;
  for (; i + sizeof word <= bytes; i += sizeof word) {
    memcpy(word, at + i, sizeof word);
    for (int lane = 0; lane < 4; lane++) h[lane] = join(h[lane], word[lane]);
  }
  memset(word, 0, sizeof word);
  memcpy(word, at + i, bytes - i);
  for (int lane = 0; lane < 4; lane++) h[lane] = join(h[lane], word[lane]);
  return join(join(join(h[0], h[1]), h[2]), h[3]);
}

uint64_t player_digest(const player *p) {
  const matrix_list *l = &p->shape.out;
  uint64_t h = 0;
  for (size_t b = 0; b < l->blocks; b++) {
    h = reference_mix(h, digest(p->out.at + l->first[b] * p->element,
                                l->count[b] * p->element));
  }
  return h;
}
