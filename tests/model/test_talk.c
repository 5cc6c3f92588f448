/* All schedules of two endpoints that sleep when they have nothing to do. */
#include <stdatomic.h>

#include "check.h"
#include "kinds.h"
#include "talk_scene.h"

static const talk_script scripts[] = {
    {"one message", 256, 128, {{.n = 1, .lengths = {8}}, {.n = 0}}},
    {"more than there are slots",
     256,
     128,
     {{.n = GLI_SHM_SLOTS + 2, .lengths = {8, 0, 8, 1, 8, 0}}, {.n = 0}}},
    {"more than fits", 256, 128, {{.n = 2, .lengths = {200, 100}}, {.n = 0}}},
    {"there and back",
     256,
     128,
     {{.n = 1, .lengths = {8}}, {.n = 1, .after = 1, .lengths = {100}}}},
    {"both at once",
     256,
     128,
     {{.n = 1, .lengths = {20}}, {.n = 1, .lengths = {8}}}},
    {"bye",
     256,
     128,
     {{.n = 3, .lengths = {8, 0, 3}, .last = GLI_MESSAGE_BYE}, {.n = 0}}},
    {"abort",
     256,
     128,
     {{.n = 1, .lengths = {300}, .last = GLI_MESSAGE_ABORT}, {.n = 0}}},
};
enum { SCRIPTS = sizeof scripts / sizeof scripts[0] };

static const talk_script deep_scripts[] = {
    {"twice there and back",
     256,
     128,
     {{.n = 2, .lengths = {8, 100}},
      {.n = 2, .after = 1, .lengths = {100, 8}}}},
    {"abort after a message",
     256,
     128,
     {{.n = 2, .lengths = {8, 300}, .last = GLI_MESSAGE_ABORT}, {.n = 0}}},
    {"bye with a queue",
     256,
     128,
     {{.n = 2, .lengths = {100, 200}, .last = GLI_MESSAGE_BYE}, {.n = 0}}},
    {"both say bye",
     256,
     128,
     {{.n = 1, .lengths = {8}, .last = GLI_MESSAGE_BYE},
      {.n = 1, .lengths = {8}, .last = GLI_MESSAGE_BYE}}},
    {"long messages", 256, 128, {{.n = 2, .lengths = {200, 200}}, {.n = 0}}},
};
enum { DEEP_SCRIPTS = sizeof deep_scripts / sizeof deep_scripts[0] };

static void explore(const talk_script *script, const model_plant *plants,
                    unsigned crashes, bool show, model_result *result) {
  talk_scene_set_up(script);
  const model_options options = {
      .crashes = crashes, .plants = plants, .states_max = STATES_MAX};
  model_explore(&options, show, result);
}

static void all_that_is_sent_arrives_and_nobody_oversleeps(void **state) {
  (void)state;
  for (int i = 0; i < SCRIPTS; i++) {
    model_result result;
    explore(&scripts[i], NULL, 0, true, &result);
    check_fine(scripts[i].name, &result);
  }
}

static void crash_at_any_point_is_noticed_by_the_other(void **state) {
  (void)state;
  for (int i = 0; i < SCRIPTS; i++) {
    model_result result;
    explore(&scripts[i], NULL, 1, true, &result);
    check_fine(scripts[i].name, &result);
  }
}

/* ---- planted faults ------------------------------------------------------ */

enum { ONE_MESSAGE = 0, MANY_RECORDS = 1, MANY_BYTES = 2 };

static void weaken(const char *name, int script, int kind, model_access access,
                   memory_order order) {
  const model_plant plants[] = {{.how = MODEL_PLANT_ORDER,
                                 .kind = kind,
                                 .access = access,
                                 .order = (int)order},
                                {.how = MODEL_PLANT_NONE}};
  model_result result;
  explore(&scripts[script], plants, 0, false, &result);
  check_fault(name, &result, MODEL_STUCK);
}

static void sleeper_with_weaker_order_is_found(void **state) {
  (void)state;
  weaken("asleep stored with release", ONE_MESSAGE, KIND_ASLEEP, MODEL_WRITES,
         memory_order_release);
  weaken("record loaded with acquire", ONE_MESSAGE, KIND_SEQUENCE, MODEL_READS,
         memory_order_acquire);
}

static void waker_with_weaker_order_is_found(void **state) {
  (void)state;
  weaken("asleep loaded with acquire", ONE_MESSAGE, KIND_ASLEEP, MODEL_READS,
         memory_order_acquire);
  weaken("record stored with release", ONE_MESSAGE, KIND_SEQUENCE, MODEL_WRITES,
         memory_order_release);
}

static void weaker_order_when_room_is_awaited_is_found(void **state) {
  (void)state;
  weaken("wants stored with release", MANY_RECORDS, KIND_WANTS, MODEL_WRITES,
         memory_order_release);
  weaken("wants loaded with acquire", MANY_RECORDS, KIND_WANTS, MODEL_READS,
         memory_order_acquire);
  weaken("bytes_taken stored with release", MANY_RECORDS, KIND_BYTES_TAKEN,
         MODEL_WRITES, memory_order_release);
  weaken("bytes_taken loaded with acquire", MANY_RECORDS, KIND_BYTES_TAKEN,
         MODEL_READS, memory_order_acquire);
}

static void counters_told_in_the_wrong_order_are_found(void **state) {
  (void)state;
  static const model_plant plants[] = {{.how = MODEL_PLANT_AFTER,
                                        .kind = KIND_SLOTS_TAKEN,
                                        .access = MODEL_WRITES,
                                        .other = KIND_BYTES_TAKEN},
                                       {.how = MODEL_PLANT_NONE}};
  model_result result;
  explore(&scripts[MANY_RECORDS], plants, 0, false, &result);
  check_fault("slots_taken told last", &result, MODEL_STUCK);
}

static void longer_talks(void **state) {
  (void)state;
  for (int i = 0; i < DEEP_SCRIPTS; i++) {
    model_result result;
    explore(&deep_scripts[i], NULL, 1, true, &result);
    check_fine(deep_scripts[i].name, &result);
  }
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(all_that_is_sent_arrives_and_nobody_oversleeps),
      cmocka_unit_test(crash_at_any_point_is_noticed_by_the_other),
      cmocka_unit_test(sleeper_with_weaker_order_is_found),
      cmocka_unit_test(waker_with_weaker_order_is_found),
      cmocka_unit_test(weaker_order_when_room_is_awaited_is_found),
      cmocka_unit_test(counters_told_in_the_wrong_order_are_found),
  };
  const struct CMUnitTest deep[] = {cmocka_unit_test(longer_talks)};
  if (check_deep(argc, argv)) return cmocka_run_group_tests(deep, NULL, NULL);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
