/* The records of the last operations of a family, the flight recorder, and the
 * totals of all operations since its creation.
 *
 * Every operation that ends leaves a record in a ring, after those that ended
 * before it. Pending operations are in no ring: a snapshot finds them in the
 * lists of operations (contexts/snapshot.c). A record costs at most two reads
 * of the counter of the processor and a few stores, so it is always made; its
 * description is filled when an operation is made of a call, and copied. */
#ifndef GLI_ENGINE_STATE_TRACE_BUFFER_H
#define GLI_ENGINE_STATE_TRACE_BUFFER_H

#include <stdbool.h>
#include <stdint.h>

#include "core/ticks.h"
#include "transport/header.h"

/* The fields that all runs of an operation share. */
typedef struct gli_trace_about {
  int8_t status;      /* status of the end; GLOO_IN_PROGRESS while pending */
  uint8_t tuning;     /* this and the next fields as in the signature */
  uint8_t collective; /* GLI_SENDRECV for a message; `op` is then 1 at the
                         receiver, 0 at the sender */
  uint8_t dtype, op, algorithm;
  uint16_t first; /* name of the context: root rank of its first rank, */
  uint32_t group; /* and the number that rank gave it; equal on all ranks */
  uint32_t tag;
  uint32_t root;
  uint32_t peer; /* root rank of the peer of a message, or of the rank whose
                    message a collective waited for last; GLI_NO_RANK if none */
  uint64_t count;
  uint64_t bytes; /* size of the longest buffer on this rank */
} gli_trace_about;

typedef struct gli_trace_record {
  gli_trace_about about;
  uint64_t operation;      /* its number */
  uint64_t started, ended; /* ticks */
} gli_trace_record;

/* A record fills a cache line. */
enum { GLI_TRACE_LINE = 64 };
_Static_assert(sizeof(gli_trace_record) == GLI_TRACE_LINE, "and no more");

typedef struct gli_trace {
  uint64_t n;        /* number of records ever made */
  uint64_t mask;     /* capacity less one */
  uint64_t kept;     /* number of last records to show, as requested */
  uint64_t internal; /* number of first records that are not shown */
  int64_t late; /* duration in ticks from which a collective counts as late */
  gli_moment born;
  _Alignas(GLI_TRACE_LINE) gli_trace_record records[];
} gli_trace;

typedef struct gli_snapshot gli_snapshot;
/* Called when a family fails, before its operations end, or when it is set, if
 * that is later. Takes over the snapshot (contexts/snapshot.h; NULL if out of
 * memory). Called once, with the device's lock held. */
typedef void (*gli_snapshot_fn)(void *user, gli_snapshot *snapshot);

/* Capacities. Some records are kept in any case, because mismatched calls are
 * found with them. */
enum {
  GLI_TRACE_LEAST = 256,
  GLI_TRACE_MOST = 1 << 20,
  GLI_TRACE_USUAL = 1024
};
/* Returns a trace for `kept` records (rounded up). Returns NULL if
 * out of memory. */
gli_trace *gli_trace_new(uint64_t kept);
void gli_trace_free(gli_trace *trace);

/* Returns the record made `ago` records before the last one, or NULL if it is
 * not kept. */
const gli_trace_record *gli_trace_last(const gli_trace *trace, uint64_t ago);
/* Fills in the signature of a recorded call, as far as calls are compared. */
void gli_trace_signature(const gli_trace_record *record, gli_header *signature);

/* Returns the slot of the next record. */
static inline gli_trace_record *gli_trace_next(gli_trace *trace) {
  return &trace->records[trace->n++ & trace->mask];
}

/* ---- totals -------------------------------------------------------------- */

/* Runs are counted at their end, in their operation, which is used again and
 * again. Its bytes, messages and peers follow from its plan, and are added up
 * when the operation is about to change, or on request (life/tally.c). */

/* Algorithms have numbers that are unique across collectives. Behind them are
 * messages: sent ones, and received ones. */
enum { GLI_TOTAL_MESSAGES = 256, GLI_TOTAL_KINDS = GLI_TOTAL_MESSAGES + 2 };

typedef struct gli_call_total {
  uint8_t collective;
  uint64_t calls, bytes, ticks;
} gli_call_total;

/* The totals of a rank of the root. */
typedef struct gli_peer_total {
  uint64_t messages_sent, bytes_sent;
  uint64_t messages_received, bytes_received;
  uint64_t late, late_ticks; /* collectives that waited for it last */
} gli_peer_total;

typedef struct gli_totals {
  uint64_t failed;
  gli_peer_total internal; /* messages of the library's own, with all ranks */
  gli_call_total calls[GLI_TOTAL_KINDS];
  gli_peer_total peers[];
} gli_totals;

/* Memory that a family keeps for later calls: plans, operations that were made
 * for them, and their scratch. */
typedef struct gli_kept {
  uint64_t plans, operations, scratch; /* bytes */
} gli_kept;

/* Returns totals of zero for `size` ranks; NULL if out of memory. */
gli_totals *gli_totals_new(uint32_t size);

/* Returns the duration in ticks, about 50 microseconds, below which a
 * collective was not late. */
uint64_t gli_trace_late_ticks(void);

#endif
