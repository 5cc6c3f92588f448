/* A pair over RDMA whose peer sends anything: frames through the queue pair,
 * and notes over a stand-in for TCP (ibv_below.h). The device is the stand-in
 * of the tests of transport_ibv (ibv_device.h), and the peer is a second queue
 * pair on it, with two lanes (ibv_peer.h). The first two bytes select the
 * properties of both ends, and whether they have agreed on RDMA, and on lanes,
 * before the steps. Each step has a byte that selects its kind. */
#include <stdlib.h>
#include <string.h>

#include "core/bytes.h"
#include "core/crc32c.h"
#include "gloo_c/memory.h"
#include "ibv_below.h"
#include "ibv_peer.h"
#include "transport_ibv/ibv.h"

enum {
  CHECKED = 1,    /* messages have checksums */
  AGREES = 2,     /* the ends agree on RDMA before the first step */
  KEEPS = 4,      /* requests of the lower transport stay in progress for a
                     while */
  NO_VERBS = 8,   /* the peer has no device */
  FAILS = 16,     /* a device call, selected by the next byte, fails */
  REFUSES = 32,   /* the engine refuses some headers */
  CLOSES = 64,    /* the engine closes the pair with a BYE at the end */
  PEER_LAST = 128 /* the peer ends after the library */
};
/* Bits of the second byte; its other bits select the failing call. */
enum {
  STALLS = 64, /* threads do not end while the endpoint is closed */
  RAILS = 128  /* both ends have two rails */
};
enum {
  STEPS_MAX = 100,
  MESSAGE_MAX = 1 << 18,
  ARRIVALS = 64,
  SENDS = 4,
  REGION_BYTES = 1 << 18
};

/* ---- the engine ---------------------------------------------------------- */

typedef struct ibv_arrival {
  uint8_t *dst, *local; /* for free(); NULL if in the region */
  size_t bytes;
  bool used;
} ibv_arrival;

typedef struct ibv_sending {
  gli_send_request request;
  uint8_t *payload; /* for free() */
  bool busy;
} ibv_sending;

static struct {
  gli_transport *t;
  gli_pair *pair; /* NULL: closed */
  uint32_t owed;
  uint8_t how;
  bool rails;
  bool silent; /* no more upcalls may come */
  ibv_arrival arrivals[ARRIVALS];
  ibv_sending sendings[SENDS];
  gli_rma_work rma;
  bool rma_busy;
  gli_header last; /* last header from the peer */
} e;

static uint8_t *region;  /* REGION_BYTES from gloo_alloc, for all inputs */
enum { REGION_TAG = 1 }; /* bit of a tag: the payload goes to the region */

static void engine_sum(void *dst, const void *a, const void *b, size_t count) {
  for (size_t i = 0; i < 4 * count; i++)
    ((uint8_t *)dst)[i] =
        (uint8_t)(((const uint8_t *)a)[i] + ((const uint8_t *)b)[i]);
}

static void engine_check(const gli_header *header) {
  fuzz_check(e.pair != NULL && !e.silent, "upcalls are for an open pair");
  fuzz_check(header == NULL || gli_header_valid(header),
             "no other header is handed up");
}

static gloo_status engine_refuse(void) {
  e.silent = true;
  return GLOO_ERR_PROTOCOL;
}

static gloo_status on_header(void *user, const gli_header *header,
                             gli_sink *sink) {
  (void)user;
  engine_check(header);
  if (header->length > MESSAGE_MAX) return engine_refuse();
  if ((e.how & REFUSES) != 0 && header->slot == 9) return engine_refuse();
  size_t i = 0;
  while (i < ARRIVALS && e.arrivals[i].used) i++;
  fuzz_check(i < ARRIVALS, "few messages are under way at a time");
  ibv_arrival *a = &e.arrivals[i];
  size_t bytes = (size_t)header->length;
  *a = (ibv_arrival){.bytes = bytes, .used = true};
  *sink = (gli_sink){.dst = region, .token = a};
  if ((header->tag & REGION_TAG) != 0 && bytes <= REGION_BYTES) return GLOO_OK;
  a->dst = malloc(bytes + 1);
  a->local = calloc(1, bytes + 1);
  fuzz_check(a->dst != NULL && a->local != NULL, "there is memory");
  a->dst[bytes] = 0x77;
  sink->dst = a->dst;
  if (header->dtype == 0 || bytes % 4 != 0) return GLOO_OK;
  sink->fn = engine_sum;
  sink->local = a->local;
  sink->elem_bytes = 4;
  sink->incoming_first = header->op == 0;
  return GLOO_OK;
}

static void arrival_end(ibv_arrival *a) {
  free(a->dst);
  free(a->local);
  *a = (ibv_arrival){.used = false};
}

static void on_received(void *user, void *token) {
  ibv_arrival *a = token;
  (void)user;
  engine_check(NULL);
  fuzz_check(a >= e.arrivals && a < e.arrivals + ARRIVALS && a->used,
             "it is what was announced, once");
  fuzz_check(a->dst == NULL || a->dst[a->bytes] == 0x77,
             "nothing is written behind a message");
  arrival_end(a);
}

static gloo_status on_message(void *user, const gli_header *header,
                              const void *payload, bool *taken) {
  static uint8_t room[GLI_IBV_SLOT_BYTES];
  (void)user;
  engine_check(header);
  *taken = header->slot % 2 == 0 && header->length <= sizeof room;
  if (*taken && header->length > 0)
    memcpy(room, payload, (size_t)header->length);
  return GLOO_OK;
}

static void sending_end(ibv_sending *s) {
  free(s->payload);
  s->payload = NULL;
  s->busy = false;
}

static void on_sent(void *user, gli_send_request *request) {
  ibv_sending *s = (ibv_sending *)request;
  (void)user;
  engine_check(NULL);
  fuzz_check(s >= e.sendings && s < e.sendings + SENDS && s->busy,
             "it is a request that is in progress");
  sending_end(s);
}

static void on_failed(void *user, const gloo_error *cause) {
  (void)user;
  engine_check(NULL);
  fuzz_check_error(cause->status, cause);
  fuzz_check(cause->status != GLOO_OK, "a failure has a cause");
  e.silent = true;
}

static void on_rma_done(void *user, gli_rma_work *work) {
  (void)user;
  engine_check(NULL);
  fuzz_check(work == &e.rma && e.rma_busy, "it is what was begun, once");
  e.rma_busy = false;
}

static const gli_upcalls engine_upcalls = {.header = on_header,
                                           .received = on_received,
                                           .sent = on_sent,
                                           .failed = on_failed,
                                           .message = on_message,
                                           .rma_done = on_rma_done};

/* Closes the pair, after which no memory of the engine is accessed:
 * AddressSanitizer reports it otherwise. */
static void engine_close_pair(const gli_send_request *last) {
  if (e.pair == NULL) return;
  gli_pair *pair = e.pair;
  gli_transport_ibv.pair_close(pair, last);
  e.pair = NULL;
  e.rma_busy = false;
  for (size_t i = 0; i < ARRIVALS; i++) arrival_end(&e.arrivals[i]);
  for (size_t i = 0; i < SENDS; i++) sending_end(&e.sendings[i]);
}

/* ---- calls of the engine ------------------------------------------------- */

static gli_header make_header(fuzz_input *input, size_t length) {
  uint8_t kind = fuzz_take_u8(input), parts = fuzz_take_u8(input);
  return (gli_header){.type = (uint8_t)(kind % GLI_MESSAGE_TYPES),
                      .form = (kind >> 5) % GLI_FORMS & 0x7fu,
                      .eager = parts & 1u,
                      .tag = parts >> 1 & 1,
                      .dtype = parts >> 2 & 1,
                      .op = parts >> 3 & 1,
                      .slot = parts >> 4,
                      .length = length};
}

/* Sends from the region, or from other memory. */
static void engine_send(fuzz_input *input, bool now) {
  uint8_t what = fuzz_take_u8(input);
  size_t bytes = (size_t)fuzz_take_u16(input) << (what >> 6);
  ibv_sending *s = &e.sendings[what % SENDS];
  if (s->busy || e.pair == NULL) return;
  memset(&s->request, 0, sizeof s->request);
  s->request.header = make_header(input, bytes);
  s->request.header.type = GLI_MESSAGE_DATA;
  s->request.header.form = GLI_FORM_BYTES;
  if (bytes > MESSAGE_MAX) return;
  if ((what & 16) == 0) s->payload = calloc(1, bytes + 1);
  s->request.payload = s->payload != NULL ? s->payload : region;
  s->busy = !now;
  if (now)
    (void)gli_transport_ibv.send_now(e.pair, &s->request.header,
                                     s->request.payload);
  else
    s->busy =
        gli_transport_ibv.send(e.pair, &s->request) == GLI_POST_IN_PROGRESS;
  if (!s->busy) sending_end(s);
}

static void engine_take_now(void) {
  static uint8_t room[GLI_TAKE_BYTES];
  gli_taken taken;
  if (e.pair == NULL || e.silent || e.last.type != GLI_MESSAGE_DATA) return;
  if (e.last.form != GLI_FORM_BYTES || e.last.length > GLI_TAKE_BYTES) return;
  if (gli_transport_ibv.take_now(e.pair, &e.last, &taken) && e.last.length > 0)
    memcpy(room, taken.payload, (size_t)e.last.length);
}

/* Accesses the peer's memory, or memory beside it. */
static void engine_rma(fuzz_input *input) {
  static uint8_t local[REGION_BYTES];
  uint8_t what = fuzz_take_u8(input);
  size_t bytes = ((size_t)fuzz_take_u16(input) << (what >> 6 & 1)) + 1;
  uint64_t remote;
  uint32_t rkey;
  if (e.pair == NULL || peer.context == NULL) return;
  (void)gli_transport_ibv.rma_expose(e.pair, region, bytes, &remote, &rkey);
  if (e.rma_busy) return;
  e.rma = (gli_rma_work){.puts = (what & 1) != 0,
                         .local = (what & 2) != 0 ? region : local,
                         .bytes = bytes,
                         .remote = (uintptr_t)peer.open + (what & 4) * 1000u,
                         .rkey = peer.open_mr->rkey + (what >> 3 & 1)};
  e.rma_busy = gli_transport_ibv.rma(e.pair, &e.rma);
}

static void engine_leave(uint8_t what) {
  static const uint8_t cause[8];
  gli_send_request last = {.header = {.type = GLI_MESSAGE_BYE}};
  if ((what & 1) != 0) {
    last.header.type = GLI_MESSAGE_ABORT;
    last.header.length = sizeof cause;
    last.payload = cause;
  }
  engine_close_pair((what & 2) != 0 ? NULL : &last);
}

/* ---- messages from the peer ---------------------------------------------- */

static uint32_t peer_credits(uint8_t what) {
  uint32_t credits = peer.owed;
  if (what >= 0xf0) return what & 15u; /* a made-up number */
  peer.owed = 0;
  return credits;
}

/* Writes to `at` the header of a message that carries that many bytes. */
static size_t peer_put_header(fuzz_input *input, uint8_t *at, size_t most,
                              uint64_t more, bool damaged) {
  fuzz_input start = *input;
  (void)fuzz_take_u16(input); /* of the header */
  fuzz_input piece = fuzz_take_piece(input);
  size_t bytes = piece.left < most ? piece.left : most;
  uint8_t *payload = at + GLI_HEADER_BYTES;
  if (bytes > 0) memcpy(payload, piece.at, bytes);
  if (bytes == 255) bytes = most; /* with zeros */
  e.last = make_header(&start, bytes + (size_t)more);
  if ((e.how & CHECKED) != 0)
    gli_header_encode_checked(&e.last, gli_crc32c(0, payload, bytes) + damaged,
                              at);
  else
    gli_header_encode(&e.last, at);
  return GLI_HEADER_BYTES + bytes;
}

/* Writes a note about lanes. */
static size_t peer_put_note(fuzz_input *input, uint32_t kind, uint8_t what,
                            uint8_t *data) {
  if (kind == GLI_IBV_LANES_LEFT) return 0;
  if (kind != GLI_IBV_LANES_OFFER) {
    gli_put_u32(data, fuzz_take_u8(input) ^ 3u);
    return 4;
  }
  size_t bytes = peer_put_lanes(data, what >= 200 ? 1 : PEER_LANES);
  size_t changed = fuzz_take_u8(input);
  if (changed < bytes) data[changed] ^= fuzz_take_u8(input);
  return bytes;
}

/* Offers to have a payload read, or memory beside it. */
static size_t peer_put_keys(uint8_t what, uint8_t *data) {
  uint32_t key = peer.context != NULL ? peer.open_mr->rkey : 1;
  gli_put_u64(data, (uintptr_t)peer.open + (what >= 200 ? 40000 : 0));
  for (int i = 0; i < PEER_LANES; i++)
    gli_put_u32(data + 8 + 4 * i, key + (what >> 6 & 1));
  return 8 + 4 * PEER_LANES;
}

/* Sends a frame of a valid kind, mostly with the right length. */
static void peer_say_frame(fuzz_input *input) {
  static uint8_t frame[GLI_IBV_FRAME_MAX];
  uint8_t what = fuzz_take_u8(input), number = fuzz_take_u8(input);
  uint32_t credits = peer_credits(number);
  uint8_t *data = frame + GLI_IBV_FRAME_HEAD;
  size_t bytes = 0;
  memset(frame, 0, sizeof frame);
  frame[0] = what % (GLI_IBV_KINDS + 1);
  frame[2] = (uint8_t)credits;
  gli_put_u32(frame + 4, (number & 32) != 0 ? peer.asked : number % 10u);
  uint64_t more = 0;
  switch (frame[0]) {
    case GLI_IBV_WHOLE:
      bytes = peer_put_header(input, data, GLI_IBV_FIRST_MAX, 0, what >= 240);
      break;
    case GLI_IBV_FIRST:
      more = fuzz_take_u16(input) + 1u;
      bytes = peer_put_header(input, data, GLI_IBV_FIRST_MAX, more, false);
      break;
    case GLI_IBV_ASK:
      more = (fuzz_take_u16(input) + 1u) * (uint64_t)(what >= 128 ? 1 : 5);
      bytes = peer_put_header(input, data, 0, more, false);
      if (e.rails && (number & 16) != 0)
        bytes += peer_put_keys(what, data + bytes);
      break;
    case GLI_IBV_LANES:
      gli_put_u32(frame + 4, number % 6u);
      bytes = peer_put_note(input, number % 6u, what, data);
      break;
    case GLI_IBV_MORE:
      bytes = fuzz_take_u16(input) % (GLI_IBV_MORE_MAX + 1);
      break;
    case GLI_IBV_PLACE:
      gli_put_u64(data, (uintptr_t)peer.open + (what >= 200 ? 60000 : 0));
      gli_put_u32(data + 8, peer.context != NULL ? peer.open_mr->rkey : 1);
      bytes = GLI_IBV_PLACE_BYTES;
      break;
    default:
      break;
  }
  bytes += GLI_IBV_FRAME_HEAD;
  if ((number & 64) != 0) { /* too long or too short */
    size_t other = bytes + fuzz_take_u8(input) - 128u;
    if (other <= sizeof frame) bytes = other;
  }
  peer_send(frame, bytes);
}

static void peer_say_bytes(fuzz_input *input) {
  fuzz_input piece = fuzz_take_piece(input);
  peer_send(piece.at, piece.left);
}

/* Accesses the memory that the library offered, or memory beside it. */
static void peer_reach_memory(uint8_t what, size_t bytes) {
  if ((what & 32) != 0)
    peer_reach_lane(what & 1, (what & 128) == 0, what & 16 ? 1u << 18 : 0,
                    what >> 6 & 1, bytes);
  if (!peer.placed || (what & 32) != 0) return;
  if (bytes > GLI_IBV_SLOT_BYTES) bytes = GLI_IBV_SLOT_BYTES;
  peer_reach((what & 128) == 0, peer.place + (what & 16 ? 1u << 18 : 0),
             peer.place_key + (what >> 6 & 1), bytes);
}

static void peer_say_note(uint8_t kind, bool whole) {
  static const uint8_t lengths[GLI_IBV_NOTES] = {
      [GLI_IBV_OFFER] = GLI_IBV_OFFER_BYTES,
      [GLI_IBV_CONNECTED] = 8,
      [GLI_IBV_READY] = 8,
      [GLI_IBV_DECLINED] = 20,
      [GLI_IBV_LEAVES] = 12,
      [GLI_IBV_ALIVE] = 8};
  uint8_t note[GLI_IBV_NOTE_BYTES] = {0};
  const gli_header header = {.type = GLI_MESSAGE_LINK, .length = lengths[kind]};
  gli_put_u32(note, GLI_IBV_NOTE_MAGIC);
  note[4] = kind;
  if (kind == GLI_IBV_OFFER) {
    note[6] = IBV_MTU_1024;
    gli_put_u32(note + 8, peer.context != NULL ? peer.qp->qp_num : 7);
    gli_put_u32(note + 12, PEER_PSN);
    memcpy(note + 16, standin_port_at(0)->gid[1].raw, 16);
    note[36] = note[37] = 1;
    note[38] = e.rails ? PEER_LANES : 0;
  }
  if (kind == GLI_IBV_LEAVES) gli_put_u32(note + 8, peer.posted);
  below_say(&header, note, whole);
}

/* Sends a valid note with changed bits, or a piece of the input. */
static void peer_say_any_note(fuzz_input *input) {
  uint8_t what = fuzz_take_u8(input), kind = what % GLI_IBV_NOTES;
  bool whole = (what & 16) != 0;
  gli_header header = {.type = GLI_MESSAGE_LINK};
  uint8_t data[GLI_LINK_LENGTH_MAX];
  if (kind != 0) peer_say_note(kind, whole);
  if (kind != 0 && (what & 128) == 0) return;
  fuzz_input piece = fuzz_take_piece(input);
  header.length = kind != 0 ? below.said.length : 0;
  memset(data, 0, sizeof data);
  memcpy(data, below.payload, (size_t)header.length);
  if ((what & 64) != 0 || kind == 0) header.length = piece.left;
  for (size_t i = 0; i < sizeof data && piece.left > 0; i++)
    data[i] ^= fuzz_take_u8(&piece);
  below_say(&header, data, whole);
}

/* Sends any message other than a note over the lower transport. */
static void peer_say_below(fuzz_input *input) {
  fuzz_input start = *input;
  (void)fuzz_take_u16(input);
  fuzz_input piece = fuzz_take_piece(input);
  gli_header header = make_header(&start, piece.left);
  below_say(&header, piece.at, header.slot % 2 != 0);
}

/* ---- invariants ---------------------------------------------------------- */

/* The pair's counters equal what its tables hold. */
static void pair_check(const gli_ibv_pair *pair) {
  uint32_t unanswered = 0, under_way = 0, pieces = 0, held = 0;
  for (int i = 0; i < GLI_IBV_LONGS; i++) {
    unanswered += pair->in[i].used && !pair->in[i].answered;
    under_way += pair->out[i].request != NULL;
  }
  for (int i = 0; i < GLI_IBV_SLOTS; i++) pieces += pair->piece[i].work != NULL;
  fuzz_check(pair->to_answer == unanswered, "each question has one answer");
  fuzz_check(pair->n_out == under_way, "messages under way are counted");
  fuzz_check(pair->rma.pieces == pieces, "pieces under way are counted");
  for (int i = 0; i < GLI_IBV_SLOTS; i++) held += pair->slot[i] != NULL;
  fuzz_check(pair->held == held || pair->qp == NULL, "slots are counted");
  fuzz_check(pair->credits <= GLI_IBV_SLOTS &&
                 pair->posted - pair->done <= GLI_IBV_SLOTS &&
                 (pair->allowed + pair->owed == GLI_IBV_SLOTS || pair->broken),
             "no more is under way than there are slots");
}

/* Reads in progress on each rail equal those of its lanes. */
static void rails_check(const gli_ibv_rails *rails) {
  uint32_t in_flight[GLI_IBV_RAILS_MAX] = {0};
  for (const gli_ibv_lanes *lanes = rails->lanes; lanes != NULL;
       lanes = lanes->next) {
    if (lanes->state == GLI_IBV_LANES_MAKING) continue;
    fuzz_check(lanes->n <= rails->n && lanes->n_far <= GLI_IBV_RAILS_MAX &&
                   lanes->n_again <= GLI_IBV_RAILS_MAX * GLI_IBV_LANE_DEPTH,
               "there is room for each lane and part");
    for (uint32_t i = 0; i < lanes->n; i++) {
      const gli_ibv_lane *lane = &lanes->lane[i];
      fuzz_check(lane->posted - lane->done <= GLI_IBV_LANE_DEPTH,
                 "a lane has few reads");
      in_flight[lane->rail] += lane->posted - lane->done;
    }
  }
  for (uint32_t i = 0; i < rails->n; i++)
    fuzz_check(rails->rail[i].in_flight == in_flight[i], "reads are counted");
}

/* ---- one input ----------------------------------------------------------- */

/* Polls both ends, and does the infrequent checks too. */
static void ends_go_on(void) {
  device_run_threads();
  gli_transport_ibv.rested(e.t);
  (void)gli_transport_ibv.poll(e.t);
  (void)gli_transport_ibv.poll(e.t);
  peer_connect(below.offered_number, below.offered_psn);
  peer_look();
  for (const gli_ibv_pair *pair = ((gli_ibv *)e.t)->pairs; pair != NULL;
       pair = pair->next)
    pair_check(pair);
  rails_check(&((gli_ibv *)e.t)->rails);
}

static void ends_agree(void) {
  static const uint8_t notes[] = {GLI_IBV_OFFER, GLI_IBV_CONNECTED,
                                  GLI_IBV_READY};
  for (size_t i = 0; i < sizeof notes; i++) {
    ends_go_on();
    peer_say_note(notes[i], true);
  }
  ends_go_on();
}

/* A set of both lanes, for notes. */
enum { BOTH = (1 << PEER_LANES) - 1 };

static void ends_agree_on_lanes(void) {
  for (uint32_t kind = GLI_IBV_LANES_OFFER; kind <= GLI_IBV_LANES_READY;
       kind++) {
    uint8_t frame[GLI_IBV_FRAME_HEAD + PEER_LANES * GLI_IBV_LANE_BYTES] = {
        GLI_IBV_LANES};
    size_t bytes = 4;
    gli_put_u32(frame + 4, kind);
    gli_put_u32(frame + GLI_IBV_FRAME_HEAD, BOTH);
    if (kind == GLI_IBV_LANES_OFFER)
      bytes = peer_put_lanes(frame + GLI_IBV_FRAME_HEAD, PEER_LANES);
    peer_send(frame, GLI_IBV_FRAME_HEAD + bytes);
    for (int i = 0; i < 3; i++) ends_go_on();
  }
}

/* Without failures the ends agree on all that they try. */
static void ends_begin_agreed(uint8_t how) {
  const gli_ibv_pair *pair = (gli_ibv_pair *)e.pair;
  bool all = (how & (NO_VERBS | FAILS)) == 0;
  ends_agree();
  fuzz_check(!all || pair->way == GLI_IBV_BY_VERBS, "the ends agree on RDMA");
  if (!e.rails) return;
  ends_agree_on_lanes();
  fuzz_check(!all || (pair->lanes != NULL && pair->lanes->up == BOTH &&
                      pair->lanes->far_up == BOTH),
             "the ends agree on lanes");
}

static void ends_step(fuzz_input *input) {
  uint8_t what = fuzz_take_u8(input), with;
  bool polls = (what & 128) == 0;
  switch (what & 15) {
    case 0:
    case 1:
    case 2:
      peer_say_frame(input);
      break;
    case 3:
      peer_say_bytes(input);
      break;
    case 4:
      peer_say_any_note(input);
      break;
    case 5:
      engine_send(input, (what & 16) != 0);
      break;
    case 6:
      peer_give((what >> 4 & 7u) + 1);
      break;
    case 7:
      with = fuzz_take_u8(input);
      peer_reach_memory(with, fuzz_take_u16(input));
      break;
    case 8:
      engine_take_now();
      break;
    case 9:
      engine_rma(input);
      break;
    case 10:
      peer_say_below(input);
      break;
    case 11:
      device_pass(UINT64_C(1000000) << (what >> 4 & 7) * 2);
      break;
    case 12:
      with = fuzz_take_u8(input);
      device_fail((standin_call)(with % STANDIN_N_CALLS), 1 + (what >> 4 & 3u));
      break;
    case 13:
      if ((what & 64) != 0) engine_leave(what >> 4);
      break;
    case 14:
      if ((what & 64) != 0) below_fail();
      if ((what & 32) != 0) peer_break();
      if ((what & 16) != 0) ends_agree();
      if ((what & 16) != 0 && e.rails) ends_agree_on_lanes();
      break;
    default:
      (void)gli_transport_ibv.poll(e.t);
  }
  if (polls) ends_go_on();
}

static bool ends_begin(uint8_t how, uint8_t fault) {
  const gli_transport_config config = {.streams = 1,
                                       .checksum = (how & CHECKED) != 0,
                                       .upcalls = &engine_upcalls,
                                       .owed = &e.owed};
  const gli_pair_config to = {.self_rank = 0,
                              .peer_rank = 1,
                              .local_key = 1,
                              .remote_key = 2,
                              .user = &e};
  gloo_error error;
  memset(&e, 0, sizeof e);
  memset(&peer, 0, sizeof peer);
  e.how = how;
  e.rails = (fault & RAILS) != 0;
  (void)setenv("GLOO_IBV_RAILS", e.rails ? "2" : "1", 1);
  device_begin();
  below_begin((how & NO_VERBS) == 0, (how & KEEPS) != 0);
  below.stalls = (fault & STALLS) != 0;
  fault %= STALLS;
  peer_open();
  peer_give(PEER_SLOTS);
  if ((how & FAILS) != 0)
    device_fail((standin_call)(fault % STANDIN_N_CALLS),
                1 + fault / STANDIN_N_CALLS);
  gloo_status status = gli_transport_ibv.open(&config, &e.t, &error);
  fuzz_check_error(status, &error);
  if (status != GLOO_OK) return false;
  status = gli_transport_ibv.pair_open(e.t, &to, &e.pair, &error);
  fuzz_check(status == GLOO_OK, "the pair opens");
  if ((how & AGREES) != 0) ends_begin_agreed(how);
  return true;
}

/* The remains of a closed pair are freed after the linger time. */
static void ends_close(void) {
  enum { TURNS = 4 };
  gli_ibv *t = (gli_ibv *)e.t;
  engine_leave((e.how & CLOSES) != 0 ? 0 : 2);
  for (int i = 0; i < TURNS && t->pairs != NULL; i++) {
    ends_go_on();
    device_pass((uint64_t)GLI_LINGER_NS);
  }
  fuzz_check(t->pairs == NULL && e.owed == 0, "nothing is left of the pair");
  if ((e.how & PEER_LAST) == 0) peer_close();
  gli_transport_ibv.close(e.t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  fuzz_input input = {data, bytes};
  gloo_error error;
  void *memory;
  if (region == NULL) {
    fuzz_check(gloo_alloc(REGION_BYTES, &memory, &error) == GLOO_OK,
               error.message);
    region = memory;
    (void)setenv("STANDIN_PORTS", "standin0;standin1", 1);
    (void)setenv("GLOO_IBV_RAILS_MIN", "32768", 1);
  }
  uint8_t how = fuzz_take_u8(&input), fault = fuzz_take_u8(&input);
  if (ends_begin(how, fault)) {
    for (int i = 0; i < STEPS_MAX && input.left > 0; i++) ends_step(&input);
    ends_close();
  }
  peer_close();
  device_end();
  return 0;
}
