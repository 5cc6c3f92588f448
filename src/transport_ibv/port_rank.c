/* Choice of a port's GID, and the order of ports. Ports in the network of TCP,
 * which the user selects, precede others. Faster ports come next, and then
 * those nearer to the cores of this process. */
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/cpu.h"
#include "transport_ibv/port.h"

enum { GIDS_MAX = 256, BITS_PER_LONG = 8 * sizeof(unsigned long) };

/* ---- networks ------------------------------------------------------------ */

static bool place_listens_on(const gli_ibv_place *place, uint32_t index) {
  for (uint32_t i = 0; i < place->own.n && index != 0; i++) {
    const gli_interface *one =
        gli_interfaces_find(&place->all, &place->own.at[i]);
    if (one != NULL && if_nametoindex(one->name) == index) return true;
  }
  return false;
}

static gli_endpoint gid_address(const struct ibv_gid_entry *entry) {
  gli_endpoint at = {.v6 = {.sin6_family = AF_INET6}};
  memcpy(&at.v6.sin6_addr, entry->gid.raw, sizeof entry->gid.raw);
  gli_endpoint_unmap(&at);
  return at;
}

/* Rates the network of a RoCE GID. Containers see the GIDs of all network
 * namespaces of their host, whose interfaces may have the same indices; only
 * the addresses show which are their own. Link-local addresses of GIDs and of
 * interfaces differ. */
static gli_ibv_network gid_network(const struct ibv_gid_entry *entry,
                                   const gli_ibv_place *place) {
  char name[IF_NAMESIZE];
  const gli_endpoint at = gid_address(entry);
  for (uint32_t i = 0; i < place->own.n; i++)
    if (gli_endpoint_same_address(&place->own.at[i], &at))
      return GLI_IBV_SAME_ADDRESS;
  bool here = gli_endpoint_is_link_local(&at)
                  ? if_indextoname(entry->ndev_ifindex, name) != NULL
                  : gli_interfaces_find(&place->all, &at) != NULL;
  if (!here && place->all.n > 0) return GLI_IBV_ELSEWHERE;
  return place_listens_on(place, entry->ndev_ifindex) ? GLI_IBV_SAME_INTERFACE
                                                      : GLI_IBV_OTHER_INTERFACE;
}

/* Rates the network of an InfiniBand port, whose GIDs are no IP addresses: TCP
 * may use IP over InfiniBand there. */
static gli_ibv_network infiniband_network(const struct ibv_device *device,
                                          const gli_ibv_place *place) {
  for (uint32_t i = 0; i < place->own.n; i++) {
    const gli_interface *one =
        gli_interfaces_find(&place->all, &place->own.at[i]);
    char path[IBV_SYSFS_PATH_MAX + 64];
    if (one == NULL) continue;
    (void)snprintf(path, sizeof path, "%s/device/net/%.*s", device->ibdev_path,
                   (int)strcspn(one->name, ":"), one->name);
    if (access(path, F_OK) == 0) return GLI_IBV_SAME_INTERFACE;
  }
  return GLI_IBV_OTHER_INTERFACE;
}

/* ---- GIDs ---------------------------------------------------------------- */

/* Rates the type of a RoCE GID: v2 over IPv4 first, then routable IPv6. Other
 * addresses reach no router, and RoCE v1 (0) may not pass a switch. */
static int gid_type_rank(const struct ibv_gid_entry *entry) {
  const gli_endpoint at = gid_address(entry);
  if (entry->gid_type != IBV_GID_TYPE_ROCE_V2) return 0;
  if (at.any.sa_family == AF_INET) return 3;
  return gli_endpoint_is_link_local(&at) ? 1 : 2;
}

/* Rates a GID; 0 if it is not usable. On InfiniBand a routable one is best. */
static int gid_rank(const gli_ibv_port *port, const struct ibv_gid_entry *entry,
                    gli_ibv_network network) {
  if (port->infiniband) return 1 + (gli_ibv_gid_router(&entry->gid) != 0);
  int type = gid_type_rank(entry);
  return type == 0 || network == GLI_IBV_ELSEWHERE ? 0
                                                   : 4 * (int)network + type;
}

bool gli_ibv_gid_find(gli_ibv_port *port, int n, const gli_ibv_place *place,
                      gli_ibv_network *network) {
  long wanted = port->wishes.gid_index;
  int best = 0;
  *network = port->infiniband ? infiniband_network(port->context->device, place)
                              : GLI_IBV_ELSEWHERE;
  for (int i = 0; i < n && i < GIDS_MAX; i++) {
    struct ibv_gid_entry entry;
    if (wanted >= 0 && i != wanted) continue;
    if (port->v->query_gid_ex(port->context, port->number, (uint32_t)i, &entry,
                              0, sizeof entry) != 0)
      continue;
    gli_ibv_network of =
        port->infiniband ? *network : gid_network(&entry, place);
    int rank = wanted >= 0 ? 1 : gid_rank(port, &entry, of);
    if (rank <= best) continue;
    best = rank;
    *network = of;
    port->gid_index = (uint8_t)i;
    port->gid = entry.gid;
  }
  return best > 0 || port->infiniband;
}

/* ---- speed and distance -------------------------------------------------- */

uint32_t gli_ibv_port_rate(const struct ibv_port_attr *attributes) {
  static const uint16_t lane[] = {25, 50, 100, 100, 140, 250, 500, 1000};
  static const uint8_t lanes[] = {1, 4, 8, 12, 2};
  uint32_t speed = 0, width = 0;
  while (speed < 8 && (attributes->active_speed >> speed & 1) == 0) speed++;
  while (width < 5 && (attributes->active_width >> width & 1) == 0) width++;
  return speed < 8 && width < 5 ? (uint32_t)lane[speed] * lanes[width] : 0;
}

/* Returns the number of this process's cores that are near the device. */
static uint32_t cores_near(const struct ibv_device *device) {
  char path[IBV_SYSFS_PATH_MAX + 32], list[512] = "";
  unsigned long mask[GLI_CPU_MASK_BYTES / sizeof(unsigned long)];
  uint32_t n = 0;
  (void)snprintf(path, sizeof path, "%s/device/local_cpulist",
                 device->ibdev_path);
  FILE *file = fopen(path, "r");
  if (file == NULL) return 0;
  if (fgets(list, sizeof list, file) == NULL) list[0] = '\0';
  (void)fclose(file);
  gli_cpu_mask((uint8_t *)mask);
  for (char *at = list; *at >= '0' && *at <= '9';) { /* "0-3,8" */
    unsigned long core = strtoul(at, &at, 10), last = core;
    if (*at == '-') last = strtoul(at + 1, &at, 10);
    for (; core <= last && core < 8 * sizeof mask; core++)
      n += (uint32_t)(mask[core / BITS_PER_LONG] >> core % BITS_PER_LONG & 1);
    at += *at == ',';
  }
  return n;
}

uint64_t gli_ibv_port_rank(const struct ibv_device *device, uint32_t rate,
                           gli_ibv_network network) {
  uint64_t chosen = network >= GLI_IBV_SAME_INTERFACE;
  return chosen << 48 | (uint64_t)rate << 16 | cores_near(device);
}
