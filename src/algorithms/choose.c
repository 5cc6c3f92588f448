/* The choice of algorithm and segment size, remembered: what the tuning table
 * says, and where it says nothing, what the selector does.
 *
 * Programs repeat their calls, and the selector's arithmetic would cost a small
 * operation a tenth of its time. Each thread remembers its last choices. */
#include "algorithms/registry.h"
#include "algorithms/tuning.h"

enum { REMEMBERED = 16 };

typedef struct memory {
  gli_plan_params params; /* its pointers are not followed */
  uint64_t tuning;        /* serial number; 0: none */
  gli_choice choice;
} memory;

/* Do they lead to the same choice? It looks at nothing else. */
static bool alike(const gli_plan_params *a, const gli_plan_params *b) {
  return a->collective == b->collective && a->count == b->count &&
         a->size == b->size && a->elem_bytes == b->elem_bytes &&
         a->root == b->root && a->hosts == b->hosts &&
         a->crowded == b->crowded && a->near == b->near &&
         a->order == b->order && a->narrow == b->narrow &&
         a->average == b->average;
}

gli_choice gli_algorithm_choose(const gli_plan_params *p) {
  static _Thread_local memory memories[REMEMBERED];
  uint64_t hash =
      (p->count ^ (uint64_t)p->collective << 40) * UINT64_C(0x9e3779b97f4a7c15);
  memory *m = &memories[hash >> 60];
  uint64_t tuning = p->tuning != NULL ? p->tuning->serial : 0;
  bool memorable = p->counts == NULL && p->hosts == NULL;
  if (memorable && m->choice.algorithm && m->tuning == tuning &&
      alike(&m->params, p)) {
    return m->choice;
  }
  gli_choice choice = {.algorithm = gli_tuning_find(p->tuning, p)};
  if (choice.algorithm == NULL) choice.algorithm = gli_algorithm_select(p);
  if (choice.algorithm) {
    choice.segment_bytes = gli_segment_bytes(choice.algorithm, p);
  }
  if (memorable) *m = (memory){*p, tuning, choice};
  return choice;
}
