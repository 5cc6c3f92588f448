#include "algorithms/two_level.h"

#include <stddef.h>

/* A shorter part does not justify the messages of another leader. */
#define PART_LEAST ((uint64_t)4 << 10)

#define SHORT_BLOCK ((uint64_t)4 << 10)

/* The approximate bytes of a leader in one turn, and limits on the number of
 * turns. More than TURNS are allowed only if pieces would be too long to stay
 * in the caches until they are forwarded. */
#define PIECE ((uint64_t)32 << 10)
#define PIECE_OF_HOST ((uint64_t)1 << 10)
#define TURNS 64
#define PIECE_IN_CACHE ((uint64_t)128 << 10)
#define MOST_TURNS 256

bool gli_two_levels(const gli_plan_params *p) {
  return p->hosts != NULL && p->hosts->n > 1 && p->hosts->n < p->size;
}

uint32_t gli_leaders(const gli_plan_params *p, uint64_t bytes) {
  uint64_t parts = bytes / PART_LEAST;
  if (parts > p->hosts->least) return p->hosts->least;
  return parts == 0 ? 1 : (uint32_t)parts;
}

bool gli_is_short(const gli_plan_params *p) {
  return p->counts == NULL && p->count <= SHORT_BLOCK / p->elem_bytes;
}

uint64_t gli_turns(const gli_plan_params *p, uint64_t bytes, uint32_t leaders) {
  uint64_t each = bytes / leaders;
  uint64_t turns = each / (PIECE + p->hosts->n * PIECE_OF_HOST);
  uint64_t most = each / PIECE_IN_CACHE;
  if (most < TURNS) most = TURNS;
  if (most > MOST_TURNS) most = MOST_TURNS;
  if (turns > most) return most;
  return turns == 0 ? 1 : turns;
}

gli_sub gli_sub_host(const gli_plan_params *p, gli_collective collective,
                     uint64_t count) {
  const gli_hosts *h = p->hosts;
  uint32_t host = h->of[p->rank];
  return (gli_sub){.collective = collective,
                   .members = h->ranks + h->first[host],
                   .size = h->first[host + 1] - h->first[host],
                   .rank = h->place[p->rank],
                   .count = count};
}

gli_sub gli_sub_across(const gli_plan_params *p, gli_collective collective,
                       uint64_t count) {
  const gli_hosts *h = p->hosts;
  return (gli_sub){.collective = collective,
                   .members = h->leaders + (size_t)h->place[p->rank] * h->n,
                   .size = h->n,
                   .rank = h->of[p->rank],
                   .count = count,
                   .hosts = h->apart};
}
