/* Ends of messages that wait for their other end, and steps that are ready. */
#include <stdlib.h>
#include <string.h>

#include "proof/check_internal.h"

#define NONE UINT32_MAX

static uint32_t check_match_bucket_of(const gli_checker *c,
                                      const check_post *p) {
  uint64_t h = ((uint64_t)p->from << 32 | p->to) * 0x9E3779B97F4A7C15u;
  h = (h ^ p->slot) * 0xC2B2AE3D27D4EB4Fu;
  return (uint32_t)(h >> 32) & c->bucket_mask;
}

static bool same_message(const check_post *a, const check_post *b) {
  return a->from == b->from && a->to == b->to && a->slot == b->slot &&
         a->is_send == b->is_send;
}

/* Returns the link to the post, or a link that holds NONE. */
static uint32_t *check_match_find(gli_checker *c, const check_post *p) {
  uint32_t *link = &c->buckets[check_match_bucket_of(c, p)];
  while (*link != NONE && !same_message(&c->posts[*link], p)) {
    link = &c->posts[*link].chain;
  }
  return link;
}

static bool grow_buckets(gli_checker *c) {
  uint32_t count = c->buckets == NULL ? 1024 : (c->bucket_mask + 1) * 2;
  uint32_t *buckets = malloc((size_t)count * sizeof *buckets);
  if (buckets == NULL) return false;
  memset(buckets, 0xff, (size_t)count * sizeof *buckets);
  uint32_t old_count = c->buckets == NULL ? 0 : c->bucket_mask + 1;
  uint32_t *old = c->buckets;
  c->buckets = buckets;
  c->bucket_mask = count - 1;
  for (uint32_t i = 0; i < old_count; i++) {
    for (uint32_t at = old[i], next; at != NONE; at = next) {
      next = c->posts[at].chain;
      uint32_t *head = &buckets[check_match_bucket_of(c, &c->posts[at])];
      c->posts[at].chain = *head;
      *head = at;
    }
  }
  free(old);
  return true;
}

bool gli_check_add_post(gli_checker *c, check_post post) {
  if (c->buckets == NULL || c->posted > c->bucket_mask) {
    if (!grow_buckets(c)) return false;
  }
  uint32_t at = c->free_post;
  if (at != NONE) {
    c->free_post = c->posts[at].chain;
  } else {
    if (c->n_posts == c->post_capacity) {
      uint32_t capacity = c->post_capacity == 0 ? 1024 : c->post_capacity * 2;
      check_post *posts = realloc(c->posts, capacity * sizeof *posts);
      if (posts == NULL) return false;
      c->posts = posts;
      c->post_capacity = capacity;
    }
    at = c->n_posts++;
  }
  uint32_t *head = &c->buckets[check_match_bucket_of(c, &post)];
  post.chain = *head;
  c->posts[at] = post;
  *head = at;
  c->posted++;
  return true;
}

bool gli_check_take_post(gli_checker *c, const check_post *other,
                         uint32_t *index) {
  if (c->posted == 0) return false;
  uint32_t *link = check_match_find(c, other);
  uint32_t at = *link;
  if (at == NONE) return false;
  *index = c->posts[at].index;
  *link = c->posts[at].chain;
  c->posts[at].chain = c->free_post;
  c->free_post = at;
  c->posted--;
  return true;
}

void gli_check_move_post(gli_checker *c, const check_post *moved) {
  uint32_t *link = check_match_find(c, moved);
  if (*link != NONE) c->posts[*link].index = moved->index;
}

bool gli_check_push_ready(gli_checker *c, uint32_t rank, uint32_t index) {
  if (c->n_ready == c->ready_capacity) {
    size_t capacity = c->ready_capacity == 0 ? 1024 : c->ready_capacity * 2;
    check_ready *ready = realloc(c->ready, capacity * sizeof *ready);
    if (ready == NULL) return false;
    c->ready = ready;
    c->ready_capacity = capacity;
  }
  c->ready[c->n_ready++] = (check_ready){rank, index};
  return true;
}
