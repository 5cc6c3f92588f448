/* Asks the CUDA driver one question about what the library assumes of it, and
 * prints a line: what, expected, seen, verdict, separated by tabs. The verdict is
 * "ok", "not" (as expected), or "-" where both answers are right. Exits with 77
 * without a device. scripts/gpu-day runs all questions, each with a time limit.
 * usage: cuda_probe QUESTION | --list */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef int result;
typedef unsigned long long address;
enum { NOT_READY = 600, PAGE = 65536, LONG = 64 << 20 };

/* The time after which a call blocks: CUDA_PROBE_WAITS_MS. */
static long waits_ms = 1500;

static struct {
  result (*init)(unsigned flags);
  result (*count)(int *count);
  result (*retain)(void **context, int device);
  result (*push)(void *context);
  result (*pop)(void **context);
  result (*alloc)(address *memory, size_t bytes);
  result (*alloc_pooled)(address *memory, size_t bytes, void *stream);
  result (*alloc_managed)(address *memory, size_t bytes, unsigned flags);
  result (*free)(address memory);
  result (*host_register)(void *memory, size_t bytes, unsigned flags);
  result (*host_unregister)(void *memory);
  result (*host_alloc)(void **memory, size_t bytes, unsigned flags);
  result (*host_free)(void *memory);
  result (*host_pointer)(address *pointer, void *memory, unsigned flags);
  result (*attributes)(unsigned n, const int *which, void **data, address at);
  result (*stream_create)(void **stream, unsigned flags);
  result (*stream_sync)(void *stream);
  result (*stream_context)(void *stream, void **context);
  result (*stream_capturing)(void *stream, int *status);
  result (*wait_value)(void *stream, address at, uint32_t value, unsigned how);
  result (*call_host)(void *stream, void (*function)(void *), void *user);
  result (*copy)(address to, address from, size_t bytes, void *stream);
  result (*event_create)(void **event, unsigned flags);
  result (*event_record)(void *event, void *stream);
  result (*event_query)(void *event);
} cu;

static const struct {
  const char *name;
  void *function;
} symbols[] = {{"cuInit", &cu.init},
               {"cuDeviceGetCount", &cu.count},
               {"cuDevicePrimaryCtxRetain", &cu.retain},
               {"cuCtxPushCurrent_v2", &cu.push},
               {"cuCtxPopCurrent_v2", &cu.pop},
               {"cuMemAlloc_v2", &cu.alloc},
               {"cuMemAllocAsync", &cu.alloc_pooled},
               {"cuMemAllocManaged", &cu.alloc_managed},
               {"cuMemFree_v2", &cu.free},
               {"cuMemHostRegister_v2", &cu.host_register},
               {"cuMemHostUnregister", &cu.host_unregister},
               {"cuMemHostAlloc", &cu.host_alloc},
               {"cuMemFreeHost", &cu.host_free},
               {"cuMemHostGetDevicePointer_v2", &cu.host_pointer},
               {"cuPointerGetAttributes", &cu.attributes},
               {"cuStreamCreate", &cu.stream_create},
               {"cuStreamSynchronize", &cu.stream_sync},
               {"cuStreamGetCtx", &cu.stream_context},
               {"cuStreamIsCapturing", &cu.stream_capturing},
               {"cuStreamWaitValue32_v2", &cu.wait_value},
               {"cuLaunchHostFunc", &cu.call_host},
               {"cuMemcpyAsync", &cu.copy},
               {"cuEventCreate", &cu.event_create},
               {"cuEventRecord", &cu.event_record},
               {"cuEventQuery", &cu.event_query}};

static void *context;
static char expected[160], seen[160];

static void expect(const char *format, ...) {
  va_list list;
  va_start(list, format);
  vsnprintf(expected, sizeof expected, format, list);
  va_end(list);
}

static void see(const char *format, ...) {
  va_list list;
  va_start(list, format);
  vsnprintf(seen, sizeof seen, format, list);
  va_end(list);
}

static void must(result r, const char *what) {
  if (r == 0) return;
  printf("%s\tworks\terror %d\tnot\n", what, r);
  exit(1);
}
#define MUST(call) must(cu.call, #call)

static const char *verdict(bool good) {
  return good ? "ok" : "not";
}

static void nap_ms(long ms) {
  struct timespec t = {ms / 1000, ms % 1000 * 1000000};
  while (nanosleep(&t, &t) != 0) continue;
}

static double now_s(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void *new_stream(void) {
  void *stream = NULL;
  MUST(stream_create(&stream, 1));
  return stream;
}

static void use_context(void) {
  MUST(retain(&context, 0));
  MUST(push(context));
}

static void leave_context(void) {
  void *left;
  MUST(pop(&left));
}

/* ---- attributes of pointers ---------------------------------------------- */

typedef struct place {
  unsigned type, managed;
  int device;
  void *context;
  result result;
} place;

static place place_of(address at) {
  static const int which[] = {2, 8, 9, 1};
  place p = {.device = -1};
  void *data[] = {&p.type, &p.managed, &p.device, &p.context};
  p.result = cu.attributes(4, which, data, at);
  return p;
}

static const char *see_place(place p, unsigned type, bool managed) {
  expect("type %u%s on device 0", type, managed ? ", managed" : "");
  see("result %d, type %u%s on device %d, context %s", p.result, p.type,
      p.managed ? ", managed" : "", p.device,
      p.context == NULL ? "NULL" : "given");
  return verdict(p.result == 0 && p.type == type &&
                 (p.managed != 0) == managed && p.device == 0);
}

static const char *host_pointer_without_context(void) {
  int local;
  place p = place_of((address)(uintptr_t)&local);
  expect("type 0, or result 1, 3, 4; the library bears 201");
  see("result %d, type %u", p.result, p.type);
  return verdict((p.result == 0 && p.type == 0) || p.result == 1 ||
                 p.result == 3 || p.result == 4 || p.result == 201);
}

static const char *device_pointer_without_context(void) {
  address at;
  use_context();
  MUST(alloc(&at, PAGE));
  leave_context();
  place p = place_of(at);
  if (p.result != 201) return see_place(p, 2, false);
  expect("type 2 on device 0; the library bears 201");
  see("result 201");
  return "ok";
}

static const char *pool_pointer(void) {
  address at;
  use_context();
  void *stream = new_stream();
  MUST(alloc_pooled(&at, PAGE, stream));
  MUST(stream_sync(stream));
  return see_place(place_of(at), 2, false);
}

static const char *managed_pointer(void) {
  address at;
  use_context();
  MUST(alloc_managed(&at, PAGE, 1));
  return see_place(place_of(at), place_of(at).type, true);
}

static const char *stream_without_context(void) {
  void *its = NULL;
  int capturing = 9;
  use_context();
  void *stream = new_stream();
  leave_context();
  result first = cu.stream_context(stream, &its);
  result second = cu.stream_capturing(stream, &capturing);
  expect("results 0, and its context; the library bears 201");
  see("results %d and %d%s", first, second,
      its == context ? ", its context" : "");
  return verdict((first == 0 && its == context && second == 0) ||
                 (first == 201 || second == 201));
}

static const char *registered_memory(void) {
  address at = 0;
  use_context();
  void *memory = aligned_alloc(PAGE, PAGE);
  result r = cu.host_register(memory, PAGE, 1 | 2);
  if (r == 0) (void)cu.host_pointer(&at, memory, 0);
  expect("result 0 at the same address; 800 or 801 on some systems");
  see("result %d%s", r, at == (address)(uintptr_t)memory ? ", same" : "");
  return verdict((r == 0 && at == (address)(uintptr_t)memory) || r == 800 ||
                 r == 801);
}

/* ---- while a stream waits in memory -------------------------------------- */

static _Atomic uint32_t *word;
static address word_at;

static void make_word(void) {
  word = aligned_alloc(PAGE, PAGE);
  atomic_init(word, 0);
  MUST(host_register((void *)word, PAGE, 1 | 2));
  MUST(host_pointer(&word_at, (void *)word, 0));
}

typedef struct job {
  result (*call)(void *user);
  void *user;
  result result;
  double seconds;
  atomic_bool done;
} job;

static void *job_main(void *argument) {
  job *j = argument;
  void *left;
  MUST(push(context));
  double began = now_s();
  j->result = j->call(j->user);
  j->seconds = now_s() - began;
  MUST(pop(&left));
  atomic_store(&j->done, true);
  return NULL;
}

/* Runs a call in a thread. Returns false if it does not end in time. */
static bool job_ends(job *j, pthread_t *thread) {
  if (pthread_create(thread, NULL, job_main, j) != 0) abort();
  for (int ms = 0; ms < waits_ms && !atomic_load(&j->done); ms++) nap_ms(1);
  return atomic_load(&j->done);
}

/* Makes the call while `streams` streams wait for a word. `relied`: the library
 * relies on its end with GLOO_STREAM_WAIT_VALUE=1. */
static const char *while_waiting(result (*call)(void *), void *user,
                                 int streams, bool relied) {
  job j = {.call = call, .user = user};
  pthread_t thread;
  void **waiting = calloc((size_t)streams, sizeof(void *));
  for (int i = 0; i < streams; i++) {
    waiting[i] = new_stream();
    MUST(wait_value(waiting[i], word_at, 1, 0));
  }
  nap_ms(20);
  bool ends = job_ends(&j, &thread);
  atomic_store(word, 1);
  pthread_join(thread, NULL);
  expect(relied ? "ends (else keep GLOO_STREAM_WAIT_VALUE off)"
                : "ends or blocks");
  see("%s, result %d after %.1f ms", ends ? "ends" : "blocks", j.result,
      1e3 * j.seconds);
  free(waiting);
  if (j.result != 0) return verdict(false);
  return relied ? verdict(ends) : "-";
}

static void *memory;
static address from, to;

static void wait_setup(void) {
  use_context();
  make_word();
  memory = aligned_alloc(PAGE, LONG);
  memset(memory, 1, LONG);
}

static result call_register(void *user) {
  return cu.host_register(user, LONG, 1 | 2);
}

static result call_unregister(void *user) {
  return cu.host_unregister(user);
}

static result call_host_alloc(void *user) {
  return cu.host_alloc(user, LONG, 1);
}

static result call_free(void *user) {
  return cu.free(*(address *)user);
}

/* Copies as the library does: in streams of its own, awaited by events. */
static result call_copies(void *user) {
  void *stream, *event;
  result r = cu.stream_create(&stream, 1);
  if (r == 0) r = cu.event_create(&event, 2);
  address host = (address)(uintptr_t)user;
  for (int i = 0; i < 16 && r == 0; i++) {
    r = cu.copy(host, from, PAGE, stream);
    if (r == 0) r = cu.copy(to, host, PAGE, stream);
  }
  if (r == 0) r = cu.event_record(event, stream);
  while (r == 0 && (r = cu.event_query(event)) == NOT_READY) {
    r = 0;
    nap_ms(1);
  }
  return r;
}

static const char *register_while_waiting(void) {
  wait_setup();
  return while_waiting(call_register, memory, 1, false);
}

static const char *unregister_while_waiting(void) {
  wait_setup();
  MUST(host_register(memory, LONG, 1 | 2));
  return while_waiting(call_unregister, memory, 1, false);
}

static const char *host_alloc_while_waiting(void) {
  void *pinned;
  wait_setup();
  return while_waiting(call_host_alloc, &pinned, 1, false);
}

static const char *free_while_waiting(void) {
  wait_setup();
  MUST(alloc(&from, LONG));
  return while_waiting(call_free, &from, 1, false);
}

static const char *copies_beside(int streams, bool pinned) {
  wait_setup();
  MUST(alloc(&from, PAGE));
  MUST(alloc(&to, PAGE));
  if (pinned) MUST(host_register(memory, LONG, 1 | 2));
  return while_waiting(call_copies, memory, streams, true);
}

static const char *copies_beside_1_waiting(void) {
  return copies_beside(1, true);
}

static const char *copies_beside_16_waiting(void) {
  return copies_beside(16, true);
}

static const char *copies_beside_64_waiting(void) {
  return copies_beside(64, true);
}

static const char *pageable_copies_beside_1_waiting(void) {
  return copies_beside(1, false);
}

/* ---- a full stream ------------------------------------------------------- */

static atomic_bool gate_is_open;

static void pass_gate(void *user) {
  (void)user;
  while (!atomic_load(&gate_is_open)) nap_ms(1);
}

static void no_work(void *user) {
  (void)user;
}

enum { MOST_WORK = 100000 };
static atomic_int put; /* pieces of work that the stream took */

static result call_fill(void *stream) {
  result r = cu.call_host(stream, pass_gate, NULL);
  for (int i = 0; i < MOST_WORK && r == 0 && !atomic_load(&gate_is_open); i++) {
    r = cu.call_host(stream, no_work, NULL);
    atomic_fetch_add(&put, 1);
  }
  return r;
}

static result call_record(void *stream) {
  void *event;
  result r = cu.event_create(&event, 2);
  return r == 0 ? cu.event_record(event, stream) : r;
}

/* Fills a stream, and makes a call of another thread meanwhile. */
static const char *beside_full_stream(result (*call)(void *), void *user,
                                      void *stream, bool relied) {
  job fill = {.call = call_fill, .user = stream};
  job j = {.call = call, .user = user};
  pthread_t filler, caller;
  bool filled = job_ends(&fill, &filler);
  int depth = atomic_load(&put);
  bool ends = job_ends(&j, &caller);
  atomic_store(&gate_is_open, true);
  pthread_join(caller, NULL);
  pthread_join(filler, NULL);
  expect(relied ? "ends" : "ends or blocks, without the device's lock");
  see("%s beside a stream of %d%s", ends ? "ends" : "blocks", depth,
      filled ? " and more" : ", which is full");
  return relied ? verdict(ends && j.result == 0) : "-";
}

static const char *copies_beside_a_full_stream(void) {
  wait_setup();
  MUST(alloc(&from, PAGE));
  MUST(alloc(&to, PAGE));
  MUST(host_register(memory, LONG, 1 | 2));
  return beside_full_stream(call_copies, memory, new_stream(), true);
}

static const char *mark_in_a_full_stream(void) {
  use_context();
  void *stream = new_stream();
  return beside_full_stream(call_record, stream, stream, false);
}

/* ---- rates --------------------------------------------------------------- */

static double copy_rate(bool out) {
  void *stream = new_stream();
  address host = (address)(uintptr_t)memory;
  double best = 0;
  for (int i = 0; i < 5; i++) {
    double began = now_s();
    MUST(copy(out ? from : host, out ? host : from, LONG, stream));
    MUST(stream_sync(stream));
    double rate = (double)LONG / (now_s() - began) / 1e9;
    if (rate > best) best = rate;
  }
  return best;
}

static const char *copies_per_second(void) {
  wait_setup();
  MUST(alloc(&from, LONG));
  MUST(host_register(memory, LONG, 1 | 2));
  double in = copy_rate(false), out = copy_rate(true);
  expect("about the rate of the bus");
  see("%.2f GB/s to the host, %.2f GB/s to the device", in, out);
  return "-";
}

/* ---- main ---------------------------------------------------------------- */

static const struct {
  const char *name;
  const char *(*ask)(void);
} questions[] = {
#define QUESTION(name) \
  { #name, name }
    QUESTION(host_pointer_without_context),
    QUESTION(device_pointer_without_context),
    QUESTION(pool_pointer),
    QUESTION(managed_pointer),
    QUESTION(stream_without_context),
    QUESTION(registered_memory),
    QUESTION(register_while_waiting),
    QUESTION(unregister_while_waiting),
    QUESTION(host_alloc_while_waiting),
    QUESTION(free_while_waiting),
    QUESTION(copies_beside_1_waiting),
    QUESTION(copies_beside_16_waiting),
    QUESTION(copies_beside_64_waiting),
    QUESTION(pageable_copies_beside_1_waiting),
    QUESTION(copies_beside_a_full_stream),
    QUESTION(mark_in_a_full_stream),
    QUESTION(copies_per_second),
};
enum { QUESTIONS = sizeof questions / sizeof questions[0] };

static int answer(int i) {
  void *library = dlopen("libcuda.so.1", RTLD_NOW);
  int devices = 0;
  const char *what = "libcuda.so.1";
  for (size_t k = 0; library != NULL && k < sizeof symbols / sizeof symbols[0];
       k++) {
    void *symbol = dlsym(library, symbols[k].name);
    if (symbol == NULL) what = symbols[k].name;
    if (symbol == NULL) library = NULL;
    if (symbol != NULL) memcpy(symbols[k].function, &symbol, sizeof symbol);
  }
  if (library == NULL || cu.init(0) != 0 || cu.count(&devices) != 0 ||
      devices == 0) {
    fprintf(stderr, "cuda_probe: no CUDA device (%s)\n",
            library == NULL ? what : "cuInit");
    return 77;
  }
  const char *said = questions[i].ask();
  printf("%s\t%s\t%s\t%s\n", questions[i].name, expected, seen, said);
  fflush(stdout);
  _exit(0); /* streams may still hold work */
}

int main(int argc, char **argv) {
  const char *text = getenv("CUDA_PROBE_WAITS_MS");
  if (text != NULL) waits_ms = atol(text);
  for (int i = 0; i < QUESTIONS && argc == 2; i++) {
    if (strcmp(argv[1], "--list") == 0) puts(questions[i].name);
    if (strcmp(argv[1], questions[i].name) == 0) return answer(i);
  }
  if (argc == 2 && strcmp(argv[1], "--list") == 0) return 0;
  fprintf(stderr, "usage: cuda_probe QUESTION | --list\n");
  return 2;
}
