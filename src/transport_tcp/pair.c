/* Pairs: opening them, choosing streams, and what happens when they fail. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>

#include "core/error.h"
#include "core/lack.h"
#include "core/log.h"
#include "transport_tcp/dial.h"
#include "transport_tcp/prove.h"
#include "transport_tcp/tcp.h"

void gli_tcp_pair_set_peer(gli_tcp_pair *pair, const gli_endpoint *peer) {
  pair->peer = *peer;
  gli_endpoint_text(peer, pair->peer_text);
}

void gli_tcp_pair_move(gli_tcp_pair *pair, gli_tcp_pair **list) {
  if (pair->link != NULL) {
    *pair->link = pair->next;
    if (pair->next != NULL) pair->next->link = pair->link;
  }
  pair->next = *list;
  pair->link = list;
  if (pair->next != NULL) pair->next->link = &pair->next;
  *list = pair;
}

gloo_status gli_tcp_pair_open(gli_transport *base,
                              const gli_pair_config *config, gli_pair **pair,
                              gloo_error *error) {
  gli_tcp *t = (gli_tcp *)base;
  gli_tcp_contact contact;
  gli_endpoints order;
  if (!gli_tcp_contact_decode(&config->address, &contact))
    return gli_fail(error, GLOO_ERR_ADDRESS, (int)config->peer_rank,
                    "what rank %u published is not a TCP address; all ranks "
                    "must use the same transport",
                    (unsigned)config->peer_rank);
  gli_tcp_pair *made =
      calloc(1, sizeof *made + t->streams * sizeof made->stream[0]);
  if (made == NULL)
    return gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                    "no memory for a connection to rank %u",
                    (unsigned)config->peer_rank);
  made->checked = t->checksum || contact.checksum;
  made->base.ops =
      made->checked ? &gli_transport_tcp_checked : &gli_transport_tcp;
  made->t = t;
  made->config = *config;
  made->config.job_key = NULL;
  made->asks = config->job_key != NULL;
  gloo_status status =
      made->asks ? gli_tcp_prove_key(config, &made->key, error) : GLOO_OK;
  if (status != GLOO_OK) {
    free(made);
    return status;
  }
  gli_tcp_order(&contact, t->contact.place, &t->own, &order);
  gli_tcp_pair_set_peer(made, &order.at[0]);
  if (made->checked)
    gli_log(GLOO_LOG_INFO,
            "messages between ranks %u and %u have checksums (CRC32C)",
            (unsigned)config->self_rank, (unsigned)config->peer_rank);
  made->live = true;
  made->stream_capacity = t->streams;
  for (uint32_t i = 0; i < t->streams; i++) {
    made->stream[i].pair = made;
    made->stream[i].index = i;
    made->stream[i].long_limit = GLI_TCP_LONG_BYTES;
    made->stream[i].checked = made->checked;
  }
  gli_tcp_pair_move(made, &t->pairs);
  /* The next poll begins to connect; unless the peer's hello, for which this
   * pair may just be opened, comes first. */
  t->to_begin = true;
  gli_tcp_touch(t);
  *pair = &made->base;
  return GLOO_OK;
}

gli_tcp_stream *gli_tcp_pair_stream(gli_tcp_pair *pair,
                                    const gli_header *header) {
  if (header->type != GLI_MESSAGE_DATA && header->type != GLI_MESSAGE_RMA)
    return &pair->stream[0];
  return &pair->stream[header->slot % pair->streams];
}

gli_post gli_tcp_send(gli_pair *base, gli_send_request *request) {
  gli_tcp_pair *pair = (gli_tcp_pair *)base;
  request->private_ = 0;
  request->next = NULL;
  if (pair->departed) return GLI_POST_DONE;
  if (!pair->live) return GLI_POST_IN_PROGRESS;
  if (pair->checked) gli_tcp_request_sum(request);
  if (pair->streams == 0) {
    gli_request_push(&pair->waiting, request);
    return GLI_POST_IN_PROGRESS;
  }
  gli_tcp_stream *stream = gli_tcp_pair_stream(pair, &request->header);
  if (stream->state == GLI_TCP_ENDED) return GLI_POST_IN_PROGRESS;
  return gli_tcp_stream_send(stream, request);
}

bool gli_tcp_send_now(gli_pair *base, gli_header *header, const void *payload) {
  gli_tcp_pair *pair = (gli_tcp_pair *)base;
  if (!pair->live || pair->departed || pair->streams == 0) return false;
  gli_tcp_stream *stream = gli_tcp_pair_stream(pair, header);
  return gli_tcp_stream_send_now(stream, header, payload);
}

bool gli_tcp_take_now(gli_pair *base, const gli_header *expected,
                      gli_taken *taken) {
  gli_tcp_pair *pair = (gli_tcp_pair *)base;
  if (pair->streams == 0) return false;
  gli_tcp_stream *stream = gli_tcp_pair_stream(pair, expected);
  return gli_tcp_stream_take_now(stream, expected, taken);
}

void gli_tcp_pair_agree(gli_tcp_pair *pair, uint32_t streams, bool initiator) {
  pair->streams = streams;
  pair->initiator = initiator;
  gli_send_request *request;
  while ((request = gli_request_pop(&pair->waiting)) != NULL)
    gli_request_push(&gli_tcp_pair_stream(pair, &request->header)->queue,
                     request);
  if (pair->closed) gli_tcp_pair_queue_last(pair);
  if (!initiator) return;
  for (uint32_t i = 1; i < streams; i++)
    if (pair->stream[i].state != GLI_TCP_ENDED)
      gli_tcp_stream_begin(&pair->stream[i]);
}

/* ---- what it owes -------------------------------------------------------- */

/* Of a message that counts as sent; or, when the pair is closed, of all that is
 * to be written before it shuts this direction. */
static bool tcp_pair_owes(const gli_tcp_stream *stream) {
  if (!stream->pair->closed)
    return stream->rest != NULL || gli_tcp_stream_keeps(stream);
  return stream->state != GLI_TCP_ENDED && !gli_tcp_stream_is_shut(stream);
}

void gli_tcp_reckon(gli_tcp_pair *pair) {
  bool any = pair->to_report || (pair->closed && pair->streams == 0);
  for (uint32_t i = 0; i < pair->streams && !any; i++)
    any = tcp_pair_owes(&pair->stream[i]);
  gli_owe(&pair->t->base, &pair->base, any);
}

/* ---- failing ------------------------------------------------------------- */

static void tcp_pair_fail(gli_tcp_pair *pair, gloo_status status,
                          const char *format, va_list arguments) {
  if (pair->live && !pair->departed) {
    (void)gli_vfail(&pair->cause, status, (int)pair->config.peer_rank, format,
                    arguments);
    pair->to_tell = true;
  }
  pair->live = false;
  pair->to_report = true;
  gli_tcp_reckon(pair);
  pair->t->to_report = true;
  gli_tcp_touch(pair->t);
}

void gli_tcp_pair_lacks(gli_tcp_pair *pair, int code) {
  if (pair->broken) return;
  gli_tcp_pair_break(pair, gli_lack_status(code),
                     "no connection with rank %" PRIu32 ": %s",
                     pair->config.peer_rank, gli_lack_text(code));
  pair->cause.rank = pair->cause.root_rank = (int)pair->config.self_rank;
}

void gli_tcp_pair_break(gli_tcp_pair *pair, gloo_status status,
                        const char *format, ...) {
  if (pair->broken) return;
  pair->broken = true;
  va_list arguments;
  va_start(arguments, format);
  tcp_pair_fail(pair, status, format, arguments);
  va_end(arguments);
}

void gli_tcp_pair_spoil(gli_tcp_pair *pair, const char *format, ...) {
  if (pair->broken) return;
  va_list arguments;
  va_start(arguments, format);
  tcp_pair_fail(pair, GLOO_ERR_PROTOCOL, format, arguments);
  va_end(arguments);
  for (uint32_t i = 0; i < pair->stream_capacity; i++) {
    if (pair->stream[i].conn != NULL) gli_conn_for(pair->stream[i].conn, 0);
    gli_tcp_dial_ignore(&pair->stream[i]);
  }
}

static void end_streams(gli_tcp_pair *pair) {
  for (uint32_t i = 0; i < pair->stream_capacity; i++)
    gli_tcp_stream_end(&pair->stream[i]);
}

static gli_tcp_pair *tcp_find_to_report(gli_tcp *t) {
  gli_tcp_pair *lists[2] = {t->pairs, t->leaving};
  for (int i = 0; i < 2; i++) {
    for (gli_tcp_pair *pair = lists[i]; pair != NULL; pair = pair->next)
      if (pair->to_report) return pair;
  }
  return NULL;
}

void gli_tcp_pairs_report(gli_tcp *t) {
  t->to_report = false;
  gli_tcp_pair *pair;
  while ((pair = tcp_find_to_report(t)) != NULL) {
    pair->to_report = false;
    t->happened++;
    if (pair->closed && pair->broken) {
      gli_tcp_pair_dispose(pair);
      continue;
    }
    if (pair->broken) end_streams(pair);
    gli_tcp_reckon(pair);
    if (pair->closed || !pair->to_tell) continue;
    pair->to_tell = false;
    t->upcalls->failed(pair->config.user, &pair->cause);
  }
}

void gli_tcp_pair_dispose(gli_tcp_pair *pair) {
  end_streams(pair);
  gli_request_free_all(&pair->waiting);
  free(pair->last);
  pair->last = NULL;
  gli_wipe(&pair->key, sizeof pair->key);
  pair->to_report = false;
  gli_owe(&pair->t->base, &pair->base, false);
  gli_tcp_pair_move(pair, &pair->t->garbage);
}
