/* A transport above a transport that cuts a rank off at the level of messages,
 * also over shared memory, which no network fault affects. This file replaces
 * transport/transports.c: a name finds the transport of that name with a few
 * operations replaced. They forward until one of the functions of proxy.h is
 * called. Pairs and end points belong to the transport below; only their tables
 * belong to the proxy. */
#include "proxy.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "cell.h"
#include "core/error.h"
#include "transport/transport.h"

extern const gli_transport_ops gli_transport_auto;
extern const gli_transport_ops gli_transport_tcp;
extern const gli_transport_ops gli_transport_shm;
extern const gli_transport_ops gli_transport_ibv;
extern const gli_transport_ops gli_transport_inproc;

typedef struct proxied {
  gli_transport_ops ops;
  const gli_transport_ops *below;
} proxied;

static atomic_bool sends_nothing, hears_nothing, is_busy;
static atomic_int cuts; /* polls until a connection ends; 0: none ends */

void cell_proxy_mute(void) {
  atomic_store(&sends_nothing, true);
}

void cell_proxy_half_open(void) {
  atomic_store(&sends_nothing, true);
  atomic_store(&hears_nothing, true);
}

void cell_proxy_busy(void) {
  atomic_store(&is_busy, true);
}

void cell_proxy_cut(void) {
  atomic_store(&cuts, 1);
}

static const gli_transport_ops *below_pair(const gli_pair *pair) {
  return ((const proxied *)(const void *)pair->ops)->below;
}

static const gli_transport_ops *below_transport(const gli_transport *t) {
  return ((const proxied *)(const void *)t->ops)->below;
}

/* Returns true once in `n` calls, at random. The devices of a rank run in turn,
 * and this rank has one. */
static bool one_in(unsigned n) {
  static _Atomic unsigned state = 1;
  unsigned random = atomic_load(&state);
  unsigned drawn = cell_random(&random, n);
  atomic_store(&state, random);
  return drawn == 0;
}

/* ---- to the peer --------------------------------------------------------- */

static gli_post proxy_send(gli_pair *pair, gli_send_request *request) {
  if (atomic_load(&sends_nothing)) return GLI_POST_DONE;
  if (atomic_load(&is_busy) && one_in(2)) return GLI_POST_NO_ROOM;
  return below_pair(pair)->send(pair, request);
}

static bool proxy_send_now(gli_pair *pair, gli_header *header,
                           const void *payload) {
  if (atomic_load(&sends_nothing)) return true;
  if (atomic_load(&is_busy)) return false;
  return below_pair(pair)->send_now(pair, header, payload);
}

static void proxy_pair_close(gli_pair *pair, const gli_send_request *last) {
  below_pair(pair)->pair_close(pair, atomic_load(&sends_nothing) ? NULL : last);
}

/* ---- from the peer ------------------------------------------------------- */

/* Token of dropped messages, whose payload goes to a scratch buffer. */
static const uint8_t dropped;

static const gli_upcalls *above; /* upcalls of the engine, or of auto */
static gli_upcalls between;

static gloo_status drop_header(const gli_header *header, gli_sink *sink) {
  static void *memory;
  memory = realloc(memory, (size_t)header->length + 1);
  if (memory == NULL) abort();
  *sink = (gli_sink){.dst = memory, .token = (void *)(uintptr_t)&dropped};
  return GLOO_OK;
}

static gloo_status proxy_header(void *user, const gli_header *header,
                                gli_sink *sink) {
  if (atomic_load(&hears_nothing)) return drop_header(header, sink);
  return above->header(user, header, sink);
}

static void proxy_received(void *user, void *token) {
  if (token != (const void *)&dropped) above->received(user, token);
}

static gloo_status proxy_message(void *user, const gli_header *header,
                                 const void *payload, bool *taken) {
  if (!atomic_load(&hears_nothing))
    return above->message(user, header, payload, taken);
  *taken = true;
  return GLOO_OK;
}

static bool proxy_take_now(gli_pair *pair, const gli_header *expected,
                           gli_taken *taken) {
  if (atomic_load(&hears_nothing)) return false;
  return below_pair(pair)->take_now(pair, expected, taken);
}

/* Hides the polls of a peer in shared memory, as its messages are lost. */
static uint64_t proxy_heard(const gli_pair *pair) {
  const gli_transport_ops *below = below_pair(pair);
  uint64_t at, heard;
  if (below->shows_polls == NULL) return below->heard(pair);
  do {
    at = below->heard_at(pair);
    heard = below->heard(pair);
  } while (below->heard_at(pair) != at);
  return heard - at;
}

/* ---- connections --------------------------------------------------------- */

/* The pair opened last, whose connection ends. */
static struct {
  void *user;
  uint32_t peer;
} last_pair;

static void end_connection(void) {
  gloo_error cause;
  (void)gli_fail(&cause, GLOO_ERR_PEER, (int)last_pair.peer,
                 "the proxy has cut the connection to rank %u", last_pair.peer);
  above->failed(last_pair.user, &cause);
}

static void put_between_pair(proxied *p, const gli_transport_ops *below) {
  p->below = below;
  p->ops = *below;
  p->ops.send = proxy_send;
  p->ops.pair_close = proxy_pair_close;
  if (below->send_now != NULL) p->ops.send_now = proxy_send_now;
  if (below->take_now != NULL) p->ops.take_now = proxy_take_now;
  if (below->heard != NULL) p->ops.heard = proxy_heard;
  p->ops.heard_at = NULL;
  p->ops.shows_polls = NULL;
}

/* Returns the proxy's table for a table of the transport below. A transport has
 * several, e.g. one for checksums. */
static const gli_transport_ops *table_above(const gli_transport_ops *below) {
  static proxied pairs[8];
  for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
    if (pairs[i].below == NULL) put_between_pair(&pairs[i], below);
    if (pairs[i].below == below) return &pairs[i].ops;
  }
  abort();
}

static gloo_status proxy_pair_open(gli_transport *t,
                                   const gli_pair_config *config,
                                   gli_pair **pair, gloo_error *error) {
  gloo_status status = below_transport(t)->pair_open(t, config, pair, error);
  if (status != GLOO_OK) return status;
  (*pair)->ops = table_above((*pair)->ops);
  last_pair.user = config->user;
  last_pair.peer = config->peer_rank;
  return status;
}

/* ---- the end point ------------------------------------------------------- */

static int proxy_poll(gli_transport *t) {
  if (atomic_load(&is_busy) && one_in(4)) return 0;
  if (atomic_load(&cuts) == 1 && last_pair.user != NULL) {
    atomic_store(&cuts, 0);
    end_connection();
    return 1;
  }
  return below_transport(t)->poll(t);
}

/* Sleeps briefly, since refused messages must be offered again. */
static void proxy_sleep(gli_transport *t, int64_t timeout_ns) {
  static const int64_t nap_ns = 200000;
  bool naps = atomic_load(&is_busy) || atomic_load(&cuts) > 0;
  if (naps && (timeout_ns < 0 || timeout_ns > nap_ns)) timeout_ns = nap_ns;
  below_transport(t)->sleep(t, timeout_ns);
}

static bool proxy_sleep_begin(gli_transport *t, gli_sleep *sleep) {
  bool quiet = below_transport(t)->sleep_begin(t, sleep);
  return quiet && !atomic_load(&is_busy) && atomic_load(&cuts) == 0;
}

static gloo_status proxy_open(const proxied *p,
                              const gli_transport_config *config,
                              gli_transport **t, gloo_error *error) {
  gli_transport_config own = *config;
  above = config->upcalls;
  between = *above;
  between.header = proxy_header;
  between.received = proxy_received;
  if (above->message != NULL) between.message = proxy_message;
  own.upcalls = &between;
  gloo_status status = p->below->open(&own, t, error);
  if (status == GLOO_OK) (*t)->ops = &p->ops;
  return status;
}

/* ---- the registry -------------------------------------------------------- */

static proxied tcp, shm, inproc;

static gloo_status open_tcp(const gli_transport_config *config,
                            gli_transport **t, gloo_error *error) {
  return proxy_open(&tcp, config, t, error);
}

static gloo_status open_shm(const gli_transport_config *config,
                            gli_transport **t, gloo_error *error) {
  return proxy_open(&shm, config, t, error);
}

static gloo_status open_inproc(const gli_transport_config *config,
                               gli_transport **t, gloo_error *error) {
  return proxy_open(&inproc, config, t, error);
}

typedef gloo_status (*open_fn)(const gli_transport_config *config,
                               gli_transport **t, gloo_error *error);

static void put_between(proxied *p, const gli_transport_ops *below,
                        open_fn open) {
  put_between_pair(p, below);
  p->ops.open = open;
  p->ops.pair_open = proxy_pair_open;
  p->ops.poll = proxy_poll;
  p->ops.sleep = proxy_sleep;
  if (below->sleep_begin != NULL) p->ops.sleep_begin = proxy_sleep_begin;
}

const gli_transport_ops *gli_transport_at(size_t index) {
  static const gli_transport_ops *const all[] = {
      &gli_transport_auto, &tcp.ops, &shm.ops, &gli_transport_ibv, &inproc.ops};
  if (tcp.below == NULL) {
    put_between(&shm, &gli_transport_shm, open_shm);
    put_between(&inproc, &gli_transport_inproc, open_inproc);
    put_between(&tcp, &gli_transport_tcp, open_tcp);
  }
  return index < sizeof all / sizeof all[0] ? all[index] : NULL;
}

const gli_transport_ops *gli_transport_find(const char *name) {
  const gli_transport_ops *found = NULL;
  for (size_t i = 0; name != NULL && (found = gli_transport_at(i)) != NULL; i++)
    if (strcmp(found->name, name) == 0) return found;
  return NULL;
}
