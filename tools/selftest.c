#include "tools/selftest.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "core/text.h"
#include "tools/progress.h"
#include "tools/run.h"
#include "tools/tools.h"

/* ---- one job ------------------------------------------------------------- */

enum {
  JOB_EXTRA_MS = 60000, /* beyond the timeout of the ranks */
  SIGNAL_MS = 1000,     /* between the signals that end a job */
  SIGNALS = 4,          /* SIGTERM, three times, then SIGKILL */
  DRAIN_MS = 1000,      /* for the rest of the output of a job that has ended */
  STREAMS = 2,
  LINE_BYTES = 1024 /* the rest of a longer line is left out */
};

typedef struct job_run {
  gli_selftest_job *job;
  uv_loop_t loop;
  uv_process_t process;
  uv_timer_t timer;
  gli_run_stream streams[STREAMS];
  int open; /* streams */
  uint64_t limit_ms;
  int signals; /* number of signals sent */
  bool ended;
  int64_t status;
  int signum;
} job_run;

static void add_line(gli_selftest_job *job, gli_selftest_state state,
                     const char *what, const char *text) {
  if (state == GLI_SELFTEST_FAILED) job->failed = true;
  if (job->n_lines == GLI_SELFTEST_LINES) return;
  gli_selftest_line *l = &job->lines[job->n_lines++];
  l->state = state;
  (void)snprintf(l->what, sizeof l->what, "%s", what);
  (void)snprintf(l->text, sizeof l->text, "%s", text);
}

/* Keeps the end of what the job says otherwise. */
static void add_output(gli_selftest_job *job, const char *text) {
  size_t bytes = strlen(text), used = strlen(job->output);
  if (bytes + 2 > sizeof job->output) return;
  size_t room = sizeof job->output - 2 - bytes, drop = 0;
  while (used - drop > room) {
    const char *end = strchr(job->output + drop, '\n');
    drop = end != NULL ? (size_t)(end - job->output) + 1 : used;
  }
  memmove(job->output, job->output + drop, used - drop + 1);
  (void)snprintf(job->output + used - drop, room + bytes + 2 - (used - drop),
                 "%s\n", text);
}

/* Takes a line of the form "passed WHAT: TEXT", or another. */
static void take_line(gli_selftest_job *job, char *line) {
  gli_make_printable(line);
  char *what = strchr(line, ' ');
  char *text = what != NULL ? strstr(what, ": ") : NULL;
  for (int s = 0; s < GLI_SELFTEST_STATES && text != NULL; s++) {
    size_t length = strlen(gli_selftest_states[s]);
    if ((size_t)(what - line) != length ||
        strncmp(line, gli_selftest_states[s], length) != 0)
      continue;
    *text = '\0';
    add_line(job, (gli_selftest_state)s, what + 1, text + 2);
    return;
  }
  if (*line != '\0') add_output(job, line);
}

static bool take_lines(void *user, int rank, int fd, const char *data,
                       size_t bytes) {
  job_run *r = user;
  char line[LINE_BYTES];
  (void)rank;
  (void)fd;
  for (size_t at = 0; at < bytes;) {
    const char *end = memchr(data + at, '\n', bytes - at);
    size_t length = end != NULL ? (size_t)(end - data) - at : bytes - at;
    size_t kept = length < sizeof line ? length : sizeof line - 1;
    memcpy(line, data + at, kept);
    line[kept] = '\0';
    take_line(r->job, line);
    at += length + 1;
  }
  return true;
}

static void finish_if_done(job_run *r) {
  if (r->ended && r->open == 0 && !uv_is_closing((uv_handle_t *)&r->timer))
    uv_close((uv_handle_t *)&r->timer, NULL);
}

static void on_closed_stream(void *user) {
  job_run *r = user;
  r->open--;
  finish_if_done(r);
}

/* Ends a job that takes too long; after the job, closes streams that processes
 * of it still hold. */
static void on_timer(uv_timer_t *timer) {
  job_run *r = timer->data;
  if (r->ended) {
    for (int i = 0; i < STREAMS; i++) gli_run_stream_stop(&r->streams[i]);
    return;
  }
  if (r->signals == 0) {
    char text[96];
    (void)snprintf(text, sizeof text, "the job has not ended within %llu s",
                   (unsigned long long)(r->limit_ms / 1000));
    add_line(r->job, GLI_SELFTEST_FAILED, "end", text);
  }
  r->signals++;
  (void)uv_process_kill(&r->process, r->signals < SIGNALS ? SIGTERM : SIGKILL);
  (void)uv_timer_start(timer, on_timer, SIGNAL_MS, 0);
}

static void on_exit_of_job(uv_process_t *process, int64_t status, int signum) {
  job_run *r = process->data;
  r->ended = true;
  r->status = status;
  r->signum = signum;
  uv_close((uv_handle_t *)process, NULL);
  (void)uv_timer_start(&r->timer, on_timer, DRAIN_MS, 0);
  finish_if_done(r);
}

/* Starts `gloo run` with the ranks; returns 0 or an error of libuv. */
static int start(job_run *r, double timeout_s) {
  char self[GLI_RUN_PATH_MAX], ranks[16], least[16], timeout[32], variable[64];
  char part[16];
  size_t size = sizeof self;
  int code = uv_exepath(self, &size);
  if (code != 0) return code;
  bool threads = strcmp(r->job->part, "threads") == 0;
  bool killed = strcmp(r->job->part, "killed") == 0;
  int n = threads ? 1 : GLI_SELFTEST_RANKS;
  (void)snprintf(ranks, sizeof ranks, "%d", n);
  (void)snprintf(least, sizeof least, "%d", killed ? n - 1 : n);
  (void)snprintf(timeout, sizeof timeout, "%g", timeout_s);
  (void)snprintf(part, sizeof part, "%s", r->job->part);
  (void)snprintf(variable, sizeof variable, "GLOO_TRANSPORT=%s",
                 r->job->transport);
  char words[][16] = {"gloo",   "run",        "-n",     "--min-ranks", "--",
                      "doctor", "--selftest", "--part", "--timeout"};
  char *arguments[] = {words[0], words[1], words[2], ranks,    words[3],
                       least,    words[4], words[0], words[5], words[6],
                       words[7], part,     words[8], timeout,  NULL};
  char **environment = gli_run_plain_environment(variable);
  if (environment == NULL) return UV_ENOMEM;
  uv_stdio_container_t stdio[STREAMS + 1] = {{.flags = UV_IGNORE}};
  for (int i = 0; i < STREAMS; i++) {
    stdio[i + 1].flags = UV_CREATE_PIPE | UV_WRITABLE_PIPE;
    stdio[i + 1].data.stream = (uv_stream_t *)&r->streams[i].pipe;
  }
  uv_process_options_t with;
  memset(&with, 0, sizeof with);
  with.file = self;
  with.args = arguments;
  with.env = environment;
  with.exit_cb = on_exit_of_job;
  with.stdio_count = STREAMS + 1;
  with.stdio = stdio;
  code = uv_spawn(&r->loop, &r->process, &with);
  free(environment);
  return code;
}

/* Says what the lines of the ranks do not: how the job ended. */
static void judge(const job_run *r) {
  gli_selftest_job *job = r->job;
  size_t passed = 0, wanted = 1;
  char text[96];
  if (strcmp(job->part, "killed") == 0) wanted = GLI_SELFTEST_RANKS - 1;
  for (size_t i = 0; i < job->n_lines; i++)
    passed += job->lines[i].state == GLI_SELFTEST_PASSED;
  if (job->failed) return;
  if (r->signum != 0) {
    (void)snprintf(text, sizeof text, "signal %d ended the job", r->signum);
    add_line(job, GLI_SELFTEST_FAILED, "end", text);
  } else if (r->status != 0) {
    (void)snprintf(text, sizeof text, "the job ended with status %lld",
                   (long long)r->status);
    add_line(job, GLI_SELFTEST_FAILED, "end", text);
  } else if (passed < wanted) {
    (void)snprintf(text, sizeof text,
                   "%zu of %zu ranks reported that they passed", passed,
                   wanted);
    add_line(job, GLI_SELFTEST_FAILED, "end", text);
  }
}

static void run_job(gli_selftest_job *job, double timeout_s) {
  static job_run r; /* handles must not move */
  uint64_t begun = uv_hrtime();
  memset(&r, 0, sizeof r);
  r.job = job;
  r.limit_ms = (uint64_t)(timeout_s * 1e3) + JOB_EXTRA_MS;
  int code = uv_loop_init(&r.loop);
  if (code != 0) {
    add_line(job, GLI_SELFTEST_FAILED, "start", uv_strerror(code));
    return;
  }
  (void)uv_timer_init(&r.loop, &r.timer);
  for (int i = 0; i < STREAMS; i++) {
    gli_run_stream *s = &r.streams[i];
    (void)gli_run_stream_init(s, &r.loop, 0, i);
    s->write = take_lines;
    s->on_close = on_closed_stream;
    s->user = &r;
    r.open++;
  }
  r.timer.data = r.process.data = &r;
  code = start(&r, timeout_s);
  if (code == 0) {
    (void)uv_timer_start(&r.timer, on_timer, r.limit_ms, 0);
  } else {
    add_line(job, GLI_SELFTEST_FAILED, "start", uv_strerror(code));
    r.ended = true;
    if (r.process.loop != NULL) uv_close((uv_handle_t *)&r.process, NULL);
  }
  for (int i = 0; i < STREAMS; i++) {
    gli_run_stream_start(&r.streams[i]);
    if (code != 0) gli_run_stream_stop(&r.streams[i]);
  }
  (void)uv_run(&r.loop, UV_RUN_DEFAULT);
  (void)uv_loop_close(&r.loop);
  judge(&r);
  job->seconds = (double)(uv_hrtime() - begun) / 1e9;
}

/* ---- all jobs ------------------------------------------------------------ */

enum { JOBS = 16 };

/* Lists the jobs: threads; for each transport that works between processes a
 * job that tests, and a job with a killed rank. */
static size_t list_jobs(gli_selftest_job *jobs) {
  static const char *const parts[] = {"ranks", "killed"};
  size_t n = 0;
  const char *name;
  gloo_error error;
  jobs[n++] = (gli_selftest_job){.part = "threads", .transport = "inproc"};
  for (size_t i = 0; (name = gloo_transport_name(i)) != NULL; i++) {
    if (strcmp(name, "inproc") == 0 ||
        gloo_transport_usable(name, &error) != GLOO_OK)
      continue;
    for (int p = 0; p < 2 && n < JOBS; p++)
      jobs[n++] = (gli_selftest_job){.part = parts[p], .transport = name};
  }
  return n;
}

static void count(gli_selftest_report *report) {
  for (size_t i = 0; i < report->n_jobs; i++)
    for (size_t k = 0; k < report->jobs[i].n_lines; k++) {
      gli_selftest_state state = report->jobs[i].lines[k].state;
      report->passed += state == GLI_SELFTEST_PASSED;
      report->failed += state == GLI_SELFTEST_FAILED;
    }
}

static bool cannot_write(const char *file) {
  fprintf(stderr, "gloo doctor: cannot write the report to %s: %s\n", file,
          strerror(errno));
  return false;
}

/* Opens the file before the tests, so that a wrong path is reported at once. */
static bool open_report(const char *file, FILE **to) {
  *to = file != NULL ? fopen(file, "w") : NULL;
  return file == NULL || *to != NULL || cannot_write(file);
}

int gli_selftest(bool json, const char *file, double timeout_s) {
  uint64_t begun = uv_hrtime();
  FILE *to;
  gli_selftest_report report = {.jobs = calloc(JOBS, sizeof *report.jobs)};
  if (report.jobs == NULL || !open_report(file, &to)) {
    if (report.jobs == NULL) fprintf(stderr, "gloo doctor: out of memory\n");
    free(report.jobs);
    return GLI_EXIT_FAILED;
  }
  report.n_jobs = list_jobs(report.jobs);
  gli_progress_begin("gloo doctor", report.n_jobs);
  for (size_t i = 0; i < report.n_jobs; i++) {
    gli_progress_say("%s over %s", report.jobs[i].part,
                     report.jobs[i].transport);
    run_job(&report.jobs[i], timeout_s);
    gli_progress_step();
  }
  gli_progress_end();
  count(&report);
  report.seconds = (double)(uv_hrtime() - begun) / 1e9;
  gli_selftest_print(&report, json, stdout);
  bool good = report.failed == 0;
  if (to != NULL) {
    gli_selftest_print(&report, json, to);
    bool written = ferror(to) == 0;
    if (fclose(to) != 0 || !written) good = cannot_write(file);
  }
  free(report.jobs);
  return good ? GLI_EXIT_OK : GLI_EXIT_FAILED;
}
