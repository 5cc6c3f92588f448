/* Prints a schedule in words. */
#include <inttypes.h>
#include <stdio.h>

#include "state.h"

static const char *const orders[] = {"relaxed", "consume", "acquire",
                                     "release", "acq_rel", "seq_cst"};

static const char *const actions[] = {
    [MODEL_DONE] = "ends",
    [MODEL_LOAD] = "loads",
    [MODEL_STORE] = "stores",
    [MODEL_EXCHANGE] = "exchanges",
    [MODEL_ADD] = "adds to",
    [MODEL_OR] = "ors to",
    [MODEL_FENCE] = "fence",
    [MODEL_AWAIT] = "waits for a change of",
    [MODEL_CHOOSE] = "chooses",
    [MODEL_BELL_RING] = "rings bell",
    [MODEL_BELL_QUIET] = "quiets bell",
    [MODEL_LOOK] = "looks at bell",
    [MODEL_WAIT] = "slept on bell",
    [MODEL_HANG_UP] = "hangs up",
    [MODEL_LOCK] = "locks",
    [MODEL_UNLOCK] = "unlocks",
};

static void print_access(const model_step *step) {
  const model_op *op = &step->op;
  printf(" %s", model_the.places[op->place].name);
  if (op->action == MODEL_LOAD)
    printf(" = %" PRIu64, step->result);
  else
    printf(", %" PRIu64, op->value);
  if (op->action != MODEL_LOAD && op->action != MODEL_STORE)
    printf(", was %" PRIu64, step->result);
  if (op->order < sizeof orders / sizeof orders[0])
    printf(" (%s)", orders[op->order]);
  if (step->way > 0)
    printf(op->action == MODEL_LOAD ? ", old: %u later seen by others"
                                    : ", ahead of %u others",
           step->way);
}

void model_print_step(unsigned number, const model_step *step) {
  const model_op *op = &step->op;
  printf("# %3u %-8s ", number, model_the.threads[step->thread].name);
  if (step->crash) {
    printf("crashes\n");
    return;
  }
  printf("%s", actions[op->action]);
  switch ((model_action)op->action) {
    case MODEL_LOAD:
    case MODEL_STORE:
    case MODEL_EXCHANGE:
    case MODEL_ADD:
    case MODEL_OR:
      print_access(step);
      break;
    case MODEL_AWAIT:
      printf(" %s", model_the.places[op->place].name);
      break;
    case MODEL_DONE:
    case MODEL_FENCE:
    case MODEL_HANG_UP:
      break;
    case MODEL_CHOOSE:
    case MODEL_LOOK:
      printf(" %u: %" PRIu64, op->place, step->result);
      break;
    default:
      printf(" %u", op->place);
      break;
  }
  printf("\n");
}
