#define _DEFAULT_SOURCE
#include "transport_ibv/rails.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "core/exhaustion.h"
#include "core/log.h"
#include "transport_ibv/lanes.h"

enum { ENTRIES = 1024, BATCH = 16, MEMORY_BYTES = 2 * GLI_IBV_TRIAL_BYTES };

/* ---- events -------------------------------------------------------------- */

static void rail_unwatch(gli_ibv_rail *rail) {
  while (rail->n_watches > 0)
    (void)gli_watch_release(&rail->watch[--rail->n_watches]);
}

/* Removes a rail from use after its device has failed. */
static void rail_lose(gli_ibv_rails *rails, uint32_t i, const char *how) {
  gli_ibv_rail *rail = &rails->rail[i];
  if (rail->lost) return;
  rail->lost = true;
  rail_unwatch(rail);
  gli_ibv_lanes_lose(rails, i, how);
}

bool gli_ibv_rail_arm(gli_ibv_rails *rails, uint32_t i) {
  gli_ibv_rail *rail = &rails->rail[i];
  if (rail->armed || rail->lost) return !rail->lost;
  rail->armed = true;
  if (ibv_req_notify_cq(rails->port[i].cq, 0) == 0) return true;
  rail_lose(rails, i, "no longer reports completions");
  return false;
}

/* A completion that arrives after the queue is armed raises an event, so poll
 * comes second. */
static void rail_poll(gli_ibv_rails *rails, uint32_t i) {
  struct ibv_wc wc[BATCH];
  int n = BATCH;
  if (rails->rail[i].in_flight == 0 || !gli_ibv_rail_arm(rails, i)) return;
  while (n == BATCH) {
    n = ibv_poll_cq(rails->port[i].cq, BATCH, wc);
    for (int k = 0; k < n; k++) gli_ibv_read_done(&wc[k]);
  }
  if (n < 0) rail_lose(rails, i, "was removed");
}

void gli_ibv_rails_poll(gli_ibv_rails *rails) {
  for (uint32_t i = 0; i < rails->n; i++)
    if (!rails->rail[i].lost) rail_poll(rails, i);
}

static bool rail_hear_completions(gli_ibv_rails *rails, uint32_t i) {
  const gli_ibv_port *port = &rails->port[i];
  struct ibv_cq *cq;
  void *user;
  bool any = false;
  while (port->v->get_cq_event(port->channel, &cq, &user) == 0) {
    port->v->ack_cq_events(cq, 1);
    rails->rail[i].armed = false;
    any = true;
  }
  if (errno != EAGAIN) rail_lose(rails, i, "no longer reports completions");
  return any;
}

/* Removes all rails of a device from use. */
static void rails_lose_device(gli_ibv_rails *rails, uint32_t i,
                              const char *how) {
  const struct ibv_context *device = rails->port[i].context;
  for (uint32_t k = 0; k < rails->n; k++)
    if (rails->port[k].context == device) rail_lose(rails, k, how);
}

/* Events of queue pairs are left out: the reader sees the cause in a
 * completion. Events of a borrowed device are those of its owner. */
static void rail_hear_events(gli_ibv_rails *rails, uint32_t i) {
  const gli_ibv_port *port = &rails->port[i];
  struct ibv_async_event event;
  while (!rails->rail[i].lost) {
    if (port->v->get_async_event(port->context, &event) != 0) {
      if (errno != EAGAIN)
        rails_lose_device(rails, i, "no longer reports events");
      return;
    }
    enum ibv_event_type type = event.event_type;
    int number = event.element.port_num;
    port->v->ack_async_event(&event);
    if (type == IBV_EVENT_DEVICE_FATAL || type == IBV_EVENT_CQ_ERR)
      rails_lose_device(rails, i, "was removed");
    else if (type == IBV_EVENT_PORT_ACTIVE || type == IBV_EVENT_PORT_ERR)
      gli_log(GLOO_LOG_WARN, "RDMA device %s, port %d: %s", port->name, number,
              port->v->event_type_str(type));
  }
}

bool gli_ibv_rails_heard(gli_ibv_rails *rails) {
  bool any = false;
  for (uint32_t i = 0; i < rails->n; i++) {
    if (!rails->rail[i].lost && rail_hear_completions(rails, i)) any = true;
    if (!rails->rail[i].lost && !rails->port[i].borrows)
      rail_hear_events(rails, i);
  }
  return any;
}

/* ---- opening and closing ------------------------------------------------- */

/* Watches only make the set's descriptor readable. */
static void rail_ready(void *owner, int events) {
  (void)owner;
  (void)events;
}

static bool rail_watch(gli_ibv_rails *rails, gli_ibv_rail *rail, int fd) {
  gli_watch *watch = &rail->watch[rail->n_watches];
  if (!gli_watch_init(watch, rails->set, fd, rail_ready, NULL)) return false;
  rail->n_watches++;
  return gli_watch_now(watch, GLI_READABLE);
}

/* Returns NULL, or the failed part with errno. */
static const char *rail_equip(gli_ibv_rails *rails, uint32_t i) {
  gli_ibv_port *port = &rails->port[i];
  gli_ibv_rail *rail = &rails->rail[i];
  const char *lacks = gli_ibv_port_equip(port, ENTRIES);
  if (lacks != NULL) return lacks;
  rail->armed = true; /* by that call */
  rail->memory = mmap(NULL, MEMORY_BYTES, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (rail->memory == MAP_FAILED) {
    rail->memory = NULL;
    return "memory";
  }
  rail->mr = port->v->reg_mr(port->pd, rail->memory, MEMORY_BYTES,
                             IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
  if (rail->mr == NULL) return "registered memory";
  bool watches = rail_watch(rails, rail, port->channel->fd);
  if (watches && !port->borrows)
    watches = rail_watch(rails, rail, port->context->async_fd);
  return watches ? NULL : "watching it";
}

/* Adds a port, in the order of names. */
static void rails_add(gli_ibv_rails *rails, const gli_ibv_port *port) {
  uint32_t i = rails->n++;
  for (; i > 0 && strcmp(rails->port[i - 1].name, port->name) > 0; i--)
    rails->port[i] = rails->port[i - 1];
  rails->port[i] = *port;
}

static unsigned rail_home(const gli_ibv_rails *rails, uint32_t i,
                          const gli_ibv_port *first) {
  const struct ibv_pd *pd = rails->port[i].pd;
  unsigned home = 0;
  if (pd == first->pd) return GLI_IBV_HOME_FIRST;
  while (rails->port[home].pd != pd || rails->port[home].borrows) home++;
  return home;
}

void gli_ibv_rails_open(gli_ibv_rails *rails, const gli_ibv_port *first) {
  if (first->wishes.rails > 1 && rails->more.n + 1 < first->wishes.rails)
    gli_log(GLOO_LOG_WARN,
            "GLOO_IBV_RAILS is %ld, but only %u usable ports are of the kind "
            "and rate of %s",
            first->wishes.rails, rails->more.n + 1, first->name);
  if (rails->more.n == 0) return;
  gli_ibv_port copy = *first;
  copy.borrows = true;
  copy.channel = NULL;
  copy.cq = NULL;
  rails_add(rails, &copy);
  for (uint32_t i = 0; i < rails->more.n; i++)
    rails_add(rails, &rails->more.port[i]);
  rails->min_bytes = (uint64_t)first->wishes.rails_min;
  rails->set = gli_events_open(NULL, NULL);
  const char *lacks = rails->set == NULL ? "a set of descriptors" : NULL;
  uint32_t i = 0;
  for (; i < rails->n && lacks == NULL; i++) {
    rails->rail[i].home = rail_home(rails, i, first);
    lacks = rail_equip(rails, i);
  }
  for (uint32_t k = 0; k < rails->n && lacks == NULL; k++)
    gli_log(GLOO_LOG_INFO, "RDMA rail %u of %u: %s", k + 1, rails->n,
            rails->port[k].name);
  if (lacks == NULL) return;
  gli_log(GLOO_LOG_WARN,
          "GLOO_IBV_RAILS has no effect: cannot allocate %s for %s: %s", lacks,
          rails->port[i > 0 ? i - 1 : 0].name, gli_exhaustion_text(errno));
  gli_ibv_rails_close(rails);
}

static void rail_close(gli_ibv_rails *rails, uint32_t i) {
  gli_ibv_rail *rail = &rails->rail[i];
  rail_unwatch(rail);
  if (rail->mr != NULL) (void)rails->port[i].v->dereg_mr(rail->mr);
  if (rail->memory != NULL) (void)munmap(rail->memory, MEMORY_BYTES);
  *rail = (gli_ibv_rail){.lost = true};
}

/* Ports that borrow a device come before its owner. */
void gli_ibv_rails_close(gli_ibv_rails *rails) {
  gli_ibv_lanes_free(rails);
  for (uint32_t i = 0; i < rails->n; i++) rail_close(rails, i);
  for (int owners = 0; owners < 2; owners++)
    for (uint32_t i = 0; i < rails->n; i++)
      if (rails->port[i].borrows == (owners == 0))
        gli_ibv_port_close(&rails->port[i]);
  gli_events_close(rails->set);
  rails->set = NULL;
  rails->n = 0;
}

void gli_ibv_rails_forked(gli_ibv_rails *rails) {
  if (rails->set != NULL) gli_events_abandon(rails->set);
  for (uint32_t i = 0; i < rails->n; i++) gli_ibv_port_forked(&rails->port[i]);
}

void gli_ibv_rails_abandon(gli_ibv_rails *rails) {
  gli_ibv_lanes_abandon(rails);
  if (rails->set == NULL) return;
  for (uint32_t i = 0; i < rails->n; i++) rail_unwatch(&rails->rail[i]);
  gli_events_close(rails->set);
}
