#include "engine/state/signature.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/collective.h"
#include "core/error.h"
#include "engine/state/context.h"

/* Ignores the count if only pairs of ranks know it; check_pair compares
 * that. */
bool gli_signature_equal(const gli_header *a, const gli_header *b) {
  gli_header of_b = *b;
  if (gli_collective_pairwise((gli_collective)a->collective)) {
    of_b.count = a->count;
  }
  return gli_signature_same(a, &of_b);
}

const char *gli_describe_call(const gli_header *h, char text[GLI_TEXT_BYTES]) {
  gli_collective collective = (gli_collective)h->collective;
  const char *name =
      collective == GLI_SENDRECV ? "message" : gli_collective_name(collective);
  int n =
      gli_number_is_of_init(h->operation)
          ? snprintf(text, GLI_TEXT_BYTES, "persistent %s %u, run #%u", name,
                     gli_number_init(h->operation),
                     (unsigned)(h->operation & UINT32_MAX))
          : snprintf(text, GLI_TEXT_BYTES, "%s #%" PRIu64, name, h->operation);
  char *at = text + n;
  size_t room = GLI_TEXT_BYTES - (size_t)n;
  char tag[32] = "";
  if (h->tag != 0) snprintf(tag, sizeof tag, ", tag %u", h->tag);
  if (collective == GLI_BARRIER) {
    if (h->tag != 0) snprintf(at, room, " (tag %u)", h->tag);
    return text;
  }
  char root[32] = "";
  if (gli_collective_rooted(collective)) {
    bool custom = gli_signature_op(h) == GLOO_CUSTOM;
    uint32_t mask = custom ? (UINT32_C(1) << GLI_ROOT_BITS) - 1 : UINT32_MAX;
    snprintf(root, sizeof root, ", root %u", h->root & mask);
  }
  bool reduces = gli_collective_reduces(collective);
  char count[32] = "";
  if (!gli_collective_pairwise(collective)) {
    snprintf(count, sizeof count, "%" PRIu64 " x ", h->count);
  }
  bool ordered = reduces && (h->op & GLI_OP_ORDERED) != 0;
  snprintf(at, room, " (%s%s%s%s%s%s%s)", count,
           gloo_dtype_name((gloo_dtype)h->dtype), reduces ? ", " : "",
           reduces ? gloo_op_name(gli_signature_op(h)) : "",
           ordered ? ", ordered" : "", root, tag);
  return text;
}

void gli_describe_mismatch(const gloo_context *context, uint32_t peer,
                           const gli_header *mine, const gli_header *theirs,
                           gloo_error *error) {
  char here[GLI_TEXT_BYTES], there[GLI_TEXT_BYTES];
  gli_describe_call(mine, here);
  gli_describe_call(theirs, there);
  const char *hint = "";
  if (strcmp(here, there) == 0) {
    bool custom = gli_signature_op(mine) == GLOO_CUSTOM;
    hint = mine->algorithm != theirs->algorithm
               ? " with a different algorithm"
               : " with a different tuning table";
    if (mine->root != theirs->root) {
      hint = custom ? " with a different custom operation"
                    : " with different counts for some ranks";
    }
  }
  gli_fail(
      error, GLOO_ERR_MISMATCH, (int)peer,
      "rank %u called %s, but rank %u called %s%s: all ranks must make the "
      "same calls",
      context->root_rank, here, peer, there, hint);
}
