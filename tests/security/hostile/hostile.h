/* Hostile peers: each one works on one listening end of a running job, from a
 * process of its own. */
#ifndef TESTS_SECURITY_HOSTILE_HOSTILE_H
#define TESTS_SECURITY_HOSTILE_HOSTILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "job.h"

/* Where they work. */
typedef enum hostile_end {
  HOSTILE_STORE, /* the port of rank 0's store; the job has a secret */
  HOSTILE_LOCAL, /* the store without one, and its abstract socket */
  HOSTILE_TCP,   /* the ranks' TCP listeners */
  HOSTILE_SHM,   /* the ranks' abstract sockets */
  HOSTILE_TLS    /* store and listeners of a job with certificates */
} hostile_end;

typedef enum hostile_flag {
  HOSTILE_NOBODY = 1, /* is another user: takes root */
  HOSTILE_HOLDS = 2,  /* begins when ranks have met, and not talked */
  HOSTILE_BEFORE = 4, /* begins before the job */
  HOSTILE_QUIET = 8   /* and nothing of it is to be in the log */
} hostile_flag;

typedef struct hostile hostile;

typedef struct hostile_peer {
  const char *name;
  void (*act)(hostile *h);
  size_t number; /* for `act` */
  unsigned flags;
  int files; /* see job_options */
  /* What the job ends with: GLOO_OK, or this on all ranks (HOSTILE_ANY: with
   * some error on each), which names a rank and has these words. */
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

/* What it has: all that is to be known without the secret, and the secret for
 * those that play a member. */
struct hostile {
  const hostile_peer *peer;
  victim *job;
  uint16_t port; /* of the store */
  int began;     /* rounds that were over then */
  int ready;     /* a pipe, see hostile_begin */
  char *said;    /* what went wrong, of HOSTILE_SAID bytes */
};

enum { HOSTILE_ANY = 1, HOSTILE_SAID = 256, HOSTILE_SKIPS = 77 };

#define HOSTILE_SECRET "the secret of this job, of 40 characters"
#define HOSTILE_OTHER "the secret of that job, of 40 characters"

/* The test fails, with this, unless `holds`. */
void hostile_demand(hostile *h, bool holds, const char *what);
/* Not here, and why. */
void hostile_skip(hostile *h, const char *why);

/* Until the job has done a few more rounds, or has ended. */
bool hostile_goes_on(hostile *h);
/* Of one that is there before the job: all is ready, the job may start. */
void hostile_begin(hostile *h);

/* All ranks are held: from now on their contexts stay. And let them go. */
void hostile_await_held(hostile *h);
void hostile_release(hostile *h);

/* ---- plain sockets ------------------------------------------------------- */

/* They give up after 20 s. -1: there was none to be had. */
int hostile_connect_tcp(uint16_t port);
int hostile_connect_local(uint16_t port); /* the store's abstract socket */
struct sockaddr_un hostile_local_name(uint16_t port, socklen_t *bytes);
int hostile_connect_shm(const hostile *h, int rank);

/* Whether it was taken, or the other side closes, is the same. */
void hostile_send(int fd, const void *data, size_t bytes);
/* False: it closed before, or nothing came for 20 s. */
bool hostile_read(int fd, void *to, size_t bytes);
/* The other side closes; what it says before is dropped. Closes fd. */
bool hostile_is_closed(int fd);
bool hostile_is_closed_saying(int fd, char *text, size_t room);

/* Open `n` connections by `open`, release the job where it is held, and keep
 * them to the last round; what is hung up on is opened again. `open` returns -1
 * where there is none at the moment. */
typedef int (*hostile_open)(hostile *h, size_t i);
void hostile_crowd(hostile *h, size_t n, hostile_open open);
/* As fast as they can be had, each closed at once. */
void hostile_churn(hostile *h, hostile_open open);

/* Bytes that mean nothing, the same each time. */
void hostile_garbage(uint8_t *to, size_t bytes);

/* ---- somebody in between ------------------------------------------------- */

/* Passes on what a client and the store say to each other, and remembers what
 * the client says; one byte is changed (SIZE_MAX: none). */
typedef struct hostile_relay {
  uint16_t port; /* its own */
  uint16_t store;
  int from; /* 0: the client's bytes are changed; 1: the store's */
  size_t changed;
  uint8_t said[2048];
  size_t n_said;
  int listener;
  void *thread;
} hostile_relay;

void hostile_relay_start(hostile_relay *relay);
void hostile_relay_join(hostile_relay *relay);

#endif
