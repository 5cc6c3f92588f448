/* Schedules of two threads that share an endpoint, and of their peer. */
#include "check.h"
#include "crew_scene.h"

static const crew_script posts_beside_a_sleeper = {
    {"posts beside a sleeper",
     256,
     128,
     {{.n = GLI_SHM_SLOTS + 1, .lengths = {8, 0, 1, 8, 0}},
      {.n = 1, .after = GLI_SHM_SLOTS + 1, .lengths = {8}}}},
    .posts = {0, GLI_SHM_SLOTS + 1},
    .waits = {1, 0}};

static const crew_script completed_by_another = {
    {"completed by another", 256, 128, {{.n = 0}, {.n = 1, .lengths = {8}}}},
    .waits = {1, -1}};

static const crew_script looks_by_the_way = {
    {"looks by the way", 256, 128, {{.n = 0}, {.n = 2, .lengths = {8, 8}}}},
    .waits = {2, -1}};

/* Three messages: one can wake the sleeper, one can be seen by the thread that
 * looks, and one can come after that. */
static const crew_script looks_thrice = {
    {"looks among three", 256, 128, {{.n = 0}, {.n = 3, .lengths = {8, 8, 8}}}},
    .waits = {3, -1}};

static const crew_script both_wait = {
    {"both wait", 256, 128, {{.n = 0}, {.n = 2, .lengths = {8, 8}}}},
    .waits = {1, 2}};

static void explore(const crew_script *script, size_t values_max) {
  crew_scene_set_up(script);
  const model_options options = {.states_max = STATES_MAX,
                                 .values_max = values_max};
  model_result result;
  model_explore(&options, true, &result);
  check_fine(script->talk.name, &result);
}

static void room_made_wakes_who_slept_before_the_post(void **state) {
  (void)state;
  explore(&posts_beside_a_sleeper, 13);
}

static void who_is_served_by_another_wakes_up(void **state) {
  (void)state;
  explore(&completed_by_another, 0);
}

static void quieting_the_bell_loses_no_reason(void **state) {
  (void)state;
  explore(&looks_by_the_way, 0);
}

static void quieting_the_bell_among_three_messages(void **state) {
  (void)state;
  explore(&looks_thrice, GLI_SHM_SLOTS == 2 ? 5 : 0);
}

static void each_waiter_gets_its_message(void **state) {
  (void)state;
  explore(&both_wait, 3);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(room_made_wakes_who_slept_before_the_post),
      cmocka_unit_test(who_is_served_by_another_wakes_up),
      cmocka_unit_test(quieting_the_bell_loses_no_reason),
  };
  const struct CMUnitTest deep[] = {
      cmocka_unit_test(quieting_the_bell_among_three_messages),
      cmocka_unit_test(each_waiter_gets_its_message),
  };
  if (check_deep(argc, argv)) return cmocka_run_group_tests(deep, NULL, NULL);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
