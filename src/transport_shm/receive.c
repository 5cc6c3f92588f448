/* Receiving: payload is stored or reduced straight out of the ring. Linux only.
 */
#include <string.h>

#include "core/error.h"
#include "transport_shm/shm.h"

/* Records of one pair in one poll, so that all get a turn. */
enum { RECORDS_PER_POLL = 64 };

/* So much is given back to the sender at once. */
enum { TELL_BYTES = GLI_SHM_TELL_BYTES, TELL_RECORDS = GLI_SHM_TELL_RECORDS };

static void garbled(gli_shm_pair *pair) {
  gli_shm_pair_break(pair, GLOO_ERR_PROTOCOL,
                     "what rank %u wrote into shared memory makes no sense; do "
                     "all ranks run the same version of the library?",
                     (unsigned)pair->config.peer_rank);
}

/* Chunks begin on whole elements: their length is a multiple of a line, and the
 * sizes of elements are powers of two of at most 16 bytes. */
static void place(gli_shm_pair *pair, const uint8_t *data, size_t bytes) {
  const gli_sink *sink = &pair->sink;
  uint8_t *dst = (uint8_t *)sink->dst + pair->placed;
  if (sink->fn == NULL) {
    memcpy(dst, data, bytes);
  } else {
    const uint8_t *local = (const uint8_t *)sink->local + pair->placed;
    size_t n = bytes / sink->elem_bytes;
    if (sink->incoming_left)
      sink->fn(dst, data, local, n);
    else
      sink->fn(dst, local, data, n);
  }
  pair->placed += bytes;
}

/* False when nothing more is to be read from this pair. */
static bool begin_message(gli_shm_pair *pair, const gli_shm_record *record) {
  if (record->kind != GLI_SHM_HEAD ||
      !gli_shm_record_header(record, &pair->header)) {
    garbled(pair);
    return false;
  }
  if (record->rewind) gli_shm_rewind(&pair->in);
  pair->placed = 0;
  pair->in_message = true;
  gloo_status status =
      pair->t->upcalls->header(pair->config.user, &pair->header, &pair->sink);
  if (status != GLOO_OK) pair->live = false;
  return pair->live;
}

static void place_chunk(gli_shm_pair *pair, const gli_shm_record *record) {
  uint64_t length = pair->header.length;
  if (length == 0) return;
  if (length <= GLI_SHM_INLINE) {
    place(pair, record->data, (size_t)length);
    return;
  }
  uint64_t left = length - pair->placed;
  size_t bytes = left < pair->in.chunk ? (size_t)left : pair->in.chunk;
  place(pair, gli_shm_chunk(&pair->in, bytes), bytes);
  if (bytes >= TELL_BYTES) {
    gli_shm_take(&pair->in);
    (void)gli_shm_tell(&pair->in, false);
  }
}

static void message_done(gli_shm_pair *pair) {
  pair->in_message = false;
  uint8_t type = pair->header.type;
  if (type == GLI_MESSAGE_BYE || type == GLI_MESSAGE_ABORT) {
    pair->left = true;
    if (pair->queue.head != NULL) gli_shm_touch(pair->t);
  }
  pair->t->upcalls->received(pair->config.user, pair->sink.token);
}

/* One record. False when there is to be no more for now. */
static bool receive_one(gli_shm_pair *pair) {
  gli_shm_record record;
  gli_shm_get(&pair->in, &record);
  if (pair->in_message && record.kind == GLI_SHM_CUT) {
    pair->in_message = false;
    gli_shm_take(&pair->in);
    return true;
  }
  bool first = !pair->in_message;
  if (first && !begin_message(pair, &record)) return false;
  if (!first && record.kind != GLI_SHM_MORE) {
    garbled(pair);
    return false;
  }
  uint32_t at = atomic_load_explicit(&pair->in.next, memory_order_relaxed);
  place_chunk(pair, &record);
  if (atomic_load_explicit(&pair->in.next, memory_order_relaxed) == at)
    gli_shm_take(&pair->in);
  if (pair->placed == pair->header.length) message_done(pair);
  return pair->live && !pair->left;
}

void gli_shm_give_back(gli_shm_pair *pair) {
  if (gli_shm_tell(&pair->in, true) && gli_shm_peer_sleeps(pair))
    gli_shm_ring(pair);
}

int gli_shm_receive(gli_shm_pair *pair) {
  int n = 0;
  while (n < RECORDS_PER_POLL &&
         gli_shm_ready(&pair->in, memory_order_acquire)) {
    n++;
    if (!receive_one(pair)) break;
  }
  /* It costs a fence, which small messages need not wait for: theirs is done
   * for several at once, or by the next poll that finds nothing new. */
  if (gli_shm_untold(&pair->in) >= TELL_RECORDS ||
      gli_shm_untold_bytes(&pair->in) >= TELL_BYTES)
    gli_shm_give_back(pair);
  return n;
}
