#include "tools/run_policy.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

enum { MIN_TERM_MS = 500, RANKS_SHOWN = 16 };

const int gli_run_forwarded[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};

bool gli_run_ignores(int signum) {
  struct sigaction present;
  return sigaction(signum, NULL, &present) == 0 &&
         present.sa_handler == SIG_IGN;
}

/* ---- the first failure --------------------------------------------------- */

static void begin_grace(gli_run_policy *p, uint64_t now) {
  p->failed = true;
  p->held = false;
  p->phase = GLI_RUN_GRACE;
  p->phase_ends = now + p->grace_ms;
  p->ops->say(p->user, p->first);
}

static void set_first(gli_run_policy *p, const char *text, int exit_status) {
  p->exit_status = exit_status;
  snprintf(p->first, sizeof p->first, "%s", text);
}

/* Reports a failure; `hold` says whether an unknown earlier failure may
 * have caused it. */
static void report(gli_run_policy *p, uint64_t now, int ranks, const char *text,
                   int exit_status, bool hold) {
  if (p->failed || (p->held && hold)) {
    bool stopped_by_us =
        p->phase == GLI_RUN_STOPPING || p->phase == GLI_RUN_KILLED;
    if (!stopped_by_us) p->also_failed += ranks;
    return;
  }
  if (p->min_ranks > 0 && p->ranks - p->lost - ranks >= p->min_ranks) {
    char line[sizeof p->first + 64];
    p->lost += ranks;
    snprintf(line, sizeof line, "%s; the job continues with %d", text,
             p->ranks - p->lost);
    p->ops->say(p->user, line);
    return;
  }
  if (p->held) p->also_failed++;
  set_first(p, text, exit_status);
  if (!hold || p->hold_ms == 0) {
    begin_grace(p, now);
    return;
  }
  p->held = true;
  p->held_until = now + p->hold_ms;
}

void gli_run_policy_lost(gli_run_policy *p, uint64_t now, int ranks,
                         const char *text, int exit_status) {
  report(p, now, ranks, text, exit_status, false);
}

static bool was_forwarded(const gli_run_policy *p, int signum) {
  for (int i = 0; i < GLI_RUN_FORWARDED; i++) {
    if (gli_run_forwarded[i] == signum) return p->was_forwarded[i];
  }
  return false;
}

static bool kills_by_interrupt(const gli_run_policy *p) {
  return p->interrupts >= 3;
}

/* Replaces a rank that has failed, unless the job is ending. */
static bool replace(gli_run_policy *p, const gli_run_end *end,
                    const char *text) {
  if (p->failed || p->held || p->interrupts > 0) return false;
  if (end->signum != 0 && was_forwarded(p, end->signum)) return false;
  if (p->restarts >= p->max_restarts || !p->ops->replace(p->user, end->rank))
    return false;
  char line[sizeof p->first + 64];
  snprintf(line, sizeof line, "%s; another process takes its place (%d of %d)",
           text, ++p->restarts, p->max_restarts);
  p->ops->say(p->user, line);
  return true;
}

void gli_run_policy_ended(gli_run_policy *p, uint64_t now,
                          const gli_run_end *end) {
  if (end->status == 0 && end->signum == 0) return;
  char text[sizeof p->first], where[300] = "", how[128];
  if (end->host != NULL) snprintf(where, sizeof where, " on %s", end->host);
  if (end->signum == SIGKILL && kills_by_interrupt(p))
    snprintf(how, sizeof how, "killed by the third SIGINT or SIGTERM");
  else if (end->signum != 0)
    snprintf(how, sizeof how, "%s signal %d (%s)",
             was_forwarded(p, end->signum) ? "terminated by the forwarded"
                                           : "killed by",
             end->signum, strsignal(end->signum));
  else if (end->status < 0) /* an exception of Windows */
    snprintf(how, sizeof how, "exit status %#x", (unsigned)end->status);
  else
    snprintf(how, sizeof how, "exit status %d", end->status);
  snprintf(text, sizeof text, "rank %d (pid %d%s) failed: %s%s", end->rank,
           end->pid, where, how, end->memory);
  if (replace(p, end, text)) return;
  bool killed = end->signum != 0;
  report(p, now, 1, text, killed ? 128 + end->signum : end->status, !killed);
}

void gli_run_policy_stop(gli_run_policy *p, uint64_t now, const char *text,
                         int exit_status) {
  gli_run_policy_flush(p, now);
  if (!p->failed) {
    set_first(p, text, exit_status);
    begin_grace(p, now);
  }
  if (p->phase == GLI_RUN_GRACE) p->phase_ends = now;
}

/* ---- stopping ------------------------------------------------------------ */

static int count_running(const gli_run_policy *p) {
  int running = 0;
  for (int rank = 0; rank < p->ranks; rank++)
    running += p->ops->runs(p->user, rank);
  return running;
}

static void say_running(const gli_run_policy *p, const char *what) {
  char line[256];
  size_t used = 0;
  int running = count_running(p);
  used += (size_t)snprintf(line, sizeof line, "%s rank%s", what,
                           running == 1 ? "" : "s");
  int shown = 0;
  for (int rank = 0; rank < p->ranks && shown < RANKS_SHOWN; rank++) {
    if (!p->ops->runs(p->user, rank)) continue;
    used += (size_t)snprintf(line + used, sizeof line - used, "%s %d",
                             shown++ == 0 ? "" : ",", rank);
  }
  if (running > shown)
    snprintf(line + used, sizeof line - used, " and %d more", running - shown);
  p->ops->say(p->user, line);
}

void gli_run_policy_flush(gli_run_policy *p, uint64_t now) {
  if (p->held) begin_grace(p, now);
}

bool gli_run_policy_tick(gli_run_policy *p, uint64_t now) {
  if (p->held && now < p->held_until) return true;
  gli_run_policy_flush(p, now);
  bool waiting = p->phase == GLI_RUN_GRACE || p->phase == GLI_RUN_STOPPING;
  if (!waiting || now < p->phase_ends) return waiting;
  if (count_running(p) == 0) return false;
  if (p->phase == GLI_RUN_GRACE) {
    say_running(p, "stopping");
    p->ops->signal_all(p->user, SIGTERM);
    p->ops->signal_all(p->user, SIGCONT);
    p->phase = GLI_RUN_STOPPING;
    p->phase_ends =
        now + (p->grace_ms > MIN_TERM_MS ? p->grace_ms : (uint64_t)MIN_TERM_MS);
    return true;
  }
  say_running(p, "killing");
  p->ops->signal_all(p->user, SIGKILL);
  p->phase = GLI_RUN_KILLED;
  return false;
}

void gli_run_policy_signal(gli_run_policy *p, int signum) {
  for (int i = 0; i < GLI_RUN_FORWARDED; i++) {
    if (gli_run_forwarded[i] == signum) p->was_forwarded[i] = true;
  }
  if (signum == SIGINT || signum == SIGTERM) p->interrupts++;
  p->ops->signal_all(p->user, kills_by_interrupt(p) ? SIGKILL : signum);
  if (p->interrupts == 2 && count_running(p) > 0)
    say_running(p, "a third SIGINT or SIGTERM will kill");
}

void gli_run_policy_finish(const gli_run_policy *p, bool repeat) {
  char line[sizeof p->first + 64];
  if (p->also_failed > 0) {
    snprintf(line, sizeof line, "%d more failed afterwards", p->also_failed);
    p->ops->say(p->user, line);
  }
  if (!p->failed || !(repeat || p->also_failed > 0)) return;
  snprintf(line, sizeof line, "first failure: %s", p->first);
  p->ops->say(p->user, line);
}
