/* A peer that makes illegal requests to a window, or answers without a
 * request. */
#include <stdlib.h>
#include <string.h>

#include "core/bytes.h"
#include "engine/drive/drive.h"
#include "engine/rma/rma.h"
#include "peer.h"

enum { WORDS = 8, PART = 8 * WORDS, THEIR_KEY = 77, THEIR_PART = 4096 };

typedef struct window_scene {
  pair_of_ranks two;
  gloo_window *window;
  /* The window's memory lies between two guard words. */
  uint64_t memory[WORDS + 2];
} window_scene;

static void scene_begin(window_scene *s) {
  memset(s, 0, sizeof *s);
  peer_set_up(&s->two, 0, -1);
  assert_int_equal(gli_window_open(s->two.context, &s->memory[1], PART, NULL,
                                   &s->window, NULL),
                   GLOO_OK);
  gli_window_learn(s->window, 1, THEIR_KEY, THEIR_PART);
}

static void scene_end(window_scene *s) {
  assert_null(gli_window_close(s->window));
  peer_tear_down(&s->two);
}

/* A message about words of 8 bytes, which adds to them, or about one block. */
static gli_header rma(const window_scene *s, unsigned verb, uint64_t offset,
                      uint64_t bytes) {
  return (gli_header){.type = GLI_MESSAGE_RMA,
                      .op = (uint8_t)verb,
                      .algorithm = GLOO_ATOMIC_ADD,
                      .dtype = 8,
                      .root = verb == GLI_RMA_GET ? 1 : 0,
                      .operation = gli_window_key(s->window),
                      .slot = 5,
                      .count = offset,
                      .length = bytes};
}

/* ---- legal requests ------------------------------------------------------ */

static void rma_say(window_scene *s, unsigned verb, uint64_t offset,
                    const void *payload, uint64_t bytes) {
  gli_header h = rma(s, verb, offset, bytes);
  peer_post(&s->two, &h, payload);
  peer_run_both(&s->two);
}

static void what_is_asked_is_answered(void **state) {
  (void)state;
  window_scene s;
  uint8_t number[16], words[16];
  scene_begin(&s);
  gli_put_u64(words, 3);
  gli_put_u64(words + 8, 4);
  rma_say(&s, GLI_RMA_PUT, PART - 8, words, 8);
  gli_put_u32(number, 1);
  rma_say(&s, GLI_RMA_FLUSH, 0, number, 4);
  assert_int_equal(s.two.came[GLI_MESSAGE_RMA], 1);
  assert_int_equal(s.two.last[GLI_MESSAGE_RMA].op, GLI_RMA_REPLY);
  assert_int_equal(s.two.last[GLI_MESSAGE_RMA].slot, 5);
  assert_int_equal(gli_get_u64((uint8_t *)&s.memory[WORDS]), 3);
  rma_say(&s, GLI_RMA_ATOMIC, 8, words, 8);
  rma_say(&s, GLI_RMA_ATOMIC, 8, words, 8);
  assert_int_equal(s.memory[2], 6);
  assert_int_equal(gli_get_u64(s.two.discard), 3);
  gli_header h = rma(&s, GLI_RMA_ATOMIC, 16, 16);
  h.algorithm = GLI_RMA_COMPARE_SWAP;
  peer_post(&s.two, &h, words); /* the value is not 3 */
  peer_run_both(&s.two);
  assert_int_equal(s.memory[3], 0);
  gli_put_u64(number, PART);
  gli_put_u64(number + 8, 0);
  rma_say(&s, GLI_RMA_GET, 0, number, 16);
  assert_int_equal(s.two.last[GLI_MESSAGE_RMA].length, PART);
  assert_memory_equal(s.two.discard, &s.memory[1], PART);
  assert_int_equal(s.memory[0], 0);
  assert_int_equal(s.memory[WORDS + 1], 0);
  scene_end(&s);
}

/* Blocks and signals of other ranks, and words of 4 bytes. */
static void blocks_and_signals_arrive(void **state) {
  (void)state;
  window_scene s;
  uint8_t blocks[16 + 16], wanted[16], operand[8];
  scene_begin(&s);
  gli_put_u64(blocks, 4);        /* bytes of a block */
  gli_put_u64(blocks + 8, 12);   /* stride */
  memset(blocks + 16, 0x11, 16); /* four of them */
  rma_say(&s, GLI_RMA_PUT_BLOCKS, 4, blocks, sizeof blocks);
  const uint8_t *part = (const uint8_t *)&s.memory[1];
  for (size_t i = 0; i < PART; i++)
    assert_int_equal(part[i], i >= 4 && i < 44 && (i - 4) % 12 < 4 ? 0x11 : 0);
  gli_put_u64(wanted, 4);
  gli_put_u64(wanted + 8, 12);
  gli_header h = rma(&s, GLI_RMA_GET, 4, 16);
  h.root = 4;
  peer_post(&s.two, &h, wanted);
  peer_run_both(&s.two);
  assert_int_equal(s.two.last[GLI_MESSAGE_RMA].length, 16);
  assert_memory_equal(s.two.discard, blocks + 16, 16);
  gli_put_u64(operand, 7);
  rma_say(&s, GLI_RMA_SIGNAL, 56, operand, 8);
  rma_say(&s, GLI_RMA_SIGNAL, 56, operand, 8);
  assert_int_equal(s.memory[8], 14);
  h = rma(&s, GLI_RMA_SIGNAL, 56, 8);
  h.algorithm = GLOO_ATOMIC_SWAP;
  peer_post(&s.two, &h, operand);
  peer_run_both(&s.two);
  assert_int_equal(s.memory[8], 7);
  h = rma(&s, GLI_RMA_ATOMIC, 60, 8);
  h.dtype = 4;
  gli_put_u64(operand, (UINT64_C(9) << 32) + 2); /* only 32 bits count */
  peer_post(&s.two, &h, operand);
  peer_run_both(&s.two);
  uint32_t halves[2];
  memcpy(halves, &s.memory[8], 8);
  assert_int_equal(halves[1], (s.memory[8] & 0xff) == 7 ? 2 : 9);
  gli_put_u32(operand, 4); /* blocks and three signals */
  rma_say(&s, GLI_RMA_FLUSH, 0, operand, 4);
  assert_int_equal(s.two.last[GLI_MESSAGE_RMA].length, 0);
  scene_end(&s);
}

/* Takes a header as from a transport that delivers payloads later. */
static gli_sink take_header(window_scene *s, gli_header *h, uint32_t slot) {
  gli_sink sink = {0};
  h->slot = slot;
  assert_int_equal(
      gli_engine_upcalls.header(s->two.context->peers[1].link, h, &sink),
      GLOO_OK);
  return sink;
}

static void take_payload(window_scene *s, const gli_sink *sink, uint64_t word,
                         uint64_t bytes) {
  for (uint64_t at = 0; at < bytes; at += 8)
    gli_put_u64((uint8_t *)sink->dst + at, word);
  gli_engine_upcalls.received(s->two.context->peers[1].link, sink->token);
}

/* A signal takes effect once the put with its number has arrived, and no other
 * put. */
static void a_signal_waits_for_its_put(void **state) {
  (void)state;
  for (uint64_t bytes = 8; bytes <= 24; bytes += 16) {
    window_scene s;
    uint8_t number[4];
    scene_begin(&s);
    rma_say(&s, GLI_RMA_SIGNAL, 56, (const uint8_t[8]){1}, 8);
    gli_header put = rma(&s, GLI_RMA_PUT, 0, bytes), other = put;
    gli_header signal = rma(&s, GLI_RMA_SIGNAL, 56, 8), alone = signal;
    gli_sink puts = take_header(&s, &put, 8),
             others = take_header(&s, &other, 9);
    gli_sink signals = take_header(&s, &signal, 8);
    gli_sink alones = take_header(&s, &alone, 10);
    take_payload(&s, &signals, 100, 8);
    assert_int_equal(s.memory[8], 1);
    take_payload(&s, &alones, 10, 8);
    take_payload(&s, &others, 5, bytes);
    assert_int_equal(s.memory[8], 11);
    gli_put_u32(number, 5);
    rma_say(&s, GLI_RMA_FLUSH, 0, number, 4);
    assert_int_equal(s.two.came[GLI_MESSAGE_RMA], 0);
    take_payload(&s, &puts, 6, bytes);
    assert_int_equal(s.memory[8], 111);
    assert_int_equal(gli_get_u64((uint8_t *)&s.memory[1]), 6);
    peer_run_both(&s.two);
    assert_int_equal(s.two.came[GLI_MESSAGE_RMA], 1);
    scene_end(&s);
  }
}

/* A second one for the same put is an error: it would take memory. */
static void one_signal_waits_for_a_put(void **state) {
  (void)state;
  window_scene s;
  gloo_error error;
  scene_begin(&s);
  rma_say(&s, GLI_RMA_SIGNAL, 56, (const uint8_t[8]){0}, 8);
  gli_header put = rma(&s, GLI_RMA_PUT, 0, 24);
  gli_header first = rma(&s, GLI_RMA_SIGNAL, 56, 8), second = first;
  (void)take_header(&s, &put, 8);
  gli_sink sinks[2] = {take_header(&s, &first, 8), take_header(&s, &second, 8)};
  take_payload(&s, &sinks[0], 1, 8);
  assert_int_equal(gloo_context_error(s.two.context, NULL), GLOO_OK);
  take_payload(&s, &sinks[1], 1, 8);
  assert_int_equal(gloo_context_error(s.two.context, &error),
                   GLOO_ERR_PROTOCOL);
  assert_int_equal(error.rank, 1);
  assert_int_equal(s.memory[8], 0);
  scene_end(&s);
}

/* Puts may arrive after the flush that counts them. */
static void a_flush_waits_for_its_puts(void **state) {
  (void)state;
  window_scene s;
  uint8_t number[4], word[8] = {1};
  scene_begin(&s);
  gli_put_u32(number, 2);
  rma_say(&s, GLI_RMA_PUT, 0, word, 8);
  rma_say(&s, GLI_RMA_FLUSH, 0, number, 4);
  assert_int_equal(s.two.came[GLI_MESSAGE_RMA], 0);
  rma_say(&s, GLI_RMA_PUT, 0, word, 8);
  assert_int_equal(s.two.came[GLI_MESSAGE_RMA], 1);
  scene_end(&s);
}

/* ---- illegal requests ---------------------------------------------------- */

static void expect_cut_off(window_scene *s, const gli_header *h,
                           const void *payload) {
  gloo_error error;
  peer_post(&s->two, h, payload);
  peer_run_engine(&s->two);
  assert_int_equal(gloo_context_error(s->two.context, &error),
                   GLOO_ERR_PROTOCOL);
  assert_int_equal(error.rank, 1);
  for (int i = 0; i < WORDS + 2; i++) assert_int_equal(s->memory[i], 0);
}

static const struct forgery {
  unsigned verb;
  uint64_t offset, bytes;
  uint64_t words[2]; /* the first of the payload */
  uint64_t other_key;
  uint8_t change, width; /* added to those of rma() */
  uint32_t blocks;       /* the same */
} forgeries[] = {
    {GLI_RMA_PUT, PART - 7, 8, {0}, 0, 0, 0, 0},
    {GLI_RMA_PUT, 0, PART + 1, {0}, 0, 0, 0, 0},
    {GLI_RMA_PUT, UINT64_MAX - 3, 8, {0}, 0, 0, 0, 0},
    {GLI_RMA_PUT, 0, 0, {0}, 0, 0, 0, 0},
    {GLI_RMA_PUT, 0, 8, {0}, 1, 0, 0, 0},
    {GLI_RMA_GET, PART - 7, 16, {8, 8}, 0, 0, 0, 0},
    {GLI_RMA_GET, 1, 16, {UINT64_MAX, 0}, 0, 0, 0, 0},
    {GLI_RMA_GET, UINT64_MAX, 16, {8, 8}, 0, 0, 0, 0},
    {GLI_RMA_GET, 0, 16, {0, 8}, 0, 0, 0, 0},
    {GLI_RMA_GET, 0, 15, {8, 8}, 0, 0, 0, 0},
    {GLI_RMA_GET, 0, 8, {8, 8}, 0, 0, 0, 0},
    {GLI_RMA_GET, 0, 16, {8, 8}, 1, 0, 0, 0},
    {GLI_RMA_GET, 0, 16, {8, 8}, 0, 0, 0, UINT32_MAX}, /* 0 blocks */
    {GLI_RMA_GET, 0, 16, {8, 8}, 0, 0, 0, WORDS},      /* one too many */
    {GLI_RMA_GET, 0, 16, {8, 7}, 0, 0, 0, 1},
    {GLI_RMA_GET, 0, 16, {1, 0}, 0, 0, 0, 1},
    {GLI_RMA_GET, 0, 16, {8, UINT64_MAX}, 0, 0, 0, 1},
    {GLI_RMA_GET, 8, 16, {8, UINT64_C(1) << 63}, 0, 0, 0, 2},
    {GLI_RMA_PUT_BLOCKS, 0, 16, {8, 8}, 0, 0, 0, 0},
    {GLI_RMA_PUT_BLOCKS, 0, 15, {8, 8}, 0, 0, 0, 0},
    {GLI_RMA_PUT_BLOCKS, 0, 24, {0, 8}, 0, 0, 0, 0},
    {GLI_RMA_PUT_BLOCKS, 0, 28, {8, 8}, 0, 0, 0, 0}, /* a block and a half */
    {GLI_RMA_PUT_BLOCKS, 0, 24, {16, 16}, 0, 0, 0, 0},
    {GLI_RMA_PUT_BLOCKS, 0, 24, {UINT64_MAX, 16}, 0, 0, 0, 0},
    {GLI_RMA_PUT_BLOCKS, PART - 7, 24, {8, 8}, 0, 0, 0, 0},
    {GLI_RMA_PUT_BLOCKS, PART - 16, 40, {8, 8}, 0, 0, 0, 0},
    {GLI_RMA_PUT_BLOCKS, 0, 32, {8, 7}, 0, 0, 0, 0},
    {GLI_RMA_PUT_BLOCKS, 0, 32, {8, 0}, 0, 0, 0, 0},
    {GLI_RMA_PUT_BLOCKS, 8, 32, {8, UINT64_MAX - 7}, 0, 0, 0, 0},
    {GLI_RMA_PUT_BLOCKS, 0, 17 + GLI_RMA_PACK_MAX, {1, 1}, 0, 0, 0, 0},
    {GLI_RMA_PUT_BLOCKS, 0, 24, {8, 8}, 1, 0, 0, 0},
    {GLI_RMA_ATOMIC, 4, 8, {0}, 0, 0, 0, 0},
    {GLI_RMA_ATOMIC, PART, 8, {0}, 0, 0, 0, 0},
    {GLI_RMA_ATOMIC, 0, 16, {0}, 0, 0, 0, 0},
    {GLI_RMA_ATOMIC, 0, 8, {0}, 1, 0, 0, 0},
    {GLI_RMA_ATOMIC, 0, 8, {0}, 0, GLI_RMA_COMPARE_SWAP, 0, 0},
    {GLI_RMA_ATOMIC, UINT64_MAX - 7, 16, {0}, 0, GLI_RMA_COMPARE_SWAP, 0, 0},
    {GLI_RMA_ATOMIC, 0, 8, {0}, 0, GLI_RMA_CHANGES, 0, 0},
    {GLI_RMA_ATOMIC, 0, 8, {0}, 0, 255, 0, 0},
    {GLI_RMA_ATOMIC, 0, 8, {0}, 0, 0, 8, 0},   /* words of 16 bytes */
    {GLI_RMA_ATOMIC, 0, 8, {0}, 0, 0, 248, 0}, /* of none */
    {GLI_RMA_ATOMIC, 2, 8, {0}, 0, 0, 252, 0}, /* unaligned words of 4 bytes */
    {GLI_RMA_ATOMIC, PART, 8, {0}, 0, 0, 252, 0},
    {GLI_RMA_SIGNAL, 4, 8, {0}, 0, 0, 0, 0},
    {GLI_RMA_SIGNAL, PART, 8, {0}, 0, 0, 0, 0},
    {GLI_RMA_SIGNAL, 0, 16, {0}, 0, 0, 0, 0},
    {GLI_RMA_SIGNAL, 0, 8, {0}, 1, 0, 0, 0},
    {GLI_RMA_SIGNAL, 0, 8, {0}, 0, GLOO_ATOMIC_XOR, 0, 0},
    {GLI_RMA_SIGNAL, 0, 8, {0}, 0, 0, 252, 0},
    {GLI_RMA_FLUSH, 0, 8, {0}, 0, 0, 0, 0},
    {GLI_RMA_REACH, 0, 1, {0}, 0, 0, 0, 0},
    {GLI_RMA_REPLY, 0, 0, {0}, 0, 0, 0, 0},
    {0, 0, 8, {0}, 0, 0, 0, 0},
    {GLI_RMA_REPLY + 1, 0, 8, {0}, 0, 0, 0, 0},
    {255, 0, 8, {0}, 0, 0, 0, 0},
};

static void forgeries_are_cut_off(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof forgeries / sizeof forgeries[0]; i++) {
    const struct forgery *f = &forgeries[i];
    window_scene s;
    static uint8_t payload[2 * GLI_RMA_PACK_MAX];
    memset(payload, 0xee, sizeof payload);
    for (int word = 0; word < 2; word++)
      gli_put_u64(payload + 8 * word, f->words[word]);
    scene_begin(&s);
    gli_header h = rma(&s, f->verb, f->offset, f->bytes);
    h.operation += f->other_key;
    h.algorithm = (uint8_t)(h.algorithm + f->change);
    h.dtype = (uint8_t)(h.dtype + f->width);
    h.root += f->blocks;
    expect_cut_off(&s, &h, payload);
    scene_end(&s);
  }
}

static void no_window_takes_nothing(void **state) {
  (void)state;
  pair_of_ranks two;
  gloo_error error;
  peer_set_up(&two, 0, -1);
  gli_header h = {.type = GLI_MESSAGE_RMA, .op = GLI_RMA_REACH};
  peer_post(&two, &h, NULL);
  peer_run_engine(&two);
  assert_int_equal(gloo_context_error(two.context, &error), GLOO_ERR_PROTOCOL);
  peer_tear_down(&two);
}

/* ---- answers ------------------------------------------------------------- */

/* Answers with another length or key, for another request, or duplicates. */
static void wrong_answers_are_cut_off(void **state) {
  (void)state;
  static const uint8_t words[16];
  for (int wrong = 0; wrong < 5; wrong++) {
    window_scene s;
    uint64_t before = 42;
    scene_begin(&s);
    assert_int_equal(gloo_window_fetch_add(s.window, 1, 8, 1, &before, NULL),
                     GLOO_OK);
    peer_run_both(&s.two);
    assert_int_equal(s.two.last[GLI_MESSAGE_RMA].op, GLI_RMA_ATOMIC);
    gli_header h = rma(&s, GLI_RMA_REPLY, 0, 8);
    h.operation = THEIR_KEY;
    h.slot = s.two.last[GLI_MESSAGE_RMA].slot;
    if (wrong == 0) h.length = 16;
    if (wrong == 1) h.operation = gli_window_key(s.window);
    if (wrong == 2) h.slot++;
    if (wrong == 3) h.length = 0;
    if (wrong == 4) {
      peer_post(&s.two, &h, words);
      peer_run_engine(&s.two);
      assert_int_equal(before, 0);
    }
    expect_cut_off(&s, &h, words);
    assert_int_equal(before, wrong == 4 ? 0 : 42);
    scene_end(&s);
  }
}

/* A peer that keeps sending requests without reading the answers. */
static void answers_are_bounded(void **state) {
  (void)state;
  window_scene s;
  uint8_t wanted[16] = {0};
  memset(&s, 0, sizeof s);
  peer_set_up(&s.two, 100, -1);
  assert_int_equal(
      gli_window_open(s.two.context, &s.memory[1], PART, NULL, &s.window, NULL),
      GLOO_OK);
  gli_put_u64(wanted, PART);
  gli_header h = rma(&s, GLI_RMA_GET, 0, 16);
  for (int i = 0; i < GLI_RMA_UNDER_WAY_MAX; i++) peer_post(&s.two, &h, wanted);
  peer_run_engine(&s.two);
  assert_int_equal(gloo_context_error(s.two.context, NULL), GLOO_OK);
  for (int i = 0; i < 2 * GLI_RMA_ANSWERS_MAX; i++)
    peer_post(&s.two, &h, wanted);
  expect_cut_off(&s, &h, wanted);
  scene_end(&s);
}

/* Blocks are copied for the answer, so one request may not want many. */
static void blocks_of_an_answer_are_bounded(void **state) {
  (void)state;
  enum { BLOCK = GLI_RMA_PACK_MAX / 4, ROOM = 5 * BLOCK };
  window_scene s;
  gloo_error error;
  uint8_t wanted[16], *memory = calloc(1, ROOM);
  assert_non_null(memory);
  memset(&s, 0, sizeof s);
  peer_set_up(&s.two, 0, -1);
  assert_int_equal(
      gli_window_open(s.two.context, memory, ROOM, NULL, &s.window, NULL),
      GLOO_OK);
  gli_put_u64(wanted, BLOCK);
  gli_put_u64(wanted + 8, BLOCK);
  gli_header h = rma(&s, GLI_RMA_GET, 0, 16);
  h.root = 4;
  peer_post(&s.two, &h, wanted);
  peer_run_both(&s.two);
  assert_int_equal(s.two.last[GLI_MESSAGE_RMA].length, GLI_RMA_PACK_MAX);
  h.root = 5;
  peer_post(&s.two, &h, wanted);
  peer_run_engine(&s.two);
  assert_int_equal(gloo_context_error(s.two.context, &error),
                   GLOO_ERR_PROTOCOL);
  assert_int_equal(error.rank, 1);
  scene_end(&s);
  free(memory);
}

/* A pending window operation fails, and the error names the peer that left. */
static void one_who_leaves_is_named(void **state) {
  (void)state;
  window_scene s;
  gloo_error error;
  uint64_t before;
  scene_begin(&s);
  assert_int_equal(gloo_window_fetch_add(s.window, 1, 8, 1, &before, NULL),
                   GLOO_OK);
  gli_header h = {0};
  peer_say(&s.two, GLI_MESSAGE_BYE, &h, 0);
  peer_run_engine(&s.two);
  assert_int_equal(gloo_context_error(s.two.context, &error), GLOO_ERR_PEER);
  assert_int_equal(error.rank, 1);
  assert_int_equal(gloo_window_flush(s.window, 1, NULL), GLOO_ERR_POISONED);
  scene_end(&s);
}

/* The rank may be the one whose signal a thread waits for. */
static void one_who_leaves_ends_a_wait(void **state) {
  (void)state;
  window_scene s;
  gloo_error error;
  scene_begin(&s);
  rma_say(&s, GLI_RMA_SIGNAL, 56, (const uint8_t[8]){1}, 8);
  gli_rma_watch watch = {.word = &s.memory[8], .compare = GLOO_COMPARE_EQ};
  s.window->watches = &watch;
  gli_header h = {0};
  peer_say(&s.two, GLI_MESSAGE_BYE, &h, 0);
  peer_run_engine(&s.two);
  assert_int_equal(gloo_context_error(s.two.context, &error), GLOO_ERR_PEER);
  assert_int_equal(error.rank, 1);
  s.window->watches = NULL;
  scene_end(&s);
}

/* The transport may report that a put was sent after its flush was answered:
 * the request ends with the report. */
static void a_flush_ends_with_the_last_report(void **state) {
  (void)state;
  window_scene s;
  static const uint8_t data[24];
  memset(&s, 0, sizeof s);
  peer_set_up(&s.two, 100, -1);
  assert_int_equal(
      gli_window_open(s.two.context, &s.memory[1], PART, NULL, &s.window, NULL),
      GLOO_OK);
  gli_window_learn(s.window, 1, THEIR_KEY, THEIR_PART);
  s.window->targets[1].reach = GLI_RMA_MESSAGES;
  for (int round = 0; round < 200; round++) {
    gloo_request *request;
    bool answered = false;
    assert_int_equal(gloo_window_put(s.window, 1, 0, data, sizeof data, NULL),
                     GLOO_OK);
    assert_int_equal(gloo_window_flush_start(s.window, 1, &request, NULL),
                     GLOO_OK);
    do {
      gli_device_progress(s.two.device);
      sim_transport.poll(s.two.peer);
      const gli_header *last = &s.two.last[GLI_MESSAGE_RMA];
      if (answered || last->op != GLI_RMA_FLUSH) continue;
      gli_header h = rma(&s, GLI_RMA_REPLY, 0, 0);
      h.operation = THEIR_KEY;
      h.slot = last->slot;
      peer_post(&s.two, &h, NULL);
      answered = true;
      s.two.last[GLI_MESSAGE_RMA].op = 0;
    } while (sim_step(s.two.world));
    assert_true(answered);
    assert_int_equal(gloo_request_test(request, NULL), GLOO_OK);
    gloo_request_destroy(request);
  }
  scene_end(&s);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_is_asked_is_answered),
      cmocka_unit_test(blocks_and_signals_arrive),
      cmocka_unit_test(a_signal_waits_for_its_put),
      cmocka_unit_test(one_signal_waits_for_a_put),
      cmocka_unit_test(a_flush_waits_for_its_puts),
      cmocka_unit_test(forgeries_are_cut_off),
      cmocka_unit_test(no_window_takes_nothing),
      cmocka_unit_test(wrong_answers_are_cut_off),
      cmocka_unit_test(answers_are_bounded),
      cmocka_unit_test(blocks_of_an_answer_are_bounded),
      cmocka_unit_test(one_who_leaves_is_named),
      cmocka_unit_test(one_who_leaves_ends_a_wait),
      cmocka_unit_test(a_flush_ends_with_the_last_report),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
