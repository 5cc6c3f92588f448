/* Opening and closing the end point, and the table of operations. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "transport_tcp/socket.h"
#include "transport_tcp/tcp.h"

enum {
  DESCRIPTORS_NEEDED = 12
}; /* by the loop, the wake-up and the listener */
static const int64_t close_nap_ns = 5000000;

static void release(gli_tcp *t) {
  uv_run(&t->loop, UV_RUN_DEFAULT); /* until all handles are closed */
  uv_loop_close(&t->loop);
  gli_tcp_wake_close(t);
  free(t->buffer);
  free(t);
}

static gloo_status open_parts(gli_tcp *t, gloo_error *error) {
  t->wake_read = t->wake_write = -1;
  t->buffer = malloc(GLI_TCP_BUFFER_BYTES);
  if (t->buffer == NULL)
    return gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                    "no memory for the TCP transport");
  /* Some versions of libuv leak when they run out of them half-way. */
  if (!gli_tcp_descriptors_left(DESCRIPTORS_NEEDED) || !gli_tcp_wake_open(t))
    return gli_fail(error, GLOO_ERR_IO, -1,
                    "too few file descriptors are left for the TCP transport; "
                    "raise the limit on open files (ulimit -n)");
  int code = uv_loop_init(&t->loop);
  if (code != 0)
    return gli_fail(error, GLOO_ERR_IO, -1,
                    "the TCP transport cannot make an event loop: %s",
                    uv_strerror(code));
  return GLOO_OK;
}

static gloo_status tcp_open(const gli_transport_config *config,
                            gli_transport **transport, gloo_error *error) {
  if (config->streams < 1 || config->streams > GLI_TCP_STREAMS_MAX)
    return gli_fail(error, GLOO_ERR_INVALID, -1,
                    "%d streams per pair of ranks; 1 to %d are possible",
                    config->streams, GLI_TCP_STREAMS_MAX);
  gli_tcp *t = calloc(1, sizeof *t);
  if (t == NULL)
    return gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                    "no memory for the TCP transport");
  gloo_status status = open_parts(t, error);
  if (status != GLOO_OK) {
    gli_tcp_wake_close(t);
    free(t->buffer);
    free(t);
    return status;
  }
  t->base.ops = &gli_transport_tcp;
  t->upcalls = config->upcalls;
  t->device_user = config->device_user;
  t->streams = (uint32_t)config->streams;
  t->checksum = config->checksum;
  uv_timer_init(&t->loop, &t->timer);
  t->timer.data = t;
  status = gli_tcp_listen(t, config, error);
  if (status != GLOO_OK) {
    uv_close((uv_handle_t *)&t->timer, NULL);
    release(t);
    return status;
  }
  *transport = &t->base;
  return GLOO_OK;
}

static void tcp_address(const gli_transport *t, gli_address *address) {
  gli_tcp_address_encode(&((const gli_tcp *)t)->local, address);
  address->data[GLI_TCP_ADDRESS_CHECKSUM] = ((const gli_tcp *)t)->checksum;
}

static void tcp_close(gli_transport *base) {
  gli_tcp *t = (gli_tcp *)base;
  t->closing = true;
  gli_tcp_poll(base);
  while (gli_tcp_lingering(base)) {
    gli_tcp_sleep(base, close_nap_ns);
    gli_tcp_poll(base);
  }
  while (t->leaving != NULL) gli_tcp_pair_dispose(t->leaving);
  gli_tcp_guests_close(t);
  gli_tcp_watch_close(t->listener);
  uv_close((uv_handle_t *)&t->timer, NULL);
  while (t->garbage != NULL) {
    gli_tcp_pair *pair = t->garbage;
    t->garbage = pair->next;
    free(pair);
  }
  release(t);
}

static void tcp_set_crowded(gli_transport *base, bool crowded) {
  atomic_store(&((gli_tcp *)base)->crowded, crowded);
}

const gli_transport_ops gli_transport_tcp = {
    .name = "tcp",
    .open = tcp_open,
    .address = tcp_address,
    .now_ns = gli_tcp_now,
    .pair_open = gli_tcp_pair_open,
    .send = gli_tcp_send,
    .send_now = gli_tcp_send_now,
    .take_now = gli_tcp_take_now,
    .pair_close = gli_tcp_pair_close,
    .poll = gli_tcp_poll,
    .lingering = gli_tcp_lingering,
    .sleep = gli_tcp_sleep,
    .wake = gli_tcp_wake,
    .close = tcp_close,
    .set_crowded = tcp_set_crowded,
    .sleep_begin = gli_tcp_sleep_begin,
    .sleep_end = gli_tcp_sleep_end,
};

/* Without short ways for small messages. */
const gli_transport_ops gli_transport_tcp_checked = {
    .name = "tcp",
    .send = gli_tcp_send,
    .pair_close = gli_tcp_pair_close,
};
