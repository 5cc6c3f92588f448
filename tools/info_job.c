#include "tools/info.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "core/environment.h"
#include "engine/engine.h"
#include "gloo_c/gloo_c.h"
#include "rendezvous/join/cores.h"
#include "tools/own_memory.h"
#include "tools/tools.h"

/* Data that ranks exchange: of fixed size, without pointers. All hosts run the
 * same build. */
typedef struct place {
  char host[64], policy[48];
  gli_cores cores;
} place;

typedef struct route {
  char through[32], why[GLI_WHY_BYTES];
} route;

/* Points at which a rank reads its memory. */
enum { WITH_CONTEXT, WITH_PAIRS, WITH_GROUPS, POINTS };

/* KiB of one rank: at the start, and above that at each point. */
typedef struct memory {
  uint32_t start, added[POINTS];
} memory;

typedef struct job {
  gloo_context *context;
  int rank, ranks;
  gli_info_groups groups;
  memory memory;
  gloo_error error;
  gli_json *out;
  char **lines; /* lines of the JSON object */
  size_t n_lines;
} job;

/* ---- messages ------------------------------------------------------------ */

static bool send_bytes(job *j, int to, const void *data, size_t bytes) {
  gloo_options o = GLOO_OPTIONS_INIT;
  return gloo_send(j->context, data, bytes, GLOO_UINT8, to, &o, &j->error) ==
         GLOO_OK;
}

static bool recv_bytes(job *j, int from, void *data, size_t bytes) {
  gloo_options o = GLOO_OPTIONS_INIT;
  return gloo_recv(j->context, data, bytes, GLOO_UINT8, from, &o, &j->error) ==
         GLOO_OK;
}

/* Exchanges data with every other rank: sends out[rank] and receives in[rank].
 */
static bool with_all(job *j, const void *out, void *in, size_t bytes) {
  for (int d = 1; d < j->ranks; d++) {
    int to = (j->rank + d) % j->ranks;
    int from = (j->rank + j->ranks - d) % j->ranks;
    gloo_request *op;
    gloo_options o = GLOO_OPTIONS_INIT;
    const uint8_t *data = (const uint8_t *)out + (size_t)to * bytes;
    if (gloo_send_start(j->context, data, bytes, GLOO_UINT8, to, &o, &op,
                        &j->error) != GLOO_OK)
      return false;
    bool good =
        recv_bytes(j, from, (uint8_t *)in + (size_t)from * bytes, bytes);
    if (good && gloo_request_wait(op, GLOO_TIMEOUT_DEFAULT, NULL) != GLOO_OK) {
      gloo_context_error(j->context, &j->error);
      good = false;
    }
    gloo_request_destroy(op);
    if (!good) return false;
  }
  return true;
}

/* Terminates text from another process, and replaces control characters. */
static void tidy(char *text, size_t room) {
  text[room - 1] = '\0';
  for (; *text != '\0'; text++) {
    unsigned char c = (unsigned char)*text;
    if (c < 0x20 || c == 0x7f) *text = '?';
  }
}

/* ---- lines --------------------------------------------------------------- */

/* Prints "3", or "3-7". */
static void print_range(char text[32], int first, int last) {
  if (first == last)
    (void)snprintf(text, 32, "%d", first);
  else
    (void)snprintf(text, 32, "%d-%d", first, last);
}

static bool keep_line(job *j, const char *text) {
  char **more = realloc(j->lines, (j->n_lines + 1) * sizeof *more);
  if (more == NULL) return false;
  j->lines = more;
  j->lines[j->n_lines] = malloc(strlen(text) + 1);
  if (j->lines[j->n_lines] == NULL) return false;
  strcpy(j->lines[j->n_lines++], text);
  return true;
}

static void free_lines(job *j) {
  for (size_t i = 0; i < j->n_lines; i++) free(j->lines[i]);
  free(j->lines);
  j->lines = NULL;
  j->n_lines = 0;
}

static void put_line(job *j, const char *who, const char *what) {
  char line[512];
  if (j->out == NULL) {
    printf("  %-18s %s\n", who, what);
    return;
  }
  (void)snprintf(line, sizeof line, "%s: %s", who, what);
  if (!keep_line(j, line)) fprintf(stderr, "gloo info: out of memory\n");
}

static void put_heading(job *j, const char *key) {
  if (j->out == NULL) printf("%s\n", key);
}

static void put_end(job *j, const char *key) {
  if (j->out == NULL) return;
  gli_json_list(j->out, key, (const char *const *)j->lines, j->n_lines);
  free_lines(j);
}

/* ---- where ranks are ----------------------------------------------------- */

static place own_place(const job *j) {
  place here;
  memset(&here, 0, sizeof here);
  gli_cores_here(&here.cores);
  size_t bytes = sizeof here.host;
  if (uv_os_gethostname(here.host, &bytes) != 0) strcpy(here.host, "unknown");
  const gloo_device *device = gli_context_device(j->context);
  (void)snprintf(here.policy, sizeof here.policy, "%s",
                 gli_device_wait_policy(device));
  return here;
}

static bool same_place(const place *a, const place *b) {
  return gli_cores_equal(&a->cores, &b->cores) &&
         strcmp(a->host, b->host) == 0 && strcmp(a->policy, b->policy) == 0;
}

static void print_places(job *j, const place *places, gli_cores *cores) {
  for (int i = 0; i < j->ranks; i++) cores[i] = places[i].cores;
  put_heading(j, "ranks");
  for (int first = 0, last; first < j->ranks; first = last + 1) {
    const place *p = &places[first];
    last = first;
    while (last + 1 < j->ranks && same_place(p, &places[last + 1])) last++;
    gli_sharing s =
        gli_cores_shared(cores, (uint32_t)j->ranks, (uint32_t)first);
    char who[32], what[448];
    print_range(who, first, last);
    (void)snprintf(what, sizeof what, "on %s, with %s and %s; waiting: %s",
                   p->host, gli_count(s.ranks, "rank").text,
                   gli_count(s.cores, "core").text, p->policy);
    put_line(j, who, what);
  }
  put_end(j, "ranks");
}

static bool show_places(job *j) {
  place own = own_place(j);
  if (j->rank > 0) return send_bytes(j, 0, &own, sizeof own);
  place *places = calloc((size_t)j->ranks, sizeof *places);
  gli_cores *cores = calloc((size_t)j->ranks, sizeof *cores);
  bool good = places != NULL && cores != NULL;
  if (good) places[0] = own;
  for (int i = 1; good && i < j->ranks; i++) {
    good = recv_bytes(j, i, &places[i], sizeof places[i]);
    tidy(places[i].host, sizeof places[i].host);
    tidy(places[i].policy, sizeof places[i].policy);
  }
  if (good) print_places(j, places, cores);
  free(places);
  free(cores);
  return good;
}

/* ---- what pairs use ------------------------------------------------------ */

static void own_routes(const job *j, route *routes) {
  for (int peer = 0; peer < j->ranks; peer++) {
    const char *through =
        gli_context_route(j->context, (uint32_t)peer, routes[peer].why);
    (void)snprintf(routes[peer].through, sizeof routes[peer].through, "%s",
                   through == NULL ? "not settled" : through);
  }
}

/* Returns true if `why` has more than a reference to the other rank. */
static bool tells(const char *why) {
  return why[0] != '\0' && strncmp(why, "the other rank ", 15) != 0;
}

/* Takes over the peer's reason if only the peer knows one. */
static void complete(route *own, const route *theirs, int peer) {
  char why[GLI_WHY_BYTES];
  if (tells(own->why) || !tells(theirs->why)) return;
  (void)snprintf(why, sizeof why, "rank %d says: %.100s", peer, theirs->why);
  memcpy(own->why, why, sizeof why);
}

static void print_routes(job *j, int rank, const route *routes) {
  for (int first = rank + 1, last; first < j->ranks; first = last + 1) {
    const route *r = &routes[first];
    last = first;
    while (last + 1 < j->ranks && strcmp(r->why, r[1].why) == 0 &&
           strcmp(r->through, r[1].through) == 0)
      last++, r++;
    char peers[32], who[64], what[256];
    print_range(peers, first, last);
    (void)snprintf(who, sizeof who, "%d with %s", rank, peers);
    (void)snprintf(what, sizeof what, "%s%s%s", r->through,
                   r->why[0] != '\0' ? ", not shared memory: " : "", r->why);
    put_line(j, who, what);
  }
}

/* Prints the rows of all ranks on rank 0 as they arrive: a pair is in the row
 * of its lower rank. */
static bool gather_routes(job *j, route *routes, route *other) {
  if (j->rank > 0)
    return send_bytes(j, 0, routes, (size_t)j->ranks * sizeof *routes);
  put_heading(j, "pairs");
  print_routes(j, 0, routes);
  for (int rank = 1; rank < j->ranks; rank++) {
    if (!recv_bytes(j, rank, other, (size_t)j->ranks * sizeof *other))
      return false;
    for (int i = 0; i < j->ranks; i++) {
      tidy(other[i].through, sizeof other[i].through);
      tidy(other[i].why, sizeof other[i].why);
    }
    print_routes(j, rank, other);
  }
  put_end(j, "pairs");
  return true;
}

static bool show_routes(job *j) {
  route *own = calloc((size_t)j->ranks, sizeof *own);
  route *theirs = calloc((size_t)j->ranks, sizeof *theirs);
  /* Pairs connect with their first message. Later messages use the route that
   * was negotiated. */
  bool good = own != NULL && theirs != NULL;
  good = good && with_all(j, own, theirs, 1);
  good = good && with_all(j, own, theirs, 1);
  if (good) {
    own_routes(j, own);
    good = with_all(j, own, theirs, sizeof *own);
  }
  for (int i = 0; good && i < j->ranks; i++) {
    tidy(theirs[i].why, sizeof theirs[i].why);
    if (i != j->rank) complete(&own[i], &theirs[i], i);
  }
  good = good && gather_routes(j, own, theirs);
  free(own);
  free(theirs);
  return good;
}

/* ---- memory -------------------------------------------------------------- */

/* Reads the memory while all ranks are at the same point: ranks share pages. */
static bool read_memory(job *j, int point) {
  if (gloo_barrier(j->context, NULL, &j->error) != GLOO_OK) return false;
  uint32_t now = gli_own_memory_kib();
  if (now > j->memory.start) j->memory.added[point] = now - j->memory.start;
  return gloo_barrier(j->context, NULL, &j->error) == GLOO_OK;
}

/* Makes the groups, of ranks that differ from group to group, and uses each. */
static bool make_groups(job *j, gloo_context **groups) {
  for (int64_t i = 0; i < j->groups.count; i++) {
    int64_t at = (j->rank + i) % j->ranks;
    if (gloo_context_split(j->context, (int)(at / j->groups.members), j->rank,
                           NULL, &groups[i], &j->error) != GLOO_OK ||
        gloo_barrier(groups[i], NULL, &j->error) != GLOO_OK)
      return false;
  }
  return true;
}

static bool add_groups(job *j) {
  gloo_context **groups = calloc((size_t)j->groups.count, sizeof *groups);
  bool good =
      groups != NULL && make_groups(j, groups) && read_memory(j, WITH_GROUPS);
  for (int64_t i = 0; groups != NULL && i < j->groups.count; i++)
    gloo_context_destroy(groups[i]);
  free(groups);
  return good;
}

static int compare_kib(const void *a, const void *b) {
  uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return (x > y) - (x < y);
}

/* Prints one line: the median of all ranks, and the most. */
static bool print_memory(job *j, const char *who, const memory *all,
                         int point) {
  uint32_t *kib = calloc((size_t)j->ranks, sizeof *kib);
  if (kib == NULL) return false;
  for (int i = 0; i < j->ranks; i++) kib[i] = all[i].added[point];
  qsort(kib, (size_t)j->ranks, sizeof *kib, compare_kib);
  char what[96];
  (void)snprintf(what, sizeof what, "%u KiB per rank, %u at most",
                 (unsigned)kib[j->ranks / 2], (unsigned)kib[j->ranks - 1]);
  put_line(j, who, all[0].start > 0 ? what : "not reported by this system");
  free(kib);
  return true;
}

static bool gather_memory(job *j) {
  if (j->rank > 0) return send_bytes(j, 0, &j->memory, sizeof j->memory);
  memory *all = calloc((size_t)j->ranks, sizeof *all);
  bool good = all != NULL;
  if (good) all[0] = j->memory;
  for (int i = 1; good && i < j->ranks; i++)
    good = recv_bytes(j, i, &all[i], sizeof all[i]);
  char groups[112];
  (void)snprintf(groups, sizeof groups, "%s of %d",
                 gli_count((uint64_t)j->groups.count, "group").text,
                 (int)j->groups.members);
  put_heading(j, "memory");
  good = good && print_memory(j, "context", all, WITH_CONTEXT) &&
         print_memory(j, "all pairs", all, WITH_PAIRS) &&
         (j->groups.count == 0 || print_memory(j, groups, all, WITH_GROUPS));
  put_end(j, "memory");
  free(all);
  return good;
}

static bool show_memory(job *j) {
  if (!read_memory(j, WITH_PAIRS)) return false;
  if (j->groups.count > 0 && !add_groups(j)) return false;
  return gather_memory(j);
}

int gli_info_job(const gli_info_groups *groups, gli_json *out) {
  job j = {.groups = *groups, .memory.start = gli_own_memory_kib(), .out = out};
  const char *name = gli_environment_read("RANK");
  bool good = gloo_init(NULL, &j.context, &j.error) == GLOO_OK;
  if (good) {
    j.rank = gloo_context_rank(j.context);
    j.ranks = gloo_context_size(j.context);
    if (j.groups.members > j.ranks) j.groups.members = j.ranks;
    good = read_memory(&j, WITH_CONTEXT) && show_places(&j) &&
           show_routes(&j) && show_memory(&j);
    good = good && gloo_barrier(j.context, NULL, NULL) == GLOO_OK;
  }
  if (!good)
    fprintf(stderr, "gloo info: rank %s: %s\n", name != NULL ? name : "0",
            j.error.message[0] != '\0' ? j.error.message : "out of memory");
  gloo_context_destroy(j.context);
  free_lines(&j);
  return good ? GLI_EXIT_OK : GLI_EXIT_FAILED;
}
