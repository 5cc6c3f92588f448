/* The battery's stand-in for the engine: end points, pairs and upcalls. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

#include "battery_parts.h"
#include "gloo_c/memory.h"
#include "net/tls.h"

/* ---- complaints ---------------------------------------------------------- */

void bat_complain(bat_world *w, const char *text) {
  const char *none = NULL;
  atomic_compare_exchange_strong(&w->complaint, &none, text);
}

void bat_check(bat_world *w) {
  const char *text = atomic_load(&w->complaint);
  if (text != NULL) fail_msg("the contract was broken: %s", text);
}

/* ---- fixtures ------------------------------------------------------------ */

static int count_fds(void) {
#if defined(_WIN32)
  return test_windows_handles();
#endif
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
                                 .checksum = w->variant->checksum,
                                 .upcalls = &bat_upcalls,
                                 .device_user = end,
                                 .owed = &end->owed};
  if (w->variant->host_of) config.host = w->variant->host_of(w->simulation, i);
  gloo_error error = {0};
  end->world = w;
  if (gli_tls_settings_read(NULL, &config.tls, &error) != GLOO_OK)
    fail_msg("%s", error.message);
  w->tls = gli_tls_settings_kind(config.tls);
  if (w->variant->ops->open(&config, &end->t, &error) != GLOO_OK) {
    fail_msg("cannot open an end point: %s", error.message);
  }
  gli_tls_settings_release(config.tls);
  w->variant->ops->address(end->t, &end->address);
}

int bat_setup(void **state) {
  bat_world *w = calloc(1, sizeof *w);
  if (w == NULL) return -1;
  w->variant = *state;
  w->next_key = 1000;
  /* Allocates the region of small allocations before descriptors are counted,
   * because it may stay open. */
  void *small;
  assert_int_equal(gloo_alloc(1, &small, NULL), GLOO_OK);
  gloo_free(small);
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
    if (p->in[i].data != NULL) bat_memory_free(p->in[i].data - 1);
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
  if (end->owed != 0) bat_complain(w, "a closed end point owes something");
}

/* ---- pairs --------------------------------------------------------------- */

/* The job key for variants whose TLS authenticates by secret. */
static const uint8_t job_key[GLI_JOB_KEY_BYTES] = "of the job of this test";

static bat_pair *new_pair(bat_world *w, int self, int peer, uint64_t local,
                          uint64_t remote) {
  bat_pair *p = calloc(1, sizeof *p);
  if (p == NULL) abort();
  p->world = w;
  p->end = self;
  p->expected = true;
  p->config =
      (gli_pair_config){.self_rank = (uint32_t)self,
                        .peer_rank = (uint32_t)peer,
                        .local_key = local,
                        .remote_key = remote,
                        .address = w->ends[peer].address,
                        .job_key = w->tls == GLI_TLS_BY_SECRET ? job_key : NULL,
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
  if (status == GLOO_OK &&
      strcmp(p->pair->ops->name, w->variant->ops->name) != 0) {
    bat_complain(w, "pair_open did not set the pair's operations");
  }
}

void bat_connect(bat_world *w, int a, int b, bat_pair **pa, bat_pair **pb) {
  bat_link(w, a, b, pa, pb);
  bat_open(*pa);
  BAT_DRIVE(w, (*pb)->pair != NULL);
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
  bat_drop_posts(&p->posts);
  bat_drop_posts(&p->again);
  for (size_t i = 0; i < p->n_in; i++) {
    if (p->in[i].data == NULL || p->in[i].received) continue;
    bat_memory_free(p->in[i].data - 1); /* a sink that is not yet filled */
    p->in[i].data = NULL;
  }
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
    if (p->end == i && p->pair != NULL) bat_offer_again(p);
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

/* ---- running ------------------------------------------------------------- */

int bat_run(const char *group, struct CMUnitTest *tests, size_t n,
            void *variant) {
  for (size_t i = 0; i < n; i++) tests[i].initial_state = variant;
  return _cmocka_run_group_tests(group, tests, n, NULL, NULL);
}
