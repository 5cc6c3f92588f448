/* Sockets in memory for the two ends of a TLS connection, and the wire between
 * them, which changes data as the input says. Descriptor e is the socket of end
 * e: src/net/tls.c is compiled into this target with gli_socket_send,
 * gli_socket_receive and realloc renamed. */
#ifndef TESTS_FUZZ_TLS_WIRE_H
#define TESTS_FUZZ_TLS_WIRE_H

#include "fuzz.h"

/* The connecting end and the accepting end. */
enum { CLIENT, SERVER, ENDS };

enum {
  WIRE_BYTES = 1 << 20,
  WIRE_KEPT_MAX = 160 * 1024 /* unsent bytes that one end may buffer */
};
#define WIRE_ANY SIZE_MAX

/* Data from one end to the other. */
typedef struct wire_flow {
  uint8_t data[WIRE_BYTES];
  size_t given;   /* end of the data that the other end has read */
  size_t arrived; /* end of the data in its socket */
  size_t end;     /* end of the data in transit */
  size_t room;    /* bytes that the sender's socket still takes */
  uint64_t taken; /* bytes that it has taken in total */
  bool changed;   /* the data that arrives differs from the data sent */
  bool ended;     /* the other end sees the end after the data */
  bool reset;     /* both ends see a reset at once */
  bool refused;   /* the sender got the reset error */
  bool told;      /* the other end got it */
} wire_flow;

/* The flows, indexed by sender. */
extern wire_flow wire[ENDS];

void wire_begin(void);
/* Return true if the socket of end `e` has bytes, or bytes, the end or an
 * error. */
bool wire_has_bytes(int e);
bool wire_has_news(int e);
void wire_deliver(wire_flow *flow, size_t bytes);
/* Replaces realloc in tls.c, and checks the limit of buffered bytes. */
void *wire_realloc(void *memory, size_t bytes);
/* Adds data as if it had been sent. Returns false if the wire is full. */
bool wire_add(wire_flow *flow, const void *data, size_t bytes);

/* Changes on the wire: a part of the data in transit is changed, lost,
 * repeated, delayed or preceded by other bytes; the flow is cut; or the space
 * in the sender's socket is limited. The input selects the part and the
 * values. */
enum { WIRE_STEPS = 8 };
void wire_step(wire_flow *flow, int which, fuzz_input *input);

#endif
