/* A job of four processes that repeats rounds while a peer attacks it: a new
 * context, messages between all pairs, the first of which connects, and
 * collectives with known results. */
#ifndef TESTS_SECURITY_HOSTILE_JOB_H
#define TESTS_SECURITY_HOSTILE_JOB_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "gloo_c/gloo_c.h"
#include "transport/transport.h"

enum {
  JOB_RANKS = 4,
  JOB_TIMES = 4096, /* recorded times of new pairs */
  JOB_QUIET = 2     /* rounds before the attack */
};

#define JOB_NAME "the-job"
#define JOB_EPOCH 7

/* Prefix of a round's keys in the store. */
#define JOB_PREFIX "round %d/"

typedef struct job_options {
  const char *transport;
  const char *host;   /* host of the store, served by rank 0 */
  uint16_t port;      /* 0: any */
  const char *secret; /* NULL: none */
  const char *papers; /* folder of certificates; NULL: none */
  int files;          /* descriptors allowed in addition; 0: no limit */
  bool holds; /* ranks wait once between meeting and talking, until `held` is
               * cleared */
} job_options;

/* Results of a rank. */
typedef struct job_rank {
  atomic_int rounds; /* completed */
  atomic_int met;    /* round of the current context */
  atomic_bool waits; /* waits while `held` */
  atomic_bool ended;
  uint64_t key;       /* key of the current context, sent in hellos to this
                       * rank */
  uint64_t first_key; /* key of the first context */
  gli_address address;
  gloo_status status;
  gloo_error error;
  size_t resident, resident_most; /* bytes, after the quiet rounds and since */
  int files, files_most;          /* open descriptors */
  int lines;                      /* lines in the log, warnings and errors */
  bool odd_line;                  /* a line contains a control character */
  uint32_t n_times;
  uint32_t times_us[JOB_TIMES]; /* until a new pair has exchanged a message */
} job_rank;

/* State in memory shared by the driver and all ranks. */
typedef struct victim {
  job_options options;
  atomic_uint port; /* port of the store; 0: unknown yet */
  atomic_bool held, stop;
  job_rank ranks[JOB_RANKS];
  pid_t processes[JOB_RANKS];
} victim;

/* job_make() creates a job, and job_start() starts it. Only one job exists at a
 * time. The caller must remove secrets from the environment. */
victim *job_make(const job_options *options);
void job_start(victim *job);

/* Waits until the job has completed `rounds` rounds. Returns false if it has
 * ended or hangs. */
bool job_await(victim *job, int rounds);
int job_rounds(const victim *job);
bool job_ended(const victim *job);

/* Ends the job and waits for it. Returns false if it hung or a rank was
 * killed. */
bool job_finish(victim *job);
void job_free(victim *job);

/* Opens a client of the job's store, as a rank does. */
gloo_status job_open_store(const job_options *options, uint16_t port,
                           bool serve, gloo_store **store, gloo_error *error);

#endif
