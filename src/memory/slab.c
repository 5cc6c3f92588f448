/* Slabs: regions that are divided into pages. The unit is a page, because
 * gli_region_detach cuts memory off from peers page by page, and must not
 * affect other allocations. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "core/fork.h"
#include "memory/region.h"

enum { PAGES_MAX = GLI_SLAB_BYTES / 4096 };

typedef struct slab {
  struct slab *next;
  uint8_t *base;
  gli_birth birth; /* creator; a forked child allocates none of it */
  size_t free_pages;
  uint8_t run[PAGES_MAX]; /* pages of the allocation that begins here, or 0 */
} slab;

static atomic_bool once;
static uv_mutex_t lock;
static bool usable;
static slab *slabs;
static gli_fork_guard guard;

static void slab_init(void) {
  if (uv_mutex_init(&lock) != 0) return;
  usable = gli_fork_guard_begin(&guard, GLI_FORK_SLABS, &lock, NULL);
}

/* Locks the slabs. A forked child drops them if a thread of the parent was
 * changing them. */
static bool slab_begin(void) {
  gli_once(&once, slab_init);
  if (!usable) return false;
  uv_mutex_lock(&lock);
  if (guard.torn) slabs = NULL;
  guard.torn = false;
  return true;
}

static size_t page_bytes(void) {
  return (size_t)sysconf(_SC_PAGESIZE);
}

/* Returns true if peers reach the slab; none does once a part is detached. */
static bool is_shared(const slab *s) {
  gli_region region;
  return gli_region_find(s->base, GLI_SLAB_BYTES, &region);
}

/* Returns the first of `pages` consecutive free pages, `all` if none. */
static size_t find_room(const slab *s, size_t pages, size_t all) {
  size_t at = 0;
  while (at + pages <= all) {
    size_t found = 0;
    while (found < pages && s->run[at + found] == 0) found++;
    if (found == pages) return at;
    at += found + s->run[at + found];
  }
  return all;
}

void *gli_slab_take(size_t bytes) {
  size_t page = page_bytes(), pages = bytes / page, all = GLI_SLAB_BYTES / page;
  uint8_t *taken = NULL;
  if (page < 4096 || !slab_begin()) return NULL;
  for (slab *s = slabs; s != NULL && taken == NULL; s = s->next) {
    if (s->free_pages < pages || gli_forked(&s->birth) || !is_shared(s))
      continue;
    size_t at = find_room(s, pages, all);
    if (at == all) continue;
    s->run[at] = (uint8_t)pages;
    s->free_pages -= pages;
    taken = s->base + at * page;
  }
  uv_mutex_unlock(&lock);
  if (taken != NULL) memset(taken, 0, bytes);
  return taken;
}

bool gli_slab_add(void *base) {
  slab *made = calloc(1, sizeof *made);
  if (made == NULL || !slab_begin()) {
    free(made);
    return false;
  }
  made->base = base;
  made->birth = gli_birth_here();
  made->free_pages = GLI_SLAB_BYTES / page_bytes();
  made->next = slabs;
  slabs = made;
  uv_mutex_unlock(&lock);
  return true;
}

/* Returns the link to the slab that holds this address. */
static slab **slab_link_of(const void *memory) {
  slab **link = &slabs;
  while (*link != NULL &&
         (uintptr_t)memory - (uintptr_t)(*link)->base >= GLI_SLAB_BYTES)
    link = &(*link)->next;
  return link;
}

/* Returns true if the empty slab is to be kept, as the only spare one. */
static bool slab_is_spare(const slab *s) {
  size_t all = GLI_SLAB_BYTES / page_bytes();
  for (const slab *other = slabs; other != NULL; other = other->next)
    if (other != s && other->free_pages == all) return false;
  return !gli_forked(&s->birth) && is_shared(s);
}

bool gli_slab_give(void *memory, void **empty) {
  *empty = NULL;
  if (!slab_begin()) return false;
  slab **link = slab_link_of(memory), *s = *link;
  if (s != NULL) {
    size_t page = page_bytes();
    size_t at = (size_t)((uint8_t *)memory - s->base) / page;
    s->free_pages += s->run[at];
    s->run[at] = 0;
    if (s->free_pages == GLI_SLAB_BYTES / page && !slab_is_spare(s)) {
      *empty = s->base;
      *link = s->next;
      free(s);
    }
  }
  uv_mutex_unlock(&lock);
  return s != NULL;
}
