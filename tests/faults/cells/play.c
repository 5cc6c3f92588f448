/* Plays a cell: starts its ranks, triggers the fault, waits for the remaining
 * ranks and judges the result of each. */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cell.h"

/* Generous limits for busy machines: only a permanent hang may exceed them. */
static const int64_t patience_ns = 40000000000, lasts_ns = 300000000;

const char *const cell_over_names[CELL_OVERS] = {"tcp", "shm", "hosts"};

/* ---- time and chance ----------------------------------------------------- */

uint64_t cell_now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

void cell_nap_ns(int64_t ns) {
  struct timespec t = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)};
  while (nanosleep(&t, &t) != 0) continue;
}

unsigned cell_random(unsigned *state, unsigned below) {
  *state = *state * 1664525u + 1013904223u;
  return (unsigned)(((uint64_t)(*state >> 4) * below) >> 28);
}

/* ---- derived from the seed ----------------------------------------------- */

void cell_draw(cell *c) {
  unsigned random = c->seed * 2246822519u + (unsigned)c->kind * 374761393u +
                    (unsigned)(c->fault - cell_faults) * 668265263u;
  (void)cell_random(&random, 2);
  unsigned ranks = CELL_MIN_RANKS +
                   cell_random(&random, CELL_MAX_RANKS - CELL_MIN_RANKS + 1);
  c->ranks = (int)ranks;
  c->victim = (int)cell_random(&random, ranks);
  /* With an odd number of ranks the last one has no partner in pairs, so it
   * cannot deviate. */
  if (c->fault->departure != CELL_NONE && c->victim == c->ranks - 1)
    c->victim = 0;
  c->delay_ns = cell_random(&random, c->fault->early ? 20000000 : 60000000);
  if (c->fault->settled) c->delay_ns += 200000000;
  c->before_start = cell_random(&random, 2) == 0 && c->fault->at_start;
  /* The rank at fault is on the other host, alone or with every second rank. */
  c->others = 1u << c->victim;
  if (cell_random(&random, 2) == 0) return;
  for (int r = 0; r < c->ranks; r++)
    if ((r - c->victim) % 2 == 0) c->others |= 1u << r;
}

pid_t cell_other_host;

bool cell_is_there(const cell *c, int rank) {
  return c->over == CELL_HOSTS && (c->others >> rank & 1) != 0;
}

/* ---- running ranks ------------------------------------------------------- */

static void begin_rank(cell_run *run, int rank) {
  run->pids[rank] = fork();
  if (run->pids[rank] < 0) abort();
  if (run->pids[rank] > 0) return;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (cell_is_there(run->c, rank)) cell_enter_other_host();
  _exit(cell_rank(run->c, rank, run->directory, run->board));
}

static void begin(cell_run *run, const cell *c) {
  *run = (cell_run){.c = c, .directory = "/tmp/gloo_c_cell_XXXXXX"};
  run->board = mmap(NULL, sizeof *run->board, PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (run->board == MAP_FAILED || mkdtemp(run->directory) == NULL) abort();
  cell_store_begin(run);
  for (int rank = 0; rank < c->ranks; rank++) begin_rank(run, rank);
}

static void reap(cell_run *run) {
  for (int rank = 0; rank < run->c->ranks; rank++) {
    if (run->pids[rank] == 0) continue;
    if (waitpid(run->pids[rank], &run->exits[rank], WNOHANG) > 0)
      run->pids[rank] = 0;
  }
}

static bool all_work(const cell_run *run) {
  for (int rank = 0; rank < run->c->ranks; rank++)
    if (run->pids[rank] != 0 && !atomic_load(&run->board->notes[rank].works))
      return false;
  return true;
}

static bool is_expected(const cell *c, int rank) {
  if (c->fault->named == CELL_OTHER_SIDE && !c->fault->victim_lives)
    return !cell_is_there(c, rank); /* the whole host is lost */
  return rank != c->victim || c->fault->victim_lives;
}

static bool all_have_ended(const cell_run *run) {
  for (int rank = 0; rank < run->c->ranks; rank++)
    if (run->pids[rank] != 0 && is_expected(run->c, rank)) return false;
  return true;
}

/* Returns true if the state was reached in time. */
static bool wait_until(cell_run *run, bool (*reached)(const cell_run *),
                       int64_t longest_ns) {
  uint64_t end_ns = cell_now_ns() + (uint64_t)longest_ns;
  for (;;) {
    reap(run);
    if (reached(run)) return true;
    if (cell_now_ns() > end_ns) return false;
    cell_nap_ns(1000000);
  }
}

/* Kills the ranks that still run: they are not needed, or hang. */
static void end_all(cell_run *run) {
  for (int rank = 0; rank < run->c->ranks; rank++) {
    if (run->pids[rank] == 0) continue;
    run->killed[rank] = true;
    (void)kill(run->pids[rank], SIGKILL);
    (void)waitpid(run->pids[rank], &run->exits[rank], 0);
    run->pids[rank] = 0;
  }
}

static void strike(cell_run *run) {
  const cell_fault *fault = run->c->fault;
  if (!run->c->before_start) {
    cell_nap_ns(run->c->delay_ns);
    atomic_store(&run->board->struck_ns, cell_now_ns());
    if (fault->strike != NULL) fault->strike(run);
  }
  atomic_store(&run->board->struck, true);
}

static void play(cell_run *run) {
  const cell_fault *fault = run->c->fault;
  bool ended = fault->early || wait_until(run, all_work, patience_ns);
  strike(run);
  if (ended && fault->outcome == CELL_ENDS) {
    ended = wait_until(run, all_have_ended, fault->promised_ns + patience_ns);
  } else {
    cell_nap_ns(lasts_ns);
  }
  if (fault->heal != NULL) fault->heal(run);
  /* Ranks with an error have ended; the others continue or hang. */
  atomic_store(&run->board->stop, true);
  (void)wait_until(run, all_have_ended, patience_ns);
  end_all(run);
  cell_store_end(run);
}

static void clean_up(cell_run *run) {
  char line[64];
  (void)snprintf(line, sizeof line, "rm -rf %s", run->directory);
  if (system(line) != 0) fprintf(stderr, "# %s is left\n", run->directory);
  munmap(run->board, sizeof *run->board);
}

/* ---- verdicts ------------------------------------------------------------ */

typedef enum verdict {
  FINE,   /* no error, and none expected */
  RIGHT,  /* an error that names a rank at fault */
  NOBODY, /* an error without a rank */
  INNOCENT,
  DEAF,  /* no error, but one expected */
  ALARM, /* an unexpected error */
  WRONG,
  CHANGED, /* later calls return another cause */
  HANG,
  CRASH,
  VERDICTS
} verdict;
static const char *const verdict_names[VERDICTS] = {
    "fine",  "right", "nobody",  "innocent", "deaf",
    "alarm", "wrong", "changed", "hang",     "crash"};

static bool is_at_fault(const cell *c, int teller, int named) {
  if (c->fault->named == CELL_ANY || named == c->victim) return true;
  /* With two ranks, neither can tell which of them deviates. */
  if (c->fault->departure != CELL_NONE && c->ranks == 2) return true;
  if (c->fault->named == CELL_VICTIM) return false;
  if (c->fault->named == CELL_VICTIM_DEAF) return teller == c->victim;
  return cell_is_there(c, named) != cell_is_there(c, teller);
}

static verdict judge_words(const cell_run *run, int rank) {
  const cell_note *note = &run->board->notes[rank];
  cell_outcome outcome = run->c->fault->outcome;
  if (note->wrong) return WRONG;
  if (note->changed) return CHANGED;
  if (note->cause == GLOO_OK) return outcome == CELL_ENDS ? DEAF : FINE;
  if (outcome == CELL_GOES_ON) return ALARM;
  if (note->named < 0) return NOBODY;
  return is_at_fault(run->c, rank, note->named) ? RIGHT : INNOCENT;
}

static verdict judge(const cell_run *run, int rank) {
  if (run->killed[rank]) return HANG;
  if (!WIFEXITED(run->exits[rank]) || WEXITSTATUS(run->exits[rank]) != 0 ||
      !atomic_load(&run->board->notes[rank].ended))
    return CRASH;
  return judge_words(run, rank);
}

static bool is_as_promised(verdict v) {
  return v < INNOCENT;
}

static double told_after_ms(const cell_run *run, int rank) {
  const cell_note *note = &run->board->notes[rank];
  uint64_t struck_ns = atomic_load(&run->board->struck_ns);
  if (note->at_ns < struck_ns) return 0; /* the fault was still in progress */
  return (double)(note->at_ns - struck_ns) / 1e6;
}

/* Writes one line for each rank that must get an error. */
static void record(const cell_run *run, int rank, verdict v, FILE *to) {
  const cell *c = run->c;
  const cell_note *note = &run->board->notes[rank];
  bool told = v == RIGHT || v == NOBODY || v == INNOCENT || v == ALARM;
  fprintf(to, "%s\t%s\t%s\t%u\t%d\t%d\t%d\t%s\t%d\t%d\t%.3f\t%.3f\t%.0f\n",
          c->fault->name, cell_call_names[c->kind], cell_over_names[c->over],
          c->seed, c->ranks, c->victim, rank, verdict_names[v], note->cause,
          note->named, told ? told_after_ms(run, rank) : -1,
          (double)note->leaving_ns / 1e6, (double)c->fault->promised_ns / 1e6);
}

static void tell(const cell_run *run, int rank, verdict v) {
  const cell_note *note = &run->board->notes[rank];
  printf(
      "# rank %d of %d: %s (status %#x, %u calls), %.0f ms after rank %d: "
      "%s\n",
      rank, run->c->ranks, verdict_names[v], (unsigned)run->exits[rank],
      note->calls, told_after_ms(run, rank), run->c->victim, note->text);
}

static bool judge_all(const cell_run *run, FILE *records) {
  const cell *c = run->c;
  verdict all[CELL_MAX_RANKS];
  bool good = true;
  for (int rank = 0; rank < c->ranks; rank++) {
    if (!is_expected(c, rank)) continue;
    all[rank] = judge(run, rank);
    if (records != NULL) record(run, rank, all[rank], records);
    good = good && is_as_promised(all[rank]);
  }
  for (int rank = 0; rank < c->ranks && !good; rank++)
    if (is_expected(c, rank)) tell(run, rank, all[rank]);
  return good;
}

bool cell_play(const cell *c, FILE *records) {
  cell_run run;
  begin(&run, c);
  play(&run);
  bool good = judge_all(&run, records);
  clean_up(&run);
  return good;
}
