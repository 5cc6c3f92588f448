/* Waits in an event loop: three contexts, whose devices each have a descriptor
 * that libuv watches along with everything else in the program. Each rank runs
 * ROUNDS allreduces on every context, and starts the next one when the last has
 * completed, while a timer of the program ticks.
 *
 *     gloo run -n 2 -- ./event_loop */
#include <gloo_c/gloo_c.h>
#include <stdio.h>
#include <stdlib.h>
#include <uv.h>

enum { CONTEXTS = 3, ROUNDS = 100 };

typedef struct channel {
  gloo_device *device;
  gloo_context *context;
  gloo_request *request;
  uv_poll_t poll;
  int rounds;
  float sum;
} channel;

static uv_timer_t ticker;
static int open_channels = CONTEXTS, ticks;

static void check(gloo_status status, const gloo_error *error) {
  if (status == GLOO_OK) return;
  fprintf(stderr, "%s\n", error->message);
  exit(1);
}

static void start_round(channel *c) {
  gloo_error error;
  c->sum = (float)gloo_context_rank(c->context) + 1;
  check(gloo_allreduce_start(c->context, GLOO_IN_PLACE, &c->sum, 1,
                             GLOO_FLOAT32, GLOO_SUM, NULL, &c->request, &error),
        &error);
}

static void on_tick(uv_timer_t *timer) {
  (void)timer;
  ticks++;
}

/* Clear first, then test: an operation that completes in between makes the
 * descriptor readable again. */
static void on_readable(uv_poll_t *poll, int status, int events) {
  channel *c = poll->data;
  gloo_error error;
  (void)status;
  (void)events;
  gloo_device_clear_fd(c->device);
  while (c->rounds < ROUNDS) {
    gloo_status now = gloo_request_test(c->request, &error);
    if (now == GLOO_IN_PROGRESS) return;
    check(now, &error);
    gloo_request_destroy(c->request);
    if (++c->rounds < ROUNDS) start_round(c);
  }
  uv_poll_stop(poll);
  uv_close((uv_handle_t *)poll, NULL);
  if (--open_channels > 0) return;
  uv_timer_stop(&ticker);
  uv_close((uv_handle_t *)&ticker, NULL);
}

/* Opens a context, with a device whose descriptor the loop watches. */
static void open_channel(channel *c, gloo_store *store, const char *prefix,
                         int rank, int ranks) {
  gloo_error error;
  gloo_store *own;
  int fd;
  check(gloo_device_create(NULL, &c->device, &error), &error);
  check(gloo_store_prefix_create(store, prefix, &own, &error), &error);
  check(gloo_context_create(rank, ranks, own, c->device, NULL, &c->context,
                            &error),
        &error);
  gloo_store_destroy(own);
  check(gloo_device_get_fd(c->device, &fd, &error), &error);
  if (uv_poll_init(uv_default_loop(), &c->poll, fd) != 0) exit(1);
  c->poll.data = c;
  uv_poll_start(&c->poll, UV_READABLE, on_readable);
}

int main(void) {
  static channel channels[CONTEXTS];
  static const char *const prefixes[CONTEXTS] = {"a/", "b/", "c/"};
  gloo_error error;
  gloo_context *world;
  check(gloo_init(NULL, &world, &error), &error);
  int rank = gloo_context_rank(world), ranks = gloo_context_size(world);
  /* Rank 0 serves a store for them, and publishes its address. */
  gloo_store_tcp_options where = GLOO_STORE_TCP_OPTIONS_INIT;
  gloo_store *store = NULL;
  uint16_t port = 0;
  where.host = getenv("MASTER_ADDR");
  if (where.host == NULL) where.host = "127.0.0.1";
  where.serve = rank == 0;
  if (rank == 0) {
    check(gloo_store_tcp_create(&where, &store, &error), &error);
    port = gloo_store_tcp_port(store);
  }
  check(gloo_broadcast(world, GLOO_IN_PLACE, &port, 1, GLOO_UINT16, 0, NULL,
                       &error),
        &error);
  where.port = port;
  if (rank != 0) check(gloo_store_tcp_create(&where, &store, &error), &error);

  for (int i = 0; i < CONTEXTS; i++)
    open_channel(&channels[i], store, prefixes[i], rank, ranks);
  uv_timer_init(uv_default_loop(), &ticker);
  uv_timer_start(&ticker, on_tick, 1, 1);
  for (int i = 0; i < CONTEXTS; i++) start_round(&channels[i]);
  uv_run(uv_default_loop(), UV_RUN_DEFAULT);

  for (int i = 0; i < CONTEXTS; i++) {
    if (channels[i].sum != (float)(ranks * (ranks + 1)) / 2) return 1;
    gloo_context_destroy(channels[i].context);
    gloo_device_destroy(channels[i].device);
  }
  check(gloo_barrier(world, NULL, &error), &error); /* the store is in use */
  gloo_store_destroy(store);
  printf("rank %d of %d: %d rounds on each of %d contexts\n", rank, ranks,
         ROUNDS, CONTEXTS);
  gloo_context_destroy(world);
  return uv_loop_close(uv_default_loop());
}
