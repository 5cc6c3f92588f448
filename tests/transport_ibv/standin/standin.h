/* A libibverbs for tests: one RDMA device, whose queue pairs are all of this
 * process. A thread is the wire: it moves what was posted in pieces, late, and
 * in a random order of queue pairs; whatever the standard leaves open it does
 * one way or the other. A caller's mistake that real hardware forgives now and
 * then ends the process with a sentence.
 *
 * Environment:
 *   STANDIN_FAIL=NAME:N[+][:ERRNO]  the Nth call of that name fails (+: and all
 *       after it); "completion": the Nth work request that sends;
 * "event:device_fatal@N" and "event:qp_fatal@N": an event comes after N of
 * those STANDIN_COUNT=FILE  at exit, how often each was called: "NAME N" lines
 *   STANDIN_SEED=N      of what is random
 *   STANDIN_PROMPT=1    what is posted arrives at once, within the call, and no
 *       thread runs: one that drives both ends polls equally often in every run
 *   STANDIN_STRICT=1    no message may find that no buffer is there for it, and
 *       at exit nothing may be left over, and something must have been sent */
#ifndef TESTS_TRANSPORT_IBV_STANDIN_H
#define TESTS_TRANSPORT_IBV_STANDIN_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>

/* Macros of the header, which stand for what the library has. */
#undef ibv_query_port
#undef ibv_reg_mr

/* ---- calls and faults (faults.c) ----------------------------------------- */

/* Names, and how each fails. */
#define STANDIN_CALLS(_)         \
  _(fork_init, EINVAL)           \
  _(get_device_list, ENOSYS)     \
  _(free_device_list, 0)         \
  _(get_device_name, ENODEV)     \
  _(open_device, EMFILE)         \
  _(close_device, EIO)           \
  _(query_port, EIO)             \
  _(query_gid_ex, ENODATA)       \
  _(query_pkey, EIO)             \
  _(get_async_event, EIO)        \
  _(ack_async_event, 0)          \
  _(event_type_str, 0)           \
  _(wc_status_str, 0)            \
  _(alloc_pd, ENOMEM)            \
  _(dealloc_pd, EBUSY)           \
  _(reg_mr, ENOMEM)              \
  _(dereg_mr, EBUSY)             \
  _(create_comp_channel, EMFILE) \
  _(destroy_comp_channel, EBUSY) \
  _(create_cq, ENOMEM)           \
  _(destroy_cq, EBUSY)           \
  _(get_cq_event, EIO)           \
  _(ack_cq_events, 0)            \
  _(create_qp, ENOMEM)           \
  _(modify_qp, EINVAL)           \
  _(destroy_qp, EBUSY)           \
  _(post_send, ENOMEM)           \
  _(post_recv, ENOMEM)           \
  _(poll_cq, EIO)                \
  _(req_notify_cq, EIO)          \
  _(completion, EIO)             \
  _(device_fatal, EIO)           \
  _(qp_fatal, EIO)

typedef enum standin_call {
#define STANDIN_CALL(name, code) STANDIN_##name,
  STANDIN_CALLS(STANDIN_CALL)
#undef STANDIN_CALL
      STANDIN_N_CALLS
} standin_call;

/* Take the lock that is over all, and count a call. Other than 0: it is to fail
 * with this. */
int standin_enter(standin_call call);
void standin_leave(void);
/* The same for what happens under the lock anyway. */
int standin_happens(standin_call call);
/* A call of that name is to fail, or has: what it did not destroy is left. */
bool standin_spares(void);
bool standin_is_strict(void);
bool standin_is_prompt(void);

/* For tests, by dlsym: how often that has happened so far. */
unsigned long standin_calls(const char *name);

/* Say it, and abort. */
_Noreturn void standin_die(const char *format, ...)
    __attribute__((format(printf, 1, 2)));

/* 0 to below - 1. */
unsigned standin_random(unsigned below);
uint64_t standin_now_ns(void);

/* ---- objects (objects.c) ------------------------------------------------- */

typedef enum standin_kind {
  STANDIN_LIST,
  STANDIN_CONTEXT,
  STANDIN_PD,
  STANDIN_MR,
  STANDIN_CHANNEL,
  STANDIN_CQ,
  STANDIN_QP,
  STANDIN_KINDS
} standin_kind;

typedef struct standin_object {
  struct standin_object *next;
  standin_kind kind;
  void *self;
  void *context;
} standin_object;

extern pthread_mutex_t standin_lock;
extern standin_object *standin_first; /* of all that there are */

void standin_add(standin_object *object, standin_kind kind, void *self,
                 void *context);
/* Ends the process if there is none such. */
void standin_check(standin_kind kind, const void *self, const char *call);
void standin_remove(standin_kind kind, const void *self);
/* Something is left that was to be destroyed before. */
void standin_count_leak(standin_kind kind);

void standin_forget(void);

/* For tests, by dlsym: how many there are, or were left. */
int standin_objects(void);

/* ---- the device ---------------------------------------------------------- */

typedef struct standin_device {
  struct ibv_device base;
  int users; /* lists and contexts */
} standin_device;

typedef struct standin_event {
  struct ibv_async_event event;
  struct standin_event *next;
} standin_event;

typedef struct standin_context {
  struct ibv_context base;
  standin_object object;
  standin_event *events;
  bool dead; /* after device_fatal */
} standin_context;

typedef struct standin_pd {
  struct ibv_pd base;
  standin_object object;
} standin_pd;

typedef struct standin_mr {
  struct ibv_mr base;
  standin_object object;
  int access;
  bool orphan; /* it was not let go, and the caller has forgotten it */
} standin_mr;

typedef struct standin_channel {
  struct ibv_comp_channel base;
  standin_object object;
} standin_channel;

extern const union ibv_gid standin_gids[];
enum { STANDIN_GIDS = 2, STANDIN_GID_ROOM = 4, STANDIN_PKEYS = 2 };

/* Raise an event; `qp` NULL: of the device. */
void standin_raise(standin_context *context, enum ibv_event_type type,
                   struct ibv_qp *qp);
/* No event of that one is to come any more; waits until all are acknowledged.
 */
void standin_purge_events(struct ibv_qp *qp);
/* Take one off an eventfd that counts, if there is one. */
void standin_uncount(int fd);
/* The memory that a key stands for; NULL: not all of this. */
standin_mr *standin_find_mr(const struct ibv_pd *pd, uint32_t key,
                            uint64_t address, size_t bytes, int access);

/* ---- completion queues (completions.c) ----------------------------------- */

typedef struct standin_qp standin_qp;

typedef struct standin_entry {
  struct ibv_wc wc;
  standin_qp *qp; /* NULL: destroyed */
  bool sends;
  uint32_t number; /* of the work request */
} standin_entry;

typedef struct standin_cq {
  struct ibv_cq base;
  standin_object object;
  standin_entry *entries; /* a ring of base.cqe */
  uint32_t head, tail;
  bool armed;
  unsigned told, taken, acknowledged; /* events */
} standin_cq;

void standin_complete(struct ibv_cq *cq, const standin_entry *entry);
/* The queue pair is going: its entries do, too, or stay without it. */
void standin_clean(struct ibv_cq *cq, const standin_qp *qp);

int standin_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc);
int standin_req_notify_cq(struct ibv_cq *cq, int solicited_only);

/* ---- queue pairs (pairs.c, post.c) --------------------------------------- */

enum {
  STANDIN_PARTS = 4,
  STANDIN_INLINE = 256,
  STANDIN_WORK_MAX = 1024,
  STANDIN_CQE_MAX = 32768
};

/* A work request. */
typedef struct standin_work {
  uint64_t id;
  enum ibv_wr_opcode opcode; /* of those that send */
  unsigned flags;
  struct ibv_sge part[STANDIN_PARTS];
  int n_parts;
  uint8_t inlined[STANDIN_INLINE];
  size_t bytes;
  uint64_t remote;
  uint32_t rkey;

  uint64_t sum; /* of what it reads, which must stay so */
  size_t moved;
  bool doomed;
  uint64_t due_ns;   /* not before; 0: at once */
  uint64_t until_ns; /* the last try; 0: none has failed */
  unsigned refused;  /* for want of a buffer */
  enum ibv_wc_status status;
} standin_work;

/* In order: all before `free` are polled, before `over` completed, before
 * `moved` delivered, before `posted` posted. */
typedef struct standin_queue {
  standin_work *work;
  uint32_t room, parts;
  uint32_t free, over, moved, posted;
} standin_queue;

struct standin_qp {
  struct ibv_qp base;
  standin_object object;
  standin_queue send, receive;
  bool signals_all;
  uint32_t inline_max;
  struct ibv_qp_attr is; /* all that modify_qp was told */
};

standin_work *standin_work_at(standin_queue *queue, uint32_t number);
/* Into the error state: what is posted will be flushed. */
void standin_break(standin_qp *qp);
standin_qp *standin_find_qp(uint32_t number);

int standin_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr,
                      struct ibv_send_wr **bad);
int standin_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr,
                      struct ibv_recv_wr **bad);

/* ---- the wire (wire.c, deliver.c) ---------------------------------------- */

/* Not under the lock. 0, or why not. */
int standin_wire_start(void);
void standin_wire_stop(void);
void standin_wire_forget(void); /* in a forked child */
/* There is something for it to do. Under the lock. */
void standin_wire_wake(void);
/* Do now all that it has to do. Under the lock. */
void standin_wire_finish(void);

/* One step of the queue pair's: delivers a piece, or tells that one has been.
 * False: there is none now; `due_ns` becomes earlier if there is one later. */
bool standin_step(standin_qp *qp, uint64_t *due_ns);
/* Of what a work request reads. False: it may not. */
bool standin_sum(const standin_qp *qp, const standin_work *work, uint64_t *sum);
/* Messages that were delivered, and tries that found no buffer. */
extern unsigned long standin_delivered, standin_refused;

#endif
