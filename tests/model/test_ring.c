/* All schedules of small rings. */
#include <stdatomic.h>

#include "check.h"
#include "kinds.h"
#include "ring_scene.h"

static const ring_script scripts[] = {
    {"in slots", 256, 128, 0, 5, -1, false, {0, 8, 1, 8, 3}},
    {"one chunk each", 256, 128, 0, 4, -1, false, {64, 100, 9, 128}},
    {"several chunks", 256, 128, 0, 2, -1, false, {400, 300}},
    {"wraps", 256, 128, 0, 4, -1, false, {65, 64, 128, 100}},
    {"rewinds", 256, 64, 0, 5, -1, false, {65, 8, 64, 10, 100}},
    {"mixed", 256, 128, 0, 5, -1, false, {8, 200, 0, 20, 130}},
    {"cut", 256, 128, 0, 3, 1, false, {64, 500, 8}},
    {"cut at once", 256, 128, 0, 3, 0, false, {512, 20, 100}},
    {"numbers run over",
     256,
     128,
     UINT32_MAX - 1,
     5,
     -1,
     false,
     {8, 200, 0, 20, 130}},
};
enum { SCRIPTS = sizeof scripts / sizeof scripts[0] };

static const ring_script deep_scripts[] = {
    {"six in slots", 256, 128, 0, 6, -1, false, {0, 8, 1, 8, 3, 8}},
    {"six of all kinds", 256, 128, 0, 6, -1, false, {8, 300, 0, 200, 64, 130}},
    {"smaller chunks", 512, 64, 0, 5, -1, false, {65, 8, 130, 64, 100}},
    {"many wraps", 256, 128, 0, 6, -1, false, {65, 64, 128, 100, 65, 129}},
    {"long and cut", 256, 128, 0, 4, 2, false, {100, 400, 512, 8}},
};
enum { DEEP_SCRIPTS = sizeof deep_scripts / sizeof deep_scripts[0] };

static void explore(const ring_script *script, const model_plant *plants,
                    unsigned crashes, bool show, model_result *result) {
  ring_scene_set_up(script);
  const model_options options = {.crashes = crashes,
                                 .calm = true,
                                 .plants = plants,
                                 .states_max = STATES_MAX};
  model_explore(&options, show, result);
}

static void every_message_arrives_whole_and_in_order(void **state) {
  (void)state;
  for (int i = 0; i < SCRIPTS; i++) {
    model_result result;
    explore(&scripts[i], NULL, 0, true, &result);
    check_fine(scripts[i].name, &result);
  }
}

static void crash_at_any_point_leaves_whole_messages(void **state) {
  (void)state;
  for (int i = 0; i < SCRIPTS; i++) {
    model_result result;
    explore(&scripts[i], NULL, 1, true, &result);
    check_fine(scripts[i].name, &result);
  }
}

/* Checks that some script shows the fault, and that none shows a different
 * one. */
static void check_found(const char *what, const model_plant *plants,
                        model_fault fault) {
  int found = 0;
  for (int i = 0; i < SCRIPTS; i++) {
    model_result result;
    explore(&scripts[i], plants, 0, false, &result);
    if (result.fault == MODEL_FINE) continue;
    check_fault(what, &result, fault);
    found++;
  }
  assert_true(found > 0);
}

static const model_plant publish_relaxed[] = {{.how = MODEL_PLANT_ORDER,
                                               .kind = KIND_SEQUENCE,
                                               .access = MODEL_WRITES,
                                               .order = memory_order_relaxed},
                                              {.how = MODEL_PLANT_NONE}};

static void publishing_without_release_is_found(void **state) {
  (void)state;
  check_found("publish relaxed", publish_relaxed, MODEL_RACE);
}

static const model_plant poll_relaxed[] = {{.how = MODEL_PLANT_ORDER,
                                            .kind = KIND_SEQUENCE,
                                            .access = MODEL_READS,
                                            .order = memory_order_relaxed},
                                           {.how = MODEL_PLANT_NONE}};

static void polling_without_acquire_is_found(void **state) {
  (void)state;
  check_found("poll relaxed", poll_relaxed, MODEL_RACE);
}

static const model_plant slots_relaxed[] = {{.how = MODEL_PLANT_ORDER,
                                             .kind = KIND_SLOTS_TAKEN,
                                             .access = MODEL_WRITES,
                                             .order = memory_order_relaxed},
                                            {.how = MODEL_PLANT_NONE}};

static const model_plant bytes_relaxed[] = {{.how = MODEL_PLANT_ORDER,
                                             .kind = KIND_BYTES_TAKEN,
                                             .access = MODEL_WRITES,
                                             .order = memory_order_relaxed},
                                            {.how = MODEL_PLANT_NONE}};

static void giving_room_back_without_release_is_found(void **state) {
  (void)state;
  check_found("slots relaxed", slots_relaxed, MODEL_RACE);
  check_found("bytes relaxed", bytes_relaxed, MODEL_RACE);
}

static const model_plant looks_relaxed[] = {{.how = MODEL_PLANT_ORDER,
                                             .kind = KIND_SLOTS_TAKEN,
                                             .access = MODEL_READS,
                                             .order = memory_order_relaxed},
                                            {.how = MODEL_PLANT_ORDER,
                                             .kind = KIND_BYTES_TAKEN,
                                             .access = MODEL_READS,
                                             .order = memory_order_relaxed},
                                            {.how = MODEL_PLANT_NONE}};

static void taking_room_without_acquire_is_found(void **state) {
  (void)state;
  check_found("looks relaxed", looks_relaxed, MODEL_RACE);
}

static const model_plant data_late[] = {
    {.how = MODEL_PLANT_LATE, .kind = KIND_SEQUENCE},
    {.how = MODEL_PLANT_NONE}};

static void data_copied_after_publishing_is_found(void **state) {
  (void)state;
  check_found("data late", data_late, MODEL_RACE);
}

static void room_given_back_before_reading_is_found(void **state) {
  (void)state;
  ring_script script = scripts[1];
  script.early = true;
  model_result result;
  explore(&script, NULL, 0, false, &result);
  check_fault("room given back early", &result, MODEL_RACE);
}

static void larger_rings(void **state) {
  (void)state;
  for (int i = 0; i < DEEP_SCRIPTS; i++) {
    model_result result;
    explore(&deep_scripts[i], NULL, 1, true, &result);
    check_fine(deep_scripts[i].name, &result);
  }
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_message_arrives_whole_and_in_order),
      cmocka_unit_test(crash_at_any_point_leaves_whole_messages),
      cmocka_unit_test(publishing_without_release_is_found),
      cmocka_unit_test(polling_without_acquire_is_found),
      cmocka_unit_test(giving_room_back_without_release_is_found),
      cmocka_unit_test(taking_room_without_acquire_is_found),
      cmocka_unit_test(data_copied_after_publishing_is_found),
      cmocka_unit_test(room_given_back_before_reading_is_found),
  };
  const struct CMUnitTest deep[] = {cmocka_unit_test(larger_rings)};
  if (check_deep(argc, argv)) return cmocka_run_group_tests(deep, NULL, NULL);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
