/* Chooses algorithm and segment size: by the tuning table, or, if no rule
 * applies, by the selector. Repeated calls skip this
 * (engine/life/call_cache.c). */
#include "algorithms/registry.h"
#include "algorithms/tuning.h"

gli_choice gli_algorithm_choose(const gli_plan_params *p) {
  gli_choice choice = {.algorithm = gli_tuning_find(p->tuning, p)};
  if (choice.algorithm == NULL) choice.algorithm = gli_algorithm_select(p);
  if (choice.algorithm != NULL) {
    choice.segment_bytes = gli_segment_bytes(choice.algorithm, p);
  }
  return choice;
}
