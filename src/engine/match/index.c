/* Operations by key: which one a message, or another rank, speaks of. */
#include "engine/match/match.h"
#include "engine/state/context.h"

gli_key gli_match_key_of(const gloo_operation *op) {
  if (op->signature.collective != GLI_SENDRECV) {
    return gli_key_of(GLI_KIND_COLLECTIVE, 0, &op->signature);
  }
  gli_kind kind = gli_operation_is_send(op) ? GLI_KIND_SEND : GLI_KIND_RECV;
  return gli_key_of(kind, op->peers[0].link->rank, &op->signature);
}

static size_t bucket_of(gli_key key) {
  uint64_t mixed = key.operation * 3 + key.who * UINT64_C(0x9e3779b1) +
                   (uint64_t)key.kind * 64;
  return (size_t)(mixed % GLI_BUCKETS);
}

static bool keys_equal(gli_key a, gli_key b) {
  return a.kind == b.kind && a.who == b.who && a.operation == b.operation;
}

gloo_operation *gli_match_find(const gloo_context *context, gli_key key) {
  gloo_operation *op = context->newest;
  if (op && keys_equal(gli_match_key_of(op), key)) return op;
  op = context->buckets[bucket_of(key)];
  while (op && !keys_equal(gli_match_key_of(op), key)) op = op->hash_next;
  return op;
}

void gli_match_file(gloo_operation *op) {
  gloo_operation **bucket =
      &op->context->buckets[bucket_of(gli_match_key_of(op))];
  op->bucket = bucket;
  op->hash_next = *bucket;
  *bucket = op;
}

void gli_match_unfile(gloo_operation *op) {
  gloo_operation **at = op->bucket;
  if (!at) return; /* never inserted */
  op->bucket = NULL;
  while (*at != op) at = &(*at)->hash_next;
  *at = op->hash_next;
}
