#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "tools/limits.h"

enum { ALIGNMENT = 4096 };

/* Allocates `count` vectors of `bytes`, and writes to them, so that the pages
 * exist. */
static bool make_vectors(void **vectors, int count, uint64_t bytes,
                         gloo_error *error) {
  for (int i = 0; i < count; i++) vectors[i] = NULL;
  for (int i = 0; i < count; i++) {
    if (posix_memalign(&vectors[i], ALIGNMENT, (size_t)bytes) != 0) {
      gli_fail(error, GLOO_ERR_NO_MEMORY, -1, "out of memory");
      for (int k = 0; k < i; k++) free(vectors[k]);
      return false;
    }
    memset(vectors[i], 0, (size_t)bytes);
  }
  return true;
}

static void free_vectors(void **vectors, int count) {
  for (int i = 0; i < count; i++) free(vectors[i]);
}

static double gb_per_s(uint64_t bytes, uint64_t ns) {
  return ns > 0 ? (double)bytes / (double)ns : 0;
}

typedef void (*pass_fn)(void *a, const void *b, size_t bytes);

static void pass_memcpy(void *a, const void *b, size_t bytes) {
  memcpy(a, b, bytes);
}

/* Copies to 16 bytes after the start of a page, as from a page to memory from
 * malloc. See kernels/copy.h. */
static void pass_memcpy_behind(void *a, const void *b, size_t bytes) {
  memcpy((char *)a + 16, b, bytes - 16);
}

static void pass_add(void *a, const void *b, size_t bytes) {
  float *restrict to = a;
  const float *restrict from = b;
  for (size_t i = 0; i < bytes / sizeof *to; i++) to[i] += from[i];
}

static bool measure_pass(pass_fn pass, uint64_t bytes,
                         const gli_limit_effort *effort, double *value,
                         gloo_error *error) {
  void *vectors[2];
  if (!make_vectors(vectors, 2, bytes, error)) return false;
  /* A volatile pointer keeps the compiler from inlining the pass. */
  pass_fn volatile opaque = pass;
  gli_samples samples;
  if (!gli_samples_begin(&samples, effort)) {
    free_vectors(vectors, 2);
    gli_fail(error, GLOO_ERR_NO_MEMORY, -1, "out of memory");
    return false;
  }
  opaque(vectors[0], vectors[1], (size_t)bytes);
  while (gli_samples_wanted(&samples)) {
    uint64_t start = uv_hrtime();
    opaque(vectors[0], vectors[1], (size_t)bytes);
    gli_samples_add(&samples, gb_per_s(bytes, uv_hrtime() - start));
  }
  *value = gli_samples_end(&samples);
  free_vectors(vectors, 2);
  return true;
}

bool gli_limit_memcpy(uint64_t bytes, const gli_limit_effort *effort,
                      double *value, gloo_error *error) {
  return measure_pass(pass_memcpy, bytes, effort, value, error);
}

bool gli_limit_memcpy_behind(uint64_t bytes, const gli_limit_effort *effort,
                             double *value, gloo_error *error) {
  return measure_pass(pass_memcpy_behind, bytes, effort, value, error);
}

bool gli_limit_add(uint64_t bytes, const gli_limit_effort *effort,
                   double *value, gloo_error *error) {
  return measure_pass(pass_add, bytes, effort, value, error);
}

/* ---- two threads, each half of a sum, into both outputs ------------------ */

typedef struct fused {
  float *in[2], *out[2];
  size_t count;
  bool bypassing;
  atomic_uint go, done[2]; /* rounds */
  atomic_uint stop;
  uint64_t start_ns[2], end_ns[2];
} fused;

static void sum_plain(float *restrict dst0, float *restrict dst1,
                      const float *restrict a, const float *restrict b,
                      size_t count) {
  for (size_t i = 0; i < count; i++) {
    float sum = a[i] + b[i];
    dst0[i] = sum;
    dst1[i] = sum;
  }
}

static void sum_half(fused *f, int half, unsigned round) {
  size_t count = f->count / 2, first = half == 0 ? 0 : count;
  f->start_ns[half] = uv_hrtime();
  if (!f->bypassing ||
      !gli_sum_bypassing(f->out[0] + first, f->out[1] + first, f->in[0] + first,
                         f->in[1] + first, count)) {
    sum_plain(f->out[0] + first, f->out[1] + first, f->in[0] + first,
              f->in[1] + first, count);
  }
  f->end_ns[half] = uv_hrtime();
  atomic_store_explicit(&f->done[half], round, memory_order_release);
}

static void fused_thread(void *user) {
  fused *f = user;
  for (unsigned round = 1;; round++) {
    unsigned tries = 0;
    while (atomic_load_explicit(&f->go, memory_order_acquire) != round) {
      if (atomic_load_explicit(&f->stop, memory_order_acquire)) return;
      gli_spin(tries++);
    }
    sum_half(f, 1, round);
  }
}

static void fused_round(fused *f, unsigned round, uint64_t bytes,
                        gli_samples *samples) {
  atomic_store_explicit(&f->go, round, memory_order_release);
  sum_half(f, 0, round);
  unsigned tries = 0;
  while (atomic_load_explicit(&f->done[1], memory_order_acquire) != round) {
    gli_spin(tries++);
  }
  int first = f->start_ns[0] < f->start_ns[1] ? 0 : 1;
  int last = f->end_ns[0] > f->end_ns[1] ? 0 : 1;
  uint64_t took_ns = f->end_ns[last] - f->start_ns[first];
  if (round > 1) gli_samples_add(samples, gb_per_s(bytes, took_ns));
}

static bool measure_fused(bool bypassing, uint64_t bytes,
                          const gli_limit_effort *effort, double *value,
                          gloo_error *error) {
  void *vectors[4];
  if (!make_vectors(vectors, 4, bytes, error)) return false;
  fused f = {.in = {vectors[0], vectors[1]},
             .out = {vectors[2], vectors[3]},
             .count = (size_t)bytes / sizeof(float),
             .bypassing = bypassing};
  gli_samples samples;
  uv_thread_t thread;
  bool good = gli_samples_begin(&samples, effort);
  if (good && uv_thread_create(&thread, fused_thread, &f) != 0) {
    gli_samples_end(&samples);
    good = false;
  }
  if (good) {
    unsigned round = 0;
    while (gli_samples_wanted(&samples)) {
      fused_round(&f, ++round, bytes, &samples);
    }
    atomic_store_explicit(&f.stop, 1, memory_order_release);
    uv_thread_join(&thread);
    *value = gli_samples_end(&samples);
  }
  if (!good) gli_fail(error, GLOO_ERR_NO_MEMORY, -1, "cannot start a thread");
  free_vectors(vectors, 4);
  return good;
}

/* Takes the better of both kinds of stores, because a limit is the best that is
 * possible. */
bool gli_limit_fused_add(uint64_t bytes, const gli_limit_effort *effort,
                         double *value, gloo_error *error) {
  double plain, bypassing;
  if (!measure_fused(false, bytes, effort, &plain, error)) return false;
  if (!measure_fused(true, bytes, effort, &bypassing, error)) return false;
  *value = plain > bypassing ? plain : bypassing;
  return true;
}

bool gli_limit_fused_allreduce(uint64_t bytes, const gli_limit_effort *effort,
                               double *value, gloo_error *error) {
  double gigabytes_per_s;
  if (!gli_limit_fused_add(bytes, effort, &gigabytes_per_s, error)) {
    return false;
  }
  *value = gigabytes_per_s > 0 ? (double)bytes / gigabytes_per_s / 1e3 : 0;
  return true;
}

/* ---- a flag between two threads ------------------------------------------ */

enum { FLAG_BATCH = 256 }; /* round trips per sample */

typedef struct flags {
  _Alignas(128) atomic_uint ping;
  _Alignas(128) atomic_uint pong;
  _Alignas(128) atomic_uint stop;
} flags;

static void flag_thread(void *user) {
  flags *f = user;
  for (unsigned expected = 1;; expected++) {
    unsigned tries = 0;
    while (atomic_load_explicit(&f->ping, memory_order_acquire) != expected) {
      if (atomic_load_explicit(&f->stop, memory_order_relaxed)) return;
      gli_spin(tries++);
    }
    atomic_store_explicit(&f->pong, expected, memory_order_release);
  }
}

bool gli_limit_flag(uint64_t bytes, const gli_limit_effort *effort,
                    double *value, gloo_error *error) {
  (void)bytes;
  static flags f;
  memset(&f, 0, sizeof f);
  gli_samples samples;
  uv_thread_t thread;
  bool good = gli_samples_begin(&samples, effort);
  if (good && uv_thread_create(&thread, flag_thread, &f) != 0) {
    gli_samples_end(&samples);
    good = false;
  }
  if (!good) {
    gli_fail(error, GLOO_ERR_NO_MEMORY, -1, "cannot start a thread");
    return false;
  }
  unsigned trip = 0;
  while (gli_samples_wanted(&samples)) {
    uint64_t start = uv_hrtime();
    for (int i = 0; i < FLAG_BATCH; i++) {
      atomic_store_explicit(&f.ping, ++trip, memory_order_release);
      unsigned tries = 0;
      while (atomic_load_explicit(&f.pong, memory_order_acquire) != trip) {
        gli_spin(tries++);
      }
    }
    gli_samples_add(&samples, (double)(uv_hrtime() - start) /
                                  (1e3 * (double)(2 * FLAG_BATCH)));
  }
  atomic_store_explicit(&f.stop, 1, memory_order_release);
  uv_thread_join(&thread);
  *value = gli_samples_end(&samples);
  return true;
}
