/* The upcalls of a transport, checked against the contract. */
#include <stdlib.h>

#include "battery_parts.h"

static void check_silent(bat_pair *p, const char *text) {
  if (p->closed || p->stopped || p->failed > 0) bat_complain(p->world, text);
}

/* Allocates a buffer for this message alone, at an odd address. */
static gloo_status default_sink(bat_pair *p, const gli_header *header,
                                gli_sink *sink) {
  size_t bytes = (size_t)header->length;
  uint8_t *block = bat_memory(p->world, bytes + 1);
  p->in[p->n_in - 1].data = block + 1;
  sink->dst = bytes > 0 ? block + 1 : NULL;
  return GLOO_OK;
}

static void note_header(bat_pair *p, const gli_header *header) {
  if (p->n_in == p->in_capacity) {
    p->in_capacity = p->in_capacity * 2 + 16;
    p->in = realloc(p->in, p->in_capacity * sizeof *p->in);
    if (p->in == NULL) abort();
  }
  p->in[p->n_in++] = (bat_message){.header = *header};
}

static gloo_status on_header(void *pair_user, const gli_header *header,
                             gli_sink *sink) {
  bat_pair *p = pair_user;
  check_silent(p, "header upcall for a pair that had ended");
  note_header(p, header);
  *sink = (gli_sink){.token = (void *)(uintptr_t)p->n_in};
  gloo_status status = (p->sink ? p->sink : default_sink)(p, header, sink);
  if (status != GLOO_OK) p->stopped = true;
  return status;
}

static void on_received(void *pair_user, void *token) {
  bat_pair *p = pair_user;
  check_silent(p, "received upcall for a pair that had ended");
  size_t i = (size_t)(uintptr_t)token;
  if (i == 0 || i > p->n_in) {
    bat_complain(p->world, "received upcall with a token that was never given");
    return;
  }
  bat_message *m = &p->in[i - 1];
  if (m->received) bat_complain(p->world, "two received upcalls for a message");
  m->received = true;
  p->n_received++;
  gli_header header = m->header;
  if (p->on_received) p->on_received(p, &header);
}

/* Takes some messages as a whole, but only those with the default sink. */
static gloo_status on_message(void *pair_user, const gli_header *header,
                              const void *payload, bool *taken) {
  bat_pair *p = pair_user;
  check_silent(p, "message upcall for a pair that had ended");
  *taken =
      p->sink == NULL && header->type == GLI_MESSAGE_DATA && p->n_in % 3 != 0;
  if (!*taken) return GLOO_OK;
  gli_sink sink = {0};
  note_header(p, header);
  (void)default_sink(p, header, &sink);
  if (header->length > 0) memcpy(sink.dst, payload, (size_t)header->length);
  on_received(p, (void *)(uintptr_t)p->n_in);
  return GLOO_OK;
}

static void on_sent(void *pair_user, gli_send_request *request) {
  bat_pair *p = pair_user;
  check_silent(p, "sent upcall for a pair that had ended");
  bat_post *post = p->posts.next_post;
  while (post != &p->posts && &post->request != request) {
    post = post->next_post;
  }
  if (post == &p->posts) {
    bat_complain(p->world, "sent upcall for a request not in progress");
    return;
  }
  bat_post_done(p, post);
}

static void on_failed(void *pair_user, const gloo_error *cause) {
  bat_pair *p = pair_user;
  check_silent(p, "failed upcall for a pair that had ended");
  p->failed++;
  p->cause = *cause;
  /* Where its own device is at fault, a rank names itself. */
  bool own =
      cause->status == GLOO_ERR_IO && cause->rank == (int)p->config.self_rank;
  if (cause->rank != (int)p->config.peer_rank && !own) {
    bat_complain(p->world, "failed upcall does not name the peer's rank");
  }
  if (cause->status == GLOO_OK || cause->message[0] == '\0') {
    bat_complain(p->world, "failed upcall without a cause");
  }
}

/* Returns the pair that a peer asks for, or NULL. */
static bat_pair *find_asked(bat_end *end, uint64_t key, uint32_t peer_rank) {
  bat_world *w = end->world;
  uv_mutex_lock(&w->lock);
  bat_pair *p = w->pairs;
  for (; p != NULL; p = p->next) {
    if (&w->ends[p->end] != end || !p->expected || p->closed) continue;
    if (p->config.local_key != key || p->config.peer_rank != peer_rank)
      continue;
    break;
  }
  uv_mutex_unlock(&w->lock);
  return p;
}

static gli_pair *on_accept(void *device_user, uint64_t key,
                           uint32_t peer_rank) {
  bat_end *end = device_user;
  end->accepts++;
  bat_pair *p = find_asked(end, key, peer_rank);
  if (p == NULL) return NULL;
  if (p->pair == NULL) bat_open(p);
  return p->pair;
}

static bool on_expect(void *device_user, uint64_t key, uint32_t peer_rank,
                      gli_pair_config *config) {
  const bat_pair *p = find_asked(device_user, key, peer_rank);
  if (p == NULL) return false;
  *config = p->config;
  return true;
}

const gli_upcalls bat_upcalls = {.header = on_header,
                                 .received = on_received,
                                 .sent = on_sent,
                                 .failed = on_failed,
                                 .accept = on_accept,
                                 .expect = on_expect,
                                 .message = on_message};
