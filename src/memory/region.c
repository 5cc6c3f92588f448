#include "memory/region.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "core/error.h"
#include "core/fork.h"
#include "core/log.h"
#include "memory/sealed.h"

typedef struct entry {
  gli_region region;
  bool intact;        /* true if no page has been detached */
  uint64_t *detached; /* bitmap of private pages; NULL if none are */
} entry;

static atomic_bool once;
static uv_mutex_t lock;
static bool usable;
static entry *entries; /* sorted by address */
static size_t n_entries, capacity;
static uint64_t last_serial;
static atomic_size_t count; /* n_entries, readable without the lock */
static atomic_ullong generation;
static atomic_ullong detachments; /* number of detachments so far */
static _Atomic(gli_region_gone_fn *) on_remove;

/* Initialises the lock. A forked child inherits the table: it may free its
 * mapping of each region, and use it with contexts of its own. */
static void region_init(void) {
  static gli_fork_guard guard;
  if (uv_mutex_init(&lock) != 0) return;
  usable = gli_fork_guard_begin(&guard, GLI_FORK_MEMORY, &lock, NULL);
}

/* Returns the number of regions that begin at or before `at`. */
static size_t region_rank_of(const void *at) {
  size_t low = 0, high = n_entries;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if ((uintptr_t)entries[middle].region.base <= (uintptr_t)at)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

static entry *region_find(const void *memory, size_t bytes) {
  size_t rank = region_rank_of(memory);
  if (rank == 0) return NULL;
  entry *e = &entries[rank - 1];
  uint64_t offset = (uintptr_t)memory - (uintptr_t)e->region.base;
  return gli_in_bounds(offset, bytes, e->region.bytes) ? e : NULL;
}

static entry *find_base(const void *base) {
  entry *e = region_find(base, 0);
  return e != NULL && e->region.base == base ? e : NULL;
}

static bool id_taken(uint32_t id) {
  for (size_t i = 0; i < n_entries; i++)
    if (entries[i].region.id == id) return true;
  return false;
}

/* Assigns the next serial with a free number; there are always free ones. */
static void region_number(gli_region *region) {
  do {
    region->serial = ++last_serial;
    region->id = (uint32_t)(region->serial % (GLI_REGION_IDS - 1)) + 1;
  } while (id_taken(region->id));
}

static bool region_make_room(void) {
  if (n_entries < capacity) return true;
  if (n_entries >= GLI_REGION_IDS / 2) return false;
  size_t more = capacity * 2 + 16;
  entry *larger = realloc(entries, more * sizeof *larger);
  if (larger == NULL) return false;
  entries = larger;
  capacity = more;
  return true;
}

/* Returns a region that overlaps, or NULL. `at` is region_rank_of(base). */
static const entry *region_in_the_way(size_t at, const void *base,
                                      size_t bytes) {
  const entry *before = at > 0 ? &entries[at - 1] : NULL;
  const entry *after = at < n_entries ? &entries[at] : NULL;
  if (before != NULL &&
      (uintptr_t)base - (uintptr_t)before->region.base < before->region.bytes)
    return before;
  if (after != NULL && (uintptr_t)after->region.base - (uintptr_t)base < bytes)
    return after;
  return NULL;
}

static int region_enter(gli_region *region, gli_region *in_the_way) {
  size_t at = region_rank_of(region->base);
  const entry *other = region_in_the_way(at, region->base, region->bytes);
  if (other != NULL) {
    *in_the_way = other->region;
    return EEXIST;
  }
  if (!region_make_room()) return ENOMEM;
  region_number(region);
  memmove(entries + at + 1, entries + at, (n_entries - at) * sizeof entries[0]);
  entries[at] = (entry){.region = *region, .intact = true};
  atomic_store(&count, ++n_entries);
  return 0;
}

int gli_region_add(void *base, size_t bytes, int fd, gli_region *in_the_way) {
  gli_once(&once, region_init);
  if (!usable) return ENOMEM;
  gli_region region = {.fd = fd, .base = base, .bytes = bytes};
  uv_mutex_lock(&lock);
  int code = region_enter(&region, in_the_way);
  uv_mutex_unlock(&lock);
  return code;
}

/* Returns false if the table is empty; a fast path for frequent calls. */
static bool region_any(void) {
  return atomic_load_explicit(&count, memory_order_acquire) > 0;
}

bool gli_region_remove(const void *base, bool shared, gli_region *region) {
  if (!region_any()) return false;
  uv_mutex_lock(&lock);
  entry *e = find_base(base);
  if (e != NULL && gli_region_is_shared(&e->region) != shared) e = NULL;
  if (e != NULL) {
    *region = e->region;
    free(e->detached);
    size_t after = (size_t)(entries + n_entries - (e + 1));
    memmove(e, e + 1, after * sizeof *e);
    atomic_store(&count, --n_entries);
    atomic_fetch_add(&generation, 1);
  }
  uv_mutex_unlock(&lock);
  gli_region_gone_fn *gone = atomic_load(&on_remove);
  if (e != NULL && gone != NULL) gone(region);
  return e != NULL;
}

void gli_region_on_remove(gli_region_gone_fn *gone) {
  atomic_store(&on_remove, gone);
}

bool gli_region_find(const void *memory, size_t bytes, gli_region *region) {
  if (!region_any()) return false;
  uv_mutex_lock(&lock);
  const entry *e = region_find(memory, bytes);
  bool found = e != NULL && e->intact;
  if (found) *region = e->region;
  uv_mutex_unlock(&lock);
  return found;
}

bool gli_region_lives(const void *base, uint64_t serial) {
  if (!region_any()) return false;
  uv_mutex_lock(&lock);
  const entry *e = find_base(base);
  bool lives = e != NULL && e->region.serial == serial;
  uv_mutex_unlock(&lock);
  return lives;
}

uint64_t gli_region_generation(void) {
  return atomic_load_explicit(&generation, memory_order_acquire);
}

/* ---- detaching ----------------------------------------------------------- */

static bool is_private(const entry *e, size_t page) {
  return (e->detached[page / 64] >> page % 64 & 1) != 0;
}

static void set_private(entry *e, size_t page) {
  e->detached[page / 64] |= UINT64_C(1) << page % 64;
}

bool gli_region_is_intact(const void *memory, size_t bytes) {
  if (!region_any()) return false;
  size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
  uv_mutex_lock(&lock);
  const entry *e = region_find(memory, bytes);
  bool intact = e != NULL;
  if (intact && e->detached != NULL && bytes > 0) {
    size_t offset = (size_t)((const uint8_t *)memory - e->region.base);
    size_t page = offset / page_bytes, last = (offset + bytes - 1) / page_bytes;
    for (; page <= last && intact; page++) intact = !is_private(e, page);
  }
  uv_mutex_unlock(&lock);
  return intact;
}

/* Detaches those of the pages [from, to) that are still shared. Detaching a
 * page twice would restore the contents of the file. */
static int detach_pages(entry *e, size_t from, size_t to, size_t page_bytes) {
  while (from < to) {
    size_t end = from;
    while (end < to && !is_private(e, end)) end++;
    if (end > from) {
      size_t offset = from * page_bytes;
      int code =
          gli_sealed_detach(e->region.fd, offset, e->region.base + offset,
                            (end - from) * page_bytes);
      if (code != 0) return code;
    }
    for (; from < end; from++) set_private(e, from);
    while (from < to && is_private(e, from)) from++;
  }
  return 0;
}

static int region_detach(entry *e, const uint8_t *memory, size_t bytes) {
  size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
  size_t offset = (size_t)(memory - e->region.base);
  if (e->detached == NULL) {
    size_t pages = e->region.bytes / page_bytes;
    e->detached = calloc(pages / 64 + 1, sizeof *e->detached);
    if (e->detached == NULL) return ENOMEM;
  }
  return detach_pages(e, offset / page_bytes,
                      (offset + bytes - 1) / page_bytes + 1, page_bytes);
}

bool gli_region_detach(void *memory, size_t bytes) {
  if (bytes == 0 || !region_any()) return true;
  int code = 0;
  uv_mutex_lock(&lock);
  entry *e = region_find(memory, bytes);
  if (e != NULL && gli_region_is_shared(&e->region)) {
    e->intact = false;
    atomic_fetch_add(&detachments, 1);
    code = region_detach(e, memory, bytes);
  }
  uv_mutex_unlock(&lock);
  if (code == 0) return true;
  gli_log(GLOO_LOG_ERROR,
          "other ranks can still access %zu bytes of memory after an error: "
          "%s; stop those ranks before using the memory again",
          bytes, strerror(code));
  return false;
}

/* ---- access after a detachment ------------------------------------------- */

static int region_retake(const entry *e, uint8_t *memory, size_t bytes) {
  if (e->detached == NULL) return 0;
  size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
  size_t offset = (size_t)(memory - e->region.base);
  while (bytes > 0) {
    size_t part = page_bytes - offset % page_bytes;
    if (part > bytes) part = bytes;
    int code = 0;
    if (is_private(e, offset / page_bytes))
      code = gli_sealed_read(e->region.fd, offset, memory, part);
    if (code != 0) return code;
    memory += part;
    offset += part;
    bytes -= part;
  }
  return 0;
}

bool gli_region_retake(void *memory, size_t bytes) {
  if (atomic_load(&detachments) == 0 || !region_any()) return true;
  uv_mutex_lock(&lock);
  const entry *e = region_find(memory, bytes);
  int code = e != NULL ? region_retake(e, memory, bytes) : 0;
  uv_mutex_unlock(&lock);
  return code == 0;
}
