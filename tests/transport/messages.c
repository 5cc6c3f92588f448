/* The messages that the battery sends, and their contents. */
#include <stdlib.h>

#include "battery_parts.h"
#include "gloo_c/memory.h"
#include "memory/region.h"

enum { BAT_SHORT = 3000 };

/* ---- memory -------------------------------------------------------------- */

void *bat_memory(const bat_world *w, size_t bytes) {
  void *memory = NULL;
  if (!w->variant->alloc)
    memory = malloc(bytes);
  else if (gloo_alloc(bytes, &memory, NULL) != GLOO_OK)
    memory = NULL;
  if (memory == NULL) abort();
  if (w->variant->registered &&
      gloo_memory_register(memory, bytes, NULL) != GLOO_OK)
    abort();
  return memory;
}

void bat_memory_free(void *memory) {
  gli_region region;
  bool found = memory != NULL && gli_region_find(memory, 1, &region);
  if (found && gli_region_is_shared(&region)) {
    gloo_free(memory);
    return;
  }
  if (found && gloo_memory_deregister(memory, NULL) != GLOO_OK) abort();
  free(memory);
}

/* ---- posts --------------------------------------------------------------- */

static void ring_add(bat_post *ring, bat_post *post) {
  post->prev = ring->prev;
  post->next_post = ring;
  ring->prev->next_post = post;
  ring->prev = post;
}

static void ring_remove(bat_post *post) {
  post->prev->next_post = post->next_post;
  post->next_post->prev = post->prev;
}

static void post_free(bat_post *post) {
  uint8_t *payload = (uint8_t *)(uintptr_t)post->request.payload;
  if (payload != NULL) {
    memset(payload, 0xee, (size_t)post->request.header.length);
    bat_memory_free(payload - 1);
  }
  memset(post, 0xee, sizeof *post);
  free(post);
}

void bat_drop_posts(bat_post *ring) {
  while (ring->next_post != ring) {
    bat_post *post = ring->next_post;
    ring_remove(post);
    post_free(post);
  }
}

void bat_post_done(bat_pair *p, bat_post *post) {
  ring_remove(post);
  post_free(post);
  p->n_done++;
}

/* ---- sending ------------------------------------------------------------- */

/* Every other short message is first tried without a request. */
static bool offer_now(bat_pair *p, bat_post *post) {
  const gli_transport_ops *ops = p->pair->ops;
  gli_send_request *request = &post->request;
  if (ops->send_now == NULL || p->n_done % 2 != 0) return false;
  if (request->header.length > BAT_SHORT) return false;
  return ops->send_now(p->pair, &request->header, request->payload);
}

static bool offer(bat_pair *p, bat_post *post) {
  if (offer_now(p, post)) {
    post_free(post);
    p->n_done++;
    return true;
  }
  switch (p->pair->ops->send(p->pair, &post->request)) {
    case GLI_POST_DONE:
      post_free(post);
      p->n_done++;
      return true;
    case GLI_POST_IN_PROGRESS:
      ring_add(&p->posts, post);
      return true;
    case GLI_POST_NO_ROOM:
      return false;
  }
  bat_complain(p->world, "send returned none of the three results");
  return true;
}

void bat_offer_again(bat_pair *p) {
  while (!p->closed && p->again.next_post != &p->again) {
    bat_post *post = p->again.next_post;
    ring_remove(post);
    if (offer(p, post)) continue;
    post->prev = &p->again; /* back to the front */
    post->next_post = p->again.next_post;
    p->again.next_post->prev = post;
    p->again.next_post = post;
    return;
  }
}

void bat_send_header(bat_pair *p, const gli_header *header,
                     const void *payload) {
  bat_post *post = calloc(1, sizeof *post);
  size_t bytes = (size_t)header->length;
  uint8_t *copy = bat_memory(p->world, bytes + 1);
  if (post == NULL || copy == NULL) abort();
  if (bytes > 0) memcpy(copy + 1, payload, bytes);
  post->request.header = *header;
  post->request.payload = copy + 1;
  p->n_posted++;
  if (p->again.next_post != &p->again || !offer(p, post)) {
    ring_add(&p->again, post);
  }
}

void bat_send(bat_pair *p, uint32_t slot, const void *payload, size_t bytes) {
  gli_header header = {.type = GLI_MESSAGE_DATA,
                       .slot = slot,
                       .operation = p->n_posted,
                       .length = bytes};
  bat_send_header(p, &header, payload);
}

/* ---- contents ------------------------------------------------------------ */

uint64_t bat_random(uint64_t *state) { /* splitmix64, Steele et al. 2014 */
  uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return z ^ (z >> 31);
}

void bat_fill(void *data, size_t bytes, uint64_t seed) {
  uint8_t *at = data;
  while (bytes > 0) {
    uint64_t word = bat_random(&seed);
    size_t n = bytes < 8 ? bytes : 8;
    memcpy(at, &word, n);
    at += n;
    bytes -= n;
  }
}

bool bat_matches(const void *data, size_t bytes, uint64_t seed) {
  const uint8_t *at = data;
  while (bytes > 0) {
    uint64_t word = bat_random(&seed);
    size_t n = bytes < 8 ? bytes : 8;
    if (memcmp(at, &word, n) != 0) return false;
    at += n;
    bytes -= n;
  }
  return true;
}

void bat_send_filled(bat_pair *p, uint32_t slot, size_t bytes, uint64_t seed) {
  uint8_t *data = malloc(bytes + 1);
  if (data == NULL) abort();
  bat_fill(data, bytes, seed);
  bat_send(p, slot, data, bytes);
  free(data);
}

void bat_assert_message(const bat_pair *p, size_t i, size_t bytes,
                        uint64_t seed) {
  assert_true(i < p->n_in);
  const bat_message *m = &p->in[i];
  assert_int_equal(m->header.length, bytes);
  assert_true(m->received);
  assert_true(bat_matches(m->data, bytes, seed));
}
