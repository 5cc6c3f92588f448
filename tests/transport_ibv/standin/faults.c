/* Counters of calls, and injected faults. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "standin.h"

static const struct call_kind {
  const char *name;
  int code;
} kinds[STANDIN_N_CALLS] = {
#define STANDIN_CALL(name, code) {#name, code},
    STANDIN_CALLS(STANDIN_CALL)
#undef STANDIN_CALL
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static unsigned long counts[STANDIN_N_CALLS];
static struct call_fault {
  standin_call call; /* STANDIN_N_CALLS: none */
  unsigned long n;
  bool on; /* all later calls fail, too */
  int code;
} fault;
static uint64_t random_state;
static bool strict, tidy, prompt;
static pthread_mutex_t slow_lock = PTHREAD_MUTEX_INITIALIZER;
static int calls_held, n_held; /* by bits; number of waiting calls */

void standin_die(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fputs("standin: ", stderr);
  vfprintf(stderr, format, arguments);
  fputc('\n', stderr);
  va_end(arguments);
  abort();
}

/* ---- what the environment asks for --------------------------------------- */

static standin_call call_of(const char *name, size_t length) {
  for (int i = 0; i < STANDIN_N_CALLS; i++)
    if (strlen(kinds[i].name) == length &&
        memcmp(kinds[i].name, name, length) == 0)
      return (standin_call)i;
  standin_die("STANDIN_FAIL names no call that there is: %s", name);
}

static void read_fault(const char *text) {
  fault.call = STANDIN_N_CALLS;
  if (text == NULL || text[0] == '\0') return;
  if (strncmp(text, "event:", 6) == 0) text += 6;
  size_t length = strcspn(text, ":@");
  fault.call = call_of(text, length);
  fault.code = kinds[fault.call].code;
  char *end;
  fault.n = strtoul(text + length + (text[length] != '\0'), &end, 10);
  if (fault.n == 0) standin_die("STANDIN_FAIL says no number: %s", text);
  fault.on = *end == '+';
  end += fault.on;
  if (*end == ':') fault.code = atoi(end + 1);
}

static void fork_before(void) {
  pthread_mutex_lock(&standin_lock);
  pthread_mutex_lock(&slow_lock);
}

static void fork_after(void) {
  pthread_mutex_unlock(&slow_lock);
  pthread_mutex_unlock(&standin_lock);
}

/* Existing objects belong to the parent. */
static void fork_child(void) {
  standin_forget();
  standin_qps_forget();
  standin_wire_forget();
  calls_held = n_held = 0;
  pthread_mutex_unlock(&slow_lock);
  pthread_mutex_unlock(&standin_lock);
}

static void read_environment(void) {
  const char *seed = getenv("STANDIN_SEED"), *text = getenv("STANDIN_STRICT");
  random_state = UINT64_C(88172645463325252);
  if (seed != NULL) random_state += strtoul(seed, NULL, 10) * 2654435761u;
  strict = text != NULL && text[0] == '1';
  tidy = strict || (text != NULL && strcmp(text, "exit") == 0);
  text = getenv("STANDIN_PROMPT");
  prompt = text != NULL && text[0] == '1';
  read_fault(getenv("STANDIN_FAIL"));
  pthread_atfork(fork_before, fork_after, fork_child);
}

/* ---- calls --------------------------------------------------------------- */

int standin_happens(standin_call call) {
  unsigned long n = ++counts[call];
  bool fails = n == fault.n || (fault.on && n > fault.n);
  return call == fault.call && fails ? fault.code : 0;
}

int standin_enter(standin_call call) {
  pthread_once(&once, read_environment);
  pthread_mutex_lock(&standin_lock);
  return standin_happens(call);
}

void standin_leave(void) {
  pthread_mutex_unlock(&standin_lock);
}

__attribute__((visibility("default"))) unsigned long standin_calls(
    const char *name) {
  pthread_mutex_lock(&standin_lock);
  unsigned long n = counts[call_of(name, strlen(name))];
  pthread_mutex_unlock(&standin_lock);
  return n;
}

/* ---- slow calls ---------------------------------------------------------- */

__attribute__((visibility("default"))) void standin_hold(int calls) {
  pthread_mutex_lock(&slow_lock);
  calls_held = calls;
  pthread_mutex_unlock(&slow_lock);
}

__attribute__((visibility("default"))) int standin_held(void) {
  pthread_mutex_lock(&slow_lock);
  int n = n_held;
  pthread_mutex_unlock(&slow_lock);
  return n;
}

static void nap(unsigned long ms) {
  nanosleep(&(struct timespec){.tv_sec = (time_t)(ms / 1000),
                               .tv_nsec = (long)(ms % 1000) * 1000000},
            NULL);
}

void standin_slow(int call, unsigned long ms) {
  if (ms > 0) nap(ms);
  pthread_mutex_lock(&slow_lock);
  n_held++;
  while (calls_held & call) {
    pthread_mutex_unlock(&slow_lock);
    nap(1);
    pthread_mutex_lock(&slow_lock);
  }
  n_held--;
  pthread_mutex_unlock(&slow_lock);
}

bool standin_spares(void) {
  return fault.call != STANDIN_N_CALLS && counts[fault.call] >= fault.n;
}

bool standin_is_strict(void) {
  return strict;
}

bool standin_is_prompt(void) {
  return prompt;
}

unsigned standin_random(unsigned below) {
  random_state ^= random_state << 13;
  random_state ^= random_state >> 7;
  random_state ^= random_state << 17;
  return (unsigned)(random_state >> 32) % below;
}

uint64_t standin_now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- the end ------------------------------------------------------------- */

static void write_counts(const char *path) {
  FILE *file = fopen(path, "w");
  if (file == NULL) standin_die("%s cannot be written", path);
  for (int i = 0; i < STANDIN_N_CALLS; i++)
    fprintf(file, "%s %lu\n", kinds[i].name, counts[i]);
  fprintf(file, "delivered %lu\nrefused %lu\ninlined %lu\nreads %lu\n",
          standin_delivered, standin_refused, standin_inlined, standin_reads);
  fprintf(file, "vectors %d\n", __builtin_popcountl(standin_vectors));
  fclose(file);
}

static __attribute__((destructor)) void end(void) {
  const char *path = getenv("STANDIN_COUNT");
  if (path != NULL && path[0] != '\0') write_counts(path);
  if (!tidy) return;
  int left = standin_objects();
  bool idle = standin_delivered == 0 && fault.call == STANDIN_N_CALLS;
  if (left == 0 && !idle) return;
  fprintf(stderr,
          "standin: %lu messages went through it, %d objects are left\n",
          standin_delivered, left);
  _exit(99);
}
