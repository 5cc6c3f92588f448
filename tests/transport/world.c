/* The battery's stand-in for the engine: end points, pairs and upcalls. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

#include "battery.h"

/* ---- complaints ---------------------------------------------------------- */

void bat_complain(bat_world *w, const char *text) {
  const char *none = NULL;
  atomic_compare_exchange_strong(&w->complaint, &none, text);
}

void bat_check(bat_world *w) {
  const char *text = atomic_load(&w->complaint);
  if (text != NULL) fail_msg("the contract was broken: %s", text);
}

enum { BAT_SHORT = 3000 };

/* ---- upcalls ------------------------------------------------------------- */

static void check_silent(bat_pair *p, const char *text) {
  if (p->closed || p->stopped || p->failed > 0) bat_complain(p->world, text);
}

/* A buffer of its own at an odd address. */
static gloo_status default_sink(bat_pair *p, const gli_header *header,
                                gli_sink *sink) {
  size_t bytes = (size_t)header->length;
  uint8_t *block = malloc(bytes + 1);
  if (block == NULL) abort();
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

/* Some of them are taken as a whole: those whose sink would be the default. */
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
    free(payload - 1);
  }
  memset(post, 0xee, sizeof *post);
  free(post);
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
  ring_remove(post);
  post_free(post);
  p->n_done++;
}

static void on_failed(void *pair_user, const gloo_error *cause) {
  bat_pair *p = pair_user;
  check_silent(p, "failed upcall for a pair that had ended");
  p->failed++;
  p->cause = *cause;
  if (cause->rank != (int)p->config.peer_rank) {
    bat_complain(p->world, "failed upcall does not name the peer's rank");
  }
  if (cause->status == GLOO_OK || cause->message[0] == '\0') {
    bat_complain(p->world, "failed upcall without a cause");
  }
}

static gli_pair *on_accept(void *device_user, uint64_t key,
                           uint32_t peer_rank) {
  bat_end *end = device_user;
  bat_world *w = end->world;
  end->accepts++;
  uv_mutex_lock(&w->lock);
  bat_pair *p = w->pairs;
  for (; p != NULL; p = p->next) {
    if (&w->ends[p->end] != end || !p->expected || p->closed) continue;
    if (p->config.local_key != key || p->config.peer_rank != peer_rank)
      continue;
    break;
  }
  uv_mutex_unlock(&w->lock);
  if (p == NULL) return NULL;
  if (p->pair == NULL) bat_open(p);
  return p->pair;
}

static const gli_upcalls upcalls = {.header = on_header,
                                    .received = on_received,
                                    .sent = on_sent,
                                    .failed = on_failed,
                                    .accept = on_accept,
                                    .message = on_message};

/* ---- fixtures ------------------------------------------------------------ */

static int count_fds(void) {
  DIR *dir = opendir("/proc/self/fd");
  if (dir == NULL) return -1;
  int n = 0;
  while (readdir(dir) != NULL) n++;
  closedir(dir);
  return n;
}

static void open_end(bat_world *w, int i) {
  bat_end *end = &w->ends[i];
  gli_transport_config config = {.host = w->variant->host,
                                 .streams = w->variant->streams,
                                 .upcalls = &upcalls,
                                 .device_user = end};
  if (w->variant->host_of) config.host = w->variant->host_of(w->simulation, i);
  gloo_error error = {0};
  end->world = w;
  if (w->variant->ops->open(&config, &end->t, &error) != GLOO_OK) {
    fail_msg("cannot open an end point: %s", error.message);
  }
  w->variant->ops->address(end->t, &end->address);
}

int bat_setup(void **state) {
  bat_world *w = calloc(1, sizeof *w);
  if (w == NULL) return -1;
  w->variant = *state;
  w->next_key = 1000;
  w->fds = count_fds();
  if (w->variant->create) w->simulation = w->variant->create(w->variant);
  uv_mutex_init(&w->lock);
  for (int i = 0; i < BAT_ENDS; i++) {
    uv_mutex_init(&w->ends[i].lock);
    open_end(w, i);
  }
  *state = w;
  return 0;
}

static void free_pair(bat_pair *p) {
  for (size_t i = 0; i < p->n_in; i++) {
    if (p->in[i].data != NULL) free(p->in[i].data - 1);
  }
  free(p->in);
  free(p);
}

int bat_teardown(void **state) {
  bat_world *w = *state;
  for (bat_pair *p = w->pairs; p != NULL; p = p->next) {
    if (p->pair != NULL && !p->closed) bat_close(p, 0, NULL, 0);
  }
  for (int i = 0; i < BAT_ENDS; i++) {
    bat_close_end(w, i);
    uv_mutex_destroy(&w->ends[i].lock);
  }
  while (w->pairs != NULL) {
    bat_pair *p = w->pairs;
    w->pairs = p->next;
    free_pair(p);
  }
  if (w->variant->destroy) w->variant->destroy(w->simulation);
  uv_mutex_destroy(&w->lock);
  const char *complaint = atomic_load(&w->complaint);
  int before = w->fds, after = count_fds();
  free(w);
  if (complaint != NULL) fail_msg("the contract was broken: %s", complaint);
  if (before != after) {
    fail_msg("%d descriptors before the test, %d after", before, after);
  }
  return 0;
}

void bat_close_end(bat_world *w, int i) {
  bat_end *end = &w->ends[i];
  if (end->t == NULL) return;
  w->variant->ops->close(end->t);
  end->t = NULL;
}

/* ---- pairs --------------------------------------------------------------- */

static bat_pair *new_pair(bat_world *w, int self, int peer, uint64_t local,
                          uint64_t remote) {
  bat_pair *p = calloc(1, sizeof *p);
  if (p == NULL) abort();
  p->world = w;
  p->end = self;
  p->expected = true;
  p->config = (gli_pair_config){.self_rank = (uint32_t)self,
                                .peer_rank = (uint32_t)peer,
                                .local_key = local,
                                .remote_key = remote,
                                .address = w->ends[peer].address,
                                .user = p};
  p->posts.prev = p->posts.next_post = &p->posts;
  p->again.prev = p->again.next_post = &p->again;
  return p;
}

void bat_link(bat_world *w, int a, int b, bat_pair **pa, bat_pair **pb) {
  uv_mutex_lock(&w->lock);
  uint64_t key_a = w->next_key++, key_b = w->next_key++;
  *pa = new_pair(w, a, b, key_a, key_b);
  *pb = new_pair(w, b, a, key_b, key_a);
  (*pa)->next = *pb;
  (*pb)->next = w->pairs;
  w->pairs = *pa;
  uv_mutex_unlock(&w->lock);
}

void bat_open(bat_pair *p) {
  bat_world *w = p->world;
  gloo_error error = {0};
  gloo_status status = w->variant->ops->pair_open(w->ends[p->end].t, &p->config,
                                                  &p->pair, &error);
  if (status != GLOO_OK) bat_complain(w, "pair_open failed");
  if (status == GLOO_OK && p->pair->ops != w->variant->ops) {
    bat_complain(w, "pair_open did not set the pair's operations");
  }
}

void bat_connect(bat_world *w, int a, int b, bat_pair **pa, bat_pair **pb) {
  bat_link(w, a, b, pa, pb);
  bat_open(*pa);
  BAT_DRIVE(w, (*pb)->pair != NULL);
}

static void drop_ring(bat_post *ring) {
  while (ring->next_post != ring) {
    bat_post *post = ring->next_post;
    ring_remove(post);
    post_free(post);
  }
}

void bat_close(bat_pair *p, int type, const void *payload, size_t bytes) {
  bat_world *w = p->world;
  gli_send_request *last = NULL;
  uint8_t *copy = NULL;
  if (type != 0) {
    last = calloc(1, sizeof *last);
    copy = malloc(bytes + 1);
    if (last == NULL || copy == NULL) abort();
    if (bytes > 0) memcpy(copy, payload, bytes);
    last->header.type = (uint8_t)type;
    last->header.length = bytes;
    last->header.operation = p->n_posted;
    last->payload = copy;
  }
  w->variant->ops->pair_close(p->pair, last);
  p->closed = true;
  if (last != NULL) {
    memset(copy, 0xee, bytes + 1);
    memset(last, 0xee, sizeof *last);
  }
  free(copy);
  free(last);
  drop_ring(&p->posts);
  drop_ring(&p->again);
  for (size_t i = 0; i < p->n_in; i++) {
    if (p->in[i].data == NULL || p->in[i].received) continue;
    free(p->in[i].data - 1); /* a sink that is not filled yet */
    p->in[i].data = NULL;
  }
}

/* ---- sending ------------------------------------------------------------- */

/* Every other short message is tried without a request. */
static bool offer_now(bat_pair *p, bat_post *post) {
  const gli_transport_ops *ops = p->world->variant->ops;
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
  switch (p->world->variant->ops->send(p->pair, &post->request)) {
    case GLI_POST_DONE:
      post_free(post);
      p->n_done++;
      return true;
    case GLI_POST_IN_PROGRESS:
      ring_add(&p->posts, post);
      return true;
    case GLI_POST_AGAIN:
      return false;
  }
  bat_complain(p->world, "send returned none of the three results");
  return true;
}

static void offer_again(bat_pair *p) {
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
  uint8_t *copy = malloc(bytes + 1);
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

/* ---- polling ------------------------------------------------------------- */

int bat_poll_end(bat_world *w, int i) {
  bat_end *end = &w->ends[i];
  if (end->t == NULL) return 0;
  int n = w->variant->ops->poll(end->t);
  uv_mutex_lock(&w->lock);
  bat_pair *first = w->pairs;
  uv_mutex_unlock(&w->lock);
  for (bat_pair *p = first; p != NULL; p = p->next) {
    if (p->end == i && p->pair != NULL) offer_again(p);
  }
  return n;
}

int bat_poll(bat_world *w) {
  int n = 0;
  for (int i = 0; i < BAT_ENDS; i++) n += bat_poll_end(w, i);
  if (w->variant->idle) w->variant->idle(w->simulation);
  return n;
}

enum { BAT_PATIENCE_SECONDS = 100 };

void bat_drive_once(bat_world *w, bat_patience *patience, const char *what) {
  bat_check(w);
  if (patience->since_ns == 0) patience->since_ns = uv_hrtime();
  if (bat_poll(w) > 0) {
    patience->idle = 0;
    return;
  }
  if (++patience->idle < 200) return;
  if (!w->variant->idle) uv_sleep(1);
  uint64_t waited = uv_hrtime() - patience->since_ns;
  if (waited > (uint64_t)BAT_PATIENCE_SECONDS * 1000000000u) {
    fail_msg("this never came true: %s", what);
  }
}

void bat_settle(bat_world *w) {
  for (int quiet = 0; quiet < 30;) {
    quiet = bat_poll(w) > 0 ? 0 : quiet + 1;
    if (!w->variant->idle) uv_sleep(1);
  }
  bat_check(w);
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

/* ---- running ------------------------------------------------------------- */

int bat_run(const char *group, struct CMUnitTest *tests, size_t n,
            void *variant) {
  for (size_t i = 0; i < n; i++) tests[i].initial_state = variant;
  return _cmocka_run_group_tests(group, tests, n, NULL, NULL);
}
