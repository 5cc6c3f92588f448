#include "net/lookup.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "core/descriptor.h"
#include "core/error.h"
#include "core/exhaustion.h"
#include "core/log.h"
#include "core/signals.h"
#include "core/text.h"
#include "net/host_name.h"

#define SECOND_NS UINT64_C(1000000000)
#define NEVER UINT64_MAX
/* A look-up from a cache or a local server takes milliseconds. */
#define LEAST_NS INT64_C(200000000)

static uint64_t lookup_now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * SECOND_NS + (uint64_t)t.tv_nsec;
}

/* ---- one look-up --------------------------------------------------------- */

/* State of the resolving and the waiting thread. The last to finish frees
 * it. */
typedef struct lookup {
  pthread_mutex_t lock;
  pthread_cond_t answered;
  bool done, abandoned;
  int rc, code; /* results of getaddrinfo: its status, and errno */
  struct addrinfo hints, *list;
  char *port; /* stored after `host` */
  char host[];
} lookup;

static void lookup_ask(lookup *self) {
  self->rc = getaddrinfo(self->host, self->port, &self->hints, &self->list);
  self->code = errno;
}

static void lookup_free(lookup *self) {
  if (self->rc == 0 && self->list != NULL) freeaddrinfo(self->list);
  pthread_cond_destroy(&self->answered);
  pthread_mutex_destroy(&self->lock);
  free(self);
}

static void *lookup_run(void *argument) {
  lookup *self = argument;
  lookup_ask(self);
  pthread_mutex_lock(&self->lock);
  self->done = true;
  bool abandoned = self->abandoned;
  pthread_cond_signal(&self->answered);
  pthread_mutex_unlock(&self->lock);
  if (abandoned) lookup_free(self);
  return NULL;
}

static lookup *lookup_new(const char *host, const char *port, int type) {
  size_t host_bytes = strlen(host) + 1, port_bytes = strlen(port) + 1;
  pthread_condattr_t clock;
  lookup *self = calloc(1, sizeof *self + host_bytes + port_bytes);
  if (self == NULL) return NULL;
  memcpy(self->host, host, host_bytes);
  self->port = self->host + host_bytes;
  memcpy(self->port, port, port_bytes);
  self->hints = (struct addrinfo){
      .ai_family = AF_UNSPEC, .ai_socktype = type, .ai_flags = AI_NUMERICSERV};
  if (pthread_mutex_init(&self->lock, NULL) != 0) goto free_self;
  if (pthread_condattr_init(&clock) != 0) goto destroy_lock;
#if !defined(__APPLE__)
  (void)pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
#endif
  int rc = pthread_cond_init(&self->answered, &clock);
  pthread_condattr_destroy(&clock);
  if (rc == 0) return self;
destroy_lock:
  pthread_mutex_destroy(&self->lock);
free_self:
  free(self);
  return NULL;
}

/* Returns false after the timeout; the resolving thread then owns `self`. */
static bool lookup_await(lookup *self, int64_t timeout_ns) {
  struct timespec until;
#if defined(__APPLE__)
  clock_gettime(CLOCK_REALTIME, &until);
#else
  clock_gettime(CLOCK_MONOTONIC, &until);
#endif
  until.tv_sec += (time_t)(timeout_ns / (int64_t)SECOND_NS);
  until.tv_nsec += (long)(timeout_ns % (int64_t)SECOND_NS);
  if (until.tv_nsec >= (long)SECOND_NS) {
    until.tv_sec++;
    until.tv_nsec -= (long)SECOND_NS;
  }
  pthread_mutex_lock(&self->lock);
  int rc = 0;
  while (!self->done && rc == 0)
    rc = pthread_cond_timedwait(&self->answered, &self->lock, &until);
  bool done = self->done;
  self->abandoned = !done;
  pthread_mutex_unlock(&self->lock);
  return done;
}

/* Returns the errno of a local resource that ran out during a look-up, or 0.
 * The resolver does not always report it: without a descriptor for its query it
 * fails as if no server had answered, so try to open a socket. */
static int lookup_lack(int rc, int code) {
  if (rc == EAI_MEMORY) return ENOMEM;
  if (rc == EAI_SYSTEM) return gli_is_exhaustion(code) ? code : 0;
  int probe = gli_socket_open(AF_INET, SOCK_DGRAM);
  if (probe < 0) return gli_is_exhaustion(errno) ? errno : 0;
  gli_fd_close(probe);
  return 0;
}

static gloo_status lookup_explain(const char *what, const char *host, int rc,
                                  int code, gloo_error *error) {
  int lack = lookup_lack(rc, code);
  if (lack != 0)
    return gli_fail(error, gli_exhaustion_status(lack), -1,
                    "cannot look up %s '%.200s': %s", what, host,
                    gli_exhaustion_text(lack));
  return gli_fail(error, GLOO_ERR_ADDRESS, -1,
                  "%s '%.200s' does not resolve: %s", what, host,
                  rc == EAI_SYSTEM ? strerror(code) : gai_strerror(rc));
}

static bool lookup_figures(const char *host, const char *port, int type,
                           struct addrinfo **list) {
  struct addrinfo hints = {.ai_family = AF_UNSPEC,
                           .ai_socktype = type,
                           .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV};
  return getaddrinfo(host, port, &hints, list) == 0;
}

gloo_status gli_look_up(const char *what, const char *host, const char *port,
                        int type, int64_t timeout_ns, struct addrinfo **list,
                        gloo_error *error) {
  if (lookup_figures(host, port, type, list)) return GLOO_OK;
  const char *fault = gli_host_name_fault(host);
  if (fault != NULL)
    return gli_fail(error, GLOO_ERR_INVALID, -1, "%s '%.200s' %s", what, host,
                    fault);
  lookup *self = lookup_new(host, port, type);
  if (self == NULL)
    return gli_fail(error, GLOO_ERR_NO_MEMORY, -1, "no memory to look up %s",
                    what);
  if (timeout_ns >= 0 && timeout_ns < LEAST_NS) timeout_ns = LEAST_NS;
  if (timeout_ns < 0 || gli_thread_start(lookup_run, self) != 0) {
    lookup_ask(self);
  } else if (!lookup_await(self, timeout_ns)) {
    return gli_fail(error, GLOO_ERR_ADDRESS, -1,
                    "%s '%.200s' does not resolve: the system's resolver does "
                    "not answer; check /etc/resolv.conf and the network",
                    what, host);
  }
  gloo_status status = GLOO_OK;
  if (self->rc != 0) {
    status = lookup_explain(what, host, self->rc, self->code, error);
  } else {
    *list = self->list;
    self->list = NULL;
  }
  lookup_free(self);
  return status;
}

/* ---- trying again -------------------------------------------------------- */

enum { PAUSE_MIN_MS = 5, PAUSE_SOON_MS = 10, PAUSE_MAX_MS = 200 };

gli_retry gli_retry_begin(int64_t timeout_ns) {
  uint64_t now = lookup_now_ns(), deadline = NEVER;
  if (timeout_ns >= 0 && (uint64_t)timeout_ns < NEVER - now)
    deadline = now + (uint64_t)timeout_ns;
  return (gli_retry){
      .began_ns = now, .deadline_ns = deadline, .pause_ms = PAUSE_MIN_MS};
}

int64_t gli_retry_left(const gli_retry *retry) {
  if (retry->deadline_ns == NEVER) return -1;
  uint64_t now = lookup_now_ns();
  if (now >= retry->deadline_ns) return 0;
  uint64_t left = retry->deadline_ns - now;
  return left > INT64_MAX ? INT64_MAX : (int64_t)left;
}

bool gli_retry_is_long(const gli_retry *retry) {
  return !retry->told &&
         lookup_now_ns() - retry->began_ns >= (uint64_t)GLI_LONG_WAIT_NS;
}

void gli_retry_tell(gli_retry *retry, const gloo_error *cause) {
  int64_t left = gli_retry_left(retry);
  retry->told = true;
  gli_log(GLOO_LOG_WARN, "%s; still waiting, %s%s", cause->message,
          left < 0 ? "without a limit" : "for at most ",
          left < 0 ? "" : gli_duration(left).text);
}

bool gli_retry_pause(gli_retry *retry, const gloo_error *cause) {
  int64_t left = gli_retry_left(retry);
  if (left == 0) return false;
  if (gli_retry_is_long(retry)) gli_retry_tell(retry, cause);
  unsigned ms = retry->pause_ms;
  if (left > 0 && (int64_t)ms * 1000000 > left)
    ms = (unsigned)(left / 1000000) + 1;
  struct timespec pause = {.tv_sec = 0, .tv_nsec = (long)ms * 1000000};
  nanosleep(&pause, NULL);
  bool soon = lookup_now_ns() - retry->began_ns < SECOND_NS;
  unsigned longest = soon ? PAUSE_SOON_MS : PAUSE_MAX_MS;
  retry->pause_ms =
      retry->pause_ms * 2 < longest ? retry->pause_ms * 2 : longest;
  return true;
}

gloo_status gli_look_up_patiently(const char *what, const char *host,
                                  const char *port, int type, gli_retry *retry,
                                  struct addrinfo **list, gloo_error *error) {
  for (;;) {
    gloo_error cause;
    gloo_status status = gli_look_up(what, host, port, type,
                                     gli_retry_left(retry), list, &cause);
    if (status == GLOO_OK) return status;
    if (status != GLOO_ERR_ADDRESS || !gli_retry_pause(retry, &cause)) {
      if (error != NULL) *error = cause;
      return status;
    }
  }
}
