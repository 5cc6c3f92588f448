/* Facts of the RDMA port that the library would use, for scripts/rdma-day: what
 * this host's device can do, and how long it looks for a peer that does not
 * exist. Prints "NAME VALUE" lines.
 *
 * usage: rdma_probe [ADDRESS]   an address of the port's network that no host has;
 *                               by default its own with 253 as the last number */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "transport_ibv/port.h"

enum { HOP_LIMIT = 64, LAST = 15, ABSENT = 253, ABSENT_LID = 0xbf00 };

static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static struct ibv_qp *probe_queue(const gli_ibv_port *port,
                                  uint32_t inline_bytes) {
  struct ibv_qp_init_attr attributes = {
      .send_cq = port->cq,
      .recv_cq = port->cq,
      .cap = {.max_send_wr = 16,
              .max_recv_wr = 16,
              .max_send_sge = 2,
              .max_recv_sge = 1,
              .max_inline_data = inline_bytes},
      .qp_type = IBV_QPT_RC};
  return port->v->create_qp(port->pd, &attributes);
}

static void probe_inline(const gli_ibv_port *port) {
  uint32_t bytes = 1024;
  struct ibv_qp *qp = NULL;
  while ((qp = probe_queue(port, bytes)) == NULL && bytes > 0) bytes /= 2;
  printf("inline %u\n", (unsigned)bytes);
  if (qp != NULL) (void)port->v->destroy_qp(qp);
}

static int probe_init(const gli_ibv_port *port, struct ibv_qp *qp) {
  struct ibv_qp_attr to = {.qp_state = IBV_QPS_INIT,
                           .pkey_index = port->pkey_index,
                           .port_num = port->number};
  return port->v->modify_qp(
      qp, &to,
      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

/* Connects a queue pair to a peer that does not exist. */
static int probe_connect(const gli_ibv_port *port, struct ibv_qp *qp,
                         const union ibv_gid *gid) {
  struct ibv_qp_attr to = {.qp_state = IBV_QPS_RTR,
                           .path_mtu = IBV_MTU_1024,
                           .dest_qp_num = 77,
                           .max_dest_rd_atomic = 1,
                           .min_rnr_timer = 12,
                           .ah_attr = {.port_num = port->number}};
  to.ah_attr.dlid = port->infiniband ? ABSENT_LID : 0;
  to.ah_attr.is_global = !port->infiniband;
  to.ah_attr.grh = (struct ibv_global_route){
      .dgid = *gid, .sgid_index = port->gid_index, .hop_limit = HOP_LIMIT};
  return port->v->modify_qp(
      qp, &to,
      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
          IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

static void probe_look_for(const gli_ibv_port *port, const char *name,
                           const union ibv_gid *gid) {
  struct ibv_qp *qp = probe_queue(port, 0);
  if (qp == NULL || probe_init(port, qp) != 0) {
    printf("%s no queue pair\n", name);
    return;
  }
  double began = seconds();
  int code = probe_connect(port, qp, gid);
  printf("%s %.3f s: %s\n", name, seconds() - began,
         code == 0 ? "found" : strerror(code));
  (void)port->v->destroy_qp(qp);
}

static const char *probe_link(const gli_ibv_port *port) {
  return port->infiniband ? "InfiniBand" : "RoCE";
}

static bool probe_absent(const gli_ibv_port *port, const char *address,
                         union ibv_gid *gid) {
  *gid = port->gid;
  gid->raw[LAST] = gid->raw[LAST] == ABSENT ? ABSENT - 1 : ABSENT;
  return address == NULL || inet_pton(AF_INET, address, gid->raw + 12) == 1;
}

int main(int argc, char **argv) {
  gli_ibv_port port;
  gli_ibv_more_ports more;
  const gli_endpoints nowhere = {.n = 0};
  struct ibv_device_attr device;
  union ibv_gid absent;
  gloo_error error;
  if (gli_ibv_port_open(&port, &more, &nowhere, &error) != GLOO_OK) {
    printf("error %s\n", error.message);
    return 1;
  }
  if (!probe_absent(&port, argc > 1 ? argv[1] : NULL, &absent)) {
    fprintf(stderr, "rdma_probe: '%s' is not an IPv4 address\n", argv[1]);
    return 2;
  }
  printf("port %s\nlink %s\nmtu %u\ngid_index %d\n", port.name,
         probe_link(&port), 128u << port.mtu, port.gid_index);
  printf("vectors %d\ncompletions %d\n", port.context->num_comp_vectors,
         port.cq_left);
  if (port.v->query_device(port.context, &device) == 0)
    printf("reads %d begun, %d served\nsrq %d\nqueue_pairs %d\n",
           device.max_qp_init_rd_atom, device.max_qp_rd_atom, device.max_srq,
           device.max_qp);
  probe_inline(&port);
  probe_look_for(&port, "itself", &port.gid);
  probe_look_for(&port, "absent", &absent);
  while (more.n > 0) gli_ibv_port_close(&more.port[--more.n]);
  gli_ibv_port_close(&port);
  return 0;
}
