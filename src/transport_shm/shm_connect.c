/* Connection of a pair.
 *
 * Both sides may start at the same moment; one connection must win, and both
 * must know which. The rule is that of TCP: a HELLO of the lower rank is never
 * rejected in favour of the higher rank's.
 *
 * The side that started decides last: HELLO and ACCEPTED carry descriptors, and
 * each side maps them before it answers; after CONFIRMED both know that the
 * other has mapped its memory. Before that, a side that cannot map says
 * DECLINED, and neither has read from the other's ring.
 *
 * In a job with a secret, HELLO and ACCEPTED prove that their sender knows it,
 * and the receiver checks the proof first. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "core/descriptor.h"
#include "core/error.h"
#include "core/exhaustion.h"
#include "core/log.h"
#include "memory/sealed.h"
#include "security/trust.h"
#include "transport_shm/memory.h"
#include "transport_shm/shm.h"

static const uint64_t patience_ns = 200000000;
static const uint64_t ask_again_ns = 1000000000;
static const uint64_t backoff_ns = 2000000;
enum { BACKOFF_DOUBLINGS = 5 };
static const char listens_as_another[] = "another user listens on its socket";

/* ---- attempts ------------------------------------------------------------ */

static void shm_wait_until(gli_shm_pair *pair, uint64_t due_ns) {
  gli_watch_close(&pair->watch);
  gli_shm_set_state(pair, GLI_SHM_WAITING);
  pair->due_ns = due_ns;
  gli_peers_schedule(&pair->t->peers, due_ns);
}

static void shm_try_again(gli_shm_pair *pair, uint64_t now_ns) {
  uint32_t doublings = pair->attempts++;
  if (doublings > BACKOFF_DOUBLINGS) doublings = BACKOFF_DOUBLINGS;
  shm_wait_until(pair, now_ns + (backoff_ns << doublings));
}

/* Retries later, or breaks the pair if attempts have failed for too long: for
 * lack of a local resource (`lack`, from errno, or 0), or because of the peer
 * (`why`). The patience gives a peer with an error of its own time to report it
 * elsewhere. */
static void shm_fail_or_retry(gli_shm_pair *pair, int lack, const char *why) {
  uint64_t now = uv_hrtime();
  if (pair->failing_since_ns == 0) pair->failing_since_ns = now;
  if (lack != 0) pair->lack = lack;
  if (now - pair->failing_since_ns < patience_ns) {
    shm_try_again(pair, now);
    return;
  }
  if (pair->lack != 0) { /* the peer may have given up because of it */
    gli_peer_fail_resource(&pair->peer, pair->lack);
    return;
  }
  gli_peer_break(&pair->peer, GLOO_ERR_PEER,
                 "cannot reach rank %" PRIu32 " through shared memory: %s",
                 pair->peer.config.peer_rank, why);
}

static void shm_attempt_failed(gli_shm_pair *pair, const char *why) {
  shm_fail_or_retry(pair, 0, why);
}

/* Breaks the pair without blaming the peer; another transport may succeed. */
static void shm_connect_impossible(gli_shm_pair *pair, const char *what,
                                   int code) {
  gli_peer_break(&pair->peer, GLOO_ERR_UNSUPPORTED,
                 "no shared memory with rank %" PRIu32 ": %s%s%s",
                 pair->peer.config.peer_rank, what, code ? ": " : "",
                 code ? strerror(code) : "");
}

static void shm_connect_nonsense(gli_shm_pair *pair) {
  gli_peer_break(&pair->peer, GLOO_ERR_PROTOCOL,
                 "rank %" PRIu32 " sent an invalid message on its connection",
                 pair->peer.config.peer_rank);
}

/* ---- descriptors --------------------------------------------------------- */

static gli_shm_note shm_connect_offer(const gli_shm_pair *pair,
                                      gli_shm_say say) {
  const gli_shm *t = pair->t;
  return (gli_shm_note){
      .version = GLI_SHM_VERSION,
      .say = say,
      .from = pair->peer.config.self_rank,
      .to = pair->peer.config.peer_rank,
      .key = pair->peer.config.remote_key,
      .data_bytes = pair->out.data_bytes,
      .chunk = pair->out.chunk,
      .reads = pair->reads,
      .proof_at = pair->proof != 0 ? (uint64_t)(uintptr_t)&pair->proof : 0,
      .proof = pair->proof,
      .fds = {pair->out.fd, t->page_fd},
  };
}

/* Signs a note if the pair requires it. Returns 0 or errno. */
static int shm_connect_sign(const gli_shm_pair *pair, gli_shm_note *note) {
  gloo_error ignored;
  if (!pair->peer.asks) return 0;
  return gli_shm_note_sign(&pair->peer.key, note, &ignored) == GLOO_OK ? 0
                                                                       : ENOMEM;
}

static gli_shm_note shm_connect_plain(const gli_shm_pair *pair, gli_shm_say say,
                                      int why) {
  return (gli_shm_note){.version = GLI_SHM_VERSION,
                        .say = say,
                        .from = pair->peer.config.self_rank,
                        .to = pair->peer.config.peer_rank,
                        .why = (uint32_t)why,
                        .reads = pair->reads,
                        .fds = {-1, -1}};
}

static bool sizes_make_sense(const gli_shm_note *note) {
  if (note->data_bytes < GLI_SHM_DATA_MIN) return false;
  if (note->data_bytes > GLI_SHM_DATA_MAX) return false;
  if ((note->data_bytes & (note->data_bytes - 1)) != 0) return false;
  return note->chunk >= GLI_SHM_LINE && note->chunk % GLI_SHM_LINE == 0 &&
         note->chunk <= note->data_bytes / 2;
}

/* Maps the peer's ring and page. Returns 0 or errno. */
static int map_all(gli_shm_pair *pair, gli_shm_note *note) {
  if (note->fds[GLI_SHM_FD_PAGE] < 0) return EMFILE; /* descriptors were lost */
  if (!sizes_make_sense(note)) return EINVAL;
  void *memory, *page;
  size_t bytes = gli_shm_ring_bytes(note->data_bytes);
  int code =
      gli_shm_memory_adopt(note->fds[GLI_SHM_FD_PAGE], GLI_SHM_PAGE_BYTES,
                           GLI_SHM_PAGE_BYTES, &page);
  if (code != 0) return code;
  code = gli_shm_memory_adopt(note->fds[GLI_SHM_FD_RING], bytes,
                              GLI_SHM_FIRST_BYTES, &memory);
  if (code != 0) {
    gli_shm_memory_drop(page, GLI_SHM_PAGE_BYTES);
    return code;
  }
  pair->in.memory = memory;
  pair->in.bytes = bytes;
  pair->in.data_bytes = note->data_bytes;
  pair->in.chunk = note->chunk;
  pair->peer_page = page;
  return 0;
}

/* Tests whether the kernel lets this process read the memory of a peer that
 * wants it to. */
static void shm_connect_probe(gli_shm_pair *pair, const gli_shm_note *note,
                              int socket) {
  uint8_t none;
  if (note->proof_at == 0) return;
  uint32_t user;
  pair->peer_process =
      (gli_shm_foreign){.proof_at = note->proof_at, .proof = note->proof};
  (void)gli_socket_peer(socket, &pair->peer_process.pid, &user);
  int code = gli_shm_foreign_read(&pair->peer_process, 0, &none, 0);
  pair->reads = code == 0;
  if (code == 0) return;
  gli_log(GLOO_LOG_INFO,
          "rank %" PRIu32 " cannot read the memory of rank %" PRIu32
          " (process_vm_readv: %s): large messages outside gloo_alloc memory "
          "are copied twice",
          pair->peer.config.self_rank, pair->peer.config.peer_rank,
          strerror(code));
}

static int shm_connect_adopt(gli_shm_pair *pair, gli_shm_note *note,
                             int socket) {
  int code = map_all(pair, note);
  gli_shm_note_close(note);
  if (code == 0) shm_connect_probe(pair, note, socket);
  return code;
}

static void shm_connect_up(gli_shm_pair *pair) {
  pair->due_ns = 0;
  gli_shm_set_state(pair, GLI_SHM_UP);
}

/* Handles the end of the liveness socket. The ring is still read. */
static void hang_up(gli_shm_pair *pair) {
  pair->peer.peer_closed = true;
  gli_watch_close(&pair->watch);
}

/* ---- starting ------------------------------------------------------------ */

static void shm_connect_failed(gli_shm_pair *pair, int code) {
  if (gli_is_exhaustion(code)) {
    shm_fail_or_retry(pair, code, "");
    return;
  }
  if (code == EAGAIN || code == EINTR) /* the peer's backlog is full */
    shm_try_again(pair, uv_hrtime());
  else if (code == ECONNREFUSED || code == ECONNRESET || code == EPIPE ||
           code == ENOENT)
    shm_attempt_failed(
        pair, "no process listens there any longer; it may have exited");
  else
    shm_connect_impossible(pair, "cannot connect its socket", code);
}

/* Returns 0 or errno. */
static int watch_liveness(gli_shm_pair *pair, int fd) {
  bool watched =
      gli_shm_watch(pair->t, &pair->watch, fd, gli_shm_liveness_ready, pair);
  return watched ? 0 : errno;
}

/* Breaks the pair because the peer's shared memory cannot be mapped. */
static void cannot_map(gli_shm_pair *pair, int code) {
  if (gli_is_exhaustion(code))
    gli_peer_fail_resource(&pair->peer, code);
  else
    shm_connect_impossible(pair, "cannot map its shared memory", code);
}

void gli_shm_begin(gli_shm_pair *pair) {
  gli_shm *t = pair->t;
  int fd = gli_shm_connect(&pair->there);
  if (fd < 0) {
    shm_connect_failed(pair, errno);
    return;
  }
  int whose = gli_shm_same_user(fd, t->here.user);
  if (whose != 0) {
    close(fd);
    if (gli_is_exhaustion(whose))
      gli_peer_fail_resource(&pair->peer, whose);
    else if (whose < 0)
      shm_connect_impossible(pair, listens_as_another, 0);
    else
      shm_connect_impossible(pair, "cannot determine its user", whose);
    return;
  }
  gli_shm_note hello = shm_connect_offer(pair, GLI_SHM_HELLO);
  int code = watch_liveness(pair, fd);
  if (code == 0) code = shm_connect_sign(pair, &hello);
  if (code == 0) code = gli_shm_note_send(fd, &hello);
  /* The peer may have refused in advance: its answer is still to be read. */
  if (code == EPIPE || code == ECONNRESET) code = 0;
  if (code != 0) {
    gli_watch_close(&pair->watch);
    shm_connect_failed(pair, code);
    return;
  }
  pair->peer.greeted = true;
  gli_shm_set_state(pair, GLI_SHM_GREETING);
}

/* ---- answer to our HELLO ------------------------------------------------- */

/* Breaks the pair because only one rank has a secret, or the secrets differ. */
static void shm_connect_denied(gli_shm_pair *pair, bool peer_asks) {
  const gli_pair_config *c = &pair->peer.config;
  gli_peer_break(
      &pair->peer, GLOO_ERR_AUTH, "rank %" PRIu32 " %s", c->peer_rank,
      gli_trust_differs(c->self_rank, pair->peer.asks, peer_asks).text);
}

static void shm_connect_accepted(gli_shm_pair *pair, gli_shm_note *note) {
  if (pair->peer.asks &&
      !gli_shm_note_is_signed(&pair->peer.key, pair->peer.config.peer_rank,
                              pair->peer.config.self_rank, note)) {
    gli_shm_note_close(note);
    shm_connect_denied(pair, note->asks != 0);
    return;
  }
  if (note->key != pair->peer.config.local_key) {
    gli_shm_note_close(note);
    gli_peer_break(&pair->peer, GLOO_ERR_PROTOCOL,
                   "rank %" PRIu32 " answered with a wrong key",
                   pair->peer.config.peer_rank);
    return;
  }
  int code = shm_connect_adopt(pair, note, pair->watch.fd);
  pair->readable = note->reads != 0;
  gli_shm_note answer = shm_connect_plain(
      pair, code == 0 ? GLI_SHM_CONFIRMED : GLI_SHM_DECLINED, code);
  int sent = gli_shm_note_send(pair->watch.fd, &answer);
  if (code != 0) {
    cannot_map(pair, code);
    return;
  }
  shm_connect_up(pair);
  if (sent != 0) hang_up(pair);
}

static void shm_connect_answered(gli_shm_pair *pair, gli_shm_note *note) {
  pair->answers++;
  if (note->version != GLI_SHM_VERSION) {
    shm_connect_impossible(pair, "it runs another version of the library", 0);
    return;
  }
  switch ((gli_shm_say)note->say) {
    case GLI_SHM_ACCEPTED:
      shm_connect_accepted(pair, note);
      return;
    case GLI_SHM_USE_MINE:
      shm_wait_until(pair, uv_hrtime() + ask_again_ns);
      return;
    case GLI_SHM_LATER:
      shm_try_again(pair, uv_hrtime());
      return;
    case GLI_SHM_DECLINED:
      shm_connect_impossible(pair, "it has no context", (int)note->why);
      return;
    case GLI_SHM_UNKNOWN:
      shm_attempt_failed(pair,
                         "it does not know this context: it has left, or "
                         "belongs to another job");
      return;
    case GLI_SHM_TAKEN:
      shm_attempt_failed(pair,
                         "it is already connected to this rank: two processes "
                         "may have the same rank");
      return;
    case GLI_SHM_DENIED:
      shm_connect_denied(pair, note->asks != 0);
      return;
    case GLI_SHM_OTHER_VERSION:
      shm_connect_impossible(pair, "it runs another version of the library", 0);
      return;
    case GLI_SHM_HELLO:
    case GLI_SHM_CONFIRMED:
    case GLI_SHM_REGION:
    case GLI_SHM_FORGET:
    case GLI_SHM_RING:
    case GLI_SHM_SAYS:
      break;
  }
  shm_connect_nonsense(pair);
}

/* Handles the answer to our ACCEPTED. A peer that closes without an answer has
 * still written all its records. */
static void shm_connect_confirmed(gli_shm_pair *pair,
                                  const gli_shm_note *note) {
  if (note->say == GLI_SHM_DECLINED)
    shm_connect_impossible(pair, "it could not map the memory of this rank",
                           (int)note->why);
  else if (note->say == GLI_SHM_CONFIRMED)
    shm_connect_up(pair);
  else
    shm_connect_nonsense(pair);
  pair->readable = note->reads != 0;
}

bool gli_shm_pair_ready(gli_shm_pair *pair) {
  gli_shm_note note;
  gli_shm_received got = gli_shm_note_receive(pair->watch.fd, &note);
  if (got == GLI_SHM_GOT_NOTHING) return false;
  bool greeting = pair->state == GLI_SHM_GREETING;
  if (got == GLI_SHM_GOT_STRANGER && greeting) {
    shm_connect_impossible(pair, listens_as_another, 0);
  } else if (got == GLI_SHM_GOT_END) {
    if (pair->state == GLI_SHM_OFFERED) shm_connect_up(pair);
    if (greeting)
      shm_attempt_failed(pair, "it closed the connection instead of answering");
    else
      hang_up(pair);
  } else if (got == GLI_SHM_GOT_NOTE && greeting) {
    shm_connect_answered(pair, &note);
  } else if (got == GLI_SHM_GOT_NOTE && pair->state == GLI_SHM_OFFERED) {
    shm_connect_confirmed(pair, &note);
  } else if (got != GLI_SHM_GOT_NOTE || pair->state != GLI_SHM_UP) {
    shm_connect_nonsense(pair);
  } else if (note.say == GLI_SHM_RING) {
    gli_shm_ring_received(pair->t);
  } else if (!gli_shm_region_note(pair, &note)) {
    shm_connect_nonsense(pair);
  }
  gli_shm_note_close(&note);
  return true;
}

/* ---- HELLO from the peer ------------------------------------------------- */

static gli_shm_say shm_connect_decide(const gli_shm_pair *pair) {
  bool lower = pair->peer.config.self_rank < pair->peer.config.peer_rank;
  switch (pair->state) {
    case GLI_SHM_OFFERED:
    case GLI_SHM_UP:
    case GLI_SHM_ENDED:
      return GLI_SHM_TAKEN;
    case GLI_SHM_GREETING:
      return lower ? GLI_SHM_USE_MINE : GLI_SHM_ACCEPTED;
    case GLI_SHM_IDLE:
    case GLI_SHM_WAITING:
      break;
  }
  return GLI_SHM_ACCEPTED;
}

bool gli_shm_join(gli_shm_pair *pair, gli_shm_note *hello, int socket) {
  gli_shm_say say = shm_connect_decide(pair);
  int code = 0;
  gli_shm_note answer;
  if (say == GLI_SHM_ACCEPTED) {
    code = shm_connect_adopt(pair, hello, socket);
    answer = shm_connect_offer(pair, say);
    if (code == 0) code = shm_connect_sign(pair, &answer);
    if (code != 0) say = GLI_SHM_DECLINED;
  }
  if (say != GLI_SHM_ACCEPTED) answer = shm_connect_plain(pair, say, code);
  int sent = gli_shm_note_send(socket, &answer);
  if (code != 0) cannot_map(pair, code);
  if (say != GLI_SHM_ACCEPTED) return false;

  gli_watch_close(&pair->watch); /* socket of this side's own attempt */
  code = watch_liveness(pair, socket);
  pair->peer.greeted = true;
  pair->due_ns = 0;
  gli_shm_set_state(pair, GLI_SHM_OFFERED);
  if (sent == 0 && code == 0) return true;
  if (code != 0) {
    gli_peer_fail_resource(&pair->peer, code);
    return true;
  }
  /* The peer has closed, but all its records can be read. */
  shm_connect_up(pair);
  hang_up(pair);
  return true;
}
