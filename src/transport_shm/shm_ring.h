/* One direction of a pair: a ring in memory that both processes map.
 *
 * The sender makes the memory and writes slots and data; the receiver reads
 * them and publishes its progress. There is no lock, and neither process ever
 * waits for the other while holding anything, so a killed process leaves
 * nothing locked.
 *
 * A slot is one cache line: a record's header, up to GLI_SHM_INLINE bytes of
 * payload, and a sequence number. Longer payload is in the data part: a message
 * is a HEAD record with the first chunk of payload, followed by MORE records,
 * each with min(rest, chunk) bytes. Both sides compute the position of a chunk
 * from the lengths. A chunk is contiguous and begins on a line, or `skew` bytes
 * behind one, so a chunk that would pass the end of the data part begins at its
 * start instead. No position or length of a chunk is ever read from shared
 * memory, except for the skew.
 *
 * Skew. The speed of a copy depends on the alignment of both ends to lines
 * (kernels/copy.h). Most programs get all their long buffers from one
 * allocator, which places them 16 bytes behind a line. A long chunk therefore
 * begins in the ring as far behind a line as in the sender's memory, in units
 * of a quarter of a line, so that both copies are between equally aligned ends.
 *
 * Order. Record n is valid when its slot's `sequence` is n + 1 (mod 2^32). The
 * sender stores that word last, after header and data, with (at least) release
 * order; the receiver reads it first, with acquire order, so a reader that sees
 * it sees all of the record. The sender overwrites the slot and the data only
 * after it has read, with acquire order, counters that the receiver stored,
 * with release order, after it had read both. Old values of `sequence` are
 * smaller by a multiple of the number of slots, and fresh memory holds 0, which
 * is only awaited once 2^32 records have passed: neither is ever taken for a
 * new record. No polled word contains payload. Payload that is written past the
 * caches (shm_copy.c) is fenced before `sequence` is stored, because release
 * order does not cover such stores.
 *
 * Sleeping (see shm_wait.c) needs more: both the store of `sequence` and the
 * sender's next load, of `asleep`, are sequentially consistent, and so are the
 * sleeper's store of `asleep` and its next load, of `sequence`. In the single
 * order of these four, one of the loads comes after the other side's store: the
 * sender sees a sleeper, or the sleeper sees the record. The same holds for
 * `wants` and the counters when the sender waits for room. */
#ifndef GLI_TRANSPORT_SHM_SHM_RING_H
#define GLI_TRANSPORT_SHM_SHM_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/error.h"
#include "kernels/store_policy.h"
#include "transport/transport.h"

#define GLI_SHM_LINE ((size_t)64)
#ifndef GLI_SHM_SLOTS      /* tests/model uses smaller values */
#define GLI_SHM_SLOTS 256u /* a power of two */
#define GLI_SHM_ACK_RECORDS (GLI_SHM_SLOTS / 8) /* per acknowledgement */
#define GLI_SHM_ACK_BYTES 4096
#define GLI_SHM_NEAR ((uint64_t)64 * 1024) /* at least a chunk and a line */
/* More than the size of a core's nearest caches. */
#define GLI_SHM_FAR ((uint32_t)2 * 1024 * 1024)
#endif
/* Shortest chunk with a skew, which gains nothing up to a page. */
#define GLI_SHM_SKEWED_MIN ((size_t)4097)
#define GLI_SHM_INLINE 8u
#define GLI_SHM_CHUNKS 32u /* number of chunks in a large data part */
#define GLI_SHM_DATA_MIN ((uint32_t)16 * 1024)
#define GLI_SHM_DATA_MAX ((uint32_t)16 * 1024 * 1024)

typedef enum gli_shm_kind {
  GLI_SHM_HEAD = 1,
  GLI_SHM_MORE,
  GLI_SHM_CUT,    /* ends the message before its end: the sender has closed */
  GLI_SHM_REWIND, /* HEAD whose chunk is at the start of the data part */
  GLI_SHM_MORE_REWIND, /* MORE whose chunk is at the start of the data part */

  /* Kinds for messages with checksums. Each differs from all others in
   * three bits or more. */
  GLI_SHM_CHECKED_MORE = 0xaa,
  GLI_SHM_CHECKED_CUT = 0x99,
  GLI_SHM_CHECKED_HEAD = 0xf0,
  GLI_SHM_CHECKED_REWIND = 0xcc,
  GLI_SHM_CHECKED_MORE_REWIND = 0x5a
} gli_shm_kind;

/* Contents of a slot, except that the sequence number takes the place of the
 * header's `number`. The header's `mark` is the kind of the record. For payload
 * in the data part, data[0] is its skew; with checksums it has none. */
typedef struct gli_shm_record {
  gli_header header;
  uint8_t data[GLI_SHM_INLINE];
} gli_shm_record;

typedef union gli_shm_slot {
  gli_shm_record record;
  struct {
    uint8_t before[28];
    _Atomic uint32_t sequence;
  } flag;
} gli_shm_slot;

_Static_assert(sizeof(gli_shm_slot) == GLI_SHM_LINE, "a slot is a line");
_Static_assert(offsetof(gli_header, number) == 28, "see flag.before");
_Static_assert(offsetof(gli_header, operation) == 32, "it follows");

/* Shared memory, followed by the data part. The two sides write to lines that
 * are far enough apart even if the processor fetches lines in pairs. The first
 * page ends within the slots, see gli_shm_out_begin. */
typedef struct gli_shm_memory {
  _Alignas(256) _Atomic uint32_t wants;   /* by the sender: waits for room */
  _Alignas(256) _Atomic uint32_t revoked; /* see gli_shm_revoke */
  _Alignas(256)
      gli_shared_copy shared_copy[GLI_SHARED_COPIES]; /* each holds an rkey */
  _Alignas(256) _Atomic uint32_t slots_taken;         /* by the receiver */
  _Atomic uint64_t bytes_taken;
  _Alignas(256) gli_shm_slot slots[GLI_SHM_SLOTS];
  _Alignas(4096) uint8_t data[];
} gli_shm_memory;

/* Part of a ring that has pages from the start, and the slots in it. */
#define GLI_SHM_FIRST_BYTES ((size_t)4096)
#define GLI_SHM_FIRST_SLOTS                                             \
  ((uint32_t)((GLI_SHM_FIRST_BYTES - offsetof(gli_shm_memory, slots)) / \
              GLI_SHM_LINE))

/* Page of an end point, which it shares with all peers. */
typedef struct gli_shm_page {
  _Alignas(256) _Atomic uint32_t asleep; /* set: send RING after a change */
  /* Time of the process's last poll of its descriptors, on the clock that all
   * processes of a host share; 0 if none yet. */
  _Alignas(256) _Atomic uint64_t looked_ns;
} gli_shm_page;

#define GLI_SHM_PAGE_BYTES ((size_t)4096)

/* State of the sender. Sleepers also read the atomic members. */
typedef struct gli_shm_out {
  gli_shm_memory *memory;
  size_t bytes;          /* size of the mapping */
  int fd;                /* descriptor of the memory; -1 if none */
  uint32_t bare_slots;   /* number of slots without pages, at the end */
  uint32_t unreserved;   /* bytes at the end of the data part without pages */
  bool stays_unreserved; /* true if making pages failed: the data part remains
                            as short as it is */
  uint32_t far_from;     /* offset from which place_far chooses positions */
  uint32_t data_bytes, chunk;
  uint32_t next;               /* number of records written */
  uint32_t slots_until;        /* `next` at which the slots known to be free
                                  and to have pages end */
  _Atomic uint32_t slots_seen; /* counters as last read */
  _Atomic uint64_t bytes_seen;
  uint64_t at;  /* position in the data part, counted as if it were endless */
  bool broken;  /* true if no record can follow: the receiver's counters were
                  invalid, or `lack` */
  int lack;     /* errno of a lack of memory for pages; 0 if none */
  bool checked; /* true if messages have checksums */
  uint32_t turn_bytes;         /* bytes used in turn, see gli_shm_spread */
  gli_store_policy copiers[2]; /* for short and for long chunks */
} gli_shm_out;

/* State of the receiver. */
typedef struct gli_shm_in {
  gli_shm_memory *memory;
  size_t bytes;
  uint32_t data_bytes, chunk;
  _Atomic uint32_t next;
  uint64_t at;
  uint32_t acked; /* `next` and `at` at the last acknowledgement */
  uint64_t acked_at;
} gli_shm_in;

/* Returns the chunk size of a ring with this data part. Even in a small ring, a
 * message that is short enough for take_now is a single chunk. */
static inline uint32_t gli_shm_chunk_for(uint32_t data_bytes) {
  uint32_t chunk = data_bytes / GLI_SHM_CHUNKS;
  return chunk > GLI_TAKE_BYTES ? chunk : GLI_TAKE_BYTES;
}

/* Returns the size of a ring with this data part. */
size_t gli_shm_ring_bytes(uint32_t data_bytes);

/* Begins a ring in new memory, whose first GLI_SHM_FIRST_BYTES have pages. The
 * sender makes the others before their first use: the slots together, and the
 * data part in doubling steps. */
void gli_shm_out_begin(gli_shm_out *out, int fd, void *memory,
                       uint32_t data_bytes);

/* Sets the number of bytes of the data part that are used in turn. `rings` is
 * the number of rings that the process writes to. Called periodically.
 *
 * Ranks that share processors also share caches, and reuse the first
 * GLI_SHM_NEAR bytes. If each rank has its own processor, lines that the
 * receiver has just read are slow to write again, and fast once they have left
 * its nearest caches, provided that the processors share a larger cache: the
 * rings together then use as many bytes as this needs. */
void gli_shm_spread(gli_shm_out *out, size_t rings, bool oversubscribed);

/* Writes as much of a message as there is room for. `progress` is 0 initially,
 * and belongs to this function until it returns true: the message is then in
 * the ring, and the request may be freed. Writes the header's `mark`. Sets
 * out->broken if the receiver misbehaves, or memory is lacking. */
bool gli_shm_put(gli_shm_out *out, gli_header *header, const uint8_t *payload,
                 uint64_t *progress);
/* Behaves like gli_shm_put, with checksums (CRC32C). The slot's inline bytes
 * hold two of them: that of the header and the record's number, and that of the
 * payload, which is in the data part, however short. */
bool gli_shm_put_checked(gli_shm_out *out, gli_header *header,
                         const uint8_t *payload, uint64_t *progress);
/* Write a message of one record, if there is room. gli_shm_put_short only takes
 * payload that fits the slot, and does not read the receiver's counters. */
bool gli_shm_put_short(gli_shm_out *out, gli_header *header,
                       const uint8_t *payload);
bool gli_shm_put_one(gli_shm_out *out, gli_header *header,
                     const uint8_t *payload);
/* Ends a message that is partly written. Returns false if there is no room. */
bool gli_shm_put_cut(gli_shm_out *out);
/* Returns true if there is more room than last known. Any thread. */
bool gli_shm_room_made(gli_shm_out *out);

/* Revocation of memory elsewhere that rkeys in the ring name. The sender
 * revokes all of it; the receiver checks after it has read some.
 *
 * Both are read-modify-writes of one word, so one comes first. If the receiver
 * reads 0, its operation came first: it released the receiver's earlier reads,
 * and the sender's operation acquired them, so the receiver cannot have read
 * anything that the sender writes to the memory later. If it reads 1, it
 * discards what it read. */
static inline void gli_shm_revoke(gli_shm_out *out) {
  (void)atomic_exchange(&out->memory->revoked, 1);
}
static inline bool gli_shm_revoked(gli_shm_in *in) {
  return atomic_fetch_or(&in->memory->revoked, 0) != 0;
}

/* Returns true if a record is ready. Any thread may call it; the caller chooses
 * the memory order. */
static inline bool gli_shm_ready(gli_shm_in *in, memory_order order) {
  uint32_t next = atomic_load_explicit(&in->next, memory_order_relaxed);
  gli_shm_slot *slot = &in->memory->slots[next % GLI_SHM_SLOTS];
  return atomic_load_explicit(&slot->flag.sequence, order) == next + 1;
}
/* Returns true if a record is ready. Sleepers may see an old `next`, because
 * another thread has read on: its slot then has that record or a later one. */
static inline bool gli_shm_has_arrived(gli_shm_in *in) {
  uint32_t next = atomic_load_explicit(&in->next, memory_order_relaxed);
  gli_shm_slot *slot = &in->memory->slots[next % GLI_SHM_SLOTS];
  uint32_t ahead = atomic_load(&slot->flag.sequence) - next;
  return ahead - 1 < UINT32_MAX / 2;
}
/* Copies the record that is ready. */
void gli_shm_get(gli_shm_in *in, gli_shm_record *record);
/* Returns the next record if it begins the expected message, else NULL. */
const gli_shm_record *gli_shm_expected(gli_shm_in *in,
                                       const gli_header *expected);
/* Takes the message of this record, which has up to GLI_SHM_INLINE bytes. */
void gli_shm_take_short(gli_shm_in *in, const gli_shm_record *record,
                        gli_taken *taken);
/* Takes the message of this record, with longer payload, which stays in the
 * ring until the next acknowledgement. Returns false if it has more records. */
bool gli_shm_take_long(gli_shm_in *in, const gli_shm_record *record,
                       size_t bytes, gli_taken *taken);
/* Returns true if the record begins a message and has a valid header. Moves to
 * the position of its first chunk. */
bool gli_shm_begins(gli_shm_in *in, const gli_shm_record *record);
/* Returns true if the record continues a message. Moves to its chunk. */
bool gli_shm_continues(gli_shm_in *in, const gli_shm_record *record);
/* Behave likewise for messages with checksums; gli_shm_begins_checked also
 * returns false if the header is damaged. */
bool gli_shm_begins_checked(gli_shm_in *in, const gli_shm_record *record,
                            uint32_t *payload_sum);
bool gli_shm_continues_checked(gli_shm_in *in, const gli_shm_record *record);
/* gli_shm_chunk returns the record's chunk, and moves past it in the data part;
 * gli_shm_take moves to the next record. */
const uint8_t *gli_shm_chunk(gli_shm_in *in, const gli_shm_record *record,
                             size_t bytes);
void gli_shm_take(gli_shm_in *in);
/* Stores the counters. Returns true if `ask` and the sender waits for room. */
bool gli_shm_ack(gli_shm_in *in, bool ask);
/* Records and bytes taken since the last acknowledgement. */
static inline uint32_t gli_shm_unacked(const gli_shm_in *in) {
  return atomic_load_explicit(&in->next, memory_order_relaxed) - in->acked;
}
static inline uint64_t gli_shm_unacked_bytes(const gli_shm_in *in) {
  return in->at - in->acked_at;
}

/* ---- copying into a ring (shm_copy.c) ------------------------------------ */

/* A copy goes through the caches, or past them (kernels/store_policy.h). The
 * sender writes to lines that its peer has just read. */

/* Shortest chunk that may go past the caches. */
#define GLI_SHM_NONTEMPORAL_MIN ((size_t)2048)
/* Shortest long chunk. The fence adds noticeably to the time of shorter ones,
 * so the two are measured separately. */
#define GLI_SHM_NONTEMPORAL_LONG ((size_t)4096)

/* Copies at least GLI_SHM_NONTEMPORAL_MIN bytes. On return, all of them are
 * ordered before later stores of the caller, as after memcpy. */
void gli_shm_copy(gli_store_policy *copier, void *dst, const void *src,
                  size_t bytes);

/* Records the duration of one kind of copy. For gli_shm_copy and tests. */
void gli_shm_copier_learn(gli_store_policy *copier, bool nontemporal,
                          uint64_t ns, size_t bytes);

#endif
