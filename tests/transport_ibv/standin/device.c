/* Devices, ports and contexts. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "standin.h"

static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;
static int n_open;

static void device_release(standin_device *device) {
  if (--device->users == 0) free(device);
}

/* ---- the list ------------------------------------------------------------ */

typedef struct device_list {
  struct ibv_device *entry[STANDIN_PORTS_MAX + 1];
  standin_object object;
} device_list;

int ibv_fork_init(void) {
  int code = standin_enter(STANDIN_fork_init);
  standin_leave();
  return code;
}

static struct ibv_device *device_make(const standin_port *port) {
  standin_device *device = calloc(1, sizeof *device);
  memcpy(device->base.name, port->name, sizeof device->base.name);
  (void)snprintf(device->base.ibdev_path, sizeof device->base.ibdev_path,
                 "%s/%s", port->sysfs, port->name);
  device->base.node_type = IBV_NODE_CA;
  device->base.transport_type = IBV_TRANSPORT_IB;
  device->port = port;
  device->users = 1;
  return &device->base;
}

struct ibv_device **ibv_get_device_list(int *n) {
  static int lists;
  int code = standin_enter(STANDIN_get_device_list);
  device_list *list = NULL;
  int found = standin_ports(), first = 0;
  if (code == 0) {
    list = calloc(1, sizeof *list);
    if (standin_lists_one()) first = lists++ % found, found = 1;
    bool lacks = standin_is_uneven() && lists++ % 2 == 1 && found > 2;
    if (lacks) found--;
    for (int i = 0; i < found; i++)
      list->entry[i] =
          device_make(standin_port_at(first + i + (lacks && i > 0)));
    standin_add(&list->object, STANDIN_LIST, list, NULL);
  }
  if (n != NULL) *n = list != NULL ? found : 0;
  standin_leave();
  errno = code;
  return list != NULL ? list->entry : NULL;
}

void ibv_free_device_list(struct ibv_device **entries) {
  (void)standin_enter(STANDIN_free_device_list);
  standin_check(STANDIN_LIST, entries, "ibv_free_device_list");
  standin_remove(STANDIN_LIST, entries);
  for (int i = 0; entries[i] != NULL; i++)
    device_release((standin_device *)entries[i]);
  free(entries);
  standin_leave();
}

const char *ibv_get_device_name(struct ibv_device *device) {
  int code = standin_enter(STANDIN_get_device_name);
  standin_leave();
  return code == 0 ? device->name : NULL;
}

/* ---- contexts ------------------------------------------------------------ */

static struct ibv_context *context_make(standin_device *device) {
  standin_context *context = calloc(1, sizeof *context);
  struct ibv_context *base = &context->base;
  base->device = &device->base;
  base->ops.poll_cq = standin_poll_cq;
  base->ops.req_notify_cq = standin_req_notify_cq;
  base->ops.post_send = standin_post_send;
  base->ops.post_recv = standin_post_recv;
  base->ops.post_srq_recv = standin_post_srq_recv;
  base->num_comp_vectors = device->port->vectors;
  base->cmd_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
  base->async_fd = eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
  pthread_mutex_init(&base->mutex, NULL);
  if (base->cmd_fd < 0 || base->async_fd < 0)
    standin_die("no descriptors for a device");
  device->users++;
  standin_add(&context->object, STANDIN_CONTEXT, base, base);
  return base;
}

struct ibv_context *ibv_open_device(struct ibv_device *device) {
  int code = standin_enter(STANDIN_open_device);
  standin_leave();
  pthread_mutex_lock(&opening);
  if (code == 0 && n_open == 0) code = standin_wire_start();
  struct ibv_context *context = NULL;
  if (code == 0) {
    n_open++;
    pthread_mutex_lock(&standin_lock);
    context = context_make((standin_device *)device);
    pthread_mutex_unlock(&standin_lock);
  }
  pthread_mutex_unlock(&opening);
  errno = code;
  return context;
}

/* Returns an object of this kind that is left in the context, or NULL. */
static void *find_left(const struct ibv_context *context, standin_kind kind) {
  for (standin_object *o = standin_first[kind]; o != NULL; o = o->next)
    if (o->context == context) return o->self;
  return NULL;
}

static void free_left(standin_kind kind, void *self) {
  if (kind == STANDIN_QP) {
    standin_qp_gone(self);
    free(((standin_qp *)self)->send.work);
    free(((standin_qp *)self)->receive.work);
  }
  if (kind == STANDIN_CQ) free(((standin_cq *)self)->entries);
  if (kind == STANDIN_SRQ) free(((standin_srq *)self)->work);
  if (kind == STANDIN_CHANNEL) close(((struct ibv_comp_channel *)self)->fd);
  free(self);
}

/* Releases a context and all objects left in it, as the kernel does. These are
 * leaks, unless a fault prevented their destruction. */
static void context_release(standin_context *context) {
  struct ibv_context *base = &context->base;
  for (int kind = STANDIN_QP; kind > STANDIN_CONTEXT; kind--) {
    void *self;
    while ((self = find_left(base, (standin_kind)kind)) != NULL) {
      if (!standin_spares()) standin_count_leak((standin_kind)kind);
      standin_remove((standin_kind)kind, self);
      free_left((standin_kind)kind, self);
    }
  }
  while (context->events != NULL) {
    standin_event *event = context->events;
    context->events = event->next;
    free(event);
  }
  standin_remove(STANDIN_CONTEXT, base);
  close(base->cmd_fd);
  close(base->async_fd);
  pthread_mutex_destroy(&base->mutex);
  device_release((standin_device *)base->device);
  free(context);
}

/* Closes the device even if the call is to fail, as close() does. */
int ibv_close_device(struct ibv_context *context) {
  int code = standin_enter(STANDIN_close_device);
  standin_leave();
  pthread_mutex_lock(&opening);
  pthread_mutex_lock(&standin_lock);
  standin_check(STANDIN_CONTEXT, context, "ibv_close_device");
  context_release((standin_context *)context);
  bool last = --n_open == 0;
  pthread_mutex_unlock(&standin_lock);
  if (last) standin_wire_stop();
  pthread_mutex_unlock(&opening);
  errno = code;
  return code == 0 ? 0 : -1;
}

/* ---- the port ------------------------------------------------------------ */

int ibv_query_device(struct ibv_context *context,
                     struct ibv_device_attr *attributes) {
  int code = standin_enter(STANDIN_query_device);
  standin_check(STANDIN_CONTEXT, context, "ibv_query_device");
  standin_leave();
  if (code != 0) return code;
  const standin_port *port = standin_port_of(context);
  *attributes =
      (struct ibv_device_attr){.max_qp = 1 << 16,
                               .max_qp_wr = STANDIN_WORK_MAX,
                               .max_sge = STANDIN_PARTS,
                               .max_cqe = (int)port->cqe_max,
                               .max_srq = port->srq_max > 0 ? 1 << 8 : 0,
                               .max_srq_wr = (int)port->srq_max,
                               .max_srq_sge = STANDIN_PARTS,
                               .max_qp_rd_atom = port->reads,
                               .max_qp_init_rd_atom = port->reads,
                               .phys_port_cnt = 1};
  return 0;
}

/* Fills in the original structure: its beginning, up to flags. */
int ibv_query_port(struct ibv_context *context, uint8_t number,
                   struct _compat_ibv_port_attr *attributes) {
  int code = standin_enter(STANDIN_query_port);
  standin_check(STANDIN_CONTEXT, context, "ibv_query_port");
  bool dead = ((standin_context *)context)->dead;
  standin_leave();
  if (code != 0) return code;
  if (dead) return EIO;
  if (number != 1) return EINVAL;
  const standin_port *port = standin_port_of(context);
  struct ibv_port_attr is = {.state = IBV_PORT_ACTIVE,
                             .max_mtu = IBV_MTU_4096,
                             .active_mtu = port->mtu,
                             .gid_tbl_len = STANDIN_GID_ROOM,
                             .max_msg_sz = 1u << 31,
                             .pkey_tbl_len = STANDIN_PKEYS,
                             .lid = port->lid,
                             .active_width = port->width,
                             .active_speed = port->speed,
                             .phys_state = 5,
                             .link_layer = port->link,
                             .flags = port->grh ? IBV_QPF_GRH_REQUIRED : 0};
  memcpy(attributes, &is, offsetof(struct ibv_port_attr, flags) + 1);
  return 0;
}

int _ibv_query_gid_ex(struct ibv_context *context, uint32_t number,
                      uint32_t index, struct ibv_gid_entry *entry,
                      uint32_t flags, size_t bytes) {
  int code = standin_enter(STANDIN_query_gid_ex);
  standin_check(STANDIN_CONTEXT, context, "ibv_query_gid_ex");
  standin_leave();
  if (code != 0) return code;
  const standin_port *port = standin_port_of(context);
  if (number != 1 || flags != 0 || bytes != sizeof *entry ||
      index >= STANDIN_GID_ROOM)
    return EINVAL;
  if (index >= port->n_gids) return ENODATA;
  *entry = (struct ibv_gid_entry){
      .gid = port->gid[index],
      .gid_index = index,
      .port_num = 1,
      .gid_type = port->link == IBV_LINK_LAYER_INFINIBAND ? IBV_GID_TYPE_IB
                  : index == 0                            ? IBV_GID_TYPE_ROCE_V1
                               : IBV_GID_TYPE_ROCE_V2,
      .ndev_ifindex = port->interface[index]};
  return 0;
}

int ibv_query_pkey(struct ibv_context *context, uint8_t port, int index,
                   __be16 *pkey) {
  static const uint16_t keys[STANDIN_PKEYS] = {0xffff, 0x8001};
  int code = standin_enter(STANDIN_query_pkey);
  standin_check(STANDIN_CONTEXT, context, "ibv_query_pkey");
  standin_leave();
  if (code == 0 && (port != 1 || index < 0 || index >= STANDIN_PKEYS))
    code = EINVAL;
  if (code == 0) *pkey = htons(keys[index]);
  errno = code;
  return code == 0 ? 0 : -1;
}

const char *ibv_wc_status_str(enum ibv_wc_status status) {
  int code = standin_enter(STANDIN_wc_status_str);
  standin_leave();
  if (code != 0) return "unknown";
  switch (status) {
    case IBV_WC_SUCCESS:
      return "success";
    case IBV_WC_WR_FLUSH_ERR:
      return "Work Request Flushed Error";
    case IBV_WC_RETRY_EXC_ERR:
      return "transport retry counter exceeded";
    case IBV_WC_REM_ACCESS_ERR:
      return "remote access error";
    case IBV_WC_LOC_PROT_ERR:
      return "local protection error";
    default:
      return "an error";
  }
}
