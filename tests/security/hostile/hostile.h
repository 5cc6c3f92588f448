/* Hostile peers: each attacks one listening end of a running job, from a
 * separate process. */
#ifndef TESTS_SECURITY_HOSTILE_HOSTILE_H
#define TESTS_SECURITY_HOSTILE_HOSTILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "job.h"

/* The end under attack. */
typedef enum hostile_end {
  HOSTILE_STORE, /* port of rank 0's store, in a job with a secret */
  HOSTILE_LOCAL, /* the store of a job without one, and its abstract socket */
  HOSTILE_TCP,   /* the ranks' TCP listeners */
  HOSTILE_SHM,   /* the ranks' abstract sockets */
  HOSTILE_TLS    /* store and listeners of a job with certificates */
} hostile_end;

typedef enum hostile_flag {
  HOSTILE_NOBODY = 1, /* the peer is another user: needs root */
  HOSTILE_HOLDS = 2,  /* begins when ranks have met, before they talk */
  HOSTILE_BEFORE = 4, /* begins before the job */
  HOSTILE_QUIET = 8   /* the log must not mention it */
} hostile_flag;

typedef struct hostile hostile;

typedef struct hostile_peer {
  const char *name;
  void (*act)(hostile *h);
  size_t number; /* parameter of `act` */
  unsigned flags;
  int files; /* job_options.files */
  /* Expected result of the job: GLOO_OK, or this status on all ranks
   * (HOSTILE_ANY: an error on each), naming rank `blames` and containing
   * `words`. */
  int status;
  int blames;
  const char *words;
} hostile_peer;

#define PEER(its_name, ...) \
  { .name = its_name, .act = __VA_ARGS__ }

typedef struct hostile_list {
  hostile_end end;
  const hostile_peer *peers;
  size_t n;
} hostile_list;

extern const hostile_list hostile_store_list, hostile_local_list,
    hostile_tcp_list, hostile_shm_list, hostile_tls_list,
    hostile_tls_store_list;

/* State of a peer: all that is known without the secret, and the secret for
 * peers that act as a member. */
struct hostile {
  const hostile_peer *peer;
  victim *job;
  uint16_t port; /* port of the store */
  int began;     /* rounds completed at the start */
  int ready;     /* pipe of hostile_begin() */
  char *said;    /* failure text of HOSTILE_SAID bytes */
};

enum { HOSTILE_ANY = 1, HOSTILE_SAID = 256, HOSTILE_SKIPS = 77 };

#define HOSTILE_SECRET "the secret of this job, of 40 characters"
#define HOSTILE_OTHER "the secret of that job, of 40 characters"

/* Fails the test with this text unless `holds`. */
void hostile_demand(hostile *h, bool holds, const char *what);
/* Skips the peer for this reason. */
void hostile_skip(hostile *h, const char *why);

/* Returns true until the job has completed a few more rounds, or has ended. */
bool hostile_goes_on(hostile *h);
/* Called by a peer that precedes the job: lets the job start. */
void hostile_begin(hostile *h);

/* Waits until all ranks are held: their contexts stay until
 * hostile_release(). */
void hostile_await_held(hostile *h);
void hostile_release(hostile *h);

/* ---- plain sockets ------------------------------------------------------- */

/* Connects, with a timeout of 20 s. Returns -1 on failure. */
int hostile_connect_tcp(uint16_t port);
int hostile_connect_local(uint16_t port); /* the store's abstract socket */
struct sockaddr_un hostile_local_name(uint16_t port, socklen_t *bytes);
int hostile_connect_shm(const hostile *h, int rank);

/* Sends; errors are ignored, since the peer may close at any time. */
void hostile_send(int fd, const void *data, size_t bytes);
/* Returns false if the peer closed early, or sent nothing for 20 s. */
bool hostile_read(int fd, void *to, size_t bytes);
/* Returns true if the peer closes; discards the data before. Closes fd. */
bool hostile_is_closed(int fd);
bool hostile_is_closed_saying(int fd, char *text, size_t room);

/* Opens `n` connections by `open`, releases the job if it is held, keeps the
 * connections to the last round and replaces those that are closed. `open`
 * returns -1 if it cannot connect at the moment. */
typedef int (*hostile_open)(hostile *h, size_t i);
void hostile_crowd(hostile *h, size_t n, hostile_open open);
/* Opens connections as fast as possible, and closes each at once. */
void hostile_churn(hostile *h, hostile_open open);

/* Fills a buffer with pseudorandom bytes, the same in each run. */
void hostile_garbage(uint8_t *to, size_t bytes);

/* ---- a man in the middle ------------------------------------------------- */

/* Forwards between a client and the store, records the client's bytes, and
 * changes one byte (SIZE_MAX: none). */
typedef struct hostile_relay {
  uint16_t port; /* port of the relay */
  uint16_t store;
  int from; /* 0: change the client's bytes; 1: the store's */
  size_t changed;
  uint8_t said[2048];
  size_t n_said;
  int listener;
  void *thread;
} hostile_relay;

void hostile_relay_start(hostile_relay *relay);
void hostile_relay_join(hostile_relay *relay);

#endif
