#include "ibv_device.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "transport_ibv/ibv.h"

#if defined(__SANITIZE_ADDRESS__)
#define DEVICE_POISONS 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define DEVICE_POISONS 1
#endif
#endif
#ifdef DEVICE_POISONS
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(at, bytes) ((void)(at), (void)(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(at, bytes) ((void)(at), (void)(bytes))
#endif

/* ---- rules of the stand-in ----------------------------------------------- */

static struct {
  uint64_t now_ns, random;
  standin_call fails; /* STANDIN_N_CALLS: none */
  unsigned after;     /* calls of that kind until it fails */
  bool failed;        /* this input has requested a failure */
} rules;

void standin_die(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  (void)vfprintf(stderr, format, arguments);
  va_end(arguments);
  fuzz_check(false, "the device is used as verbs allow");
  abort();
}

int standin_happens(standin_call call) {
  static const int codes[STANDIN_N_CALLS] = {
#define STANDIN_CALL(name, code) code,
      STANDIN_CALLS(STANDIN_CALL)
#undef STANDIN_CALL
  };
  if (call != rules.fails || --rules.after > 0) return 0;
  rules.fails = STANDIN_N_CALLS;
  return codes[call];
}

int standin_enter(standin_call call) {
  pthread_mutex_lock(&standin_lock);
  return standin_happens(call);
}

void standin_leave(void) {
  pthread_mutex_unlock(&standin_lock);
}

bool standin_spares(void) {
  return rules.failed;
}

/* The peer may send more frames than there are buffers. */
bool standin_is_strict(void) {
  return false;
}

bool standin_is_prompt(void) {
  return true;
}

unsigned standin_random(unsigned below) {
  rules.random ^= rules.random << 13;
  rules.random ^= rules.random >> 7;
  rules.random ^= rules.random << 17;
  return (unsigned)(rules.random >> 32) % below;
}

uint64_t standin_now_ns(void) {
  return rules.now_ns;
}

/* No call is slow. */
void standin_slow(int call, unsigned long ms) {
  (void)call;
  (void)ms;
}

/* ---- buffers ------------------------------------------------------------- */

/* Makes receive buffers writable again: device_poll_cq poisons them behind the
 * bytes of a frame, so that AddressSanitizer reports a read of older bytes. */
static void buffers_open(const struct ibv_recv_wr *wr) {
  for (; wr != NULL; wr = wr->next)
    ASAN_UNPOISON_MEMORY_REGION((void *)(uintptr_t)wr->sg_list[0].addr,
                                wr->sg_list[0].length);
}

static int device_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr,
                            struct ibv_recv_wr **bad) {
  buffers_open(wr);
  return standin_post_recv(qp, wr, bad);
}

static int device_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr,
                                struct ibv_recv_wr **bad) {
  buffers_open(wr);
  return standin_post_srq_recv(srq, wr, bad);
}

static int device_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc) {
  int got = standin_poll_cq(cq, n, wc);
  for (int i = 0; cq->channel != NULL && i < got; i++) {
    if (wc[i].opcode != IBV_WC_RECV || wc[i].status != IBV_WC_SUCCESS) continue;
    const gli_ibv_slot *slot = (gli_ibv_slot *)(uintptr_t)(wc[i].wr_id - 1);
    ASAN_POISON_MEMORY_REGION(slot->memory + GLI_IBV_FRAME_AT + wc[i].byte_len,
                              GLI_IBV_FRAME_MAX - wc[i].byte_len);
  }
  return got;
}

/* Returns the memory to the library, whether or not the region is
 * deregistered. */
static int device_dereg_mr(struct ibv_mr *mr) {
  ASAN_UNPOISON_MEMORY_REGION(mr->addr, mr->length);
  return ibv_dereg_mr(mr);
}

/* ---- what the library finds in place of libibverbs ------------------------
 */

static int device_query_port(struct ibv_context *context, uint8_t port,
                             struct ibv_port_attr *attributes) {
  return ibv_query_port(context, port,
                        (struct _compat_ibv_port_attr *)attributes);
}

static struct ibv_context *device_open(struct ibv_device *device) {
  struct ibv_context *context = ibv_open_device(device);
  if (context == NULL) return NULL;
  context->ops.post_recv = device_post_recv;
  context->ops.post_srq_recv = device_post_srq_recv;
  context->ops.poll_cq = device_poll_cq;
  return context;
}

const gli_verbs *gli_verbs_open(gloo_error *error) {
  static const gli_verbs verbs = {
      .fork_init = ibv_fork_init,
      .get_device_list = ibv_get_device_list,
      .free_device_list = ibv_free_device_list,
      .open_device = device_open,
      .close_device = ibv_close_device,
      .query_device = ibv_query_device,
      .query_port = device_query_port,
      .query_gid_ex = _ibv_query_gid_ex,
      .query_pkey = ibv_query_pkey,
      .get_async_event = ibv_get_async_event,
      .ack_async_event = ibv_ack_async_event,
      .event_type_str = ibv_event_type_str,
      .wc_status_str = ibv_wc_status_str,
      .alloc_pd = ibv_alloc_pd,
      .dealloc_pd = ibv_dealloc_pd,
      .reg_mr = ibv_reg_mr,
      .dereg_mr = device_dereg_mr,
      .create_comp_channel = ibv_create_comp_channel,
      .destroy_comp_channel = ibv_destroy_comp_channel,
      .create_cq = ibv_create_cq,
      .resize_cq = ibv_resize_cq,
      .destroy_cq = ibv_destroy_cq,
      .get_cq_event = ibv_get_cq_event,
      .ack_cq_events = ibv_ack_cq_events,
      .create_srq = ibv_create_srq,
      .modify_srq = ibv_modify_srq,
      .destroy_srq = ibv_destroy_srq,
      .create_qp = ibv_create_qp,
      .modify_qp = ibv_modify_qp,
      .destroy_qp = ibv_destroy_qp,
  };
  (void)error;
  return &verbs;
}

/* ---- threads ------------------------------------------------------------- */

enum { THREADS_MAX = 16 };
static struct {
  void *(*run)(void *argument);
  void *argument;
} threads[THREADS_MAX];
static int n_threads;

/* In place of gli_thread_start in ibv_jobs.c. */
int device_thread_start(void *(*run)(void *argument), void *argument);
int device_thread_start(void *(*run)(void *argument), void *argument) {
  fuzz_check(n_threads < THREADS_MAX, "few threads run at once");
  threads[n_threads].run = run;
  threads[n_threads++].argument = argument;
  return 0;
}

void device_run_threads(void) {
  while (n_threads > 0) {
    n_threads--;
    (void)threads[n_threads].run(threads[n_threads].argument);
  }
}

/* ---- for the target ------------------------------------------------------ */

void device_begin(void) {
  memset(&rules, 0, sizeof rules);
  rules.fails = STANDIN_N_CALLS;
  rules.random = UINT64_C(88172645463325252);
  rules.now_ns = 1;
}

void device_fail(standin_call call, unsigned nth) {
  rules.fails = call;
  rules.after = nth;
  rules.failed = true;
}

void device_pass(uint64_t ns) {
  rules.now_ns += ns;
  pthread_mutex_lock(&standin_lock);
  standin_wire_finish();
  pthread_mutex_unlock(&standin_lock);
}

void device_heal(void) {
  rules.fails = STANDIN_N_CALLS;
}

uint64_t device_now_ns(void) {
  return rules.now_ns;
}

void device_end(void) {
  device_run_threads(); /* some outlast the transport */
  fuzz_check(standin_objects() == 0, "the device has nothing left");
}
