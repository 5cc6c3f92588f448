/* Pairs: opening, the choice of streams, and the end after failures. */
#include <inttypes.h>
#include <stdlib.h>

#include "core/error.h"
#include "transport_tcp/tcp.h"

void gli_tcp_pair_set_peer(gli_tcp_pair *pair, const gli_endpoint *peer) {
  pair->there = *peer;
  gli_endpoint_text(peer, pair->peer_text);
}

gloo_status gli_tcp_pair_open(gli_transport *base,
                              const gli_pair_config *config, gli_pair **pair,
                              gloo_error *error) {
  gli_tcp *t = (gli_tcp *)base;
  gli_tcp_contact contact;
  gli_endpoints order;
  if (!gli_tcp_contact_decode(&config->address, &contact))
    return gli_fail(error, GLOO_ERR_ADDRESS, (int)config->peer_rank,
                    "rank %u published an invalid TCP address; all ranks must "
                    "use the same transport",
                    (unsigned)config->peer_rank);
  gli_tcp_pair *made =
      calloc(1, sizeof *made + t->streams * sizeof made->stream[0]);
  if (made == NULL)
    return gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                    "no memory for a connection to rank %u",
                    (unsigned)config->peer_rank);
  made->peer.checked = t->checksum || contact.checksum;
  made->peer.base.ops =
      made->peer.checked ? &gli_transport_tcp_checked : &gli_transport_tcp;
  made->t = t;
  gloo_status status = gli_peer_init(&made->peer, &t->peers, config, error);
  if (status != GLOO_OK) {
    free(made);
    return status;
  }
  gli_tcp_order(&contact, t->contact.place, &t->own, &order);
  gli_tcp_pair_set_peer(made, &order.at[0]);
  made->stream_capacity = t->streams;
  for (uint32_t i = 0; i < t->streams; i++) {
    made->stream[i].pair = made;
    made->stream[i].index = i;
    made->stream[i].long_limit = GLI_TCP_LONG_BYTES;
    made->stream[i].checked = made->peer.checked;
  }
  gli_peer_add(&made->peer);
  *pair = &made->peer.base;
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
  if (pair->peer.departed) return GLI_POST_DONE;
  if (!pair->peer.live) return GLI_POST_IN_PROGRESS;
  if (pair->peer.checked) gli_tcp_request_sum(request);
  if (pair->streams == 0) {
    gli_request_push(&pair->waiting, request);
    return GLI_POST_IN_PROGRESS;
  }
  gli_tcp_stream *stream = gli_tcp_pair_stream(pair, &request->header);
  if (stream->state == GLI_TCP_ENDED) return GLI_POST_IN_PROGRESS;
  return gli_tcp_stream_send(stream, request);
}

void gli_tcp_pair_agree(gli_tcp_pair *pair, uint32_t streams, bool initiator) {
  pair->streams = streams;
  pair->initiator = initiator;
  gli_send_request *request;
  while ((request = gli_request_pop(&pair->waiting)) != NULL)
    gli_request_push(&gli_tcp_pair_stream(pair, &request->header)->queue,
                     request);
  if (pair->peer.closed) gli_tcp_pair_queue_last(pair);
  if (!initiator) return;
  for (uint32_t i = 1; i < streams; i++)
    if (pair->stream[i].state != GLI_TCP_ENDED)
      gli_tcp_stream_begin(&pair->stream[i]);
}

/* ---- undelivered data ---------------------------------------------------- */

/* Returns true if a stream has a part of a message that counts as sent, or, if
 * the pair is closed, anything to write before it shuts this direction. */
static bool tcp_pair_owes(const gli_tcp_stream *stream) {
  if (!stream->pair->peer.closed)
    return stream->rest != NULL || gli_tcp_stream_keeps(stream);
  return stream->state != GLI_TCP_ENDED && !gli_tcp_stream_is_shut(stream);
}

void gli_tcp_update_undelivered(gli_tcp_pair *pair) {
  bool any = pair->peer.to_report || (pair->peer.closed && pair->streams == 0);
  for (uint32_t i = 0; i < pair->streams && !any; i++)
    any = tcp_pair_owes(&pair->stream[i]);
  gli_mark_undelivered(&pair->t->peers.base, &pair->peer.base, any);
}

/* ---- ending -------------------------------------------------------------- */

void gli_tcp_pair_end(gli_transport_peer *peer) {
  gli_tcp_pair *pair = (gli_tcp_pair *)peer;
  for (uint32_t i = 0; i < pair->stream_capacity; i++)
    gli_tcp_stream_end(&pair->stream[i]);
}

void gli_tcp_pair_dispose(gli_tcp_pair *pair) {
  gli_tcp_pair_end(&pair->peer);
  gli_request_free_all(&pair->waiting);
  free(pair->last);
  pair->last = NULL;
  gli_wipe(&pair->peer.key, sizeof pair->peer.key);
  pair->peer.to_report = false;
  gli_mark_undelivered(&pair->t->peers.base, &pair->peer.base, false);
  gli_peer_move(&pair->peer, &pair->t->peers.garbage);
}
