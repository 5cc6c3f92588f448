/* A stand-in for the engine: messages are read or refused, and nothing is
 * kept. */
#ifndef TESTS_FUZZ_TRANSPORT_USE_H
#define TESTS_FUZZ_TRANSPORT_USE_H

#include "fuzz.h"
#include "net/tls.h"
#include "transport/transport.h"

enum {
  USE_BYTES = 4096, /* message size; longer ones are refused */
  USE_STREAMS = 2   /* each may have a message in arrival */
};

/* Keys of pairs: of rank 0, which is the library's end, and of rank 1. */
#define USE_KEY_OWN UINT64_C(0x1111111111111111)
#define USE_KEY_PEER UINT64_C(0x2222222222222222)

/* A message in arrival. */
typedef struct use_arrival {
  size_t bytes;
  uint8_t *sink, *local; /* for free(); NULL: none */
} use_arrival;

typedef struct transport_use {
  const gli_transport_ops *ops;
  gli_transport *t;
  uint32_t owed;
  gli_pair *pair; /* NULL: not open */
  gli_pair_config config;
  bool failed;
  use_arrival arrivals[USE_STREAMS];
  uint8_t job_key[GLI_JOB_KEY_BYTES];
} transport_use;

/* Opens the endpoint that all inputs share, with the first input. `tls` may be
 * NULL. */
void use_open(transport_use *use, const gli_transport_ops *ops,
              gli_tls_settings *tls);
/* Before an input: sets up the pair that the peer may ask for. With `asks` the
 * peer has to prove that it knows the job's key. */
void use_expect(transport_use *use, const gli_address *peer, bool asks);
gloo_status use_connect(transport_use *use);
/* After an input: closes the pair, if open. */
void use_close_pair(transport_use *use);

/* Makes a valid header of this length from a few bytes of the input. */
gli_header use_make_header(fuzz_input *input, size_t length);

#endif
