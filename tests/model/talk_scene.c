#include "talk_scene.h"

#include <string.h>

#include "kernel.h"
#include "kinds.h"
#include "model.h"

static const talk_script *script;
static process processes[2];

host *host_of_thread(void) {
  return &(*(process **)model_self())->host;
}

heap *heap_of_thread(void) {
  return &(*(process **)model_self())->heap;
}

static const talk_side *side_of(const process *p) {
  return &script->sides[p->me];
}

static const talk_side *other_side(const process *p) {
  return &script->sides[1 - p->me];
}

/* ---- upcalls ------------------------------------------------------------- */

static gloo_status header_came(void *user, const gli_header *header,
                               gli_sink *sink) {
  process *p = user;
  p->header = *header;
  const talk_side *from = other_side(p);
  bool data = header->type == GLI_MESSAGE_DATA;
  if (data) {
    model_check(header->operation == (uint64_t)p->got, "out of order");
    model_check(p->got < from->n, "too many messages");
    model_check(header->length == from->lengths[p->got], "a wrong length");
  } else {
    model_check(header->type == from->last, "a message of a wrong type");
  }
  *sink = (gli_sink){.dst = p->data};
  return GLOO_OK;
}

static void received(void *user, void *token) {
  process *p = user;
  (void)token;
  if (p->header.type != GLI_MESSAGE_DATA) {
    p->left = true;
    return;
  }
  model_check(message_is(p->got, &p->header, p->data), "garbled");
  p->got++;
}

static void sent(void *user, gli_send_request *request) {
  process *p = user;
  model_check(request == &p->requests[p->sent], "sent out of order");
  p->sent++;
}

/* The pair has failed; all data that the peer had written must have been
 * read. */
static void failed(void *user, const gloo_error *cause) {
  process *p = user;
  (void)cause;
  model_check(model_is_gone(1 - p->me), "a pair fails for no reason");
  uint32_t next = p->host.pair.in.next;
  gli_shm_slot *slot = &p->host.pair.in.memory->slots[next % GLI_SHM_SLOTS];
  model_check((uint32_t)model_newest(&slot->flag.sequence) != next + 1,
              "a record of the dead is not read");
  p->failed = true;
}

static const gli_upcalls upcalls = {.header = header_came,
                                    .received = received,
                                    .sent = sent,
                                    .failed = failed};

/* ---- steps of a process -------------------------------------------------- */

bool process_may_post(const process *p) {
  const talk_side *side = side_of(p);
  if (p->failed || p->closed || p->posted == side->n) return false;
  return side->after == 0 || p->got >= side->after + p->posted;
}

void process_post(process *p) {
  int k = p->posted++;
  gli_send_request *r = &p->requests[k];
  gli_header h = message_header(k, GLI_MESSAGE_DATA, side_of(p)->lengths[k]);
  r->header = h;
  r->payload = message_payload(k);
  if (gli_shm_send(&p->host.pair.peer.base, r) == GLI_POST_DONE) p->sent++;
}

static bool may_close(const process *p) {
  return side_of(p)->last != 0 && !p->closed && p->posted == side_of(p)->n;
}

static void close_pair(process *p) {
  uint8_t type = side_of(p)->last;
  uint32_t length = type == GLI_MESSAGE_ABORT ? 20 : 0;
  gli_send_request last = {.header = message_header(0, type, length),
                           .payload = message_payload(0)};
  p->closed = true;
  gli_shm_pair_close(&p->host.pair.peer.base, &last);
}

static bool is_done(process *p) {
  if (p->failed) return true;
  if (p->closed) return !gli_shm_lingering(&p->host.t);
  bool all_here = p->got == other_side(p)->n;
  if (other_side(p)->last != 0) {
    /* An abort may end messages in transit. */
    model_check(
        !p->left || all_here || other_side(p)->last == GLI_MESSAGE_ABORT,
        "messages are lost");
    return p->left;
  }
  return p->sent == side_of(p)->n && all_here;
}

bool process_turn(void *self) {
  process *p = self;
  switch (p->phase) {
    case POSTING:
      if (process_may_post(p)) {
        process_post(p);
        return true;
      }
      if (may_close(p)) close_pair(p);
      p->phase = POLLING;
      break;
    case POLLING:
      p->host.t.polls = 0; /* otherwise no two states would be equal */
      int events = gli_shm_poll(&p->host.t.peers.base);
      if (is_done(p)) return false;
      p->phase = events > 0 || process_may_post(p) ? POSTING : SLEEPING;
      break;
    case SLEEPING:
      gli_shm_sleep(&p->host.t.peers.base, -1);
      p->phase = POLLING;
      break;
  }
  return true;
}

void processes_set_up(const talk_script *of, process *both[2]) {
  static const char *const rings[] = {"", "back "};
  static const char *const asleep[] = {"zero asleep", "one asleep"};
  static const char *const looked[] = {"zero looked", "one looked"};
  script = of;
  gli_shm_page *pages[2];
  gli_shm_memory *memories[2];
  for (int i = 0; i < 2; i++) {
    pages[i] = model_alloc(sizeof(gli_shm_page));
    model_atomic(&pages[i]->asleep, 4, asleep[i], KIND_ASLEEP);
    model_atomic(&pages[i]->looked_ns, 8, looked[i], KIND_OTHER);
    memories[i] = ring_in_arena(of->data_bytes, 0, rings[i]);
    for (int k = 0; k < of->sides[i].n; k++) (void)message_payload(k);
  }
  for (int i = 0; i < 2; i++) {
    process *p = both[i];
    memset(p, 0, sizeof *p);
    p->self = p;
    p->me = i;
    host_set_up(&p->host, i, pages, &upcalls);
    p->host.pair.peer.config.user = p;
    p->host.pair.out = ring_out(memories[i], of->data_bytes, of->chunk, 0);
    p->host.pair.in = ring_in(memories[1 - i], of->data_bytes, of->chunk, 0);
  }
}

void talk_scene_set_up(const talk_script *of) {
  static const char *const names[] = {"zero", "one"};
  process *both[2] = {&processes[0], &processes[1]};
  model_begin();
  processes_set_up(of, both);
  for (int i = 0; i < 2; i++)
    model_thread(names[i], i, process_turn, both[i], sizeof *both[i]);
}
