/* Streams: one thread each, which executes the queued work in order. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "entry.h"

typedef struct work {
  void (*host)(void *user); /* called with `user`; NULL: no call */
  void *user;
  void *to; /* destination of a copy; NULL: no copy */
  const void *from;
  size_t bytes;
  cu_event event;         /* event to mark as reached; NULL: none */
  uint64_t record;        /* its number */
  cu_event awaited;       /* NULL: none */
  _Atomic uint32_t *word; /* word to set to `value`; NULL: none */
  uint32_t value;
  struct work *next;
} work;

/* An event. It counts as reached if it was never recorded. */
struct CUevent_st {
  atomic_uint_fast64_t recorded, reached;
  cu_context context; /* current one when it was made */
};

struct CUstream_st {
  cu_context context;
  unsigned made; /* the context's, when the stream was made */
  pthread_t thread;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  work *first, *last;
  unsigned long pending; /* number of pieces of work, also the running one */
  bool busy, stop;
  atomic_bool capturing;
  uint64_t random;
  unsigned long number;
  struct CUstream_st *next; /* in `streams` */
};

/* All streams, for calls that wait for a whole device. */
static pthread_mutex_t streams_lock = PTHREAD_MUTEX_INITIALIZER;
static cu_stream streams;
static unsigned long streams_made;

enum { MOST_LANES = 32 };
static pthread_mutex_t lanes[MOST_LANES];
static pthread_once_t lanes_once = PTHREAD_ONCE_INIT;
static void lanes_make(void) {
  for (int i = 0; i < MOST_LANES; i++) pthread_mutex_init(&lanes[i], NULL);
}

static atomic_int blocked; /* calls that wait for a stream or a device */

/* ---- the thread ---------------------------------------------------------- */

static void nap(uint64_t ns) {
  struct timespec t = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)};
  while (nanosleep(&t, &t) != 0) continue;
}

static uint64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* Sleeps up to 300 us before a quarter of all work items. */
static void delay(cu_stream s) {
  if (s->random == 0) return;
  s->random =
      s->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  uint64_t drawn = s->random >> 33;
  if (drawn % 4 == 0) nap(drawn / 4 % 300000);
}

static void copy_slowly(const work *w, unsigned long mbps) {
  uint64_t began = now_ns();
  memcpy(w->to, w->from, w->bytes);
  if (mbps == 0) return;
  uint64_t takes = w->bytes * 1000 / mbps, took = now_ns() - began;
  if (took < takes) nap(takes - took);
}

/* Does a piece of work. Copies and waits for words occupy the lane, because
 * drivers let streams share a channel, where a waiting stream stops the others.
 * Waits for events do not, because an event precedes them in the channel. */
static void do_work(cu_stream s, const work *w, unsigned long mbps) {
  if (w->host != NULL) w->host(w->user);
  while (w->awaited != NULL && atomic_load(&w->awaited->reached) < w->record)
    nap(20000);
  unsigned long n_lanes = standin_number("STANDIN_LANES", 0);
  if (n_lanes > MOST_LANES) n_lanes = MOST_LANES;
  bool on_device = n_lanes > 0 && (w->to != NULL || w->word != NULL);
  pthread_mutex_t *lane = on_device ? &lanes[s->number % n_lanes] : NULL;
  if (on_device) pthread_mutex_lock(lane);
  if (w->to != NULL) copy_slowly(w, mbps);
  while (w->word != NULL && (int32_t)(atomic_load(w->word) - w->value) < 0)
    nap(20000);
  if (on_device) pthread_mutex_unlock(lane);
  if (w->event != NULL) atomic_store(&w->event->reached, w->record);
}

static void *stream_main(void *argument) {
  cu_stream s = argument;
  unsigned long mbps = standin_number("STANDIN_MBPS", 0);
  pthread_mutex_lock(&s->lock);
  while (!s->stop || s->first != NULL) {
    work *w = s->first;
    if (w == NULL) {
      pthread_cond_wait(&s->changed, &s->lock);
      continue;
    }
    s->first = w->next;
    s->busy = true;
    pthread_mutex_unlock(&s->lock);
    delay(s);
    do_work(s, w, mbps);
    free(w);
    pthread_mutex_lock(&s->lock);
    s->busy = false;
    s->pending--;
    pthread_cond_broadcast(&s->changed);
  }
  pthread_mutex_unlock(&s->lock);
  return NULL;
}

cu_stream standin_stream_new(cu_context context) {
  unsigned long seed = standin_number("STANDIN_SEED", 1);
  cu_stream s = calloc(1, sizeof *s);
  s->context = context;
  s->made = context->made;
  pthread_once(&lanes_once, lanes_make);
  pthread_mutex_init(&s->lock, NULL);
  pthread_cond_init(&s->changed, NULL);
  pthread_mutex_lock(&streams_lock);
  s->number = streams_made++;
  s->random = seed == 0 ? 0 : seed * 1000003 + s->number * 7919 + 1;
  s->next = streams;
  streams = s;
  pthread_mutex_unlock(&streams_lock);
  if (pthread_create(&s->thread, NULL, stream_main, s) != 0) abort();
  return s;
}

void standin_stream_end(cu_stream s) {
  pthread_mutex_lock(&streams_lock);
  cu_stream *at = &streams;
  while (*at != s) at = &(*at)->next;
  *at = s->next;
  pthread_mutex_unlock(&streams_lock);
  pthread_mutex_lock(&s->lock);
  s->stop = true;
  pthread_cond_broadcast(&s->changed);
  pthread_mutex_unlock(&s->lock);
  pthread_join(s->thread, NULL);
  pthread_mutex_destroy(&s->lock);
  pthread_cond_destroy(&s->changed);
  free(s);
}

static bool is_idle(const struct CUctx_st *context) {
  bool idle = true;
  pthread_mutex_lock(&streams_lock);
  for (cu_stream s = streams; s != NULL; s = s->next) {
    pthread_mutex_lock(&s->lock);
    if (s->context == context && s->pending > 0) idle = false;
    pthread_mutex_unlock(&s->lock);
  }
  pthread_mutex_unlock(&streams_lock);
  return idle;
}

void standin_await_device(void) {
  atomic_fetch_add(&blocked, 1);
  while (!is_idle(standin_current())) nap(20000);
  atomic_fetch_sub(&blocked, 1);
}

int standin_blocked(void) {
  return atomic_load(&blocked);
}

/* Returns the stream, or the current context's for a default stream. */
static cu_stream stream_of(cu_stream stream) {
  if ((uintptr_t)stream > 2) return stream;
  cu_context context = standin_current();
  return context != NULL ? context->legacy : NULL;
}

static gli_gpu_result put(cu_stream stream, work w) {
  cu_stream s = stream_of(stream);
  if (s == NULL || standin_current() == NULL) return GLI_GPU_INVALID_CONTEXT;
  if (!s->context->alive || s->made != s->context->made)
    return GLI_GPU_CONTEXT_IS_DESTROYED;
  if (atomic_load(&s->capturing)) return STANDIN_CAPTURE_UNSUPPORTED;
  work *copy = malloc(sizeof *copy);
  if (copy == NULL) return GLI_GPU_OUT_OF_MEMORY;
  *copy = w;
  pthread_mutex_lock(&s->lock);
  unsigned long room = standin_number("STANDIN_QUEUE", 0);
  bool full = room > 0 && s->pending >= room;
  if (full) atomic_fetch_add(&blocked, 1);
  while (room > 0 && s->pending >= room)
    pthread_cond_wait(&s->changed, &s->lock);
  if (full) atomic_fetch_sub(&blocked, 1);
  s->pending++;
  if (s->first == NULL) {
    s->first = copy;
  } else {
    s->last->next = copy;
  }
  s->last = copy;
  pthread_cond_broadcast(&s->changed);
  pthread_mutex_unlock(&s->lock);
  return GLI_GPU_SUCCESS;
}

/* ---- entry points -------------------------------------------------------- */

gli_gpu_result cuThreadExchangeStreamCaptureMode(int *mode) {
  static _Thread_local int of_thread;
  ENTER();
  int last = of_thread;
  of_thread = *mode;
  *mode = last;
  return GLI_GPU_SUCCESS;
}

gli_gpu_result cuStreamCreate(cu_stream *stream, unsigned flags) {
  ENTER();
  (void)flags;
  if (standin_current() == NULL) return GLI_GPU_INVALID_CONTEXT;
  *stream = standin_stream_new(standin_current());
  return GLI_GPU_SUCCESS;
}

gli_gpu_result cuStreamDestroy_v2(cu_stream stream) {
  ENTER();
  standin_stream_end(stream);
  return GLI_GPU_SUCCESS;
}

gli_gpu_result cuStreamSynchronize(cu_stream stream) {
  ENTER();
  cu_stream s = stream_of(stream);
  if (s == NULL) return GLI_GPU_INVALID_CONTEXT;
  pthread_mutex_lock(&s->lock);
  while (s->first != NULL || s->busy) pthread_cond_wait(&s->changed, &s->lock);
  pthread_mutex_unlock(&s->lock);
  return GLI_GPU_SUCCESS;
}

gli_gpu_result cuStreamGetCtx(cu_stream stream, cu_context *context) {
  ENTER();
  if (standin_lacks_context()) return GLI_GPU_INVALID_CONTEXT;
  *context = stream_of(stream)->context;
  return GLI_GPU_SUCCESS;
}

gli_gpu_result cuStreamIsCapturing(cu_stream stream, int *status) {
  ENTER();
  if (standin_lacks_context()) return GLI_GPU_INVALID_CONTEXT;
  *status = atomic_load(&stream_of(stream)->capturing);
  return GLI_GPU_SUCCESS;
}

void standin_capture(cu_stream stream, int on) {
  atomic_store(&stream->capturing, on != 0);
}

gli_gpu_result cuMemcpyAsync(cu_address to, cu_address from, size_t bytes,
                             cu_stream stream) {
  ENTER();
  work w = {.to = standin_bytes(to, bytes),
            .from = standin_bytes(from, bytes),
            .bytes = bytes};
  cu_stream s = stream_of(stream);
  if (w.to == NULL || w.from == NULL) return GLI_GPU_INVALID_VALUE;
  if (s != NULL && !(standin_may_access(to, s->context->device) &&
                     standin_may_access(from, s->context->device)))
    return GLI_GPU_INVALID_VALUE;
  gli_gpu_result result = put(stream, w);
  bool pageable = !standin_is_known(to) || !standin_is_known(from);
  if (result == GLI_GPU_SUCCESS && pageable &&
      standin_number("STANDIN_PAGEABLE_SYNCS", 0))
    return cuStreamSynchronize(stream);
  return result;
}

gli_gpu_result cuLaunchHostFunc(cu_stream stream, void (*host)(void *user),
                                void *user) {
  ENTER();
  return put(stream, (work){.host = host, .user = user});
}

gli_gpu_result cuStreamWaitEvent(cu_stream stream, cu_event event,
                                 unsigned flags) {
  ENTER();
  (void)flags;
  return put(stream,
             (work){.awaited = event, .record = atomic_load(&event->recorded)});
}

gli_gpu_result cuStreamWaitValue32_v2(cu_stream stream, cu_address address,
                                      uint32_t value, unsigned flags) {
  ENTER();
  if (flags != GLI_GPU_WAIT_GEQ) return GLI_GPU_INVALID_VALUE;
  return put(stream, (work){.word = (_Atomic uint32_t *)(uintptr_t)address,
                            .value = value});
}

gli_gpu_result cuEventCreate(cu_event *event, unsigned flags) {
  ENTER();
  (void)flags;
  if (standin_current() == NULL) return GLI_GPU_INVALID_CONTEXT;
  *event = calloc(1, sizeof **event);
  if (*event == NULL) return GLI_GPU_OUT_OF_MEMORY;
  (*event)->context = standin_current();
  return GLI_GPU_SUCCESS;
}

gli_gpu_result cuEventRecord(cu_event event, cu_stream stream) {
  ENTER();
  cu_stream s = stream_of(stream);
  if (s == NULL) return GLI_GPU_INVALID_CONTEXT;
  if (event->context != s->context) return GLI_GPU_INVALID_HANDLE;
  uint64_t record = atomic_fetch_add(&event->recorded, 1) + 1;
  return put(stream, (work){.event = event, .record = record});
}

static bool is_reached(cu_event event) {
  return atomic_load(&event->reached) >= atomic_load(&event->recorded);
}

gli_gpu_result cuEventQuery(cu_event event) {
  ENTER();
  return is_reached(event) ? GLI_GPU_SUCCESS : GLI_GPU_NOT_READY;
}

gli_gpu_result cuEventSynchronize(cu_event event) {
  ENTER();
  while (!is_reached(event)) nap(20000);
  return GLI_GPU_SUCCESS;
}

gli_gpu_result cuEventDestroy_v2(cu_event event) {
  ENTER();
  free(event);
  return GLI_GPU_SUCCESS;
}
