/* `gloo bench start`: starts jobs of many ranks on this machine. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

#include "core/error.h"
#include "core/json.h"
#include "core/text.h"
#include "net/tcp_address.h"
#include "rendezvous/store/tcp/tcp_server.h"
#include "security/trust.h"
#include "tools/bench_shared.h"
#include "tools/limits.h"
#include "tools/progress.h"
#include "tools/start.h"
#include "tools/tools.h"

enum { READY_MS = 60000, END_MS = 120000, POLL_MS = 1, STACK = 256 << 10 };

static int64_t processes = 0, threads = 0, repeat = 5;
static const char *transport = NULL, *store_url = NULL;
static bool json = false, link_all = false;

static const gli_option options[] = {
    {"processes", 'n', GLI_OPTION_INTEGER, &processes, "N",
     "number of ranks, each a process (8)", 1, GLI_START_RANKS_MAX},
    {"threads", 0, GLI_OPTION_INTEGER, &threads, "N",
     "number of ranks, each a thread with its own device", 1,
     GLI_START_RANKS_MAX},
    {"repeat", 'r', GLI_OPTION_INTEGER, &repeat, "R", "starts (5)", 1, 1000},
    {"transport", 't', GLI_OPTION_TEXT, &transport, "NAME",
     "auto, shm or tcp (GLOO_TRANSPORT, or auto)", 0, 0},
    {"store", 0, GLI_OPTION_TEXT, &store_url, "URL",
     "store to use (its own TCP store, which counts requests)", 0, 0},
    {"link", 0, GLI_OPTION_FLAG, &link_all, NULL,
     "also connect every rank with every other", 0, 0},
    {"json", 0, GLI_OPTION_FLAG, &json, NULL, "print one JSON object", 0, 0},
};

static const gli_command command = {
    .name = "bench start",
    .usage = "gloo bench start [options]",
    .about =
        "Starts a job on this machine repeatedly and prints medians:\n"
        "  met      until the last rank has its context\n"
        "  passed   until the last rank has passed the barrier after that\n"
        "  split    creating a group of all ranks\n"
        "  linked   a message from each rank to each (with --link)\n"
        "  sockets, memory  of a process afterwards, median and maximum;\n"
        "           memory is anonymous and shared memory (proportional "
        "share)\n"
        "           above that before the start (Linux)\n"
        "  store    requests per rank, and bytes received and sent\n"
        "All ranks start at the same moment, when every process is already\n"
        "running.\n",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
};

/* Figures of one start, or medians of all; the first five exist for each point.
 */
enum { MS, SOCKETS, SOCKETS_MOST, MEMORY, MEMORY_MOST, OF_POINT };
enum { REQUESTS = GLI_START_POINTS * OF_POINT, BYTES_IN, BYTES_OUT, FIGURES };
static const char *const points[GLI_START_POINTS] = {"met", "passed", "split",
                                                     "linked"};
static const char *const of_store[FIGURES - REQUESTS] = {
    "store_requests", "store_bytes_in", "store_bytes_out"};

typedef struct start {
  uint32_t size;
  bool in_threads;
  gli_start_way way;
  char job[64];
  gli_start_area *area;
  size_t area_bytes;
  gli_tcp_server *server; /* NULL: another store is used */
  pid_t *children;        /* [size] 0: none, or it has ended */
  uv_thread_t *ranks;     /* [size] */
  uint32_t n_begun;
} start;

/* ---- the store ----------------------------------------------------------- */

/* Starts the server, after the processes have been forked, because it has a
 * thread. */
static bool serve(start *s) {
  gloo_error error;
  if (store_url != NULL) {
    snprintf(s->area->store, sizeof s->area->store, "%s", store_url);
    return true;
  }
  gloo_store_tcp_options o = GLOO_STORE_TCP_OPTIONS_INIT;
  gli_trust trust;
  o.host = "127.0.0.1";
  o.job = "";
  gloo_status status = gli_trust_read(NULL, 0, &trust, &error);
  if (status == GLOO_OK)
    status = gli_tcp_server_create(&o, &trust, NULL, &s->server, &error);
  if (status != GLOO_OK) {
    fprintf(stderr, "gloo bench start: %s\n", error.message);
    return false;
  }
  snprintf(s->area->store, sizeof s->area->store, "tcp://%s",
           gli_tcp_address_name(gli_tcp_server_address(s->server)).text);
  return true;
}

/* ---- ranks --------------------------------------------------------------- */

static void end_children(const start *s) {
  for (uint32_t i = 0; i < s->n_begun && !s->in_threads; i++)
    if (s->children[i] > 0) kill(s->children[i], SIGKILL);
}

static void wait_for_ranks(start *s) {
  for (uint32_t i = 0; i < s->n_begun; i++) {
    if (s->in_threads)
      uv_thread_join(&s->ranks[i]);
    else if (s->children[i] > 0)
      waitpid(s->children[i], NULL, 0);
  }
}

typedef struct rank_start {
  const start *s;
  uint32_t rank;
} rank_start;

static void run_thread(void *argument) {
  rank_start r = *(rank_start *)argument;
  free(argument);
  gli_start_thread(&r.s->way, r.s->area, r.rank);
}

static bool begin_rank(start *s, uint32_t rank) {
  if (s->in_threads) {
    uv_thread_options_t o = {.flags = UV_THREAD_HAS_STACK_SIZE,
                             .stack_size = STACK};
    rank_start *r = malloc(sizeof *r);
    if (r == NULL) return false;
    *r = (rank_start){s, rank};
    if (uv_thread_create_ex(&s->ranks[rank], &o, run_thread, r) == 0)
      return true;
    free(r);
    return false;
  }
  pid_t pid = fork();
  if (pid == 0) {
    gli_start_process(&s->way, s->area, rank);
    _exit(0);
  }
  s->children[rank] = pid;
  return pid > 0;
}

/* Returns true if a process has ended without reaching its last point. Asks for
 * any child, because a call for each takes time from the ranks. */
static bool ended_early(start *s) {
  bool early = false;
  pid_t ended;
  while (!s->in_threads && (ended = waitpid(-1, NULL, WNOHANG)) > 0) {
    for (uint32_t i = 0; i < s->n_begun; i++) {
      if (s->children[i] != ended) continue;
      const gli_start_rank *rank = &s->area->ranks[i];
      s->children[i] = 0;
      early = early ||
              (rank->at_ns[s->way.last] == 0 && rank->error.status == GLOO_OK);
    }
  }
  return early;
}

/* Waits until `count` has reached all ranks. Returns false early if a process
 * has ended without reaching its last point. */
static bool await_count(start *s, const atomic_uint *count, int64_t most_ms) {
  for (int64_t ms = 0; atomic_load(count) < s->size; ms += POLL_MS) {
    if (ms > most_ms) return false;
    uv_sleep(POLL_MS);
    if (ended_early(s)) return false;
  }
  return true;
}

/* ---- one start ----------------------------------------------------------- */

static int compare_counts(const void *a, const void *b) {
  uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return (x > y) - (x < y);
}

/* Computes the median of `n` counts, and the largest. */
static void middle_and_most(uint32_t *counts, uint32_t n, double *figures) {
  uint32_t middle = n / 2;
  qsort(counts, n, sizeof *counts, compare_counts);
  figures[0] = counts[middle];
  figures[1] = counts[n - 1];
}

/* Returns the time from the last rank's departure to the last rank's arrival.
 */
static double walked_ms(const start *s, gli_start_point point,
                        uint64_t began_ns) {
  uint64_t from = point == GLI_START_MET ? began_ns : 0, at = 0;
  for (uint32_t i = 0; i < s->size; i++) {
    const gli_start_rank *r = &s->area->ranks[i];
    if (r->from_ns[point] > from) from = r->from_ns[point];
    if (r->at_ns[point] > at) at = r->at_ns[point];
  }
  return at > from ? (double)(at - from) / 1e6 : 0;
}

static void take_figures(const start *s, uint64_t began_ns, uint32_t *counts,
                         double figures[FIGURES]) {
  const gli_start_rank *ranks = s->area->ranks;
  for (gli_start_point p = GLI_START_MET; p <= s->way.last; p++) {
    double *f = figures + p * OF_POINT;
    f[MS] = walked_ms(s, p, began_ns);
    for (uint32_t i = 0; i < s->size; i++) counts[i] = ranks[i].sockets[p];
    middle_and_most(counts, s->size, &f[SOCKETS]);
    for (uint32_t i = 0; i < s->size; i++) counts[i] = ranks[i].memory_kib[p];
    middle_and_most(counts, s->size, &f[MEMORY]);
  }
  figures[GLI_START_PASSED * OF_POINT + MS] +=
      figures[GLI_START_MET * OF_POINT + MS];
  if (s->server == NULL) return;
  gli_tcp_served served = gli_tcp_server_served(s->server);
  figures[REQUESTS] = (double)served.requests / s->size;
  figures[BYTES_IN] = (double)served.bytes_in / s->size;
  figures[BYTES_OUT] = (double)served.bytes_out / s->size;
}

static bool report_failures(const start *s) {
  for (uint32_t i = 0; i < s->size; i++) {
    const gloo_error *e = &s->area->ranks[i].error;
    if (e->status == GLOO_OK) continue;
    fprintf(stderr, "gloo bench start: rank %u: %s\n", (unsigned)i, e->message);
    return true;
  }
  return false;
}

static bool start_all(start *s, uint32_t *counts, double figures[FIGURES]) {
  for (; s->n_begun < s->size; s->n_begun++) {
    if (begin_rank(s, s->n_begun)) continue;
    fprintf(stderr, "gloo bench start: only %s can be started here\n",
            gli_count(s->n_begun, "rank").text);
    return false;
  }
  bool ready = await_count(s, &s->area->settled, READY_MS);
  if (ready && !serve(s)) return false;
  uint64_t began_ns = uv_hrtime();
  atomic_store(&s->area->go, 1);
  bool ended = ready && await_count(s, &s->area->counted[s->way.last], END_MS);
  if (report_failures(s)) return false;
  if (!ended) {
    fprintf(stderr, "gloo bench start: not all ranks finished\n");
    return false;
  }
  take_figures(s, began_ns, counts, figures);
  return true;
}

/* Runs one start, with new shared memory. */
static bool start_once(start *s, int64_t round, double figures[FIGURES]) {
  gli_shared_key key;
  uint32_t *counts = calloc(s->size, sizeof *counts);
  snprintf(s->job, sizeof s->job, "bench-start/%ld/%" PRId64 "/",
           (long)getpid(), round);
  s->way.job = s->job;
  s->n_begun = 0;
  s->server = NULL;
  s->area = gli_shared_create(s->area_bytes, &key);
  bool ok = counts != NULL && s->area != NULL;
  if (!ok) fprintf(stderr, "gloo bench start: out of shared memory\n");
  if (ok && !start_all(s, counts, figures)) {
    ok = false;
    atomic_store(&s->area->go, 1); /* waiting threads go on, and fail */
    end_children(s);
  }
  if (s->area != NULL) {
    wait_for_ranks(s);
    gli_shared_close_key(&key);
    gli_shared_unmap(s->area, s->area_bytes);
  }
  if (s->server != NULL) gli_tcp_server_destroy(s->server);
  free(counts);
  return ok;
}

/* ---- the command --------------------------------------------------------- */

static void print_point_json(gli_json *out, const start *s,
                             gli_start_point point, const double *f) {
  static const char *const what[OF_POINT] = {"ms", "sockets", "sockets_most",
                                             "memory_kib", "memory_kib_most"};
  for (int i = 0; i < OF_POINT; i++) {
    char name[64];
    if (i > MS && s->in_threads) continue;
    snprintf(name, sizeof name, "%s_%s", points[point], what[i]);
    gli_json_number(out, name, f[i]);
  }
}

static void print_json(const start *s, const double figures[FIGURES]) {
  gli_json out;
  gli_json_open(&out, stdout);
  gli_json_text(&out, "bench", "start");
  gli_json_text(&out, "ranks", s->in_threads ? "threads" : "processes");
  gli_json_integer(&out, "size", s->size);
  gli_json_integer(&out, "starts", (uint64_t)repeat);
  for (gli_start_point p = GLI_START_MET; p <= s->way.last; p++)
    print_point_json(&out, s, p, figures + p * OF_POINT);
  for (int i = REQUESTS; i < FIGURES && store_url == NULL; i++)
    gli_json_number(&out, of_store[i - REQUESTS], figures[i]);
  gli_json_close(&out);
}

static void print_text(const start *s, const double *figures) {
  printf("%s, %s\n",
         gli_count(s->size, s->in_threads ? "thread" : "process").text,
         gli_count((uint64_t)repeat, "start").text);
  for (gli_start_point p = GLI_START_MET; p <= s->way.last; p++) {
    const double *f = figures + p * OF_POINT;
    printf("%-8s %10.1f ms", points[p], f[MS]);
    if (!s->in_threads)
      printf("; sockets %.0f, %.0f at most; memory %.0f KiB, %.0f at most",
             f[SOCKETS], f[SOCKETS_MOST], f[MEMORY], f[MEMORY_MOST]);
    printf("\n");
  }
  if (store_url == NULL)
    printf("store    %10.1f requests per rank, %.0f bytes in, %.0f out\n",
           figures[REQUESTS], figures[BYTES_IN], figures[BYTES_OUT]);
}

/* Raises the limit on descriptors, which each rank needs; threads share this
 * process's. */
static void raise_limit(void) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  (void)setrlimit(RLIMIT_NOFILE, &limit);
}

static bool run_all(start *s) {
  double figures[FIGURES] = {0};
  gli_samples samples[FIGURES];
  const gli_limit_effort effort = {0, 1};
  bool ok = true;
  gli_progress_begin("gloo bench start", (uint64_t)repeat);
  for (int i = 0; i < FIGURES; i++)
    ok = gli_samples_begin(&samples[i], &effort) && ok;
  for (int64_t round = 0; ok && round < repeat; round++) {
    double once[FIGURES] = {0};
    ok = start_once(s, round, once);
    gli_progress_step();
    for (int i = 0; ok && i < FIGURES; i++)
      gli_samples_add(&samples[i], once[i]);
  }
  gli_progress_end();
  for (int i = 0; i < FIGURES; i++) figures[i] = gli_samples_end(&samples[i]);
  if (!ok) return false;
  if (json)
    print_json(s, figures);
  else
    print_text(s, figures);
  return true;
}

int gli_bench_start(int argc, char **argv) {
  gli_parse parsed = gli_options_parse(&command, argc, argv, NULL);
  if (parsed == GLI_PARSE_HELP) return GLI_EXIT_OK;
  if (parsed == GLI_PARSE_BAD) return GLI_EXIT_USAGE;
  if (processes > 0 && threads > 0)
    return gli_usage_error(&command, "use either --processes or --threads");
  if (store_url != NULL &&
      strlen(store_url) >= sizeof((gli_start_area *)0)->store)
    return gli_usage_error(&command, "option --store: the URL is too long");
  start s = {.in_threads = threads > 0, .way = {.transport = transport}};
  s.way.last = link_all ? GLI_START_LINKED : GLI_START_SPLIT;
  if (processes == 0) processes = 8;
  s.size = s.way.size = (uint32_t)(threads > 0 ? threads : processes);
  s.area_bytes = sizeof *s.area + s.size * sizeof s.area->ranks[0];
  s.children = calloc(s.size, sizeof *s.children);
  s.ranks = calloc(s.size, sizeof *s.ranks);
  raise_limit();
  bool ok = s.children != NULL && s.ranks != NULL;
  if (!ok) fprintf(stderr, "gloo bench start: out of memory\n");
  ok = ok && run_all(&s);
  free(s.children);
  free(s.ranks);
  return ok ? GLI_EXIT_OK : GLI_EXIT_FAILED;
}
