/* What the engine is to a transport, as far as a target needs it: messages are
 * read or refused, and nothing is kept. */
#ifndef TESTS_FUZZ_TRANSPORT_USE_H
#define TESTS_FUZZ_TRANSPORT_USE_H

#include "fuzz.h"
#include "transport/transport.h"

enum { USE_BYTES = 4096 }; /* of a message; longer ones are refused */

/* Keys of pairs: of rank 0, which is the library's end, and of rank 1. */
#define USE_KEY_OWN UINT64_C(0x1111111111111111)
#define USE_KEY_PEER UINT64_C(0x2222222222222222)

typedef struct transport_use {
  const gli_transport_ops *ops;
  gli_transport *t;
  uint32_t owed;
  gli_pair *pair; /* NULL: not open */
  gli_pair_config config;
  bool failed;
  gli_header header;     /* of the message that is arriving */
  uint8_t *sink, *local; /* for free() */
  uint8_t job_key[GLI_JOB_KEY_BYTES];
} transport_use;

/* One end point, opened with the first input and used by all of them. */
void use_open(transport_use *use, const gli_transport_ops *ops);
/* Before an input: the pair that the peer may ask for. With `asks` it has to
 * show that it knows the job's key. */
void use_expect(transport_use *use, const gli_address *peer, bool asks);
gloo_status use_connect(transport_use *use);
/* After it: close the pair, if there is one. */
void use_close_pair(transport_use *use);

/* A header that makes sense, of a few bytes of the input, with this length. */
gli_header use_make_header(fuzz_input *input, size_t length);

#endif
