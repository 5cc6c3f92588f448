/* Devices and contexts: the members of a job, and the transport between them.
 *
 * Threads. Any thread may call any function unless its comment documents
 *   otherwise. Operations of one context need an order that all ranks share, or
 *   a separate tag for each thread that starts some. An object must not be used
 *   while another thread destroys it. Calls on contexts of one device take
 *   turns.
 * Signals. Calls continue after an interruption by a signal (EINTR), and a
 *   signal does not end a wait. The library installs no handlers, except for
 *   the signal in GLOO_TRACE_SIGNAL; its own threads block all signals; its
 *   writes to ranks and stores raise no SIGPIPE. No function may be called in a
 *   handler unless its comment allows it.
 * Cancelling threads. A thread must not be cancelled (pthread_cancel), and must
 *   not leave by longjmp, while it is in a call: it would keep its locks, and
 *   the context could not even be destroyed. Use gloo_context_abort.
 * exec. A program run by exec inherits nothing of the library: descriptors are
 *   closed, and memory and threads do not exist in it. Other ranks consider
 *   this rank dead, unless its contexts were destroyed before.
 *
 * Forked processes. Devices, contexts, groups, operations and stores belong to
 * the process that created them. In a forked child every call on them fails
 * with GLOO_ERR_FORKED and a message that names both processes; functions
 * without a status, such as gloo_context_rank, return the same values as in the
 * parent. Destroying them in the child frees memory and closes the child's
 * descriptors. Nothing that the child does affects the parent or the other
 * ranks: it may exit in any way, run another program, run for any time, and
 * create its own devices, contexts and stores. So data loaders may fork while a
 * job runs, also while other threads are in the library. Two limits apply. The
 * child's descriptors of a TCP store are closed when the store is destroyed in
 * the child, those of devices at once. A child that was forked within a
 * callback of the library (a custom operation, a log sink), or in a signal
 * handler that interrupted a call, must only call _exit or run another program.
 * Custom operations are plain memory; parent and child share memory from
 * gloo_alloc, see memory.h.
 *
 * Example:
 *
 *     gloo_status join(int rank, int size, gloo_store *store,
 *                      gloo_context **context, gloo_error *error) {
 *       gloo_context_options options = GLOO_CONTEXT_OPTIONS_INIT;
 *       options.timeout_ns = INT64_C(60000000000);
 *       return gloo_context_create(rank, size, store, NULL, &options, context,
 *                                  error);
 *     }
 */
#ifndef GLOO_C_CONTEXT_H
#define GLOO_C_CONTEXT_H

#include <stddef.h>
#include <stdint.h>

#include "gloo_c/request.h"
#include "gloo_c/status.h"
#include "gloo_c/store.h"
#include "gloo_c/tls.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gloo_context gloo_context;

/* ---- device -------------------------------------------------------------- */

typedef struct gloo_device_options {
  size_t struct_size;
  /* "auto" (shared memory between ranks on one host, RDMA or TCP between
   * hosts), "tcp", "shm", "ibv" (RDMA) or "inproc" (ranks are threads); NULL:
   * GLOO_TRANSPORT, or "auto". */
  const char *transport;
  /* TCP: name or address to listen on and to publish to the other ranks; NULL:
   * see `interface`. */
  const char *host;
  /* TCP: network interfaces by which other ranks reach this one, such as
   * "eth0", "eth,ib0" or "10.0.0.0/8"; NULL: GLOO_SOCKET_IFNAME, or all. See
   * below. */
  const char *interface;
  /* TCP: port to listen on; 0: a port of GLOO_PORT_RANGE, or any free port. */
  uint16_t port;
  /* TCP: connections per pair of ranks, 1 to 16; 0: 1. */
  int streams;
  /* Nonzero: no helper thread. Operations advance, and sent data is delivered,
   * only while a thread is in a call. */
  int no_helper;
  /* Checksums of all messages: positive: on, negative: off, 0: GLOO_CHECKSUM (1
   * or 0), off if unset. See below. */
  int checksum;
  /* TCP: encryption, the same on all ranks; NULL: from the environment, see
   * tls.h. */
  const gloo_tls_options *tls;
} gloo_device_options;
#define GLOO_DEVICE_OPTIONS_INIT \
  { sizeof(gloo_device_options), 0, 0, 0, 0, 0, 0, 0, 0 }

/* Addresses of a rank for TCP. A rank publishes up to 8 addresses. Peers try
 * the nearest network first, and the next address after 250 ms without a
 * connection; the handshake verifies the rank. With `host` a rank publishes
 * only that address. `interface` is a list of interface names or prefixes of
 * names (an exact name selects only that interface), addresses, and address
 * blocks (10.0.0.0/8, fe80::/10). A leading '=' matches names exactly; a
 * leading '^' excludes the listed interfaces. By default a rank publishes the
 * addresses of all interfaces that are up, except loopback and those of
 * containers and virtual machines, which it publishes if no other exists. With
 * gloo_init the address that reaches MASTER_ADDR comes first, and loopback is
 * the only one if it reaches MASTER_ADDR. A device listens on the published
 * address, or on all addresses of the host if it publishes several.
 * GLOO_BIND_ADDR and GLOO_PUBLISH_ADDR are for hosts behind address
 * translation. */

/* Checksums (CRC32C). A corrupt message fails the context with
 * GLOO_ERR_PROTOCOL on all ranks, and the error names the sender and the
 * receiver; no operation that needed the message returns GLOO_OK. Two ranks use
 * checksums if either enables them. They cover all traffic over TCP and shared
 * memory after the connection is established, and memory from gloo_alloc is
 * copied instead of accessed in place. The option has no effect between threads
 * (inproc). Cost: each side reads the data once more. On two ranks, allreduces
 * of 64 KiB to 64 MiB took 1.2 to 1.5 times as long over TCP on loopback and
 * 1.5 to 2.5 times as long over shared memory; allreduces of 4 bytes took 1.03
 * times as long. */

/* Opens a device: the transport endpoint in this process, and its progress
 * engine. Several contexts may share a device; threads that use contexts of one
 * device take turns, so give each busy thread its own device. NULL options
 * select the defaults.
 * Errors: GLOO_ERR_NOT_FOUND (unknown transport, or no such interface that is
 * up), GLOO_ERR_ADDRESS (the host does not resolve within 30 s, or the ports
 * are in use), GLOO_ERR_INVALID, GLOO_ERR_UNSUPPORTED (the transport does not
 * work on this host, or options of a newer version), GLOO_ERR_NO_MEMORY,
 * GLOO_ERR_IO (out of descriptors or threads), and the TLS errors of tls.h.
 * Threads: any.
 * Ownership: *device is the caller's; options are copied.
 * Cost: a thread that sleeps when idle (none with `no_helper`), and
 * descriptors. */
GLOO_API gloo_status gloo_device_create(const gloo_device_options *options,
                                        gloo_device **device,
                                        gloo_error *error);

/* Closes a device. All its contexts must be destroyed. NULL is allowed.
 * Errors: none.
 * Threads: no other thread may use the device.
 * Ownership: the handle is invalid afterwards. */
GLOO_API void gloo_device_destroy(gloo_device *device);

/* ---- context ------------------------------------------------------------- */

typedef struct gloo_context_options {
  size_t struct_size;
  /* Default timeout of operations, and the time to wait for the other ranks in
   * this call, ns; GLOO_TIMEOUT_DEFAULT: GLOO_TIMEOUT and GLOO_START_TIMEOUT,
   * or 30 s. */
  int64_t timeout_ns;
  /* Identifies the host of this rank: ranks with the same text share a host,
   * for collectives that use the hierarchy. Up to 255 bytes; NULL:
   * GLOO_HOST_ID, or detected. */
  const char *host_id;
  /* Measures links while the context is created, and chooses algorithms by the
   * result: positive: on, negative: off, 0: GLOO_MEASURE (1 or 0); if unset, on
   * in gloo_init and off in gloo_context_create. */
  int measure;
  /* Promises that, between ranks on a shared host, all large buffers of
   * collectives come from gloo_alloc. Algorithms are chosen for such buffers,
   * which gains most if ranks outnumber cores. Other buffers remain correct,
   * but take up to three times as long. Positive: on, negative: off, 0:
   * GLOO_SHARED_BUFFERS (1 or 0), off if unset. */
  int shared_buffers;
  /* Secret by which the ranks of the job authenticate each other: 16 to 64
   * random bytes, the same on all ranks; copied. NULL: from the environment,
   * see docs/environment.md. */
  const void *secret;
  size_t secret_bytes;
  /* Directory for a trace of the last operations if the context fails, see
   * trace.h; NULL: GLOO_TRACE_DIR, or none. */
  const char *trace_directory;
} gloo_context_options;
#define GLOO_CONTEXT_OPTIONS_INIT \
  { sizeof(gloo_context_options), 0, 0, 0, 0, 0, 0, 0 }

/* Creates a context of `size` ranks, which exchange addresses through `store`.
 * All ranks must call it with the same size and with stores that share their
 * keys. A store serves only one context, so give each context its own
 * gloo_store_prefix_create. If `device` is NULL the context owns a device with
 * default options. GLOO_ALGORITHM and the file in GLOO_TUNING_FILE choose
 * algorithms if the call does not; they must be the same on all ranks
 * (GLOO_ERR_MISMATCH), like `shared_buffers` and `measure`. With `measure`,
 * rank 0 exchanges messages with one rank on its host and one on the next host
 * for at most about 50 ms, and all ranks choose algorithms by the result.
 * Errors: GLOO_ERR_INVALID (invalid rank, more than 65,536 ranks, no store, or
 * a mistake in GLOO_ALGORITHM or the tuning file), GLOO_ERR_TIMEOUT (names the
 * missing ranks), GLOO_ERR_PEER (the process of a rank exited meanwhile; a TCP
 * store, and file stores between processes on one host, detect that at once),
 * GLOO_ERR_BUSY (two processes with one rank), GLOO_ERR_MISMATCH,
 * GLOO_ERR_STALE, GLOO_ERR_AUTH (a missing or different secret),
 * GLOO_ERR_NO_MEMORY, and those of the store and of gloo_device_create.
 * Threads: any; blocks until all ranks have arrived, so ranks in one process
 * need a thread each.
 * Ownership: *context is the caller's. Store and device stay the caller's: a
 * store that this process serves, or shares with other ranks, must stay open
 * until every rank has returned; the device must outlive the context.
 * Cost: one set and one multi_get on the store. Connections along a binomial
 * tree start here, all others on first use. */
GLOO_API gloo_status gloo_context_create(int rank, int size, gloo_store *store,
                                         gloo_device *device,
                                         const gloo_context_options *options,
                                         gloo_context **context,
                                         gloo_error *error);

typedef struct gloo_init_options {
  size_t struct_size;
  /* NULL: defaults. The host defaults to the address that reaches the store. */
  const gloo_device_options *device;
  /* NULL: defaults. */
  const gloo_context_options *context;
} gloo_init_options;
#define GLOO_INIT_OPTIONS_INIT \
  { sizeof(gloo_init_options), 0, 0 }

/* Creates a context from the environment of the job's launcher: GLOO_RANK,
 * GLOO_SIZE and GLOO_STORE (the URL of a store), or the variables of `gloo
 * run`, torchrun, srun or Kubernetes; docs/guide/launchers.md lists all. If no
 * other process serves a store, rank 0 does. GLOO_JOB_ID and GLOO_EPOCH, if
 * set, must be the same on all ranks; without GLOO_JOB_ID, the job names of
 * torchrun and Slurm must. If no launcher is recognised the job has one rank;
 * an incomplete set of a launcher's variables is an error. An empty variable
 * counts as unset. Errors name the variable. The call retries names, networks
 * and ranks that are not available yet, for at most the context's timeout plus
 * half a second.
 *
 * All ranks return together, and may start again at once: a rank that arrives
 * before rank 0 has left the previous start retries until its timeout. Without
 * a job id, ranks of two jobs with the same MASTER_PORT cannot be
 * distinguished: if two jobs are detected, all ranks of both get GLOO_ERR_BUSY,
 * from this call or from the context. To detect more such cases, a job without
 * an id takes 0.1 s longer to start, and its rank 0 keeps the port for another
 * 5 seconds, or until it leaves or starts again.
 * Errors: GLOO_ERR_INVALID (a variable, or `context` is NULL),
 * GLOO_ERR_ADDRESS, GLOO_ERR_BUSY, GLOO_ERR_TIMEOUT (names the missing ranks),
 * GLOO_ERR_STALE (another job or epoch), GLOO_ERR_PEER, and those of
 * gloo_device_create and gloo_context_create.
 * Threads: any; blocks. Several threads may call it one after another; two at a
 * time in one environment are two jobs on one port. No thread may change the
 * environment meanwhile.
 * Ownership: *context is the caller's, and its device the context's.
 * Cost: that of gloo_context_create, and of a TCP store. */
GLOO_API gloo_status gloo_init(const gloo_init_options *options,
                               gloo_context **context, gloo_error *error);

/* Destroys a context. Data already handed to the network is still delivered.
 * Peers that need this rank afterwards get an error that says that it left. A
 * context and its groups can be destroyed in any order. Its requests can be
 * destroyed later, but not started again.
 *
 * Pending operations on a group continue as long as the program holds the root
 * context or another of its groups: they can be waited for, or released, as if
 * the group still existed. Pending operations on a root context, or on the last
 * group of a family to be destroyed, are cancelled, and the other ranks get
 * GLOO_ERR_CANCELLED. Callbacks of requests that have ended have returned when
 * this call returns (see gloo_request_on_done). NULL is allowed.
 * Errors: none.
 * Threads: no other thread may use the context.
 * Ownership: the handle is invalid afterwards.
 * Cost: may wait for connections to accept the remaining data. */
GLOO_API void gloo_context_destroy(gloo_context *context);

/* Returns the rank of this process in the context, and the number of its ranks.
 * Errors: -1 for NULL. Threads: any. Ownership: the context stays the caller's.
 */
GLOO_API int gloo_context_rank(const gloo_context *context);
GLOO_API int gloo_context_size(const gloo_context *context);

/* Returns the device of the context, which the context owns if it was created
 * with a NULL device.
 * Errors: NULL for NULL. Threads: any. Ownership: unchanged; a device that the
 * context owns is destroyed with it. */
GLOO_API gloo_device *gloo_context_device(const gloo_context *context);

/* Returns the number of hosts of the context's ranks, and the number of the
 * host of `rank`: 0 to gloo_context_hosts - 1, in the order of the lowest rank
 * on each. With this number as the color, gloo_context_split makes a group per
 * host.
 * Errors: -1 (no context, or no such rank). Threads: any. Ownership: the
 * context stays the caller's. */
GLOO_API int gloo_context_hosts(const gloo_context *context);
GLOO_API int gloo_context_host(const gloo_context *context, int rank);

/* Sets the timeout that GLOO_TIMEOUT_DEFAULT selects in later calls and
 * prepared requests on this context; earlier ones keep theirs. Later groups of
 * the context inherit it. GLOO_TIMEOUT_DEFAULT: GLOO_TIMEOUT, or 30 s.
 * Errors: GLOO_ERR_INVALID (NULL, in a custom operation, or GLOO_TIMEOUT is not
 * a number). Threads: any. Ownership: the context stays the caller's. */
GLOO_API gloo_status gloo_context_set_timeout(gloo_context *context,
                                              int64_t timeout_ns,
                                              gloo_error *error);

/* Aborts all operations of all ranks of the root context and its groups. They
 * fail with GLOO_ERR_ABORTED and a message with `reason` (plain text, copied;
 * may be NULL) and the calling rank; later calls fail with GLOO_ERR_POISONED
 * and the same text. Call it on a rank that cannot continue while others wait
 * for it, or to end a wait in another thread. If the context had already
 * failed, the earlier cause stays. The context must still be destroyed.
 * Errors: GLOO_ERR_INVALID (NULL, or in a custom operation), GLOO_ERR_FORKED.
 * Threads: any; does not block. Ownership: the context stays the caller's. */
GLOO_API gloo_status gloo_context_abort(gloo_context *context,
                                        const char *reason, gloo_error *error);

/* Aborts from a signal handler, or from code that must not take a lock.
 * `reason` (may be NULL) is not copied and must stay valid, like a string
 * literal. The abort takes effect when a thread of this process notices it:
 * within 0.1 s if a thread waits in a call, else within half of GLOO_HEARTBEAT,
 * by the helper thread.
 * Errors: none; NULL and all calls after the first are ignored.
 * Threads: any, and signal handlers.
 * Ownership: the context stays the caller's, and must not be destroyed before
 * this call returns. */
GLOO_API void gloo_context_abort_async(gloo_context *context,
                                       const char *reason);

/* ---- groups -------------------------------------------------------------- */

/* A group is a context of a subset of the ranks of another context, numbered
 * from 0. It supports everything that a context does: collectives, messages,
 * and groups of its own. It shares the connections of its parent, so groups are
 * cheap; its calls, tags and sequence numbers are separate.
 *
 * Threads. Several threads may create and use groups at once. A rank that
 * creates two groups of one context at the same time needs a separate tag for
 * each.
 *
 * Failures. A context and all its groups fail together, because they share
 * connections: an error that poisons one poisons all, on all ranks of the root
 * context. Messages, and root_rank in gloo_error, use ranks of the root
 * context; see gloo_context_translate. Groups that must fail independently need
 * separate contexts (gloo_context_create).
 *
 * Destruction. Use gloo_context_destroy; connections are closed with the last
 * context of the family. A device must outlive them. */
typedef struct gloo_group_options {
  size_t struct_size;
  /* Default timeout of the group's operations, and the time to wait for the
   * other ranks in this call, ns; GLOO_TIMEOUT_DEFAULT: that of the parent
   * context. */
  int64_t timeout_ns;
  /* Calls with the same tag match in their order. */
  uint32_t tag;
} gloo_group_options;
#define GLOO_GROUP_OPTIONS_INIT \
  { sizeof(gloo_group_options), 0, 0 }

#define GLOO_NO_COLOR (-1)

/* Divides a context: ranks with the same color form a group, ordered by key,
 * and by rank for equal keys. All ranks of the context must call it; calls with
 * one tag must come in the same order on all ranks. A rank with a negative
 * color gets no group: *group = NULL. Blocks until all ranks have called.
 * *group is set on success only.
 * Errors: GLOO_ERR_INVALID (`context` or `group` is NULL) and
 * GLOO_ERR_UNSUPPORTED (options of a newer version): nothing was sent.
 * GLOO_ERR_TIMEOUT (names a rank that did not call), GLOO_ERR_MISMATCH (a rank
 * calls gloo_context_subset with this tag), GLOO_ERR_PEER and
 * GLOO_ERR_NO_MEMORY poison the context. GLOO_ERR_POISONED, GLOO_ERR_FORKED.
 * Threads: any, with a separate tag for each thread; blocks.
 * Ownership: *group is the caller's.
 * Cost: ceil(log2 P) rounds of 36 bytes per rank (Bruck, Ho, Kipnis, Upfal and
 * Weathersby 1997); no further connections. */
GLOO_API gloo_status gloo_context_split(gloo_context *context, int color,
                                        int key,
                                        const gloo_group_options *options,
                                        gloo_context **group,
                                        gloo_error *error);

/* Creates a group of the `n` listed ranks of the context, in that order:
 * ranks[i] becomes rank i. Only these ranks call it, all with the same list.
 * Blocks until all have called. *group is set on success only.
 * Shape: ranks has n entries.
 * Errors: GLOO_ERR_RANK (a number that is not a rank, a rank listed twice, or a
 * list without the caller), GLOO_ERR_INVALID and GLOO_ERR_UNSUPPORTED as in
 * gloo_context_split: nothing was sent. GLOO_ERR_MISMATCH names a rank with a
 * different list. GLOO_ERR_TIMEOUT, GLOO_ERR_PEER, GLOO_ERR_NO_MEMORY,
 * GLOO_ERR_POISONED and GLOO_ERR_FORKED as in gloo_context_split; a rank with a
 * different set of members may be detected only at the timeout.
 * Threads: any, with a separate tag for each thread; blocks.
 * Ownership: *group is the caller's, and so is the list, which is copied.
 * Cost: that of gloo_context_split, with P = n. */
GLOO_API gloo_status gloo_context_subset(gloo_context *context,
                                         const int *ranks, size_t n,
                                         const gloo_group_options *options,
                                         gloo_context **group,
                                         gloo_error *error);

/* Non-blocking gloo_context_split and gloo_context_subset. When the request has
 * completed, *group is the group, or NULL for a rank that gets none. Concurrent
 * calls need distinct tags; the calls match the blocking ones.
 * Shape: `group` must stay valid until the request has ended; `ranks` has n
 * entries, which are copied.
 * Errors: refused like the blocking calls; all other errors are those of the
 * request, and poison the context. Cancelling or destroying a pending request
 * also poisons it.
 * Threads: any.
 * Ownership: *request and the group are the caller's.
 * Cost: that of the blocking calls; the device's helper thread, or a thread in
 * a call, starts each round at the end of the one before. */
GLOO_API gloo_status gloo_context_split_start(gloo_context *context, int color,
                                              int key,
                                              const gloo_group_options *options,
                                              gloo_context **group,
                                              gloo_request **request,
                                              gloo_error *error);
GLOO_API gloo_status gloo_context_subset_start(
    gloo_context *context, const int *ranks, size_t n,
    const gloo_group_options *options, gloo_context **group,
    gloo_request **request, gloo_error *error);

/* Returns the number of `rank` in the root context, which has no parent.
 * Errors: -1 (no context, or no such rank). Threads: any. Ownership: the
 * context stays the caller's. */
GLOO_API int gloo_context_world_rank(const gloo_context *context, int rank);

/* Returns the rank in `to` of the process that is `rank` in `from`. The two
 * contexts have the same root context, or the root of `to` is a successor
 * (gloo_context_shrink) of the root of `from`.
 * Errors: -1 if the process is not in `to`, the contexts are not related in
 * this way, or one is NULL. Threads: any. Ownership: contexts stay the
 * caller's. */
GLOO_API int gloo_context_translate(const gloo_context *from, int rank,
                                    const gloo_context *to);

/* ---- shrinking and growing ----------------------------------------------- */

typedef struct gloo_shrink_options {
  size_t struct_size;
  /* Time to wait for live ranks that do not call, ns; GLOO_TIMEOUT_DEFAULT: the
   * timeout of the context; GLOO_TIMEOUT_NONE: without limit. */
  int64_t timeout_ns;
  /* Minimum number of surviving ranks; fewer are an error. 0: 1. After a
   * network partition both halves would continue; set this above size/2 to
   * prevent it. */
  int ranks_min;
} gloo_shrink_options;
#define GLOO_SHRINK_OPTIONS_INIT \
  { sizeof(gloo_shrink_options), 0, 0 }

/* Creates a successor of a failed context from the surviving ranks. All
 * surviving ranks call it after one of their calls has failed. They agree on
 * the set of survivors and get a context with these ranks, numbered from 0 in
 * the order of their old ranks (see gloo_context_translate). The successor
 * inherits the device, timeout, choice of algorithms and secret; the program
 * creates groups and windows again. Registered memory stays registered. No
 * store is needed. If the context has not failed yet, the call fails it with
 * GLOO_ERR_ABORTED, also for ranks that wait in it. The old context is the
 * caller's to destroy, before or after this call.
 *
 * All ranks on which the call succeeds get the same set of ranks. A rank that
 * dies meanwhile is excluded, or the successor fails at once and can be shrunk
 * in turn. A stopped rank is excluded after GLOO_HEARTBEAT without a heartbeat,
 * a live rank that does not call after `timeout_ns`. An operation may have
 * completed on some ranks only, so the program must compare how far each rank
 * got.
 * Shape: root contexts of any size; the agreement goes through one rank and is
 * designed for up to a few thousand.
 * Errors: GLOO_ERR_INVALID (`context` or `successor` is NULL, a group, a
 * context that was shrunk before, invalid options): nothing has changed.
 * GLOO_ERR_STALE: the other ranks continue without this rank, which they
 * consider dead. GLOO_ERR_PEER: fewer than `ranks_min` ranks are left.
 * GLOO_ERR_NO_MEMORY, GLOO_ERR_FORKED.
 * Threads: any; blocks; no other thread may destroy the context meanwhile.
 * Ownership: *successor is the caller's, and is set on success only; a device
 * that the context owned is destroyed with the last of the two contexts.
 * Cost: five messages per rank, to and from the lowest surviving rank, of one
 * byte per rank. For ranks whose death was not noticed the call waits half a
 * second over TCP (two seconds if their host does not answer), and one second
 * in shared memory. Connections of the successor are made as in a new context.
 * Source: MPI_Comm_shrink of MPI's fault tolerance (Bland, Bouteiller, Herault,
 * Bosilca and Dongarra 2013). */
GLOO_API gloo_status gloo_context_shrink(gloo_context *context,
                                         const gloo_shrink_options *options,
                                         gloo_context **successor,
                                         gloo_error *error);

typedef struct gloo_grow_options {
  size_t struct_size;
  /* Options of the successor; NULL: defaults. Without a secret the successor
   * keeps that of this context. */
  const gloo_context_options *context;
  /* Number of newcomers to wait for, until the timeout; 0: admit those that
   * wait already. */
  int newcomers;
  /* Maximum number of ranks of the successor; 0: no limit. */
  int ranks_max;
  /* Time to wait for newcomers, ns; GLOO_TIMEOUT_DEFAULT: GLOO_START_TIMEOUT,
   * or 30 s. */
  int64_t timeout_ns;
} gloo_grow_options;
#define GLOO_GROW_OPTIONS_INIT \
  { sizeof(gloo_grow_options), 0, 0, 0, 0 }

/* Admits processes that have called gloo_context_join with the same store. All
 * ranks of the context call it, like a collective. *successor is a context of
 * old and new ranks: the ranks of this context keep their numbers, and the
 * newcomers follow in the order of their arrival. It is NULL if no newcomer
 * arrived. The context itself is unchanged, and the caller's to destroy; if the
 * call fails because a newcomer died, the ranks can continue to use it. Either
 * all ranks get the successor or none does, also if a rank dies meanwhile: then
 * the successor fails, and must be shrunk. The store must support
 * compare-and-set.
 *
 * Rank 0's options apply, except for `context`, which each rank sets for
 * itself.
 * Errors: GLOO_ERR_INVALID (`context`, `store` or `successor` is NULL, invalid
 * options), and those of gloo_context_create, of the store (from rank 0,
 * reported on all ranks) and of a broadcast. GLOO_ERR_PEER without a rank if
 * the call failed on another rank. GLOO_ERR_STALE if the store failed at the
 * last moment, so that this rank cannot tell whether the others continue in the
 * successor: restart the process; its context cannot be shrunk.
 * Threads: any, in the same order as other calls; blocks.
 * Ownership: *successor is the caller's, and is set on success only; the store
 * stays the caller's. A device that the context owned is destroyed with the
 * last of the two contexts.
 * Cost: without newcomers, a broadcast, and one look at the store by rank 0;
 * otherwise that of gloo_context_create, plus another broadcast, two allreduces
 * and a barrier. */
GLOO_API gloo_status gloo_context_grow(gloo_context *context, gloo_store *store,
                                       const gloo_grow_options *options,
                                       gloo_context **successor,
                                       gloo_error *error);

/* Joins a running job: waits for at most `timeout_ns` until its ranks call
 * gloo_context_grow. `options`, with the same secret, and `device` are as for
 * gloo_context_create. A process that is killed or stopped while it waits is
 * skipped, at once if the store detects that (TCP stores, and file stores on
 * one host), else after a second. A newcomer that dies while it is being
 * admitted makes the current gloo_context_grow fail; the other newcomers keep
 * waiting. A newcomer that gets a context was admitted by all ranks of the job;
 * if a rank dies at the last moment the newcomer gets none, and may call again.
 * Errors: GLOO_ERR_INVALID (`store` or `context` is NULL), GLOO_ERR_TIMEOUT and
 * GLOO_ERR_PEER (this rank was not admitted), and those of the store and of
 * gloo_context_create.
 * Threads: any; blocks.
 * Ownership: *context is the caller's; store and device stay the caller's.
 * Cost: eight operations of the store, and that of gloo_context_create. */
GLOO_API gloo_status gloo_context_join(gloo_store *store, gloo_device *device,
                                       const gloo_context_options *options,
                                       int64_t timeout_ns,
                                       gloo_context **context,
                                       gloo_error *error);

/* ---- errors -------------------------------------------------------------- */

/* Gets the first error of a context. A failed peer, a deadline, a mismatch or a
 * cancelled collective makes the context permanently unusable: this call
 * returns the cause, and later calls return GLOO_ERR_POISONED, with the status
 * of the cause as `cause` in their gloo_error. So a program that retries after
 * a timeout, or continues without a lost peer, need not call this. A refused
 * call (invalid arguments) is also reported here, until a worse error occurs.
 * Returns GLOO_OK, with an empty message, if no error occurred; `error` may be
 * NULL. The call makes progress, unless another thread does so or holds the
 * device, for example in a long custom operation: it does not wait for that
 * thread.
 * Errors: the error of the context; GLOO_ERR_INVALID (no context, or in a
 * custom operation).
 * Threads: any. Ownership: the context stays the caller's. */
GLOO_API gloo_status gloo_context_error(const gloo_context *context,
                                        gloo_error *error);

#ifdef __cplusplus
}
#endif
#endif
