/* Credit and order of messages to transports, with structs alone and scripted
 * pairs: what is sent when, what waits and is announced, what is reported as
 * finished, and what is left when a link is dropped. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/wire_world.h"
#include "plan/cmocka_all.h"

/* ---- scenes -------------------------------------------------------------- */

/* Messages from this rank to rank 1. The words of a script:
 *
 *   a  b:2  c!     the next message of operation a; of b, which costs 200
 *                  bytes; of c, which may not overtake waiting ones
 *   credit+2       credit for 200 bytes comes back
 *   credit=2       the same, counted from the start; it may be outdated
 *   started:a      the receiver has started it; answer:a: after an RTS
 *   withdraw:a     its waiting messages are withdrawn
 *   consume:2      this rank consumes 200 bytes
 *   probe          a control message
 *   full  room:2   the transport takes nothing; takes two more messages, and
 *                  the waiting ones are offered again
 *   open           it takes all again, but waiting messages are not offered
 *   slow  sent     it reports `sent` later; it does so now
 *
 * Messages taken: a0$ is a charged message of operation a with slot 0, a1 an
 * uncharged one with slot 1. */
typedef struct scene {
  const char *name;
  uint32_t budget;
  const char *script, *taken;
  uint32_t blocked, owing; /* messages; hundreds of bytes */
  gloo_status status;      /* status of the last credit */
} scene;

enum { OPERATIONS = 4, UNIT = 100, TEXT = 256 };

typedef struct stage {
  wire_world *w;
  gli_link *link; /* to rank 1 */
  wire_pair *pair;
  gloo_request *ops[OPERATIONS];
  uint32_t slots[OPERATIONS];
  uint32_t start;
  gloo_status status;
} stage;

static gli_header header_of(uint32_t op, uint32_t slot, uint32_t cost) {
  return (gli_header){.type = GLI_MESSAGE_DATA,
                      .collective = GLI_ALLREDUCE,
                      .slot = slot,
                      .operation = op,
                      .length = cost - GLI_HEADER_BYTES};
}

static void open_stage(stage *s, uint32_t budget, uint32_t start) {
  *s = (stage){.w = wire_begin(budget), .start = start};
  wire_count_from(s->w, start);
  s->link = &s->w->rank.links[1];
  s->pair = &s->w->pairs[1];
  for (uint32_t i = 0; i < OPERATIONS; i++) s->ops[i] = wire_operation(s->w);
}

static void close_stage(stage *s) {
  wire_end(s->w);
  for (uint32_t i = 0; i < OPERATIONS; i++) wire_operation_free(s->ops[i]);
}

static void send_to(stage *s, uint32_t peer, uint32_t op, uint32_t cost,
                    bool stuck) {
  uint32_t slot = s->slots[op]++;
  gli_header h = header_of(op, slot, cost);
  wire_post_step(s->ops[op], peer, slot, &h, stuck);
}

static void send_unit(stage *s, uint32_t op) {
  send_to(s, 1, op, UNIT, false);
}

static void take_credit(stage *s, uint32_t credit) {
  uint32_t before = s->link->credit.acked;
  gloo_error error = {.status = GLOO_OK};
  s->status = gli_wire_credit(s->link, credit, &error);
  if (s->status == GLOO_OK) return;
  assert_int_equal(error.status, s->status);
  assert_int_equal(error.rank, s->link->rank);
  assert_int_equal(s->link->credit.acked, before);
}

static void say_started(stage *s, uint32_t op, bool asked) {
  if (asked) {
    assert_true(s->link->rts_out > 0);
    gli_wire_answered(s->link);
  }
  gli_wire_granted(s->ops[op], 1);
}

static void play_word(stage *s, const char *word) {
  const char *value = strpbrk(word, ":+=");
  size_t verb = value ? (size_t)(value - word) : strlen(word);
  uint32_t n = value ? (uint32_t)strtoul(value + 1, NULL, 10) : 0;
  uint32_t op = value ? (uint32_t)(value[1] - 'a') : 0;
#define IS(text) (verb == strlen(text) && memcmp(word, text, verb) == 0)
  if (IS("credit") && *value == '+') {
    take_credit(s, s->link->credit.acked + n * UNIT);
  } else if (IS("credit")) {
    take_credit(s, s->start + n * UNIT);
  } else if (IS("started")) {
    say_started(s, op, false);
  } else if (IS("answer")) {
    say_started(s, op, true);
  } else if (IS("withdraw")) {
    gli_wire_withdraw(s->ops[op], 1);
  } else if (IS("consume")) {
    gli_wire_consumed(s->link, n * UNIT - GLI_HEADER_BYTES);
  } else if (IS("probe")) {
    gli_wire_control(s->link, GLI_MESSAGE_PROBE, NULL, 0);
  } else if (IS("full")) {
    s->pair->room = 0;
  } else if (IS("room")) {
    s->pair->room = n;
    gli_wire_retry(&s->w->rank.device);
  } else if (IS("open")) {
    s->pair->room = UINT32_MAX;
  } else if (IS("slow")) {
    s->pair->slow = true;
  } else if (IS("sent")) {
    wire_sent(s->pair);
  } else {
    op = (uint32_t)(word[0] - 'a');
    assert_true(op < OPERATIONS);
    send_to(s, 1, op, n > 0 ? n * UNIT : UNIT, word[strlen(word) - 1] == '!');
  }
#undef IS
}

static void play(stage *s, const char *script) {
  char words[TEXT];
  assert_true(strlen(script) < sizeof words);
  strcpy(words, script);
  char *rest = words;
  for (char *word = strtok_r(rest, " ", &rest); word;
       word = strtok_r(NULL, " ", &rest)) {
    play_word(s, word);
    wire_check(s->w);
  }
}

static void describe_taken(const wire_pair *pair, char text[TEXT]) {
  size_t n = 0;
  text[0] = '\0';
  for (uint32_t i = 0; i < pair->n_log; i++) {
    const gli_header *h = &pair->log[i].header;
    const char *type = h->type == GLI_MESSAGE_RTS      ? "want:"
                       : h->type == GLI_MESSAGE_CREDIT ? "credit"
                       : h->type == GLI_MESSAGE_PROBE  ? "probe"
                                                       : "";
    char about[16] = "";
    if (h->type == GLI_MESSAGE_DATA || h->type == GLI_MESSAGE_RTS) {
      snprintf(about, sizeof about, "%c%u%s", (char)('a' + h->operation),
               h->slot, h->eager ? "$" : "");
    }
    n += (size_t)snprintf(text + n, TEXT - n, "%s%s%s", i ? " " : "", type,
                          about);
    assert_true(n < TEXT);
  }
}

/* Checks that each message of a step that the transport has finished is
 * reported once. */
static void check_finished(const stage *s) {
  uint32_t expected = 0, finished = 0;
  for (uint32_t i = 0; i < s->pair->n_log; i++) {
    const logged *l = &s->pair->log[i];
    if (l->header.type != GLI_MESSAGE_DATA) continue;
    expected++;
    uint32_t times = 0;
    for (const gli_transfer *t = s->w->rank.device.finished.first; t;
         t = t->next) {
      times += t->operation == l->op && t->step == l->header.slot;
    }
    bool in_progress = s->pair->n_in_progress > 0;
    assert_true(in_progress ? times <= 1 : times == 1);
  }
  finished = wire_list_length(&s->w->rank.device.finished);
  for (uint32_t i = 0; i < s->pair->n_in_progress; i++) {
    finished += s->pair->in_progress[i]->header.type == GLI_MESSAGE_DATA;
  }
  assert_int_equal(finished, expected);
}

static void run_scene(const scene *x, uint32_t start) {
  stage s;
  open_stage(&s, x->budget, start);
  play(&s, x->script);
  char taken[TEXT];
  describe_taken(s.pair, taken);
  uint32_t blocked = wire_list_length(&s.link->blocked);
  uint32_t owing = (s.link->credit.sent - s.link->credit.acked) / UNIT;
  if (strcmp(taken, x->taken) != 0 || blocked != x->blocked ||
      owing != x->owing || s.status != x->status) {
    fail_msg("%s (from %u on): took \"%s\", %u blocked, %u owing, status %d",
             x->name, start, taken, blocked, owing, s.status);
  }
  check_finished(&s);
  close_stage(&s);
}

/* Runs each scene with counters in mid-range, and where they wrap or change
 * their sign. */
static void run_scenes(const scene *scenes, size_t n) {
  static const uint32_t starts[] = {0, 1000000, UINT32_MAX - 149,
                                    INT32_MAX - 149u};
  for (size_t i = 0; i < n; i++) {
    for (size_t k = 0; k < sizeof starts / sizeof *starts; k++) {
      run_scene(&scenes[i], starts[k]);
    }
  }
}
#define RUN(scenes) run_scenes(scenes, sizeof(scenes) / sizeof *(scenes))

/* ---- (a) credit ---------------------------------------------------------- */

static void what_credit_lets_through(void **state) {
  (void)state;
  static const scene scenes[] = {
      {"what fits is sent and charged", 300, "a b a", "a0$ b0$ a1$", 0, 3, 0},
      {"a message that takes the last byte", 200, "a:2", "a0$", 0, 2, 0},
      {"one byte too few", 199, "a:2", "want:a0", 1, 0, 0},
      {"the rest waits, and is announced once", 200, "a a a a",
       "a0$ a1$ want:a2", 2, 2, 0},
      {"each operation is announced", 100, "a b c b", "a0$ want:b0 want:c0", 3,
       1, 0},
      {"credit lets one through", 100, "a b c credit+1",
       "a0$ want:b0 want:c0 b0$", 1, 1, 0},
      {"credit lets as many through as it pays for", 200, "a a b c b credit+2",
       "a0$ a1$ want:b0 want:c0 b0$ c0$", 1, 2, 0},
      {"too little for the first: nothing behind it goes", 300,
       "a:2 b:3 c credit+1", "a0$ want:b0 c0$", 1, 2, 0},
      {"too little for the first, which the others may not pass", 300,
       "a:2 b:3 c! d! credit+1", "a0$ want:b0 want:c0 want:d0", 3, 1, 0},
      {"in order once it is enough", 300, "a:2 b:3 c! d! credit+1 credit+1",
       "a0$ want:b0 want:c0 want:d0 b0$", 2, 3, 0},
      {"what may not go first waits although there is credit", 300, "a b! c",
       "a0$ want:b0 c0$", 1, 2, 0},
      {"longer than the budget: until the receiver has started", 100,
       "a:2 answer:a", "want:a0 a0", 0, 0, 0},
      {"no budget at all", 0, "a b answer:b answer:a", "want:a0 want:b0 b0 a0",
       0, 0, 0},
  };
  RUN(scenes);
}

static void what_a_start_lets_through(void **state) {
  (void)state;
  static const scene scenes[] = {
      {"started before it sends: nothing is charged", 100, "started:a a a a:9",
       "a0 a1 a2", 0, 0, 0},
      {"all of it goes, and nothing else", 100, "a a b a answer:a",
       "a0$ want:a1 want:b0 a1 a2", 1, 1, 0},
      {"in the order in which it came", 0, "a b a a answer:a",
       "want:a0 want:b0 a0 a1 a2", 1, 0, 0},
      {"what follows goes at once", 0, "a answer:a a", "want:a0 a0 a1", 0, 0,
       0},
      {"also what must not overtake", 0, "a answer:a a!", "want:a0 a0 a1", 0, 0,
       0},
      {"what was charged stays so", 100, "a a answer:a", "a0$ want:a1 a1", 0, 1,
       0},
      {"said twice", 0, "a answer:a started:a a", "want:a0 a0 a1", 0, 0, 0},
      {"said unasked, and then as an answer", 0, "a started:a answer:a a",
       "want:a0 a0 a1", 0, 0, 0},
      {"credit goes to the first that still waits", 100,
       "a b c answer:b credit+1", "a0$ want:b0 want:c0 b0 c0$", 0, 1, 0},
      {"with what waits before it taken back", 100,
       "a b b c withdraw:b credit+1", "a0$ want:b0 want:c0 c0$", 0, 1, 0},
      {"all that waits is taken back", 100, "a b c b withdraw:b withdraw:c",
       "a0$ want:b0 want:c0", 0, 1, 0},
  };
  RUN(scenes);
}

static void what_credit_is_believed(void **state) {
  (void)state;
  const gloo_status wrong = GLOO_ERR_PROTOCOL;
  const scene scenes[] = {
      {"all of it", 200, "a a credit=2", "a0$ a1$", 0, 0, 0},
      {"in parts", 200, "a a credit=1 credit=2", "a0$ a1$", 0, 0, 0},
      {"more than was charged", 200, "a credit=2", "a0$", 0, 1, wrong},
      {"where nothing was charged", 200, "credit+1", "", 0, 0, wrong},
      {"for what was never charged", 200, "started:a a a credit+1", "a0 a1", 0,
       0, wrong},
      {"for what still waits", 100, "a b credit=2", "a0$ want:b0", 1, 1, wrong},
      {"the same again", 200, "a a credit=1 credit=1", "a0$ a1$", 0, 1, 0},
      {"an older one after a newer one", 300, "a a a credit=2 credit=1",
       "a0$ a1$ a2$", 0, 1, 0},
      {"the oldest of all", 300, "a a a credit=3 credit=0", "a0$ a1$ a2$", 0, 0,
       0},
      {"an older one lets nothing through", 100,
       "a credit=1 b c credit=0 credit=1", "a0$ b0$ want:c0", 1, 1, 0},
      {"a newer one after an older one", 300,
       "a a a credit=1 credit=0 credit=3", "a0$ a1$ a2$", 0, 0, 0},
  };
  RUN(scenes);
}

/* Half of all sequence numbers count as older, the other half as newer. */
static void half_of_the_circle_is_older(void **state) {
  (void)state;
  stage s;
  open_stage(&s, 300, 77);
  send_unit(&s, 0);
  take_credit(&s, s.link->credit.acked + INT32_MAX);
  assert_int_equal(s.status, GLOO_ERR_PROTOCOL);
  take_credit(&s, s.link->credit.acked + INT32_MAX + 1u);
  assert_int_equal(s.status, GLOO_OK);
  assert_int_equal(s.link->credit.acked, 77);
  close_stage(&s);
}

/* The fast path gives the same result as the slow one, or declines and changes
 * nothing. */
static void credit_the_short_way(void **state) {
  (void)state;
  stage s;
  open_stage(&s, 200, UINT32_MAX - 49);
  send_unit(&s, 0);
  send_unit(&s, 0);
  gli_link *link = s.link;
  uint32_t start = s.start;
  assert_true(gli_wire_credit_now(link, start));
  assert_false(gli_wire_credit_now(link, start + 201));
  assert_false(gli_wire_credit_now(link, start - 1));
  assert_int_equal(link->credit.acked, start);
  assert_true(gli_wire_credit_now(link, start + 100));
  assert_int_equal(link->credit.acked, start + 100);
  send_unit(&s, 0);
  send_unit(&s, 0); /* blocked */
  assert_false(gli_wire_credit_now(link, start + 200));
  assert_int_equal(link->credit.acked, start + 100);
  assert_true(gli_wire_credit_now(link, start + 100));
  close_stage(&s);
}

/* ---- credit for others --------------------------------------------------- */

static void what_others_are_told(void **state) {
  (void)state;
  static const scene scenes[] = {
      {"nothing before half of the budget", 400, "consume:1", "", 0, 0, 0},
      {"half of the budget", 400, "consume:1 consume:1", "credit", 0, 0, 0},
      {"half of it again", 400, "consume:2 consume:1 consume:1",
       "credit credit", 0, 0, 0},
      {"a message tells it as well", 400, "consume:1 a consume:1", "a0$", 0, 1,
       0},
      {"and so does what waits for room", 400, "full a consume:3 room:9", "a0$",
       0, 1, 0},
  };
  RUN(scenes);
}

/* Every message carries the amount consumed when it was handed over. */
static void headers_carry_credit(void **state) {
  (void)state;
  stage s;
  open_stage(&s, 1000, UINT32_MAX - 149);
  play(&s, "a consume:1 a full a consume:1 probe room:9");
  static const uint32_t told[] = {0, 100, 200, 200};
  assert_int_equal(s.pair->n_log, 4);
  for (uint32_t i = 0; i < 4; i++) {
    assert_int_equal(s.pair->log[i].header.credit, s.start + told[i]);
  }
  assert_int_equal(s.link->credit.consumed_acked, s.start + 200);
  close_stage(&s);
}

/* ---- limits -------------------------------------------------------------- */

/* A receiver keeps a limited number of RTSs. */
static void no_more_wants_than_a_peer_keeps(void **state) {
  (void)state;
  enum { MORE = 3, ALL = GLI_RTS_MAX + MORE };
  stage s;
  open_stage(&s, 0, 0);
  gloo_request *ops[ALL];
  for (uint32_t i = 0; i < ALL; i++) {
    ops[i] = wire_operation(s.w);
    gli_header h = header_of(i, 0, UNIT);
    wire_post_step(ops[i], 1, 0, &h, false);
  }
  wire_check(s.w);
  assert_int_equal(s.pair->n_log, GLI_RTS_MAX);
  assert_ptr_equal(s.link->unannounced->operation, ops[GLI_RTS_MAX]);
  /* An answer makes room for the oldest waiting RTS. */
  gli_wire_answered(s.link);
  gli_wire_granted(ops[5], 1);
  wire_check(s.w);
  assert_int_equal(s.pair->n_log, GLI_RTS_MAX + 2);
  const gli_header *last = &s.pair->log[GLI_RTS_MAX].header;
  assert_int_equal(last->type, GLI_MESSAGE_RTS);
  assert_int_equal(last->operation, GLI_RTS_MAX);
  assert_int_equal(last->slot, 0);
  assert_int_equal(s.pair->log[GLI_RTS_MAX + 1].header.operation, 5);
  /* A message that was never announced is withdrawn, and needs no
   * announcement. */
  gli_wire_withdraw(ops[ALL - 2], 1);
  wire_check(s.w);
  assert_ptr_equal(s.link->unannounced->operation, ops[ALL - 1]);
  assert_int_equal(s.link->leaving.sent, ALL - 1);
  gli_wire_answered(s.link);
  last = &s.pair->log[s.pair->n_log - 1].header;
  assert_int_equal(last->operation, ALL - 1);
  assert_null(s.link->unannounced);
  gli_wire_answered(s.link);
  assert_int_equal(s.pair->n_log, GLI_RTS_MAX + 3);
  wire_check(s.w);
  close_stage(&s);
  for (uint32_t i = 0; i < ALL; i++) wire_operation_free(ops[i]);
}

/* A peer that sends requests without taking the answers gets a limited
 * number. */
static void no_more_answers_than_a_peer_takes(void **state) {
  (void)state;
  stage s;
  open_stage(&s, 100, 0);
  gloo_error error = {.status = GLOO_OK};
  gli_header about = header_of(0, 0, UNIT);
  s.pair->room = 0;
  for (uint32_t i = 0; i < GLI_RTS_MAX + 10; i++) {
    assert_int_equal(
        gli_wire_answer(s.link, GLI_MESSAGE_WAITING, &about, &error), GLOO_OK);
  }
  assert_int_equal(s.link->answers, GLI_RTS_MAX);
  for (uint32_t i = 0; i < GLI_RTS_MAX; i++) {
    assert_int_equal(gli_wire_answer(s.link, GLI_MESSAGE_CTS, &about, &error),
                     GLOO_OK);
  }
  assert_int_equal(s.link->answers, 2 * GLI_RTS_MAX);
  assert_int_equal(gli_wire_answer(s.link, GLI_MESSAGE_CTS, &about, &error),
                   GLOO_ERR_PROTOCOL);
  assert_int_equal(error.rank, s.link->rank);
  assert_non_null(strstr(error.message, "without reading the replies"));
  wire_check(s.w);
  play(&s, "room:9");
  assert_int_equal(s.link->answers, 2 * GLI_RTS_MAX - 9);
  play(&s, "slow open room:7"); /* in progress: not taken yet */
  assert_int_equal(s.link->answers, 2 * GLI_RTS_MAX - 9);
  play(&s, "sent");
  assert_int_equal(s.link->answers, 2 * GLI_RTS_MAX - 16);
  assert_int_equal(gli_wire_answer(s.link, GLI_MESSAGE_CTS, &about, &error),
                   GLOO_OK);
  close_stage(&s);
}

/* ---- (b) order ----------------------------------------------------------- */

static void nothing_overtakes(void **state) {
  (void)state;
  static const scene scenes[] = {
      {"what waits for room goes first", 900, "full a b c room:9",
       "a0$ b0$ c0$", 0, 3, 0},
      {"as far as there is room", 900, "full a b c room:2", "a0$ b0$", 0, 3, 0},
      {"and then on from there", 900, "full a b c room:2 room:9", "a0$ b0$ c0$",
       0, 3, 0},
      {"there is room again, and something waits", 900, "full a open b room:9",
       "a0$ b0$", 0, 2, 0},
      {"there is room again, and nobody asked", 900, "full a open b", "", 0, 2,
       0},
      {"a control message among others", 900, "full a probe b room:9",
       "a0$ probe b0$", 0, 2, 0},
      {"a control message behind others, with room", 900,
       "full a open probe room:9", "a0$ probe", 0, 1, 0},
      {"behind a control message", 900, "full probe open a room:9", "probe a0$",
       0, 1, 0},
      {"an announcement waits for room, too", 100, "full a b room:1 room:1",
       "a0$ want:b0", 1, 1, 0},
      {"what a start lets through waits behind it", 0,
       "a full probe answer:a open b room:9", "want:a0 probe a0 want:b0", 1, 0,
       0},
      {"what credit lets through waits behind it", 100,
       "a b full probe credit+1 open a room:9", "a0$ want:b0 probe b0$ want:a1",
       1, 1, 0},
      {"no room for the first again: it stays the first", 900,
       "full a b room:0 c room:0 room:1 room:0 room:9", "a0$ b0$ c0$", 0, 3, 0},
      {"in progress is no reason to wait", 900, "slow a b probe full c sent",
       "a0$ b0$ probe", 0, 3, 0},
  };
  RUN(scenes);
}

/* A waiting send is found by the tag and number of its message. */
static void blocked_sends_are_found(void **state) {
  (void)state;
  stage s;
  open_stage(&s, UNIT, 0);
  static const gli_header waits[] = {
      {.type = GLI_MESSAGE_DATA, .collective = GLI_ALLREDUCE, .tag = 7},
      {.type = GLI_MESSAGE_DATA, .collective = GLI_SENDRECV, .tag = 7},
      {.type = GLI_MESSAGE_DATA, .collective = GLI_SENDRECV, .tag = 8},
      {.type = GLI_MESSAGE_DATA,
       .collective = GLI_SENDRECV,
       .tag = 7,
       .operation = 1}};
  uint32_t peer = 9;
  assert_null(gli_wire_blocked(s.link, &waits[1], &peer));
  for (uint32_t i = 0; i < OPERATIONS; i++) {
    wire_post_step(s.ops[i], 1, 0, &waits[i], true);
  }
  assert_ptr_equal(gli_wire_blocked(s.link, &waits[1], &peer), s.ops[1]);
  assert_int_equal(peer, 1);
  assert_ptr_equal(gli_wire_blocked(s.link, &waits[2], &peer), s.ops[2]);
  assert_ptr_equal(gli_wire_blocked(s.link, &waits[3], &peer), s.ops[3]);
  gli_header none = waits[3];
  none.operation = 2;
  peer = 9;
  assert_null(gli_wire_blocked(s.link, &none, &peer));
  assert_null(gli_wire_blocked(&s.w->rank.links[2], &waits[1], &peer));
  gli_wire_granted(s.ops[1], 1);
  assert_null(gli_wire_blocked(s.link, &waits[1], &peer));
  assert_int_equal(peer, 9);
  close_stage(&s);
}

/* Each link has its own queue, and all queues are tried. */
static void full_links_hold_up_no_others(void **state) {
  (void)state;
  stage s;
  open_stage(&s, 900, 0);
  for (uint32_t peer = 1; peer < BARE_SIZE; peer++) s.w->pairs[peer].room = 0;
  for (uint32_t i = 0; i < 9; i++) send_to(&s, 1 + i % 3, i % 3, UNIT, false);
  wire_check(s.w);
  gloo_device *device = &s.w->rank.device;
  assert_int_equal(gli_wire_retry(device), 0);
  wire_check(s.w);
  s.w->pairs[1].room = 3;
  s.w->pairs[3].room = 2;
  assert_int_equal(gli_wire_retry(device), 5);
  wire_check(s.w);
  assert_int_equal(s.w->pairs[1].n_log, 3);
  assert_int_equal(s.w->pairs[2].n_log, 0);
  assert_int_equal(s.w->pairs[3].n_log, 2);
  s.w->pairs[2].room = s.w->pairs[3].room = 9;
  assert_int_equal(gli_wire_retry(device), 4);
  assert_null(device->pending_links);
  for (uint32_t peer = 1; peer < BARE_SIZE; peer++) {
    for (uint32_t i = 0; i < 3; i++) {
      assert_int_equal(s.w->pairs[peer].log[i].header.slot, i);
    }
  }
  close_stage(&s);
}

/* The transport finishes an offered message immediately, or nothing changes. */
static void an_offer_is_taken_whole_or_not(void **state) {
  (void)state;
  stage s;
  open_stage(&s, 200, UINT32_MAX - 149);
  gli_link *link = s.link;
  gli_op_peer *peer = &s.ops[0]->peers[1];
  gli_header h = header_of(0, 0, UNIT);
  link->credit.consumed += 70;
  s.pair->slow = true;
  gli_link before = *link;
  assert_false(gli_wire_offer(peer, link->pair, &h, NULL));
  assert_memory_equal(&before, link, sizeof before);
  s.pair->slow = false;
  assert_true(gli_wire_offer(peer, link->pair, &h, NULL));
  assert_int_equal(link->credit.sent, s.start + 100);
  assert_int_equal(link->leaving.sent, 1);
  assert_int_equal(link->credit.consumed_acked, link->credit.consumed);
  assert_int_equal(s.pair->log[0].header.eager, 1);
  assert_int_equal(s.pair->log[0].header.credit, link->credit.consumed);
  h.length++;
  before = *link;
  assert_false(gli_wire_offer(peer, link->pair, &h, NULL)); /* credit is one
                                                               byte short */
  assert_memory_equal(&before, link, sizeof before);
  peer->granted = true;
  assert_true(gli_wire_offer(peer, link->pair, &h, NULL));
  assert_int_equal(link->credit.sent, s.start + 100);
  assert_int_equal(s.pair->log[1].header.eager, 0);
  assert_int_equal(s.pair->n_log, 2);
  close_stage(&s);
}

/* No message is sent or owed to a rank that has left, has failed or is not
 * connected. */
static void nobody_speaks_to_who_has_left(void **state) {
  (void)state;
  stage s;
  open_stage(&s, 100, 0);
  gli_link *link = s.link;
  link->leaving.departed = true;
  play(&s, "probe");
  link->leaving.departed = false;
  link->failed = true;
  play(&s, "probe");
  link->failed = false;
  link->local = GLI_NO_RANK;
  play(&s, "probe");
  link->local = 1;
  link->pair = NULL;
  play(&s, "probe");
  link->pair = &s.pair->base;
  assert_int_equal(s.pair->n_log, 0);
  assert_int_equal(s.w->rank.device.owed, 0);
  play(&s, "probe");
  assert_int_equal(s.pair->n_log, 1);
  close_stage(&s);
}

/* ---- (c) finished and dropped messages ----------------------------------- */

static void steps_end_when_their_message_is_sent(void **state) {
  (void)state;
  stage s;
  open_stage(&s, 900, 0);
  const gloo_device *device = &s.w->rank.device;
  play(&s, "slow a a b probe");
  assert_null(device->finished.first);
  assert_null(device->runnable);
  assert_int_equal(device->owed, 1);
  wire_sent_one(s.pair, 1); /* in any order */
  wire_check(s.w);
  assert_ptr_equal(device->finished.first->operation, s.ops[0]);
  assert_int_equal(device->finished.first->step, 1);
  assert_ptr_equal(device->runnable, s.ops[0]);
  assert_null(s.ops[0]->runnable_next);
  play(&s, "sent");
  check_finished(&s);
  assert_int_equal(wire_list_length(&device->finished), 3);
  assert_int_equal(device->owed, 0);
  assert_ptr_equal(s.ops[0]->runnable_next, s.ops[1]);
  close_stage(&s);
}

/* A message sent by reference finishes when the peer has read it, or at once if
 * the peer has left. */
static void references_wait_for_their_peer(void **state) {
  (void)state;
  for (int left = 0; left < 2; left++) {
    stage s;
    open_stage(&s, 900, 0);
    gloo_device *device = &s.w->rank.device;
    play(&s, "full a");
    gli_transfer *t = s.link->pending.first;
    t->exposed = true;
    s.link->leaving.departed = left;
    play(&s, "room:1");
    assert_int_equal(wire_list_length(&s.link->exposed), left ? 0 : 1);
    assert_int_equal(wire_list_length(&device->finished), left ? 1 : 0);
    if (!left) {
      gli_transfer_list_remove(&s.link->exposed, t);
      gli_wire_finish(t);
    }
    wire_check(s.w);
    check_finished(&s);
    close_stage(&s);
  }
}

/* A rank's messages to itself wait in a queue of the device. */
static void messages_to_itself_are_queued(void **state) {
  (void)state;
  stage s;
  open_stage(&s, 200, 0);
  gloo_device *device = &s.w->rank.device;
  gli_link *self = &s.w->rank.links[0];
  for (int i = 0; i < 3; i++) send_to(&s, 0, 0, UNIT, false);
  wire_check(s.w);
  assert_int_equal(wire_list_length(&device->self_queue), 3); /* and an RTS */
  assert_int_equal(wire_list_length(&self->blocked), 1);
  gli_transfer *t = device->self_queue.first;
  gli_transfer_list_remove(&device->self_queue, t);
  gli_wire_sent(t);
  wire_check(s.w);
  assert_int_equal(wire_list_length(&device->finished), 1);
  close_stage(&s);
}

static gli_early *arrive(gli_link *link, gli_message_type type, bool orphan) {
  gli_header h = {.type = (uint8_t)type};
  gli_early *early = gli_early_new(link, &h, 300);
  gli_transfer *t = gli_transfer_new(link);
  assert_true(early && t);
  early->orphan = orphan;
  t->early = early;
  gli_transfer_list_add(&link->arriving, t);
  return early;
}

static uint32_t free_early(const gloo_device *device) {
  uint32_t n = 0;
  for (int i = 0; i < GLI_EARLY_CLASSES; i++) {
    for (const gli_early *p = device->free_early[i]; p; p = p->next) n++;
  }
  return n;
}

/* A link is dropped with an entry in each of its lists; the entries of other
 * links stay. */
static void what_is_dropped_is_in_no_list(void **state) {
  (void)state;
  stage s;
  open_stage(&s, 300, 0);
  gloo_device *device = &s.w->rank.device;
  gli_link *other = &s.w->rank.links[2];
  send_to(&s, 2, 3, UNIT, false);
  s.w->pairs[2].room = 0;
  send_to(&s, 2, 3, UNIT, false);
  play(&s, "a slow a a probe full b! c probe");
  gli_transfer *t = s.link->in_flight.first;
  t->exposed = true;
  wire_sent_one(s.pair, 0);
  s.pair->n_in_progress = 0; /* their completions are no longer reported */
  arrive(s.link, GLI_MESSAGE_ABORT, false);
  arrive(s.link, GLI_MESSAGE_DATA, true);
  gli_early *known = arrive(s.link, GLI_MESSAGE_DATA, false);
  const gli_link *link = s.link;
  assert_non_null(link->blocked.first);
  assert_non_null(link->pending.first);
  assert_non_null(link->in_flight.first);
  assert_non_null(link->exposed.first);
  assert_int_equal(wire_list_length(&device->finished), 2);
  gli_wire_drop(s.link);
  assert_int_equal(wire_list_length(&device->finished), 1);
  assert_ptr_equal(device->finished.first->operation, s.ops[3]);
  assert_ptr_equal(device->pending_links, other);
  assert_null(other->pending_next);
  assert_int_equal(wire_list_length(&other->pending), 1);
  assert_int_equal(device->owed, 0);
  /* Messages that arrived for an operation are freed with it. */
  assert_int_equal(free_early(device), 2);
  gli_early_free(known);
  assert_int_equal(free_early(device), 3);
  wire_check(s.w);
  close_stage(&s);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_credit_lets_through),
      cmocka_unit_test(what_a_start_lets_through),
      cmocka_unit_test(what_credit_is_believed),
      cmocka_unit_test(half_of_the_circle_is_older),
      cmocka_unit_test(credit_the_short_way),
      cmocka_unit_test(what_others_are_told),
      cmocka_unit_test(headers_carry_credit),
      cmocka_unit_test(no_more_wants_than_a_peer_keeps),
      cmocka_unit_test(no_more_answers_than_a_peer_takes),
      cmocka_unit_test(nothing_overtakes),
      cmocka_unit_test(blocked_sends_are_found),
      cmocka_unit_test(full_links_hold_up_no_others),
      cmocka_unit_test(an_offer_is_taken_whole_or_not),
      cmocka_unit_test(nobody_speaks_to_who_has_left),
      cmocka_unit_test(steps_end_when_their_message_is_sent),
      cmocka_unit_test(references_wait_for_their_peer),
      cmocka_unit_test(messages_to_itself_are_queued),
      cmocka_unit_test(what_is_dropped_is_in_no_list),
  };
  return cmocka_run_group_tests_name("engine wire", tests, NULL, NULL);
}
