/* The simulated transport passes the battery too, except for threads. */
#include "../transport/battery.h"
#include "sim.h"

static void *create_calm(const bat_variant *variant) {
  (void)variant;
  sim_options options = {.seed = 1, .delay_max_ns = 1000, .streams = 1};
  return sim_create(&options);
}

static void *create_rough(const bat_variant *variant) {
  (void)variant;
  sim_options options = {.seed = 2,
                         .delay_max_ns = 100000,
                         .streams = 4,
                         .no_room_percent = 40,
                         .progress_percent = 70,
                         .pieces_percent = 60,
                         .at_once_percent = 40};
  return sim_create(&options);
}

/* Every test has a different seed. */
static void *create_drawn(const bat_variant *variant) {
  static uint64_t seed = 100;
  (void)variant;
  sim_options options = sim_options_from_seed(seed++);
  return sim_create(&options);
}

static const char *host_of(void *simulation, int end) {
  return sim_host(simulation, (uint32_t)end);
}

static void idle(void *simulation) {
  sim_step(simulation);
}

static void destroy(void *simulation) {
  sim_destroy(simulation);
}

#define SIM(name_, create_)                                  \
  {                                                          \
    .name = name_, .ops = &sim_transport, .create = create_, \
    .host_of = host_of, .idle = idle, .destroy = destroy     \
  }

const bat_variant bat_variants[] = {
    SIM("calm", create_calm),
    SIM("rough", create_rough),
    SIM("drawn", create_drawn),
};
const size_t bat_variant_count = sizeof bat_variants / sizeof bat_variants[0];
