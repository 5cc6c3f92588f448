/* The header of every message, and its format on the wire. */
#ifndef GLI_TRANSPORT_HEADER_H
#define GLI_TRANSPORT_HEADER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef enum gli_message_type {
  GLI_MESSAGE_DATA = 1, /* payload of slot `slot` of an operation */
  GLI_MESSAGE_RTS,      /* "I have data for this operation, may I send it?" */
  GLI_MESSAGE_CTS,      /* "I have started this operation: send all of it" */
  GLI_MESSAGE_CREDIT,   /* carries only `credit` */
  GLI_MESSAGE_PROBE,    /* "are you in this operation?"; slot 1: my deadline has
                           passed, ask on */
  GLI_MESSAGE_WAITING,  /* "yes, and waiting for another rank"; slot 1: "no, but
                           waiting in another one", 2: "for you"; plus 4: "in a
                           collective, or in no call" */
  GLI_MESSAGE_ABORT,    /* the context failed; payload: the cause */
  GLI_MESSAGE_BYE,      /* the context was destroyed; nothing follows */
  GLI_MESSAGE_READ_DONE,  /* "the rkey that you sent as slot `slot` was read" */
  GLI_MESSAGE_DEPARTED,   /* "I have destroyed `context`", while others use the
                             pair; `operation`: number of DATA messages sent in
                             it. slot 1: "I no longer have the context that you
                             address as `tag`" */
  GLI_MESSAGE_SHARE,      /* "help me to copy slot `slot`, which you sent" */
  GLI_MESSAGE_SHARE_DONE, /* "the pieces that I copied are complete, the rest is
                             yours" */
  GLI_MESSAGE_LINK,   /* between transports, about a better way; hidden from the
                         engine */
  GLI_MESSAGE_RMA,    /* about a window (engine/rma); `op` is the verb. Messages
                         with different slots may overtake each other */
  GLI_MESSAGE_ALIVE,  /* heartbeat; the next one in `slot` ms, 0: an answer */
  GLI_MESSAGE_ASK,    /* "I called this: what did you call here?" */
  GLI_MESSAGE_CALLED, /* "I called this" */
  GLI_MESSAGE_MEMBERS, /* agreement on the remaining ranks: a gli_member_message
                          in `slot`, its ballot in `operation`, and a byte per
                          rank as payload */
  GLI_MESSAGE_TYPES
} gli_message_type;

enum { GLI_LINK_LENGTH_MAX = 224 };

/* The form in which a DATA message carries the bytes of its step. */
typedef enum gli_form {
  GLI_FORM_BYTES,    /* as payload */
  GLI_FORM_RKEY,     /* the payload is their address in the sender's memory */
  GLI_FORM_PUT_DONE, /* already in place; no payload */
  GLI_FORM_SHARED,   /* an rkey, and the sender will help to copy */
  GLI_FORMS
} gli_form;

#define GLI_RKEY_BYTES 8 /* little-endian; 0 if there is none */

/* Returns true if the payload is an rkey. */
static inline bool gli_form_has_rkey(unsigned form) {
  return form == GLI_FORM_RKEY || form == GLI_FORM_SHARED;
}

#define GLI_HEADER_BYTES 64
#define GLI_LENGTH_MAX ((uint64_t)INT64_MAX)

/* `eager`: the message counts against the receiver's eager budget. An operation
 * is identified by (context, tag, operation); point-to-point messages
 * (collective == GLI_SENDRECV) are numbered per pair. tuning .. count is the
 * operation's signature, which must be equal on both sides. If only the two
 * ranks know how much they exchange (gli_collective_pairwise), `count` of a
 * DATA message is their number of elements, and undefined in other messages.
 * Collectives without a root but with given counts have a hash of the counts in
 * `root`. `mark` and `number` are for the use of transports, and undefined
 * elsewhere. */
typedef struct gli_header {
  uint8_t type;                /* gli_message_type */
  uint8_t eager : 1, form : 7; /* gli_form */
  uint8_t tuning; /* hash of the tuning that chose the algorithm; 0:
                     estimates */
  uint8_t collective, dtype, op, algorithm;
  uint8_t mark;
  uint32_t context;
  uint32_t tag;
  uint32_t slot;
  uint32_t root;
  uint32_t credit; /* bytes consumed since the start, mod 2^32 */
  uint32_t number;
  uint64_t operation;
  uint64_t count;
  uint64_t length; /* bytes of payload that follow */
} gli_header;

void gli_header_encode(const gli_header *header, uint8_t out[GLI_HEADER_BYTES]);

/* Decodes a header. Returns false if the bytes are no header: wrong magic or
 * type, or a length that the type cannot have. `header` is undefined then. */
bool gli_header_decode(const uint8_t in[GLI_HEADER_BYTES], gli_header *header);

/* Encode and decode a header with checksums (CRC32C) of header and payload, in
 * bytes that are 0 without: the two kinds cannot be confused. */
void gli_header_encode_checked(const gli_header *header, uint32_t payload_sum,
                               uint8_t out[GLI_HEADER_BYTES]);
bool gli_header_decode_checked(const uint8_t in[GLI_HEADER_BYTES],
                               gli_header *header, uint32_t *payload_sum);

/* Return true if this can be the header of a message, for transports with other
 * encodings. gli_header_valid tests the most common kind inline. */
bool gli_header_valid_other(const gli_header *header);
static inline bool gli_header_valid(const gli_header *header) {
  if (header->type == GLI_MESSAGE_DATA && header->form == GLI_FORM_BYTES)
    return header->length <= GLI_LENGTH_MAX;
  return gli_header_valid_other(header);
}

/* Returns eight bytes of a header as one word. The compiler merges them. */
static inline uint64_t gli_header_word(const gli_header *header, size_t at) {
  uint64_t word;
  memcpy(&word, (const uint8_t *)header + at, sizeof word);
  return word;
}

/* Returns the bits behind the first word in which two headers differ, except
 * those of `credit` and `number`. */
static inline uint64_t gli_header_differ(const gli_header *a,
                                         const gli_header *b) {
  _Static_assert(offsetof(gli_header, context) == 8, "two words, of");
  _Static_assert(offsetof(gli_header, slot) == 16, "two things each:");
  _Static_assert(offsetof(gli_header, credit) == 24, "tag and root;");
  _Static_assert(offsetof(gli_header, operation) == 32, "then three of one");
  return (gli_header_word(a, 8) ^ gli_header_word(b, 8)) |
         (gli_header_word(a, 16) ^ gli_header_word(b, 16)) |
         (gli_header_word(a, 32) ^ gli_header_word(b, 32)) |
         (gli_header_word(a, 40) ^ gli_header_word(b, 40)) |
         (gli_header_word(a, 48) ^ gli_header_word(b, 48));
}

/* Returns true if the header is the expected one, except for `eager`, `mark`,
 * `credit` and `number`. */
static inline bool gli_header_is(const gli_header *header,
                                 const gli_header *expected) {
  static const gli_header mask = {.type = 0xff,
                                  .form = 0x7f,
                                  .tuning = 0xff,
                                  .collective = 0xff,
                                  .dtype = 0xff,
                                  .op = 0xff,
                                  .algorithm = 0xff};
  uint64_t first = gli_header_word(header, 0) ^ gli_header_word(expected, 0);
  return ((first & gli_header_word(&mask, 0)) |
          gli_header_differ(header, expected)) == 0;
}

#endif
