/* Operations by key: which one a message, or another rank, speaks of. */
#include "engine/match/match.h"
#include "engine/state/context.h"

gli_key gli_match_key_of(const gli_operation *op) {
  uint32_t rank = GLI_NO_RANK;
  if (gli_operation_is_message(op)) rank = op->peers[0].link->rank;
  return (gli_key){rank, op->signature.tag, op->signature.operation};
}

static gli_operation *index_operation_of(gli_keyed *entry) {
  if (entry == NULL) return NULL;
  return (gli_operation *)(void *)((char *)entry -
                                   offsetof(gli_operation, keyed));
}

gli_operation *gli_match_find(const gloo_context *context, gli_key key) {
  gli_operation *op = context->newest;
  if (op != NULL && gli_keys_equal(gli_match_key_of(op), key)) return op;
  if (context->operations.n == 0) return NULL;
  return index_operation_of(gli_key_table_find(&context->operations, key));
}

void gli_match_file(gli_operation *op) {
  gli_key_table_add(&op->context->operations, &op->keyed, gli_match_key_of(op));
}

void gli_match_unfile(gli_operation *op) {
  if (op->keyed.at == NULL) return; /* never inserted */
  gli_key_table_remove(&op->context->operations, &op->keyed);
}
