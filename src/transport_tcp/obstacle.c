/* Local knowledge of why messages of a pair are not delivered: a resource for
 * connecting that this process has exhausted, addresses that do not answer, or
 * a path that loses only long packets.
 *
 * On such a path a hop accepts only shorter packets than the interfaces of the
 * hosts, and a firewall drops the ICMP message ("fragmentation needed") by
 * which the kernel would learn this. Handshakes and short messages get through,
 * and the first long message never does, however often it is retransmitted. So
 * the position of that message in the stream of bytes is recorded, and compared
 * with the position that the peer has acknowledged. */
#include <inttypes.h>
#include <stdio.h>

#include "net/progress.h"
#include "transport_tcp/dial.h"
#include "transport_tcp/tcp.h"

#define YOUNG_BYTES 16384

static int obstacle_lack(const gli_tcp_pair *pair) {
  bool connected = pair->streams > 0;
  for (uint32_t i = 0; i < pair->stream_capacity; i++) {
    const gli_tcp_stream *stream = &pair->stream[i];
    if (i > 0 && i >= pair->streams) break;
    if (stream->state == GLI_TCP_UP) continue;
    connected = false;
    if (stream->lack != 0) return stream->lack;
  }
  bool accepts = pair->t->listener_due_ns == 0;
  return connected || accepts || !pair->begun ? 0 : pair->t->lack;
}

/* Records the first message that fills a packet; until then, the longest. */
static void stream_note_long(gli_tcp_stream *stream, uint64_t bytes,
                             uint64_t before) {
  gli_tcp_progress now;
  stream->long_limit = UINT64_MAX;
  if (!gli_tcp_socket_progress(stream->conn->watch.fd, &now)) return;
  if (bytes < now.segment) stream->long_limit = bytes;
  stream->long_bytes = bytes;
  stream->long_since_ns = uv_hrtime();
  stream->long_at = now.acknowledged + now.queued + before;
}

void gli_tcp_stream_note_long(gli_tcp_stream *stream, uint64_t bytes) {
  if (stream->state != GLI_TCP_UP) return;
  uint64_t before = stream->rest_bytes;
  const gli_send_request *r = stream->queue.head;
  for (; r != NULL; r = r->next)
    before += GLI_HEADER_BYTES + r->header.length - r->private_;
  stream_note_long(stream, bytes, before);
}

void gli_tcp_stream_note_queued(gli_tcp_stream *stream) {
  uint64_t before = 0;
  const gli_send_request *r = stream->queue.head;
  for (; r != NULL; r = r->next) {
    if (r->header.length > stream->long_limit)
      stream_note_long(stream, r->header.length, before);
    before += GLI_HEADER_BYTES + r->header.length;
  }
}

/* Returns the number of bytes that are stuck, or 0: the peer has acknowledged
 * some data, but not the retransmitted first packet of the recorded message,
 * or, without one, short messages sent together soon after connecting. */
static uint64_t stream_stuck_bytes(const gli_tcp_stream *stream) {
  gli_tcp_progress now;
  if (stream->state != GLI_TCP_UP || stream->conn == NULL) return 0;
  if (!gli_tcp_socket_progress(stream->conn->watch.fd, &now)) return 0;
  if (now.repeats == 0 || now.acknowledged == 0) return 0;
  if (stream->long_bytes == 0)
    return now.acknowledged < YOUNG_BYTES && now.queued > GLI_TCP_LONG_BYTES
               ? now.queued
               : 0;
  uint64_t first = stream->long_bytes + GLI_HEADER_BYTES;
  if (first > now.segment) first = now.segment;
  bool stuck = now.queued > 0 && now.acknowledged < stream->long_at + first;
  return stuck ? stream->long_bytes : 0;
}

bool gli_tcp_stream_stuck(const gli_tcp_stream *stream,
                          char text[GLI_OBSTACLE_BYTES]) {
  uint64_t bytes = stream_stuck_bytes(stream);
  text[0] = '\0';
  if (bytes == 0) return false;
  const gli_tcp_pair *pair = stream->pair;
  char within[32] = "", way[GLI_WAY_BYTES];
  gli_interfaces_way(&pair->t->own, &pair->there, way);
  if (stream->long_since_ns != 0)
    (void)snprintf(within, sizeof within, " for %.3g s",
                   (double)(uv_hrtime() - stream->long_since_ns) / 1e9);
  (void)snprintf(text, GLI_OBSTACLE_BYTES,
                 "; short messages to rank %" PRIu32
                 " (%s%s) were acknowledged, but %" PRIu64
                 " bytes in long packets were not%s: " GLI_MTU_ADVICE,
                 pair->peer.config.peer_rank, pair->peer_text, way, bytes,
                 within);
  return true;
}

/* Returns true, and the end of a sentence, if nothing shows that long packets
 * pass from the peer's host to this one. Only the peer can know that they do
 * not. */
static bool stream_unproved(const gli_tcp_stream *stream,
                            char text[GLI_OBSTACLE_BYTES]) {
  const gli_tcp_pair *pair = stream->pair;
  gli_tcp_contact contact;
  gli_tcp_progress now;
  char way[GLI_WAY_BYTES];
  if (stream->state != GLI_TCP_UP ||
      !gli_tcp_contact_decode(&pair->peer.config.address, &contact) ||
      contact.place == pair->t->contact.place ||
      !gli_tcp_socket_progress(stream->conn->watch.fd, &now) ||
      !gli_tcp_progress_unproved(&now))
    return false;
  gli_interfaces_way(&pair->t->own, &pair->there, way);
  (void)snprintf(text, GLI_OBSTACLE_BYTES,
                 "; no long packet of rank %" PRIu32
                 " (%s%s) has ever arrived: if it runs, " GLI_MTU_ADVICE,
                 pair->peer.config.peer_rank, pair->peer_text, way);
  return true;
}

bool gli_tcp_obstacle(const gli_pair *base, gli_obstacle *obstacle) {
  const gli_tcp_pair *pair = (const gli_tcp_pair *)base;
  *obstacle = (gli_obstacle){.lack = obstacle_lack(pair)};
  if (obstacle->lack != 0) return true;
  for (uint32_t i = 0; i < pair->streams; i++)
    if (gli_tcp_stream_stuck(&pair->stream[i], obstacle->text) ||
        stream_unproved(&pair->stream[i], obstacle->text))
      return true;
  return gli_tcp_dial_explain(&pair->stream[0], obstacle->text);
}
