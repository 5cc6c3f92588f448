/* Tests of the stand-in: it follows the standard and detects mistakes of its
 * callers. Otherwise its results for the transport would mean nothing. */
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "transport_ibv/verbs.h"

enum { BYTES = 100000, WAIT_MS = 20000 };

static const gli_verbs *v;

/* Both ends of a connection, each with separate memory. */
typedef struct verbs_end {
  struct ibv_cq *cq;
  struct ibv_qp *qp;
  struct ibv_mr *mr;
  uint8_t *memory;
} verbs_end;

typedef struct verbs_two {
  struct ibv_context *context;
  struct ibv_pd *pd;
  struct ibv_comp_channel *channel;
  verbs_end end[2];
} verbs_two;

/* ---- making and connecting ----------------------------------------------- */

static void end_make(verbs_two *two, verbs_end *end) {
  int access =
      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
  end->cq = v->create_cq(two->context, 64, end, two->channel, 0);
  assert_non_null(end->cq);
  struct ibv_qp_init_attr as = {.send_cq = end->cq,
                                .recv_cq = end->cq,
                                .cap = {16, 16, 2, 1, 64},
                                .qp_type = IBV_QPT_RC};
  end->qp = v->create_qp(two->pd, &as);
  assert_non_null(end->qp);
  end->memory = calloc(1, BYTES);
  end->mr = v->reg_mr(two->pd, end->memory, BYTES, access);
  assert_non_null(end->mr);
}

static void two_make(verbs_two *two) {
  struct ibv_device **list = v->get_device_list(NULL);
  assert_non_null(list);
  two->context = v->open_device(list[0]);
  assert_non_null(two->context);
  v->free_device_list(list);
  two->pd = v->alloc_pd(two->context);
  two->channel = v->create_comp_channel(two->context);
  for (int i = 0; i < 2; i++) end_make(two, &two->end[i]);
}

static void two_free(verbs_two *two) {
  for (int i = 0; i < 2; i++) {
    verbs_end *end = &two->end[i];
    if (end->qp != NULL) assert_int_equal(v->destroy_qp(end->qp), 0);
    assert_int_equal(v->destroy_cq(end->cq), 0);
    assert_int_equal(v->dereg_mr(end->mr), 0);
    free(end->memory);
  }
  assert_int_equal(v->destroy_comp_channel(two->channel), 0);
  assert_int_equal(v->dealloc_pd(two->pd), 0);
  assert_int_equal(v->close_device(two->context), 0);
}

static int to_init(verbs_end *end, int access) {
  struct ibv_qp_attr to = {.qp_state = IBV_QPS_INIT,
                           .port_num = 1,
                           .qp_access_flags = (unsigned)access};
  return v->modify_qp(
      end->qp, &to,
      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

static int to_rtr(verbs_two *two, int i) {
  struct ibv_gid_entry gid;
  assert_int_equal(v->query_gid_ex(two->context, 1, 1, &gid, 0, sizeof gid), 0);
  struct ibv_qp_attr to = {
      .qp_state = IBV_QPS_RTR,
      .path_mtu = IBV_MTU_1024,
      .dest_qp_num = two->end[1 - i].qp->qp_num,
      .max_dest_rd_atomic = 1,
      .min_rnr_timer = 12,
      .ah_attr = {.port_num = 1,
                  .is_global = 1,
                  .grh = {.dgid = gid.gid, .sgid_index = 1, .hop_limit = 1}}};
  return v->modify_qp(two->end[i].qp, &to,
                      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
                          IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                          IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

/* Reads at once that an end begins; its peer serves one. */
static uint8_t reads_begun = 1;

static int to_rts(verbs_end *end) {
  struct ibv_qp_attr to = {.qp_state = IBV_QPS_RTS,
                           .timeout = 14,
                           .retry_cnt = 6,
                           .rnr_retry = 7,
                           .max_rd_atomic = reads_begun};
  return v->modify_qp(end->qp, &to,
                      IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT |
                          IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                          IBV_QP_MAX_QP_RD_ATOMIC);
}

static int to_err(verbs_end *end) {
  struct ibv_qp_attr to = {.qp_state = IBV_QPS_ERR};
  return v->modify_qp(end->qp, &to, IBV_QP_STATE);
}

static void two_connect(verbs_two *two, int access) {
  for (int i = 0; i < 2; i++)
    assert_int_equal(to_init(&two->end[i], access), 0);
  for (int i = 0; i < 2; i++) assert_int_equal(to_rtr(two, i), 0);
  for (int i = 0; i < 2; i++) assert_int_equal(to_rts(&two->end[i]), 0);
}

/* ---- posting ------------------------------------------------------------- */

static struct ibv_sge part_of(const verbs_end *end, size_t at, size_t bytes) {
  return (struct ibv_sge){(uintptr_t)end->memory + at, (uint32_t)bytes,
                          end->mr->lkey};
}

static int post_buffer(verbs_end *end, struct ibv_sge part) {
  struct ibv_recv_wr wr = {.wr_id = 7, .sg_list = &part, .num_sge = 1}, *bad;
  return ibv_post_recv(end->qp, &wr, &bad);
}

static int post_message(verbs_end *end, struct ibv_sge part, unsigned flags) {
  struct ibv_send_wr wr = {.wr_id = 8,
                           .sg_list = &part,
                           .num_sge = 1,
                           .opcode = IBV_WR_SEND,
                           .send_flags = flags},
                     *bad;
  return ibv_post_send(end->qp, &wr, &bad);
}

static int post_by_key(verbs_end *end, enum ibv_wr_opcode opcode,
                       struct ibv_sge part, uint64_t remote, uint32_t rkey) {
  struct ibv_send_wr wr = {.wr_id = 9,
                           .sg_list = &part,
                           .num_sge = 1,
                           .opcode = opcode,
                           .send_flags = IBV_SEND_SIGNALED},
                     *bad;
  wr.wr.rdma.remote_addr = remote;
  wr.wr.rdma.rkey = rkey;
  return ibv_post_send(end->qp, &wr, &bad);
}

static struct ibv_wc wait_for(verbs_end *end) {
  struct ibv_wc wc = {.status = IBV_WC_GENERAL_ERR};
  for (int i = 0; i < WAIT_MS; i++) {
    int n = ibv_poll_cq(end->cq, 1, &wc);
    assert_true(n >= 0);
    if (n == 1) return wc;
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  }
  fail_msg("nothing completes");
  return wc;
}

static void expect(verbs_end *end, uint64_t id, enum ibv_wc_status status) {
  struct ibv_wc wc = wait_for(end);
  assert_int_equal(wc.wr_id, id);
  assert_int_equal(wc.status, status);
}

/* ---- what it does -------------------------------------------------------- */

static const int all_access = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

static void messages_arrive(void **state) {
  (void)state;
  verbs_two two;
  two_make(&two);
  two_connect(&two, all_access);
  verbs_end *a = &two.end[0], *b = &two.end[1];
  for (int i = 0; i < BYTES / 2; i++) a->memory[i] = (uint8_t)(i % 251);
  assert_int_equal(post_buffer(b, part_of(b, 0, BYTES)), 0);
  assert_int_equal(post_message(a, part_of(a, 0, BYTES / 2), IBV_SEND_SIGNALED),
                   0);
  struct ibv_wc wc = wait_for(b);
  assert_int_equal(wc.status, IBV_WC_SUCCESS);
  assert_int_equal(wc.byte_len, BYTES / 2);
  assert_memory_equal(a->memory, b->memory, BYTES / 2);
  expect(a, 8, IBV_WC_SUCCESS);
  two_free(&two);
}

static void inline_data_is_copied(void **state) {
  (void)state;
  verbs_two two;
  two_make(&two);
  two_connect(&two, all_access);
  verbs_end *a = &two.end[0], *b = &two.end[1];
  uint8_t text[8] = "inline";
  struct ibv_sge part = {(uintptr_t)text, sizeof text, 0};
  assert_int_equal(post_message(a, part, IBV_SEND_INLINE), 0);
  memset(text, 0, sizeof text);
  assert_int_equal(post_buffer(b, part_of(b, 0, 8)), 0); /* after the message */
  expect(b, 7, IBV_WC_SUCCESS);
  assert_string_equal((char *)b->memory, "inline");
  part.length = 65;
  assert_int_equal(post_message(a, part, IBV_SEND_INLINE), EINVAL);
  two_free(&two);
}

static void keys_are_checked(enum ibv_wr_opcode opcode) {
  bool reads = opcode == IBV_WR_RDMA_READ;
  for (int wrong = 0; wrong < 4; wrong++) {
    verbs_two two;
    two_make(&two);
    two_connect(&two, wrong == 3 ? 0 : all_access);
    verbs_end *a = &two.end[0], *b = &two.end[1];
    verbs_end *from = reads ? b : a, *to = reads ? a : b;
    from->memory[0] = 42;
    uint64_t at = (uintptr_t)b->memory + (wrong == 1 ? BYTES - 9 : 0);
    uint32_t key = b->mr->rkey + (wrong == 2 ? 1 : 0);
    assert_int_equal(post_by_key(a, opcode, part_of(a, 0, 10), at, key), 0);
    expect(a, 9, wrong == 0 ? IBV_WC_SUCCESS : IBV_WC_REM_ACCESS_ERR);
    assert_int_equal(to->memory[0], wrong == 0 ? 42 : 0);
    two_free(&two);
  }
}

static void writes_need_a_key(void **state) {
  (void)state;
  keys_are_checked(IBV_WR_RDMA_WRITE);
}

static void reads_need_a_key(void **state) {
  (void)state;
  keys_are_checked(IBV_WR_RDMA_READ);
}

static void more_reads_than_the_peer_serves_are_an_error(void **state) {
  (void)state;
  verbs_two two;
  two_make(&two);
  reads_begun = 2;
  two_connect(&two, all_access);
  reads_begun = 1;
  verbs_end *a = &two.end[0], *b = &two.end[1];
  assert_int_equal(post_by_key(a, IBV_WR_RDMA_READ, part_of(a, 0, 10),
                               (uintptr_t)b->memory, b->mr->rkey),
                   0);
  expect(a, 9, IBV_WC_REM_INV_REQ_ERR);
  two_free(&two);
}

static void local_keys_are_checked(void **state) {
  (void)state;
  for (int sends = 0; sends < 2; sends++) {
    verbs_two two;
    two_make(&two);
    two_connect(&two, all_access);
    verbs_end *a = &two.end[0], *b = &two.end[1];
    struct ibv_sge good = part_of(a, 0, 10), wrong = part_of(a, 0, 10);
    struct ibv_sge there = part_of(b, BYTES - 9, sends ? 9 : 10);
    wrong.lkey = a->mr->rkey;
    assert_int_equal(post_buffer(b, there), 0);
    assert_int_equal(post_message(a, sends ? wrong : good, 0), 0);
    if (!sends) expect(b, 7, IBV_WC_LOC_PROT_ERR);
    expect(a, 8, sends ? IBV_WC_LOC_PROT_ERR : IBV_WC_REM_OP_ERR);
    two_free(&two);
  }
}

static void messages_fit_their_buffer(void **state) {
  (void)state;
  verbs_two two;
  two_make(&two);
  two_connect(&two, all_access);
  verbs_end *a = &two.end[0], *b = &two.end[1];
  assert_int_equal(post_buffer(b, part_of(b, 0, 9)), 0);
  assert_int_equal(post_message(a, part_of(a, 0, 10), 0), 0);
  expect(b, 7, IBV_WC_LOC_LEN_ERR);
  expect(a, 8, IBV_WC_REM_INV_REQ_ERR);
  two_free(&two);
}

static void states_come_in_order(void **state) {
  (void)state;
  verbs_two two;
  two_make(&two);
  verbs_end *a = &two.end[0];
  struct ibv_qp_attr to = {.qp_state = IBV_QPS_INIT, .port_num = 1};
  assert_int_equal(to_rtr(&two, 0), EINVAL);
  assert_int_equal(post_buffer(a, part_of(a, 0, 9)), EINVAL);
  assert_int_equal(v->modify_qp(a->qp, &to, IBV_QP_STATE | IBV_QP_PORT),
                   EINVAL);
  assert_int_equal(to_init(a, 0), 0);
  assert_int_equal(post_buffer(a, part_of(a, 0, 9)), 0);
  assert_int_equal(post_message(a, part_of(a, 0, 9), 0), EINVAL);
  assert_int_equal(to_rts(a), EINVAL);
  assert_int_equal(to_rtr(&two, 0), 0);
  assert_int_equal(post_message(a, part_of(a, 0, 9), 0), EINVAL);
  assert_int_equal(to_rts(a), 0);
  two_free(&two);
}

static void errors_flush_both_queues(void **state) {
  (void)state;
  verbs_two two;
  two_make(&two);
  two_connect(&two, all_access);
  verbs_end *a = &two.end[0];
  uint64_t ids = 0;
  assert_int_equal(post_buffer(a, part_of(a, 0, 9)), 0);
  assert_int_equal(post_message(a, part_of(a, 0, 9), 0), 0);
  assert_int_equal(to_err(a), 0);
  assert_int_equal(post_message(a, part_of(a, 0, 9), 0), 0);
  for (int i = 0; i < 3; i++) {
    struct ibv_wc wc = wait_for(a);
    assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
    ids += wc.wr_id;
  }
  assert_int_equal(ids, 7 + 8 + 8);
  two_free(&two);
}

static void a_peer_that_is_gone_shows(void **state) {
  (void)state;
  for (int broken = 0; broken < 2; broken++) {
    verbs_two two;
    two_make(&two);
    two_connect(&two, all_access);
    verbs_end *a = &two.end[0], *b = &two.end[1];
    if (broken) {
      assert_int_equal(to_err(b), 0);
    } else {
      assert_int_equal(v->destroy_qp(b->qp), 0);
      b->qp = NULL;
    }
    assert_int_equal(post_message(a, part_of(a, 0, 9), 0), 0);
    assert_int_equal(post_message(a, part_of(a, 0, 9), 0), 0);
    expect(a, 8, IBV_WC_RETRY_EXC_ERR);
    expect(a, 8, IBV_WC_WR_FLUSH_ERR);
    two_free(&two);
  }
}

/* A slot of a queue is free only after a completion that covers it was
 * polled. */
static void queues_have_room_for_so_many(void **state) {
  (void)state;
  verbs_two two;
  two_make(&two);
  two_connect(&two, all_access);
  verbs_end *a = &two.end[0], *b = &two.end[1];
  for (int i = 0; i < 16; i++)
    assert_int_equal(post_buffer(b, part_of(b, 0, 9)), 0);
  assert_int_equal(post_buffer(b, part_of(b, 0, 9)), ENOMEM);
  for (int i = 0; i < 16; i++)
    assert_int_equal(
        post_message(a, part_of(a, 0, 9), i == 14 ? IBV_SEND_SIGNALED : 0), 0);
  for (int i = 0; i < 16; i++) expect(b, 7, IBV_WC_SUCCESS);
  assert_int_equal(post_message(a, part_of(a, 0, 9), 0), ENOMEM);
  expect(a, 8, IBV_WC_SUCCESS);
  for (int i = 0; i < 15; i++)
    assert_int_equal(post_message(a, part_of(a, 0, 9), 0), 0);
  assert_int_equal(post_message(a, part_of(a, 0, 9), 0), ENOMEM);
  two_free(&two);
}

static bool is_told(const verbs_two *two, int timeout_ms) {
  struct pollfd fd = {.fd = two->channel->fd, .events = POLLIN};
  return poll(&fd, 1, timeout_ms) == 1;
}

static void only_what_comes_later_is_told(void **state) {
  (void)state;
  verbs_two two;
  struct ibv_cq *cq;
  void *user;
  two_make(&two);
  two_connect(&two, all_access);
  verbs_end *a = &two.end[0];
  assert_int_equal(to_err(a), 0);
  assert_int_equal(post_buffer(a, part_of(a, 0, 9)), 0);
  expect(a, 7, IBV_WC_WR_FLUSH_ERR);
  assert_false(is_told(&two, 0)); /* not armed */
  assert_int_equal(ibv_req_notify_cq(a->cq, 0), 0);
  assert_false(is_told(&two, 20));
  assert_int_equal(post_buffer(a, part_of(a, 0, 9)), 0);
  assert_int_equal(post_buffer(a, part_of(a, 0, 9)), 0);
  assert_true(is_told(&two, WAIT_MS));
  assert_int_equal(v->get_cq_event(two.channel, &cq, &user), 0);
  assert_ptr_equal(cq, a->cq);
  assert_ptr_equal(user, a);
  v->ack_cq_events(cq, 1);
  expect(a, 7, IBV_WC_WR_FLUSH_ERR);
  expect(a, 7, IBV_WC_WR_FLUSH_ERR);
  assert_false(is_told(&two, 0)); /* only once */
  two_free(&two);
}

static void what_is_used_stays(void **state) {
  (void)state;
  verbs_two two;
  two_make(&two);
  assert_int_equal(v->dealloc_pd(two.pd), EBUSY);
  assert_int_equal(v->destroy_cq(two.end[0].cq), EBUSY);
  assert_int_equal(v->destroy_comp_channel(two.channel), EBUSY);
  two_free(&two);
}

/* ---- mistakes that end the process --------------------------------------- */

static void destroy_twice(verbs_two *two) {
  (void)v->destroy_qp(two->end[0].qp);
  (void)v->destroy_qp(two->end[0].qp);
}

static void poll_what_is_gone(verbs_two *two) {
  struct ibv_wc wc;
  struct ibv_cq *cq = v->create_cq(two->context, 4, NULL, two->channel, 0);
  int (*poll_cq)(struct ibv_cq *, int, struct ibv_wc *) =
      two->context->ops.poll_cq;
  (void)v->destroy_cq(cq);
  (void)poll_cq(cq, 1, &wc);
}

static void run_over(verbs_two *two) {
  verbs_end *a = &two->end[0];
  (void)to_err(a);
  for (int i = 0; i < 100; i++) {
    struct ibv_qp_init_attr as = {.send_cq = a->cq,
                                  .recv_cq = a->cq,
                                  .cap = {16, 16, 2, 1, 0},
                                  .qp_type = IBV_QPT_RC};
    verbs_end more = *a;
    more.qp = v->create_qp(two->pd, &as);
    (void)to_init(&more, 0);
    (void)to_err(&more);
    for (int k = 0; k < 16; k++) (void)post_buffer(&more, part_of(a, 0, 1));
  }
  nanosleep(&(struct timespec){.tv_sec = 5}, NULL);
}

static void change_what_is_sent(verbs_two *two) {
  verbs_end *a = &two->end[0], *b = &two->end[1];
  two_connect(two, all_access);
  (void)post_message(a, part_of(a, 0, 100), IBV_SEND_SIGNALED);
  a->memory[50]++;
  (void)post_buffer(b, part_of(b, 0, 100));
  (void)wait_for(a);
}

static void never_acknowledge(verbs_two *two) {
  struct ibv_cq *cq;
  void *user;
  verbs_end *a = &two->end[0];
  (void)to_err(a);
  (void)ibv_req_notify_cq(a->cq, 0);
  (void)post_buffer(a, part_of(a, 0, 9));
  (void)v->get_cq_event(two->channel, &cq, &user);
  (void)v->destroy_qp(a->qp);
  (void)v->destroy_cq(a->cq);
}

static const struct mistake {
  const char *text;
  void (*make)(verbs_two *two);
} mistakes[] = {
    {"ibv_destroy_qp of a queue pair that is not there", destroy_twice},
    {"ibv_poll_cq of a completion queue that is not there", poll_what_is_gone},
    {"a completion queue of 64 entries ran over", run_over},
    {"was written to before it was over", change_what_is_sent},
    {"would wait for events without end", never_acknowledge},
};

/* ---- shared receive queues ------------------------------------------------ */

static int post_shared(struct ibv_srq *srq, const verbs_end *end, uint64_t id) {
  struct ibv_sge part = part_of(end, 100 * id, 100);
  struct ibv_recv_wr wr = {.wr_id = id, .sg_list = &part, .num_sge = 1}, *bad;
  return ibv_post_srq_recv(srq, &wr, &bad);
}

/* Both ends receive into the buffers of one queue, which reports that few are
 * left, once, and accepts no more than it has room for. */
static void buffers_may_be_shared(void **state) {
  (void)state;
  verbs_two two;
  two_make(&two);
  struct ibv_srq_init_attr room = {.attr = {.max_wr = 4, .max_sge = 1}};
  struct ibv_srq *srq = v->create_srq(two.pd, &room);
  assert_non_null(srq);
  for (int i = 0; i < 2; i++) {
    verbs_end *end = &two.end[i];
    struct ibv_qp_init_attr as = {.send_cq = end->cq,
                                  .recv_cq = end->cq,
                                  .srq = srq,
                                  .cap = {16, 0, 2, 1, 64},
                                  .qp_type = IBV_QPT_RC};
    assert_int_equal(v->destroy_qp(end->qp), 0);
    end->qp = v->create_qp(two.pd, &as);
    assert_non_null(end->qp);
  }
  assert_int_equal(v->destroy_srq(srq), EBUSY);
  two_connect(&two, all_access);
  verbs_end *a = &two.end[0], *b = &two.end[1];
  assert_int_equal(post_buffer(a, part_of(a, 0, 9)), EINVAL);
  for (uint64_t id = 1; id <= 4; id++)
    assert_int_equal(post_shared(srq, a, id), 0);
  assert_int_equal(post_shared(srq, a, 5), ENOMEM);
  struct ibv_srq_attr low = {.srq_limit = 3};
  assert_int_equal(v->modify_srq(srq, &low, IBV_SRQ_LIMIT), 0);
  b->memory[0] = 77;
  for (uint64_t id = 1; id <= 2; id++) {
    verbs_end *from = id == 1 ? b : a, *to = id == 1 ? a : b;
    assert_int_equal(post_message(from, part_of(b, 0, 60), 0), 0);
    struct ibv_wc wc = wait_for(to);
    assert_int_equal(wc.wr_id, id);
    assert_int_equal(wc.qp_num, to->qp->qp_num);
    assert_int_equal(a->memory[100 * id], 77);
  }
  assert_int_equal(post_shared(srq, a, 3), 0);
  struct ibv_async_event event;
  assert_int_equal(v->get_async_event(two.context, &event), 0);
  assert_int_equal(event.event_type, IBV_EVENT_SRQ_LIMIT_REACHED);
  assert_ptr_equal(event.element.srq, srq);
  v->ack_async_event(&event);
  for (int i = 0; i < 2; i++) assert_int_equal(v->destroy_qp(two.end[i].qp), 0);
  two.end[0].qp = two.end[1].qp = NULL;
  assert_int_equal(v->destroy_srq(srq), 0);
  two_free(&two);
}

/* A longer completion queue keeps its entries; a shorter one must have room. */
static void completion_queues_change_their_length(void **state) {
  (void)state;
  verbs_two two;
  two_make(&two);
  two_connect(&two, all_access);
  verbs_end *a = &two.end[0], *b = &two.end[1];
  for (int i = 0; i < 3; i++) {
    assert_int_equal(post_buffer(b, part_of(b, 0, 9)), 0);
    assert_int_equal(post_message(a, part_of(a, 0, 9), IBV_SEND_SIGNALED), 0);
    expect(a, 8, IBV_WC_SUCCESS);
  }
  nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
  assert_int_equal(v->resize_cq(b->cq, 2), EINVAL);
  assert_int_equal(v->resize_cq(b->cq, 1 << 30), EINVAL);
  assert_int_equal(v->resize_cq(b->cq, 1000), 0);
  assert_int_equal(b->cq->cqe, 1000);
  for (int i = 0; i < 3; i++) expect(b, 7, IBV_WC_SUCCESS);
  two_free(&two);
}

static void mistake_in_child(void (*make)(verbs_two *two), int out) {
  verbs_two two;
  alarm(60);
  dup2(out, STDERR_FILENO);
  signal(SIGABRT, SIG_DFL); /* avoids a sanitizer's report */
  two_make(&two);
  make(&two);
  _exit(0);
}

static void mistakes_end_the_process(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof mistakes / sizeof mistakes[0]; i++) {
    char said[400] = "";
    int out[2], status;
    assert_int_equal(pipe(out), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) mistake_in_child(mistakes[i].make, out[1]);
    close(out[1]);
    FILE *in = fdopen(out[0], "r");
    assert_non_null(in);
    (void)!fread(said, 1, sizeof said - 1, in);
    fclose(in);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (strstr(said, mistakes[i].text) == NULL)
      fail_msg("'%s' instead of '%s'", said, mistakes[i].text);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(messages_arrive),
      cmocka_unit_test(inline_data_is_copied),
      cmocka_unit_test(writes_need_a_key),
      cmocka_unit_test(reads_need_a_key),
      cmocka_unit_test(more_reads_than_the_peer_serves_are_an_error),
      cmocka_unit_test(local_keys_are_checked),
      cmocka_unit_test(messages_fit_their_buffer),
      cmocka_unit_test(states_come_in_order),
      cmocka_unit_test(errors_flush_both_queues),
      cmocka_unit_test(a_peer_that_is_gone_shows),
      cmocka_unit_test(queues_have_room_for_so_many),
      cmocka_unit_test(only_what_comes_later_is_told),
      cmocka_unit_test(what_is_used_stays),
      cmocka_unit_test(buffers_may_be_shared),
      cmocka_unit_test(completion_queues_change_their_length),
      cmocka_unit_test(mistakes_end_the_process),
  };
  gloo_error error;
  v = gli_verbs_open(&error);
  if (v == NULL) return puts(error.message), 1;
  return cmocka_run_group_tests_name("standin", tests, NULL, NULL);
}
