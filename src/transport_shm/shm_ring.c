#include "transport_shm/shm_ring.h"

#include <string.h>

#include "core/bytes.h"
#include "core/crc32c.h"
#include "core/hints.h"
#include "transport_shm/memory.h"

size_t gli_shm_ring_bytes(uint32_t data_bytes) {
  return offsetof(gli_shm_memory, data) + data_bytes;
}

/* Returns the position of the next `bytes`, which never passes the end. */
static uint64_t shm_ring_place(uint64_t at, uint32_t data_bytes, size_t bytes) {
  uint64_t left = data_bytes - at % data_bytes;
  return bytes > left ? at + left : at;
}

/* Returns the start of the data part, at or after `at`. */
static uint64_t start_after(uint64_t at, uint32_t data_bytes) {
  return (at + data_bytes - 1) / data_bytes * data_bytes;
}

static uint64_t shm_ring_lines(size_t bytes) {
  return (bytes + GLI_SHM_LINE - 1) / GLI_SHM_LINE * GLI_SHM_LINE;
}

static size_t shm_ring_least(uint64_t a, uint64_t b) {
  return (size_t)(a < b ? a : b);
}

/* ---- pages --------------------------------------------------------------- */

/* Records that all bytes of the data part before `ready` have pages. */
static void shm_ring_set_ready(gli_shm_out *out, uint32_t ready) {
  uint32_t near = ready > out->chunk ? ready - out->chunk : 0;
  out->unreserved = out->data_bytes - ready;
  out->far_from = near < GLI_SHM_NEAR && out->unreserved != 0
                      ? near
                      : (uint32_t)GLI_SHM_NEAR;
}

void gli_shm_out_begin(gli_shm_out *out, int fd, void *memory,
                       uint32_t data_bytes) {
  out->fd = fd;
  out->memory = memory;
  out->bytes = gli_shm_ring_bytes(data_bytes);
  out->data_bytes = data_bytes;
  out->chunk = gli_shm_chunk_for(data_bytes);
  bool few = GLI_SHM_FIRST_SLOTS < GLI_SHM_SLOTS;
  out->bare_slots = few ? GLI_SHM_SLOTS - GLI_SHM_FIRST_SLOTS : 0;
  out->slots_until = few ? GLI_SHM_FIRST_SLOTS - 1 : GLI_SHM_SLOTS;
  shm_ring_set_ready(out, 0);
}

/* Makes pages without which no further record can be written. */
static bool shm_ring_must_have(gli_shm_out *out, size_t from, size_t until) {
  int code = gli_shm_memory_grow(out->fd, out->memory, from, until, true);
  if (code == 0) return true;
  out->lack = code;
  out->broken = true;
  return false;
}

/* Extends the slots that may be written. A receiver looks at the slot after its
 * last record, whose page must exist by then: the sender makes it before it
 * writes the last slot of the first page. */
static void shm_ring_extend_slots(gli_shm_out *out, uint32_t slots_seen) {
  size_t end = offsetof(gli_shm_memory, data);
  if (out->bare_slots != 0 &&
      (out->next != out->slots_until ||
       !shm_ring_must_have(out, GLI_SHM_FIRST_BYTES, end)))
    return;
  out->bare_slots = 0;
  out->slots_until = slots_seen + GLI_SHM_SLOTS;
}

/* Returns the size with pages that the data part grows to, for a chunk that
 * ends at `end`: twice as much, up to the bytes that ranks on shared processors
 * use in turn with the chunk that begins in them, and then everything. */
static uint32_t shm_ring_grown(const gli_shm_out *out, uint64_t end) {
  uint64_t turn = GLI_SHM_NEAR + out->chunk;
  uint64_t grown = 2 * ((uint64_t)out->data_bytes - out->unreserved);
  if (end > turn) return out->data_bytes;
  if (grown < end) grown = end;
  grown = (grown + GLI_SHM_FIRST_BYTES - 1) / GLI_SHM_FIRST_BYTES *
          GLI_SHM_FIRST_BYTES;
  if (grown > turn) grown = turn;
  return (uint32_t)shm_ring_least(grown, out->data_bytes);
}

/* Returns true if the chunk has pages; may make them. Without, the ring goes on
 * with a shorter data part, unless that has no room for the chunk at all. */
static bool has_pages(gli_shm_out *out, uint64_t from, size_t bytes) {
  uint32_t ready = out->data_bytes - out->unreserved;
  uint64_t end = from % out->data_bytes + bytes;
  if (end <= ready) return true;
  size_t data = offsetof(gli_shm_memory, data);
  uint32_t grown = shm_ring_grown(out, end);
  if (bytes > ready) {
    if (!shm_ring_must_have(out, data + ready, data + grown)) return false;
  } else if (out->stays_unreserved ||
             gli_shm_memory_grow(out->fd, out->memory, data + ready,
                                 data + grown, false) != 0) {
    out->stays_unreserved = true;
    return false;
  }
  shm_ring_set_ready(out, grown);
  return true;
}

/* ---- sending ------------------------------------------------------------- */

static bool shm_ring_fits(const gli_shm_out *out, uint64_t end) {
  uint64_t bytes = atomic_load_explicit(&out->bytes_seen, memory_order_relaxed);
  return out->next != out->slots_until && end - bytes <= out->data_bytes;
}

/* Reads the receiver's counters, which only grow, up to the sender's. */
GLI_INLINE void look(gli_shm_out *out) {
  gli_shm_memory *m = out->memory;
  uint64_t bytes = atomic_load(&m->bytes_taken);
  uint32_t slots = atomic_load(&m->slots_taken);
  uint32_t slots_seen =
      atomic_load_explicit(&out->slots_seen, memory_order_relaxed);
  uint64_t bytes_seen =
      atomic_load_explicit(&out->bytes_seen, memory_order_relaxed);
  if (slots - slots_seen > out->next - slots_seen ||
      bytes - bytes_seen > out->at - bytes_seen) {
    out->broken = true;
    return;
  }
  atomic_store_explicit(&out->slots_seen, slots, memory_order_relaxed);
  atomic_store_explicit(&out->bytes_seen, bytes, memory_order_relaxed);
  shm_ring_extend_slots(out, slots);
}

bool gli_shm_room_made(gli_shm_out *out) {
  gli_shm_memory *m = out->memory;
  /* The receiver stores `bytes_taken` last: a thread that reads that store also
   * sees the other counter. */
  return atomic_load(&m->bytes_taken) != atomic_load(&out->bytes_seen) ||
         atomic_load(&m->slots_taken) != atomic_load(&out->slots_seen);
}

GLI_INLINE bool has_room(gli_shm_out *out, uint64_t end) {
  if (shm_ring_fits(out, end)) return true;
  look(out);
  return !out->broken && shm_ring_fits(out, end);
}

static gli_shm_slot *shm_slot_of(gli_shm_out *out) {
  return &out->memory->slots[out->next % GLI_SHM_SLOTS];
}

static void shm_ring_publish(gli_shm_out *out, gli_shm_slot *slot) {
  out->next++;
  atomic_store(&slot->flag.sequence, out->next);
}

#define SKEWS (GLI_SHM_LINE - 16) /* 0, 16, 32, 48 */

/* Returns the skew of a chunk at this address of the sender's memory. */
static inline size_t skew_of(const uint8_t *data, size_t bytes) {
  return bytes >= GLI_SHM_SKEWED_MIN ? (uintptr_t)data & SKEWS : 0;
}

/* Returns the skew of a record's chunk. It is read once, because it may be in
 * shared memory. */
static inline size_t skew_in(const gli_shm_record *r, size_t bytes) {
  bool checked = r->header.mark > GLI_SHM_MORE_REWIND;
  if (bytes < GLI_SHM_SKEWED_MIN || checked) return 0;
  return *(const volatile uint8_t *)r->data & SKEWS;
}

/* Copies a chunk into the data part, which has room for it. */
static void put_data(gli_shm_out *out, uint64_t from, size_t skew,
                     const uint8_t *data, size_t bytes) {
  uint8_t *to = out->memory->data + from % out->data_bytes + skew;
  if (bytes < GLI_SHM_NONTEMPORAL_MIN)
    memcpy(to, data, bytes);
  else
    gli_shm_copy(&out->copiers[bytes >= GLI_SHM_NONTEMPORAL_LONG], to, data,
                 bytes);
  out->at = from + shm_ring_lines(skew + bytes);
}

/* Writes all of the header except the sequence number, which is atomic. */
static void write_header(gli_shm_record *r, const gli_header *h) {
  memcpy(r, h, offsetof(gli_header, number));
  memcpy(&r->header.operation, &h->operation,
         sizeof *h - offsetof(gli_header, operation));
}

/* Writes payload into the slot. Most short messages are a single number. */
static void write_inline(gli_shm_record *r, const uint8_t *payload,
                         size_t bytes) {
  if (bytes == 4) {
    memcpy(r->data, payload, 4);
  } else if (bytes == 8) {
    memcpy(r->data, payload, 8);
  } else {
    for (size_t i = 0; i < bytes && i < GLI_SHM_INLINE; i++)
      r->data[i] = payload[i];
  }
}

void gli_shm_spread(gli_shm_out *out, size_t rings, bool oversubscribed) {
  out->turn_bytes =
      oversubscribed ? 0 : GLI_SHM_FAR / (uint32_t)(rings > 0 ? rings : 1);
}

static bool all_is_read(gli_shm_out *out) {
  look(out);
  return atomic_load_explicit(&out->bytes_seen, memory_order_relaxed) ==
         out->at;
}

#define NOWHERE UINT64_MAX

/* Returns true if place_far has to choose the position of the next chunk. */
static inline bool is_far(const gli_shm_out *out) {
  uint64_t used = out->at % out->data_bytes;
  return used >= out->far_from &&
         (used >= out->turn_bytes || out->unreserved != 0);
}

/* Returns the position of a chunk beyond the first GLI_SHM_NEAR bytes or the
 * pages that exist, or NOWHERE if it has to wait. If the receiver has read
 * everything, this is the start for a head beyond `turn_bytes`, to stay in the
 * nearest caches, and for any chunk that gets no pages at its next position.
 * Reading the counters costs a cache miss, so it happens once per GLI_SHM_NEAR
 * bytes. */
GLI_APART static uint64_t place_far(gli_shm_out *out, bool is_head,
                                    size_t bytes) {
  uint64_t next = shm_ring_place(out->at, out->data_bytes, bytes);
  uint64_t used = out->at % out->data_bytes;
  bool prefers = is_head && used >= GLI_SHM_NEAR && used >= out->turn_bytes;
  if (!prefers && has_pages(out, next, bytes)) return next;
  if (out->broken) return NOWHERE;
  if (all_is_read(out)) return start_after(out->at, out->data_bytes);
  return has_pages(out, next, bytes) ? next : NOWHERE;
}

/* Returns the position of the next chunk, or NOWHERE if it has to wait. */
GLI_INLINE uint64_t place_next(gli_shm_out *out, bool is_head, size_t bytes,
                               bool *rewind) {
  uint64_t next = shm_ring_place(out->at, out->data_bytes, bytes);
  uint64_t from = is_far(out) ? place_far(out, is_head, bytes) : next;
  *rewind = from != next;
  return from;
}

static bool put_head(gli_shm_out *out, gli_header *header,
                     const uint8_t *payload, uint64_t *progress) {
  size_t bytes = shm_ring_least(header->length, out->chunk), skew = 0;
  bool in_slot = header->length <= GLI_SHM_INLINE;
  uint64_t from = out->at, end = from;
  bool rewind = false;
  if (!in_slot) {
    skew = skew_of(payload, bytes);
    from = place_next(out, true, skew + bytes, &rewind);
    if (from == NOWHERE) return false;
    end = from + shm_ring_lines(skew + bytes);
  }
  if (!has_room(out, end)) return false;
  gli_shm_slot *slot = shm_slot_of(out);
  header->mark = rewind ? GLI_SHM_REWIND : GLI_SHM_HEAD;
  write_header(&slot->record, header);
  if (in_slot) {
    write_inline(&slot->record, payload, bytes);
  } else {
    slot->record.data[0] = (uint8_t)skew;
    put_data(out, from, skew, payload, bytes);
  }
  shm_ring_publish(out, slot);
  *progress = 1 + bytes;
  return true;
}

GLI_INLINE bool put_more(gli_shm_out *out, const gli_header *header,
                         const uint8_t *payload, uint64_t *progress,
                         gli_shm_kind kind, gli_shm_kind rewound) {
  while (*progress - 1 < header->length) {
    const uint8_t *data = payload + (*progress - 1);
    size_t bytes = shm_ring_least(header->length - (*progress - 1), out->chunk);
    size_t skew = kind == GLI_SHM_MORE ? skew_of(data, bytes) : 0;
    bool rewind;
    uint64_t from = place_next(out, false, skew + bytes, &rewind);
    if (from == NOWHERE || !has_room(out, from + shm_ring_lines(skew + bytes)))
      return false;
    gli_shm_slot *slot = shm_slot_of(out);
    slot->record.header.mark = (uint8_t)(rewind ? rewound : kind);
    slot->record.data[0] = (uint8_t)skew;
    put_data(out, from, skew, data, bytes);
    shm_ring_publish(out, slot);
    *progress += bytes;
  }
  return true;
}

bool gli_shm_put(gli_shm_out *out, gli_header *header, const uint8_t *payload,
                 uint64_t *progress) {
  if (*progress == 0 && !put_head(out, header, payload, progress)) return false;
  return put_more(out, header, payload, progress, GLI_SHM_MORE,
                  GLI_SHM_MORE_REWIND);
}

/* Omits all checks whose result is fixed for messages that fit their slot. */
bool gli_shm_put_short(gli_shm_out *out, gli_header *header,
                       const uint8_t *payload) {
  if (header->length > GLI_SHM_INLINE || !shm_ring_fits(out, out->at))
    return false;
  gli_shm_slot *slot = shm_slot_of(out);
  header->mark = GLI_SHM_HEAD;
  write_header(&slot->record, header);
  write_inline(&slot->record, payload, (size_t)header->length);
  shm_ring_publish(out, slot);
  return true;
}

bool gli_shm_put_one(gli_shm_out *out, gli_header *header,
                     const uint8_t *payload) {
  uint64_t progress = 0;
  return header->length <= out->chunk &&
         put_head(out, header, payload, &progress);
}

/* Returns the checksum of a record's header and number. With the number, an old
 * record in the slot does not pass for a new one. */
static uint32_t header_sum(const gli_shm_record *r, uint32_t number) {
  const uint8_t *header = (const uint8_t *)&r->header;
  uint32_t sum = gli_crc32c(number, header, offsetof(gli_header, number));
  size_t rest = offsetof(gli_header, operation);
  sum = gli_crc32c(sum, header + rest, sizeof r->header - rest);
  return gli_crc32c(sum, r->data + 4, 4);
}

GLI_APART static bool put_checked_head(gli_shm_out *out, gli_header *header,
                                       const uint8_t *payload,
                                       uint64_t *progress) {
  size_t bytes = shm_ring_least(header->length, out->chunk);
  bool rewind;
  uint64_t from = place_next(out, true, bytes, &rewind);
  if (from == NOWHERE || !has_room(out, from + shm_ring_lines(bytes)))
    return false;
  gli_shm_record r = {.header = *header};
  header->mark = rewind ? GLI_SHM_CHECKED_REWIND : GLI_SHM_CHECKED_HEAD;
  r.header.mark = header->mark;
  gli_put_u32(r.data + 4, gli_crc32c(0, payload, (size_t)header->length));
  gli_put_u32(r.data, header_sum(&r, out->next));
  gli_shm_slot *slot = shm_slot_of(out);
  write_header(&slot->record, &r.header);
  memcpy(slot->record.data, r.data, sizeof r.data);
  out->at = from;
  if (bytes > 0) put_data(out, from, 0, payload, bytes);
  shm_ring_publish(out, slot);
  *progress = 1 + bytes;
  return true;
}

bool gli_shm_put_checked(gli_shm_out *out, gli_header *header,
                         const uint8_t *payload, uint64_t *progress) {
  if (*progress == 0 && !put_checked_head(out, header, payload, progress))
    return false;
  return put_more(out, header, payload, progress, GLI_SHM_CHECKED_MORE,
                  GLI_SHM_CHECKED_MORE_REWIND);
}

bool gli_shm_put_cut(gli_shm_out *out) {
  if (!has_room(out, out->at)) return false;
  gli_shm_slot *slot = shm_slot_of(out);
  slot->record.header.mark = out->checked ? GLI_SHM_CHECKED_CUT : GLI_SHM_CUT;
  shm_ring_publish(out, slot);
  return true;
}

/* ---- receiving ----------------------------------------------------------- */

void gli_shm_get(gli_shm_in *in, gli_shm_record *record) {
  uint32_t next = atomic_load_explicit(&in->next, memory_order_relaxed);
  const gli_shm_slot *slot = &in->memory->slots[next % GLI_SHM_SLOTS];
  memcpy(record, slot, offsetof(gli_header, number));
  record->header.number = 0;
  memcpy(&record->header.operation, &slot->record.header.operation,
         sizeof *record - offsetof(gli_header, operation));
  /* Keeps the compiler from reading shared memory again after the checks. */
  atomic_signal_fence(memory_order_seq_cst);
}

/* Compares all fields except `eager`, `credit` and `number`. */
static inline uint64_t shm_ring_differ(const gli_header *got,
                                       const gli_header *head,
                                       const gli_header *expected) {
  static const gli_header mask = {.eager = 1};
  uint64_t first = gli_header_word(expected, 0) | gli_header_word(head, 0);
  return ((gli_header_word(got, 0) ^ first) & ~gli_header_word(&mask, 0)) |
         gli_header_differ(got, expected);
}

/* Reads the fields once: the fence keeps the compiler from reading again. */
GLI_INLINE void took(gli_shm_in *in, const gli_shm_record *r,
                     gli_taken *taken) {
  taken->credit = r->header.credit;
  taken->eager = r->header.eager;
  atomic_signal_fence(memory_order_seq_cst);
  gli_shm_take(in);
}

const gli_shm_record *gli_shm_expected(gli_shm_in *in,
                                       const gli_header *expected) {
  static const gli_header head = {.mark = GLI_SHM_HEAD};
  uint32_t next = atomic_load_explicit(&in->next, memory_order_relaxed);
  gli_shm_slot *slot = &in->memory->slots[next % GLI_SHM_SLOTS];
  if (atomic_load_explicit(&slot->flag.sequence, memory_order_acquire) !=
      next + 1)
    return NULL;
  const gli_shm_record *r = &slot->record;
  return shm_ring_differ(&r->header, &head, expected) == 0 ? r : NULL;
}

void gli_shm_take_short(gli_shm_in *in, const gli_shm_record *r,
                        gli_taken *taken) {
  memcpy(taken->room, r->data, GLI_SHM_INLINE);
  taken->payload = taken->room;
  took(in, r, taken);
}

bool gli_shm_take_long(gli_shm_in *in, const gli_shm_record *r, size_t bytes,
                       gli_taken *taken) {
  if (bytes > in->chunk) return false;
  taken->payload = gli_shm_chunk(in, r, bytes);
  took(in, r, taken);
  return true;
}

bool gli_shm_begins(gli_shm_in *in, const gli_shm_record *record) {
  uint8_t kind = record->header.mark;
  if (kind != GLI_SHM_HEAD && kind != GLI_SHM_REWIND) return false;
  if (!gli_header_valid(&record->header)) return false;
  if (kind == GLI_SHM_REWIND) in->at = start_after(in->at, in->data_bytes);
  return true;
}

static bool goes_on(gli_shm_in *in, uint8_t kind, gli_shm_kind more,
                    gli_shm_kind rewound) {
  if (kind == rewound) in->at = start_after(in->at, in->data_bytes);
  return kind == more || kind == rewound;
}

bool gli_shm_continues(gli_shm_in *in, const gli_shm_record *record) {
  return goes_on(in, record->header.mark, GLI_SHM_MORE, GLI_SHM_MORE_REWIND);
}

bool gli_shm_begins_checked(gli_shm_in *in, const gli_shm_record *record,
                            uint32_t *payload_sum) {
  uint8_t kind = record->header.mark;
  if (kind != GLI_SHM_CHECKED_HEAD && kind != GLI_SHM_CHECKED_REWIND)
    return false;
  uint32_t next = atomic_load_explicit(&in->next, memory_order_relaxed);
  if (gli_get_u32(record->data) != header_sum(record, next)) return false;
  if (!gli_header_valid(&record->header)) return false;
  if (kind == GLI_SHM_CHECKED_REWIND)
    in->at = start_after(in->at, in->data_bytes);
  *payload_sum = gli_get_u32(record->data + 4);
  return true;
}

bool gli_shm_continues_checked(gli_shm_in *in, const gli_shm_record *record) {
  return goes_on(in, record->header.mark, GLI_SHM_CHECKED_MORE,
                 GLI_SHM_CHECKED_MORE_REWIND);
}

const uint8_t *gli_shm_chunk(gli_shm_in *in, const gli_shm_record *record,
                             size_t bytes) {
  size_t skew = skew_in(record, bytes);
  uint64_t from = shm_ring_place(in->at, in->data_bytes, skew + bytes);
  in->at = from + shm_ring_lines(skew + bytes);
  return in->memory->data + from % in->data_bytes + skew;
}

void gli_shm_take(gli_shm_in *in) {
  uint32_t next = atomic_load_explicit(&in->next, memory_order_relaxed);
  atomic_store_explicit(&in->next, next + 1, memory_order_relaxed);
}

bool gli_shm_ack(gli_shm_in *in, bool ask) {
  gli_shm_memory *m = in->memory;
  uint32_t next = atomic_load_explicit(&in->next, memory_order_relaxed);
  atomic_store_explicit(&m->slots_taken, next, memory_order_release);
  if (!ask) {
    atomic_store_explicit(&m->bytes_taken, in->at, memory_order_release);
    return false; /* the sender may still have to be woken */
  }
  in->acked = next;
  in->acked_at = in->at;
  atomic_store(&m->bytes_taken, in->at);
  return atomic_load(&m->wants) != 0;
}
