/* Incoming connections, until they have said who they are. A guest may send one
 * hello and nothing else, within a few seconds, and there are few of them at a
 * time: strangers cost next to nothing and disturb nobody. */
#include <errno.h>
#include <stdlib.h>
#include <sys/uio.h>

#include "core/descriptor.h"
#include "core/lack.h"
#include "core/log.h"
#include "transport_tcp/socket.h"
#include "transport_tcp/tcp.h"

enum { GUESTS_MAX = 64, ACCEPTS_PER_TURN = 64 };
static const uint64_t guest_limit_ns = 5000000000;
static const uint64_t guest_crowded_limit_ns = 1000000000;

struct gli_tcp_guest {
  gli_tcp *t;
  gli_tcp_watch *watch;
  gli_tcp_guest *next, **link;
  uint64_t since_ns;
  size_t bytes;
  uint8_t hello[GLI_TCP_HELLO_BYTES];
};

/* ---- the guest list ------------------------------------------------------ */

static void guest_add(gli_tcp *t, gli_tcp_guest *guest) {
  guest->next = t->guests;
  guest->link = &t->guests;
  if (guest->next != NULL) guest->next->link = &guest->next;
  t->guests = guest;
  t->guest_count++;
}

/* The watch, if any is left, is not touched. */
static void guest_forget(gli_tcp_guest *guest) {
  *guest->link = guest->next;
  if (guest->next != NULL) guest->next->link = guest->link;
  guest->t->guest_count--;
  free(guest);
}

static void guest_refuse(gli_tcp_guest *guest, const char *why) {
  gli_tcp *t = guest->t;
  t->refused_count++;
  if (gli_log_enabled(GLOO_LOG_INFO)) {
    char text[GLI_TCP_TEXT_BYTES] = "an unknown address";
    gli_tcp_endpoint from;
    socklen_t bytes = sizeof from;
    if (getpeername(guest->watch->fd, &from.any, &bytes) == 0)
      gli_tcp_endpoint_text(&from, text);
    gli_log(GLOO_LOG_INFO,
            "tcp: refused a connection from %s: %s (%llu so far)", text, why,
            (unsigned long long)t->refused_count);
  }
  gli_tcp_watch_close(guest->watch);
  guest_forget(guest);
}

static void guests_drop_older(gli_tcp *t, uint64_t now_ns, uint64_t age_ns) {
  gli_tcp_guest *next;
  for (gli_tcp_guest *guest = t->guests; guest != NULL; guest = next) {
    next = guest->next;
    if (now_ns >= guest->since_ns + age_ns)
      guest_refuse(guest, "it did not say who it is in time");
  }
}

void gli_tcp_guests_expire(gli_tcp *t, uint64_t now_ns) {
  guests_drop_older(t, now_ns, guest_limit_ns);
  for (gli_tcp_guest *g = t->guests; g != NULL; g = g->next)
    gli_tcp_schedule(t, g->since_ns + guest_limit_ns);
}

void gli_tcp_guests_close(gli_tcp *t) {
  while (t->guests != NULL) {
    gli_tcp_watch_close(t->guests->watch);
    guest_forget(t->guests);
  }
}

/* ---- hello --------------------------------------------------------------- */

/* Closed here, but still delivering, and the peer has only now come to it. */
static gli_tcp_pair *find_leaving(gli_tcp *t, const gli_tcp_hello *hello) {
  for (gli_tcp_pair *pair = t->leaving; pair != NULL; pair = pair->next) {
    if (pair->config.local_key != hello->key) continue;
    if (pair->config.peer_rank == hello->from) return pair;
  }
  return NULL;
}

/* NULL with the answer that refuses. */
static gli_tcp_pair *find_pair(gli_tcp *t, const gli_tcp_hello *hello,
                               gli_tcp_answer *refusal) {
  *refusal = GLI_TCP_UNKNOWN;
  gli_tcp_pair *pair = find_leaving(t, hello);
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

void gli_tcp_guests_forked(gli_tcp *t) {
  for (gli_tcp_guest *g = t->guests; g != NULL; g = g->next)
    gli_tcp_watch_forked(g->watch);
}

static void guest_refuse_politely(gli_tcp_guest *guest, gli_tcp_answer answer,
                                  const char *why) {
  const gli_tcp_reply reply = {.version = GLI_TCP_VERSION, .answer = answer};
  (void)gli_tcp_reply_send(guest->watch, &reply);
  guest_refuse(guest, why);
}

static void guest_introduced(gli_tcp_guest *guest) {
  gli_tcp_hello hello;
  if (!gli_tcp_hello_decode(guest->hello, &hello)) {
    guest_refuse(guest, "what it sent is no greeting");
    return;
  }
  if (hello.version != GLI_TCP_VERSION) {
    guest_refuse_politely(guest, GLI_TCP_OTHER_VERSION,
                          "it speaks another version of the protocol");
    return;
  }
  gli_tcp_answer refusal;
  gli_tcp_pair *pair = find_pair(guest->t, &hello, &refusal);
  if (pair == NULL) {
    guest_refuse_politely(guest, refusal,
                          refusal == GLI_TCP_LATER
                              ? "its context is still being made here"
                              : "no context here has this key and rank");
    return;
  }
  gli_tcp_watch *watch = guest->watch;
  guest_forget(guest);
  if (!gli_tcp_pair_join(pair, &hello, watch)) gli_tcp_watch_close(watch);
}

static void guest_ready(void *owner, int events) {
  gli_tcp_guest *guest = owner;
  bool broken = (events & GLI_BROKEN) != 0;
  if ((events & GLI_UNWATCHED) != 0) {
    gli_tcp_listener_lacks(guest->t, guest->watch->code);
    guest_refuse(guest, gli_lack_text(guest->watch->code));
    return;
  }
  struct iovec part = {guest->hello + guest->bytes,
                       sizeof guest->hello - guest->bytes};
  ssize_t got = gli_tcp_socket_receive(guest->watch->fd, &part, 1);
  if (got < 0 && gli_would_block(errno) && !broken) return;
  if (got <= 0) {
    guest_refuse(guest, "it hung up without a greeting");
    return;
  }
  guest->bytes += (size_t)got;
  if (guest->bytes == sizeof guest->hello) guest_introduced(guest);
}

/* ---- the listener
 * ------------------------------------------------------------ */

static void welcome(gli_tcp *t, int fd) {
  gli_tcp_socket_tune(fd);
  gli_tcp_guest *guest = calloc(1, sizeof *guest);
  gli_tcp_watch *watch = gli_tcp_watch_new(t, fd, guest_ready, guest);
  if (guest == NULL || watch == NULL) {
    if (watch != NULL) gli_tcp_watch_close(watch);
    free(guest);
    gli_tcp_listener_lacks(t, ENOMEM);
    return;
  }
  guest->t = t;
  guest->watch = watch;
  guest->since_ns = uv_hrtime();
  guest_add(t, guest);
  gli_tcp_watch_for(watch, GLI_READABLE);
  gli_tcp_schedule(t, guest->since_ns + guest_limit_ns);
  guest_ready(guest, GLI_READABLE); /* most have spoken already */
}

static bool room_for_guests(gli_tcp *t) {
  if (t->guest_count < GUESTS_MAX) return true;
  guests_drop_older(t, uv_hrtime(), guest_crowded_limit_ns);
  return t->guest_count < GUESTS_MAX;
}

void gli_tcp_listener_ready(void *owner, int events) {
  gli_tcp *t = owner;
  if ((events & GLI_UNWATCHED) != 0) {
    gli_tcp_listener_lacks(t, t->listener->code);
    return;
  }
  for (int i = 0; i < ACCEPTS_PER_TURN; i++) {
    if (!room_for_guests(t)) {
      gli_tcp_listener_pause(t);
      return;
    }
    int fd = gli_socket_accept(t->listener->fd);
    if (fd >= 0) {
      t->lacking_since_ns = 0;
      welcome(t, fd);
      continue;
    }
    if (gli_would_block(errno)) return;
    if (errno == ECONNABORTED || errno == EINTR) continue;
    gli_tcp_listener_lacks(t, errno);
    return;
  }
}
