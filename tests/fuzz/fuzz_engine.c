/* The engine with arbitrary messages from peers. Operations are in progress in
 * a context of four ranks, and the input holds the messages of the other three.
 * Many are messages that rank 0 itself has sent, with some changes. */
#include <stdlib.h>
#include <string.h>

#include "engine/engine.h"
#include "gloo_c/gloo_c.h"
#include "nowhere.h"

enum { CALLS_MAX = 4, STEPS_MAX = 60, POLLS = 2 };
enum { LENDS = 1, KEEPS = 2, PROMISES = 4, TREE = 8, WINDOW = 16 };
enum { WINDOW_BYTES = 64, THEIR_BYTES = 1 << 20 };

/* A call in progress, with buffers of exactly the size that it needs. */
typedef struct engine_call {
  gloo_request *request; /* NULL: none */
  int32_t *in, *out;
} engine_call;

typedef struct engine_scene {
  gloo_device *device;
  gloo_context *context;
  engine_call calls[CALLS_MAX];
  gloo_window *window; /* NULL: none */
  uint64_t part[WINDOW_BYTES / 8], theirs[WINDOW_BYTES / 8];
  /* The message to deliver. */
  nowhere_pair *pair;
  gli_header header;
  uint8_t *payload;
  size_t bytes;
} engine_scene;

/* ---- calls --------------------------------------------------------------- */

static void call_end(engine_call *call) {
  gloo_request_destroy(call->request);
  free(call->in);
  free(call->out);
  *call = (engine_call){NULL, NULL, NULL};
}

static gloo_status call_begin(engine_call *call, gloo_context *c, uint8_t what,
                              size_t n, gloo_error *error) {
  static const int peers[] = {1, 2};
  int other = what >> 4 & 3, peer = other == 0 ? 3 : other;
  gloo_request **r = &call->request;
  gloo_options o = GLOO_OPTIONS_INIT;
  o.tag = what >> 6;
  o.timeout_ns = 50000000;
  switch (what % 12) {
    case 0:
      return gloo_allreduce_start(c, call->in, call->out, n, GLOO_INT32,
                                  GLOO_SUM, &o, r, error);
    case 1:
      return gloo_broadcast_start(c, call->in, call->out, n, GLOO_INT32, other,
                                  &o, r, error);
    case 2:
      return gloo_reduce_start(c, call->in, call->out, n, GLOO_INT32, GLOO_MAX,
                               other, &o, r, error);
    case 3:
      return gloo_barrier_start(c, &o, r, error);
    case 4:
      return gloo_allgather_start(c, call->in, call->out, n / NOWHERE_RANKS,
                                  GLOO_INT32, &o, r, error);
    case 5:
      return gloo_alltoall_start(c, call->in, call->out, n / NOWHERE_RANKS,
                                 GLOO_INT32, &o, r, error);
    case 6:
      return gloo_send_start(c, call->in, n, GLOO_INT32, peer, &o, r, error);
    case 7:
      return gloo_recv_start(c, call->out, n, GLOO_INT32, peer, &o, r, error);
    case 8:
      return gloo_recv_any_start(c, call->out, n, GLOO_INT32, peers, 2, &o, r,
                                 error);
    case 9:
      return gloo_scan_start(c, call->in, call->out, n, GLOO_INT32, GLOO_SUM,
                             &o, r, error);
    case 10:
      return gloo_sendrecv_start(c, call->in, n, peer, call->out, n, peer,
                                 GLOO_INT32, &o, r, error);
    default:
      return gloo_gather_start(c, call->in, call->out, n / NOWHERE_RANKS,
                               GLOO_INT32, other, &o, r, error);
  }
}

static void engine_begin_call(engine_scene *s, fuzz_input *input) {
  static const size_t counts[] = {1, 0, 3, 16, 100, 1000, 20000, 40000};
  uint8_t what = fuzz_take_u8(input);
  size_t n = counts[fuzz_take_u8(input) % 8], bytes = n * sizeof(int32_t);
  gloo_error error;
  engine_call *call = s->calls;
  while (call < s->calls + CALLS_MAX && call->request != NULL) call++;
  if (call == s->calls + CALLS_MAX) return;
  call->in = calloc(1, bytes + 1);
  call->out = calloc(1, bytes + 1);
  fuzz_check(call->in != NULL && call->out != NULL, "there is memory");
  gloo_status status = call_begin(call, s->context, what, n, &error);
  if (status == GLOO_OK) return;
  fuzz_check_error(status, &error);
  call->request = NULL;
  call_end(call);
}

static void engine_end_call(engine_scene *s, fuzz_input *input) {
  uint8_t what = fuzz_take_u8(input);
  engine_call *call = &s->calls[what % CALLS_MAX];
  gloo_error error;
  gloo_status status = GLOO_OK;
  if (call->request == NULL) return;
  if (what / CALLS_MAX % 2 == 0)
    status = gloo_request_wait(call->request, 1000000, &error);
  else
    status = gloo_request_cancel(call->request, &error);
  if (status != GLOO_IN_PROGRESS) fuzz_check_error(status, &error);
  if (what >> 7 != 0) call_end(call);
}

/* ---- windows ------------------------------------------------------------- */

static void engine_open_window(engine_scene *s) {
  gloo_error error;
  fuzz_check(gli_window_open(s->context, s->part, WINDOW_BYTES, NULL,
                             &s->window, &error) == GLOO_OK,
             "the window opens");
  for (uint32_t rank = 0; rank < NOWHERE_RANKS; rank++)
    gli_window_learn(s->window, rank, rank, THEIR_BYTES);
  gli_window_learn(s->window, 0, 0, WINDOW_BYTES);
}

static void engine_use_window(engine_scene *s, uint8_t what) {
  gloo_error error;
  gloo_status status;
  int rank = what & 3;
  if (s->window == NULL) return;
  switch (what >> 2 & 7) {
    case 0:
      status = gloo_window_put(s->window, rank, what, s->theirs, 24, &error);
      break;
    case 1:
      status = gloo_window_get(s->window, rank, 8, s->theirs, 16, &error);
      break;
    case 2:
      status = gloo_window_fetch_add(s->window, rank, 8, 1, s->theirs, &error);
      break;
    case 3:
      status = gloo_window_compare_swap(s->window, rank, 0, 0, what, s->theirs,
                                        &error);
      break;
    case 4:
      status = gloo_window_put_strided(s->window, rank, 8, 12, s->theirs, 9, 8,
                                       4, &error);
      break;
    case 5:
      status = gloo_window_get_strided(s->window, rank, 4, 20, s->theirs, 24,
                                       20, 2, &error);
      break;
    case 6:
      status = gloo_window_put_signal(s->window, rank, 0, s->theirs, what % 64u,
                                      56, what >> 7, what, &error);
      break;
    default:
      status = gloo_window_wait_until(s->window, 8, GLOO_COMPARE_GE, what,
                                      GLOO_TIMEOUT_NOW, NULL, &error);
  }
  if (status != GLOO_IN_PROGRESS) fuzz_check_error(status, &error);
}

/* ---- messages ------------------------------------------------------------ */

static void hand_up(void *user) {
  const engine_scene *s = user;
  nowhere_hand_up(s->pair, &s->header, s->payload, s->bytes);
}

/* Sets one of the header's fields to a small number. */
static void header_change(gli_header *h, uint8_t field, uint8_t value) {
  switch (field % 14) {
    case 0:
      h->type = value;
      break;
    case 1:
      h->form = value & 0x7fu;
      break;
    case 2:
      h->eager = value & 1u;
      break;
    case 3:
      h->collective = value;
      break;
    case 4:
      h->algorithm = value;
      break;
    case 5:
      h->context = value;
      break;
    case 6:
      h->tag += value;
      break;
    case 7:
      h->slot = value;
      break;
    case 8:
      h->root = value;
      break;
    case 9:
      h->credit += (uint32_t)value << 8;
      break;
    case 10:
      h->operation += value;
      break;
    case 11:
      h->count += value;
      break;
    case 12:
      h->length = value;
      break;
    default:
      h->length += (uint64_t)1 << value % 64;
  }
}

static void engine_message(engine_scene *s, fuzz_input *input, bool echo) {
  uint8_t what = fuzz_take_u8(input);
  s->pair = &nowhere.pairs[1 + what % (NOWHERE_RANKS - 1)];
  if (echo) {
    s->header = s->pair->said[what >> 2 & 7];
  } else {
    memset(&s->header, 0, sizeof s->header);
    s->header.type = GLI_MESSAGE_DATA;
  }
  /* The fuzzer would not find the key by chance. */
  bool for_window = !echo && s->window != NULL && (what & 4) != 0;
  if (for_window) {
    s->header.type = GLI_MESSAGE_RMA;
    s->header.op = what >> 3 & 7;
    s->header.operation = gli_window_key(s->window);
    static const uint8_t lengths[] = {0, 16, 40, 16, 8, 8, 4, 0};
    s->header.length = lengths[s->header.op];
    s->header.dtype = 8;
    s->header.root = 1;
  }
  for (int i = what >> 5; i > 0; i--) {
    uint8_t field = fuzz_take_u8(input);
    header_change(&s->header, field, fuzz_take_u8(input));
  }
  fuzz_input piece = fuzz_take_piece(input);
  s->bytes = NOWHERE_BYTES;
  if (s->header.length < s->bytes) s->bytes = (size_t)s->header.length;
  s->payload = malloc(s->bytes + 1);
  fuzz_check(s->payload != NULL, "there is memory");
  memset(s->payload, 0, s->bytes + 1);
  fuzz_take_bytes(&piece, s->payload, s->bytes < 64 ? s->bytes : 64);
  nowhere.next = hand_up;
  nowhere.next_user = s;
  gli_device_progress(s->device);
  nowhere.next = NULL;
  free(s->payload);
}

static void ask_to_accept(void *user) {
  const fuzz_input *input = user;
  gli_pair_config config;
  uint32_t rank = input->left > 0 ? input->at[0] % 8 : 0;
  if (nowhere.upcalls->expect(nowhere.device_user, 1, rank, &config))
    (void)nowhere.upcalls->accept(nowhere.device_user, 1, rank);
}

static void give_up(void *user) {
  const fuzz_input *input = user;
  uint8_t what = input->left > 0 ? input->at[0] : 0;
  int rank = 1 + what % (NOWHERE_RANKS - 1);
  nowhere_fail(&nowhere.pairs[rank],
               what >= 128 ? GLOO_ERR_PROTOCOL : GLOO_ERR_PEER, rank);
}

static void engine_upcall(const engine_scene *s, fuzz_input *input,
                          void (*upcall)(void *user)) {
  nowhere.next = upcall;
  nowhere.next_user = input;
  gli_device_progress(s->device);
  nowhere.next = NULL;
  (void)fuzz_take_u8(input);
}

/* ---- one input ----------------------------------------------------------- */

static void engine_open(engine_scene *s, uint8_t how) {
  gloo_error error;
  const gli_address here = {.bytes = 4, .data = "here"};
  memset(s, 0, sizeof *s);
  s->device = nowhere_open();
  nowhere.reaches = true;
  nowhere.lends = (how & LENDS) != 0;
  nowhere.keeps = (how & KEEPS) != 0;
  fuzz_check(gli_context_open(s->device, 0, NOWHERE_RANKS, 1, NULL, 100000000,
                              &s->context, &error) == GLOO_OK,
             "the context opens");
  for (uint32_t rank = 0; rank < NOWHERE_RANKS; rank++)
    gli_context_set_peer(s->context, rank, &here, 1 + rank, false);
  if ((how & PROMISES) != 0) gli_context_promise_buffers(s->context);
  gli_context_learn_locality(s->context);
  if ((how & TREE) != 0)
    fuzz_check_error(gli_context_join_tree(s->context, &error), &error);
  if ((how & WINDOW) != 0) engine_open_window(s);
}

static void engine_close(engine_scene *s) {
  for (int i = 0; i < CALLS_MAX; i++) call_end(&s->calls[i]);
  if (s->window != NULL) (void)gli_window_close(s->window);
  gli_context_close(s->context);
  nowhere_close(s->device);
}

static void engine_step(engine_scene *s, fuzz_input *input) {
  uint8_t what = fuzz_take_u8(input);
  switch (what % 8) {
    case 0:
      engine_begin_call(s, input);
      break;
    case 1:
    case 2:
      engine_message(s, input, true);
      break;
    case 3:
      engine_message(s, input, false);
      break;
    case 4:
      if (what >= 128)
        engine_use_window(s, fuzz_take_u8(input));
      else
        engine_end_call(s, input);
      break;
    case 5:
      engine_upcall(s, input, what >= 128 ? give_up : ask_to_accept);
      break;
    case 6:
      fuzz_take_bytes(input, &nowhere.copies[1][what >> 3],
                      sizeof nowhere.copies[1][0]);
      break;
    default:
      for (int i = 0; i < POLLS; i++) gli_device_progress(s->device);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  static engine_scene s;
  fuzz_input input = {data, bytes};
  engine_open(&s, fuzz_take_u8(&input));
  for (int i = 0; i < STEPS_MAX && input.left > 0; i++) engine_step(&s, &input);
  engine_close(&s);
  return 0;
}
