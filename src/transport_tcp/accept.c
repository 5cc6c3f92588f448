/* Incoming connections, until they have said which rank they are from. A
 * half-open connection may send one hello and nothing else, within a few
 * seconds, and there are few of them at a time: strangers cost next to nothing
 * and disturb no rank. */
#include <errno.h>
#include <stdlib.h>
#include <sys/uio.h>

#include "core/descriptor.h"
#include "core/lack.h"
#include "core/log.h"
#include "transport_tcp/socket.h"
#include "transport_tcp/tcp.h"

enum { HALF_OPEN_MAX = 64, ACCEPTS_PER_TURN = 64 };
static const uint64_t half_open_limit_ns = 5000000000;
static const uint64_t half_open_oversubscribed_limit_ns = 1000000000;

struct gli_tcp_half_open {
  gli_tcp *t;
  gli_tcp_watch *watch;
  gli_tcp_half_open *next, **link;
  uint64_t since_ns;
  size_t bytes;
  uint8_t hello[GLI_TCP_HELLO_BYTES];
};

/* ---- half-open connections ----------------------------------------------- */

static void half_open_add(gli_tcp *t, gli_tcp_half_open *half_open) {
  half_open->next = t->half_opens;
  half_open->link = &t->half_opens;
  if (half_open->next != NULL) half_open->next->link = &half_open->next;
  t->half_opens = half_open;
  t->half_open_count++;
}

/* The watch, if any is left, is not touched. */
static void half_open_forget(gli_tcp_half_open *half_open) {
  *half_open->link = half_open->next;
  if (half_open->next != NULL) half_open->next->link = half_open->link;
  half_open->t->half_open_count--;
  free(half_open);
}

static void half_open_refuse(gli_tcp_half_open *half_open, const char *why) {
  gli_tcp *t = half_open->t;
  t->refused_count++;
  if (gli_log_enabled(GLOO_LOG_INFO)) {
    char text[GLI_ENDPOINT_TEXT_BYTES] = "an unknown address";
    gli_endpoint from;
    socklen_t bytes = sizeof from;
    if (getpeername(half_open->watch->fd, &from.any, &bytes) == 0) {
      gli_endpoint_unmap(&from);
      gli_endpoint_text(&from, text);
    }
    gli_log(GLOO_LOG_INFO,
            "tcp: refused a connection from %s: %s (%llu so far)", text, why,
            (unsigned long long)t->refused_count);
  }
  gli_tcp_watch_close(half_open->watch);
  half_open_forget(half_open);
}

static void half_open_drop_older(gli_tcp *t, uint64_t now_ns, uint64_t age_ns) {
  gli_tcp_half_open *next;
  for (gli_tcp_half_open *half_open = t->half_opens; half_open != NULL;
       half_open = next) {
    next = half_open->next;
    if (now_ns >= half_open->since_ns + age_ns)
      half_open_refuse(half_open,
                       "it did not say in time which rank it is from");
  }
}

void gli_tcp_half_open_expire(gli_tcp *t, uint64_t now_ns) {
  half_open_drop_older(t, now_ns, half_open_limit_ns);
  for (gli_tcp_half_open *g = t->half_opens; g != NULL; g = g->next)
    gli_tcp_schedule(t, g->since_ns + half_open_limit_ns);
}

void gli_tcp_half_open_close(gli_tcp *t) {
  while (t->half_opens != NULL) {
    gli_tcp_watch_close(t->half_opens->watch);
    half_open_forget(t->half_opens);
  }
}

/* ---- hello --------------------------------------------------------------- */

/* Closed here, but still delivering, and the peer has only now come to it. */
static gli_tcp_pair *tcp_find_leaving(gli_tcp *t, const gli_tcp_hello *hello) {
  for (gli_tcp_pair *pair = t->leaving; pair != NULL; pair = pair->next) {
    if (pair->config.local_key != hello->key) continue;
    if (pair->config.peer_rank == hello->from) return pair;
  }
  return NULL;
}

/* NULL with the answer that refuses. */
static gli_tcp_pair *tcp_find_pair(gli_tcp *t, const gli_tcp_hello *hello,
                                   gli_tcp_answer *refusal) {
  *refusal = GLI_TCP_UNKNOWN;
  gli_tcp_pair *pair = tcp_find_leaving(t, hello);
  if (pair == NULL && !t->closing) {
    gli_pair *accepted =
        t->upcalls->accept(t->device_user, hello->key, hello->from);
    if (accepted == GLI_PAIR_LATER)
      *refusal = GLI_TCP_LATER;
    else if (accepted != GLI_PAIR_ELSEWHERE)
      pair = (gli_tcp_pair *)accepted;
  }
  if (pair == NULL || pair->broken) return NULL;
  if (pair->config.local_key != hello->key) return NULL;
  if (pair->config.peer_rank != hello->from) return NULL;
  if (pair->config.self_rank != hello->to) return NULL;
  return pair;
}

void gli_tcp_half_open_forked(gli_tcp *t) {
  for (gli_tcp_half_open *g = t->half_opens; g != NULL; g = g->next)
    gli_tcp_watch_forked(g->watch);
}

static void half_open_refuse_politely(gli_tcp_half_open *half_open,
                                      gli_tcp_answer answer, const char *why) {
  const gli_tcp_reply reply = {.version = GLI_TCP_VERSION, .answer = answer};
  (void)gli_tcp_reply_send(half_open->watch, &reply);
  half_open_refuse(half_open, why);
}

static void half_open_introduced(gli_tcp_half_open *half_open) {
  gli_tcp_hello hello;
  if (!gli_tcp_hello_decode(half_open->hello, &hello)) {
    half_open_refuse(half_open, "what it sent is no greeting");
    return;
  }
  if (hello.version != GLI_TCP_VERSION) {
    half_open_refuse_politely(half_open, GLI_TCP_OTHER_VERSION,
                              "it speaks another version of the protocol");
    return;
  }
  gli_tcp_answer refusal;
  gli_tcp_pair *pair = tcp_find_pair(half_open->t, &hello, &refusal);
  if (pair == NULL) {
    half_open_refuse_politely(half_open, refusal,
                              refusal == GLI_TCP_LATER
                                  ? "its context is still being made here"
                                  : "no context here has this key and rank");
    return;
  }
  gli_tcp_watch *watch = half_open->watch;
  half_open_forget(half_open);
  if (!gli_tcp_pair_join(pair, &hello, watch)) gli_tcp_watch_close(watch);
}

static void tcp_half_open_ready(void *owner, int events) {
  gli_tcp_half_open *half_open = owner;
  bool broken = (events & GLI_BROKEN) != 0;
  if ((events & GLI_UNWATCHED) != 0) {
    gli_tcp_listener_lacks(half_open->t, half_open->watch->code);
    half_open_refuse(half_open, gli_lack_text(half_open->watch->code));
    return;
  }
  struct iovec part = {half_open->hello + half_open->bytes,
                       sizeof half_open->hello - half_open->bytes};
  ssize_t got = gli_tcp_socket_receive(half_open->watch->fd, &part, 1);
  if (got < 0 && gli_would_block(errno) && !broken) return;
  if (got <= 0) {
    half_open_refuse(half_open, "it hung up without a greeting");
    return;
  }
  half_open->bytes += (size_t)got;
  if (half_open->bytes == sizeof half_open->hello)
    half_open_introduced(half_open);
}

/* ---- the listener
 * ------------------------------------------------------------ */

static void tcp_accept_welcome(gli_tcp *t, int fd) {
  gli_tcp_socket_tune(fd);
  gli_tcp_half_open *half_open = calloc(1, sizeof *half_open);
  gli_tcp_watch *watch =
      gli_tcp_watch_new(t, fd, tcp_half_open_ready, half_open);
  if (half_open == NULL || watch == NULL) {
    if (watch != NULL) gli_tcp_watch_close(watch);
    free(half_open);
    gli_tcp_listener_lacks(t, ENOMEM);
    return;
  }
  half_open->t = t;
  half_open->watch = watch;
  half_open->since_ns = uv_hrtime();
  half_open_add(t, half_open);
  gli_tcp_watch_for(watch, GLI_READABLE);
  gli_tcp_schedule(t, half_open->since_ns + half_open_limit_ns);
  tcp_half_open_ready(half_open, GLI_READABLE); /* most have spoken already */
}

static bool room_for_half_open(gli_tcp *t) {
  if (t->half_open_count < HALF_OPEN_MAX) return true;
  half_open_drop_older(t, uv_hrtime(), half_open_oversubscribed_limit_ns);
  return t->half_open_count < HALF_OPEN_MAX;
}

void gli_tcp_listener_ready(void *owner, int events) {
  gli_tcp *t = owner;
  if ((events & GLI_UNWATCHED) != 0) {
    gli_tcp_listener_lacks(t, t->listener->code);
    return;
  }
  for (int i = 0; i < ACCEPTS_PER_TURN; i++) {
    if (!room_for_half_open(t)) {
      gli_tcp_listener_pause(t);
      return;
    }
    int fd = gli_socket_accept(t->listener->fd);
    if (fd >= 0) {
      t->lacking_since_ns = 0;
      tcp_accept_welcome(t, fd);
      continue;
    }
    if (gli_would_block(errno)) return;
    if (errno == ECONNABORTED || errno == EINTR) continue;
    gli_tcp_listener_lacks(t, errno);
    return;
  }
}
