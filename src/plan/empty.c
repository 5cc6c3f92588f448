/* Collectives without elements move no data, but all ranks must still make the
 * same call.
 *
 * Whatever the algorithm, ranks exchange empty messages, because the arrival of
 * a message detects a disagreement. If a single rank passes no elements, some
 * rank that waits for it must receive its message, and it must not return
 * before it receives one. With a root, the others may wait only for the root,
 * or the root for them: so every rank sends to the root, and the root to every
 * rank. Without a root, ranks disseminate what they have received, as in a
 * barrier: the neighbour of a rank without elements waits for it, and that rank
 * waits for all others.
 *
 *   root 1 of 4:   0 --\    /--> 0      without a root:   0 -> 1 -> 2 -> 3 -> 0
 *                  2 ---> 1 ---> 2                        0 -> 2    1 -> 3
 *                  3 --/    \--> 3                        2 -> 0    3 -> 1
 */
#include "plan/raw.h"

bool gli_build_is_empty(const gli_plan_params *p) {
  switch (p->collective) {
    case GLI_BARRIER: /* these two have their own messages */
    case GLI_SENDRECV:
      return false;
    default: /* with lengths known to two ranks only, messages are sent */
      return p->count == 0 && !gli_collective_pairwise(p->collective);
  }
}

/* Token 0 is this rank's own arrival. Sends come first, so that they wait for
 * nothing: a rank in a different call may be waiting for one of them. */
static void tell_root(gli_builder *b, const gli_plan_params *p) {
  if (p->rank != p->root) {
    gli_send(b, p->root, gli_bytes(GLI_TOKEN, 0, 1));
    gli_recv(b, p->root, gli_bytes(GLI_TOKEN, 1, 1));
    return;
  }
  for (uint32_t k = 0; k < p->size; k++) {
    if (k != p->root) gli_send(b, k, gli_bytes(GLI_TOKEN, 0, 1));
  }
  for (uint32_t k = 0; k < p->size; k++) {
    if (k != p->root) gli_recv(b, k, gli_bytes(GLI_TOKEN, (uint64_t)k + 1, 1));
  }
}

/* Each message carries everything received before it. */
static void empty_disseminate(gli_builder *b, const gli_plan_params *p) {
  uint64_t known = 1;
  for (uint64_t reach = 1; reach < p->size; reach *= 2, known++) {
    uint32_t after = (uint32_t)((p->rank + reach) % p->size);
    uint32_t before = (uint32_t)((p->rank + p->size - reach) % p->size);
    gli_send(b, after, gli_bytes(GLI_TOKEN, 0, known));
    gli_recv(b, before, gli_bytes(GLI_TOKEN, known, 1));
  }
}

void gli_build_empty(gli_builder *b, const gli_plan_params *p) {
  if (gli_collective_rooted(p->collective)) {
    tell_root(b, p);
  } else {
    empty_disseminate(b, p);
  }
}
