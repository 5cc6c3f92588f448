/* One direction of a pair: a ring in memory that both processes map.
 *
 * The sender makes the memory, writes slots and data; the receiver reads them
 * and says how far it has come. There is no lock and neither process ever waits
 * for the other while holding anything, so a process that is killed leaves
 * nothing taken.
 *
 * A slot is one cache line: a record's header, up to GLI_SHM_INLINE bytes of
 * payload, and a sequence number. Larger payloads lie in the data part: a
 * message is a HEAD record with the first chunk of payload and as many MORE
 * records as are needed, each with min(rest, chunk) bytes. Both sides compute
 * from the lengths where a chunk lies: a chunk is contiguous and begins on a
 * line, or `skew` bytes behind one, so one that would pass the end of the data
 * part begins at its start instead. No position and no length of a chunk is
 * ever read from shared memory, but for the skew.
 *
 * Skew. The speed of a copy depends on the alignment of both ends to lines
 * (kernels/copy.h). Most programs get all their long buffers from one
 * allocator, which begins them 16 bytes behind a line, so a long chunk begins
 * in the ring as far behind a line as in the sender's memory, by quarters of a
 * line, and both copies are between equals.
 *
 * Order. Record n is valid when its slot's `sequence` is n + 1 (mod 2^32); that
 * word is stored last, after header and data, with (at least) release order,
 * and read first, with acquire order: a reader that sees it sees all of the
 * record. The slot and the data are written again only after the sender has
 * read, with acquire order, counters that the receiver stored with release
 * order after it had read them. Old values of `sequence` are smaller by a
 * multiple of the number of slots, and fresh memory holds 0, which is awaited
 * only once 2^32 records have passed: neither is ever taken for a new record.
 * Payload lies in no word that is polled. Payload that is written past the
 * caches (shm_copy.c) is fenced before `sequence` is stored, for release order
 * does not hold it back.
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
#ifndef GLI_SHM_SLOTS      /* tests/model takes less of all */
#define GLI_SHM_SLOTS 256u /* a power of two */
#define GLI_SHM_ACK_RECORDS (GLI_SHM_SLOTS / 8) /* are given back at once */
#define GLI_SHM_ACK_BYTES 4096
#define GLI_SHM_NEAR ((uint64_t)64 * 1024) /* at least a chunk and a line */
/* More than a core's nearest caches hold. */
#define GLI_SHM_FAR ((uint32_t)2 * 1024 * 1024)
#endif
/* Shorter chunks have no skew: up to a page both ways were as fast. */
#define GLI_SHM_SKEWED_MIN ((size_t)4097)
#define GLI_SHM_INLINE 8u
#define GLI_SHM_CHUNKS 32u /* chunks that a large data part holds */
#define GLI_SHM_DATA_MIN ((uint32_t)16 * 1024)
#define GLI_SHM_DATA_MAX ((uint32_t)16 * 1024 * 1024)

typedef enum gli_shm_kind {
  GLI_SHM_HEAD = 1,
  GLI_SHM_MORE,
  GLI_SHM_CUT,    /* the message under way ends here: its sender has closed */
  GLI_SHM_REWIND, /* a HEAD, and the data part is used from its start again */
  GLI_SHM_MORE_REWIND, /* the same with a MORE */

  /* The same, of a message with checksums. Each differs from all others in
   * three bits or more. */
  GLI_SHM_CHECKED_MORE = 0xaa,
  GLI_SHM_CHECKED_CUT = 0x99,
  GLI_SHM_CHECKED_HEAD = 0xf0,
  GLI_SHM_CHECKED_REWIND = 0xcc,
  GLI_SHM_CHECKED_MORE_REWIND = 0x5a
} gli_shm_kind;

/* A slot's words, as they are but for the sequence number, which is where the
 * header has its `number`. Its `mark` is the kind of the record. Where the
 * payload is in the data part, data[0] is its skew; with checksums it has none.
 */
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

/* The shared memory; the data part follows. The two sides write to lines that
 * are apart even where lines are fetched in pairs. */
typedef struct gli_shm_memory {
  _Alignas(256) _Atomic uint32_t wants;   /* sender: I wait for room */
  _Alignas(256) _Atomic uint32_t revoked; /* see gli_shm_revoke */
  _Alignas(256)
      gli_shared_copy shared_copy[GLI_SHARED_COPIES]; /* with the rkey in it */
  _Alignas(256) _Atomic uint32_t slots_taken;         /* receiver */
  _Atomic uint64_t bytes_taken;
  _Alignas(4096) gli_shm_slot slots[GLI_SHM_SLOTS];
  _Alignas(4096) uint8_t data[];
} gli_shm_memory;

/* The page of an end point, which it shares with all peers. */
typedef struct gli_shm_page {
  _Alignas(256) _Atomic uint32_t asleep; /* ring the bell after a change */
  /* When the process last looked around, by the clock that all processes of a
   * host have in common; 0: not yet. */
  _Alignas(256) _Atomic uint64_t looked_ns;
} gli_shm_page;

#define GLI_SHM_PAGE_BYTES ((size_t)4096)

/* The sender's end. Those that are atomic are read by sleepers too. */
typedef struct gli_shm_out {
  gli_shm_memory *memory;
  size_t bytes; /* mapped */
  int fd;       /* of the memory; -1: none */
  /* At the end of the data part, without pages as yet: most pairs never have a
   * message that goes so far, and making pages is what takes long when a pair
   * is opened. */
  uint32_t unreserved;
  bool stays_unreserved; /* there was no memory for it */
  uint32_t data_bytes, chunk;
  uint32_t next;               /* records written */
  _Atomic uint32_t slots_seen; /* the counters as last read */
  _Atomic uint64_t bytes_seen;
  uint64_t at;         /* bytes of the data part used, as if it were endless */
  bool broken;         /* the receiver's counters made no sense */
  bool checked;        /* messages have checksums */
  uint32_t turn_bytes; /* of the data part, used in turn: gli_shm_spread */
  gli_store_policy copiers[2]; /* of short chunks, and of long ones */
} gli_shm_out;

/* The receiver's end. */
typedef struct gli_shm_in {
  gli_shm_memory *memory;
  size_t bytes;
  uint32_t data_bytes, chunk;
  _Atomic uint32_t next;
  uint64_t at;
  uint32_t acked; /* `next` and `at` when the sender was last thought of */
  uint64_t acked_at;
} gli_shm_in;

/* The chunks of a ring with this data part. Also in a small one a message that
 * is short enough for take_now is one chunk. */
static inline uint32_t gli_shm_chunk_for(uint32_t data_bytes) {
  uint32_t chunk = data_bytes / GLI_SHM_CHUNKS;
  return chunk > GLI_TAKE_BYTES ? chunk : GLI_TAKE_BYTES;
}

/* How much memory a ring with this data part takes. */
size_t gli_shm_ring_bytes(uint32_t data_bytes);

/* How much of it is reserved from the start: what is used in turn by ranks that
 * share processors, and the chunk that begins in it. */
size_t gli_shm_ring_reserved(uint32_t data_bytes, uint32_t chunk);

/* Sets how much of the data part is used in turn, if the process writes to this
 * number of rings. To be called now and then.
 *
 * When ranks share processors they share caches, and the first GLI_SHM_NEAR
 * bytes serve again and again. When each has its own, lines that the receiver
 * has just read are slow to write again, and fast once they have fallen out of
 * its nearest caches, where the processors share another: then the rings
 * together take the turns that this needs. */
void gli_shm_spread(gli_shm_out *out, size_t rings, bool oversubscribed);

/* Write what there is room for of a message. `progress` is 0 at first, and
 * belongs to this function until it returns true: all is in the ring, and the
 * request may go. Writes the header's `mark`. Sets out->broken when the
 * receiver misbehaves. */
bool gli_shm_put(gli_shm_out *out, gli_header *header, const uint8_t *payload,
                 uint64_t *progress);
/* The same with checksums (CRC32C): in place of the payload that a slot has
 * room for are those of the header, which is also of the number of the record,
 * and of the payload, which is in the data part, however short. */
bool gli_shm_put_checked(gli_shm_out *out, gli_header *header,
                         const uint8_t *payload, uint64_t *progress);
/* Write a message if it takes only one record and there is room. */
bool gli_shm_put_short(gli_shm_out *out, gli_header *header,
                       const uint8_t *payload);
bool gli_shm_put_one(gli_shm_out *out, gli_header *header,
                     const uint8_t *payload);
/* End a message that is partly written. False without room. */
bool gli_shm_put_cut(gli_shm_out *out);
/* Has the receiver made room since the sender last looked? Any thread. */
bool gli_shm_room_made(gli_shm_out *out);

/* A word for memory elsewhere, which rkeys in the ring name: the sender
 * takes all of it back; the receiver asks after it has read some.
 *
 * Both are read-modify-writes of one word, so one comes first. If the receiver
 * finds 0, its own came first; it released what the receiver had read before,
 * and the sender's acquired that: nothing that the sender writes to the memory
 * later can have been read. If it finds 1 it does not use what it read. */
static inline void gli_shm_revoke(gli_shm_out *out) {
  (void)atomic_exchange(&out->memory->revoked, 1);
}
static inline bool gli_shm_revoked(gli_shm_in *in) {
  return atomic_fetch_or(&in->memory->revoked, 0) != 0;
}

/* Is there a record? Any thread may ask; `order` is for the caller to choose.
 */
static inline bool gli_shm_ready(gli_shm_in *in, memory_order order) {
  uint32_t next = atomic_load_explicit(&in->next, memory_order_relaxed);
  gli_shm_slot *slot = &in->memory->slots[next % GLI_SHM_SLOTS];
  return atomic_load_explicit(&slot->flag.sequence, order) == next + 1;
}
/* The same for sleepers, which may know an old `next`, for another thread has
 * read on: then that record or a later one is in its slot. */
static inline bool gli_shm_came(gli_shm_in *in) {
  uint32_t next = atomic_load_explicit(&in->next, memory_order_relaxed);
  gli_shm_slot *slot = &in->memory->slots[next % GLI_SHM_SLOTS];
  uint32_t ahead = atomic_load(&slot->flag.sequence) - next;
  return ahead - 1 < UINT32_MAX / 2;
}
/* Copy the record that is ready. */
void gli_shm_get(gli_shm_in *in, gli_shm_record *record);
/* Is a record there, of the message that is expected? If so, it; else NULL. */
const gli_shm_record *gli_shm_expected(gli_shm_in *in,
                                       const gli_header *expected);
/* Take its message, of up to GLI_SHM_INLINE bytes; */
void gli_shm_take_short(gli_shm_in *in, const gli_shm_record *record,
                        gli_taken *taken);
/* or of more, which stay where they are until the sender is told. False: it has
 * more records than this, and nothing has changed. */
bool gli_shm_take_long(gli_shm_in *in, const gli_shm_record *record,
                       size_t bytes, gli_taken *taken);
/* The first record of a message, with a header that one can have? If so, go to
 * where its first chunk lies. */
bool gli_shm_begins(gli_shm_in *in, const gli_shm_record *record);
/* Another record of a message? If so, go to where its chunk lies. */
bool gli_shm_continues(gli_shm_in *in, const gli_shm_record *record);
/* Likewise of a message with checksums; false when the header is damaged, too.
 */
bool gli_shm_begins_checked(gli_shm_in *in, const gli_shm_record *record,
                            uint32_t *payload_sum);
bool gli_shm_continues_checked(gli_shm_in *in, const gli_shm_record *record);
/* Its chunk of `bytes`, and going on to the next record. */
const uint8_t *gli_shm_chunk(gli_shm_in *in, const gli_shm_record *record,
                             size_t bytes);
void gli_shm_take(gli_shm_in *in);
/* Store the counters. With `ask`, true when the sender waits for room. */
bool gli_shm_ack(gli_shm_in *in, bool ask);
/* Records and bytes taken since the last acknowledgement. */
static inline uint32_t gli_shm_unacked(const gli_shm_in *in) {
  return atomic_load_explicit(&in->next, memory_order_relaxed) - in->acked;
}
static inline uint64_t gli_shm_unacked_bytes(const gli_shm_in *in) {
  return in->at - in->acked_at;
}

/* ---- copying into a ring (shm_copy.c) ------------------------------------ */

/* Copies go through the caches, or past them (kernels/store_policy.h). The
 * lines that a sender writes to are those that its peer has just read. */

/* Shorter chunks always go through the caches. */
#define GLI_SHM_NONTEMPORAL_MIN ((size_t)2048)
/* Below this, a chunk is short: the fence after it counts, so short ones are
 * judged for themselves. */
#define GLI_SHM_NONTEMPORAL_LONG ((size_t)4096)

/* Copy at least GLI_SHM_NONTEMPORAL_MIN bytes. On return, all bytes are ordered
 * before later stores of the caller, as after memcpy. */
void gli_shm_copy(gli_store_policy *copier, void *dst, const void *src,
                  size_t bytes);

/* Records the time that a chunk took in one way. For gli_shm_copy and tests. */
void gli_shm_copier_learn(gli_store_policy *copier, bool nontemporal,
                          uint64_t ns, size_t bytes);

#endif
