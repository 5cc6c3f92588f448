/* What two processes say to each other before the first message. Both are of
 * fixed size, so that nothing a stranger sends is ever buffered or believed. */
#ifndef GLI_TRANSPORT_TCP_HANDSHAKE_H
#define GLI_TRANSPORT_TCP_HANDSHAKE_H

#include <stdbool.h>
#include <stdint.h>

#define GLI_TCP_VERSION 4
#define GLI_TCP_HELLO_BYTES 48
#define GLI_TCP_REPLY_BYTES 32

typedef struct gli_tcp_hello {
  uint32_t version;
  uint32_t stream, streams; /* which one this is to be, of how many at most */
  uint32_t from, to;        /* ranks */
  uint64_t key;
} gli_tcp_hello;

typedef enum gli_tcp_answer {
  GLI_TCP_ACCEPTED = 1,
  GLI_TCP_USE_MINE, /* our own connection to you is under way: wait for it */
  GLI_TCP_UNKNOWN,  /* no such key and rank here */
  GLI_TCP_LATER,    /* not yet, but soon: ask again */
  GLI_TCP_TAKEN,    /* this stream is connected already */
  GLI_TCP_OTHER_VERSION,
  GLI_TCP_ANSWERS
} gli_tcp_answer;

typedef struct gli_tcp_reply {
  uint32_t version;
  uint32_t answer;  /* gli_tcp_answer */
  uint32_t streams; /* ACCEPTED: agreed number */
  uint64_t key;     /* ACCEPTED: what the asking side expects of this peer */
} gli_tcp_reply;

void gli_tcp_hello_encode(const gli_tcp_hello *hello,
                          uint8_t out[GLI_TCP_HELLO_BYTES]);
/* False when it is no hello of any version. Of another version, only `version`
 * is set. */
bool gli_tcp_hello_decode(const uint8_t in[GLI_TCP_HELLO_BYTES],
                          gli_tcp_hello *hello);

void gli_tcp_reply_encode(const gli_tcp_reply *reply,
                          uint8_t out[GLI_TCP_REPLY_BYTES]);
bool gli_tcp_reply_decode(const uint8_t in[GLI_TCP_REPLY_BYTES],
                          gli_tcp_reply *reply);

#endif
