/* The header of every message, and its form on the wire. */
#ifndef GLI_TRANSPORT_HEADER_H
#define GLI_TRANSPORT_HEADER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef enum gli_message_type {
  GLI_MESSAGE_DATA = 1,   /* payload of slot `slot` of an operation */
  GLI_MESSAGE_RTS,        /* "I have data for this operation, may I send it?" */
  GLI_MESSAGE_CTS,        /* "I have started this operation: send all of it" */
  GLI_MESSAGE_CREDIT,     /* carries only `credit` */
  GLI_MESSAGE_PROBE,      /* "are you in this operation?" slot 1: my time for
                             it is up, ask on */
  GLI_MESSAGE_WAITING,    /* "yes, and waiting for another rank"; slot 1: "no,
                             but waiting in another one", 2: "for you"; and 4:
                             "in a collective, or in no call" */
  GLI_MESSAGE_ABORT,      /* the context failed; payload: the cause */
  GLI_MESSAGE_BYE,        /* the context was destroyed; nothing follows */
  GLI_MESSAGE_READ_DONE,  /* "the rkey that you sent as slot `slot` has been
                         read" */
  GLI_MESSAGE_DEPARTED,   /* "I have destroyed `context`", which others use the
                         same pair; `operation`: the DATA messages that I
                         have sent in it. slot 1, `tag`: "what you call `tag`
                         is not here", for one that it sent to */
  GLI_MESSAGE_SHARE,      /* "help me to copy what you sent as slot `slot`" */
  GLI_MESSAGE_SHARE_DONE, /* "what I have copied of it is there, and the rest is
                         yours" */
  GLI_MESSAGE_LINK,  /* of a transport to its peer's, about a better way; no
                       engine sees it */
  GLI_MESSAGE_RMA,   /* about a window (engine/rma); `op` says what. Those with
                       different slots may overtake each other */
  GLI_MESSAGE_ALIVE, /* "I am there", and shall say so again in `slot` ms; 0: an
                        answer */
  GLI_MESSAGE_ASK,   /* "what have you called here? I called this" */
  GLI_MESSAGE_CALLED,  /* "this" */
  GLI_MESSAGE_MEMBERS, /* of an agreement on who is left: a gli_member_message
                          in `slot`, its ballot in `operation`, and a byte per
                          rank */
  GLI_MESSAGE_TYPES
} gli_message_type;

enum { GLI_LINK_LENGTH_MAX = 224 };

/* How a DATA message carries what its step is about. */
typedef enum gli_form {
  GLI_FORM_BYTES,    /* as payload */
  GLI_FORM_RKEY,     /* the payload says where it is in the sender's memory */
  GLI_FORM_PUT_DONE, /* it is where it belongs already; no payload */
  GLI_FORM_SHARED,   /* an rkey, and the sender will help to copy */
  GLI_FORMS
} gli_form;

#define GLI_RKEY_BYTES 8 /* little-endian; 0: there is none */

/* Is the payload an rkey? */
static inline bool gli_form_has_rkey(unsigned form) {
  return form == GLI_FORM_RKEY || form == GLI_FORM_SHARED;
}

#define GLI_HEADER_BYTES 64
#define GLI_LENGTH_MAX ((uint64_t)INT64_MAX)

/* `eager`: the message counts against the receiver's eager budget.
 * An operation is known by (context, tag, operation); point-to-point messages
 * (collective == GLI_SENDRECV) number theirs per pair. tuning .. count is
 * the operation's signature, which must be equal on both sides; where only the
 * two know how much they exchange (gli_collective_pairwise), `count` of a DATA
 * message says it, and of other messages nothing. Collectives without a root
 * but with given counts have a hash of those in `root`. `mark` and `number` are
 * room that transports use as they like; elsewhere they mean nothing. */
typedef struct gli_header {
  uint8_t type;                /* gli_message_type */
  uint8_t eager : 1, form : 7; /* gli_form */
  uint8_t tuning; /* hash of what algorithms are chosen by; 0: estimates */
  uint8_t collective, dtype, op, algorithm;
  uint8_t mark;
  uint32_t context;
  uint32_t tag;
  uint32_t slot;
  uint32_t root;
  uint32_t credit; /* bytes taken up since the start, mod 2^32 */
  uint32_t number;
  uint64_t operation;
  uint64_t count;
  uint64_t length; /* bytes of payload that follow */
} gli_header;

void gli_header_encode(const gli_header *header, uint8_t out[GLI_HEADER_BYTES]);

/* False when the bytes are no header: wrong magic or type, or a length that
 * its type cannot have. What `header` is then means nothing. */
bool gli_header_decode(const uint8_t in[GLI_HEADER_BYTES], gli_header *header);

/* Encode and decode a header with checksums (CRC32C) of header and payload, in
 * bytes that are 0 without: the two kinds cannot be confused. */
void gli_header_encode_checked(const gli_header *header, uint32_t payload_sum,
                               uint8_t out[GLI_HEADER_BYTES]);
bool gli_header_decode_checked(const uint8_t in[GLI_HEADER_BYTES],
                               gli_header *header, uint32_t *payload_sum);

/* Could it be the header of a message? For those that travel in other forms.
 * Most are of one kind. */
bool gli_header_valid_other(const gli_header *header);
static inline bool gli_header_valid(const gli_header *header) {
  if (header->type == GLI_MESSAGE_DATA && header->form == GLI_FORM_BYTES)
    return header->length <= GLI_LENGTH_MAX;
  return gli_header_valid_other(header);
}

/* Eight bytes of a header as one word. The compiler sees that they are one. */
static inline uint64_t gli_header_word(const gli_header *header, size_t at) {
  uint64_t word;
  memcpy(&word, (const uint8_t *)header + at, sizeof word);
  return word;
}

/* The bits behind the first word in which two headers differ, but for `credit`
 * and `number`. */
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

/* Is it the expected one, but for what may differ: `eager`, `mark`, `credit`
 * and `number`? */
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
