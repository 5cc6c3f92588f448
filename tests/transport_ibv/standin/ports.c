/* The ports that STANDIN_PORTS describes, and the network between them. */
#include <arpa/inet.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "standin.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static standin_port ports[STANDIN_PORTS_MAX];
static int n_ports;
static unsigned long wire_mtu; /* in bytes; 0: no limit */
static unsigned long away_at, away_ms;
static uint64_t away_until_ns;
static unsigned long rtr_ms, reg_ms;
static int rtr_code;

/* ---- ports --------------------------------------------------------------- */

/* The link-local GID (on Ethernet RoCE v1), and that of 127.0.0.1. */
static void port_begin(standin_port *port, const char *name, size_t length) {
  static const union ibv_gid local = {.raw = {0xfe, 0x80, [8] = 2, [15] = 1}};
  *port = (standin_port){.link = IBV_LINK_LAYER_ETHERNET,
                         .mtu = IBV_MTU_1024,
                         .speed = 4,
                         .width = 2,
                         .inline_max = STANDIN_INLINE,
                         .reads = 16,
                         .vectors = 1,
                         .cqe_max = STANDIN_CQE_MAX,
                         .srq_max = STANDIN_SRQ_MAX,
                         .deny = SIZE_MAX,
                         .loses = SIZE_MAX,
                         .dies = SIZE_MAX,
                         .n_gids = 2};
  if (length >= sizeof port->name) length = sizeof port->name - 1;
  memcpy(port->name, name, length);
  port->gid[0] = port->gid[1] = local;
  memset(port->gid[1].raw, 0, sizeof port->gid[1].raw);
  port->gid[1].raw[10] = port->gid[1].raw[11] = 0xff;
  port->gid[1].raw[12] = 127;
  port->gid[1].raw[15] = 1;
  port->interface[1] = if_nametoindex("lo");
}

/* "10.0.0.1" or "10.0.0.1/eth0". The first replaces that of 127.0.0.1. */
static void port_add_gid(standin_port *port, char *value) {
  char *interface = strchr(value, '/');
  if (interface != NULL) *interface++ = '\0';
  uint32_t i = port->given_gids++ == 0 ? 1 : port->n_gids++;
  if (i >= STANDIN_GID_ROOM ||
      inet_pton(AF_INET, value, port->gid[i].raw + 12) != 1)
    standin_die("STANDIN_PORTS has too many GIDs, or '%s' is none", value);
  memcpy(port->gid[i].raw, port->gid[1].raw, 12);
  port->interface[i] = if_nametoindex(interface != NULL ? interface : "lo");
}

static enum ibv_mtu mtu_of(unsigned long bytes) {
  for (int mtu = IBV_MTU_256; mtu <= IBV_MTU_4096; mtu++)
    if (bytes == standin_mtu_bytes((enum ibv_mtu)mtu)) return (enum ibv_mtu)mtu;
  standin_die("STANDIN_PORTS has an MTU of %lu", bytes);
}

static void port_set(standin_port *port, const char *key, char *value) {
  unsigned long n = strtoul(value, NULL, 10);
  if (strcmp(key, "link") == 0)
    port->link = strcmp(value, "infiniband") == 0 ? IBV_LINK_LAYER_INFINIBAND
                 : strcmp(value, "ethernet") == 0 ? IBV_LINK_LAYER_ETHERNET
                                                  : IBV_LINK_LAYER_UNSPECIFIED;
  else if (strcmp(key, "mtu") == 0)
    port->mtu = mtu_of(n);
  else if (strcmp(key, "lid") == 0)
    port->lid = (uint16_t)n;
  else if (strcmp(key, "subnet") == 0)
    port->gid[0].raw[7] = (uint8_t)n;
  else if (strcmp(key, "router") == 0)
    port->router = (uint16_t)n;
  else if (strcmp(key, "grh") == 0)
    port->grh = n != 0;
  else if (strcmp(key, "speed") == 0)
    port->speed = (uint8_t)n;
  else if (strcmp(key, "width") == 0)
    port->width = (uint8_t)n;
  else if (strcmp(key, "inline") == 0)
    port->inline_max = (uint32_t)n;
  else if (strcmp(key, "reads") == 0)
    port->reads = (uint8_t)n;
  else if (strcmp(key, "vectors") == 0)
    port->vectors = (int)n;
  else if (strcmp(key, "cqe") == 0)
    port->cqe_max = (uint32_t)n;
  else if (strcmp(key, "srq") == 0)
    port->srq_max = (uint32_t)n;
  else if (strcmp(key, "delay") == 0)
    port->delay_us = n;
  else if (strcmp(key, "rtr") == 0)
    port->rtr = (int)n;
  else if (strcmp(key, "deny") == 0)
    port->deny = n;
  else if (strcmp(key, "loses") == 0)
    port->loses = n;
  else if (strcmp(key, "dies") == 0)
    port->dies = n;
  else if (strcmp(key, "gid") == 0)
    port_add_gid(port, value);
  else if (strcmp(key, "sysfs") == 0)
    (void)snprintf(port->sysfs, sizeof port->sysfs, "%s", value);
  else
    standin_die("STANDIN_PORTS has no '%s'", key);
}

/* On InfiniBand GID 0 is the LID's, and GID 1, if any, names a router. */
static void port_end(standin_port *port) {
  if (port->link != IBV_LINK_LAYER_INFINIBAND) return;
  port->gid[0].raw[15] = (uint8_t)port->lid;
  port->gid[1] = port->gid[0];
  port->gid[1].raw[4] = (uint8_t)(port->router >> 8);
  port->gid[1].raw[5] = (uint8_t)port->router;
  port->n_gids = port->router != 0 ? 2 : 1;
  memset(port->interface, 0, sizeof port->interface);
}

/* Reads "NAME:KEY=VALUE,KEY=VALUE;NAME...". */
static void ports_read(char *text) {
  char *rest = NULL;
  for (char *one = strtok_r(text, ";", &rest); one != NULL;
       one = strtok_r(NULL, ";", &rest)) {
    if (n_ports == STANDIN_PORTS_MAX) standin_die("too many STANDIN_PORTS");
    standin_port *port = &ports[n_ports++];
    size_t length = strcspn(one, ":");
    port_begin(port, one, length);
    char *more = NULL, *start = one + length + (one[length] == ':');
    for (char *item = strtok_r(start, ",", &more); item != NULL;
         item = strtok_r(NULL, ",", &more)) {
      char *value = strchr(item, '=');
      if (value == NULL) standin_die("'%s' in STANDIN_PORTS", item);
      *value++ = '\0';
      port_set(port, item, value);
    }
    port_end(port);
  }
}

/* Reads "A:B"; A is required, if the variable is set. */
static void pair_read(const char *text, unsigned long *a, unsigned long *b) {
  char *end;
  if (text == NULL) return;
  *a = strtoul(text, &end, 10);
  if (*end == ':') *b = strtoul(end + 1, NULL, 10);
}

static void read_environment(void) {
  char text[1024];
  unsigned long code = 0;
  const char *given = getenv("STANDIN_PORTS"), *mtu = getenv("STANDIN_MTU");
  if (given == NULL || given[0] == '\0') given = "standin0";
  (void)snprintf(text, sizeof text, "%s", given);
  ports_read(text);
  if (mtu != NULL) wire_mtu = strtoul(mtu, NULL, 10);
  pair_read(getenv("STANDIN_AWAY"), &away_at, &away_ms);
  pair_read(getenv("STANDIN_RTR"), &rtr_ms, &code);
  rtr_code = (int)code;
  if (getenv("STANDIN_REG") != NULL)
    reg_ms = strtoul(getenv("STANDIN_REG"), NULL, 10);
}

int standin_ports(void) {
  pthread_once(&once, read_environment);
  return n_ports;
}

const standin_port *standin_port_at(int i) {
  return i < standin_ports() ? &ports[i] : NULL;
}

const standin_port *standin_port_of(const struct ibv_context *context) {
  return ((const standin_device *)context->device)->port;
}

bool standin_is_uneven(void) {
  const char *text = getenv("STANDIN_UNEVEN");
  return text != NULL && text[0] == '1';
}

bool standin_lists_one(void) {
  const char *text = getenv("STANDIN_ONE_EACH");
  return text != NULL && text[0] == '1';
}

/* ---- addresses ----------------------------------------------------------- */

bool standin_address_is_good(const standin_port *port,
                             const struct ibv_ah_attr *to) {
  bool global = to->is_global != 0;
  if (to->port_num != 1 || to->sl >= 16) return false;
  if (global && (to->grh.sgid_index >= port->n_gids || to->grh.hop_limit == 0))
    return false;
  /* RoCE always uses the GID, InfiniBand always a LID. */
  return port->link == IBV_LINK_LAYER_INFINIBAND ? to->dlid != 0 : global;
}

static bool port_has_gid(const standin_port *port, const union ibv_gid *gid) {
  for (uint32_t i = 0; i < port->n_gids; i++)
    if (memcmp(&port->gid[i], gid, sizeof *gid) == 0) return true;
  return false;
}

/* A router passes packets on by their GID, which they therefore need. So do
 * ports that ask for one. */
static bool network_finds(const standin_port *from, const standin_port *to,
                          const struct ibv_ah_attr *by) {
  bool same = from->gid[0].raw[7] == to->gid[0].raw[7];
  uint16_t lid = same ? to->lid : to->router;
  if (lid == 0 || by->dlid != lid) return false;
  if (by->is_global) return port_has_gid(to, &by->grh.dgid);
  return same && !from->grh && !to->grh;
}

bool standin_reaches(const standin_qp *qp, const standin_qp *peer) {
  const standin_port *from = standin_port_of(qp->base.context);
  const standin_port *to = standin_port_of(peer->base.context);
  const struct ibv_ah_attr *by = &qp->is.ah_attr;
  if (from->link != to->link) return false;
  if (from->link == IBV_LINK_LAYER_INFINIBAND)
    return network_finds(from, to, by);
  return memcmp(&by->grh.dgid, &to->gid[peer->is.ah_attr.grh.sgid_index],
                sizeof by->grh.dgid) == 0;
}

/* ---- losses -------------------------------------------------------------- */

void standin_network_counts(unsigned long sent) {
  if (away_at != 0 && sent == away_at)
    away_until_ns = standin_now_ns() + away_ms * UINT64_C(1000000);
}

bool standin_network_loses(const standin_qp *qp, size_t bytes) {
  size_t packet = standin_mtu_bytes(qp->is.path_mtu);
  if (bytes < packet) packet = bytes;
  const standin_port *port = standin_port_of(qp->base.context);
  if (wire_mtu != 0 && packet > wire_mtu) return true;
  if (port->moved >= port->loses) return true;
  return away_until_ns != 0 && standin_now_ns() < away_until_ns;
}

void standin_port_moves(const standin_qp *qp, size_t bytes) {
  standin_context *context = (standin_context *)qp->base.context;
  standin_port *port = &ports[standin_port_of(&context->base) - ports];
  port->moved += bytes;
  if (port->moved < port->dies || context->dead) return;
  context->dead = true;
  standin_raise(context, IBV_EVENT_DEVICE_FATAL, NULL);
  for (standin_object *o = standin_first[STANDIN_QP]; o != NULL; o = o->next)
    if (o->context == &context->base) standin_break(o->self);
}

__attribute__((visibility("default"))) unsigned long standin_moved(
    const char *name) {
  unsigned long moved = 0;
  pthread_mutex_lock(&standin_lock);
  for (int i = 0; i < n_ports && i < STANDIN_PORTS_MAX; i++)
    if (strcmp(ports[i].name, name) == 0) moved = ports[i].moved;
  pthread_mutex_unlock(&standin_lock);
  return moved;
}

int standin_rtr_waits(const struct ibv_context *context) {
  pthread_once(&once, read_environment);
  standin_slow(STANDIN_RTR, rtr_ms);
  return rtr_code != 0 ? rtr_code : standin_port_of(context)->rtr;
}

void standin_reg_waits(void) {
  pthread_once(&once, read_environment);
  standin_slow(STANDIN_REG, reg_ms);
}
