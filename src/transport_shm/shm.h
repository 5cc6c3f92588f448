/* Inside the shared memory transport. Linux only: memfd, abstract Unix sockets
 * and eventfd; elsewhere absent.c says so in its place.
 *
 * An end point listens on a Unix socket without a name in any file system. A
 * pair is one connection, over which each side hands the other two descriptors:
 * the memory of the ring that it writes (shm_ring.h), and its page, where it
 * says whether it sleeps. The connection stays open as a liveness socket: its
 * end means that the peer is gone, and a note on it wakes the peer. Nothing has
 * a name, so nothing is left when all are killed.
 *
 * Memory. Each pair costs a rank one ring. The first ones are large, the next
 * smaller (gli_shm_data_for), and beyond GLI_SHM_MEMORY_MAX pairs are declined.
 * What short messages need of it is reserved when a pair is opened, the rest
 * when a longer one comes (shm_ring.h).
 *
 * transport/peer.h says how pairs fail and end. */
#ifndef GLI_TRANSPORT_SHM_SHM_H
#define GLI_TRANSPORT_SHM_SHM_H

#include <stdatomic.h>
#include <uv.h>

#include "core/hints.h"
#include "net/events.h"
#include "transport/peer.h"
#include "transport/request.h"
#include "transport_shm/address.h"
#include "transport_shm/foreign.h"
#include "transport_shm/map_cache.h"
#include "transport_shm/note.h"
#include "transport_shm/shm_ring.h"

extern const gli_transport_ops gli_transport_shm;
/* For pairs with checksums. */
extern const gli_transport_ops gli_transport_shm_checked;

#define GLI_SHM_MEMORY_MAX ((uint64_t)64 * 1024 * 1024)
#ifndef GLI_SHM_HALF_OPEN_MAX
#define GLI_SHM_HALF_OPEN_MAX 64
#endif

typedef struct gli_shm_pair gli_shm_pair;

/* A connection that has not said which rank it is from. */
typedef struct gli_shm_half_open {
  gli_watch watch;
  struct gli_shm *t;
  uint64_t until_ns;
} gli_shm_half_open;

typedef enum gli_shm_state {
  GLI_SHM_IDLE,     /* nothing begun */
  GLI_SHM_GREETING, /* our HELLO is sent */
  GLI_SHM_WAITING,  /* trying again at due_ns, unless the peer comes first */
  GLI_SHM_OFFERED,  /* we said ACCEPTED; the peer will confirm it */
  GLI_SHM_UP,
  GLI_SHM_ENDED
} gli_shm_state;

/* A region of ours (memory/region.h) that the peer knows. */
typedef struct gli_shm_announced {
  uint64_t serial;
  const uint8_t *base;
  uint32_t id;
} gli_shm_announced;

struct gli_shm_pair {
  gli_transport_peer peer;
  gli_watch watch; /* the liveness socket */
  struct gli_shm *t;
  gli_shm_endpoint there;
  gli_shm_state state;

  /* making the connection */
  uint64_t due_ns;           /* when to act next; 0: never */
  uint64_t failing_since_ns; /* 0: no attempt has failed */
  int lack; /* errno of what failed for want of something here; 0: nothing */
  uint32_t attempts, answers;

  /* sending: private_ of a request is its progress in gli_shm_put */
  gli_shm_out out;
  gli_request_queue queue;
  atomic_bool waiting; /* the queue is not empty; sleepers read it */
  gli_shm_page *peer_page;

  /* receiving */
  gli_shm_in in;
  gli_header header;
  gli_sink sink;
  uint64_t placed;
  uint32_t sum, expected_sum; /* of the payload, if it is checked */

  /* memory that rkeys name, see rkey.c */
  uint64_t proof;               /* a random number, for the peer to read */
  gli_shm_foreign peer_process; /* where we read the peer's */
  bool reads;                   /* we can read all of the peer's memory */
  bool readable;                /* the peer can read ours */
  gli_shm_announced *announced; /* by id */
  size_t n_announced, announced_capacity;
  gli_shm_map_cache map_cache; /* regions of the peer */
  bool missed_region; /* there was no memory to enter one in the cache */
};

typedef struct gli_shm {
  gli_transport_peers peers;
  gli_shm_endpoint here;
  uint64_t memory_bytes;      /* in our rings */
  uint64_t read_min;          /* see gli_shm_read_min */
  uint64_t region_generation; /* all peers know what was freed until then */
  unsigned polls;
  uint64_t next_look_ns; /* at the descriptors */
  unsigned connecting;   /* pairs whose connection is being made */

  /* Connected pairs, indexed for polling. `up_lock` is held to change the
   * array, and by sleepers that read it; a thread that has the engine's lock
   * reads it without. */
  gli_shm_pair **up;
  size_t n_up, up_capacity;
  uv_mutex_t up_lock;

  gli_events *events;
  gli_watch listener, bell;
  bool accept_paused; /* the listener is not watched: no descriptors, too many
                         half-open connections */
  uint64_t accept_paused_until_ns;
  uint64_t lacking_since_ns; /* when accepting began to fail; 0: it does not */
  gli_shm_half_open half_opens[GLI_SHM_HALF_OPEN_MAX];
  uint64_t refused_count;

  /* sleeping; see shm_wait.c */
  gli_shm_page *page;
  int page_fd;
  atomic_uint wakes;
  atomic_bool oversubscribed; /* ranks outnumber processors */
  atomic_bool look;           /* poll must look at the descriptors */
} gli_shm;

/* shm_wait.c */
void gli_shm_wake(gli_transport *t);
void gli_shm_sleep(gli_transport *t, int64_t timeout_ns);
bool gli_shm_sleep_begin(gli_transport *t, gli_sleep *sleep);
void gli_shm_sleep_end(gli_transport *t);
/* The bell is heard: take that back, unless a sleeper is still to hear it. */
void gli_shm_heard(gli_shm *t);
/* A peer said RING. */
void gli_shm_rung(gli_shm *t);
/* Wake the peer if it sleeps. After a store that the peer polls for. */
static inline bool gli_shm_peer_sleeps(gli_shm_pair *pair) {
  return pair->peer_page != NULL && atomic_load(&pair->peer_page->asleep) != 0;
}
GLI_COLD void gli_shm_ring(gli_shm_pair *pair);

/* poll.c */
int gli_shm_poll(gli_transport *t);
void gli_shm_rested(gli_transport *t);
/* Takes over fd: false, with errno, when it is not watched; close it as well.
 */
bool gli_shm_watch(gli_shm *t, gli_watch *watch, int fd, gli_ready ready,
                   void *owner);
void gli_shm_bell_ready(void *t, int events);
void gli_shm_liveness_ready(void *pair, int events);

/* shm_accept.c */
void gli_shm_listener_ready(void *t, int events);
void gli_shm_half_open_due(gli_shm *t, uint64_t now_ns);
void gli_shm_half_open_close(gli_shm *t);

/* shm_connect.c */
void gli_shm_begin(gli_shm_pair *pair);
/* Read a note on its connection. False: there was none. */
bool gli_shm_pair_ready(gli_shm_pair *pair);
/* Answer a HELLO that came on `socket`, with the right tag where one is needed.
 * True when the socket was taken over.
 * Descriptors that are still in the note are the caller's to close. */
bool gli_shm_join(gli_shm_pair *pair, gli_shm_note *hello, int socket);

/* shm_pair.c */
gloo_status gli_shm_pair_open(gli_transport *t, const gli_pair_config *config,
                              gli_pair **pair, gloo_error *error);
/* The data part of the next ring, when `used` bytes are in rings already; 0: no
 * more. */
uint32_t gli_shm_data_for(uint64_t used);
bool gli_shm_pair_up(const gli_pair *pair);
void gli_shm_set_state(gli_shm_pair *pair, gli_shm_state state);
/* Something changed that decides whether the pair owes anything (gli_owe). */
void gli_shm_reckon(gli_shm_pair *pair);
/* Drops the connection. */
void gli_shm_pair_end(gli_transport_peer *peer);
/* Report pairs that broke, and free what is garbage. */
void gli_shm_tidy(gli_shm *t);
void gli_shm_pair_dispose(gli_shm_pair *pair);
void gli_shm_free_garbage(gli_shm *t);

/* shm_send.c */
gli_post gli_shm_send(gli_pair *pair, gli_send_request *request);
bool gli_shm_send_now(gli_pair *pair, gli_header *header, const void *payload);
/* Write what is queued, as far as there is room. Returns what was completed. */
int gli_shm_flush(gli_shm_pair *pair);
void gli_shm_pair_close(gli_pair *pair, const gli_send_request *last);
/* Is something left to deliver for closed pairs? */
bool gli_shm_lingering(const gli_shm *t);
/* A closed pair may have nothing left to do. */
void gli_shm_linger_check(gli_shm_pair *pair, uint64_t now_ns);

/* rkey.c */
/* From how many bytes on ordinary memory is read by the peer itself, instead of
 * going through a ring: GLOO_SHM_READ, by default never. */
gloo_status gli_shm_read_min(uint64_t *bytes, gloo_error *error);
bool gli_shm_rkey_pack(gli_pair *pair, const void *memory, size_t bytes,
                       bool write, uint64_t *rkey);
gloo_status gli_shm_rkey_map(gli_pair *pair, uint64_t rkey, size_t bytes,
                             bool write, void **memory, gloo_error *error);
gloo_status gli_shm_rkey_get(gli_pair *pair, uint64_t rkey, void *dst,
                             size_t bytes, gloo_error *error);
bool gli_shm_pair_revoked(gli_pair *pair);
gli_shared_copy *gli_shm_shared_copy(gli_pair *pair, bool sends);
/* Handles a note of a connected pair. Returns false for a protocol error. */
bool gli_shm_region_note(gli_shm_pair *pair, gli_shm_note *note);
/* Tell the peers which regions have been freed since it was last called. */
void gli_shm_forget_freed(gli_shm *t);

/* shm_forked.c */
void gli_shm_forked(gli_transport *t);
void gli_shm_abandon(gli_transport *t);

/* shm_receive.c */
bool gli_shm_take_now(gli_pair *pair, const gli_header *expected,
                      gli_taken *taken);
/* There is a record. */
GLI_APART int gli_shm_receive(gli_shm_pair *pair);
/* Tell the sender what has been read. */
GLI_APART void gli_shm_give_back(gli_shm_pair *pair);

#endif
