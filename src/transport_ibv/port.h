/* One port of an RDMA device, opened: which one, and what belongs to it. */
#ifndef GLI_TRANSPORT_IBV_PORT_H
#define GLI_TRANSPORT_IBV_PORT_H

#include "core/error.h"
#include "transport_ibv/verbs.h"

enum { GLI_IBV_NAME_BYTES = 72 };

typedef struct gli_ibv_port {
  const gli_verbs *v;
  char name[GLI_IBV_NAME_BYTES]; /* "mlx5_0:1" */
  uint8_t number;
  bool infiniband; /* by LID; else Ethernet: RoCE, by GID */
  enum ibv_mtu mtu;
  uint16_t lid;
  uint8_t gid_index;
  union ibv_gid gid;
  uint8_t traffic_class, service_level;
  uint16_t pkey_index;
  struct ibv_context *context;
  struct ibv_pd *pd;
  struct ibv_comp_channel *channel;
  struct ibv_cq *cq;
  int cq_left; /* entries that no pair has been promised */
} gli_ibv_port;

/* The first usable port of those that GLOO_IBV_DEVICE allows. GLOO_ERR_INVALID:
 * a variable makes no sense; GLOO_ERR_UNSUPPORTED: there is none, and why. */
gloo_status gli_ibv_port_open(gli_ibv_port *port, gloo_error *error);
/* Also of one that is opened in part; of all zeros it does nothing. */
void gli_ibv_port_close(gli_ibv_port *port);
/* In a forked child: close its descriptors. */
void gli_ibv_port_forked(gli_ibv_port *port);

/* choice.c: does `list` (names or their beginnings, each perhaps with ":port";
 * "^" before the first: all but these) allow that port? `list` is well formed.
 */
bool gli_ibv_choice_allows(const char *list, const char *device,
                           unsigned number);
gloo_status gli_ibv_choice_check(const char *list, gloo_error *error);

#endif
