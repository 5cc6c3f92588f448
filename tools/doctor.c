#include "tools/doctor.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "core/text.h"
#include "tools/progress.h"
#include "tools/selftest.h"
#include "tools/tools.h"

static bool json = false, selftest = false;
static const char *report = NULL, *part = NULL;
static double timeout_s = 30;

static const gli_option options[] = {
    {"json", 0, GLI_OPTION_FLAG, &json, NULL, "print one line of JSON", 0, 0},
    {"timeout", 't', GLI_OPTION_SECONDS, &timeout_s, "S",
     "how long ranks wait for each other (30)", 0, 3600},
    {"selftest", 0, GLI_OPTION_FLAG, &selftest, NULL,
     "test this build on this machine, and print a report", 0, 0},
    {"report", 0, GLI_OPTION_TEXT, &report, "FILE",
     "with --selftest: also write the report to a file", 0, 0},
    {"part", 0, GLI_OPTION_TEXT, &part, "PART",
     "with --selftest: only threads, ranks or killed, in this job", 0, 0},
};

static const gli_command command = {
    .name = "doctor",
    .usage =
        "gloo doctor [options]\n"
        "       gloo doctor --selftest [--json] [--report FILE]",
    .about =
        "Finds problems of a job. Start it as the ranks of your job:\n"
        "  srun -N 2 -n 4 gloo doctor     mpirun -np 4 gloo doctor\n"
        "  torchrun --nproc-per-node 4 --no-python gloo doctor\n"
        "Rank 0 prints the settings of the launcher, the hosts of the ranks,\n"
        "how each pair of ranks is connected, limits, clocks, and a remedy "
        "for\n"
        "each problem. If the ranks cannot connect, each prints what it "
        "knows.\n"
        "The exit status is 0 if no problem was found.\n"
        "\n"
        "With --selftest, outside a job, it tests this build of the library "
        "here:\n"
        "collectives, messages, windows, stores and a killed rank, over each\n"
        "transport. The report has no secrets.\n",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
};

/* ---- problems ------------------------------------------------------------ */

void gli_doctor_add(gli_doctor_ranks *all, int first, int last, const char *id,
                    const char *format, ...) {
  gli_doctor_problem p = {.first = first, .last = last};
  (void)snprintf(p.finding.id, sizeof p.finding.id, "%s", id);
  va_list list;
  va_start(list, format);
  (void)vsnprintf(p.finding.text, sizeof p.finding.text, format, list);
  va_end(list);
  gli_doctor_problem *more =
      realloc(all->problems, (all->n_problems + 1) * sizeof *more);
  if (more == NULL) {
    all->lost = true;
    return;
  }
  more[all->n_problems++] = p;
  all->problems = more;
}

static void add_own(gli_doctor_ranks *all, int first, int last,
                    const gli_doctor_facts *facts) {
  for (uint32_t i = 0; i < facts->n_findings; i++)
    gli_doctor_add(all, first, last, facts->findings[i].id, "%s",
                   facts->findings[i].text);
}

/* Findings about a host are the same for all its ranks. */
static bool same_findings(const gli_doctor_facts *a,
                          const gli_doctor_facts *b) {
  if (a->n_findings != b->n_findings || strcmp(a->host, b->host) != 0)
    return false;
  for (uint32_t i = 0; i < a->n_findings; i++)
    if (strcmp(a->findings[i].id, b->findings[i].id) != 0) return false;
  return true;
}

static void add_all_own(gli_doctor_ranks *all) {
  for (int first = 0, last; first < all->n; first = last + 1) {
    last = first;
    while (last + 1 < all->n &&
           same_findings(&all->facts[first], &all->facts[last + 1]))
      last++;
    add_own(all, all->first + first, all->first + last, &all->facts[first]);
  }
}

static int put_verdict(gli_doctor_ranks *all) {
  int status = all->n_problems > 0 || all->lost ? GLI_EXIT_FAILED : GLI_EXIT_OK;
  if (json) {
    gli_doctor_print_json(all);
  } else {
    gli_doctor_print(all);
  }
  if (all->lost) fprintf(stderr, "gloo doctor: out of memory\n");
  free(all->problems);
  all->problems = NULL;
  fflush(stdout);
  return status;
}

/* Prints what each rank knows by itself if ranks did not meet. */
static int put_alone(const gli_launch *launch, gli_doctor_facts *facts,
                     const gloo_error *error) {
  gli_doctor_ranks alone = {
      .launch = launch, .first = (int)launch->rank, .n = 1, .facts = facts};
  gli_doctor_add(&alone, alone.first, alone.first, "start", "%s",
                 error->message);
  add_all_own(&alone);
  return put_verdict(&alone);
}

/* ---- gathering ----------------------------------------------------------- */

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
  for (uint32_t i = 0; i < f->n_findings; i++) {
    tidy_text(f->findings[i].id, sizeof f->findings[i].id);
    tidy_text(f->findings[i].text, sizeof f->findings[i].text);
  }
}

static bool ranks_make(gli_doctor_ranks *all, gloo_context *context) {
  int n = gloo_context_size(context);
  size_t rows = gloo_context_rank(context) == 0 ? (size_t)n : 1;
  *all = (gli_doctor_ranks){.context = context, .n = n};
  all->facts = calloc(rows, sizeof *all->facts);
  all->links = calloc(rows * (size_t)n, sizeof *all->links);
  all->ahead = calloc((size_t)n, sizeof *all->ahead);
  all->off = calloc((size_t)n, sizeof *all->off);
  return all->facts != NULL && all->links != NULL && all->ahead != NULL &&
         all->off != NULL;
}

static void ranks_free(gli_doctor_ranks *all) {
  free(all->facts);
  free(all->links);
  free(all->ahead);
  free(all->off);
}

/* Gathers facts and links on rank 0. A rank's own facts and row have index 0.
 */
static bool gather_all(gli_doctor_ranks *all, gloo_error *error) {
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

/* ---- the command --------------------------------------------------------- */

static int examine(const gli_launch *launch, gloo_context *context,
                   gli_doctor_facts *own, double met_ms) {
  gli_doctor_ranks all;
  gloo_error error;
  int status = GLI_EXIT_OK;
  if (!ranks_make(&all, context)) {
    fprintf(stderr, "gloo doctor: out of memory\n");
    status = GLI_EXIT_FAILED;
  } else {
    all.facts[0] = *own;
    all.launch = launch;
    all.met_ms = met_ms;
    bool good = gather_all(&all, &error);
    gli_progress_end();
    if (!good) {
      status = put_alone(launch, own, &error);
    } else if (launch->rank == 0) {
      add_all_own(&all);
      gli_doctor_compare(&all);
      status = put_verdict(&all);
    }
  }
  ranks_free(&all);
  return status;
}

/* Tests as a rank of the job that it is started in, or in jobs of its own. */
static int test_itself(void) {
  gli_launch launch;
  gloo_error error;
  if (part != NULL && strcmp(part, "threads") != 0 &&
      strcmp(part, "ranks") != 0 && strcmp(part, "killed") != 0)
    return gli_usage_error(
        &command, "option --part: '%s' is none of threads, ranks, killed",
        part);
  if (part == NULL && gli_launch_read(&launch, &error) != GLOO_OK) {
    fprintf(stderr, "gloo doctor: %s\n", error.message);
    return GLI_EXIT_FAILED;
  }
  if (part == NULL && launch.size == 1)
    return gli_selftest(json, report, timeout_s);
  if (json || report != NULL)
    return gli_usage_error(&command,
                           "--%s requires --selftest outside a job, without "
                           "--part",
                           json ? "json" : "report");
  return gli_selftest_part(part != NULL ? part : "ranks", timeout_s);
}

int gli_tool_doctor(int argc, char **argv) {
  gli_parse parsed = gli_options_parse(&command, argc, argv, NULL);
  if (parsed == GLI_PARSE_HELP) return GLI_EXIT_OK;
  if (parsed == GLI_PARSE_BAD) return GLI_EXIT_USAGE;
  if (selftest) return test_itself();
  if (report != NULL || part != NULL)
    return gli_usage_error(&command, "--%s requires --selftest",
                           report != NULL ? "report" : "part");
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
