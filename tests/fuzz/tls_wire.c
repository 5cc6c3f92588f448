#undef realloc /* renamed to wire_realloc in other files */
#include "tls_wire.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/descriptor.h"
#include "tls_keys.h"

enum { RECORD_HEAD_BYTES = 5, READ_AHEAD_MAX = 65536 };

wire_flow wire[ENDS];

void wire_begin(void) {
  for (int e = 0; e < ENDS; e++) {
    wire_flow *flow = &wire[e];
    flow->given = flow->arrived = flow->end = 0;
    flow->room = WIRE_ANY;
    flow->taken = 0;
    flow->changed = flow->ended = flow->reset = false;
    flow->refused = flow->told = false;
  }
}

bool wire_has_bytes(int e) {
  const wire_flow *flow = &wire[1 - e];
  return flow->given < flow->arrived;
}

bool wire_has_news(int e) {
  const wire_flow *flow = &wire[1 - e];
  return wire_has_bytes(e) || flow->ended || flow->reset;
}

void wire_deliver(wire_flow *flow, size_t bytes) {
  size_t left = flow->end - flow->arrived;
  flow->arrived += bytes < left ? bytes : left;
}

/* ---- sockets ------------------------------------------------------------- */

static void wire_close_up(wire_flow *flow) {
  memmove(flow->data, flow->data + flow->given, flow->end - flow->given);
  flow->arrived -= flow->given;
  flow->end -= flow->given;
  flow->given = 0;
}

bool wire_add(wire_flow *flow, const void *data, size_t bytes) {
  if (flow->ended || flow->reset) return true; /* dropped */
  wire_close_up(flow);
  if (bytes > WIRE_BYTES - flow->end) return false;
  memcpy(flow->data + flow->end, data, bytes);
  flow->end += bytes;
  return true;
}

ssize_t gli_socket_send(int fd, const void *data, size_t bytes) {
  wire_flow *flow = &wire[fd];
  fuzz_check(bytes > 0, "there is something to send");
  if (flow->reset) {
    flow->refused = true;
    errno = EPIPE;
    return -1;
  }
  if (bytes > flow->room) bytes = flow->room;
  if (bytes == 0 || !wire_add(flow, data, bytes)) {
    errno = EAGAIN;
    return -1;
  }
  if (flow->room != WIRE_ANY) flow->room -= bytes;
  flow->taken += bytes;
  keys_see_sent(fd, data, bytes);
  return (ssize_t)bytes;
}

/* Returns the result of a read without data. The system reports an error once,
 * and afterwards only the end. */
static ssize_t wire_nothing(wire_flow *flow) {
  if (flow->reset && !flow->told) {
    flow->told = true;
    errno = ECONNRESET;
    return -1;
  }
  if (flow->reset || flow->ended) return 0;
  errno = EAGAIN;
  return -1;
}

ssize_t gli_socket_receive(int fd, void *data, size_t bytes) {
  wire_flow *flow = &wire[1 - fd];
  size_t left = flow->arrived - flow->given;
  fuzz_check(bytes > 0 && bytes <= READ_AHEAD_MAX,
             "only so much is read ahead");
  if (left == 0) return wire_nothing(flow);
  if (bytes > left) bytes = left;
  memcpy(data, flow->data + flow->given, bytes);
  flow->given += bytes;
  return (ssize_t)bytes;
}

void *wire_realloc(void *memory, size_t bytes) {
  fuzz_check(bytes <= WIRE_KEPT_MAX, "only so much is kept");
  return realloc(memory, bytes);
}

/* ---- changes on the wire ------------------------------------------------- */

typedef struct wire_part {
  size_t at, bytes;
} wire_part;

/* Returns the start of the record after the one at `at`, if one begins
 * there. */
static size_t wire_next_record(const wire_flow *flow, size_t at) {
  if (flow->end - at < RECORD_HEAD_BYTES) return flow->end;
  size_t bytes = (size_t)(flow->data[at + 3] << 8 | flow->data[at + 4]);
  at += RECORD_HEAD_BYTES;
  return bytes < flow->end - at ? at + bytes : flow->end;
}

/* Selects a part of the bytes in transit. An even byte gives the first record
 * and the number of records; an odd one gives the number of bytes, and two more
 * bytes the offset. */
static wire_part wire_choose(const wire_flow *flow, fuzz_input *input) {
  uint8_t how = fuzz_take_u8(input);
  wire_part part = {flow->arrived, 0};
  if ((how & 1) != 0) {
    size_t left = flow->end - flow->arrived;
    if (left == 0) return part;
    part.at += fuzz_take_u16(input) % left;
    part.bytes = 1 + how / 2;
    if (part.bytes > flow->end - part.at) part.bytes = flow->end - part.at;
    return part;
  }
  for (int n = how / 2 % 16; n > 0; n--)
    part.at = wire_next_record(flow, part.at);
  size_t end = part.at;
  for (int n = 1 + how / 32; n > 0; n--) end = wire_next_record(flow, end);
  part.bytes = end - part.at;
  return part;
}

static void wire_take_out(wire_flow *flow, wire_part part) {
  size_t behind = part.at + part.bytes;
  if (part.bytes == 0) return;
  memmove(flow->data + part.at, flow->data + behind, flow->end - behind);
  flow->end -= part.bytes;
  flow->changed = true;
}

static void wire_put_in(wire_flow *flow, size_t at, const uint8_t *data,
                        size_t bytes) {
  if (bytes == 0 || bytes > WIRE_BYTES - flow->end) return;
  memmove(flow->data + at + bytes, flow->data + at, flow->end - at);
  memcpy(flow->data + at, data, bytes);
  flow->end += bytes;
  flow->changed = true;
}

static uint8_t *wire_copy(const wire_flow *flow, wire_part part) {
  const fuzz_input piece = {flow->data + part.at, part.bytes};
  return fuzz_copy(&piece);
}

static void wire_flip(wire_flow *flow, fuzz_input *input) {
  wire_part part = wire_choose(flow, input);
  uint8_t at = fuzz_take_u8(input), by = fuzz_take_u8(input);
  if (part.bytes == 0 || by == 0) return;
  flow->data[part.at + at % part.bytes] ^= by;
  flow->changed = true;
}

static void wire_drop(wire_flow *flow, fuzz_input *input) {
  wire_take_out(flow, wire_choose(flow, input));
}

static void wire_repeat(wire_flow *flow, fuzz_input *input) {
  wire_part part = wire_choose(flow, input);
  uint8_t *copy = wire_copy(flow, part);
  wire_put_in(flow, part.at, copy, part.bytes);
  free(copy);
}

/* Moves a part behind everything else. */
static void wire_move(wire_flow *flow, fuzz_input *input) {
  wire_part part = wire_choose(flow, input);
  uint8_t *copy = wire_copy(flow, part);
  wire_take_out(flow, part);
  wire_put_in(flow, flow->end, copy, part.bytes);
  free(copy);
}

static void wire_insert(wire_flow *flow, fuzz_input *input) {
  wire_part part = wire_choose(flow, input);
  fuzz_input piece = fuzz_take_piece(input);
  wire_put_in(flow, part.at, piece.at, piece.left);
}

/* Cuts the flow: nothing after that point arrives. */
static void wire_cut(wire_flow *flow, fuzz_input *input) {
  flow->end = wire_choose(flow, input).at;
  flow->changed = flow->ended = true;
}

/* Resets the connection; both ends notice at once. */
static void wire_reset(wire_flow *flow, fuzz_input *input) {
  (void)input;
  flow->given = flow->arrived = flow->end = 0;
  flow->changed = flow->reset = true;
}

static void wire_narrow(wire_flow *flow, fuzz_input *input) {
  size_t room = fuzz_take_u16(input);
  flow->room = room > 0 ? room : WIRE_ANY;
}

void wire_step(wire_flow *flow, int which, fuzz_input *input) {
  static void (*const steps[WIRE_STEPS])(wire_flow *, fuzz_input *) = {
      wire_flip,   wire_drop, wire_repeat, wire_move,
      wire_insert, wire_cut,  wire_reset,  wire_narrow};
  steps[which](flow, input);
}
