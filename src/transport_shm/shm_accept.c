/* Incoming connections, until they have identified their rank and, in a job
 * with a secret, proved that they know it. A half-open connection may send a
 * single HELLO, within a few seconds, and the number of half-open connections
 * is small: unauthenticated clients cost next to nothing and disturb no rank.
 * Beyond that number, or if descriptors are scarce, the longest silent
 * connection is closed at once, because it may keep out a peer. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "core/descriptor.h"
#include "core/exhaustion.h"
#include "core/log.h"
#include "transport_shm/shm.h"

enum { ACCEPTS_PER_POLL = 64 };
static const uint64_t half_open_limit_ns = 5000000000;
static const uint64_t accept_pause_ns = 20000000;
static const uint64_t patience_ns = 200000000;

/* Sends `say`, unless it is 0. The caller then closes the socket. */
static void shm_accept_turn_away(gli_shm *t, int fd, gli_shm_say say,
                                 const char *why) {
  t->refused_count++;
  gli_log(GLOO_LOG_INFO, "shm: rejected a connection: %s (%llu so far)", why,
          (unsigned long long)t->refused_count);
  if (say != 0) {
    const gli_shm_note note = {
        .version = GLI_SHM_VERSION, .say = say, .fds = {-1, -1}};
    (void)gli_shm_note_send(fd, &note);
  }
}

static void shm_accept_refuse(gli_shm *t, gli_shm_half_open *half_open,
                              gli_shm_say say, const char *why) {
  shm_accept_turn_away(t, half_open->watch.fd, say, why);
  gli_watch_close(&half_open->watch);
}

void gli_shm_half_open_close(gli_shm *t) {
  for (int i = 0; i < GLI_SHM_HALF_OPEN_MAX; i++)
    gli_watch_close(&t->half_opens[i].watch);
}

/* ---- identification ------------------------------------------------------ */

/* Checks that a HELLO carries the proof that its pair requires. Returns 0, or
 * the answer that refuses it. Opens and changes nothing. An unknown pair
 * passes, and shm_accept_find detects it. */
static gli_shm_say shm_accept_examine(gli_shm *t, const gli_shm_note *hello,
                                      bool *asks) {
  const gli_peer_name name = {hello->key, hello->from, hello->to};
  gli_peer_expected expected;
  gloo_error ignored;
  *asks = false;
  if (gli_peer_expect(&t->peers, &name, &expected, &ignored) != GLOO_OK)
    return GLI_SHM_LATER;
  if (!expected.known) return 0;
  *asks = expected.asks;
  bool shown = *asks ? gli_shm_note_is_signed(&expected.key, hello->from,
                                              expected.self_rank, hello)
                     : hello->asks == 0;
  gli_wipe(&expected.key, sizeof expected.key);
  return shown ? 0 : GLI_SHM_DENIED;
}

static gli_shm_pair *shm_accept_find(gli_shm *t, const gli_shm_note *hello,
                                     gli_shm_say *refusal) {
  static const gli_shm_say says[] = {
      [GLI_PEER_UNKNOWN] = GLI_SHM_UNKNOWN,
      [GLI_PEER_LATER] = GLI_SHM_LATER,
      [GLI_PEER_ELSEWHERE] = GLI_SHM_DECLINED,
  };
  const gli_peer_name name = {hello->key, hello->from, hello->to};
  gli_peer_refusal why;
  gli_transport_peer *found = gli_peer_find(&t->peers, &name, &why);
  *refusal = says[why];
  return (gli_shm_pair *)found;
}

static void shm_accept_deny(gli_shm *t, int fd, bool asks) {
  const gli_shm_note note = {.version = GLI_SHM_VERSION,
                             .say = GLI_SHM_DENIED,
                             .asks = asks,
                             .fds = {-1, -1}};
  (void)gli_shm_note_send(fd, &note);
  shm_accept_turn_away(t, fd, 0,
                       asks ? "its job secret is different, or missing"
                            : "the peer requires a job secret, but none is set "
                              "on this rank (GLOO_JOB_SECRET)");
}

/* Returns true if a pair took ownership of the socket. */
static bool shm_accept_introduced(gli_shm *t, int fd, gli_shm_note *hello) {
  if (hello->version != GLI_SHM_VERSION) {
    shm_accept_turn_away(t, fd, GLI_SHM_OTHER_VERSION,
                         "it runs another version of the library");
    return false;
  }
  if (hello->say != GLI_SHM_HELLO || hello->from == hello->to) {
    shm_accept_turn_away(t, fd, 0, "it sent an invalid greeting");
    return false;
  }
  bool asks;
  gli_shm_say refusal = shm_accept_examine(t, hello, &asks);
  if (refusal == GLI_SHM_DENIED) {
    shm_accept_deny(t, fd, asks);
    return false;
  }
  gli_shm_pair *pair = NULL;
  if (refusal == 0) pair = shm_accept_find(t, hello, &refusal);
  if (pair != NULL && (!pair->peer.asks || asks))
    return gli_shm_join(pair, hello, fd);
  shm_accept_turn_away(t, fd, refusal,
                       refusal == GLI_SHM_LATER
                           ? "its context is still being created on this rank"
                       : refusal == GLI_SHM_DECLINED
                           ? "this pair uses another transport"
                           : "no context of this rank has its key and rank");
  return false;
}

/* Refuses a connection; `whose` is the result of gli_shm_same_user. */
static void shm_accept_stranger(gli_shm *t, int fd, int whose) {
  char why[96] = "it belongs to another user";
  if (whose > 0)
    (void)snprintf(why, sizeof why, "cannot determine its user: %s",
                   gli_exhaustion_text(whose));
  shm_accept_turn_away(
      t, fd, gli_is_exhaustion(whose) ? GLI_SHM_LATER : GLI_SHM_DECLINED, why);
}

/* Handles the first note of a client, and takes ownership of the socket. */
static void shm_accept_greeted(gli_shm *t, int fd, gli_shm_received got,
                               gli_shm_note *note) {
  bool joined = false;
  if (got == GLI_SHM_GOT_NOTE)
    joined = shm_accept_introduced(t, fd, note);
  else if (got == GLI_SHM_GOT_STRANGER)
    shm_accept_stranger(t, fd, -1);
  else
    shm_accept_turn_away(t, fd, 0,
                         got == GLI_SHM_GOT_END
                             ? "it closed the connection without a greeting"
                             : "it sent an invalid greeting");
  gli_shm_note_close(note);
  if (!joined) gli_socket_end(fd);
}

static void read_hello(gli_shm *t, gli_shm_half_open *half_open) {
  gli_shm_note note;
  gli_shm_received got = gli_shm_note_receive(half_open->watch.fd, &note);
  if (got == GLI_SHM_GOT_NOTHING) return;
  shm_accept_greeted(t, gli_watch_release(&half_open->watch), got, &note);
}

static void shm_half_open_ready(void *owner, int events) {
  gli_shm_half_open *half_open = owner;
  (void)events;
  half_open->t->peers.happened++;
  read_hello(half_open->t, half_open);
}

/* ---- the listener -------------------------------------------------------- */

/* Stops accepting for a while. Connections wait in the kernel. */
static void pause_accept(gli_shm *t) {
  if (t->accept_paused) return;
  (void)gli_watch_now(&t->listener, 0);
  t->accept_paused = true;
  t->accept_paused_until_ns = uv_hrtime() + accept_pause_ns;
  gli_peers_schedule(&t->peers, t->accept_paused_until_ns);
}

static bool is_patient(const gli_shm *t, uint64_t now_ns) {
  return t->lacking_since_ns == 0 || now_ns - t->lacking_since_ns < patience_ns;
}

/* Handles a failure to accept, with `code` from errno. Connections that wait in
 * the kernel may still succeed for a while; then pairs that are not connected
 * fail. */
static void shm_accept_failed(gli_shm *t, int code) {
  uint64_t now = uv_hrtime();
  pause_accept(t);
  if (t->lacking_since_ns == 0) {
    t->lacking_since_ns = now;
    gli_log(GLOO_LOG_WARN, "shm: cannot accept connections for now: %s",
            gli_exhaustion_text(code));
  }
  if (!gli_is_exhaustion(code) || is_patient(t, now)) return;
  for (gli_transport_peer *peer = t->peers.pairs; peer != NULL;
       peer = peer->next)
    if (peer->live && !peer->up) gli_peer_fail_resource(peer, code);
}

/* Closes the longest silent connection, unless it has just sent its HELLO. */
static void shm_accept_give_way(gli_shm *t) {
  gli_shm_half_open *oldest = NULL;
  for (int i = 0; i < GLI_SHM_HALF_OPEN_MAX; i++) {
    gli_shm_half_open *half_open = &t->half_opens[i];
    if (half_open->watch.fd < 0) continue;
    if (oldest == NULL || half_open->until_ns < oldest->until_ns)
      oldest = half_open;
  }
  read_hello(t, oldest);
  if (oldest->watch.fd >= 0)
    shm_accept_refuse(
        t, oldest, 0,
        "it has not sent its rank, and other connections are waiting");
}

/* Returns a free entry for a connection. Closes another one if necessary. */
static gli_shm_half_open *shm_accept_place(gli_shm *t, int fd) {
  gli_shm_half_open *place = NULL;
  int taken = 0, highest = fd;
  for (int i = 0; i < GLI_SHM_HALF_OPEN_MAX; i++) {
    int other = t->half_opens[i].watch.fd;
    if (other < 0) place = &t->half_opens[i];
    if (other >= 0) taken++;
    if (other > highest) highest = other;
  }
  if (place == NULL ||
      (taken >= GLI_STRANGERS_FEW && gli_fd_is_scarce(highest)))
    shm_accept_give_way(t);
  return place != NULL ? place : shm_accept_place(t, fd);
}

static void shm_accept_welcome(gli_shm *t, int fd) {
  int whose = gli_shm_same_user(fd, t->here.user);
  if (whose != 0) { /* another user's connection never becomes half-open */
    shm_accept_stranger(t, fd, whose);
    close(fd);
    return;
  }
  gli_shm_note note;
  gli_shm_received got = gli_shm_note_receive(fd, &note);
  if (got != GLI_SHM_GOT_NOTHING) { /* most peers have sent their HELLO */
    t->lacking_since_ns = 0;
    shm_accept_greeted(t, fd, got, &note);
    return;
  }
  gli_shm_half_open *half_open = shm_accept_place(t, fd);
  half_open->until_ns = uv_hrtime() + half_open_limit_ns;
  if (!gli_shm_watch(t, &half_open->watch, fd, shm_half_open_ready,
                     half_open)) {
    int code = errno;
    shm_accept_refuse(
        t, half_open,
        is_patient(t, uv_hrtime()) ? GLI_SHM_LATER : GLI_SHM_DECLINED,
        gli_exhaustion_text(code));
    shm_accept_failed(t, code);
    return;
  }
  t->lacking_since_ns = 0;
  gli_peers_schedule(&t->peers, half_open->until_ns);
}

void gli_shm_listener_ready(void *owner, int events) {
  gli_shm *t = owner;
  (void)events;
  t->peers.happened++;
  for (int i = 0; i < ACCEPTS_PER_POLL; i++) {
    int fd = gli_shm_accept(t->listener.fd);
    if (fd >= 0) {
      shm_accept_welcome(t, fd);
      continue;
    }
    if (gli_would_block(errno)) return;
    if (errno == ECONNABORTED || errno == EINTR) continue;
    shm_accept_failed(t, errno);
    return;
  }
}

void gli_shm_half_open_due(gli_shm *t, uint64_t now_ns) {
  for (int i = 0; i < GLI_SHM_HALF_OPEN_MAX; i++) {
    gli_shm_half_open *half_open = &t->half_opens[i];
    if (half_open->watch.fd < 0) continue;
    if (half_open->until_ns <= now_ns)
      shm_accept_refuse(t, half_open, 0, "it did not send its rank in time");
    else
      gli_peers_schedule(&t->peers, half_open->until_ns);
  }
  if (!t->accept_paused) return;
  if (t->accept_paused_until_ns > now_ns) {
    gli_peers_schedule(&t->peers, t->accept_paused_until_ns);
    return;
  }
  t->accept_paused = false;
  if (!gli_watch_now(&t->listener, GLI_READABLE)) shm_accept_failed(t, errno);
}
