#include "ring_scene.h"

#include <string.h>

#include "model.h"

typedef struct sender {
  gli_shm_out out;
  int next;
  bool cutting;
  uint64_t progress;
} sender;

typedef struct receiver {
  gli_shm_in in;
  int next;
  bool inside, unacked;
  gli_header header;
  uint64_t placed;
  uint8_t data[MESSAGE_BYTES];
} receiver;

static const ring_script *script;
static gli_shm_memory *memory;
static sender the_sender;
static receiver the_receiver;

static void await_room(sender *s) {
  model_check(!s->out.broken, "the counters make no sense");
  model_await(&memory->slots_taken, &memory->bytes_taken);
}

static bool cut_short(sender *s) {
  if (s->progress > 0 && !gli_shm_put_cut(&s->out)) {
    await_room(s);
    return true;
  }
  s->cutting = false;
  s->progress = 0;
  s->next++;
  return true;
}

static bool send_turn(void *self) {
  sender *s = self;
  if (s->next == script->n) return false;
  if (s->cutting) return cut_short(s);
  int k = s->next;
  gli_header h = message_header(k, GLI_MESSAGE_DATA, script->lengths[k]);
  if (gli_shm_put(&s->out, &h, message_payload(k), &s->progress)) {
    s->progress = 0;
    s->next++;
  } else if (k == script->cut) {
    s->cutting = true;
  } else {
    await_room(s);
  }
  return true;
}

static void begin_message(receiver *r, const gli_shm_record *record) {
  model_check(gli_shm_begins(&r->in, record), "no head of a message");
  r->header = record->header;
  if (r->header.operation != (uint64_t)r->next && r->next == script->cut)
    r->next++;
  model_check(r->header.operation == (uint64_t)r->next, "out of order");
  model_check(r->header.length == script->lengths[r->next], "a wrong length");
  r->placed = 0;
  r->inside = true;
}

static void place_chunk(receiver *r, const gli_shm_record *record) {
  uint64_t left = r->header.length - r->placed;
  size_t bytes = (size_t)(left < script->chunk ? left : script->chunk);
  const uint8_t *from = record->data;
  if (r->header.length > GLI_SHM_INLINE)
    from = gli_shm_chunk(&r->in, record, bytes);
  if (script->early) gli_shm_take(&r->in);
  if (script->early) (void)gli_shm_ack(&r->in, false);
  memcpy(r->data + r->placed, from, bytes);
  r->placed += bytes;
}

static void receive_one(receiver *r) {
  gli_shm_record record;
  gli_shm_get(&r->in, &record);
  if (r->inside && record.header.mark == GLI_SHM_CUT) {
    model_check(r->next == script->cut, "a message is cut");
    r->inside = false;
    r->next++;
    return;
  }
  if (!r->inside)
    begin_message(r, &record);
  else
    model_check(record.header.mark == GLI_SHM_MORE, "no part of the message");
  place_chunk(r, &record);
  if (r->placed < r->header.length) return;
  model_check(message_is(r->next, &r->header, r->data), "garbled");
  r->inside = false;
  r->next++;
}

/* Takes every other message in place, if it is contiguous. */
static bool take_expected(receiver *r) {
  if (r->inside || script->early || r->next == script->n) return false;
  if (r->next % 2 == 0) return false;
  gli_header h =
      message_header(r->next, GLI_MESSAGE_DATA, script->lengths[r->next]);
  gli_taken taken;
  const gli_shm_record *record = gli_shm_expected(&r->in, &h);
  if (record == NULL) return false;
  if (h.length <= GLI_SHM_INLINE) {
    gli_shm_take_short(&r->in, record, &taken);
  } else if (!gli_shm_take_long(&r->in, record, (size_t)h.length, &taken)) {
    return false;
  }
  model_check(taken.credit == h.credit, "another credit");
  model_check(message_is(r->next, &h, taken.payload), "garbled");
  r->next++;
  return true;
}

static bool receive_turn(void *self) {
  receiver *r = self;
  bool taken = take_expected(r);
  if (taken || gli_shm_ready(&r->in, memory_order_acquire)) {
    if (!taken) receive_one(r);
    if (!taken && !script->early) gli_shm_take(&r->in);
    r->unacked = model_choose(2) == 0;
    if (!r->unacked) (void)gli_shm_ack(&r->in, false);
    return true;
  }
  if (r->unacked) (void)gli_shm_ack(&r->in, true);
  r->unacked = false;
  if (r->next == script->n) return false;
  uint32_t next = atomic_load_explicit(&r->in.next, memory_order_relaxed);
  model_await(&memory->slots[next % GLI_SHM_SLOTS].flag.sequence, NULL);
  return true;
}

void ring_scene_set_up(const ring_script *of) {
  script = of;
  model_begin();
  memory = ring_in_arena(of->data_bytes, of->first, "");
  memset(&the_sender, 0, sizeof the_sender);
  memset(&the_receiver, 0, sizeof the_receiver);
  the_sender.out = ring_out(memory, of->data_bytes, of->chunk, of->first);
  the_receiver.in = ring_in(memory, of->data_bytes, of->chunk, of->first);
  for (int i = 0; i < of->n; i++) (void)message_payload(i);
  model_thread("sender", 0, send_turn, &the_sender, sizeof the_sender);
  model_thread("receiver", 1, receive_turn, &the_receiver, sizeof the_receiver);
}
