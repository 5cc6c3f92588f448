/* Internals of the shared memory transport. What differs by system is in
 * system.h and memory/sealed.h.
 *
 * An end point listens on a Unix socket. A pair is one connection,
 * over which each side passes two descriptors to the other: the memory of the
 * ring that it writes (shm_ring.h), and its page, which tells whether it
 * sleeps. The connection stays open as a liveness socket: its end means that
 * the peer has ended, and a note on it wakes the peer. Memory has no name, so none
 * remains if all processes are killed.
 *
 * Memory. Each pair costs a rank one ring. The first rings are large, later
 * ones smaller (gli_shm_data_for), and beyond GLI_SHM_MEMORY_MAX pairs are
 * declined. Opening a pair reserves the first page of its ring, and messages
 * reserve the rest as they need it (gli_shm_out_begin).
 *
 * transport/peer.h describes how pairs fail and end. */
#ifndef GLI_TRANSPORT_SHM_SHM_H
#define GLI_TRANSPORT_SHM_SHM_H

#include <stdatomic.h>
#include <uv.h>

#include "core/hints.h"
#include "net/events.h"
#include "transport/peer.h"
#include "transport/request.h"
#include "transport_shm/address.h"
#include "transport_shm/map_cache.h"
#include "transport_shm/note.h"
#include "transport_shm/shm_ring.h"
#include "transport_shm/system.h"

extern const gli_transport_ops gli_transport_shm;
/* Operations of pairs with checksums. */
extern const gli_transport_ops gli_transport_shm_checked;

#define GLI_SHM_MEMORY_MAX ((uint64_t)64 * 1024 * 1024)
#ifndef GLI_SHM_HALF_OPEN_MAX
#define GLI_SHM_HALF_OPEN_MAX 64
#endif

typedef struct gli_shm_pair gli_shm_pair;

/* Connection that has not identified its rank yet. */
typedef struct gli_shm_half_open {
  gli_watch watch;
  struct gli_shm *t;
  uint64_t until_ns;
} gli_shm_half_open;

typedef enum gli_shm_state {
  GLI_SHM_IDLE,     /* not started */
  GLI_SHM_GREETING, /* HELLO sent */
  GLI_SHM_WAITING,  /* retries at due_ns, unless the peer connects first */
  GLI_SHM_OFFERED,  /* ACCEPTED sent; the peer will confirm it */
  GLI_SHM_UP,
  GLI_SHM_ENDED
} gli_shm_state;

/* Region of this process (memory/region.h) that the peer knows. */
typedef struct gli_shm_announced {
  uint64_t serial;
  const uint8_t *base;
  uint32_t id;
} gli_shm_announced;

struct gli_shm_pair {
  gli_transport_peer peer;
  gli_watch watch; /* liveness socket */
  struct gli_shm *t;
  gli_shm_endpoint there;
  gli_shm_state state;

  /* making the connection */
  uint64_t due_ns;           /* time of the next action; 0 if none */
  uint64_t failing_since_ns; /* 0 if no attempt has failed */
  int lack; /* errno of an exhausted local resource; 0 if none */
  uint32_t attempts, answers;

  /* sending: private_ of a request is its progress in gli_shm_put */
  gli_shm_out out;
  gli_request_queue queue;
  atomic_bool waiting; /* true if the queue is not empty; sleepers read it */
  gli_shm_page *peer_page;

  /* receiving */
  gli_shm_in in;
  gli_header header;
  gli_sink sink;
  uint64_t placed;
  uint32_t sum, expected_sum; /* CRC32C of the payload */

  /* memory that rkeys name, see rkey.c */
  uint64_t proof; /* random number that the peer reads; 0 if it need not */
  gli_shm_foreign peer_process; /* process of the peer, and its proof */
  bool reads;    /* true if this rank can read all of the peer's memory */
  bool readable; /* true if the peer can read this rank's memory */
  gli_shm_announced *announced; /* sorted by id */
  size_t n_announced, announced_capacity;
  gli_shm_map_cache map_cache; /* regions of the peer */
  bool missed_region; /* true if a region was not cached, for lack of memory */
};

/* Lengths from which a peer reads ordinary memory directly, instead of
 * receiving it through a ring. */
typedef struct gli_shm_reading {
  uint64_t any;         /* any message */
  uint64_t single_copy; /* GLI_ACCESS_SINGLE_COPY */
} gli_shm_reading;

typedef struct gli_shm {
  gli_transport_peers peers;
  gli_shm_endpoint here;
  uint64_t memory_bytes; /* total size of our rings */
  gli_shm_reading reading;
  uint64_t region_generation; /* peers know of regions freed until then */
  unsigned polls;
  uint64_t next_look_ns; /* time of the next poll of the descriptors */
  unsigned connecting;   /* number of pairs that are connecting */
  int spread_for; /* argument of the last gli_shm_spread, 0 or 1; -1: pairs have
                     come or gone since */

  /* Connected pairs, indexed for polling. `up_lock` protects changes of the
   * array, and reads by sleepers; a thread that holds the engine's lock reads
   * it without. */
  gli_shm_pair **up;
  size_t n_up, up_capacity;
  uv_mutex_t up_lock;

  gli_events *events;
  gli_watch listener, bell;
  int ringer;         /* rings the bell; may be the bell's descriptor */
  bool accept_paused; /* listener not watched: no descriptors, or too many
                         half-open connections */
  uint64_t accept_paused_until_ns;
  uint64_t lacking_since_ns; /* time of the first failed accept; 0 if none */
  gli_shm_half_open half_opens[GLI_SHM_HALF_OPEN_MAX];
  uint64_t refused_count;

  /* sleeping; see shm_wait.c */
  gli_shm_page *page;
  int page_fd;
  atomic_uint wakes;
  atomic_bool oversubscribed; /* true if ranks outnumber processors */
  atomic_bool look;           /* true if poll must check the descriptors */
} gli_shm;

/* shm_wait.c */
void gli_shm_wake(gli_transport *t);
void gli_shm_sleep(gli_transport *t, int64_t timeout_ns);
bool gli_shm_sleep_begin(gli_transport *t, gli_sleep *sleep);
void gli_shm_sleep_end(gli_transport *t);
/* Resets the bell, unless a sleeper still has to see it. */
void gli_shm_read_bell(gli_shm *t);
/* Handles RING from a peer. */
void gli_shm_ring_received(gli_shm *t);
/* Returns true if the peer sleeps, and must be woken after a store. */
static inline bool gli_shm_peer_sleeps(gli_shm_pair *pair) {
  return pair->peer_page != NULL && atomic_load(&pair->peer_page->asleep) != 0;
}
GLI_COLD void gli_shm_ring(gli_shm_pair *pair);

/* poll.c */
int gli_shm_poll(gli_transport *t);
void gli_shm_rested(gli_transport *t);
/* Watches `fd` and takes ownership of it. On failure returns false with errno;
 * `fd` must then be closed as well. */
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
/* Reads a note from the pair's connection. Returns false if there was none. */
bool gli_shm_pair_ready(gli_shm_pair *pair);
/* Answers a HELLO that arrived on `socket`, whose tag has been verified if
 * required. Returns true if the pair took ownership of the socket. Descriptors
 * that remain in the note are for the caller to close. */
bool gli_shm_join(gli_shm_pair *pair, gli_shm_note *hello, int socket);

/* shm_pair.c */
gloo_status gli_shm_pair_open(gli_transport *t, const gli_pair_config *config,
                              gli_pair **pair, gloo_error *error);
/* Returns the size of the data part of the next ring if `used` bytes are in
 * rings already, or 0 if the limit is reached. */
uint32_t gli_shm_data_for(uint64_t used);
bool gli_shm_pair_up(const gli_pair *pair);
void gli_shm_set_state(gli_shm_pair *pair, gli_shm_state state);
/* Recomputes whether the pair owes output (gli_mark_undelivered). */
void gli_shm_update_undelivered(gli_shm_pair *pair);
/* Drops the connection. */
void gli_shm_pair_end(gli_transport_peer *peer);
/* Reports pairs that broke, and frees garbage. */
void gli_shm_tidy(gli_shm *t);
void gli_shm_pair_dispose(gli_shm_pair *pair);
void gli_shm_free_garbage(gli_shm *t);

/* shm_send.c */
gli_post gli_shm_send(gli_pair *pair, gli_send_request *request);
bool gli_shm_send_now(gli_pair *pair, gli_header *header, const void *payload);
/* Writes queued requests, as far as they fit. Returns the number completed. */
int gli_shm_flush(gli_shm_pair *pair);
void gli_shm_pair_close(gli_pair *pair, const gli_send_request *last);
/* Returns true if closed pairs have messages to deliver. */
bool gli_shm_lingering(const gli_shm *t);
/* Disposes of a closed pair that has nothing left to do. */
void gli_shm_linger_check(gli_shm_pair *pair, uint64_t now_ns);

/* rkey.c */
/* Reads GLOO_SHM_READ. */
gloo_status gli_shm_reading_read(gli_shm_reading *reading, gloo_error *error);
bool gli_shm_rkey_pack(gli_pair *pair, const void *memory, size_t bytes,
                       gli_access access, uint64_t *rkey);
gloo_status gli_shm_rkey_map(gli_pair *pair, uint64_t rkey, size_t bytes,
                             bool write, void **memory, gloo_error *error);
gloo_status gli_shm_rkey_get(gli_pair *pair, uint64_t rkey, void *dst,
                             size_t bytes, gloo_error *error);
bool gli_shm_pair_revoked(gli_pair *pair);
gli_shared_copy *gli_shm_shared_copy(gli_pair *pair, bool sends);
/* Handles a note of a connected pair. Returns false for a protocol error. */
bool gli_shm_region_note(gli_shm_pair *pair, gli_shm_note *note);
/* Tells all peers of the regions that have been freed since the last call. */
void gli_shm_forget_freed(gli_shm *t);

/* shm_forked.c */
void gli_shm_forked(gli_transport *t);
void gli_shm_abandon(gli_transport *t);

/* shm_receive.c */
bool gli_shm_take_now(gli_pair *pair, const gli_header *expected,
                      gli_taken *taken);
/* Receives records, of which at least one is ready. */
GLI_APART int gli_shm_receive(gli_shm_pair *pair);
/* Acknowledges the records that have been read. */
GLI_APART void gli_shm_give_back(gli_shm_pair *pair);

#endif
