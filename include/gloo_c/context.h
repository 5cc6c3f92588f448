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
 *   not leave by longjmp, while it is in a call: locks would stay taken, and
 *   the context could not even be destroyed. Use gloo_context_abort.
 * exec. A program that is run by exec inherits nothing of the library:
 *   descriptors are closed, memory and threads do not exist there. To other
 *   ranks this rank has died, unless its contexts were destroyed before.
 *
 * Forked processes. Devices, contexts, groups, operations and stores belong to
 * the process that made them. In a forked child every call on them ends with
 * GLOO_ERR_FORKED and a message that names both processes (functions without a
 * status, such as gloo_context_rank, answer as before), and destroying them
 * frees memory and closes the child's descriptors. The parent and the other
 * ranks do not notice, whatever the child does: it may exit in any way, run
 * another program, run for any time, and make its own devices, contexts and
 * stores. So data loaders may fork while a job runs, also while other threads
 * are in the library. Two limits apply. The child's descriptors of a TCP store
 * are closed when the store is destroyed there, those of devices at once. And a
 * child that was forked within a callback of the library (a custom operation, a
 * log sink), or in a signal handler that interrupted a call, must only _exit or
 * run another program. Custom operations are plain memory, and memory from
 * gloo_alloc is shared by both: see memory.h.
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
  const char *transport; /* "auto" (shared memory between ranks on one host,
                            RDMA or TCP between others), "tcp", "shm", "ibv"
                            (RDMA) or "inproc" (ranks are threads); NULL:
                            GLOO_TRANSPORT, or "auto" */
  const char *host;      /* tcp: name or address to listen on, which others are
                            told; NULL: see `interface` */
  const char *interface; /* tcp: by which network interfaces others reach this
                            rank, such as "eth0" or "eth,ib0" or "10.0.0.0/8";
                            NULL: GLOO_SOCKET_IFNAME, or all; see below */
  uint16_t port;         /* tcp: port to listen on; 0: one of GLOO_PORT_RANGE,
                            or any free one */
  int streams;           /* tcp: connections per pair of ranks, 1..16; 0: 1 */
  int no_helper;         /* nonzero: no helper thread; operations advance, and
                            what was sent is delivered, only while a thread is
                            in a call */
  int checksum; /* checksums of all messages: above 0: yes, below 0: no,
                   0: GLOO_CHECKSUM (1, 0), or else no; see below */
  const gloo_tls_options *tls; /* tcp: encryption, the same on all ranks; NULL:
                                  what the environment says, see tls.h */
} gloo_device_options;
#define GLOO_DEVICE_OPTIONS_INIT \
  { sizeof(gloo_device_options), 0, 0, 0, 0, 0, 0, 0, 0 }

/* Addresses of a rank for TCP. A rank publishes up to 8 addresses. Peers try
 * the nearest first, by network, and the next one after 250 ms without a
 * connection; the handshake verifies the rank. With `host` it publishes that
 * address alone. `interface` is a list of interface names or their prefixes (an
 * exact name selects that interface alone), of addresses, and of blocks of
 * addresses (10.0.0.0/8, fe80::/10); '=' in front: names are exact; '^' in
 * front: all but these. By default a rank publishes the addresses of all
 * interfaces that are up, except loopback and those of containers and virtual
 * machines, which it publishes if no other exists; with gloo_init the address
 * that reaches MASTER_ADDR comes first, and loopback is the only one if it
 * reaches that. A device listens on the published address, or on all addresses
 * of the host if it publishes several. GLOO_BIND_ADDR and GLOO_PUBLISH_ADDR are
 * for hosts behind address translation. */

/* Checksums (CRC32C). A damaged message fails the context with
 * GLOO_ERR_PROTOCOL, on all ranks, and an error that names the sender and the
 * receiver; no operation that needed the message returns GLOO_OK. Two ranks use
 * checksums if either asks for them. They cover all traffic over TCP and shared
 * memory after the connection is made, and memory from gloo_alloc is copied
 * instead of read in place; between threads (inproc) nothing travels, and the
 * option does nothing. Cost: each side reads the data it sends or receives once
 * more. On two ranks allreduces of 64 KiB to 64 MiB took 1.2 to 1.5 times as
 * long over TCP on loopback, 1.5 to 2.5 times over shared memory, and of 4
 * bytes 1.03 times. */

/* Open a device: the transport's end point in this process, plus the progress
 * that drives it. Several contexts may share one device; threads that use
 * contexts of one device take turns, so give busy threads devices of their own.
 * NULL options give the defaults.
 * Errors: GLOO_ERR_NOT_FOUND (unknown transport; no such interface, or none
 * that is up), GLOO_ERR_ADDRESS (host does not resolve within 30 s, ports in
 * use), GLOO_ERR_INVALID, GLOO_ERR_UNSUPPORTED (the transport does not work
 * here; options of a newer version), GLOO_ERR_NO_MEMORY, GLOO_ERR_IO (no
 * descriptor or thread left); of TLS see tls.h. Threads: any. Ownership:
 * *device is the caller's; options are copied. Cost: a thread that sleeps when
 * idle (but with `no_helper`), and descriptors.
 */
GLOO_API gloo_status gloo_device_create(const gloo_device_options *options,
                                        gloo_device **device,
                                        gloo_error *error);

/* Close a device. All its contexts must be destroyed. NULL is allowed.
 * Errors: none. Threads: no other thread may use it. Ownership: the handle is
 * not valid any more. */
GLOO_API void gloo_device_destroy(gloo_device *device);

/* ---- context ------------------------------------------------------------- */

typedef struct gloo_context_options {
  size_t struct_size;
  int64_t timeout_ns;  /* default for every operation, and the time to wait for
                          the other ranks here; GLOO_TIMEOUT_DEFAULT: what
                          GLOO_TIMEOUT and GLOO_START_TIMEOUT say, or 30 s */
  const char *host_id; /* which host this rank is on, where collectives go by
                          that: ranks with the same text share one. Any text of
                          up to 255 bytes; NULL: GLOO_HOST_ID, or found out. */
  int measure;         /* measure links while the context is made, so that
                          algorithms are chosen by what they cost: above 0: yes,
                          below 0: no, 0: GLOO_MEASURE (1, 0), or else gloo_init
                          does and gloo_context_create does not */
  int shared_buffers;  /* a promise: wherever ranks share a host, the large
                          buffers of their collectives are from gloo_alloc, on
                          all of them. Algorithms are chosen for that, which
                          gains most where ranks outnumber cores. A buffer that
                          is not takes up to three times as long, and is no
                          error. Above 0: yes, below 0: no, 0:
                          GLOO_SHARED_BUFFERS (1, 0), or else no */
  const void *secret;  /* of the job, by which its ranks know one another: 16 to
                          64 random bytes, the same on all ranks; copied. NULL:
                          what the environment has, see docs/environment.md */
  size_t secret_bytes;
  const char *trace_directory; /* where to write what was done of late when the
                                  context fails, see trace.h; NULL:
                                  GLOO_TRACE_DIR, or nowhere */
} gloo_context_options;
#define GLOO_CONTEXT_OPTIONS_INIT \
  { sizeof(gloo_context_options), 0, 0, 0, 0, 0, 0, 0 }

/* Create a context with `size - 1` other ranks, which meet through `store`. All
 * ranks must call it with the same size and with stores that share their keys;
 * a store serves one context only, so give each its own gloo_store_prefix.
 * `device` may be NULL: the context then owns a device with default options.
 * GLOO_ALGORITHM, and the file in GLOO_TUNING_FILE, choose algorithms if the
 * call does not; they must be the same on all ranks (GLOO_ERR_MISMATCH). So
 * must `shared_buffers`, and `measure`: with it rank 0 exchanges messages with
 * one rank on its host and one on the next, for about 50 ms at most, and all
 * ranks choose algorithms by the result.
 * Errors: GLOO_ERR_INVALID (rank, size of more than 65,536, no store, a mistake
 * in GLOO_ALGORITHM or the tuning file), GLOO_ERR_TIMEOUT (names the ranks that
 * did not arrive), GLOO_ERR_PEER (the process of a rank ended meanwhile; a TCP
 * store, and file stores between processes of one host, detect that at once),
 * GLOO_ERR_BUSY (a rank exists twice), GLOO_ERR_MISMATCH, GLOO_ERR_STALE,
 * GLOO_ERR_AUTH (a rank has no secret, or another), GLOO_ERR_NO_MEMORY, and
 * those of the store and of gloo_device_create.
 * Threads: any; blocks until all ranks have arrived, so ranks of one process
 * call it in a thread each. Ownership: *context is the caller's. Store and
 * device stay the caller's: a store that this process serves, or shares with
 * other ranks, must stay until all of them have returned; the device must
 * outlive the context.
 * Cost: one set and one multi_get on the store. Connections along a binomial
 * tree are begun here, all others when first used. */
GLOO_API gloo_status gloo_context_create(int rank, int size, gloo_store *store,
                                         gloo_device *device,
                                         const gloo_context_options *options,
                                         gloo_context **context,
                                         gloo_error *error);

typedef struct gloo_init_options {
  size_t struct_size;
  const gloo_device_options *device;   /* NULL: defaults; the host defaults to
                                          the address that reaches the store */
  const gloo_context_options *context; /* NULL: defaults */
} gloo_init_options;
#define GLOO_INIT_OPTIONS_INIT \
  { sizeof(gloo_init_options), 0, 0 }

/* Create a context from the environment of the job's launcher: GLOO_RANK,
 * GLOO_SIZE and GLOO_STORE (the URL of a store), or the variables of `gloo
 * run`, torchrun, srun or Kubernetes; docs/guide/launchers.md lists all. If no
 * other process serves a store, rank 0 does. GLOO_JOB_ID and GLOO_EPOCH, if
 * set, must agree; without the first, the job names of torchrun and Slurm must.
 * If no launcher is recognised the job is one rank; a launcher with half of its
 * variables is an error. An empty variable counts as unset. Errors name the
 * variable. The call waits for names, networks and ranks that do not exist yet,
 * at most for the context's timeout and half a second.
 *
 * All ranks return together, and may start again at once: a rank that arrives
 * before rank 0 has left the previous start retries until its timeout. Without
 * a job id, ranks of two jobs with the same MASTER_PORT cannot be
 * distinguished: if two jobs are detected all ranks of both get GLOO_ERR_BUSY,
 * from this call or from the context. To detect more of these, a job without an
 * id takes a tenth of a second longer to start, and its rank 0 keeps the port
 * for another 5 seconds, or until it leaves or starts again.
 * Errors: GLOO_ERR_INVALID (a variable; `context` is NULL), GLOO_ERR_ADDRESS,
 * GLOO_ERR_BUSY, GLOO_ERR_TIMEOUT (names the ranks that did not arrive),
 * GLOO_ERR_STALE (another job or epoch), GLOO_ERR_PEER, and those of
 * gloo_device_create and gloo_context_create.
 * Threads: any; blocks. Several threads may call it, but two at a time in one
 * environment are two jobs on one port; no thread may change the environment
 * meanwhile. Ownership: *context is the caller's, and its device the context's.
 * Cost: that of gloo_context_create, and of a TCP store. */
GLOO_API gloo_status gloo_init(const gloo_init_options *options,
                               gloo_context **context, gloo_error *error);

/* Destroy a context. Data that was handed to the network is still delivered.
 * Peers that need this rank afterwards get an error that says that it left. A
 * context and the groups made of it can be destroyed in any order. Its requests
 * can be destroyed later; they cannot be started any more.
 *
 * Pending operations on a group continue as long as the program holds the root
 * context or another group of it: they can be waited for, or released, as if
 * the group still existed. Those of a root context, and those of the last group
 * to go, are cancelled, and the other ranks get GLOO_ERR_CANCELLED. Callbacks
 * of its requests that have ended have returned when this call returns (see
 * gloo_request_on_done). NULL is allowed.
 * Errors: none. Threads: no other thread may use the context. Ownership: the
 * handle is invalid afterwards. Cost: may wait for connections to take the
 * remaining data. */
GLOO_API void gloo_context_destroy(gloo_context *context);

/* Return the rank of this process in the context, and the number of its ranks.
 * Errors: -1 for NULL. Threads: any. Ownership: the context stays the caller's.
 */
GLOO_API int gloo_context_rank(const gloo_context *context);
GLOO_API int gloo_context_size(const gloo_context *context);

/* Return the device of the context, including one that the context made itself.
 * Errors: NULL for NULL. Threads: any. Ownership: unchanged; a device that the
 * context made ends with it. */
GLOO_API gloo_device *gloo_context_device(const gloo_context *context);

/* Return the number of hosts of the context's ranks, and the number of the host
 * of `rank`: 0 to gloo_context_hosts - 1, in the order of the lowest rank on
 * each. With this number as the color, gloo_context_split makes a group per
 * host.
 * Errors: -1 (no context, no such rank). Threads: any. Ownership: the context
 * stays the caller's. */
GLOO_API int gloo_context_hosts(const gloo_context *context);
GLOO_API int gloo_context_host(const gloo_context *context, int rank);

/* Set the timeout that GLOO_TIMEOUT_DEFAULT selects in later calls and prepared
 * requests on this context; earlier ones keep theirs. Later groups of the
 * context start with it. GLOO_TIMEOUT_DEFAULT: GLOO_TIMEOUT, or 30 s.
 * Errors: GLOO_ERR_INVALID (NULL, in a custom operation, or GLOO_TIMEOUT is not
 * a number). Threads: any. Ownership: the context stays the caller's. */
GLOO_API gloo_status gloo_context_set_timeout(gloo_context *context,
                                              int64_t timeout_ns,
                                              gloo_error *error);

/* Abort: all operations of all ranks of the root context and its groups fail
 * with GLOO_ERR_ABORTED and a message with `reason` (plain text, copied; may be
 * NULL) and the rank that called; later calls fail with GLOO_ERR_POISONED and
 * the same text. For a rank that cannot continue while others wait for it, and
 * for a thread that ends the wait of another one. If the context had failed
 * already the earlier cause stays. The context must still be destroyed.
 * Errors: GLOO_ERR_INVALID (NULL, or in a custom operation), GLOO_ERR_FORKED.
 * Threads: any; does not block. Ownership: the context stays the caller's. */
GLOO_API gloo_status gloo_context_abort(gloo_context *context,
                                        const char *reason, gloo_error *error);

/* Abort from a signal handler, or from any place where no lock may be taken.
 * `reason` (may be NULL) is not copied and must stay valid, like a string
 * literal. The abort takes effect when a thread of this process notices it: one
 * that waits in a call does within a tenth of a second; without one, the helper
 * thread does within half of GLOO_HEARTBEAT.
 * Errors: none; NULL is ignored, and so are all calls after the first. Threads:
 * any, and signal handlers. Ownership: the context stays the caller's, and must
 * not be destroyed before this returns. */
GLOO_API void gloo_context_abort_async(gloo_context *context,
                                       const char *reason);

/* ---- groups -------------------------------------------------------------- */

/* A group is a context of some ranks of another context, with new rank numbers,
 * on which everything works: collectives, messages, and groups of the group. It
 * shares the connections of the context that it was made of, so many groups are
 * cheap; its calls, tags and sequence numbers are separate.
 *
 * Threads. Several threads may make and use groups at once. A rank that makes
 * two groups of one context at the same time needs a separate tag for each.
 * Failures. A context and all groups made of it fail as one, because they share
 * connections: an error that poisons one of them poisons all, on all ranks of
 * the root context. Messages, and the root_rank of a gloo_error, use ranks of
 * the root context; see gloo_context_translate. Groups that must fail
 * independently need their own contexts (gloo_context_create).
 * Destruction. gloo_context_destroy; connections are closed with the last of
 * them. A device must outlive all. */
typedef struct gloo_group_options {
  size_t struct_size;
  int64_t timeout_ns; /* default for every operation of the group, and the time
                         to wait for the other ranks here;
                         GLOO_TIMEOUT_DEFAULT: that of the context it is made
                         of */
  uint32_t tag;       /* orders the making of groups separately per tag */
} gloo_group_options;
#define GLOO_GROUP_OPTIONS_INIT \
  { sizeof(gloo_group_options), 0, 0 }

#define GLOO_NO_COLOR (-1)

/* Divide a context: ranks with the same color form a group, in the order of
 * their keys, and for equal keys in the order of their ranks. All ranks of the
 * context must call it, and in the same order if they call it more than once
 * with a tag. A rank with a negative color gets no group: *group = NULL. Blocks
 * until all have called. *group is set on success only.
 * Errors: GLOO_ERR_INVALID (no context, `group` is NULL) and
 * GLOO_ERR_UNSUPPORTED (options of a newer version): nothing was sent.
 * GLOO_ERR_TIMEOUT (names a rank that did not call), GLOO_ERR_MISMATCH (a rank
 * calls gloo_context_subset with this tag), GLOO_ERR_PEER and
 * GLOO_ERR_NO_MEMORY poison the context. GLOO_ERR_POISONED, GLOO_ERR_FORKED.
 * Threads: any, with a tag for each; blocks. Ownership: *group is the caller's.
 * Cost: ceil(log2 P) rounds of 36 bytes per rank (Bruck, Ho, Kipnis, Upfal and
 * Weathersby 1997); no other connection is made. */
GLOO_API gloo_status gloo_context_split(gloo_context *context, int color,
                                        int key,
                                        const gloo_group_options *options,
                                        gloo_context **group,
                                        gloo_error *error);

/* Make a group of the `n` listed ranks of the context, in that order: ranks[i]
 * becomes rank i. Only these ranks call it, all with the same list. Blocks
 * until all have called. *group is set on success only.
 * Shape: ranks has n entries.
 * Errors: GLOO_ERR_RANK (a number that is not a rank, a rank twice, or a list
 * without the caller), GLOO_ERR_INVALID and GLOO_ERR_UNSUPPORTED as in
 * gloo_context_split: nothing was sent. GLOO_ERR_MISMATCH names a rank with
 * another list. GLOO_ERR_TIMEOUT, GLOO_ERR_PEER, GLOO_ERR_NO_MEMORY,
 * GLOO_ERR_POISONED and GLOO_ERR_FORKED as there: a rank with a different list
 * of members may not be noticed before the timeout.
 * Threads: any, with a tag for each; blocks. Ownership: *group is the caller's,
 * as is the list, which is copied.
 * Cost: that of gloo_context_split, with P = n. */
GLOO_API gloo_status gloo_context_subset(gloo_context *context,
                                         const int *ranks, size_t n,
                                         const gloo_group_options *options,
                                         gloo_context **group,
                                         gloo_error *error);

/* gloo_context_split and gloo_context_subset without waiting: when the request
 * has completed, *group is the group, or NULL for a rank that gets none.
 * Concurrent calls need distinct tags; the calls match the blocking ones.
 * Shape: `group` must stay valid until the request has ended; `ranks` has n
 * entries, which are copied.
 * Errors: refused like those; all others are the request's, and poison the
 * context. Cancelling or destroying a pending request poisons it, too.
 * Threads: any. Ownership: *request is the caller's, and so is the group.
 * Cost: as above; the device's helper thread, or a thread that is in a call,
 * begins each round at the end of the one before. */
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

/* Return the rank of `rank` in the root context, which was not made of another
 * one.
 * Errors: -1 (no context, no such rank). Threads: any. Ownership: the context
 * stays the caller's. */
GLOO_API int gloo_context_world_rank(const gloo_context *context, int rank);

/* Return the rank in `to` of `rank` in `from`. The two contexts have the same
 * root context, or the root of `to` is a successor (gloo_context_shrink) of the
 * root of `from`.
 * Errors: -1 if it is not in `to`, if the two are not related so, or one is
 * NULL. Threads: any. Ownership: contexts stay the caller's. */
GLOO_API int gloo_context_translate(const gloo_context *from, int rank,
                                    const gloo_context *to);

/* ---- going on without ranks that are gone -------------------------------- */

typedef struct gloo_shrink_options {
  size_t struct_size;
  int64_t timeout_ns; /* how long to wait for ranks that are there, and do not
                         call; GLOO_TIMEOUT_DEFAULT: as long as operations of
                         the context have; GLOO_TIMEOUT_NONE: until they do */
  int ranks_min; /* fewer are an error; 0: 1. Where a network may part a job
                    in two, both parts would go on: more than half of the
                    ranks keeps that from happening */
} gloo_shrink_options;
#define GLOO_SHRINK_OPTIONS_INIT \
  { sizeof(gloo_shrink_options), 0, 0 }

/* Go on with the ranks that are left. All ranks of the context that can call
 * this, when one of their calls has failed; they agree on which of them are
 * there, and get a context of these, the successor: numbered anew, in the order
 * of their ranks (gloo_context_translate says who is who). It has the device,
 * the timeout, the choice of algorithms and the secret of the context, whose
 * groups and windows the program makes anew; memory that was registered stays
 * so. No store is needed. The context fails if it has not (GLOO_ERR_ABORTED:
 * ranks that wait in it hear that this one goes on without), and is the
 * caller's to destroy, before or after.
 *
 * All that succeed have the same ranks; a rank that dies meanwhile is left out,
 * or the successor fails at once and can be shrunk in its turn. A rank that is
 * stopped is left out when it has given no sign for GLOO_HEARTBEAT, one that
 * does not call when `timeout_ns` has passed. What ranks know of how far they
 * had come is theirs to compare: an operation may have ended well on some of
 * them. Shape: root contexts of any size; the agreement is made for up to a few
 * thousand ranks, and goes through one of them.
 * Errors: GLOO_ERR_INVALID (no context, no place for the successor, a group, a
 * context that was shrunk before, options): nothing has happened.
 * GLOO_ERR_STALE: the others go on without this rank, which they took for gone.
 * GLOO_ERR_PEER: fewer than `ranks_min` are left. GLOO_ERR_NO_MEMORY,
 * GLOO_ERR_FORKED. Threads: any; blocks; no other thread may destroy the
 * context meanwhile. Ownership: *successor is the caller's, and is set on
 * success only; a device that belonged to the context goes with the last of the
 * two. Cost: five messages per rank, to and from the lowest that is left, of
 * one byte per rank; ranks that died unnoticed are waited for half a second
 * over TCP (two if their host does not answer), and one in shared memory.
 * Afterwards connections are made as in a new context. Source: what MPI's fault
 * tolerance calls MPI_Comm_shrink (Bland, Bouteiller, Herault, Bosilca and
 * Dongarra 2013). */
GLOO_API gloo_status gloo_context_shrink(gloo_context *context,
                                         const gloo_shrink_options *options,
                                         gloo_context **successor,
                                         gloo_error *error);

typedef struct gloo_grow_options {
  size_t struct_size;
  const gloo_context_options *context; /* of the successor; NULL: defaults, and
                                          without a secret in them this
                                          context's is kept */
  int newcomers; /* wait until so many have come, or the time is up; 0: take in
                    who is there */
  int ranks_max; /* no more in all; 0: no limit */
  int64_t timeout_ns; /* for that; GLOO_TIMEOUT_DEFAULT: GLOO_START_TIMEOUT, or
                         30 s */
} gloo_grow_options;
#define GLOO_GROW_OPTIONS_INIT \
  { sizeof(gloo_grow_options), 0, 0, 0, 0 }

/* Take in ranks that have called gloo_context_join with the same store. All
 * ranks of the context call it, as any collective. *successor is a context of
 * all of them: the ranks of this context keep their numbers, and the others
 * follow in the order in which they came. NULL where nobody has come. The
 * context stays as it is, and is the caller's to destroy; where it does not
 * work, because one that came is gone again, the ranks can go on with it. All
 * of them get the successor or none does, also when a rank dies meanwhile: then
 * the one that they have fails, and is to be shrunk. The store must be able to
 * compare and set.
 * Options are those of rank 0, but for `context`, which is each rank's own.
 * Errors: GLOO_ERR_INVALID (no context, store or place, options), those of
 * gloo_context_create, of the store (on rank 0; the others are told), and of a
 * broadcast. GLOO_ERR_PEER, and no rank named, where it did not work for
 * another rank. GLOO_ERR_STALE where the store failed at the last moment, and
 * this rank cannot know whether the others have gone on in the successor: it is
 * to be started again, and its context cannot be shrunk. Threads: any, in the
 * order of other calls; blocks. Ownership: *successor is the caller's, and is
 * set on success only; the store stays the caller's. A device that belonged to
 * the context goes with the last of the two. Cost: a broadcast where nobody has
 * come, and a look at the store by rank 0; else what gloo_context_create costs,
 * and another broadcast, two allreduces and a barrier. */
GLOO_API gloo_status gloo_context_grow(gloo_context *context, gloo_store *store,
                                       const gloo_grow_options *options,
                                       gloo_context **successor,
                                       gloo_error *error);

/* The other side: come to ranks that are there already, and wait, for
 * `timeout_ns` at most, until they call gloo_context_grow. `options`, with the
 * same secret, and `device` are as for gloo_context_create. A process that is
 * killed or stopped while it waits is passed over, at once if the store sees
 * that (over TCP, and in files of one host), else after a second. One that is
 * killed when it was called makes that gloo_context_grow fail, and no other;
 * newcomers that were called with it wait on. A rank that has a context was
 * taken in by all that were there; where one of them dies at the last moment it
 * has none, and may call this again. Errors: GLOO_ERR_INVALID (no store, no
 * place), GLOO_ERR_TIMEOUT and GLOO_ERR_PEER (it was not taken in), those of
 * the store and of gloo_context_create. Threads: any; blocks. Ownership:
 * *context is the caller's; store and device stay the caller's. Cost: eight
 * operations of the store, and that of gloo_context_create. */
GLOO_API gloo_status gloo_context_join(gloo_store *store, gloo_device *device,
                                       const gloo_context_options *options,
                                       int64_t timeout_ns,
                                       gloo_context **context,
                                       gloo_error *error);

/* ---- errors -------------------------------------------------------------- */

/* Get the first error of a context. A failed peer, a deadline, a mismatch or a
 * cancelled collective makes the context unusable for good: this call returns
 * the cause, and later calls return GLOO_ERR_POISONED, with the status of the
 * cause as `cause` in their gloo_error; a program that retries after a timeout,
 * or continues without a lost peer, need not call this. A refused call (bad
 * arguments) is reported here, too, as long as nothing worse happened. Returns
 * GLOO_OK, with an empty message, if no error occurred; `error` may be NULL.
 * The call makes progress, unless another thread does so or holds the device,
 * for example in a long custom operation: it does not wait for that thread.
 * Errors: the error of the context; GLOO_ERR_INVALID (no context, or in a
 * custom operation).
 * Threads: any. Ownership: the context stays the caller's. */
GLOO_API gloo_status gloo_context_error(const gloo_context *context,
                                        gloo_error *error);

#ifdef __cplusplus
}
#endif
#endif
