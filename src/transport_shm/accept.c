/* Incoming connections, until they have said who they are. A guest may send one
 * HELLO and nothing else, within a few seconds, and there are few of them at a
 * time: strangers cost next to nothing and disturb nobody. Linux only. */
#define _GNU_SOURCE
#include <errno.h>
#include <unistd.h>

#include "core/lack.h"
#include "core/log.h"
#include "transport_shm/shm.h"

enum { KNOCKS_PER_TURN = 64 };
static const uint64_t guest_limit_ns = 5000000000;
static const uint64_t deaf_ns = 20000000;
static const uint64_t patience_ns = 200000000;

static void refuse(gli_shm *t, gli_shm_guest *guest, gli_shm_say say,
                   const char *why) {
  t->refused_count++;
  gli_log(GLOO_LOG_INFO, "shm: refused a connection: %s (%llu so far)", why,
          (unsigned long long)t->refused_count);
  if (say != 0) {
    const gli_shm_note note = {
        .version = GLI_SHM_VERSION, .say = say, .fds = {-1, -1}};
    (void)gli_shm_note_send(guest->watch.fd, &note);
  }
  gli_watch_close(&guest->watch);
}

void gli_shm_guests_close(gli_shm *t) {
  for (int i = 0; i < GLI_SHM_GUESTS_MAX; i++)
    gli_watch_close(&t->guests[i].watch);
}

/* ---- who is it? ---------------------------------------------------------- */

/* Closed here, but still delivering, and the peer has only now come to it. */
static gli_shm_pair *find_leaving(gli_shm *t, const gli_shm_note *hello) {
  for (gli_shm_pair *pair = t->pairs; pair != NULL; pair = pair->next) {
    if (!pair->closed || pair->config.local_key != hello->key) continue;
    if (pair->config.peer_rank == hello->from) return pair;
  }
  return NULL;
}

/* NULL with the answer that refuses. */
static gli_shm_pair *find_pair(gli_shm *t, const gli_shm_note *hello,
                               gli_shm_say *refusal) {
  *refusal = GLI_SHM_UNKNOWN;
  gli_shm_pair *pair = find_leaving(t, hello);
  if (pair == NULL && !t->closing) {
    gli_pair *accepted =
        t->upcalls->accept(t->device_user, hello->key, hello->from);
    if (accepted == GLI_PAIR_LATER)
      *refusal = GLI_SHM_LATER;
    else if (accepted == GLI_PAIR_ELSEWHERE)
      *refusal = GLI_SHM_DECLINED;
    else
      pair = (gli_shm_pair *)accepted;
  }
  if (pair == NULL || pair->broken) return NULL;
  if (pair->config.local_key != hello->key) return NULL;
  if (pair->config.peer_rank != hello->from) return NULL;
  if (pair->config.self_rank != hello->to) return NULL;
  return pair;
}

static void introduced(gli_shm *t, gli_shm_guest *guest, gli_shm_note *hello) {
  if (hello->version != GLI_SHM_VERSION) {
    refuse(t, guest, GLI_SHM_OTHER_VERSION,
           "it runs another version of the library");
    return;
  }
  if (hello->say != GLI_SHM_HELLO || hello->from == hello->to) {
    refuse(t, guest, 0, "what it sent is no greeting");
    return;
  }
  gli_shm_say refusal;
  gli_shm_pair *pair = find_pair(t, hello, &refusal);
  if (pair == NULL) {
    refuse(t, guest, refusal,
           refusal == GLI_SHM_LATER ? "its context is still being made here"
           : refusal == GLI_SHM_DECLINED
               ? "this pair uses another transport"
               : "no context here has this key and rank");
    return;
  }
  /* The socket was watched for the guest; the pair watches it for itself. */
  int socket = gli_watch_release(&guest->watch);
  if (!gli_shm_join(pair, hello, socket)) close(socket);
}

static void hear(gli_shm *t, gli_shm_guest *guest) {
  gli_shm_note note;
  gli_shm_received got = gli_shm_note_receive(guest->watch.fd, &note);
  if (got == GLI_SHM_GOT_NOTHING) return;
  if (got == GLI_SHM_GOT_END) {
    refuse(t, guest, 0, "it hung up without a greeting");
  } else if (got == GLI_SHM_GOT_GARBAGE) {
    refuse(t, guest, 0, "what it sent is no greeting");
  } else {
    introduced(t, guest, &note);
    gli_shm_note_close(&note);
  }
}

static void guest_ready(void *owner, int events) {
  gli_shm_guest *guest = owner;
  (void)events;
  guest->t->happened++;
  hear(guest->t, guest);
}

/* ---- the listener -------------------------------------------------------- */

static gli_shm_guest *free_seat(gli_shm *t) {
  for (int i = 0; i < GLI_SHM_GUESTS_MAX; i++)
    if (t->guests[i].watch.fd < 0) return &t->guests[i];
  return NULL;
}

/* Stop accepting for a while. Those who knock wait in the kernel. */
static void go_deaf(gli_shm *t) {
  if (t->deaf) return;
  (void)gli_watch_now(&t->listener, 0);
  t->deaf = true;
  t->deaf_until_ns = uv_hrtime() + deaf_ns;
  gli_shm_schedule(t, t->deaf_until_ns);
}

static bool is_patient(const gli_shm *t, uint64_t now_ns) {
  return t->lacking_since_ns == 0 || now_ns - t->lacking_since_ns < patience_ns;
}

/* Connections cannot be accepted, for `code` from errno. Those that wait in the
 * system have their chance for a while; then pairs that are not connected fail.
 */
static void accept_failed(gli_shm *t, int code) {
  uint64_t now = uv_hrtime();
  go_deaf(t);
  if (t->lacking_since_ns == 0) {
    t->lacking_since_ns = now;
    gli_log(GLOO_LOG_WARN, "shm: cannot accept connections at the moment: %s",
            gli_lack_text(code));
  }
  if (!gli_lacking(code) || is_patient(t, now)) return;
  for (gli_shm_pair *pair = t->pairs; pair != NULL; pair = pair->next)
    if (pair->live && !pair->up) gli_shm_pair_lacks(pair, code);
}

static void welcome(gli_shm *t, gli_shm_guest *guest, int fd) {
  guest->until_ns = uv_hrtime() + guest_limit_ns;
  if (!gli_shm_watch(t, &guest->watch, fd, guest_ready, guest)) {
    int code = errno;
    refuse(t, guest,
           is_patient(t, uv_hrtime()) ? GLI_SHM_LATER : GLI_SHM_DECLINED,
           gli_lack_text(code));
    accept_failed(t, code);
    return;
  }
  if (!gli_shm_same_user(fd, t->here.user)) {
    refuse(t, guest, GLI_SHM_DECLINED, "it belongs to another user");
    return;
  }
  t->lacking_since_ns = 0;
  gli_shm_schedule(t, guest->until_ns);
  hear(t, guest); /* most have spoken already */
}

void gli_shm_listener_ready(void *owner, int events) {
  gli_shm *t = owner;
  (void)events;
  t->happened++;
  for (int i = 0; i < KNOCKS_PER_TURN; i++) {
    gli_shm_guest *guest = free_seat(t);
    if (guest == NULL) {
      go_deaf(t);
      return;
    }
    int fd = gli_shm_accept(t->listener.fd);
    if (fd >= 0) {
      welcome(t, guest, fd);
      continue;
    }
    if (errno == EAGAIN || errno == EWOULDBLOCK) return;
    if (errno == ECONNABORTED || errno == EINTR) continue;
    accept_failed(t, errno);
    return;
  }
}

void gli_shm_guests_due(gli_shm *t, uint64_t now_ns) {
  for (int i = 0; i < GLI_SHM_GUESTS_MAX; i++) {
    gli_shm_guest *guest = &t->guests[i];
    if (guest->watch.fd < 0) continue;
    if (guest->until_ns <= now_ns)
      refuse(t, guest, 0, "it did not say who it is in time");
    else
      gli_shm_schedule(t, guest->until_ns);
  }
  if (!t->deaf) return;
  if (t->deaf_until_ns > now_ns) {
    gli_shm_schedule(t, t->deaf_until_ns);
    return;
  }
  t->deaf = false;
  if (!gli_watch_now(&t->listener, GLI_READABLE)) accept_failed(t, errno);
}
