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
  GIDS_MAX = 256,
  INLINE_WANTED = 256,
  /* 4.1 us x 2^18 = 1.07 s before unacknowledged packets are sent again, 7
   * times (devices may wait up to four times as long). So a pair outlasts a
   * link that is down, or a switch that fails over, for 8 s. Others detect dead
   * peers: TCP, and heartbeats. */
  ACK_TIMEOUT = 18,
  RETRIES = 7
};

/* Requested properties of the port. */
typedef struct port_wishes {
  const char *devices; /* NULL if any */
  long gid_index;      /* -1: the best one */
  long traffic_class, service_level;
  long partition; /* -1: the port's first */
  long ack_timeout, retries;
} port_wishes;

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

static gloo_status port_read_wishes(port_wishes *wishes, gloo_error *error) {
  *wishes = (port_wishes){.devices = gli_environment_read("GLOO_IBV_DEVICE"),
                          .gid_index = -1,
                          .partition = -1,
                          .ack_timeout = ACK_TIMEOUT,
                          .retries = RETRIES};
  gloo_status status = GLOO_OK;
  if (wishes->devices != NULL)
    status = gli_ibv_choice_check(wishes->devices, error);
  status = port_read_number("GLOO_IBV_GID_INDEX", 0, GIDS_MAX - 1,
                            &wishes->gid_index, status, error);
  status = port_read_number("GLOO_IBV_TRAFFIC_CLASS", 0, 255,
                            &wishes->traffic_class, status, error);
  status = port_read_number("GLOO_IBV_SERVICE_LEVEL", 0, 15,
                            &wishes->service_level, status, error);
  status = port_read_number("GLOO_IBV_TIMEOUT", 1, 31, &wishes->ack_timeout,
                            status, error);
  status =
      port_read_number("GLOO_IBV_RETRY", 0, 7, &wishes->retries, status, error);
  return port_read_number("GLOO_IBV_PARTITION", 0, 0xffff, &wishes->partition,
                          status, error);
}

/* ---- choice of the GID --------------------------------------------------- */

/* Ranks a GID: RoCE v2 over IPv4 first, then routable IPv6. Other addresses
 * reach no router, and RoCE v1 may not pass a switch. */
static int port_gid_rank(const struct ibv_gid_entry *entry) {
  static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
  const uint8_t *gid = entry->gid.raw;
  if (entry->gid_type != IBV_GID_TYPE_ROCE_V2) return 0;
  if (memcmp(gid, mapped, sizeof mapped) == 0) return 3;
  return gid[0] == 0xfe && (gid[1] & 0xc0) == 0x80 ? 1 : 2;
}

static bool port_find_gid(gli_ibv_port *port, int n, const port_wishes *wishes,
                          char *why, size_t why_bytes) {
  int best = 0;
  for (int i = 0; i < n && i < GIDS_MAX; i++) {
    struct ibv_gid_entry entry;
    if (wishes->gid_index >= 0 && i != wishes->gid_index) continue;
    if (port->v->query_gid_ex(port->context, port->number, (uint32_t)i, &entry,
                              0, sizeof entry) != 0)
      continue;
    int rank = port->infiniband ? 1 + (gli_ibv_gid_router(&entry.gid) != 0)
                                : port_gid_rank(&entry);
    if (wishes->gid_index >= 0) rank = 4;
    if (rank <= best) continue;
    best = rank;
    port->gid_index = (uint8_t)i;
    port->gid = entry.gid;
  }
  if (best > 0 || port->infiniband) return true;
  if (wishes->gid_index >= 0)
    snprintf(why, why_bytes, "%s has no GID %ld (GLOO_IBV_GID_INDEX)",
             port->name, wishes->gid_index);
  else
    snprintf(why, why_bytes, "%s has no RoCE v2 GID", port->name);
  return false;
}

/* Finds the partition's index. Ignores the highest bit, which marks full
 * membership: that is between the port and the network. */
static bool port_find_partition(gli_ibv_port *port, int n,
                                const port_wishes *wishes, char *why,
                                size_t why_bytes) {
  enum { NUMBER = 0x7fff };
  if (wishes->partition < 0) return true;
  for (int i = 0; i < n; i++) {
    __be16 key;
    if (port->v->query_pkey(port->context, port->number, i, &key) != 0)
      continue;
    if ((ntohs(key) & NUMBER) != (wishes->partition & NUMBER)) continue;
    port->pkey_index = (uint16_t)i;
    return true;
  }
  snprintf(why, why_bytes, "%s is not in partition 0x%lx (GLOO_IBV_PARTITION)",
           port->name, (unsigned long)wishes->partition);
  return false;
}

/* ---- choice of the port -------------------------------------------------- */

static const char *port_state_text(enum ibv_port_state state) {
  switch (state) {
    case IBV_PORT_DOWN:
      return "down";
    case IBV_PORT_INIT:
    case IBV_PORT_ARMED:
      return "not set up yet (is a subnet manager running?)";
    default:
      return "not active";
  }
}

/* Returns true if the port is usable, else false with the reason in `why`. */
static bool port_suits(gli_ibv_port *port, const port_wishes *wishes, char *why,
                       size_t why_bytes) {
  struct ibv_port_attr attributes;
  /* Cleared, because older libraries fill in only the beginning. */
  memset(&attributes, 0, sizeof attributes);
  if (port->v->query_port(port->context, port->number, &attributes) != 0) {
    snprintf(why, why_bytes, "cannot query %s", port->name);
    return false;
  }
  if (attributes.state != IBV_PORT_ACTIVE) {
    snprintf(why, why_bytes, "%s is %s", port->name,
             port_state_text(attributes.state));
    return false;
  }
  /* Other devices (EFA, usNIC) have no reliable connections. */
  if (attributes.link_layer != IBV_LINK_LAYER_INFINIBAND &&
      attributes.link_layer != IBV_LINK_LAYER_ETHERNET) {
    snprintf(why, why_bytes, "%s is neither InfiniBand nor Ethernet",
             port->name);
    return false;
  }
  port->infiniband = attributes.link_layer == IBV_LINK_LAYER_INFINIBAND;
  port->needs_grh = (attributes.flags & IBV_QPF_GRH_REQUIRED) != 0;
  port->mtu = attributes.active_mtu;
  port->lid = attributes.lid;
  return port_find_gid(port, attributes.gid_tbl_len, wishes, why, why_bytes) &&
         port_find_partition(port, attributes.pkey_tbl_len, wishes, why,
                             why_bytes);
}

static bool port_unblock(int fd) {
  int flags = fcntl(fd, F_GETFL);
  return flags >= 0 && fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0 &&
         fcntl(fd, F_SETFD, FD_CLOEXEC) == 0;
}

/* Opens the resources that all pairs share. Returns NULL, or the failed step,
 * with errno. */
static const char *port_equip(gli_ibv_port *port) {
  const gli_verbs *v = port->v;
  if (!port_unblock(port->context->async_fd)) return "watching it";
  port->pd = v->alloc_pd(port->context);
  if (port->pd == NULL) return "a protection domain";
  port->channel = v->create_comp_channel(port->context);
  if (port->channel == NULL) return "a completion channel";
  if (!port_unblock(port->channel->fd)) return "watching completions";
  for (port->cq_left = CQ_ENTRIES; port->cq == NULL; port->cq_left /= 2) {
    port->cq =
        v->create_cq(port->context, port->cq_left, NULL, port->channel, 0);
    if (port->cq != NULL) break;
    if (port->cq_left <= 64) return "a completion queue";
  }
  errno = ibv_req_notify_cq(port->cq, 0);
  return errno != 0 ? "completion events" : NULL;
}

/* Tries the ports of a device until one is usable. */
static bool port_try_device(gli_ibv_port *port, struct ibv_device *device,
                            const port_wishes *wishes, char *why,
                            size_t why_bytes) {
  enum { PORTS_MAX = 8 };
  const char *name = port->v->get_device_name(device);
  if (name == NULL) {
    snprintf(why, why_bytes, "cannot query the name of an RDMA device");
    return false;
  }
  for (unsigned n = 1; n <= PORTS_MAX; n++) {
    if (wishes->devices != NULL &&
        !gli_ibv_choice_allows(wishes->devices, name, n))
      continue;
    struct ibv_port_attr attributes;
    snprintf(port->name, sizeof port->name, "%.60s:%u", name, n);
    port->number = (uint8_t)n;
    if (port->context == NULL) port->context = port->v->open_device(device);
    if (port->context == NULL) {
      snprintf(why, why_bytes, "cannot open %.60s: %s", name, strerror(errno));
      return false;
    }
    if (n > 1 && port->v->query_port(port->context, (uint8_t)n, &attributes))
      break; /* no such port */
    if (!port_suits(port, wishes, why, why_bytes)) continue;
    const char *lacks = port_equip(port);
    if (lacks == NULL) return true;
    snprintf(why, why_bytes, "%s: cannot allocate %s: %s", port->name, lacks,
             gli_exhaustion_text(errno));
    break;
  }
  gli_ibv_port_close(port);
  return false;
}

gloo_status gli_ibv_port_open(gli_ibv_port *port, gloo_error *error) {
  port_wishes wishes;
  char why[200] = "";
  int n = 0;
  memset(port, 0, sizeof *port);
  gloo_status status = port_read_wishes(&wishes, error);
  if (status != GLOO_OK) return status;
  port->v = gli_verbs_open(error);
  if (port->v == NULL) return GLOO_ERR_UNSUPPORTED;
  port->traffic_class = (uint8_t)wishes.traffic_class;
  port->service_level = (uint8_t)wishes.service_level;
  port->ack_timeout = (uint8_t)wishes.ack_timeout;
  port->retries = (uint8_t)wishes.retries;
  port->inline_max = INLINE_WANTED;
  struct ibv_device **list = port->v->get_device_list(&n);
  if (list == NULL || n == 0)
    snprintf(why, sizeof why, "this host has no RDMA device");
  bool found = false;
  for (int i = 0; list != NULL && i < n && !found; i++)
    found = port_try_device(port, list[i], &wishes, why, sizeof why);
  if (list != NULL) port->v->free_device_list(list);
  if (found) return GLOO_OK;
  if (why[0] == '\0')
    snprintf(why, sizeof why,
             "GLOO_IBV_DEVICE (%.60s) excludes all of the %d RDMA devices of "
             "this host",
             wishes.devices, n);
  return gli_fail(error, GLOO_ERR_UNSUPPORTED, -1,
                  "RDMA cannot be used here: %s", why);
}

void gli_ibv_port_close(gli_ibv_port *port) {
  const gli_verbs *v = port->v;
  if (port->cq != NULL) (void)v->destroy_cq(port->cq);
  if (port->channel != NULL) (void)v->destroy_comp_channel(port->channel);
  if (port->pd != NULL) (void)v->dealloc_pd(port->pd);
  if (port->context != NULL) (void)v->close_device(port->context);
  port->cq = NULL;
  port->channel = NULL;
  port->pd = NULL;
  port->context = NULL;
}

void gli_ibv_port_forked(gli_ibv_port *port) {
  if (port->channel != NULL) (void)close(port->channel->fd);
  if (port->context == NULL) return;
  (void)close(port->context->async_fd);
  (void)close(port->context->cmd_fd);
}
