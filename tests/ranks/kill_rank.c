/* A rank that works until another one dies. */
#include "kill_rank.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "algorithms/registry.h"
#include "sanitized.h"

enum { MAX_BYTES = 4 << 20, SENDRECV_IN = 8 };

uint64_t kill_now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

unsigned kill_random(unsigned *state, unsigned below) {
  *state = *state * 1664525u + 1013904223u;
  return (unsigned)(((uint64_t)(*state >> 4) * below) >> 28);
}

/* ---- resources ----------------------------------------------------------- */

typedef struct belongings {
  int descriptors, threads, mappings;
} belongings;

/* Returns the number of entries of a directory; 0 if it does not exist. */
static int entries(const char *directory) {
  DIR *dir = opendir(directory);
  if (dir == NULL) return 0;
  int n = 0;
  while (readdir(dir) != NULL) n++;
  closedir(dir);
  return n;
}

static int mappings_of_memfd(bool tell) {
  FILE *maps = fopen("/proc/self/maps", "r");
  if (maps == NULL) return 0;
  char line[512];
  int n = 0;
  while (fgets(line, sizeof line, maps) != NULL) {
    if (strstr(line, "memfd:") == NULL) continue;
    n++;
    if (tell) fprintf(stderr, "# left: %s", line);
  }
  fclose(maps);
  return n;
}

static int threads(void) {
  return entries("/proc/self/task");
}

/* Returns the number of threads, once it has dropped to `expected` or after a
 * limit: a joined thread may remain listed for a moment. */
static int threads_in_the_end(int expected) {
  const struct timespec moment = {0, 1000000};
  for (int i = 0; i < 2000 && threads() > expected; i++)
    nanosleep(&moment, NULL);
  return threads();
}

static belongings look(int n_threads) {
  return (belongings){.descriptors = entries("/proc/self/fd"),
                      .threads = threads_in_the_end(n_threads),
                      .mappings = mappings_of_memfd(false)};
}

static void tell_descriptors(void) {
  DIR *dir = opendir("/proc/self/fd");
  for (struct dirent *d; dir != NULL && (d = readdir(dir)) != NULL;) {
    char path[300], target[200] = "";
    snprintf(path, sizeof path, "/proc/self/fd/%s", d->d_name);
    if (readlink(path, target, sizeof target - 1) > 0)
      fprintf(stderr, "# %s is %s\n", d->d_name, target);
  }
  if (dir != NULL) closedir(dir);
}

static bool more(int rank, const belongings *before, const belongings *after) {
  if (memcmp(before, after, sizeof *before) == 0) return false;
  fprintf(stderr,
          "# rank %d: descriptors %d, then %d; threads %d, then %d; shared "
          "mappings %d, then %d\n",
          rank, before->descriptors, after->descriptors, before->threads,
          after->threads, before->mappings, after->mappings);
  tell_descriptors();
  mappings_of_memfd(true);
  return true;
}

/* ---- work ---------------------------------------------------------------- */

typedef struct work {
  gloo_context *context;
  int rank, ranks;
  bool shared; /* the buffers come from gloo_alloc */
  uint8_t *in, *out;
} work;

/* Contexts: all ranks in reverse order, halves of them, and parts of the
 * halves. */
enum { CONTEXTS = 4, SPLIT_IN = 32, WINDOW_IN = 16 };

/* One block per rank, rounded up. */
enum { ROOM = MAX_BYTES + 4096 };

static uint8_t *get_buffer(const work *w) {
  void *memory;
  if (!w->shared) return calloc(1, ROOM);
  return gloo_alloc(ROOM, &memory, NULL) == GLOO_OK ? memory : NULL;
}

static void free_buffer(const work *w, uint8_t *buffer) {
  if (w->shared)
    gloo_free(buffer);
  else
    free(buffer);
}

/* Returns 4 bytes to 4 MiB, with all powers of two equally likely. */
static size_t any_bytes(unsigned *random) {
  size_t bytes = (size_t)4 << kill_random(random, 21);
  if (bytes < MAX_BYTES) bytes += kill_random(random, (unsigned)bytes);
  return bytes & ~(size_t)3;
}

/* Sends to the next rank and receives from the previous one. */
static gloo_status pass_on(const work *w, size_t count) {
  gloo_request *op;
  gloo_status status =
      gloo_send_start(w->context, w->in, count, GLOO_FLOAT32,
                      (w->rank + 1) % w->ranks, NULL, &op, NULL);
  if (status != GLOO_OK) return status;
  status = gloo_recv(w->context, w->out, count, GLOO_FLOAT32,
                     (w->rank + w->ranks - 1) % w->ranks, NULL, NULL);
  if (status == GLOO_OK)
    status = gloo_request_wait(op, GLOO_TIMEOUT_DEFAULT, NULL);
  gloo_request_destroy(op);
  return status;
}

static gloo_status collective(const work *w, const gli_algorithm *algorithm,
                              unsigned *random) {
  gloo_options o = GLOO_OPTIONS_INIT;
  if (kill_random(random, 4) > 0) o.algorithm = algorithm->name;
  size_t count = any_bytes(random) / 4, each = count / (size_t)w->ranks + 1;
  int root = (int)kill_random(random, (unsigned)w->ranks);
  bool in_place = kill_random(random, 2) == 0;
  const void *in = in_place ? GLOO_IN_PLACE : w->in;
  switch (algorithm->collective) {
    case GLI_BARRIER:
      return gloo_barrier(w->context, &o, NULL);
    case GLI_BROADCAST:
      return gloo_broadcast(w->context, in, w->out, count, GLOO_FLOAT32, root,
                            &o, NULL);
    case GLI_ALLREDUCE:
      return gloo_allreduce(w->context, in, w->out, count, GLOO_FLOAT32,
                            GLOO_MAX, &o, NULL);
    case GLI_REDUCE_SCATTER:
      return gloo_reduce_scatter(w->context, in, w->out, each, GLOO_FLOAT32,
                                 GLOO_MAX, &o, NULL);
    case GLI_ALLGATHER:
      return gloo_allgather(w->context, in, w->out, each, GLOO_FLOAT32, &o,
                            NULL);
    case GLI_ALLTOALL:
      return gloo_alltoall(w->context, w->in, w->out, each, GLOO_FLOAT32, &o,
                           NULL);
    case GLI_REDUCE:
      return gloo_reduce(w->context, in, w->out, count, GLOO_FLOAT32, GLOO_MAX,
                         root, &o, NULL);
    case GLI_GATHER:
      return gloo_gather(w->context, w->in, w->out, each, GLOO_FLOAT32, root,
                         &o, NULL);
    case GLI_SCATTER:
      return gloo_scatter(w->context, w->in, w->out, each, GLOO_FLOAT32, root,
                          &o, NULL);
    case GLI_SCAN:
      return gloo_scan(w->context, in, w->out, count, GLOO_FLOAT32, GLOO_MAX,
                       &o, NULL);
    case GLI_EXSCAN:
      return gloo_exscan(w->context, in, w->out, count, GLOO_FLOAT32, GLOO_MAX,
                         &o, NULL);
    default: /* skipped: v variants use the same algorithms, or messages */
      return GLOO_OK;
  }
}

static gloo_status split(const work *w, int color, int key, work *part) {
  *part = *w;
  part->context = NULL;
  gloo_status status =
      gloo_context_split(w->context, color, key, NULL, &part->context, NULL);
  if (status != GLOO_OK) return status;
  part->rank = gloo_context_rank(part->context);
  part->ranks = gloo_context_size(part->context);
  return GLOO_OK;
}

static gloo_status make_groups(work all[CONTEXTS]) {
  const work *w = &all[0];
  gloo_status status = split(w, 0, -w->rank, &all[1]);
  if (status == GLOO_OK) status = split(w, 2 * w->rank / w->ranks, 0, &all[2]);
  if (status == GLOO_OK) status = split(&all[2], w->rank % 2, 0, &all[3]);
  return status;
}

static gloo_status make_and_destroy(const work *w) {
  work part;
  gloo_status status = split(w, w->rank % 2, 0, &part);
  if (status == GLOO_OK) gloo_context_destroy(part.context);
  return status;
}

static gloo_status flush_by_request(gloo_window *window) {
  gloo_request *request;
  gloo_status status = gloo_window_flush_all_start(window, &request, NULL);
  if (status != GLOO_OK) return status;
  status = gloo_request_wait(request, 0, NULL);
  gloo_request_destroy(request);
  return status;
}

/* Transfers bytes to and from the next rank's window, and a word of rank 0's;
 * waits for the signal of the rank before, in one of two ways for a flush. */
static gloo_status use_window(const work *w, unsigned *random) {
  gloo_window *window;
  size_t bytes = any_bytes(random);
  bool own = kill_random(random, 2) == 0;
  void *memory = own ? NULL : w->in;
  gloo_status status =
      gloo_window_create(w->context, memory, ROOM, NULL, &window, NULL);
  if (status != GLOO_OK) return status;
  int next = (w->rank + 1) % w->ranks;
  for (int i = 0; i < 4 && status == GLOO_OK; i++) {
    status = gloo_window_put_signal(window, next, 64, w->out, bytes, 8,
                                    GLOO_SIGNAL_SET, (uint64_t)i + 1, NULL);
    if (status == GLOO_OK)
      status = gloo_window_fetch_add(window, 0, 0, 1, NULL, NULL);
    if (status == GLOO_OK)
      status = gloo_window_wait_until(window, 8, GLOO_COMPARE_EQ,
                                      (uint64_t)i + 1, 0, NULL, NULL);
    if (status == GLOO_OK && i % 2 == 0)
      status = gloo_window_flush_all(window, NULL);
    else if (status == GLOO_OK)
      status = flush_by_request(window);
    if (status == GLOO_OK)
      status = gloo_window_get(window, next, 64, w->out, bytes, NULL);
    if (status == GLOO_OK) status = gloo_window_fence(window, NULL);
  }
  gloo_status end = gloo_window_destroy(window, NULL);
  return status != GLOO_OK ? status : end;
}

/* Works until a call fails and returns its status. All ranks draw the same
 * sequence, although ranks outside a group do not take part in its calls. */
static gloo_status work_on(const work all[CONTEXTS], unsigned random) {
  for (;;) {
    gloo_status status;
    const work *w = &all[kill_random(&random, CONTEXTS)];
    if (kill_random(&random, SPLIT_IN) == 0) {
      status = make_and_destroy(w);
    } else if (kill_random(&random, WINDOW_IN) == 0) {
      status = use_window(w, &random);
    } else if (kill_random(&random, SENDRECV_IN) == 0) {
      status = pass_on(w, any_bytes(&random) / 4);
    } else {
      unsigned pick = kill_random(&random, (unsigned)gli_algorithm_count);
      status = collective(w, &gli_algorithms[pick], &random);
    }
    if (status != GLOO_OK) return status;
  }
}

/* ---- the rank ------------------------------------------------------------ */

static void say(int notes, const kill_note *note) {
  if (write(notes, note, sizeof *note) != (ssize_t)sizeof *note) _exit(3);
}

static void work_until_the_end(const kill_plan *plan, const work *all,
                               int notes, kill_note *note) {
  say(notes, note);
  note->status = work_on(all, plan->seed);
  note->at_ns = kill_now_ns();
  gloo_error error;
  gloo_status cause = gloo_context_error(all[0].context, &error);
  /* The failure may be detected between two calls. */
  if (note->status == GLOO_ERR_POISONED) note->status = cause;
  note->named = error.rank;
  gloo_error later = {.status = GLOO_OK};
  gloo_options o = GLOO_OPTIONS_INIT;
  if (gloo_barrier(all[0].context, &o, &later) != GLOO_ERR_POISONED ||
      later.cause != cause) {
    note->status = GLOO_ERR_INTERNAL; /* later calls hide the cause */
  }
  snprintf(note->text, sizeof note->text, "%.*s", (int)sizeof note->text - 1,
           error.message);
}

int kill_rank(const kill_plan *plan, int rank, int notes) {
  kill_note note = {.word = KILL_READY, .rank = rank, .named = -1};
  gloo_error error;
  gloo_store *store;
  gloo_device *device;
  gloo_store_file_options f = GLOO_STORE_FILE_OPTIONS_INIT;
  f.directory = plan->directory;
  gloo_context_options c = GLOO_CONTEXT_OPTIONS_INIT;
  c.timeout_ns = plan->no_deadlines ? -1 : INT64_C(20000000000);
  gloo_device_options d = GLOO_DEVICE_OPTIONS_INIT;
  d.transport = plan->transport;
  work w = {.rank = rank, .ranks = plan->ranks};
  /* Most jobs use shared buffers, some on all ranks but one, some on none. */
  unsigned choice = plan->seed ^ 0x9e3779b9u;
  unsigned which = kill_random(&choice, 8);
  w.shared = which > 2 || (which == 2 && rank != 1);
  /* A sanitizer starts its own thread with the first thread of the program. */
  int n_threads = threads() + SANITIZED_THREADS;
  /* The first event loop opens a few descriptors that later ones reuse. */
  if (gloo_device_create(&d, &device, &error) != GLOO_OK) goto failed;
  gloo_device_destroy(device);
  belongings before = look(n_threads);
  w.in = get_buffer(&w);
  w.out = get_buffer(&w);
  if (w.in == NULL || w.out == NULL) return 1;
  if (gloo_store_file_create(&f, &store, &error) != GLOO_OK) goto failed;
  if (gloo_device_create(&d, &device, &error) != GLOO_OK) goto failed;
  if (gloo_context_create(rank, plan->ranks, store, device, &c, &w.context,
                          &error) != GLOO_OK)
    goto failed;
  work all[CONTEXTS] = {w};
  if (make_groups(all) != GLOO_OK) {
    gloo_context_error(w.context, &error);
    goto failed;
  }
  work_until_the_end(plan, all, notes, &note);
  unsigned first = kill_random(&choice, CONTEXTS);
  for (unsigned i = 0; i < CONTEXTS; i++) {
    gloo_context_destroy(all[(first + i) % CONTEXTS].context);
  }
  gloo_device_destroy(device);
  gloo_store_destroy(store);
  free_buffer(&w, w.in);
  free_buffer(&w, w.out);
  belongings after = look(n_threads);
  note.left_behind = more(rank, &before, &after);
  note.word = KILL_ENDED;
  say(notes, &note);
  return 0;

failed:
  fprintf(stderr, "# rank %d: %s\n", rank, error.message);
  return 1;
}
