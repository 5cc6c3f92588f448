/* An open port of an RDMA device, with its properties and shared resources. */
#ifndef GLI_TRANSPORT_IBV_PORT_H
#define GLI_TRANSPORT_IBV_PORT_H

#include <stdatomic.h>

#include "core/error.h"
#include "net/endpoint.h"
#include "net/interfaces.h"
#include "transport_ibv/verbs.h"

enum {
  GLI_IBV_NAME_BYTES = 72,
  GLI_IBV_RAILS_MAX = 8,
  /* A pair has at most 12 reads in progress (ibv_one_sided.c). */
  GLI_IBV_READS_MAX = 16
};

/* Numbers of RDMA reads that a device carries out at once, per queue pair: of the
 * peer's memory, and by the peer. */
typedef struct gli_ibv_reads {
  uint8_t begun, served;
} gli_ibv_reads;

/* Requested properties, by the environment. */
typedef struct gli_ibv_wishes {
  const char *devices; /* NULL if any */
  long gid_index;      /* -1: the best one */
  long partition;      /* -1: the port's first */
  long traffic_class, service_level;
  long ack_timeout, retries; /* as InfiniBand encodes them */
  long rails;                /* most ports for long messages; 1: off */
  long rails_min;            /* shortest message for them */
} gli_ibv_wishes;

typedef struct gli_ibv_port {
  const gli_verbs *v;
  char name[GLI_IBV_NAME_BYTES]; /* "mlx5_0:1" */
  uint8_t number;
  bool infiniband; /* true: addressed by LID; false: RoCE, by GID */
  bool needs_grh;  /* InfiniBand: true if packets to and from it need the GID */
  enum ibv_mtu mtu;
  uint16_t lid;
  uint8_t gid_index;
  union ibv_gid gid;
  gli_ibv_wishes wishes;
  uint16_t pkey_index;
  gli_ibv_reads reads;
  bool borrows; /* true if context and pd belong to another port */
  struct ibv_context *context;
  struct ibv_pd *pd;
  struct ibv_comp_channel *channel;
  struct ibv_cq *cq;
  int cq_entries, cq_left; /* all, and those that are not reserved */
  int cqe_max, srq_max;    /* limits of the device: entries, buffers */
  uint32_t rate;           /* in 0.1 Gbit/s; 0 if unknown */
  atomic_uint
      inline_max; /* bytes that queue pairs ask for: what was accepted */
} gli_ibv_port;

/* Other ports than the first. */
typedef struct gli_ibv_more_ports {
  gli_ibv_port port[GLI_IBV_RAILS_MAX - 1];
  uint32_t n;
} gli_ibv_more_ports;

/* Opens the best usable port that GLOO_IBV_DEVICE allows (port_rank.c), and if
 * GLOO_IBV_RAILS asks for them others of its kind and rate, without completion
 * queues. `own` has the addresses of this host at which TCP listens. Returns
 * GLOO_ERR_INVALID for a bad variable, GLOO_ERR_UNSUPPORTED if no port fits. */
gloo_status gli_ibv_port_open(gli_ibv_port *port, gli_ibv_more_ports *more,
                              const gli_endpoints *own, gloo_error *error);
/* Opens the resources that all pairs share: a completion queue of up to that
 * many entries, with its channel, and a protection domain unless the port has
 * one. Returns NULL, or the failed part with errno. */
const char *gli_ibv_port_equip(gli_ibv_port *port, int entries);
/* Closes a port, which may be partly open, or all zeros. */
void gli_ibv_port_close(gli_ibv_port *port);
/* Closes the descriptors of the port, in a forked child. */
void gli_ibv_port_forked(gli_ibv_port *port);

/* Returns the LID of the router to the GID's subnet (FLID), which routable GIDs
 * of InfiniBand contain, or 0. */
static inline uint16_t gli_ibv_gid_router(const union ibv_gid *gid) {
  return (uint16_t)(gid->raw[4] << 8 | gid->raw[5]);
}
static inline bool gli_ibv_gid_same_subnet(const union ibv_gid *a,
                                           const union ibv_gid *b) {
  return a->raw[6] == b->raw[6] && a->raw[7] == b->raw[7];
}

/* ---- port_rank.c ---------------------------------------------------------- */

typedef struct gli_ibv_place {
  gli_endpoints own;  /* addresses at which TCP listens */
  gli_interfaces all; /* interfaces of this namespace; empty if unknown */
} gli_ibv_place;

/* Network of a port, relative to the addresses at which TCP listens. */
typedef enum gli_ibv_network {
  GLI_IBV_ELSEWHERE, /* another network namespace */
  GLI_IBV_OTHER_INTERFACE,
  GLI_IBV_SAME_INTERFACE,
  GLI_IBV_SAME_ADDRESS
} gli_ibv_network;

/* Finds the requested or the best one of the `n` GIDs of the port. Returns false
 * if none is usable. */
bool gli_ibv_gid_find(gli_ibv_port *port, int n, const gli_ibv_place *place,
                      gli_ibv_network *network);
/* Returns a number that is greater for better ports. */
uint64_t gli_ibv_port_rank(const struct ibv_device *device, uint32_t rate,
                           gli_ibv_network network);
/* Returns the port's rate, in 0.1 Gbit/s; 0 if unknown. */
uint32_t gli_ibv_port_rate(const struct ibv_port_attr *attributes);

/* choice.c: returns true if `list` allows the port. The list has names of
 * devices or their prefixes, each optionally with ":port"; "^" before the first
 * excludes them instead. `list` has passed gli_ibv_choice_check. */
bool gli_ibv_choice_allows(const char *list, const char *device,
                           unsigned number);
gloo_status gli_ibv_choice_check(const char *list, gloo_error *error);

#endif
