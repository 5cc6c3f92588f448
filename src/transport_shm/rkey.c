/* Memory that messages refer to.
 *
 * An rkey with bit 63 clear has 19 bits for the id of a region (memory from
 * gloo_alloc) and 44 bits for the offset in it. With bit 63 set it is an
 * address in the sender's process, which the receiver reads with the kernel's
 * help (Linux).
 *
 * When a region is first exposed, its descriptor is sent over the pair's
 * socket, before the message with its rkey is written to the ring. A receiver
 * that does not know an id therefore finds it in its socket. When a region is
 * freed, its owner sends FORGET. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/environment.h"
#include "core/error.h"
#include "kernels/copy.h"
#include "memory/region.h"
#include "memory/sealed.h"
#include "transport_shm/shm.h"

#define ADDRESS_BIT (UINT64_C(1) << 63)
#define ADDRESS_MAX (UINTPTR_MAX < ADDRESS_BIT ? UINTPTR_MAX : ADDRESS_BIT)
#define OFFSET_BITS 44
#define OFFSET_MASK ((UINT64_C(1) << OFFSET_BITS) - 1)

/* Shortest exposed range: below this, copies through the ring are as fast. */
enum { EXPOSE_MIN = 4096 };

/* Limit on notes of one peer that are read while searching for an id. */
enum { NOTES_MAX = 4 * GLI_SHM_REGIONS_MAX };

gloo_status gli_shm_reading_read(gli_shm_reading *reading, gloo_error *error) {
  const char *text = gli_environment_read("GLOO_SHM_READ");
  uint64_t from = GLI_SHM_READ_NEVER;
  *reading = (gli_shm_reading){from, from};
  if (text == NULL || strcmp(text, "auto") == 0) {
    reading->single_copy = gli_shm_foreign_from();
    return GLOO_OK;
  }
  if (strcmp(text, "never") == 0) return GLOO_OK;
  char *end;
  errno = 0;
  from = strtoull(text, &end, 10);
  *reading = (gli_shm_reading){from, from};
  if (*end == '\0' && errno == 0 && text[0] != '-') return GLOO_OK;
  return gli_fail(error, GLOO_ERR_INVALID, -1,
                  "GLOO_SHM_READ is \"%s\"; it must be \"auto\", \"never\" or "
                  "the smallest message, in bytes, to read with "
                  "process_vm_readv",
                  text);
}

/* ---- our regions, known to the peer -------------------------------------- */

static int send_region_note(gli_shm_pair *pair, gli_shm_say what, uint32_t id,
                            size_t bytes, int fd) {
  const gli_shm_note note = {.version = GLI_SHM_VERSION,
                             .say = what,
                             .from = pair->peer.config.self_rank,
                             .to = pair->peer.config.peer_rank,
                             .region = id,
                             .region_bytes = bytes,
                             .fds = {fd, -1}};
  return gli_shm_note_send(pair->watch.fd, &note);
}

static size_t shm_rkey_rank_of(const gli_shm_pair *pair, uint32_t id) {
  size_t low = 0, high = pair->n_announced;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (pair->announced[middle].id < id)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

/* Tells the peer of freed regions. Returns false if some could not be sent. */
static bool forget_freed(gli_shm_pair *pair) {
  size_t kept = 0;
  bool all = true;
  for (size_t i = 0; i < pair->n_announced; i++) {
    gli_shm_announced *announced = &pair->announced[i];
    bool lives = gli_region_lives(announced->base, announced->serial);
    if (!lives &&
        send_region_note(pair, GLI_SHM_FORGET, announced->id, 0, -1) == 0)
      continue;
    if (!lives) all = false;
    pair->announced[kept++] = *announced;
  }
  pair->n_announced = kept;
  return all;
}

void gli_shm_forget_freed(gli_shm *t) {
  uint64_t generation = gli_region_generation();
  if (generation == t->region_generation) return;
  bool all = true;
  for (size_t i = 0; i < t->n_up; i++) {
    gli_shm_pair *pair = t->up[i];
    if (pair->watch.fd >= 0 && !pair->peer.closed && !forget_freed(pair))
      all = false;
  }
  if (all) t->region_generation = generation;
}

static bool shm_rkey_make_room(gli_shm_pair *pair) {
  if (pair->n_announced < pair->announced_capacity) return true;
  if (pair->n_announced >= GLI_SHM_REGIONS_MAX) return false;
  size_t capacity = pair->announced_capacity * 2 + 8;
  gli_shm_announced *more = realloc(pair->announced, capacity * sizeof *more);
  if (more == NULL) return false;
  pair->announced = more;
  pair->announced_capacity = capacity;
  return true;
}

/* Makes sure that the peer knows a region. Returns false on failure. */
static bool announce_region(gli_shm_pair *pair, const gli_region *region) {
  size_t at = shm_rkey_rank_of(pair, region->id);
  if (at < pair->n_announced && pair->announced[at].id == region->id) {
    if (pair->announced[at].serial == region->serial) return true;
    if (!forget_freed(pair)) return false; /* the id was reused */
    at = shm_rkey_rank_of(pair, region->id);
  }
  if (!shm_rkey_make_room(pair)) return false;
  if (send_region_note(pair, GLI_SHM_REGION, region->id, region->bytes,
                       region->fd) != 0)
    return false;
  memmove(pair->announced + at + 1, pair->announced + at,
          (pair->n_announced - at) * sizeof pair->announced[0]);
  pair->announced[at] =
      (gli_shm_announced){region->serial, region->base, region->id};
  pair->n_announced++;
  return true;
}

bool gli_shm_rkey_pack(gli_pair *base, const void *memory, size_t bytes,
                       gli_access access, uint64_t *rkey) {
  gli_shm_pair *pair = (gli_shm_pair *)base;
  const gli_shm_reading *reading = &pair->t->reading;
  bool write = access == GLI_ACCESS_WRITE;
  if (pair->state != GLI_SHM_UP || !pair->peer.live || pair->peer.departed)
    return false;
  if (pair->watch.fd < 0 || bytes == 0) return false;
  if (write ? !gli_sealed_detaches : bytes < EXPOSE_MIN) return false;
  gli_region region;
  if (gli_region_find(memory, bytes, &region) &&
      gli_region_is_shared(&region) && announce_region(pair, &region)) {
    uint64_t offset = (uint64_t)((const uint8_t *)memory - region.base);
    *rkey = (uint64_t)region.id << OFFSET_BITS | offset;
    return true;
  }
  if (write || !pair->readable) return false;
  if (bytes <
      (access == GLI_ACCESS_SINGLE_COPY ? reading->single_copy : reading->any))
    return false;
  *rkey = ADDRESS_BIT | (uint64_t)(uintptr_t)memory;
  return true;
}

/* ---- the peer's regions, known here -------------------------------------- */

/* Adds a region of the peer. Returns 0, or errno if the peer misbehaves. */
static int take_region(gli_shm_pair *pair, gli_shm_note *note) {
  uint32_t id = note->region;
  uint64_t bytes = note->region_bytes;
  int fd = note->fds[0];
  if (id == 0 || id >= GLI_REGION_IDS || !gli_sealed_replaces) return EINVAL;
  if (bytes == 0 || bytes > GLI_REGION_BYTES_MAX || bytes > SIZE_MAX)
    return EINVAL;
  if (gli_shm_map_cache_find(&pair->map_cache, id) != NULL) return EEXIST;
  int code = fd >= 0 ? gli_sealed_check(fd, bytes, bytes) : 0;
  if (code != 0) return code;
  note->fds[0] = -1;
  code = gli_shm_map_cache_add(&pair->map_cache, id, (size_t)bytes, fd);
  if (code != ENOMEM) return code;
  pair->missed_region = true; /* only matters if it is needed */
  return 0;
}

bool gli_shm_region_note(gli_shm_pair *pair, gli_shm_note *note) {
  if (pair->peer.closed) return true;
  if (note->say == GLI_SHM_FORGET) {
    gli_shm_map_cache_forget(&pair->map_cache, note->region);
    return true;
  }
  return note->say == GLI_SHM_REGION && take_region(pair, note) == 0;
}

static const gli_shm_region *find_region(gli_shm_pair *pair, uint32_t id) {
  const gli_shm_region *found = gli_shm_map_cache_find(&pair->map_cache, id);
  for (int i = 0; found == NULL && i < NOTES_MAX; i++) {
    if (pair->watch.fd < 0 || pair->peer.broken || !gli_shm_pair_ready(pair))
      break;
    found = gli_shm_map_cache_find(&pair->map_cache, id);
  }
  return found;
}

static gloo_status shm_rkey_nonsense(const gli_shm_pair *pair,
                                     gloo_error *error) {
  uint32_t rank = pair->peer.config.peer_rank;
  if (pair->peer.peer_closed)
    return gli_fail(
        error, GLOO_ERR_PEER, (int)rank,
        "rank %" PRIu32
        " closed the connection, so its shared memory is no longer accessible",
        rank);
  return gli_fail(error, GLOO_ERR_PROTOCOL, (int)rank,
                  "rank %" PRIu32
                  " referred to memory that it does not share with this rank",
                  rank);
}

static gloo_status out_of_reach(const gli_shm_pair *pair, gloo_error *error) {
  return gli_fail(
      error, GLOO_ERR_NO_MEMORY, -1,
      "cannot map or read the memory shared by rank %" PRIu32
      ": this process is out of file descriptors; raise its limit (ulimit -n)",
      pair->peer.config.peer_rank);
}

static gloo_status shm_rkey_missed(const gli_shm_pair *pair,
                                   gloo_error *error) {
  return gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                  "out of memory for the memory shared by rank %" PRIu32,
                  pair->peer.config.peer_rank);
}

gloo_status gli_shm_rkey_map(gli_pair *base, uint64_t rkey, size_t bytes,
                             bool write, void **memory, gloo_error *error) {
  gli_shm_pair *pair = (gli_shm_pair *)base;
  if ((rkey & ADDRESS_BIT) != 0) {
    uint64_t at = rkey & ~ADDRESS_BIT;
    if (write || !pair->reads || !gli_in_bounds(at, bytes, ADDRESS_MAX))
      return shm_rkey_nonsense(pair, error);
    *memory = NULL;
    return GLOO_OK;
  }
  const gli_shm_region *region =
      find_region(pair, (uint32_t)(rkey >> OFFSET_BITS));
  uint64_t offset = rkey & OFFSET_MASK;
  if (region == NULL && pair->missed_region && !pair->peer.peer_closed)
    return shm_rkey_missed(pair, error);
  if (region == NULL || !gli_in_bounds(offset, bytes, region->bytes))
    return shm_rkey_nonsense(pair, error);
  if (region->at == NULL && region->fd < 0) return out_of_reach(pair, error);
  *memory = region->at != NULL ? region->at + offset : NULL;
  return GLOO_OK;
}

/* ---- reading ------------------------------------------------------------- */

static gloo_status shm_rkey_unreadable(const gli_shm_pair *pair, int code,
                                       gloo_error *error) {
  uint32_t rank = pair->peer.config.peer_rank;
  if (code == EFAULT) return shm_rkey_nonsense(pair, error);
  if (code == ESRCH)
    return gli_fail(error, GLOO_ERR_PEER, (int)rank,
                    "rank %" PRIu32 " exited while its memory was being read",
                    rank);
  return gli_fail(error, GLOO_ERR_IO, (int)rank,
                  "the memory of rank %" PRIu32 " is no longer readable: %s",
                  rank, strerror(code));
}

gloo_status gli_shm_rkey_get(gli_pair *base, uint64_t rkey, void *dst,
                             size_t bytes, gloo_error *error) {
  gli_shm_pair *pair = (gli_shm_pair *)base;
  void *memory;
  gloo_status status =
      gli_shm_rkey_map(base, rkey, bytes, false, &memory, error);
  if (status != GLOO_OK || bytes == 0) return status;
  int code = 0;
  if (memory != NULL) {
    gli_copy_bytes(dst, memory, bytes);
  } else if ((rkey & ADDRESS_BIT) != 0) {
    code = gli_shm_foreign_read(&pair->peer_process, rkey & ~ADDRESS_BIT, dst,
                                bytes);
  } else {
    const gli_shm_region *region = gli_shm_map_cache_find(
        &pair->map_cache, (uint32_t)(rkey >> OFFSET_BITS));
    code =
        gli_sealed_read(region->fd, (size_t)(rkey & OFFSET_MASK), dst, bytes);
  }
  return code == 0 ? GLOO_OK : shm_rkey_unreadable(pair, code, error);
}

bool gli_shm_pair_revoked(gli_pair *base) {
  gli_shm_pair *pair = (gli_shm_pair *)base;
  if (pair->peer.peer_closed || pair->peer.broken || pair->in.memory == NULL)
    return true;
  return gli_shm_revoked(&pair->in);
}

gli_shared_copy *gli_shm_shared_copy(gli_pair *base, bool sends) {
  gli_shm_pair *pair = (gli_shm_pair *)base;
  return sends ? pair->out.memory->shared_copy : pair->in.memory->shared_copy;
}
