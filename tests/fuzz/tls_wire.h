/* The two ends of a connection with TLS have sockets in memory here, and the
 * input says what the wire between them does to what it carries. Descriptor e
 * is the socket of end e: src/net/tls.c is compiled into this target with
 * gli_socket_send, gli_socket_receive and realloc under other names. */
#ifndef TESTS_FUZZ_TLS_WIRE_H
#define TESTS_FUZZ_TLS_WIRE_H

#include "fuzz.h"

/* The end that connects, and the one that accepts. */
enum { CLIENT, SERVER, ENDS };

enum {
  WIRE_BYTES = 1 << 20,
  WIRE_KEPT_MAX = 160 * 1024 /* what one end may keep that its socket has not
                                taken */
};
#define WIRE_ANY SIZE_MAX

/* What one end sends to the other. */
typedef struct wire_flow {
  uint8_t data[WIRE_BYTES];
  size_t given;   /* up to here the other end has it */
  size_t arrived; /* up to here its socket has it */
  size_t end;     /* up to here it is under way */
  size_t room;    /* so much more the sender's socket takes */
  uint64_t taken; /* so much it has taken, in all */
  bool changed;   /* what arrives is not, or not all, what was sent */
  bool ended;     /* the other end hears of that after what has arrived */
  bool reset;     /* ... at once, and so does the sender */
  bool refused;   /* by which the sender has heard of it */
  bool told;      /* ... and the other end */
} wire_flow;

/* By its sender. */
extern wire_flow wire[ENDS];

void wire_begin(void);
/* What the socket of end `e` has for it: bytes; these, the end, or an error. */
bool wire_has_bytes(int e);
bool wire_has_news(int e);
void wire_deliver(wire_flow *flow, size_t bytes);
/* Of what an end keeps. */
void *wire_realloc(void *memory, size_t bytes);
/* As if it had been sent. False: the wire is full. */
bool wire_add(wire_flow *flow, const void *data, size_t bytes);

/* What the wire does: of what is under way the input says which part is
 * changed, lost, repeated, late, or has something before it; where it is cut;
 * and how much the sender's socket takes from now on. */
enum { WIRE_STEPS = 8 };
void wire_step(wire_flow *flow, int which, fuzz_input *input);

#endif
