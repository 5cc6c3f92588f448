/* Operations by key: which one a message, or another rank, speaks of. */
#include "engine/match/match.h"
#include "engine/state/context.h"

gli_key gli_match_key_of(const gli_operation *op) {
  uint32_t rank = GLI_NO_RANK;
  if (gli_operation_is_message(op)) rank = op->peers[0].link->rank;
  return (gli_key){rank, op->signature.tag, op->signature.operation};
}

gli_operation *gli_match_find(const gloo_context *context, gli_key key) {
  gli_operation *op = context->newest;
  if (op != NULL && gli_keys_equal(gli_match_key_of(op), key)) return op;
  op = context->buckets[gli_key_bucket(key)];
  while (op != NULL && !gli_keys_equal(gli_match_key_of(op), key))
    op = op->hash_next;
  return op;
}

void gli_match_file(gli_operation *op) {
  gli_operation **bucket =
      &op->context->buckets[gli_key_bucket(gli_match_key_of(op))];
  op->bucket = bucket;
  op->hash_next = *bucket;
  *bucket = op;
}

void gli_match_unfile(gli_operation *op) {
  gli_operation **at = op->bucket;
  if (at == NULL) return; /* never inserted */
  op->bucket = NULL;
  while (*at != op) at = &(*at)->hash_next;
  *at = op->hash_next;
}
