/* Messages that arrive before their receive is ready: their memory, and the
 * tables that they are looked up in. */
#ifndef GLI_ENGINE_STATE_EARLY_H
#define GLI_ENGINE_STATE_EARLY_H

#include "engine/state/key_table.h"
#include "engine/state/link.h"

/* ---- keys ---------------------------------------------------------------- */

/* Returns the key of the operation of a message. */
static inline gli_key gli_key_incoming(const gli_link *link,
                                       const gli_header *h) {
  bool message = h->collective == GLI_SENDRECV;
  return (gli_key){message ? link->rank : GLI_NO_RANK, h->tag, h->operation};
}

/* ---- messages ------------------------------------------------------------ */

/* The number of sizes that are kept for reuse: powers of two, up to 1 MiB. */
enum { GLI_EARLY_CLASSES = 15 };

/* An early message. `complete` once its payload is in `data`. An RTS that
 * arrived before its operation was started is kept too, without payload. */
struct gli_early {
  gli_header header;
  gli_link *link;
  gli_operation *operation; /* NULL until the operation is known */
  uint32_t step;            /* its receive step, once the operation is known */
  gli_keyed keyed;          /* in context->early */
  struct gli_early *next;   /* in operation->early, or free */
  struct gli_early *envelope_prev, *envelope_next;
  uint32_t size_class;
  bool complete;
  bool awaited;  /* its receive step is ready and waits for `complete` */
  bool envelope; /* in context->envelopes */
  bool orphan;   /* its context ended while it was arriving */
  _Alignas(16) uint8_t data[];
};

gli_early *gli_early_new(gli_link *link, const gli_header *header,
                         uint64_t bytes);
void gli_early_free(gli_early *early);
/* Keep an early message until its operation is known, and take it out again. */
void gli_early_keep(gli_early *early, gli_key key);
gli_early *gli_early_take(gloo_context *context, gli_key key);
void gli_early_add_envelope(gli_early *early);
void gli_early_remove_envelope(gli_early *early);
bool gli_early_has_envelope(const gloo_context *context, gli_key key);
/* Returns the message of an entry of context->early; NULL for NULL. */
static inline gli_early *gli_early_keyed(gli_keyed *entry) {
  if (entry == NULL) return NULL;
  return (gli_early *)(void *)((char *)entry - offsetof(gli_early, keyed));
}
void gli_early_drop(gloo_context *context);
void gli_early_free_pools(gloo_device *device);

#endif
