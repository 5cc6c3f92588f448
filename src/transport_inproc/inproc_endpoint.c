/* End points of the in-process transport: their table, sleeping and waking. */
#include <stdlib.h>
#include <string.h>

#include "core/bytes.h"
#include "core/error.h"
#include "core/fork.h"
#include "transport_inproc/inproc.h"

#define ADDRESS_MAGIC 0x6c696770u
#define ADDRESS_BYTES 28
#define LATER_NS INT64_C(1000000) /* delay before a peer is asked again */
#define SLEEP_MAX_NS INT64_C(3600000000000)

static atomic_bool table_once;
static uv_mutex_t table_mutex;
static bool table_usable;
static uint64_t table_nonce; /* distinguishes processes with the same pid */
static uint64_t table_last_id;
static gli_inproc_endpoint *table_first;

/* ---- forks --------------------------------------------------------------- */

static void unlock_until(const gli_inproc_endpoint *end) {
  for (gli_inproc_endpoint *e = table_first; e != end; e = e->next)
    uv_mutex_unlock(&e->lock);
  uv_mutex_unlock(&table_mutex);
}

/* Holds the table and all end points. Links are idle while no device is. */
static bool inproc_endpoint_hold(void *object, gli_fork_patience *patience) {
  (void)object;
  if (!gli_fork_lock(&table_mutex, patience)) return false;
  for (gli_inproc_endpoint *e = table_first; e != NULL; e = e->next) {
    if (gli_fork_lock(&e->lock, patience)) continue;
    unlock_until(e);
    return false;
  }
  return true;
}

static void inproc_endpoint_release(void *object) {
  (void)object;
  unlock_until(NULL);
}

static void inproc_endpoint_child(void *object, bool held) {
  (void)object;
  for (gli_inproc_endpoint *e = table_first; e != NULL; e = e->next) {
    gli_fork_mutex(&e->lock, held);
    gli_fork_condition(&e->wakeup);
  }
  gli_fork_mutex(&table_mutex, held);
}

static void table_init(void) {
  static const gli_fork_care care = {
      inproc_endpoint_hold, inproc_endpoint_release, inproc_endpoint_child};
  static gli_fork_watch watch;
  table_nonce = uv_hrtime();
  if (uv_mutex_init(&table_mutex) != 0) return;
  table_usable = gli_fork_watch_begin(&watch, GLI_FORK_TABLES, &care, NULL);
}

void gli_inproc_table_lock(void) {
  uv_mutex_lock(&table_mutex);
}
void gli_inproc_table_unlock(void) {
  uv_mutex_unlock(&table_mutex);
}

static void endpoint_address(const gli_transport *t, gli_address *address) {
  const gli_inproc_endpoint *e = (const gli_inproc_endpoint *)t;
  *address = (gli_address){.bytes = ADDRESS_BYTES};
  gli_put_u32(address->data, ADDRESS_MAGIC);
  gli_put_u64(address->data + 4, (uint64_t)uv_os_getpid());
  gli_put_u64(address->data + 12, table_nonce);
  gli_put_u64(address->data + 20, e->id);
}

uint64_t gli_inproc_address_id(const gli_address *address) {
  if (address->bytes != ADDRESS_BYTES) return 0;
  if (gli_get_u32(address->data) != ADDRESS_MAGIC) return 0;
  if (gli_get_u64(address->data + 4) != (uint64_t)uv_os_getpid()) return 0;
  if (gli_get_u64(address->data + 12) != table_nonce) return 0;
  return gli_get_u64(address->data + 20);
}

gli_inproc_endpoint *gli_inproc_find(uint64_t id) {
  gli_inproc_endpoint *e = table_first;
  while (e != NULL && e->id != id) e = e->next;
  return e;
}

static gloo_status endpoint_open(const gli_transport_config *config,
                                 gli_transport **t, gloo_error *error) {
  gli_once(&table_once, table_init);
  gli_inproc_endpoint *e = calloc(1, sizeof *e);
  if (e == NULL || !table_usable) goto no_memory;
  if (uv_mutex_init(&e->lock) != 0) goto no_memory;
  if (uv_cond_init(&e->wakeup) != 0) goto destroy_lock;
  e->transport.ops = &gli_transport_inproc;
  e->transport.owed = config->owed;
  e->upcalls = *config->upcalls;
  e->device_user = config->device_user;

  gli_inproc_table_lock();
  e->id = ++table_last_id;
  e->next = table_first;
  table_first = e;
  gli_inproc_table_unlock();
  *t = &e->transport;
  return GLOO_OK;

destroy_lock:
  uv_mutex_destroy(&e->lock);
no_memory:
  free(e);
  return gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                  "out of memory for an in-process endpoint");
}

static void leave_table(gli_inproc_endpoint *e) {
  gli_inproc_table_lock();
  gli_inproc_endpoint **at = &table_first;
  while (*at != e) at = &(*at)->next;
  *at = e->next;
  while (e->offers != NULL) {
    gli_inproc_link *offer = e->offers;
    e->offers = offer->offer_next;
    gli_inproc_link_refuse(offer, GLI_INPROC_ABSENT);
  }
  gli_inproc_table_unlock();
}

/* Returns the next ready side, with the list's reference to it, or NULL. */
static gli_inproc_side *take_ready(gli_inproc_endpoint *e) {
  uv_mutex_lock(&e->lock);
  gli_inproc_side *side = e->ready_head;
  if (side != NULL) {
    e->ready_head = side->ready_next;
    e->n_ready--;
    side->ready = false;
  }
  if (e->ready_head == NULL) atomic_store(&e->attention, false);
  uv_mutex_unlock(&e->lock);
  return side;
}

static void endpoint_close(gli_transport *t) {
  gli_inproc_endpoint *e = (gli_inproc_endpoint *)t;
  leave_table(e);
  for (gli_inproc_side *side; (side = take_ready(e)) != NULL;) {
    gli_inproc_link_unref(side->link);
  }
  uv_cond_destroy(&e->wakeup);
  uv_mutex_destroy(&e->lock);
  free(e);
}

static int endpoint_poll(gli_transport *t) {
  gli_inproc_endpoint *e = (gli_inproc_endpoint *)t;
  if (!atomic_load_explicit(&e->attention, memory_order_relaxed)) return 0;
  uv_mutex_lock(&e->lock);
  int turns = e->n_ready;
  e->n_later = 0;
  uv_mutex_unlock(&e->lock);

  int events = 0;
  for (; turns > 0; turns--) {
    gli_inproc_side *side = take_ready(e);
    if (side == NULL) break;
    events += gli_inproc_side_poll(side);
    gli_inproc_link_unref(side->link);
  }
  return events;
}

void gli_inproc_mark_ready(gli_inproc_side *side) {
  gli_inproc_endpoint *e = side->endpoint;
  uv_mutex_lock(&e->lock);
  if (!side->ready) {
    atomic_fetch_add(&side->link->rkeys, 1);
    side->ready = true;
    side->ready_next = NULL;
    if (e->ready_head == NULL) {
      e->ready_head = side;
    } else {
      e->ready_tail->ready_next = side;
    }
    e->ready_tail = side;
    e->n_ready++;
    atomic_store(&e->attention, true);
    if (e->sleepers > 0) uv_cond_broadcast(&e->wakeup);
  }
  uv_mutex_unlock(&e->lock);
}

static void endpoint_sleep(gli_transport *t, int64_t timeout_ns) {
  gli_inproc_endpoint *e = (gli_inproc_endpoint *)t;
  if (timeout_ns < 0 || timeout_ns > SLEEP_MAX_NS) timeout_ns = SLEEP_MAX_NS;
  uv_mutex_lock(&e->lock);
  uint64_t wake_count = e->wake_count;
  if (e->n_later > 0 && timeout_ns > LATER_NS) timeout_ns = LATER_NS;
  e->sleepers++;
  while (!e->woken && e->wake_count == wake_count && e->n_ready <= e->n_later) {
    if (uv_cond_timedwait(&e->wakeup, &e->lock, (uint64_t)timeout_ns) != 0) {
      break;
    }
  }
  e->sleepers--;
  e->woken = false;
  uv_mutex_unlock(&e->lock);
}

static void endpoint_wake(gli_transport *t) {
  gli_inproc_endpoint *e = (gli_inproc_endpoint *)t;
  uv_mutex_lock(&e->lock);
  e->wake_count++;
  if (e->sleepers == 0) e->woken = true;
  uv_cond_broadcast(&e->wakeup);
  uv_mutex_unlock(&e->lock);
}

static uint64_t endpoint_now_ns(gli_transport *t) {
  (void)t;
  return uv_hrtime();
}

const gli_transport_ops gli_transport_inproc = {
    .name = "inproc",
    .open = endpoint_open,
    .address = endpoint_address,
    .now_ns = endpoint_now_ns,
    .pair_open = gli_inproc_pair_open,
    .send = gli_inproc_send,
    .pair_close = gli_inproc_pair_close,
    .poll = endpoint_poll,
    .sleep = endpoint_sleep,
    .wake = endpoint_wake,
    .close = endpoint_close,
    .pair_abandon = gli_inproc_pair_abandon,
    .abandon = endpoint_close, /* all memory belongs to this process */
};
