/* A job of four processes that meet again and again, while somebody works
 * against it: rounds of a new context, messages between all pairs, whose first
 * must connect, and collectives with known results. */
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
  JOB_TIMES = 4096, /* of new pairs, that are kept */
  JOB_QUIET = 2     /* rounds before anything happens */
};

#define JOB_NAME "the-job"
#define JOB_EPOCH 7

/* The name of a round's keys in the store. */
#define JOB_PREFIX "round %d/"

typedef struct job_options {
  const char *transport;
  const char *host;   /* of the store, which rank 0 serves */
  uint16_t port;      /* 0: any */
  const char *secret; /* NULL: none */
  const char *papers; /* folder of certificates; NULL: there are none */
  int files;          /* so many more may be open than are; 0: as many as may be
                       */
  bool holds; /* once, ranks wait between meeting and talking, until `held` is
                 taken back */
} job_options;

/* What a rank tells of itself. */
typedef struct job_rank {
  atomic_int rounds; /* that are over */
  atomic_int met;    /* the round whose context there is */
  atomic_bool waits; /* is held */
  atomic_bool ended;
  uint64_t key;       /* of that context: what others present to connect */
  uint64_t first_key; /* of the first one */
  gli_address address;
  gloo_status status;
  gloo_error error;
  size_t resident, resident_most; /* bytes, after the quiet rounds and since */
  int files, files_most;          /* open ones */
  int lines;                      /* in the log, warnings and worse */
  bool odd_line;                  /* with a control character */
  uint32_t n_times;
  uint32_t times_us[JOB_TIMES]; /* until a new pair has talked */
} job_rank;

/* In memory that all share. */
typedef struct victim {
  job_options options;
  atomic_uint port; /* of the store; 0: not known yet */
  atomic_bool held, stop;
  job_rank ranks[JOB_RANKS];
  pid_t processes[JOB_RANKS];
} victim;

/* Make it, and start it. One at a time; the environment says nothing of
 * secrets. */
victim *job_make(const job_options *options);
void job_start(victim *job);

/* Wait until it has done so many rounds, or has ended: false. It is given up
 * when it hangs. */
bool job_await(victim *job, int rounds);
int job_rounds(const victim *job);
bool job_ended(const victim *job);

/* Have it end, and wait for that. False: it hung, or a rank was killed. */
bool job_finish(victim *job);
void job_free(victim *job);

/* A client of its store, as a rank is. */
gloo_status job_open_store(const job_options *options, uint16_t port,
                           bool serve, gloo_store **store, gloo_error *error);

#endif
