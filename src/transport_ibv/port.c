#include "transport_ibv/port.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/environment.h"
#include "core/exhaustion.h"
#include "core/log.h"

enum {
  CQ_ENTRIES = 16384,
  GID_INDEX_MAX = 255,
  INLINE_WANTED = 256,
  /* 4.1 us x 2^18 = 1.07 s before unacknowledged packets are sent again, 7
   * times (devices may wait up to four times as long). So a pair outlasts a
   * link that is down, or a switch that fails over, for 8 s. Others detect dead
   * peers: TCP, and heartbeats. */
  ACK_TIMEOUT = 18,
  RETRIES = 7
};
/* Shortest and longest length from which on messages may use several rails, and
 * the default. */
static const long rails_least = 32768, rails_most = 1L << 30,
                  rails_default = 1L << 20;

/* Reads a number from the variable `name`, if it is set and `status` is good.
 * Accepts hexadecimal numbers, which are usual for partitions. */
static gloo_status port_read_number(const char *name, long least, long most,
                                    long *number, gloo_status status,
                                    gloo_error *error) {
  char *end;
  const char *text = gli_environment_read(name);
  if (text == NULL || status != GLOO_OK) return status;
  errno = 0;
  long n = strtol(text, &end, strncmp(text, "0x", 2) == 0 ? 16 : 10);
  if (errno != 0 || end == text || *end != '\0' || n < least || n > most)
    return gli_fail(error, GLOO_ERR_INVALID, -1,
                    "%s is '%.60s'; it must be a number from %ld to %ld", name,
                    text, least, most);
  *number = n;
  return GLOO_OK;
}

static gloo_status port_read_wishes(gli_ibv_wishes *wishes, gloo_error *error) {
  *wishes = (gli_ibv_wishes){.devices = gli_environment_read("GLOO_IBV_DEVICE"),
                             .gid_index = -1,
                             .partition = -1,
                             .ack_timeout = ACK_TIMEOUT,
                             .retries = RETRIES,
                             .rails = 1,
                             .rails_min = rails_default};
  gloo_status status = GLOO_OK;
  if (wishes->devices != NULL)
    status = gli_ibv_choice_check(wishes->devices, error);
  status = port_read_number("GLOO_IBV_GID_INDEX", 0, GID_INDEX_MAX,
                            &wishes->gid_index, status, error);
  status = port_read_number("GLOO_IBV_TRAFFIC_CLASS", 0, 255,
                            &wishes->traffic_class, status, error);
  status = port_read_number("GLOO_IBV_SERVICE_LEVEL", 0, 15,
                            &wishes->service_level, status, error);
  status = port_read_number("GLOO_IBV_TIMEOUT", 1, 31, &wishes->ack_timeout,
                            status, error);
  status =
      port_read_number("GLOO_IBV_RETRY", 0, 7, &wishes->retries, status, error);
  status = port_read_number("GLOO_IBV_RAILS", 1, GLI_IBV_RAILS_MAX,
                            &wishes->rails, status, error);
  status = port_read_number("GLOO_IBV_RAILS_MIN", rails_least, rails_most,
                            &wishes->rails_min, status, error);
  return port_read_number("GLOO_IBV_PARTITION", 0, 0xffff, &wishes->partition,
                          status, error);
}

/* ---- choice of the port -------------------------------------------------- */

/* Port that may be used. */
typedef struct port_candidate {
  struct ibv_device *device;
  unsigned number;
  uint64_t rank;
} port_candidate;

enum { PORTS_MAX = 8, CANDIDATES_MAX = 32 };
typedef struct port_search {
  gli_ibv_place place;
  port_candidate found[CANDIDATES_MAX]; /* best first */
  size_t n, opened;                     /* `opened`: the first port's */
  char why[200]; /* reason against the last port that cannot be used */
} port_search;

/* Finds the partition's index. Ignores the highest bit, which marks full
 * membership: that is between the port and the network. */
static bool port_find_partition(gli_ibv_port *port, int n,
                                port_search *search) {
  enum { NUMBER = 0x7fff };
  long partition = port->wishes.partition;
  if (partition < 0) return true;
  for (int i = 0; i < n; i++) {
    __be16 key;
    if (port->v->query_pkey(port->context, port->number, i, &key) != 0)
      continue;
    if ((ntohs(key) & NUMBER) != (partition & NUMBER)) continue;
    port->pkey_index = (uint16_t)i;
    return true;
  }
  snprintf(search->why, sizeof search->why,
           "%s is not in partition 0x%lx (GLOO_IBV_PARTITION)", port->name,
           (unsigned long)partition);
  return false;
}

static uint8_t port_reads(int n) {
  return (uint8_t)(n < 0 ? 0 : n < GLI_IBV_READS_MAX ? n : GLI_IBV_READS_MAX);
}

/* Returns true if a port of the open device is usable, with its rank, else false
 * with the reason in `search`. */
static bool port_suits(gli_ibv_port *port, unsigned number, port_search *search,
                       uint64_t *rank) {
  struct ibv_port_attr attributes;
  struct ibv_device_attr device;
  gli_ibv_network network;
  port->number = (uint8_t)number;
  snprintf(port->name, sizeof port->name, "%.60s:%u",
           port->context->device->name, number);
  /* Cleared, because older libraries fill in only the beginning. */
  memset(&attributes, 0, sizeof attributes);
  if (port->v->query_port(port->context, port->number, &attributes) != 0 ||
      port->v->query_device(port->context, &device) != 0) {
    snprintf(search->why, sizeof search->why, "cannot query %s", port->name);
    return false;
  }
  if (attributes.state != IBV_PORT_ACTIVE) {
    snprintf(search->why, sizeof search->why, "%s is %s", port->name,
             attributes.state == IBV_PORT_DOWN
                 ? "down"
                 : "not set up yet (is a subnet manager running?)");
    return false;
  }
  /* Other devices (EFA, usNIC) have no reliable connections. */
  if (attributes.link_layer != IBV_LINK_LAYER_INFINIBAND &&
      attributes.link_layer != IBV_LINK_LAYER_ETHERNET) {
    snprintf(search->why, sizeof search->why,
             "%s is neither InfiniBand nor Ethernet", port->name);
    return false;
  }
  port->infiniband = attributes.link_layer == IBV_LINK_LAYER_INFINIBAND;
  port->needs_grh = (attributes.flags & IBV_QPF_GRH_REQUIRED) != 0;
  port->reads = (gli_ibv_reads){port_reads(device.max_qp_init_rd_atom),
                                port_reads(device.max_qp_rd_atom)};
  port->cqe_max = device.max_cqe;
  port->srq_max = device.max_srq > 0 ? device.max_srq_wr : 0;
  port->mtu = attributes.active_mtu;
  port->lid = attributes.lid;
  if (!gli_ibv_gid_find(port, attributes.gid_tbl_len, &search->place,
                        &network)) {
    snprintf(search->why, sizeof search->why, "%s has no %s", port->name,
             port->wishes.gid_index < 0
                 ? "RoCE v2 GID with an address of this host"
                 : "GID with the index in GLOO_IBV_GID_INDEX");
    return false;
  }
  if (!port_find_partition(port, attributes.pkey_tbl_len, search)) return false;
  port->rate = gli_ibv_port_rate(&attributes);
  *rank = gli_ibv_port_rank(port->context->device, port->rate, network);
  return true;
}

static bool port_open_device(gli_ibv_port *port, struct ibv_device *device,
                             port_search *search) {
  if (port->context == NULL) port->context = port->v->open_device(device);
  if (port->context == NULL)
    snprintf(search->why, sizeof search->why, "cannot open %.60s: %s",
             device->name, strerror(errno));
  return port->context != NULL;
}

/* Adds a candidate behind those that are as good. */
static void search_add(port_search *search, const port_candidate *one) {
  size_t i = search->n < CANDIDATES_MAX ? search->n++ : CANDIDATES_MAX - 1;
  for (; i > 0 && search->found[i - 1].rank < one->rank; i--)
    search->found[i] = search->found[i - 1];
  search->found[i] = *one;
}

/* Adds the usable ports of a device. */
static void search_device(port_search *search, gli_ibv_port *port,
                          struct ibv_device *device) {
  const char *devices = port->wishes.devices;
  struct ibv_port_attr unused;
  for (unsigned n = 1; n <= PORTS_MAX; n++) {
    port_candidate one = {.device = device, .number = n};
    if (devices != NULL && !gli_ibv_choice_allows(devices, device->name, n))
      continue;
    if (!port_open_device(port, device, search)) return;
    if (n > 1 && port->v->query_port(port->context, (uint8_t)n, &unused) != 0)
      break; /* no such port */
    if (port_suits(port, n, search, &one.rank)) search_add(search, &one);
  }
  gli_ibv_port_close(port);
}

static bool port_unblock(int fd) {
  int flags = fcntl(fd, F_GETFL);
  return flags >= 0 && fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0 &&
         fcntl(fd, F_SETFD, FD_CLOEXEC) == 0;
}

/* Returns the completion vector, thus the interrupt, of a device object. The
 * rank is not known yet: ranks of a host mostly have consecutive process ids. */
static int port_vector(const struct ibv_context *context) {
  static atomic_uint objects;
  unsigned n = (unsigned)getpid() + atomic_fetch_add(&objects, 1);
  int vectors = context->num_comp_vectors;
  return vectors > 0 ? (int)(n % (unsigned)vectors) : 0;
}

const char *gli_ibv_port_equip(gli_ibv_port *port, int entries) {
  const gli_verbs *v = port->v;
  if (!port_unblock(port->context->async_fd)) return "watching it";
  if (port->pd == NULL) port->pd = v->alloc_pd(port->context);
  if (port->pd == NULL) return "a protection domain";
  port->channel = v->create_comp_channel(port->context);
  if (port->channel == NULL) return "a completion channel";
  if (!port_unblock(port->channel->fd)) return "watching completions";
  port->cq_entries = entries < port->cqe_max ? entries : port->cqe_max;
  for (; port->cq == NULL; port->cq_entries /= 2) {
    port->cq = v->create_cq(port->context, port->cq_entries, NULL,
                            port->channel, port_vector(port->context));
    if (port->cq != NULL) break;
    if (port->cq_entries <= 64) return "a completion queue";
  }
  port->cq_left = port->cq_entries;
  errno = ibv_req_notify_cq(port->cq, 0);
  return errno != 0 ? "completion events" : NULL;
}

/* Opens the best candidate that can be opened. */
static bool search_open_best(port_search *search, gli_ibv_port *port) {
  for (size_t i = 0; i < search->n; i++) {
    port_candidate *one = &search->found[i];
    search->opened = i;
    if (!port_open_device(port, one->device, search)) continue;
    if (port_suits(port, one->number, search, &one->rank)) {
      const char *lacks = gli_ibv_port_equip(port, CQ_ENTRIES);
      if (lacks == NULL) return true;
      snprintf(search->why, sizeof search->why, "%s: cannot allocate %s: %s",
               port->name, lacks, gli_exhaustion_text(errno));
    }
    gli_ibv_port_close(port);
  }
  return false;
}

/* Opens further ports of the same kind and rate. Ports of one device share its
 * context, so that memory is registered once with each device. */
static void search_open_more(port_search *search, const gli_ibv_port *first,
                             gli_ibv_more_ports *more) {
  for (size_t i = 0; i < search->n && more->n + 1 < first->wishes.rails; i++) {
    port_candidate *one = &search->found[i];
    gli_ibv_port *port = &more->port[more->n];
    if (i == search->opened) continue;
    *port = (gli_ibv_port){.v = first->v, .wishes = first->wishes};
    for (uint32_t k = 0; k <= more->n && port->context == NULL; k++) {
      const gli_ibv_port *known = k == 0 ? first : &more->port[k - 1];
      if (known->context->device != one->device) continue;
      port->context = known->context;
      port->pd = known->pd;
      port->borrows = true;
    }
    if (port_open_device(port, one->device, search) && port->pd == NULL)
      port->pd = port->v->alloc_pd(port->context);
    if (port->pd != NULL && port_suits(port, one->number, search, &one->rank) &&
        port->infiniband == first->infiniband && port->rate == first->rate)
      more->n++;
    else
      gli_ibv_port_close(port);
  }
}

gloo_status gli_ibv_port_open(gli_ibv_port *port, gli_ibv_more_ports *more,
                              const gli_endpoints *own, gloo_error *error) {
  port_search search = {.place = {.own = *own}};
  int n = 0;
  *port = (gli_ibv_port){.inline_max = INLINE_WANTED};
  gloo_status status = port_read_wishes(&port->wishes, error);
  if (status != GLOO_OK) return status;
  port->v = gli_verbs_open(error);
  if (port->v == NULL) return GLOO_ERR_UNSUPPORTED;
  (void)gli_interfaces_read(&search.place.all, NULL);
  struct ibv_device **list = port->v->get_device_list(&n);
  if (list == NULL || n == 0)
    snprintf(search.why, sizeof search.why, "this host has no RDMA device");
  for (int i = 0; list != NULL && i < n; i++)
    search_device(&search, port, list[i]);
  bool found = search_open_best(&search, port);
  more->n = 0;
  if (found) search_open_more(&search, port, more);
  if (list != NULL) port->v->free_device_list(list);
  gli_interfaces_free(&search.place.all);
  if (found) return GLOO_OK;
  if (search.why[0] == '\0')
    snprintf(search.why, sizeof search.why,
             "GLOO_IBV_DEVICE (%.60s) excludes all of the %d RDMA devices of "
             "this host",
             port->wishes.devices, n);
  return gli_fail(error, GLOO_ERR_UNSUPPORTED, -1,
                  "RDMA cannot be used here: %s", search.why);
}

void gli_ibv_port_close(gli_ibv_port *port) {
  const gli_verbs *v = port->v;
  if (port->cq != NULL) (void)v->destroy_cq(port->cq);
  if (port->channel != NULL) (void)v->destroy_comp_channel(port->channel);
  if (port->pd != NULL && !port->borrows) (void)v->dealloc_pd(port->pd);
  if (port->context != NULL && !port->borrows)
    (void)v->close_device(port->context);
  port->cq = NULL;
  port->channel = NULL;
  port->pd = NULL;
  port->context = NULL;
}

void gli_ibv_port_forked(gli_ibv_port *port) {
  if (port->channel != NULL) (void)close(port->channel->fd);
  if (port->context == NULL || port->borrows) return;
  (void)close(port->context->async_fd);
  (void)close(port->context->cmd_fd);
}
