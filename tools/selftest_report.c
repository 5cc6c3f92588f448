/* The report of `gloo doctor --selftest`. It is meant for publication, so it
 * has no value of a variable. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "core/cpu.h"
#include "core/json.h"
#include "gloo_c/version.h"
#include "security/keys.h"
#include "tools/selftest.h"

#define MIB ((uint64_t)1 << 20)

typedef struct machine {
  char system[256], processor[256], build[160], variables[320];
} machine;

static const char *compiler(void) {
#if defined __clang__
  return "clang " __clang_version__;
#elif defined __GNUC__
  return "gcc " __VERSION__;
#else
  return "unknown";
#endif
}

static const char *byte_order(void) {
  const uint16_t one = 1;
  uint8_t first;
  memcpy(&first, &one, 1);
  return first == 1 ? "little-endian" : "big-endian";
}

static void describe_system(machine *m) {
  uv_utsname_t name;
  if (uv_os_uname(&name) != 0) memset(&name, 0, sizeof name);
  (void)snprintf(m->system, sizeof m->system,
                 "%.40s %.60s %.20s; %zu bits, %s, pages of %ld bytes, %" PRIu64
                 " MiB of memory",
                 name.sysname, name.release, name.machine, 8 * sizeof(void *),
                 byte_order(), sysconf(_SC_PAGESIZE),
                 (uint64_t)uv_get_total_memory() / MIB);
}

static void describe_processor(machine *m) {
  uv_cpu_info_t *cores = NULL;
  int n = 0;
  const char *model = "unknown";
  if (uv_cpu_info(&cores, &n) == 0 && n > 0 && cores[0].model != NULL)
    model = cores[0].model;
  (void)snprintf(m->processor, sizeof m->processor, "%.100s; %s, %u usable",
                 model, gli_count((uint64_t)n, "core").text,
                 gli_cpu_effective());
  if (cores != NULL) uv_free_cpu_info(cores, n);
}

static void describe_build(machine *m) {
  const char *openssl = gli_openssl_version();
  (void)snprintf(m->build, sizeof m->build,
                 "%s features of Linux; libuv %s, OpenSSL %.40s",
                 GLI_LINUX ? "with" : "without", uv_version_string(),
                 openssl != NULL ? openssl : "none");
}

/* Names the variables that the jobs do not get. */
static void describe_variables(machine *m) {
  uv_env_item_t *all;
  int n;
  size_t used = 0;
  if (uv_os_environ(&all, &n) != 0) return;
  for (int i = 0; i < n; i++) {
    size_t length = strlen(all[i].name);
    if (strncmp(all[i].name, "GLOO_", 5) != 0) continue;
    if (used + length + 3 > sizeof m->variables) continue;
    used += (size_t)snprintf(m->variables + used, sizeof m->variables - used,
                             "%s%s", used > 0 ? ", " : "", all[i].name);
  }
  gli_make_printable(m->variables);
  uv_os_free_environ(all, n);
}

static void describe(machine *m) {
  memset(m, 0, sizeof *m);
  describe_system(m);
  describe_processor(m);
  describe_build(m);
  describe_variables(m);
}

/* Returns "yes", or why a transport does not work. */
static const char *state_of(const char *transport, gloo_error *error) {
  return gloo_transport_usable(transport, error) == GLOO_OK ? "yes"
                                                            : error->message;
}

/* ---- as text ------------------------------------------------------------- */

static void print_machine(const machine *m, FILE *to) {
  const char *name;
  gloo_error error;
  fprintf(to, "%-10s %s\n", "gloo_c", gloo_version());
  fprintf(to, "%-10s %s\n", "system", m->system);
  fprintf(to, "%-10s %s\n", "processor", m->processor);
  fprintf(to, "%-10s %s\n", "compiler", compiler());
  fprintf(to, "%-10s %s\n", "build", m->build);
  for (size_t i = 0; (name = gloo_transport_name(i)) != NULL; i++)
    fprintf(to, "%-10s %s: %s\n", i == 0 ? "transports" : "", name,
            state_of(name, &error));
  if (m->variables[0] != '\0')
    fprintf(to, "%-10s left out: %s\n", "variables", m->variables);
}

/* Returns the number of ranks and what they are: "3 processes". */
static gli_text ranks_of(const gli_selftest_job *job) {
  return gli_count(GLI_SELFTEST_RANKS,
                   strcmp(job->part, "threads") == 0 ? "thread" : "process");
}

static void print_output(const gli_selftest_job *job, FILE *to) {
  for (const char *at = job->output; *at != '\0';) {
    int length = (int)strcspn(at, "\n");
    fprintf(to, "  | %.*s\n", length, at);
    at += length + (at[length] != '\0');
  }
}

static void print_job(const gli_selftest_job *job, FILE *to) {
  fprintf(to, "\n%s over %s%s: %.1f s\n", ranks_of(job).text, job->transport,
          strcmp(job->part, "killed") == 0 ? ", one is killed" : "",
          job->seconds);
  for (size_t i = 0; i < job->n_lines; i++)
    fprintf(to, "  %-6s %s: %s\n", gli_selftest_states[job->lines[i].state],
            job->lines[i].what, job->lines[i].text);
  if (job->failed) print_output(job, to);
}

static void print_text(const gli_selftest_report *r, const machine *m,
                       FILE *to) {
  print_machine(m, to);
  for (size_t i = 0; i < r->n_jobs; i++) print_job(&r->jobs[i], to);
  if (r->failed == 0)
    fprintf(to, "\nresult: %s passed in %.0f s\n",
            gli_count(r->passed, "check").text, r->seconds);
  else
    fprintf(to, "\nresult: %s failed, %zu passed, in %.0f s\n",
            gli_count(r->failed, "check").text, r->passed, r->seconds);
}

/* ---- as JSON ------------------------------------------------------------- */

static void put_job(gli_json *out, const gli_selftest_job *job) {
  gli_json_begin(out, NULL, '{');
  gli_json_text(out, "part", job->part);
  gli_json_text(out, "transport", job->transport);
  gli_json_integer(out, "ranks", GLI_SELFTEST_RANKS);
  gli_json_number(out, "seconds", job->seconds);
  gli_json_bool(out, "passed", !job->failed);
  gli_json_begin(out, "lines", '[');
  for (size_t i = 0; i < job->n_lines; i++) {
    const gli_selftest_line *l = &job->lines[i];
    gli_json_begin(out, NULL, '{');
    gli_json_text(out, "state", gli_selftest_states[l->state]);
    gli_json_text(out, "what", l->what);
    gli_json_text(out, "text", l->text);
    gli_json_end(out, '}');
  }
  gli_json_end(out, ']');
  gli_json_text(out, "output", job->failed ? job->output : "");
  gli_json_end(out, '}');
}

static void print_json(const gli_selftest_report *r, const machine *m,
                       FILE *to) {
  gli_json out;
  const char *name;
  gloo_error error;
  gli_json_open(&out, to);
  gli_json_integer(&out, "gloo_selftest", 1);
  gli_json_text(&out, "version", gloo_version());
  gli_json_text(&out, "system", m->system);
  gli_json_text(&out, "processor", m->processor);
  gli_json_text(&out, "compiler", compiler());
  gli_json_text(&out, "build", m->build);
  gli_json_begin(&out, "transports", '{');
  for (size_t i = 0; (name = gloo_transport_name(i)) != NULL; i++)
    gli_json_text(&out, name, state_of(name, &error));
  gli_json_end(&out, '}');
  gli_json_text(&out, "variables_left_out", m->variables);
  gli_json_begin(&out, "jobs", '[');
  for (size_t i = 0; i < r->n_jobs; i++) put_job(&out, &r->jobs[i]);
  gli_json_end(&out, ']');
  gli_json_integer(&out, "checks_passed", r->passed);
  gli_json_integer(&out, "checks_failed", r->failed);
  gli_json_number(&out, "seconds", r->seconds);
  gli_json_close(&out);
}

void gli_selftest_print(const gli_selftest_report *report, bool json,
                        FILE *to) {
  machine m;
  describe(&m);
  if (json)
    print_json(report, &m, to);
  else
    print_text(report, &m, to);
  (void)fflush(to);
}
