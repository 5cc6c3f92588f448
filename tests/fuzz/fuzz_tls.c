/* TLS: two ends of src/net/tls.c, and a wire that the input controls. The first
 * byte selects how they authenticate, whether the credentials are right, and
 * whether an unchanged handshake comes first. The steps follow, each with a
 * byte that selects the end and the kind: continue the handshake, send,
 * receive, shut down, change the bytes in transit (tls_wire.h), or send content
 * that no end would send, encrypted with the right keys.
 *
 * The target is not OpenSSL's own code, so a peer's bytes are changed more
 * often than made up. Invariant: an end receives the bytes that the other has
 * sent, in order, or an error with a reason and nothing after it. If no byte
 * was changed it receives all. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "net/tls.h"
#include "tls_keys.h"
#include "tls_papers.h"
#include "tls_wire.h"

enum {
  STEPS_MAX = 100,
  TURNS_MAX = 10000,
  PARTS_MAX = 7,
  SAYING_BYTES = 65521,
  SEND_MAX = 4 * 65535
};

/* Flags of the first byte. Strangers have another key, or a certificate of an
 * authority that the other end does not trust. */
enum {
  BY_CERTIFICATE = 1,
  EXPECT_RANKS = 2,
  CLIENT_STRANGE = 4,
  SERVER_STRANGE = 8,
  SERVER_OTHER_RANK = 16,
  KINDS_DIFFER = 32,
  SHAKE_HANDS_FIRST = 64
};

typedef struct tls_side {
  gli_tls *tls;
  gli_tls_step step;
  int shake_code, read_code, write_code; /* errno; 0: none */
  bool over;                             /* the other end has shut down */
  bool shut;                             /* this end has shut down */
  bool never;                            /* the handshake must not succeed */
  uint64_t sent, heard;                  /* bytes sent, and bytes received */
} tls_side;

static tls_side side[ENDS];
static bool side_trusts; /* the handshake has to succeed if nothing changes */

/* ---- coverage feedback --------------------------------------------------- */

/* OpenSSL's code is not instrumented, so these counters report the state of an
 * end to the fuzzer. */
#if GLI_LINUX
__attribute__((section("__libfuzzer_extra_counters")))
#endif
static uint8_t reached[1024];

static void side_reach(int e, unsigned what, const char *why) {
  uint32_t hash = 2166136261u ^ (uint32_t)e ^ what << 1;
  for (; *why != '\0'; why++) hash = (hash ^ (uint8_t)*why) * 16777619u;
  hash ^= hash >> 15;
  reached[hash % sizeof reached] = 1;
}

/* ---- settings ------------------------------------------------------------ */

static tls_papers all;

static void settings_make(void) {
  tls_papers_make(&all);
  for (int e = 0; e < ENDS; e++) {
    keys_listen(all.rank[e]);
    keys_listen(all.stranger[e]);
  }
  keys_listen(all.other_rank);
  keys_listen(all.secret);
}

/* ---- content ------------------------------------------------------------- */

/* Content that repeats only after a prime number of bytes, so that a piece in a
 * wrong place is detected. */
static uint8_t sayings[ENDS][SAYING_BYTES + SEND_MAX];

static void sayings_make(void) {
  for (int e = 0; e < ENDS; e++)
    for (size_t i = 0; i < sizeof sayings[e]; i++) {
      uint64_t mixed =
          (uint64_t)(i % SAYING_BYTES + 1) * UINT64_C(0x9e3779b97f4a7c15);
      sayings[e][i] =
          (uint8_t)((mixed >> 40) ^ (e == CLIENT ? 0 : mixed >> 29));
    }
}

/* Returns SEND_MAX bytes of end e's content, from byte `at` on. */
static const uint8_t *side_says(int e, uint64_t at) {
  return sayings[e] + at % SAYING_BYTES;
}

static void side_check_error(int e, int code) {
  const char *why = gli_tls_why(side[e].tls);
  fuzz_check(code != 0 && code != EAGAIN, "a failure has a code");
  side_reach(e, 1, code == EBADMSG ? why : "");
  if (code != EBADMSG) return;
  fuzz_check(why[0] != '\0', "and a sentence");
  for (const char *at = why; *at != '\0'; at++)
    fuzz_check((unsigned char)*at >= ' ' && *at != 0x7f,
               "that can be shown to a person");
}

/* Checks an error of the handshake or of a read, which is permanent. A later
 * error of the socket may replace a write error. */
static void side_fail(int e, int code, int *failed) {
  fuzz_check(*failed == 0 || *failed == code, "an error stays what it is");
  *failed = code;
  side_check_error(e, code);
}

static void side_fail_to_write(int e, int code) {
  side[e].write_code = code;
  side_check_error(e, code);
}

/* ---- the handshake ------------------------------------------------------- */

static void side_shaken(int e) {
  tls_side *s = &side[e];
  gli_key keys[ENDS];
  gloo_error error;
  fuzz_check(!s->never, "nobody trusts a stranger");
  fuzz_check(gli_tls_is_member(s->tls, &all.at), "who is trusted is a member");
  if (!gli_tls_is_host(s->tls, NULL, &all.at))
    fuzz_check(gli_tls_why(s->tls)[0] != '\0', "there is a reason");
  if (side[1 - e].step != GLI_TLS_DONE) return;
  for (int i = 0; i < ENDS; i++)
    fuzz_check(gli_tls_key(side[i].tls, &keys[i], &error) == GLOO_OK,
               error.message);
  fuzz_check(memcmp(&keys[0], &keys[1], sizeof keys[0]) == 0,
             "both ends have the same key");
}

/* Continues the handshake, also after it has failed. */
static void side_shake_hands(int e) {
  tls_side *s = &side[e];
  if (s->step == GLI_TLS_DONE) return;
  gli_tls_step before = s->step;
  errno = 0;
  s->step = gli_tls_shake_hands(s->tls);
  if (before == GLI_TLS_FAILED)
    fuzz_check(s->step == GLI_TLS_FAILED, "what has failed does not go on");
  if (s->step == GLI_TLS_FAILED) side_fail(e, errno, &s->shake_code);
  keys_go_on(e);
  if (s->step == GLI_TLS_DONE) side_shaken(e);
}

/* ---- sending and receiving ----------------------------------------------- */

static int side_parts(uint8_t *data, size_t bytes, uint8_t how,
                      struct iovec parts[PARTS_MAX]) {
  size_t n = 1 + how % PARTS_MAX, at = 0;
  for (size_t i = 0; i < n; i++) {
    size_t left = bytes - at, part = left / (n - i);
    if (i + 1 < n && how >= 128) part = i % 2 == 0 ? 0 : left / 2;
    if (i + 1 == n) part = left;
    parts[i] = (struct iovec){data + at, part};
    at += part;
  }
  return (int)n;
}

static void side_send(int e, size_t bytes, uint8_t how) {
  tls_side *s = &side[e];
  struct iovec parts[PARTS_MAX];
  if (s->step != GLI_TLS_DONE || s->shut) return;
  uint8_t *data = malloc(bytes > 0 ? bytes : 1);
  fuzz_check(data != NULL, "there is memory");
  memcpy(data, side_says(e, s->sent), bytes);
  int n = side_parts(data, bytes, how, parts);
  bool refused = wire[e].refused;
  errno = 0;
  ssize_t sent = gli_tls_send(s->tls, parts, n);
  free(data);
  if (sent >= 0) {
    fuzz_check((size_t)sent <= bytes, "no more is sent than there is");
    fuzz_check(!refused && s->read_code == 0 && s->write_code == 0,
               "nothing is sent after an error");
    s->sent += (uint64_t)sent;
  } else if (errno == EAGAIN) {
    fuzz_check(gli_tls_unsent(s->tls), "it is refused as long as some is kept");
  } else {
    side_fail_to_write(e, errno);
  }
  fuzz_check(s->sent <= wire[e].taken + WIRE_KEPT_MAX, "only so much is kept");
}

/* Returns false if no more data comes, for now or permanently. */
static bool side_receive(int e, size_t bytes, uint8_t how) {
  tls_side *s = &side[e];
  struct iovec parts[PARTS_MAX];
  if (s->step != GLI_TLS_DONE) return false;
  uint8_t *data = malloc(bytes);
  fuzz_check(data != NULL, "there is memory");
  int n = side_parts(data, bytes, how, parts);
  errno = 0;
  ssize_t got = gli_tls_receive(s->tls, parts, n);
  if (got > 0) {
    fuzz_check(!s->over && s->read_code == 0, "nothing comes after the end");
    fuzz_check((size_t)got <= bytes, "no more comes than there is room for");
    fuzz_check(memcmp(data, side_says(1 - e, s->heard), (size_t)got) == 0,
               "what comes is what was sent");
    s->heard += (uint64_t)got;
    fuzz_check(s->heard <= side[1 - e].sent, "and no more than that");
  } else if (got == 0) {
    fuzz_check(s->read_code == 0, "an error stays one");
    s->over = true;
    side_reach(e, 2, "");
  } else if (errno == EAGAIN) {
    fuzz_check(!s->over && s->read_code == 0, "the end is the end");
    fuzz_check(!gli_tls_pending(s->tls) && !wire_has_bytes(e),
               "all was read before more is waited for");
  } else {
    fuzz_check(!s->over, "the end is no error");
    side_fail(e, errno, &s->read_code);
  }
  free(data);
  return got > 0;
}

static void side_flush(int e) {
  tls_side *s = &side[e];
  if (!gli_tls_flush(s->tls)) side_fail_to_write(e, errno);
}

static void side_shut(int e) {
  if (side[e].step == GLI_TLS_DONE) side[e].shut = true;
  gli_tls_shut(side[e].tls);
}

/* ---- both ends, as far as they come ---------------------------------------
 */

/* Acts as the library does: reads while data is available, as far as it can
 * know. */
static void side_go_on(int e) {
  tls_side *s = &side[e];
  side_flush(e);
  if (s->step == GLI_TLS_WAITS) side_shake_hands(e);
  for (int turn = 0; wire_has_news(e) || gli_tls_pending(s->tls); turn++) {
    fuzz_check(turn < TURNS_MAX, "to read comes to an end");
    if (!side_receive(e, 16384, 0)) break;
  }
}

static void ends_go_on(void) {
  uint64_t before, now = 0;
  int turn = 0, idle = 0;
  do {
    before = now;
    now = 0;
    for (int e = 0; e < ENDS; e++) {
      wire_deliver(&wire[e], WIRE_ANY);
      side_go_on(1 - e);
      now += wire[e].taken + side[e].heard + (uint64_t)side[e].step;
    }
    idle = now == before ? idle + 1 : 0;
    fuzz_check(turn++ < TURNS_MAX, "to go on comes to an end");
  } while (idle < 2);
}

/* ---- one input ----------------------------------------------------------- */

static gli_tls_settings *ends_settings_of(int e, uint8_t how) {
  bool certified = (how & BY_CERTIFICATE) != 0;
  if ((how & KINDS_DIFFER) != 0 && e == SERVER) certified = !certified;
  if (!certified) return all.secret;
  if ((how & (e == CLIENT ? CLIENT_STRANGE : SERVER_STRANGE)) != 0)
    return all.stranger[e];
  if (e == SERVER && (how & SERVER_OTHER_RANK) != 0) return all.other_rank;
  return all.rank[e];
}

static void ends_open(uint8_t how) {
  gloo_error error;
  bool strange[ENDS] = {(how & CLIENT_STRANGE) != 0,
                        (how & SERVER_STRANGE) != 0};
  bool differ = (how & KINDS_DIFFER) != 0;
  bool certified = (how & BY_CERTIFICATE) != 0;
  bool other = certified && !differ && !strange[SERVER] &&
               (how & SERVER_OTHER_RANK) != 0 && (how & EXPECT_RANKS) != 0;
  wire_begin();
  memset(side, 0, sizeof side);
  for (int e = 0; e < ENDS; e++) {
    const gli_key key = {{strange[e] ? (uint8_t)(e + 1) : 9, 2, 3}};
    tls_side *s = &side[e];
    fuzz_check(gli_tls_open(ends_settings_of(e, how), e, e == SERVER, &key,
                            &s->tls, &error) == GLOO_OK,
               error.message);
    keys_begin(e, s->tls);
    s->step = GLI_TLS_WAITS;
    s->never = differ || strange[1 - e] || (e == CLIENT && other);
    if (!certified) s->never = s->never || strange[e];
    if ((how & EXPECT_RANKS) != 0)
      gli_tls_expect_rank(s->tls, e == CLIENT, &all.at, 1);
  }
  side_trusts = !side[CLIENT].never && !side[SERVER].never;
}

/* Sends content that differs from what the end sent, encrypted with the right
 * key. */
static void ends_forge(int e, fuzz_input *input) {
  static const uint8_t types[] = {20, 21, 22, KEYS_SAYING, 24, 0};
  uint8_t record[KEYS_RECORD_MAX], what = fuzz_take_u8(input);
  uint8_t type = types[what % sizeof types];
  fuzz_input piece = fuzz_take_piece(input);
  if (type == KEYS_SAYING) piece.left = 0;
  if (gli_tls_unsent(side[e].tls)) return;
  size_t bytes = keys_seal(e, type, &piece, record);
  if (bytes == 0) return;
  wire[e].changed = true;
  (void)wire_add(&wire[e], record, bytes);
}

static void ends_step(fuzz_input *input) {
  enum { SHAKE_HANDS, DELIVER, SEND, RECEIVE, WIRE, FORGE = WIRE + WIRE_STEPS };
  enum { SHUT = FORGE + 1, FLUSH, GO_ON, STEPS };
  uint8_t what = fuzz_take_u8(input);
  int e = what % ENDS, step = what / ENDS % STEPS;
  size_t bytes;
  switch (step) {
    case SHAKE_HANDS:
      side_shake_hands(e);
      break;
    case DELIVER:
      bytes = fuzz_take_u16(input);
      wire_deliver(&wire[e], bytes > 0 ? bytes : WIRE_ANY);
      break;
    case SEND:
      bytes = fuzz_take_u16(input);
      side_send(e, what >= 128 ? 4 * bytes : bytes, fuzz_take_u8(input));
      break;
    case RECEIVE:
      bytes = (size_t)fuzz_take_u16(input) + 1;
      (void)side_receive(e, bytes, fuzz_take_u8(input));
      break;
    case FORGE:
      ends_forge(e, input);
      break;
    case SHUT:
      side_shut(e);
      break;
    case FLUSH:
      side_flush(e);
      break;
    case GO_ON:
      ends_go_on();
      break;
    default:
      wire_step(&wire[e], step - WIRE, input);
  }
}

/* Checks that unchanged data has arrived, whatever happened to the other
 * direction. An end that received part of a handshake message cannot report the
 * end of its data. */
static void ends_check(void) {
  bool shaken =
      side[CLIENT].step == GLI_TLS_DONE && side[SERVER].step == GLI_TLS_DONE;
  bool changed = wire[CLIENT].changed || wire[SERVER].changed;
  if (side_trusts && !changed)
    fuzz_check(shaken, "a handshake that nobody changes succeeds");
  for (int e = 0; e < ENDS && shaken; e++) {
    const tls_side *from = &side[e], *to = &side[1 - e];
    if (wire[e].changed) continue;
    fuzz_check(to->heard == from->sent, "all that was sent has come");
    if (from->shut && !changed) fuzz_check(to->over, "and the end");
  }
}

static void ends_close(void) {
  for (int e = 0; e < ENDS; e++) {
    side_reach(e, 16u + (unsigned)side[e].step + 4u * (side[e].heard > 0), "");
    gli_tls_destroy(side[e].tls);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  fuzz_input input = {data, bytes};
  keys_draw_again();
  if (all.secret == NULL) {
    settings_make();
    sayings_make();
    keys_draw_again();
  }
  uint8_t how = fuzz_take_u8(&input);
  ends_open(how);
  if ((how & SHAKE_HANDS_FIRST) != 0) ends_go_on();
  for (int i = 0; i < STEPS_MAX && input.left > 0; i++) ends_step(&input);
  for (int e = 0; e < ENDS; e++) wire[e].room = WIRE_ANY;
  ends_go_on();
  ends_check();
  ends_close();
  return 0;
}
