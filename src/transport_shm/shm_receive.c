/* Receiving: payload is copied or reduced from the ring. */
#include <inttypes.h>
#include <string.h>

#include "core/crc32c.h"
#include "core/error.h"
#include "kernels/copy.h"
#include "kernels/reduce.h"
#include "transport/sink.h"
#include "transport_shm/shm.h"

/* Limit on records of one pair per poll, so that all pairs make progress. */
enum { RECORDS_PER_POLL = 64 };

/* Limits after which records are acknowledged together. */
enum { ACK_BYTES = GLI_SHM_ACK_BYTES, ACK_RECORDS = GLI_SHM_ACK_RECORDS };

static void shm_recv_garbled(gli_shm_pair *pair) {
  if (pair->peer.checked)
    gli_peer_spoil(&pair->peer,
                   "a message from rank %" PRIu32 " to rank %" PRIu32
                   " is corrupt: the checksum (CRC32C) of its header in shared "
                   "memory is wrong; check the memory of the host",
                   pair->peer.config.peer_rank, pair->peer.config.self_rank);
  else
    gli_peer_spoil(&pair->peer,
                   "rank %" PRIu32
                   " wrote invalid data into shared memory for rank %" PRIu32
                   "; do all ranks run the same version of the library?",
                   pair->peer.config.peer_rank, pair->peer.config.self_rank);
}

static void shm_recv_damaged(gli_shm_pair *pair, uint64_t bytes) {
  gli_peer_spoil(&pair->peer,
                 "a message of %" PRIu64 " bytes from rank %" PRIu32
                 " to rank %" PRIu32
                 " is corrupt: its checksum (CRC32C) is %08" PRIx32
                 ", expected %08" PRIx32 "; check the memory of the host",
                 bytes, pair->peer.config.peer_rank,
                 pair->peer.config.self_rank, pair->sum, pair->expected_sum);
}

/* Chunks begin on whole elements: their length is a multiple of a line, and
 * element sizes are powers of two up to 16 bytes. */
static void shm_recv_place(gli_shm_pair *pair, const uint8_t *data,
                           size_t bytes) {
  const gli_sink *sink = &pair->sink;
  if (sink->fn == NULL && sink->nontemporal)
    gli_copy_nontemporal((uint8_t *)sink->dst + pair->placed, data, bytes);
  else
    gli_sink_place(sink, pair->placed, data, bytes);
  pair->placed += bytes;
}

static size_t chunk_of(const gli_shm_pair *pair, uint64_t left) {
  return left < pair->in.chunk ? (size_t)left : pair->in.chunk;
}

/* Moves to the next record. */
static void shm_recv_take(gli_shm_pair *pair, size_t bytes) {
  gli_shm_take(&pair->in);
  if (bytes >= ACK_BYTES) (void)gli_shm_ack(&pair->in, false);
}

static void ask_where(gli_shm_pair *pair) {
  gloo_status status = pair->t->peers.upcalls->header(
      pair->peer.config.user, &pair->header, &pair->sink);
  if (status != GLOO_OK) pair->peer.live = false;
  pair->peer.in_message = pair->peer.live;
}

/* Offers a message of a single record to the `message` upcall. Returns false if
 * the sink has to be requested, provided that the pair is still live. */
static bool shm_take_whole(gli_shm_pair *pair, const gli_header *header,
                           const uint8_t *data) {
  const gli_upcalls *upcalls = pair->t->peers.upcalls;
  bool taken = false;
  if (upcalls->message == NULL) return false;
  gloo_status status =
      upcalls->message(pair->peer.config.user, header, data, &taken);
  if (status != GLOO_OK) pair->peer.live = false;
  return taken;
}

static void message_done(gli_shm_pair *pair) {
  pair->peer.in_message = false;
  uint8_t type = pair->header.type;
  if (type == GLI_MESSAGE_BYE || type == GLI_MESSAGE_ABORT) {
    pair->peer.departed = true;
    if (pair->queue.head != NULL) gli_peers_touch(&pair->t->peers);
  }
  pair->t->peers.upcalls->received(pair->peer.config.user, pair->sink.token);
}

static void receive_more(gli_shm_pair *pair, const uint8_t *data,
                         size_t bytes) {
  if (bytes > 0) shm_recv_place(pair, data, bytes);
  shm_recv_take(pair, bytes);
  if (pair->placed == pair->header.length) message_done(pair);
}

/* Receives a message whose first chunk is at `data`. */
GLI_APART static void receive_rest(gli_shm_pair *pair, const gli_header *header,
                                   const uint8_t *data, size_t bytes) {
  pair->header = *header;
  pair->placed = 0;
  if (pair->peer.live) ask_where(pair);
  if (pair->peer.live) receive_more(pair, data, bytes);
}

GLI_APART static void receive_first(gli_shm_pair *pair,
                                    const gli_shm_record *record) {
  const gli_header *header = &record->header;
  size_t bytes = chunk_of(pair, header->length);
  const uint8_t *data = gli_shm_chunk(&pair->in, record, bytes);
  if (bytes == header->length && shm_take_whole(pair, header, data)) {
    shm_recv_take(pair, bytes);
    return;
  }
  receive_rest(pair, header, data, bytes);
}

/* Receives a message whose payload fits its slot. */
static void receive_short(gli_shm_pair *pair, const gli_shm_record *record) {
  const gli_header *header = &record->header;
  if (shm_take_whole(pair, header, record->data)) {
    gli_shm_take(&pair->in);
    return;
  }
  receive_rest(pair, header, record->data, (size_t)header->length);
}

static inline bool much_unacked(const gli_shm_pair *pair) {
  return gli_shm_unacked(&pair->in) >= ACK_RECORDS ||
         gli_shm_unacked_bytes(&pair->in) >= ACK_BYTES;
}

/* Returns true if the next record must begin a message that the pair reads. */
static inline bool reads_whole(const gli_shm_pair *pair) {
  static const gli_transport_peer open = {.live = true, .up = true};
  return pair->peer.rx_state == open.rx_state;
}

/* Acknowledges earlier records first, because this one must be read before the
 * sender is notified of it. */
GLI_APART static bool take_long(gli_shm_pair *pair,
                                const gli_shm_record *record, uint64_t bytes,
                                gli_taken *taken) {
  if (much_unacked(pair)) gli_shm_give_back(pair);
  return gli_shm_take_long(&pair->in, record, (size_t)bytes, taken);
}

bool gli_shm_take_now(gli_pair *base, const gli_header *expected,
                      gli_taken *taken) {
  gli_shm_pair *pair = (gli_shm_pair *)base;
  if (!reads_whole(pair)) return false;
  const gli_shm_record *record = gli_shm_expected(&pair->in, expected);
  if (record == NULL) return false;
  if (expected->length > GLI_SHM_INLINE)
    return take_long(pair, record, expected->length, taken);
  gli_shm_take_short(&pair->in, record, taken);
  if (gli_shm_unacked(&pair->in) >= ACK_RECORDS) gli_shm_give_back(pair);
  return true;
}

/* Receives the first record of a message with checksums. The header is verified
 * before it is used, and so is the payload if this record has all of it. */
GLI_APART static void receive_checked(gli_shm_pair *pair,
                                      const gli_shm_record *record) {
  if (!pair->peer.checked ||
      !gli_shm_begins_checked(&pair->in, record, &pair->expected_sum)) {
    shm_recv_garbled(pair);
    return;
  }
  const gli_header *header = &record->header;
  size_t bytes = chunk_of(pair, header->length);
  const uint8_t *data = gli_shm_chunk(&pair->in, record, bytes);
  pair->sum = gli_crc32c(0, data, bytes);
  if (bytes == header->length && pair->sum != pair->expected_sum) {
    shm_recv_damaged(pair, header->length);
  } else if (bytes == header->length && shm_take_whole(pair, header, data)) {
    shm_recv_take(pair, bytes);
  } else {
    receive_rest(pair, header, data, bytes);
  }
}

/* Receives a further record of a message with checksums. */
GLI_APART static void go_on_checked(gli_shm_pair *pair,
                                    const gli_shm_record *record) {
  if (pair->peer.checked && record->header.mark == GLI_SHM_CHECKED_CUT) {
    pair->peer.in_message = false;
    gli_shm_take(&pair->in);
    return;
  }
  if (!pair->peer.checked || !gli_shm_continues_checked(&pair->in, record)) {
    shm_recv_garbled(pair);
    return;
  }
  uint64_t left = pair->header.length - pair->placed;
  size_t bytes = chunk_of(pair, left);
  const uint8_t *data = gli_shm_chunk(&pair->in, record, bytes);
  pair->sum = gli_crc32c(pair->sum, data, bytes);
  if (bytes == left && pair->sum != pair->expected_sum)
    shm_recv_damaged(pair, pair->header.length);
  else
    receive_more(pair, data, bytes);
}

/* Receives a record that continues a message, or a CUT. */
GLI_APART static void go_on(gli_shm_pair *pair, const gli_shm_record *record) {
  if (record->header.mark == GLI_SHM_CUT) {
    pair->peer.in_message = false;
    gli_shm_take(&pair->in);
  } else if (gli_shm_continues(&pair->in, record)) {
    size_t bytes = chunk_of(pair, pair->header.length - pair->placed);
    receive_more(pair, gli_shm_chunk(&pair->in, record, bytes), bytes);
  } else {
    go_on_checked(pair, record);
  }
}

/* Receives one record. */
GLI_INLINE void receive_one(gli_shm_pair *pair) {
  gli_shm_record record;
  gli_shm_get(&pair->in, &record);
  if (pair->peer.in_message) {
    go_on(pair, &record);
  } else if (!gli_shm_begins(&pair->in, &record)) {
    receive_checked(pair, &record);
  } else if (record.header.length <= GLI_SHM_INLINE) {
    receive_short(pair, &record);
  } else {
    receive_first(pair, &record);
  }
}

void gli_shm_give_back(gli_shm_pair *pair) {
  if (gli_shm_ack(&pair->in, true) && gli_shm_peer_sleeps(pair))
    gli_shm_ring(pair);
}

int gli_shm_receive(gli_shm_pair *pair) {
  int n = 0;
  do {
    receive_one(pair);
  } while (++n < RECORDS_PER_POLL && pair->peer.live && !pair->peer.departed &&
           gli_shm_ready(&pair->in, memory_order_acquire));
  /* The fence is too expensive for each small message. It is done for several
   * messages at once, or by the next poll that finds nothing new. */
  if (much_unacked(pair)) gli_shm_give_back(pair);
  return n;
}
