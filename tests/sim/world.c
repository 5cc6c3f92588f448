/* The simulated world: clock, random numbers, endpoints and faults. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/aligned.h"
#include "core/bytes.h"
#include "internal.h"

enum { WORLDS_MAX = 16, ADDRESS_BYTES = 13 };
static sim_world *worlds[WORLDS_MAX];

/* ---- helpers ------------------------------------------------------------- */

void sim_violation(const sim_world *world, const char *format, ...) {
  va_list args;
  fprintf(stderr, "simulated transport, seed %llu, at %llu ns: ",
          (unsigned long long)world->options.seed,
          (unsigned long long)world->now_ns);
  va_start(args, format);
  vfprintf(stderr, format, args);
  va_end(args);
  fprintf(stderr, "\n");
  abort();
}

void *sim_alloc(size_t bytes) {
  void *memory = calloc(1, bytes);
  if (memory == NULL) abort();
  return memory;
}

static uint64_t next_random(uint64_t *state) { /* splitmix64 */
  uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return z ^ (z >> 31);
}

uint64_t sim_random(sim_world *world, uint64_t n) {
  return next_random(&world->random) % n;
}

bool sim_chance(sim_world *world, int percent) {
  return (int)sim_random(world, 100) < percent;
}

/* Mostly much shorter than the longest delay, so that the order of events
 * varies. */
uint64_t sim_soon_ns(sim_world *world) {
  uint64_t most = world->options.delay_max_ns;
  if (sim_chance(world, 80)) most = most / 16 + 1;
  return world->now_ns + 1 + sim_random(world, most);
}

uint64_t sim_digest(const void *data, uint64_t bytes) {
  const uint8_t *at = data;
  uint64_t h = UINT64_C(0xcbf29ce484222325) ^ bytes;
  for (; bytes >= 8; bytes -= 8, at += 8) {
    uint64_t word;
    memcpy(&word, at, 8);
    h = (h ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    h ^= h >> 29;
  }
  for (; bytes > 0; bytes--) h = (h ^ *at++) * UINT64_C(0x100000001b3);
  return h;
}

/* ---- worlds -------------------------------------------------------------- */

sim_options sim_options_from_seed(uint64_t seed) {
  static const int percents[] = {0, 0, 10, 50, 90};
  uint64_t r = seed ^ UINT64_C(0x5851f42d4c957f2d);
  sim_options o = {.seed = seed};
  o.delay_max_ns = UINT64_C(10) << (next_random(&r) % 16);
  o.streams = 1 + (int)(next_random(&r) % SIM_STREAMS_MAX);
  o.no_room_percent = percents[next_random(&r) % 4];
  o.progress_percent = 10 + percents[next_random(&r) % 5];
  o.pieces_percent = percents[next_random(&r) % 5];
  o.rkey_percent = percents[next_random(&r) % 5];
  o.at_once_percent = percents[next_random(&r) % 5];
  return o;
}

sim_world *sim_create(const sim_options *options) {
  sim_world *world = sim_alloc(sizeof *world);
  world->options = *options;
  world->random = options->seed;
  world->now_ns = 1000000;
  world->access = -1;
  while (world->number < WORLDS_MAX && worlds[world->number]) world->number++;
  if (world->number == WORLDS_MAX) sim_violation(world, "too many worlds");
  worlds[world->number] = world;
  for (unsigned i = 0; i < SIM_RANKS_MAX; i++) {
    snprintf(world->hosts[i], sizeof world->hosts[i], "sim:%d:%u",
             world->number, i);
  }
  return world;
}

void sim_destroy(sim_world *world) {
  while (world->links != NULL) {
    sim_link *link = world->links;
    world->links = link->next;
    for (int i = 0; i < 2; i++) {
      sim_drop_all(&link->sides[i]);
      sim_free_flights(&link->sides[i]);
      gli_aligned_free(link->sides[i].shared_copy);
    }
    free(link);
  }
  while (world->nodes != NULL) {
    sim_node *node = world->nodes;
    world->nodes = node->next;
    if (node->open) sim_violation(world, "rank %u was not closed", node->rank);
    free(node);
  }
  sim_free_grants(world);
  worlds[world->number] = NULL;
  free(world);
}

const char *sim_host(sim_world *world, uint32_t rank) {
  return world->hosts[rank];
}

uint64_t sim_now_ns(const sim_world *world) {
  return world->now_ns;
}

void sim_advance(sim_world *world, uint64_t ns) {
  world->now_ns += ns;
}

static uint64_t node_due_ns(sim_node *node) {
  uint64_t due_ns = SIM_NEVER;
  for (sim_side *side = node->sides; side != NULL; side = side->next) {
    uint64_t side_ns = sim_side_due_ns(side);
    if (side_ns < due_ns) due_ns = side_ns;
  }
  return due_ns;
}

bool sim_step(sim_world *world) {
  uint64_t due_ns = SIM_NEVER;
  for (sim_node *node = world->nodes; node != NULL; node = node->next) {
    if (!node->open || node->dead || node->frozen) continue;
    uint64_t node_ns = node_due_ns(node);
    if (node_ns < due_ns) due_ns = node_ns;
  }
  if (due_ns == SIM_NEVER) return false;
  if (due_ns > world->now_ns) world->now_ns = due_ns;
  return true;
}

/* ---- endpoints ----------------------------------------------------------- */

static sim_node *node_of(gli_transport *t) {
  return (sim_node *)t;
}

static gloo_status node_open(const gli_transport_config *config,
                             gli_transport **t, gloo_error *error) {
  int number;
  unsigned rank;
  if (config->host == NULL ||
      sscanf(config->host, "sim:%d:%u", &number, &rank) != 2 || number < 0 ||
      number >= WORLDS_MAX || worlds[number] == NULL || rank >= SIM_RANKS_MAX) {
    return gli_fail(error, GLOO_ERR_ADDRESS, -1, "no simulated world at %s",
                    config->host ? config->host : "NULL");
  }
  sim_node *node = sim_alloc(sizeof *node);
  node->transport.ops = &sim_transport;
  node->world = worlds[number];
  node->rank = rank;
  node->id = ++node->world->last_id;
  node->upcalls = *config->upcalls;
  node->device_user = config->device_user;
  node->open = true;
  node->next = node->world->nodes;
  node->world->nodes = node;
  *t = &node->transport;
  return GLOO_OK;
}

static uint64_t node_heard(const gli_pair *pair) {
  return ((const sim_side *)pair)->heard;
}

static uint64_t node_heard_at(const gli_pair *pair) {
  return ((const sim_side *)pair)->heard_ns;
}

static void node_address(const gli_transport *t, gli_address *address) {
  const sim_node *node = (const sim_node *)t;
  *address = (gli_address){.bytes = ADDRESS_BYTES};
  memcpy(address->data, "sim", 3);
  address->data[3] = (uint8_t)node->world->number;
  address->data[4] = (uint8_t)node->rank;
  gli_put_u64(address->data + 5, node->id);
}

static uint64_t node_now_ns(gli_transport *t) {
  return node_of(t)->world->now_ns;
}

/* Picks a random open side with a due event; NULL if none. */
static sim_side *pick_due(sim_node *node) {
  sim_world *world = node->world;
  sim_side *picked = NULL;
  uint64_t found = 0;
  for (sim_side *side = node->sides; side != NULL; side = side->next) {
    if (sim_side_due_ns(side) > world->now_ns) continue;
    found++;
    if (sim_random(world, found) == 0) picked = side;
  }
  return picked;
}

static int node_poll(gli_transport *t) {
  sim_node *node = node_of(t);
  sim_world *world = node->world;
  if (node->polling) {
    sim_violation(world, "rank %u polls from within an upcall", node->rank);
  }
  if (!node->open || node->dead || node->frozen) {
    sim_violation(world, "rank %u polls, but it is closed, dead or frozen",
                  node->rank);
  }
  int events = 0;
  node->polling = true;
  for (sim_side *side; (side = pick_due(node)) != NULL; events++) {
    sim_side_act(side);
  }
  node->polling = false;
  return events;
}

static void node_sleep(gli_transport *t, int64_t timeout_ns) {
  (void)timeout_ns;
  if (node_of(t)->polling) {
    sim_violation(node_of(t)->world, "rank %u sleeps inside an upcall",
                  node_of(t)->rank);
  }
}

static void node_wake(gli_transport *t) {
  (void)t;
}

static void node_close(gli_transport *t) {
  sim_node *node = node_of(t);
  sim_world *world = node->world;
  if (node->polling || !node->open) {
    sim_violation(world, "rank %u is closed twice or from an upcall",
                  node->rank);
  }
  sim_side *next;
  for (sim_side *side = node->sides; side != NULL; side = next) {
    next = side->next;
    if (side->attached) {
      sim_violation(world, "rank %u is closed with its pair with rank %u open",
                    node->rank, sim_other(side)->rank);
    }
    side->link->offered = false;
    side->closed = true;
    sim_fail(sim_other(side), "has closed its end point");
  }
  node->sides = NULL;
  node->open = false;
}

const gli_transport_ops sim_transport = {
    .name = "sim",
    .open = node_open,
    .address = node_address,
    .now_ns = node_now_ns,
    .pair_open = sim_pair_open,
    .send = sim_send,
    .send_now = sim_send_now,
    .take_now = sim_take_now,
    .pair_close = sim_pair_close,
    .poll = node_poll,
    .sleep = node_sleep,
    .wake = node_wake,
    .close = node_close,
    .heard = node_heard,
    .heard_at = node_heard_at,
    .rkey_pack = sim_rkey_pack,
    .rkey_map = sim_rkey_map,
    .get = sim_get,
    .revoked = sim_revoked,
    .shared_copy = sim_shared_copy,
};

/* ---- faults -------------------------------------------------------------- */

static sim_node *node_of_rank(sim_world *world, uint32_t rank) {
  sim_node *node = world->nodes;
  while (node != NULL && !(node->open && node->rank == rank)) node = node->next;
  return node;
}

void sim_kill(sim_world *world, uint32_t rank) {
  sim_node *node = node_of_rank(world, rank);
  if (node == NULL || node->dead) return;
  node->dead = true;
  for (sim_side *side = node->sides; side != NULL; side = side->next) {
    sim_side *peer = sim_other(side);
    side->link->offered = false;
    sim_drop_borrowed(peer);
    sim_drop_all(side);
    sim_fail(peer, "was killed");
  }
}

void sim_freeze(sim_world *world, uint32_t rank) {
  sim_node *node = node_of_rank(world, rank);
  if (node != NULL) node->frozen = true;
}

void sim_thaw(sim_world *world, uint32_t rank) {
  sim_node *node = node_of_rank(world, rank);
  if (node != NULL) node->frozen = false;
}

bool sim_cut(sim_world *world, uint32_t a, uint32_t b) {
  bool found = false;
  for (sim_link *link = world->links; link != NULL; link = link->next) {
    sim_side *x = &link->sides[0], *y = &link->sides[1];
    bool between =
        (x->rank == a && y->rank == b) || (x->rank == b && y->rank == a);
    if (!between || !x->attached || !y->attached) continue;
    if (x->closed || y->closed) continue;
    sim_fail(x, "lost the connection");
    sim_fail(y, "lost the connection");
    found = true;
  }
  return found;
}
