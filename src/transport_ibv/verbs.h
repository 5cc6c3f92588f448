/* libibverbs, loaded at run time, so that one binary serves machines with and
 * without it. Only this folder uses it. Inline functions of its header that
 * call the driver's table (ibv_post_send, ibv_post_recv, ibv_post_srq_recv,
 * ibv_poll_cq, ibv_req_notify_cq) need no library; the table below has all others. */
#ifndef GLI_TRANSPORT_IBV_VERBS_H
#define GLI_TRANSPORT_IBV_VERBS_H

#include <infiniband/verbs.h>

#include "gloo_c/status.h"

/* Macros of the header that would require linking with the library. */
#undef ibv_query_port
#undef ibv_reg_mr

typedef struct gli_verbs {
  int (*fork_init)(void);
  struct ibv_device **(*get_device_list)(int *n);
  void (*free_device_list)(struct ibv_device **list);
  struct ibv_context *(*open_device)(struct ibv_device *device);
  int (*close_device)(struct ibv_context *context);
  int (*query_device)(struct ibv_context *context,
                      struct ibv_device_attr *attributes);
  int (*query_port)(struct ibv_context *context, uint8_t port,
                    struct ibv_port_attr *attributes);
  int (*query_gid_ex)(struct ibv_context *context, uint32_t port,
                      uint32_t index, struct ibv_gid_entry *entry,
                      uint32_t flags, size_t bytes);
  int (*query_pkey)(struct ibv_context *context, uint8_t port, int index,
                    __be16 *pkey);
  int (*get_async_event)(struct ibv_context *context,
                         struct ibv_async_event *event);
  void (*ack_async_event)(struct ibv_async_event *event);
  const char *(*event_type_str)(enum ibv_event_type event);
  const char *(*wc_status_str)(enum ibv_wc_status status);
  struct ibv_pd *(*alloc_pd)(struct ibv_context *context);
  int (*dealloc_pd)(struct ibv_pd *pd);
  struct ibv_mr *(*reg_mr)(struct ibv_pd *pd, void *memory, size_t bytes,
                           int access);
  int (*dereg_mr)(struct ibv_mr *mr);
  struct ibv_comp_channel *(*create_comp_channel)(struct ibv_context *context);
  int (*destroy_comp_channel)(struct ibv_comp_channel *channel);
  struct ibv_cq *(*create_cq)(struct ibv_context *context, int entries,
                              void *user, struct ibv_comp_channel *channel,
                              int vector);
  int (*resize_cq)(struct ibv_cq *cq, int entries);
  int (*destroy_cq)(struct ibv_cq *cq);
  int (*get_cq_event)(struct ibv_comp_channel *channel, struct ibv_cq **cq,
                      void **user);
  void (*ack_cq_events)(struct ibv_cq *cq, unsigned n);
  struct ibv_srq *(*create_srq)(struct ibv_pd *pd,
                                struct ibv_srq_init_attr *as);
  int (*modify_srq)(struct ibv_srq *srq, struct ibv_srq_attr *to, int mask);
  int (*destroy_srq)(struct ibv_srq *srq);
  struct ibv_qp *(*create_qp)(struct ibv_pd *pd, struct ibv_qp_init_attr *as);
  int (*modify_qp)(struct ibv_qp *qp, struct ibv_qp_attr *to, int mask);
  int (*destroy_qp)(struct ibv_qp *qp);
} gli_verbs;

/* Returns the library, which stays loaded, or NULL with GLOO_ERR_UNSUPPORTED
 * and the reason: it is not installed, or too old. Any thread. */
const gli_verbs *gli_verbs_open(gloo_error *error);

#endif
