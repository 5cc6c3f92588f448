#include "tools/doctor.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "core/json.h"
#include "core/text.h"
#include "tools/progress.h"
#include "tools/tools.h"

static bool json = false;
static double timeout_s = 30;

static const gli_option options[] = {
    {"json", 0, GLI_OPTION_FLAG, &json, NULL, "print one line of JSON", 0, 0},
    {"timeout", 't', GLI_OPTION_SECONDS, &timeout_s, "S",
     "how long ranks wait for each other (30)", 0, 3600},
};

static const gli_command command = {
    .name = "doctor",
    .usage = "gloo doctor [options]",
    .about =
        "Finds problems of a job. Start it as the ranks of your job:\n"
        "  srun -N 2 -n 4 gloo doctor     mpirun -np 4 gloo doctor\n"
        "  torchrun --nproc-per-node 4 --no-python gloo doctor\n"
        "Rank 0 prints the settings of the launcher, the hosts of the ranks,\n"
        "how each pair of ranks is connected, limits, clocks, and a remedy "
        "for\n"
        "each problem. If the ranks cannot connect, each prints what it "
        "knows.\n"
        "The exit status is 0 if no problem was found.\n",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
};

/* ---- what is printed ----------------------------------------------------- */

typedef struct line {
  const char *key; /* NULL: a finding */
  char *text;
} line;

typedef struct report {
  line *lines;
  size_t n, n_findings;
  bool lost; /* true if a line was lost for lack of memory */
} report;

static void keep_line(report *r, const char *key, const char *format,
                      va_list list) {
  char text[1024];
  (void)vsnprintf(text, sizeof text, format, list);
  line *more = realloc(r->lines, (r->n + 1) * sizeof *more);
  if (more != NULL) r->lines = more;
  char *copy = more != NULL ? malloc(strlen(text) + 1) : NULL;
  if (copy == NULL) {
    r->lost = true;
    return;
  }
  strcpy(copy, text);
  r->lines[r->n++] = (line){key, copy};
  if (key == NULL) r->n_findings++;
}

static void put_line(report *r, const char *key, const char *format, ...)
    GLI_PRINTF(3, 4);

static void put_line(report *r, const char *key, const char *format, ...) {
  va_list list;
  va_start(list, format);
  keep_line(r, key, format, list);
  va_end(list);
}

static void put_finding(report *r, const char *format, ...) GLI_PRINTF(2, 3);

static void put_finding(report *r, const char *format, ...) {
  va_list list;
  va_start(list, format);
  keep_line(r, NULL, format, list);
  va_end(list);
}

static bool same_key(const char *a, const char *b) {
  return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

static void print_lines(const report *r) {
  for (size_t i = 0; i < r->n; i++)
    if (r->lines[i].key != NULL)
      printf("%-10s %s\n", r->lines[i].key, r->lines[i].text);
  const char *key = "findings";
  for (size_t i = 0; i < r->n; i++) {
    if (r->lines[i].key != NULL) continue;
    printf("%-10s %s\n", key, r->lines[i].text);
    key = "";
  }
  if (r->n_findings == 0) printf("%-10s nothing\n", key);
}

/* Prints a list for each key, in the order in which the keys first occur. */
static void print_json(const report *r) {
  gli_json out;
  const char **texts = calloc(r->n + 1, sizeof *texts);
  gli_json_open(&out, stdout);
  for (size_t i = 0; i <= r->n && texts != NULL; i++) {
    const char *key = i < r->n ? r->lines[i].key : NULL;
    size_t n = 0;
    bool seen = i < r->n && key == NULL;
    for (size_t k = 0; k < i && key != NULL; k++)
      seen = seen || same_key(r->lines[k].key, key);
    if (seen) continue;
    for (size_t k = 0; k < r->n; k++)
      if (same_key(r->lines[k].key, key)) texts[n++] = r->lines[k].text;
    gli_json_list(&out, key != NULL ? key : "findings", texts, n);
  }
  free(texts);
  gli_json_close(&out);
}

static int put_verdict(report *r) {
  int status = r->n_findings > 0 || r->lost ? GLI_EXIT_FAILED : GLI_EXIT_OK;
  if (json) {
    print_json(r);
  } else {
    print_lines(r);
  }
  if (r->lost) fprintf(stderr, "gloo doctor: out of memory\n");
  for (size_t i = 0; i < r->n; i++) free(r->lines[i].text);
  free(r->lines);
  fflush(stdout);
  return status;
}

/* Text such as "3.1 GiB", or "any". */
typedef struct amount {
  char text[24];
} amount;

static amount amount_of(uint64_t bytes) {
  static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  amount a = {"any"};
  double value = (double)bytes;
  int unit = 0;
  for (; value >= 1024 && unit < 4; unit++) value /= 1024;
  if (bytes != UINT64_MAX)
    (void)snprintf(a.text, sizeof a.text, "%.3g %s", value, units[unit]);
  return a;
}

static amount number_of(uint64_t number) {
  amount a = {"any"};
  if (number != UINT64_MAX)
    (void)snprintf(a.text, sizeof a.text, "%llu", (unsigned long long)number);
  return a;
}

/* Text such as "rank 3", "ranks 3-7": a range of ranks with the same facts. */
typedef struct range {
  char text[40];
} range;

static range range_of(int first, int last) {
  range r;
  if (first == last) {
    (void)snprintf(r.text, sizeof r.text, "rank %d", first);
  } else {
    (void)snprintf(r.text, sizeof r.text, "ranks %d-%d", first, last);
  }
  return r;
}

/* ---- what one rank knows ------------------------------------------------- */

static void put_launch(report *r, const gli_launch *launch) {
  if (launch->size == 1) {
    put_line(r, "launcher", "%s: one rank", launch->launcher);
  } else {
    put_line(r, "launcher", "%s: rank %u of %u, store %s%s%s", launch->launcher,
             (unsigned)launch->rank, (unsigned)launch->size,
             gli_store_url_shown(launch->store).text,
             launch->job[0] != '\0' ? ", job " : "",
             gli_quote(launch->job).text);
  }
}

static void put_facts(report *r, const char *who,
                      const gli_doctor_facts *facts) {
  put_line(r, "host", "%s: %s, version %s; %u cores%s", who, facts->host,
           facts->version, (unsigned)facts->cores,
           facts->quota > 0 ? ", limited by its control group" : "");
  put_line(r, "network", "%s: %s", who, facts->interfaces);
  put_line(r, "limits",
           "%s: %s files (ulimit -Hn: %s), %s of locked memory; %s of memory "
           "and %s of /dev/shm are left",
           who, number_of(facts->files).text, number_of(facts->files_most).text,
           amount_of(facts->locked).text, amount_of(facts->memory_left).text,
           amount_of(facts->shared_left).text);
}

static void find_own(report *r, const char *who,
                     const gli_doctor_facts *facts) {
  for (uint32_t i = 0; i < facts->n_findings; i++)
    put_finding(r, "%s: %s", who, facts->findings[i]);
}

/* Prints what each rank knows by itself if ranks did not meet. */
static int put_alone(const gli_launch *launch, const gli_doctor_facts *facts,
                     const gloo_error *error) {
  report r = {.n = 0};
  char who[24], reach[GLI_DOCTOR_TEXT];
  (void)snprintf(who, sizeof who, "rank %u", (unsigned)launch->rank);
  put_launch(&r, launch);
  put_facts(&r, who, facts);
  gli_doctor_reach(launch, reach);
  put_line(&r, "store", "%s", reach);
  put_finding(&r, "%s: %s", who, error->message);
  find_own(&r, who, facts);
  return put_verdict(&r);
}

/* ---- what all know ------------------------------------------------------- */

typedef struct ranks {
  gloo_context *context;
  int n;
  gli_doctor_facts *facts; /* [n] */
  gli_doctor_link *links;  /* [n][n], upper triangle */
  double *ahead, *off;     /* [n] */
} ranks;

/* Terminates text from another process, and replaces control characters. */
static void tidy_text(char *text, size_t room) {
  text[room - 1] = '\0';
  gli_make_printable(text);
}

static void tidy_facts(gli_doctor_facts *f) {
  tidy_text(f->version, sizeof f->version);
  tidy_text(f->host, sizeof f->host);
  tidy_text(f->interfaces, sizeof f->interfaces);
  if (f->n_findings > GLI_DOCTOR_FINDINGS) f->n_findings = GLI_DOCTOR_FINDINGS;
  for (uint32_t i = 0; i < f->n_findings; i++)
    tidy_text(f->findings[i], sizeof f->findings[i]);
}

static bool same_facts(const gli_doctor_facts *a, const gli_doctor_facts *b) {
  return strcmp(a->host, b->host) == 0 && strcmp(a->version, b->version) == 0 &&
         strcmp(a->interfaces, b->interfaces) == 0 && a->files == b->files &&
         a->locked == b->locked && a->cores == b->cores && a->quota == b->quota;
}

static void report_ranks(report *r, const ranks *all) {
  for (int first = 0, last; first < all->n; first = last + 1) {
    const gli_doctor_facts *f = &all->facts[first];
    last = first;
    while (last + 1 < all->n && same_facts(f, &all->facts[last + 1])) last++;
    put_facts(r, range_of(first, last).text, f);
    /* Findings about the host are the same for all its ranks. */
    find_own(r, range_of(first, last).text, f);
    if (strcmp(f->version, all->facts[0].version) != 0)
      put_finding(r,
                  "%s: version %s, and rank 0 has %s; install one version on "
                  "all hosts",
                  range_of(first, last).text, f->version,
                  all->facts[0].version);
  }
  for (int host = 0; host < gloo_context_hosts(all->context); host++) {
    uint32_t on = 0, cores = 0;
    for (int i = 0; i < all->n; i++) {
      if (gloo_context_host(all->context, i) != host) continue;
      on++;
      if (all->facts[i].cores > cores) cores = all->facts[i].cores;
    }
    if (on > cores)
      put_line(r, "sharing", "%u ranks share %u cores of host %d", on, cores,
               host);
  }
}

static const gli_doctor_link *link_of(const ranks *all, int a, int b) {
  return &all->links[(size_t)a * (size_t)all->n + (size_t)b];
}

static int compare_floats(const void *a, const void *b) {
  float x = *(const float *)a, y = *(const float *)b;
  return (x > y) - (x < y);
}

/* Reports the links between ranks of one host, or of different hosts. */
static void report_links(report *r, const ranks *all, bool one_host,
                         float *speeds) {
  int n = 0;
  const gli_doctor_link *slowest = NULL;
  int from = 0, to = 0;
  float us_most = 0, us_least = INFINITY;
  for (int a = 0; a < all->n; a++) {
    for (int b = a + 1; b < all->n; b++) {
      const gli_doctor_link *l = link_of(all, a, b);
      if (l->us <= 0 || (l->same_host != 0) != one_host) continue;
      speeds[n++] = l->gb_per_s;
      if (l->us > us_most) us_most = l->us;
      if (l->us < us_least) us_least = l->us;
      if (slowest != NULL && l->gb_per_s >= slowest->gb_per_s) continue;
      slowest = l;
      from = a;
      to = b;
    }
  }
  if (n == 0) return;
  qsort(speeds, (size_t)n, sizeof *speeds, compare_floats);
  float middle = speeds[n / 2];
  put_line(r, one_host ? "on a host" : "between",
           "%d pairs: %.2g to %.2g us one way; 1 MiB at %.3g to %.3g GB/s, "
           "median %.3g; the slowest is %d with %d",
           n, (double)us_least, (double)us_most, (double)speeds[0],
           (double)speeds[n - 1], (double)middle, from, to);
  if (!one_host && slowest->gb_per_s < middle / 4)
    put_finding(r,
                "rank %d with %d: %.2g GB/s, but half of the pairs reach %.2g; "
                "check the network between these hosts",
                from, to, (double)slowest->gb_per_s, (double)middle);
}

/* Reports a pair of ranks of one host that could share memory but does not. */
static void find_routes(report *r, const ranks *all) {
  for (int a = 0; a < all->n; a++) {
    for (int b = a + 1; b < all->n; b++) {
      const gli_doctor_link *l = link_of(all, a, b);
      if (l->us <= 0 || l->shared || !l->same_host || l->why[0] == '\0')
        continue;
      put_finding(r, "rank %d with %d: no shared memory: %s", a, b, l->why);
      return; /* one of a kind */
    }
  }
}

static void report_clocks(report *r, const ranks *all) {
  double most = 0;
  for (int i = 0; i < all->n; i++)
    if (fabs(all->ahead[i]) > fabs(most)) most = all->ahead[i];
  put_line(r, "clocks", "at most %.3g s from that of rank 0", fabs(most));
  for (int i = 0; i < all->n; i++) {
    if (fabs(all->ahead[i]) - all->off[i] < 1) continue;
    put_finding(
        r,
        "rank %d: its clock is %.3g s %s that of rank 0, so timestamps in logs "
        "do not match: run a time service such as chrony on its host",
        i, fabs(all->ahead[i]), all->ahead[i] > 0 ? "ahead of" : "behind");
  }
}

/* ---- gathering ----------------------------------------------------------- */

static bool ranks_make(ranks *all, gloo_context *context) {
  int n = gloo_context_size(context);
  size_t rows = gloo_context_rank(context) == 0 ? (size_t)n : 1;
  *all = (ranks){.context = context, .n = n};
  all->facts = calloc(rows, sizeof *all->facts);
  all->links = calloc(rows * (size_t)n, sizeof *all->links);
  all->ahead = calloc((size_t)n, sizeof *all->ahead);
  all->off = calloc((size_t)n, sizeof *all->off);
  return all->facts != NULL && all->links != NULL && all->ahead != NULL &&
         all->off != NULL;
}

static void ranks_free(ranks *all) {
  free(all->facts);
  free(all->links);
  free(all->ahead);
  free(all->off);
}

/* Gathers facts and links on rank 0. A rank's own facts and row have index 0.
 */
static bool gather_all(ranks *all, gloo_error *error) {
  size_t row = (size_t)all->n * sizeof *all->links;
  if (!gli_doctor_measure(all->context, all->links, error) ||
      !gli_doctor_clocks(all->context, all->ahead, all->off, error))
    return false;
  if (gloo_context_rank(all->context) > 0)
    return gloo_send(all->context, all->facts, sizeof *all->facts, GLOO_UINT8,
                     0, NULL, error) == GLOO_OK &&
           gloo_send(all->context, all->links, row, GLOO_UINT8, 0, NULL,
                     error) == GLOO_OK;
  for (int i = 1; i < all->n; i++) {
    gli_doctor_link *links = all->links + (size_t)i * (size_t)all->n;
    if (gloo_recv(all->context, &all->facts[i], sizeof *all->facts, GLOO_UINT8,
                  i, NULL, error) != GLOO_OK ||
        gloo_recv(all->context, links, row, GLOO_UINT8, i, NULL, error) !=
            GLOO_OK)
      return false;
    tidy_facts(&all->facts[i]);
    for (int k = 0; k < all->n; k++)
      tidy_text(links[k].why, sizeof links[k].why);
  }
  return true;
}

/* Prints the report; only rank 0 calls it. */
static int put_all(const ranks *all, const gli_launch *launch, double met_ms) {
  report r = {.n = 0};
  size_t pairs = (size_t)all->n * (size_t)all->n;
  float *speeds = calloc(pairs, sizeof *speeds);
  put_launch(&r, launch);
  put_line(&r, "meeting", "%d ranks on %d hosts met within %.3g ms", all->n,
           gloo_context_hosts(all->context), met_ms);
  report_ranks(&r, all);
  if (speeds != NULL) {
    report_links(&r, all, true, speeds);
    report_links(&r, all, false, speeds);
  }
  r.lost = speeds == NULL;
  free(speeds);
  find_routes(&r, all);
  report_clocks(&r, all);
  return put_verdict(&r);
}

/* ---- the command --------------------------------------------------------- */

static int examine(const gli_launch *launch, gloo_context *context,
                   const gli_doctor_facts *own, double met_ms) {
  ranks all;
  gloo_error error;
  int status = GLI_EXIT_OK;
  if (!ranks_make(&all, context)) {
    fprintf(stderr, "gloo doctor: out of memory\n");
    status = GLI_EXIT_FAILED;
  } else {
    all.facts[0] = *own;
    bool good = gather_all(&all, &error);
    gli_progress_end();
    if (!good) {
      status = put_alone(launch, own, &error);
    } else if (launch->rank == 0) {
      status = put_all(&all, launch, met_ms);
    }
  }
  ranks_free(&all);
  return status;
}

int gli_tool_doctor(int argc, char **argv) {
  gli_parse parsed = gli_options_parse(&command, argc, argv, NULL);
  if (parsed == GLI_PARSE_HELP) return GLI_EXIT_OK;
  if (parsed == GLI_PARSE_BAD) return GLI_EXIT_USAGE;
  gli_launch launch;
  gli_doctor_facts own;
  gloo_error error;
  if (gli_launch_read(&launch, &error) != GLOO_OK) {
    launch = (gli_launch){.launcher = "not understood", .size = 1};
    gli_doctor_look(&launch, &own);
    return put_alone(&launch, &own, &error);
  }
  gli_doctor_look(&launch, &own);
  gloo_context_options o = GLOO_CONTEXT_OPTIONS_INIT;
  gloo_init_options init = GLOO_INIT_OPTIONS_INIT;
  gloo_context *context;
  o.timeout_ns = (int64_t)(timeout_s * 1e9);
  init.context = &o;
  uint64_t begun = uv_hrtime();
  if (launch.rank == 0) gli_progress_begin("gloo doctor", 0);
  gli_progress_say("waiting for %s", gli_count(launch.size, "rank").text);
  if (gloo_init(&init, &context, &error) != GLOO_OK) {
    gli_progress_end();
    return put_alone(&launch, &own, &error);
  }
  gli_progress_say("measuring %s", gli_count(launch.size, "rank").text);
  int status =
      examine(&launch, context, &own, (double)(uv_hrtime() - begun) / 1e6);
  gloo_context_destroy(context);
  return status;
}
