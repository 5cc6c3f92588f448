/* Negotiation of a queue pair, over TCP. Each end offers one. Threads make and
 * connect them (ibv_jobs.h). An end whose queue pair is connected to the other's
 * says so, and is tried with a probe, which shows that the path works before
 * anything depends on it. Once both ends are ready, messages take this path. An
 * end that fails declines instead, and both stay with TCP; so does one whose
 * probe is not acknowledged in time. The device itself takes longer to give up
 * (ACK_TIMEOUT in port.c). Heartbeats wait like other messages, so each end
 * repeats meanwhile that it lives.
 *
 * A note:  0 magic  4 kind  5 the rest of an offer (queue.c); DECLINED: 8 reason;
 *   LEAVES: 8 number of frames sent. Little-endian. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/bytes.h"
#include "core/log.h"
#include "core/text.h"
#include "transport_ibv/ibv.h"

enum { NOTE_HEAD_BYTES = 8, LEAVES_BYTES = 12 };

/* Time for which a pair waits for a thread, while those are busy with peers that
 * cannot be reached. */
static const uint64_t setup_patience_ns = 3000000000;
/* Below the least GLOO_HEARTBEAT and the grace that it allows. */
static const uint64_t alive_every_ns = 100000000;

/* ---- notes --------------------------------------------------------------- */

/* Allows the note that is repeated to be sent again. */
static void note_sent(gli_ibv_pair *pair, const gli_send_request *request) {
  gli_ibv_note *alive = &pair->note[GLI_IBV_ALIVE];
  if (request == &alive->request) alive->posted = false;
}

static void note_send(gli_ibv_pair *pair, gli_ibv_note_kind kind,
                      size_t bytes) {
  gli_ibv_note *note = &pair->note[kind];
  if (note->posted || pair->tcp == NULL) return;
  note->posted = true;
  gli_put_u32(note->data, GLI_IBV_NOTE_MAGIC);
  note->data[4] = (uint8_t)kind;
  note->request.header.type = GLI_MESSAGE_LINK;
  note->request.header.length = bytes;
  note->request.payload = note->data;
  if (pair->tcp->ops->send(pair->tcp, &note->request) == GLI_POST_DONE)
    note_sent(pair, &note->request);
}

static bool is_note(const gli_ibv_pair *pair, const gli_send_request *request) {
  for (int i = 0; i < GLI_IBV_NOTES; i++)
    if (request == &pair->note[i].request) return true;
  return false;
}

/* ---- decision ------------------------------------------------------------ */

static void ibv_tell(gli_ibv_pair *pair) {
  bool verbs = pair->way == GLI_IBV_BY_VERBS;
  gli_log(GLOO_LOG_INFO,
          "rank %" PRIu32 " talks to rank %" PRIu32 " through %s%s",
          pair->config.self_rank, pair->config.peer_rank,
          verbs ? "RDMA, " : "TCP, not RDMA: ",
          verbs ? pair->t->port.name : pair->why);
}

static void ibv_decide(gli_ibv_pair *pair, gli_ibv_way way) {
  gli_ibv *t = pair->t;
  pair->way = way;
  if (way == GLI_IBV_BY_VERBS) {
    t->n_others--;
    t->n_by_verbs++;
  }
  ibv_tell(pair);
  gli_ibv_update_undelivered(pair);
  gli_ibv_pair_busy(pair);
}

void gli_ibv_stay(gli_ibv_pair *pair, const char *why) {
  if (gli_ibv_is_decided(pair)) return;
  (void)snprintf(pair->why, sizeof pair->why, "%s", why);
  gli_ibv_queue_drop(pair);
  if (pair->cq_entries != 0) pair->t->shared.n_unused++;
  ibv_decide(pair, GLI_IBV_BY_TCP);
  gli_send_request *request;
  while ((request = gli_request_pop(&pair->queue)) != NULL)
    if (pair->tcp->ops->send(pair->tcp, request) == GLI_POST_DONE)
      gli_request_push(&pair->finished, request);
}

void gli_ibv_decline(gli_ibv_pair *pair, const char *why) {
  gli_ibv_note *note = &pair->note[GLI_IBV_DECLINED];
  size_t bytes = strlen(why);
  if (bytes >= sizeof pair->why) bytes = sizeof pair->why - 1;
  if (gli_ibv_is_decided(pair)) return;
  memcpy(note->data + NOTE_HEAD_BYTES, why, bytes);
  note_send(pair, GLI_IBV_DECLINED, NOTE_HEAD_BYTES + bytes);
  gli_ibv_stay(pair, why);
}

static void decline_for(gli_ibv_pair *pair, const char *lacks, int code) {
  char why[GLI_WHY_BYTES];
  (void)snprintf(
      why, sizeof why, "%.30s on rank %" PRIu32 " lacks %.60s: %.30s",
      pair->t->port.name, pair->config.self_rank, lacks, strerror(code));
  gli_ibv_decline(pair, why);
}

/* ---- calls by threads ---------------------------------------------------- */

/* Begins the time in which the pair must be decided. */
static void ibv_set_limit(gli_ibv_pair *pair, uint64_t ns) {
  pair->decide_until_ns = gli_ibv_now(pair->t) + ns;
  gli_ibv_update_undelivered(pair);
}

static void setup_begin(gli_ibv_pair *pair, void (*run)(gli_ibv_job *),
                        void (*end)(gli_ibv_job *)) {
  pair->job.run = run;
  pair->job.end = end;
  pair->job.owner = pair;
  pair->setup = GLI_IBV_WORKING;
  ibv_set_limit(pair, setup_patience_ns);
  gli_ibv_job_begin(pair->t, &pair->job);
}

/* Takes the queue pair back from a thread. Returns false if it is not needed any
 * more, or not usable; the pair then uses TCP. */
static bool setup_ended(gli_ibv_pair *pair) {
  gli_ibv *t = pair->t;
  gli_ibv_setup was = pair->setup;
  const gli_ibv_job *job = &pair->job;
  pair->setup = GLI_IBV_SETTLED;
  if (pair->qp == NULL) gli_ibv_unshare(pair);
  if (was != GLI_IBV_WORKING || pair->broken) {
    gli_ibv_queue_drop(pair);
    if (was == GLI_IBV_RETIRED)
      gli_ibv_pair_move(pair, pair->qp_leaked ? &t->qp_leaked : &t->garbage);
    return false;
  }
  if (gli_ibv_is_gone(t)) {
    gli_ibv_decline(pair, "the RDMA device is lost");
  } else if (job->lacks != NULL) {
    decline_for(pair, job->lacks, job->code);
  }
  return !gli_ibv_is_decided(pair);
}

/* ---- making and connecting ----------------------------------------------- */

static void ibv_try(gli_ibv_pair *pair) {
  if (pair->way != GLI_IBV_WAY_CONNECTED ||
      pair->peer_way < GLI_IBV_PEER_CONNECTED || pair->posted != 0)
    return;
  if (gli_ibv_post_probe(pair)) {
    ibv_set_limit(pair, (uint64_t)GLI_LINGER_NS);
  } else if (pair->waits) {
    errno = ENOMEM;
    decline_for(pair, gli_ibv_lacks("registered memory"), ENOMEM);
  }
}

static void connect_run(gli_ibv_job *job) {
  job->lacks = gli_ibv_queue_connect(job->owner);
  job->code = errno;
}

static void connect_end(gli_ibv_job *job) {
  gli_ibv_pair *pair = job->owner;
  if (!setup_ended(pair)) return;
  pair->way = GLI_IBV_WAY_CONNECTED;
  ibv_set_limit(pair, (uint64_t)GLI_LINGER_NS);
  note_send(pair, GLI_IBV_CONNECTED, NOTE_HEAD_BYTES);
  ibv_try(pair);
}

/* Connects the queue pair once both ends have offered one. */
static void ibv_connect(gli_ibv_pair *pair) {
  if (pair->way != GLI_IBV_WAY_OFFERED || pair->peer.mtu == 0) return;
  pair->way = GLI_IBV_WAY_CONNECTING;
  setup_begin(pair, connect_run, connect_end);
}

static void make_run(gli_ibv_job *job) {
  job->lacks = gli_ibv_queue_make(job->owner);
  job->code = errno;
}

static void make_end(gli_ibv_job *job) {
  gli_ibv_pair *pair = job->owner;
  if (!setup_ended(pair)) return;
  gli_ibv_number(pair);
  gli_ibv_offer_write(pair, pair->note[GLI_IBV_OFFER].data);
  pair->way = GLI_IBV_WAY_OFFERED;
  note_send(pair, GLI_IBV_OFFER, GLI_IBV_OFFER_BYTES);
  ibv_connect(pair);
}

void gli_ibv_show_life(gli_ibv_pair *pair, uint64_t now_ns) {
  if (gli_ibv_is_decided(pair) || pair->broken) return;
  if (now_ns >= pair->alive_ns) {
    if (pair->alive_ns != 0) note_send(pair, GLI_IBV_ALIVE, NOTE_HEAD_BYTES);
    pair->alive_ns = now_ns + alive_every_ns;
  }
  gli_ibv_schedule(pair->t, pair->alive_ns);
}

void gli_ibv_offer(gli_ibv_pair *pair) {
  const char *lacks = gli_ibv_share(pair);
  gli_ibv_show_life(pair, gli_ibv_now(pair->t));
  if (lacks == NULL)
    setup_begin(pair, make_run, make_end);
  else
    decline_for(pair, lacks, errno);
}

/* Returns true if the pair has waited too long: for a thread, or for the
 * acknowledgement of the probe. The peer's device does that by itself, however
 * late its process is. */
static bool setup_is_late(const gli_ibv_pair *pair, uint64_t now_ns) {
  bool probes = pair->way == GLI_IBV_WAY_CONNECTED && pair->posted > 0;
  return (pair->setup == GLI_IBV_WORKING || probes) && !pair->broken &&
         now_ns >= pair->decide_until_ns;
}

void gli_ibv_setups_due(gli_ibv *t, uint64_t now_ns) {
  gli_ibv_pair *pair = t->pairs;
  while (pair != NULL && !setup_is_late(pair, now_ns)) pair = pair->next;
  if (pair == NULL) return;
  gli_ibv_drain(t, true); /* this thread may be late */
  for (pair = t->pairs; pair != NULL; pair = pair->next) {
    char why[GLI_WHY_BYTES];
    if (!setup_is_late(pair, now_ns)) continue;
    if (pair->setup == GLI_IBV_SETTLED) {
      (void)snprintf(why, sizeof why,
                     "a test message through %.40s was not acknowledged for %d "
                     "s; check MTU, VLAN, and UDP port 4791 in firewalls",
                     t->port.name, (int)(GLI_LINGER_NS / 1000000000));
    } else if (gli_ibv_job_cancel(t, &pair->job)) {
      pair->setup = GLI_IBV_SETTLED;
      (void)snprintf(why, sizeof why,
                     "%.40s was busy for %d s with the setup of other "
                     "connections; can it reach all ranks?",
                     t->port.name, (int)(setup_patience_ns / 1000000000));
    } else {
      continue; /* the thread will be back */
    }
    gli_ibv_decline(pair, why);
  }
}

void gli_ibv_probed(gli_ibv_pair *pair) {
  pair->way = GLI_IBV_WAY_PROBED;
  note_send(pair, GLI_IBV_READY, NOTE_HEAD_BYTES);
  if (pair->peer_way == GLI_IBV_PEER_READY) ibv_decide(pair, GLI_IBV_BY_VERBS);
}

static void note_take_offer(gli_ibv_pair *pair, const uint8_t *data,
                            size_t bytes) {
  gli_ibv_peer peer;
  if (bytes != GLI_IBV_OFFER_BYTES || !gli_ibv_offer_read(data, &peer)) {
    gli_ibv_decline(pair, "the other rank's offer is invalid");
    return;
  }
  if (peer.infiniband != pair->t->port.infiniband) {
    gli_ibv_decline(pair,
                    "one rank's port is InfiniBand, the other's Ethernet");
    return;
  }
  pair->checked = pair->t->checksum || peer.checksum;
  pair->peer = peer;
  gli_ibv_update_undelivered(pair);
  ibv_connect(pair);
}

/* Handles a note. Late or repeated notes change nothing. */
static void note_take(gli_ibv_pair *pair, const uint8_t *data, size_t bytes) {
  pair->t->happened++;
  if (bytes == LEAVES_BYTES && data[4] == GLI_IBV_LEAVES &&
      pair->way == GLI_IBV_BY_VERBS)
    pair->peer_frames = gli_get_u32(data + 8);
  if (gli_ibv_is_decided(pair) || pair->broken) return;
  if (bytes < NOTE_HEAD_BYTES || gli_get_u32(data) != GLI_IBV_NOTE_MAGIC) {
    gli_ibv_decline(pair, "the other rank uses another protocol version");
    return;
  }
  switch (data[4]) {
    case GLI_IBV_OFFER:
      if (pair->peer.mtu == 0) note_take_offer(pair, data, bytes);
      break;
    case GLI_IBV_CONNECTED:
      if (pair->peer_way == GLI_IBV_PEER_NEW)
        pair->peer_way = GLI_IBV_PEER_CONNECTED;
      ibv_try(pair);
      break;
    case GLI_IBV_READY:
      pair->peer_way = GLI_IBV_PEER_READY;
      if (pair->way == GLI_IBV_WAY_PROBED) ibv_decide(pair, GLI_IBV_BY_VERBS);
      break;
    case GLI_IBV_ALIVE:
      break; /* its arrival over TCP is enough */
    case GLI_IBV_DECLINED: {
      char why[GLI_WHY_BYTES];
      size_t length = bytes - NOTE_HEAD_BYTES;
      if (length >= sizeof why) length = sizeof why - 1;
      memcpy(why, data + NOTE_HEAD_BYTES, length);
      why[length] = '\0';
      gli_make_printable(why);
      gli_ibv_stay(pair, why);
      break;
    }
    default:
      gli_ibv_decline(pair, "the other rank uses another protocol version");
  }
}

/* ---- upcalls of TCP ------------------------------------------------------ */

/* Handles the departure of the peer, which reads nothing more. */
static void peer_departs(gli_ibv_pair *pair) {
  pair->departed = true;
  pair->leaving = pair->to_tell = false;
  if (pair->way != GLI_IBV_BY_TCP) gli_ibv_drop_sends(pair);
  gli_ibv_touch(pair->t);
}

/* Delivers the peer's BYE once all its frames are here. They were acknowledged
 * before the BYE, but their completions may appear a little later. */
void gli_ibv_check_bye(gli_ibv_pair *pair) {
  const gli_upcalls *upcalls = pair->t->upcalls;
  gli_sink sink;
  if ((int32_t)(pair->taken - pair->peer_frames) < 0 && !pair->broken) return;
  bool hears = pair->live;
  peer_departs(pair);
  if (!hears) return;
  if (upcalls->header(pair->config.user, &pair->bye, &sink) != GLOO_OK)
    pair->live = false;
  else
    upcalls->received(pair->config.user, sink.token);
}

void gli_ibv_say_leaves(gli_ibv_pair *pair) {
  gli_put_u32(pair->note[GLI_IBV_LEAVES].data + 8, pair->frames);
  note_send(pair, GLI_IBV_LEAVES, LEAVES_BYTES);
}

/* Drops frames for a closed pair. */
static void ibv_discard(void *dst, const void *local, const void *incoming,
                        size_t count) {
  (void)dst;
  (void)local;
  (void)incoming;
  (void)count;
}

static gloo_status ibv_on_header(void *pair_user, const gli_header *header,
                                 gli_sink *sink) {
  gli_ibv_pair *pair = pair_user;
  if (header->type == GLI_MESSAGE_LINK) {
    if (header->length > sizeof pair->note_in) return GLOO_ERR_PROTOCOL;
    pair->note_in_bytes = (size_t)header->length;
    *sink = (gli_sink){.dst = pair->note_in, .token = pair->note_in};
    return GLOO_OK;
  }
  if (header->type == GLI_MESSAGE_BYE && pair->way == GLI_IBV_BY_VERBS) {
    pair->bye = *header;
    *sink = (gli_sink){.token = &pair->bye};
    return GLOO_OK;
  }
  if (header->type == GLI_MESSAGE_BYE) peer_departs(pair);
  /* The sender let its frames arrive first, so handle them first. */
  if (header->type == GLI_MESSAGE_ABORT && pair->way == GLI_IBV_BY_VERBS)
    gli_ibv_drain(pair->t, true);
  if (pair->closed) {
    if (header->type == GLI_MESSAGE_ABORT) peer_departs(pair);
    *sink = (gli_sink){.dst = pair->note_in,
                       .local = pair->note_in,
                       .fn = ibv_discard,
                       .elem_bytes = 1};
    return GLOO_OK;
  }
  if (!pair->live) return GLOO_ERR_CANCELLED;
  gloo_status status =
      pair->t->upcalls->header(pair->config.user, header, sink);
  if (status != GLOO_OK)
    pair->live = false;
  else if (header->type == GLI_MESSAGE_ABORT)
    pair->abort_token = sink->token;
  return status;
}

static gloo_status ibv_on_message(void *pair_user, const gli_header *header,
                                  const void *payload, bool *taken) {
  gli_ibv_pair *pair = pair_user;
  const gli_upcalls *upcalls = pair->t->upcalls;
  if (header->type == GLI_MESSAGE_LINK) {
    *taken = true;
    note_take(pair, payload, (size_t)header->length);
    return GLOO_OK;
  }
  /* Only data is taken this way, and nothing that ends a pair. */
  if (upcalls->message == NULL || header->type != GLI_MESSAGE_DATA)
    return GLOO_OK;
  if (pair->closed) return GLOO_OK; /* its header follows */
  if (!pair->live) return GLOO_ERR_CANCELLED;
  gloo_status status =
      upcalls->message(pair->config.user, header, payload, taken);
  if (status != GLOO_OK) pair->live = false;
  return status;
}

static void ibv_on_received(void *pair_user, void *token) {
  gli_ibv_pair *pair = pair_user;
  if (token == pair->note_in) {
    note_take(pair, pair->note_in, pair->note_in_bytes);
  } else if (token == &pair->bye) {
    pair->leaving = true;
    gli_ibv_check_bye(pair);
  } else if (pair->live) {
    if (token == pair->abort_token && token != NULL) peer_departs(pair);
    pair->t->upcalls->received(pair->config.user, token);
  }
}

static void ibv_on_sent(void *pair_user, gli_send_request *request) {
  gli_ibv_pair *pair = pair_user;
  if (is_note(pair, request))
    note_sent(pair, request);
  else if (pair->live)
    pair->t->upcalls->sent(pair->config.user, request);
}

static void ibv_on_failed(void *pair_user, const gloo_error *cause) {
  gli_ibv_pair *pair = pair_user;
  /* Frames that arrived before are still handled. */
  if (pair->way == GLI_IBV_BY_VERBS) gli_ibv_drain(pair->t, true);
  pair->broken = true;
  pair->report_ns = 0;
  gli_ibv_touch(pair->t);
  if (pair->leaving) gli_ibv_check_bye(pair);
  if (!pair->live || pair->departed) return;
  pair->to_tell = true;
  pair->cause = *cause;
}

/* Returns the pair that lingers because the decision is pending; the engine no
 * longer knows it. */
static gli_ibv_pair *ibv_find_closed(const gli_ibv *t, uint64_t key,
                                     uint32_t peer_rank) {
  for (gli_ibv_pair *pair = t->pairs; pair != NULL; pair = pair->next)
    if (pair->closed && pair->tcp != NULL && pair->config.local_key == key &&
        pair->config.peer_rank == peer_rank)
      return pair;
  return NULL;
}

static bool ibv_on_expect(void *device_user, uint64_t key, uint32_t peer_rank,
                          gli_pair_config *config) {
  const gli_ibv *t = device_user;
  const gli_ibv_pair *closed = ibv_find_closed(t, key, peer_rank);
  if (closed != NULL) *config = closed->config;
  return closed != NULL ||
         (t->upcalls->expect != NULL &&
          t->upcalls->expect(t->device_user, key, peer_rank, config));
}

static gli_pair *ibv_on_accept(void *device_user, uint64_t key,
                               uint32_t peer_rank) {
  const gli_ibv *t = device_user;
  const gli_ibv_pair *closed = ibv_find_closed(t, key, peer_rank);
  if (closed != NULL) return closed->tcp;
  gli_pair *found = t->upcalls->accept(t->device_user, key, peer_rank);
  if (found == NULL || found == GLI_PAIR_LATER || found == GLI_PAIR_ELSEWHERE)
    return found;
  gli_pair *tcp = ((gli_ibv_pair *)found)->tcp;
  return tcp != NULL ? tcp : GLI_PAIR_LATER;
}

const gli_upcalls gli_ibv_upcalls = {
    .header = ibv_on_header,
    .received = ibv_on_received,
    .sent = ibv_on_sent,
    .failed = ibv_on_failed,
    .accept = ibv_on_accept,
    .expect = ibv_on_expect,
    .message = ibv_on_message,
};
