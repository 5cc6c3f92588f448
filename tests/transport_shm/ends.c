#include "ends.h"

#include <stdio.h>
#include <stdlib.h>
#include <uv.h>

static gloo_status on_header(void *user, const gli_header *header,
                             gli_sink *sink) {
  end *e = user;
  assert_true(e->n_received < END_MESSAGES && header->length <= END_BYTES);
  e->types[e->n_received] = header->type;
  *sink = (gli_sink){.dst = e->texts[e->n_received]};
  return GLOO_OK;
}

static void on_received(void *user, void *token) {
  end *e = user;
  (void)token;
  e->n_received++;
}

static void on_sent(void *user, gli_send_request *request) {
  end *e = user;
  (void)request;
  e->n_sent++;
}

static void on_failed(void *user, const gloo_error *cause) {
  end *e = user;
  e->cause = *cause;
  e->n_failed++;
}

static gli_pair *on_accept(void *user, uint64_t key, uint32_t rank) {
  end *e = user;
  gloo_error error;
  if (!e->expects || key != e->config.local_key) return NULL;
  if (rank != e->config.peer_rank) return NULL;
  if (e->pair == NULL && end_connect(e, &error) != GLOO_OK) return NULL;
  return e->pair;
}

static bool on_expect(void *user, uint64_t key, uint32_t rank,
                      gli_pair_config *config) {
  const end *e = user;
  if (!e->expects || key != e->config.local_key) return false;
  *config = e->config;
  return rank == e->config.peer_rank;
}

static const gli_upcalls upcalls = {.header = on_header,
                                    .received = on_received,
                                    .sent = on_sent,
                                    .failed = on_failed,
                                    .accept = on_accept,
                                    .expect = on_expect};

void end_open(end *e, const gli_transport_ops *ops, int rank) {
  memset(e, 0, sizeof *e);
  gli_transport_config config = {.host = "127.0.0.1",
                                 .streams = 1,
                                 .upcalls = &upcalls,
                                 .device_user = e,
                                 .owed = &e->owed};
  gloo_error error;
  if (ops->open(&config, &e->t, &error) != GLOO_OK)
    fail_msg("%s", error.message);
  e->ops = ops;
  e->expects = true;
  e->config.self_rank = (uint32_t)rank;
  e->config.peer_rank = (uint32_t)!rank;
  e->config.local_key = 100 + (uint64_t)rank;
  e->config.remote_key = 100 + (uint64_t)!rank;
  e->config.user = e;
}

void end_close(end *e) {
  if (e->pair != NULL) e->ops->pair_close(e->pair, NULL);
  e->ops->close(e->t);
}

void ends_open(end ends[2], const gli_transport_ops *ops) {
  for (int i = 0; i < 2; i++) end_open(&ends[i], ops, i);
  for (int i = 0; i < 2; i++) ops->address(ends[i].t, &ends[!i].config.address);
}

void ends_close(end ends[2]) {
  for (int i = 0; i < 2; i++) end_close(&ends[i]);
}

gloo_status end_connect(end *e, gloo_error *error) {
  return e->ops->pair_open(e->t, &e->config, &e->pair, error);
}

void end_send(end *e, const char *text) {
  assert_true(e->n_posted < END_MESSAGES);
  int i = e->n_posted++;
  gli_send_request *request = &e->requests[i];
  snprintf(e->sending[i], END_BYTES, "%s", text);
  *request = (gli_send_request){.payload = e->sending[i]};
  request->header.type = GLI_MESSAGE_DATA;
  request->header.length = strlen(text) + 1;
  gli_post posted = e->ops->send(e->pair, request);
  assert_int_not_equal(posted, GLI_POST_NO_ROOM);
  if (posted == GLI_POST_DONE) e->n_sent++;
}

void end_bye(end *e) {
  gli_send_request bye = {.header = {.type = GLI_MESSAGE_BYE}};
  e->ops->pair_close(e->pair, &bye);
  e->pair = NULL;
  e->expects = false;
  memset(e->sending, 'x', sizeof e->sending); /* the buffer is ours again */
  memset(e->requests, 0xee, sizeof e->requests);
}

void end_until(end *e, const int *counter, int value) {
  for (int i = 0; i < 20000 && *counter < value; i++)
    if (e->ops->poll(e->t) == 0) uv_sleep(1);
  assert_true(*counter >= value);
}

void ends_poll(end ends[2], int times) {
  for (int i = 0; i < times; i++) {
    int events = ends[0].ops->poll(ends[0].t) + ends[1].ops->poll(ends[1].t);
    if (events == 0) uv_sleep(1);
  }
}

void ends_until(end ends[2], const int *counter, int value) {
  for (int i = 0; i < 20000 && *counter < value; i++) ends_poll(ends, 1);
  assert_true(*counter >= value);
}
