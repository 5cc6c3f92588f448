/* Messages of the simulated transport: sending and delivery. */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

/* ---- messages ------------------------------------------------------------ */

void sim_queue_push(sim_queue *queue, sim_message *m) {
  if (queue->head == NULL) {
    queue->head = m;
  } else {
    queue->tail->next = m;
  }
  queue->tail = m;
}

void sim_message_free(sim_message *m) {
  if (m->flight != NULL) m->flight->message = NULL;
  free(m->copy);
  free(m);
}

static void check_unchanged(const sim_side *sender, const sim_message *m) {
  if (sim_digest(m->payload, m->header.length) == m->digest) return;
  sim_violation(sender->world,
                "rank %u changed a payload of %llu bytes (slot %u) that was in "
                "progress to rank %u",
                sender->rank, (unsigned long long)m->header.length,
                m->header.slot,
                sender->link->sides[0].rank == sender->rank
                    ? sender->link->sides[1].rank
                    : sender->link->sides[0].rank);
}

/* Copies the payload, so that the message no longer needs its sender. */
void sim_message_copy(sim_side *sender, sim_message *m) {
  if (m->copy != NULL) return;
  check_unchanged(sender, m);
  m->copy = sim_alloc((size_t)m->header.length + 1);
  if (m->header.length > 0) {
    memcpy(m->copy, m->payload, (size_t)m->header.length);
  }
  m->payload = m->copy;
  if (m->flight != NULL) m->flight->message = NULL;
  m->flight = NULL;
}

/* ---- sending ------------------------------------------------------------- */

static void check_request(sim_side *side, const gli_send_request *request) {
  sim_world *world = side->world;
  if (side->closed || !side->attached) {
    sim_violation(world, "rank %u sends on a pair that it has closed",
                  side->rank);
  }
  for (const sim_flight *f = side->flights; f != NULL; f = f->next) {
    if (f->request != request) continue;
    sim_violation(world, "rank %u posts a request that is in progress",
                  side->rank);
  }
  uint8_t wire[GLI_HEADER_BYTES];
  gli_header decoded;
  gli_header_encode(&request->header, wire);
  if (!gli_header_decode(wire, &decoded)) {
    sim_violation(world,
                  "rank %u sends a header that no rank accepts (type %u)",
                  side->rank, (unsigned)request->header.type);
  }
  if (request->header.length > 0 && request->payload == NULL) {
    sim_violation(world, "rank %u sends %llu bytes from NULL", side->rank,
                  (unsigned long long)request->header.length);
  }
}

static sim_flight *new_flight(sim_side *side, gli_send_request *request,
                              sim_message *m, uint64_t due_ns) {
  sim_flight *flight = sim_alloc(sizeof *flight);
  *flight = (sim_flight){request, m, due_ns, side->flights};
  side->flights = flight;
  /* The contract lets a transport use these two as it likes. */
  request->next = (gli_send_request *)(uintptr_t)side->world->random;
  request->private_ = side->world->random;
  return flight;
}

static sim_queue *pick_stream(sim_side *to, const gli_header *header) {
  bool has_slot =
      header->type == GLI_MESSAGE_DATA || header->type == GLI_MESSAGE_RMA;
  uint32_t streams = (uint32_t)to->world->options.streams;
  return &to->streams[has_slot ? header->slot % streams : 0];
}

static sim_message *put_on_its_way(sim_side *side,
                                   const gli_send_request *request) {
  sim_side *peer = sim_other(side);
  sim_message *m = sim_alloc(sizeof *m);
  sim_queue *stream = pick_stream(peer, &request->header);
  m->header = request->header;
  m->payload = request->payload;
  m->digest = sim_digest(m->payload, m->header.length);
  m->due_ns = sim_soon_ns(side->world);
  sim_queue_push(stream, m);
  return m;
}

static gli_post post(sim_side *side, gli_send_request *request) {
  sim_world *world = side->world;
  sim_message *m = put_on_its_way(side, request);
  if (!sim_chance(world, world->options.progress_percent)) {
    sim_message_copy(side, m);
    return GLI_POST_DONE;
  }
  /* The payload is read at a random time, or not before the receiver reads
   * it. */
  uint64_t due_ns = sim_chance(world, 50) ? sim_soon_ns(world) : SIM_NEVER;
  m->flight = new_flight(side, request, m, due_ns);
  return GLI_POST_IN_PROGRESS;
}

gli_post sim_send(gli_pair *pair, gli_send_request *request) {
  sim_side *side = (sim_side *)pair;
  sim_side *peer = sim_other(side);
  sim_world *world = side->world;
  check_request(side, request);
  if (side->node->dead || side->failure_ns != SIM_NEVER) {
    new_flight(side, request, NULL, SIM_NEVER); /* ends with `failed` */
    return GLI_POST_IN_PROGRESS;
  }
  if (sim_chance(world, world->options.no_room_percent))
    return GLI_POST_NO_ROOM;
  if (request->header.type == GLI_MESSAGE_SHARE) {
    sim_shared_copy_asked(side, &request->header);
  }
  if (peer->closed) { /* it has sent BYE or ABORT and reads no more */
    if (!sim_chance(world, world->options.progress_percent)) {
      return GLI_POST_DONE;
    }
    new_flight(side, request, NULL, sim_soon_ns(world));
    return GLI_POST_IN_PROGRESS;
  }
  return post(side, request);
}

bool sim_send_now(gli_pair *pair, gli_header *header, const void *payload) {
  sim_side *side = (sim_side *)pair;
  sim_world *world = side->world;
  const gli_send_request request = {.header = *header, .payload = payload};
  check_request(side, &request);
  if (side->node->dead || side->failure_ns != SIM_NEVER) return false;
  if (sim_chance(world, world->options.at_once_percent)) {
    if (!sim_other(side)->closed) {
      sim_message_copy(side, put_on_its_way(side, &request));
    }
    return true;
  }
  return false;
}

/* ---- due events ---------------------------------------------------------- */

static bool streams_empty_but(const sim_side *side, const sim_queue *stream) {
  for (int i = 0; i < SIM_STREAMS_MAX; i++) {
    const sim_queue *other = &side->streams[i];
    if (other != stream && other->head != NULL) return false;
  }
  return true;
}

static bool may_arrive(const sim_side *side, const sim_queue *stream) {
  const sim_message *m = stream->head;
  return m != NULL && (!m->last || streams_empty_but(side, stream));
}

uint64_t sim_side_due_ns(sim_side *side) {
  uint64_t due_ns = SIM_NEVER;
  if (!side->attached) {
    return side->link->offered ? side->link->offer_ns : SIM_NEVER;
  }
  if (side->stopped || side->closed) return SIM_NEVER;
  for (const sim_flight *f = side->flights; f != NULL; f = f->next) {
    if (f->due_ns < due_ns) due_ns = f->due_ns;
  }
  for (int i = 0; i < SIM_STREAMS_MAX; i++) {
    const sim_queue *stream = &side->streams[i];
    if (!may_arrive(side, stream)) continue;
    if (stream->head->due_ns < due_ns) due_ns = stream->head->due_ns;
  }
  return side->failure_ns < due_ns ? side->failure_ns : due_ns;
}

/* ---- arriving ------------------------------------------------------------ */

static void check_sink(const sim_side *side, const gli_header *header,
                       const gli_sink *sink) {
  uint64_t bytes = header->length;
  const char *wrong = NULL;
  if (bytes == 0) return;
  if (sink->dst == NULL) wrong = "no address";
  if (sink->fn != NULL) {
    if (sink->local == NULL) wrong = "no local operand";
    if (sink->elem_bytes == 0) wrong = "elements of no bytes";
    if (sink->elem_bytes != 0 && bytes % sink->elem_bytes != 0) {
      wrong = "a length that is no multiple of its elements";
    }
  }
  if (wrong == NULL) return;
  sim_violation(side->world, "rank %u gives a sink for %llu bytes with %s",
                side->rank, (unsigned long long)bytes, wrong);
}

static void heard(sim_side *side) {
  side->heard++;
  side->heard_ns = sim_now_ns(side->world);
}

/* Returns false if the pair was closed or stopped. */
static bool begin(sim_side *side, sim_message *m) {
  gli_sink sink = {0};
  gli_header header = m->header;
  m->begun = true;
  heard(side);
  gloo_status status = side->node->upcalls.header(side->user, &header, &sink);
  if (side->closed) return false;
  if (status != GLOO_OK) {
    side->stopped = true;
    return false;
  }
  check_sink(side, &m->header, &sink);
  m->sink = sink;
  return true;
}

/* Drops a message that was delivered as a whole. */
static void drop_taken(sim_side *side, sim_queue *stream) {
  sim_message *m = stream->head;
  stream->head = m->next;
  if (m->flight != NULL) {
    check_unchanged(sim_other(side), m);
    m->flight->due_ns = sim_soon_ns(side->world);
  }
  sim_message_free(m);
}

/* Offers the message as a whole. Returns false if it has to be begun. */
static bool take_whole(sim_side *side, sim_queue *stream) {
  sim_message *m = stream->head;
  const gli_upcalls *upcalls = &side->node->upcalls;
  if (upcalls->message == NULL) return false;
  if (!sim_chance(side->world, side->world->options.at_once_percent)) {
    return false;
  }
  gli_header header = m->header;
  bool taken = false;
  m->begun = true;
  heard(side);
  gloo_status status =
      upcalls->message(side->user, &header, m->payload, &taken);
  if (side->closed) return true;
  if (status != GLOO_OK) {
    side->stopped = true;
    return true;
  }
  if (!taken) return false;
  drop_taken(side, stream);
  return true;
}

static void check_taking(const sim_side *side, const gli_header *expected) {
  const char *wrong = NULL;
  if (side->closed || !side->attached) wrong = "on a pair that it has closed";
  if (side->node->polling) wrong = "inside an upcall";
  if (expected->type != GLI_MESSAGE_DATA || expected->form != GLI_FORM_BYTES) {
    wrong = "of a kind that cannot be taken";
  }
  if (expected->length > GLI_TAKE_BYTES) wrong = "that is too long";
  if (wrong == NULL) return;
  sim_violation(side->world, "rank %u takes a message %s", side->rank, wrong);
}

static bool is_like(const gli_header *h, const gli_header *expected) {
  return h->type == expected->type && h->form == expected->form &&
         h->tuning == expected->tuning &&
         h->collective == expected->collective && h->dtype == expected->dtype &&
         h->op == expected->op && h->algorithm == expected->algorithm &&
         h->context == expected->context && h->tag == expected->tag &&
         h->slot == expected->slot && h->root == expected->root &&
         h->operation == expected->operation && h->count == expected->count &&
         h->length == expected->length;
}

bool sim_take_now(gli_pair *pair, const gli_header *expected,
                  gli_taken *taken) {
  sim_side *side = (sim_side *)pair;
  sim_world *world = side->world;
  check_taking(side, expected);
  if (side->stopped || side->failure_ns <= world->now_ns) return false;
  for (int i = 0; i < SIM_STREAMS_MAX; i++) {
    sim_queue *stream = &side->streams[i];
    sim_message *m = stream->head;
    if (m == NULL || m->begun || m->due_ns > world->now_ns) continue;
    if (!is_like(&m->header, expected)) continue;
    if (!sim_chance(world, world->options.at_once_percent)) return false;
    *taken = (gli_taken){.credit = m->header.credit,
                         .eager = m->header.eager,
                         .payload = side->taken};
    if (m->header.length > 0) {
      memcpy(side->taken, m->payload, (size_t)m->header.length);
    }
    heard(side);
    drop_taken(side, stream);
    return true;
  }
  return false;
}

static void absorb(sim_message *m, uint64_t bytes) {
  const gli_sink *sink = &m->sink;
  size_t n = (size_t)bytes, at = (size_t)m->arrived;
  m->arrived += bytes;
  if (n == 0) return;
  uint8_t *dst = (uint8_t *)sink->dst + at;
  if (sink->fn == NULL) {
    memcpy(dst, m->payload + at, n);
    return;
  }
  const uint8_t *local = (const uint8_t *)sink->local + at;
  const uint8_t *incoming = m->payload + at;
  sink->fn(dst, sink->incoming_first ? incoming : local,
           sink->incoming_first ? local : incoming, n / sink->elem_bytes);
}

static uint64_t piece(sim_world *world, const sim_message *m) {
  uint64_t left = m->header.length - m->arrived;
  if (left == 0 || !sim_chance(world, world->options.pieces_percent)) {
    return left;
  }
  uint64_t bytes = 1 + sim_random(world, left);
  if (m->sink.fn == NULL) return bytes;
  bytes -= bytes % m->sink.elem_bytes;
  return bytes;
}

static void finish(sim_side *side, sim_queue *stream) {
  sim_message *m = stream->head;
  stream->head = m->next;
  if (m->flight != NULL) {
    check_unchanged(sim_other(side), m);
    m->flight->due_ns = sim_soon_ns(side->world);
  }
  void *token = m->sink.token;
  sim_message_free(m);
  side->node->upcalls.received(side->user, token);
}

static void arrive(sim_side *side, sim_queue *stream) {
  sim_world *world = side->world;
  sim_message *m = stream->head;
  if (!m->begun) {
    if (take_whole(side, stream)) return;
    if (!begin(side, m)) return;
    if (sim_chance(world, world->options.pieces_percent)) {
      m->due_ns = sim_soon_ns(world);
      return;
    }
  }
  absorb(m, piece(world, m));
  if (m->arrived < m->header.length) {
    m->due_ns = sim_soon_ns(world);
    return;
  }
  finish(side, stream);
}

/* ---- acting -------------------------------------------------------------- */

static void ask(sim_side *side) {
  sim_node *node = side->node;
  sim_link *link = side->link;
  node->upcalls.accept(node->device_user, side->key, sim_other(side)->rank);
  if (!link->offered) return; /* opened from inside the upcall */
  link->offered = false;
  side->closed = true;
  sim_side **at = &node->sides;
  while (*at != side) at = &(*at)->next;
  *at = side->next;
  sim_fail(sim_other(side), "refused the connection");
}

static void report_sent(sim_side *side, sim_flight **at) {
  sim_flight *flight = *at;
  *at = flight->next;
  if (flight->message != NULL) sim_message_copy(side, flight->message);
  gli_send_request *request = flight->request;
  free(flight);
  side->node->upcalls.sent(side->user, request);
}

static void report_failure(sim_side *side) {
  sim_side *peer = sim_other(side);
  gloo_error cause;
  side->stopped = true;
  sim_drop_all(side);
  sim_drop_borrowed(peer);
  sim_free_flights(side);
  gli_fail(&cause, GLOO_ERR_PEER, (int)peer->rank, "rank %u %s",
           (unsigned)peer->rank, side->failure);
  side->node->upcalls.failed(side->user, &cause);
}

void sim_side_act(sim_side *side) {
  uint64_t now_ns = side->world->now_ns;
  if (!side->attached) {
    ask(side);
    return;
  }
  if (side->failure_ns <= now_ns) {
    report_failure(side);
    return;
  }
  for (sim_flight **at = &side->flights; *at != NULL; at = &(*at)->next) {
    if ((*at)->due_ns > now_ns) continue;
    report_sent(side, at);
    return;
  }
  uint64_t first = sim_random(side->world, SIM_STREAMS_MAX);
  for (uint64_t i = 0; i < SIM_STREAMS_MAX; i++) {
    sim_queue *stream = &side->streams[(first + i) % SIM_STREAMS_MAX];
    if (!may_arrive(side, stream) || stream->head->due_ns > now_ns) continue;
    arrive(side, stream);
    return;
  }
}
