/* A libibverbs for tests. All queue pairs of its RDMA devices belong to this
 * process. A thread acts as the network: it moves posted data late, in pieces,
 * and in a random order of queue pairs. Where the standard leaves a choice it chooses at
 * random. A mistake of the caller that real hardware may forgive ends the
 * process with a message.
 *
 * Environment:
 *   STANDIN_FAIL=NAME:N[+][:ERRNO]  the Nth call of that name fails (+: and all
 *       later ones). "completion" is the Nth send work request.
 *       "event:device_fatal@N" and "event:qp_fatal@N" raise an event after N
 *       send work requests. "qp_silent:N" fails the queue pair of the Nth without
 *       one, and "qp_drained:N" its peer, with IBV_EVENT_QP_LAST_WQE_REACHED
 *       only.
 *   STANDIN_MEMLOCK=BYTES  a device context locks no more than that, for
 *       registered memory and queues
 *   STANDIN_PORTS=NAME[:KEY=VALUE,...][;NAME...]  the devices, of one port each;
 *       by default "standin0", with 127.0.0.1 on Ethernet. The keys: link
 *       (ethernet, infiniband, or anything else), mtu, lid, subnet (0 to 255),
 *       router (its LID), grh (1: required), speed and width (as verbs encode
 *       them), inline (bytes), reads (at once per queue pair), vectors, cqe and srq
 *       (most entries of a completion queue and of a shared receive queue;
 *       srq=0: it has none), gid (IPv4 address, or ADDRESS/INTERFACE, also
 *       several), sysfs (the folder that has NAME/device/...); delay
 *       (microseconds that each piece of a read takes), rtr (error of the change
 *       to RTR), deny (registrations of more bytes permit no reads of peers),
 *       loses and dies (after reads of that many bytes the port drops
 *       everything, or the device is gone)
 *   STANDIN_UNEVEN=1    every second list of devices lacks the second device
 *   STANDIN_ONE_EACH=1  each list of devices has one of them, in turn, so that
 *       ranks of a process have different ports
 *   STANDIN_MTU=BYTES   the network drops longer packets
 *   STANDIN_AWAY=N:MS   the network drops everything for MS milliseconds after
 *       the Nth send work request
 *   STANDIN_RTR=MS[:ERRNO]  the change to RTR takes MS milliseconds, and fails
 *   STANDIN_REG=MS      to register memory takes MS milliseconds
 *   STANDIN_COUNT=FILE  writes the number of calls at exit: "NAME N" lines
 *   STANDIN_SEED=N      seeds the random choices
 *   STANDIN_PROMPT=1    data arrives at once, within the posting call, and no
 *       thread runs: a thread that drives both ends polls equally often in
 *       every run
 *   STANDIN_STRICT=1    every message must find a buffer; at exit nothing may
 *       be left, and something must have been sent; "exit": only the latter two */
#ifndef TESTS_TRANSPORT_IBV_STANDIN_H
#define TESTS_TRANSPORT_IBV_STANDIN_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>

/* Undefine macros of the header, which hide the library's functions. */
#undef ibv_query_port
#undef ibv_reg_mr

/* ---- calls and faults (faults.c) ----------------------------------------- */

/* The calls, and how each fails. */
#define STANDIN_CALLS(_)         \
  _(fork_init, EINVAL)           \
  _(get_device_list, ENOSYS)     \
  _(free_device_list, 0)         \
  _(get_device_name, ENODEV)     \
  _(open_device, EMFILE)         \
  _(close_device, EIO)           \
  _(query_device, EIO)           \
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
  _(resize_cq, ENOMEM)           \
  _(destroy_cq, EBUSY)           \
  _(get_cq_event, EIO)           \
  _(ack_cq_events, 0)            \
  _(create_srq, ENOMEM)          \
  _(modify_srq, EINVAL)          \
  _(destroy_srq, EBUSY)          \
  _(create_qp, ENOMEM)           \
  _(modify_qp, EINVAL)           \
  _(destroy_qp, EBUSY)           \
  _(post_send, ENOMEM)           \
  _(post_recv, ENOMEM)           \
  _(post_srq_recv, ENOMEM)       \
  _(poll_cq, EIO)                \
  _(req_notify_cq, EIO)          \
  _(completion, EIO)             \
  _(device_fatal, EIO)           \
  _(qp_fatal, EIO)               \
  _(qp_silent, EIO)              \
  _(qp_drained, EIO)

typedef enum standin_call {
#define STANDIN_CALL(name, code) STANDIN_##name,
  STANDIN_CALLS(STANDIN_CALL)
#undef STANDIN_CALL
      STANDIN_N_CALLS
} standin_call;

/* Takes the global lock and counts a call. Returns 0, or the code that the call
 * must fail with. */
int standin_enter(standin_call call);
void standin_leave(void);
/* Like standin_enter, but for events; the caller holds the lock. */
int standin_happens(standin_call call);
/* Returns true if a call of that name is to fail, or has failed: objects that
 * it did not destroy are no leaks. */
bool standin_spares(void);
bool standin_is_strict(void);
bool standin_is_prompt(void);

/* Returns the number of calls so far; for tests, through dlsym. */
unsigned long standin_calls(const char *name);

/* The slow calls, as bits. */
enum { STANDIN_RTR = 1, STANDIN_REG = 2 };
/* From now on these slow calls wait until none is held any more; for tests,
 * through dlsym. */
void standin_hold(int calls);
/* Returns the number of calls that wait; likewise. */
int standin_held(void);
/* Called without the lock: waits for MS milliseconds, or while held. */
void standin_slow(int call, unsigned long ms);

/* Prints a message and aborts. */
_Noreturn void standin_die(const char *format, ...)
    __attribute__((format(printf, 1, 2)));

/* Returns a random number from 0 to below - 1. */
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
  STANDIN_SRQ,
  STANDIN_QP,
  STANDIN_KINDS
} standin_kind;

typedef struct standin_object {
  struct standin_object *next, *prev; /* of the kind */
  struct standin_object *next_found;  /* next of its hash */
  standin_kind kind;
  void *self;
  void *context;
} standin_object;

extern pthread_mutex_t standin_lock;
extern standin_object *standin_first[STANDIN_KINDS]; /* lists of all objects */

void standin_add(standin_object *object, standin_kind kind, void *self,
                 void *context);
/* Ends the process if the object does not exist. */
void standin_check(standin_kind kind, const void *self, const char *call);
void standin_remove(standin_kind kind, const void *self);
/* Counts an object that should have been destroyed before. */
void standin_count_leak(standin_kind kind);

void standin_forget(void);

/* Returns the number of objects that exist or were leaked; for tests, through
 * dlsym. */
int standin_objects(void);

/* ---- the device ---------------------------------------------------------- */

typedef struct standin_port standin_port;

typedef struct standin_device {
  struct ibv_device base;
  const standin_port *port;
  int users; /* device lists and contexts */
} standin_device;

typedef struct standin_event {
  struct ibv_async_event event;
  struct standin_event *next;
} standin_event;

typedef struct standin_context {
  struct ibv_context base;
  standin_object object;
  standin_event *events;
  bool dead;     /* after device_fatal */
  size_t locked; /* bytes */
} standin_context;

typedef struct standin_pd {
  struct ibv_pd base;
  standin_object object;
} standin_pd;

typedef struct standin_mr {
  struct ibv_mr base;
  standin_object object;
  int access;
  bool orphan; /* not destroyed, and forgotten by the caller */
} standin_mr;

typedef struct standin_channel {
  struct ibv_comp_channel base;
  standin_object object;
} standin_channel;

enum { STANDIN_GID_ROOM = 4, STANDIN_PKEYS = 2, STANDIN_PORTS_MAX = 8 };

/* Raises an event of a queue pair or shared receive queue, or of the device if
 * `of` is NULL. */
void standin_raise(standin_context *context, enum ibv_event_type type,
                   void *of);
/* Removes the pending events of an object. */
void standin_drop_events(standin_context *context, const void *of);
/* Counts memory that a context locks. Returns false if it exceeds the limit. */
bool standin_locks(struct ibv_context *context, size_t bytes);
void standin_unlocks(struct ibv_context *context, size_t bytes);
/* Returns the most that a context has locked so far; for tests, through
 * dlsym. */
size_t standin_locked(void);
/* Waits until all events of `qp` that were taken are acknowledged, and removes
 * its pending ones. */
void standin_purge_events(struct ibv_qp *qp);
/* Takes one from an eventfd counter, if it is not 0. */
void standin_uncount(int fd);
/* Returns the memory region of a key, or NULL if it does not cover the
 * range. */
standin_mr *standin_find_mr(const struct ibv_pd *pd, uint32_t key,
                            uint64_t address, size_t bytes, int access);

/* ---- completion queues (completions.c) ----------------------------------- */

typedef struct standin_qp standin_qp;
typedef struct standin_srq standin_srq;

typedef struct standin_entry {
  struct ibv_wc wc;
  standin_qp *qp;   /* NULL: destroyed */
  standin_srq *srq; /* NULL if the queue pair has none, or it is destroyed */
  bool sends;
  uint32_t number; /* number of the work request */
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
/* Called when the queue pair is destroyed: removes its entries, or detaches
 * them. */
void standin_clean(struct ibv_cq *cq, const standin_qp *qp);

int standin_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc);
int standin_req_notify_cq(struct ibv_cq *cq, int solicited_only);

/* ---- queue pairs (pairs.c, post.c) --------------------------------------- */

enum {
  STANDIN_PARTS = 4,
  STANDIN_INLINE = 256,
  STANDIN_WORK_MAX = 1024,
  STANDIN_CQE_MAX = 32768,
  STANDIN_SRQ_MAX = 16384,
  STANDIN_ENTRY_BYTES = 64 /* locked memory of a queue entry */
};

/* A work request. */
typedef struct standin_work {
  uint64_t id;
  enum ibv_wr_opcode opcode; /* of send requests */
  unsigned flags;
  struct ibv_sge part[STANDIN_PARTS];
  int n_parts;
  uint8_t inlined[STANDIN_INLINE];
  size_t bytes;
  uint64_t remote;
  uint32_t rkey;

  uint64_t sum; /* checksum of the source, which must not change */
  size_t moved;
  bool doomed;
  uint64_t due_ns;   /* earliest time; 0: at once */
  uint64_t until_ns; /* last time to retry; 0: no failure yet */
  unsigned refused;  /* number of times without a buffer */
  enum ibv_wc_status status;
} standin_work;

/* Counters, in this order: all before `free` are polled, before `over`
 * completed, before `moved` delivered, before `posted` posted. */
typedef struct standin_queue {
  standin_work *work;
  uint32_t room, parts;
  uint32_t free, over, moved, posted;
} standin_queue;

/* A shared receive queue: all before `taken` belong to queue pairs. */
struct standin_srq {
  struct ibv_srq base;
  standin_object object;
  standin_work *work;
  uint32_t room, parts, taken, posted;
  uint32_t under_way; /* requests not polled yet */
  uint32_t limit;     /* raises an event below this; 0: none */
};

struct standin_qp {
  struct ibv_qp base;
  standin_object object;
  standin_srq *srq;            /* NULL: none */
  standin_queue send, receive; /* with an SRQ: one buffer at a time */
  size_t locked;
  bool signals_all;
  uint32_t inline_max;
  struct ibv_qp_attr is; /* all attributes set by modify_qp */
  standin_qp *next_number;
  bool served; /* by the wire */
};

standin_work *standin_work_at(standin_queue *queue, uint32_t number);
/* Takes the parts of a work request. Returns an error code. */
int standin_parts_take(standin_work *work, const struct ibv_sge *parts, int n,
                       uint32_t most);
/* Returns true if a buffer is there for the next message. */
bool standin_buffer_ready(standin_qp *qp);
int standin_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr,
                          struct ibv_recv_wr **bad);
/* Enters the error state: posted work requests will be flushed. */
void standin_break(standin_qp *qp);
standin_qp *standin_find_qp(uint32_t number);
/* Removes one queue pair from the table of numbers; a forked child removes all. */
void standin_qp_gone(standin_qp *qp);
void standin_qps_forget(void);

/* ---- ports and the network (ports.c) -------------------------------------- */

struct standin_port {
  char name[IBV_SYSFS_NAME_MAX], sysfs[128];
  uint8_t link, speed, width;
  bool grh; /* packets must have a GRH */
  enum ibv_mtu mtu;
  uint16_t lid, router;
  uint32_t inline_max, cqe_max, srq_max;
  union ibv_gid gid[STANDIN_GID_ROOM];
  uint32_t interface[STANDIN_GID_ROOM]; /* index of the GID's interface */
  uint32_t n_gids, given_gids;
  uint8_t reads;
  int vectors;
  int rtr;
  unsigned long delay_us;
  size_t deny, loses, dies; /* SIZE_MAX: never */
  size_t moved;             /* bytes of reads and writes */
};

static inline size_t standin_mtu_bytes(enum ibv_mtu mtu) {
  return (size_t)128 << mtu;
}

int standin_ports(void);
/* Returns the port of index `i`, or NULL beyond the last one. */
const standin_port *standin_port_at(int i);
const standin_port *standin_port_of(const struct ibv_context *context);
bool standin_lists_one(void);
bool standin_is_uneven(void);

bool standin_address_is_good(const standin_port *port,
                             const struct ibv_ah_attr *to);
/* Returns true if the queue pair's packets come to the port of the other. */
bool standin_reaches(const standin_qp *qp, const standin_qp *peer);
/* Counts send work requests, and loses what STANDIN_AWAY and _MTU say. */
void standin_network_counts(unsigned long sent);
bool standin_network_loses(const standin_qp *qp, size_t bytes);
/* Counts bytes of a read or write, which may be the device's last. */
void standin_port_moves(const standin_qp *qp, size_t bytes);
/* Returns the bytes that a port has read and written; for tests, through
 * dlsym. */
unsigned long standin_moved(const char *name);
/* Wait as long as the call takes. Returns the code of its failure. */
int standin_rtr_waits(const struct ibv_context *context);
void standin_reg_waits(void);

int standin_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr,
                      struct ibv_send_wr **bad);
int standin_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr,
                      struct ibv_recv_wr **bad);

/* ---- the wire (wire.c, deliver.c) ---------------------------------------- */

/* Starts the wire, without the lock. Returns 0 or an error code. */
int standin_wire_start(void);
void standin_wire_stop(void);
void standin_wire_forget(void); /* in a forked child */
/* Wakes the wire, which has work. The caller holds the lock. */
void standin_wire_wake(void);
/* Likewise, for this queue pair; at its end the wire drops it. */
void standin_wire_serve(standin_qp *qp);
void standin_wire_drop(standin_qp *qp);
/* Does all pending work now. The caller holds the lock. */
void standin_wire_finish(void);

/* Runs one step of the queue pair: delivers a piece, or completes a work
 * request. Returns false if there is nothing to do now; `due_ns` becomes
 * earlier if there will be. */
bool standin_step(standin_qp *qp, uint64_t *due_ns);
/* Computes the checksum of the source of a work request. Returns false if it
 * must not be read. */
bool standin_sum(const standin_qp *qp, const standin_work *work, uint64_t *sum);
/* Number of delivered messages, of attempts without a buffer, and of inline
 * sends. */
extern unsigned long standin_delivered, standin_refused, standin_inlined;
/* Largest number of reads at once that a queue pair was given, and the
 * completion vectors in use, as bits. */
extern unsigned long standin_reads, standin_vectors;
/* Returns standin_refused; for tests, through dlsym. */
unsigned long standin_refusals(void);

#endif
