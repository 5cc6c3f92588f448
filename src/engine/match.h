/* How messages meet operations.
 *
 * A message names an operation by key, and a receive step of it by slot. Either
 * can come first: what comes before its receive is ready is parked. */
#ifndef GLI_ENGINE_MATCH_H
#define GLI_ENGINE_MATCH_H

#include "core/hints.h"
#include "engine/link.h"

/* ---- operations by key (index.c) ----------------------------------------- */

/* Where an operation is looked up: collectives by tag and number, messages by
 * direction, rank and number. */
typedef enum gli_kind {
  GLI_KIND_COLLECTIVE,
  GLI_KIND_SEND,
  GLI_KIND_RECV
} gli_kind;
typedef struct gli_key {
  gli_kind kind;
  uint32_t who; /* tag of a collective, the other rank of a message */
  uint64_t operation;
} gli_key;

gli_key gli_match_key_of(const gloo_operation *op);
gli_key gli_match_key(gli_kind kind, uint32_t peer_rank, const gli_header *h);
gloo_operation *gli_match_find(const gloo_context *context, gli_key key);
/* Put it into the table, and take it out. */
GLI_COLD void gli_match_file(gloo_operation *op);
GLI_COLD void gli_match_unfile(gloo_operation *op);

/* ---- messages and operations (match.c) ----------------------------------- */

/* Take over what came for it before it was started. */
gloo_status gli_match_adopt(gloo_operation *op, gloo_error *error);
/* A receive step has become ready: use a parked message if there is one.
 * Returns true when the step is done now. */
bool gli_match_ready(gloo_operation *op, uint32_t step);
gloo_status gli_match_data(gli_link *link, const gli_header *header,
                           gli_sink *sink, gloo_error *error);
/* A whole message of bytes. True: it was for a step that is ready, which is
 * done now. False without an error: nothing has changed, but that a receive may
 * have been bound to it. */
bool gli_match_message(gli_link *link, const gli_header *header,
                       const uint8_t *payload, gloo_error *error);

/* The operation a message is for, which binds a posted receive to its first
 * one; NULL without an error: it is not here yet, or over. */
gloo_operation *gli_match_find_or_claim(gli_link *link,
                                        const gli_header *header,
                                        gloo_error *error);
gli_key gli_match_incoming(const gli_link *link, const gli_header *header);
bool gli_match_is_over(const gloo_context *context, const gli_header *header);
/* Among the peers of the operation's plan, or GLI_NO_PEER. */
uint32_t gli_match_peer(const gloo_operation *op, gli_link *link);
/* Is it the same call on both sides? */
gloo_status gli_match_agree(const gloo_operation *op, const gli_link *link,
                            const gli_header *header, gloo_error *error);
/* And of one that is over here? GLOO_OK also when that is forgotten. */
gloo_status gli_match_agree_late(const gli_link *link, const gli_header *header,
                                 gloo_error *error);
/* Until its operation is known. */
void gli_match_keep(gli_link *link, gli_parked *parked);
gloo_status gli_match_no_memory(gli_link *link, gloo_error *error);

/* ---- what is said about operations (notes.c) ----------------------------- */

/* Has this rank said that it has started it? */
void gli_match_read_notes(gloo_operation *op, uint32_t peer);
/* It has been started: say so to who wants to know. */
gloo_status gli_match_wanted(gloo_operation *op, gli_link *link,
                             const gli_header *header, gloo_error *error);
gloo_status gli_match_want(gli_link *link, const gli_header *header,
                           gloo_error *error);
gloo_status gli_match_started(gli_link *link, const gli_header *header,
                              gloo_error *error);

/* ---- messages that came before their receive was ready (park.c) ---------- */

/* Sizes that are kept for reuse: powers of two, up to 1 MiB. */
enum { GLI_PARKED_CLASSES = 15 };

/* A parked message. `complete` once its payload is in `data`. A WANT that came
 * before its operation was started is parked too, without payload. */
struct gli_parked {
  gli_header header;
  gli_link *link;
  gloo_operation *operation; /* NULL until the operation is known */
  uint32_t step;             /* its receive, once the operation is known */
  struct gli_parked *next;   /* in a bucket or in operation->parked */
  struct gli_parked *envelope_prev, *envelope_next;
  uint32_t size_class;
  bool complete;
  bool awaited;  /* its receive step is ready and waits for `complete` */
  bool envelope; /* in context->envelopes */
  bool orphan;   /* its context went while it was arriving */
  _Alignas(16) uint8_t data[];
};

gli_parked *gli_parked_new(gli_link *link, const gli_header *header,
                           uint64_t bytes);
void gli_parked_free(gli_parked *parked);
/* Where it waits until its operation is known; takes it out again. */
void gli_parked_keep(gli_parked *parked, gli_key key);
gli_parked *gli_parked_take(gloo_context *context, gli_key key);
void gli_parked_add_envelope(gli_parked *parked);
void gli_parked_remove_envelope(gli_parked *parked);
bool gli_parked_has_envelope(const gloo_context *context, gli_key key);
void gli_parked_drop(gloo_context *context);
void gli_parked_free_pools(gloo_device *device);

/* ---- messages between two ranks (p2p.c) ---------------------------------- */

/* Start a receive: bind it to the oldest message that fits, or post it. */
gloo_status gli_p2p_post(gloo_operation *op, gloo_error *error);
/* The posted receive that a new message belongs to, bound to it; NULL: none. */
gloo_operation *gli_p2p_claim(gli_link *link, const gli_header *header,
                              gloo_error *error);
bool gli_p2p_takes_from(const gloo_operation *op, uint32_t rank);

#endif
