/* Signatures, by which ranks check that they make the same call, and
 * descriptions of calls. */
#ifndef GLI_ENGINE_STATE_SIGNATURE_H
#define GLI_ENGINE_STATE_SIGNATURE_H

#include "engine/state/link.h"

/* The op of a reduction shares a byte of its signature with the flag for
 * ordered ones. With a custom operation the upper bits of `root` are a hash. */
#define GLI_OP_ORDERED 0x80u
#define GLI_ROOT_BITS 20
static inline gloo_op gli_signature_op(const gli_header *signature) {
  return (gloo_op)(signature->op & ~GLI_OP_ORDERED);
}

enum { GLI_TEXT_BYTES = 160 };
/* Returns a description: "allreduce #7 (ring, 100 x float32, sum)". */
const char *gli_describe_call(const gli_header *signature,
                              char text[GLI_TEXT_BYTES]);
void gli_describe_mismatch(const gloo_context *context, uint32_t peer,
                           const gli_header *mine, const gli_header *theirs,
                           gloo_error *error);
bool gli_signature_equal(const gli_header *a, const gli_header *b);
/* Returns true if the signatures are equal, counts included, which both ends
 * know. */
static inline bool gli_signature_same(const gli_header *a,
                                      const gli_header *b) {
  return a->collective == b->collective && a->dtype == b->dtype &&
         a->op == b->op && a->algorithm == b->algorithm &&
         a->tuning == b->tuning && a->root == b->root && a->count == b->count &&
         a->tag == b->tag;
}

#endif
