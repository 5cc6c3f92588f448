/* Connecting to one of several addresses: attempts in progress, the start of
 * the next one, and when to give up. */
#include "transport_tcp/dial.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/descriptor.h"
#include "core/exhaustion.h"
#include "net/progress.h"
#include "net/socket.h"

#define CONNECT_LIMIT_S 10
static const uint64_t connect_limit_ns = CONNECT_LIMIT_S * UINT64_C(1000000000);
static const uint64_t patience_ns = 2000000000;
/* A rank listens before it publishes its address, so a refused connection most
 * likely means that it has exited. */
static const uint64_t refused_patience_ns = 500000000;
static const uint64_t backoff_ns = 10000000;
enum { BACKOFF_DOUBLINGS = 4 };
/* Times without a connection, and without an answer, until the next address is
 * tried as well. A busy peer answers late, and should not get connections to
 * all its addresses from all its peers. */
static const uint64_t connect_head_start_ns = 250000000;
static const uint64_t answer_head_start_ns = 5000000000;
/* Time without a connection that is worth an explanation. */
static const uint64_t explain_after_ns = 1000000000;
enum {
  ATTEMPT_WHERE_BYTES = GLI_ENDPOINT_TEXT_BYTES + GLI_WAY_BYTES,
  /* Room in a message, beside its other words, and those of an operation. */
  DIAL_TEXT_BYTES = GLOO_ERROR_MESSAGE_BYTES - 112,
  OBSTACLE_TEXT_BYTES = GLOO_ERROR_MESSAGE_BYTES - 152
};

/* ---- attempts ------------------------------------------------------------ */

static void attempt_close(gli_tcp_attempt *attempt) {
  gli_conn_free(attempt->conn);
  attempt->conn = NULL;
  attempt->reply_bytes = 0;
  attempt->proved = false;
}

static bool attempt_connects(const gli_tcp_attempt *attempt) {
  return attempt->state == GLI_ATTEMPT_TRYING &&
         attempt->conn->state == GLI_CONN_CONNECTING;
}

static void attempt_note(gli_tcp_attempt *attempt, gli_tcp_attempt_state state,
                         int code, const char *why, const char *guess) {
  attempt_close(attempt);
  attempt->state = state;
  attempt->code = code;
  attempt->guess = guess;
  (void)snprintf(attempt->why, sizeof attempt->why, "%s", why);
}

/* Returns the probable cause of a connect that failed with `code`. */
static const char *attempt_advice(const gli_tcp_attempt *attempt, int code) {
  bool unreachable = code == ENETUNREACH || code == EHOSTUNREACH;
  const char *lack =
      gli_interfaces_lack(&attempt->stream->pair->t->own, &attempt->at);
  if (unreachable && lack != NULL) return lack;
  if (unreachable)
    return "no route leads there, or a firewall rejects the port: set "
           "GLOO_SOCKET_IFNAME to an interface of the network that the hosts "
           "share, or open GLOO_PORT_RANGE; behind NAT set GLOO_PUBLISH_ADDR";
  if (code == ETIMEDOUT)
    return "a firewall drops the packets (open GLOO_PORT_RANGE), or replies "
           "take another route (rp_filter); behind NAT set GLOO_PUBLISH_ADDR";
  if (code == ECONNREFUSED)
    return "it may have exited, or a firewall rejects the port (open "
           "GLOO_PORT_RANGE)";
  if (code == ECONNRESET || code == EPIPE)
    return "it may have exited, or a proxy accepts its connections and drops "
           "them: set GLOO_PUBLISH_ADDR there to its own address";
  return "check the network between the hosts";
}

/* `why` is NULL for the usual words. */
static void attempt_note_code(gli_tcp_attempt *attempt, int code,
                              const char *why) {
  if (why == NULL)
    why = code == ECONNRESET || code == EPIPE
              ? "it closed the connection instead of answering"
              : strerror(code);
  attempt_note(attempt, GLI_ATTEMPT_FAILED, code, why,
               attempt_advice(attempt, code));
  if (gli_is_exhaustion(code)) attempt->stream->lack = code;
}

static bool attempt_is_of_this_host(const gli_tcp *t, const gli_endpoint *at) {
  return gli_endpoint_is_loopback(at) ||
         gli_interfaces_find(&t->own, at) != NULL;
}

/* Returns false if the attempt has failed immediately. */
static bool attempt_begin(gli_tcp_attempt *attempt, uint64_t now_ns) {
  gli_tcp *t = attempt->stream->pair->t;
  gli_conn *conn = gli_conn_new(&gli_tcp_attempt_calls, attempt);
  int code = ENOMEM;
  attempt->begun_ns = now_ns;
  attempt->conn = conn;
  if (conn != NULL)
    code = gli_conn_open(conn, t->events, attempt->at.any.sa_family);
  if (code == 0) {
    gli_tcp_socket_tune(conn->watch.fd);
    if (attempt_is_of_this_host(t, &attempt->at))
      gli_tcp_socket_tune_local(conn->watch.fd);
    code = gli_conn_connect(conn, &attempt->at);
  }
  if (code != 0) {
    attempt_note_code(attempt, code, NULL);
    return false;
  }
  attempt->state = GLI_ATTEMPT_TRYING;
  return true;
}

/* ---- giving up ----------------------------------------------------------- */

/* Formats "10.1.0.2:4711 from 10.1.0.1 on eth0". */
static void attempt_where(const gli_tcp_attempt *attempt,
                          char text[ATTEMPT_WHERE_BYTES]) {
  char at[GLI_ENDPOINT_TEXT_BYTES], way[GLI_WAY_BYTES];
  gli_endpoint_text(&attempt->at, at);
  gli_interfaces_way(&attempt->stream->pair->t->own, &attempt->at, way);
  (void)snprintf(text, ATTEMPT_WHERE_BYTES, "%s%s", at, way);
}

/* Describes an attempt: its failure, or for how long it has no result. */
static void attempt_text(const gli_tcp_attempt *attempt, uint64_t now_ns,
                         char text[GLI_ATTEMPT_WHY_BYTES]) {
  double s = (double)(now_ns - attempt->begun_ns) / 1e9;
  if (attempt->state != GLI_ATTEMPT_TRYING)
    (void)snprintf(text, GLI_ATTEMPT_WHY_BYTES, "%s",
                   attempt->why[0] != '\0' ? attempt->why : "not tried yet");
  else if (attempt_connects(attempt))
    (void)snprintf(text, GLI_ATTEMPT_WHY_BYTES, "no answer for %.3g s", s);
  else
    (void)snprintf(text, GLI_ATTEMPT_WHY_BYTES,
                   "accepted the connection, but sent nothing for %.3g s", s);
}

/* Returns the probable cause of an attempt's failure or delay; NULL before the
 * first attempt. */
static const char *attempt_guess(const gli_tcp_attempt *attempt) {
  if (attempt->state != GLI_ATTEMPT_TRYING) return attempt->guess;
  if (attempt_connects(attempt)) return attempt_advice(attempt, ETIMEDOUT);
  if (attempt->conn->tls != NULL && !attempt->conn->secured)
    return "it is stopped, or the path drops long packets, such as its "
           "certificate: " GLI_MTU_ADVICE;
  return "it is stopped, or a proxy or another program accepts its "
         "connections: set GLOO_PUBLISH_ADDR there to its own address";
}

/* Lists attempts: "10.1.0.2:4711: No route to host; and 2 more". */
static void dial_text(const gli_tcp_dial *dial, char *text, size_t room) {
  size_t used = 0;
  uint64_t now = uv_hrtime();
  text[0] = '\0';
  for (uint32_t i = 0; i < dial->n; i++) {
    char one[ATTEMPT_WHERE_BYTES + GLI_ATTEMPT_WHY_BYTES + 8];
    char where[ATTEMPT_WHERE_BYTES], why[GLI_ATTEMPT_WHY_BYTES], more[24];
    attempt_where(&dial->attempts[i], where);
    attempt_text(&dial->attempts[i], now, why);
    (void)snprintf(more, sizeof more, "; and %u more", (unsigned)(dial->n - i));
    int bytes =
        snprintf(one, sizeof one, "%s%s: %s", i > 0 ? "; " : "", where, why);
    if (bytes < 0 || used + (size_t)bytes + sizeof more > room) {
      memcpy(text + used, more, strlen(more) + 1);
      return;
    }
    memcpy(text + used, one, (size_t)bytes + 1);
    used += (size_t)bytes;
  }
}

/* Returns the hint that all attempts share, or a general one. */
static const char *dial_guess(const gli_tcp_stream *stream) {
  const gli_tcp_dial *dial = stream->dial;
  const char *first = NULL;
  bool same = true, loopback = true;
  for (uint32_t i = 0; i < dial->n; i++) {
    const char *guess = attempt_guess(&dial->attempts[i]);
    if (first == NULL) first = guess;
    same = same && (guess == NULL || guess == first);
    loopback = loopback && gli_endpoint_is_loopback(&dial->attempts[i].at);
  }
  gli_tcp_contact contact;
  if (loopback &&
      gli_tcp_contact_decode(&stream->pair->peer.config.address, &contact) &&
      contact.place != stream->pair->t->contact.place && !contact.translated)
    return "it listens on loopback only (set by MASTER_ADDR or "
           "GLOO_SOCKET_IFNAME), so ranks on other hosts cannot connect";
  if (same && first != NULL) return first;
  return "set GLOO_SOCKET_IFNAME to an interface of the network that the hosts "
         "share, and open GLOO_PORT_RANGE in firewalls; behind NAT set "
         "GLOO_PUBLISH_ADDR";
}

/* Returns the attempt that failed for the secret, which is reported before the
 * failures of other addresses, or NULL. */
static const gli_tcp_attempt *dial_denied(const gli_tcp_dial *dial) {
  for (uint32_t i = 0; i < dial->n; i++)
    if (dial->attempts[i].denied) return &dial->attempts[i];
  return NULL;
}

static void dial_break(gli_tcp_stream *stream, bool wrong) {
  gli_tcp_pair *pair = stream->pair;
  const gli_tcp_dial *dial = stream->dial;
  const gli_tcp_attempt *denied = dial_denied(dial);
  if (denied != NULL) {
    char at[GLI_ENDPOINT_TEXT_BYTES];
    gli_endpoint_text(&denied->at, at);
    gli_peer_break(&pair->peer, GLOO_ERR_AUTH, "rank %" PRIu32 " (%s) %s",
                   pair->peer.config.peer_rank, at, denied->why);
  } else if (dial->n == 1 && wrong) {
    gli_peer_break(&pair->peer, GLOO_ERR_PROTOCOL, "rank %" PRIu32 " (%s) %s",
                   pair->peer.config.peer_rank, pair->peer_text,
                   dial->attempts[0].why);
  } else {
    char all[DIAL_TEXT_BYTES];
    const char *guess = dial_guess(stream);
    dial_text(dial, all, DIAL_TEXT_BYTES - strlen(guess));
    gli_peer_break(&pair->peer, wrong ? GLOO_ERR_PROTOCOL : GLOO_ERR_PEER,
                   "cannot connect to rank %" PRIu32 " (%s); %s",
                   pair->peer.config.peer_rank, all, guess);
  }
}

bool gli_tcp_dial_explain(const gli_tcp_stream *stream,
                          char text[GLI_OBSTACLE_BYTES]) {
  const gli_tcp_dial *dial = stream->dial;
  char all[OBSTACLE_TEXT_BYTES];
  if (dial == NULL || uv_hrtime() - dial->begun_ns < explain_after_ns)
    return false;
  const char *guess = dial_guess(stream);
  dial_text(dial, all, OBSTACLE_TEXT_BYTES - strlen(guess));
  (void)snprintf(text, GLI_OBSTACLE_BYTES, "; it is not connected (%s): %s",
                 all, guess);
  return true;
}

/* Ends a round in which each address has failed: starts a new one after a
 * while, or gives up if that has gone on for too long. */
static void dial_round_over(gli_tcp_stream *stream, uint64_t now_ns) {
  gli_tcp_pair *pair = stream->pair;
  gli_tcp_dial *dial = stream->dial;
  bool wrong = true, refused = false, all_refused = true;
  for (uint32_t i = 0; i < dial->n; i++) {
    bool refuses = dial->attempts[i].code == ECONNREFUSED;
    wrong = wrong && dial->attempts[i].state == GLI_ATTEMPT_WRONG;
    refused = refused || refuses;
    all_refused = all_refused && refuses;
  }
  /* A rank listens before it publishes its address: without a listener the rank
   * is gone, and a closed pair never connected has no peer to notify. */
  bool pointless = refused && pair->peer.closed && pair->streams == 0;
  bool given_up = stream->failing_since_ns != 0 &&
                  now_ns - stream->failing_since_ns >=
                      (all_refused ? refused_patience_ns : patience_ns);
  if (!wrong && !pointless && !given_up) {
    uint32_t doublings = stream->attempts++;
    if (doublings > BACKOFF_DOUBLINGS) doublings = BACKOFF_DOUBLINGS;
    dial->retry_ns = now_ns + (backoff_ns << doublings);
    return;
  }
  if (stream->lack != 0) /* the peer may have given up since because of it */
    gli_peer_fail_resource(&pair->peer, stream->lack);
  else
    dial_break(stream, wrong);
}

/* ---- progress ------------------------------------------------------------ */

static gli_tcp_attempt *dial_next(gli_tcp_dial *dial) {
  if (dial->found != NULL)
    return dial->found->state == GLI_ATTEMPT_IDLE ? dial->found : NULL;
  for (uint32_t i = 0; i < dial->n; i++)
    if (dial->attempts[i].state == GLI_ATTEMPT_IDLE) return &dial->attempts[i];
  return NULL;
}

static gli_tcp_stream_state dial_state(const gli_tcp_dial *dial) {
  gli_tcp_stream_state state = GLI_TCP_WAITING;
  for (uint32_t i = 0; i < dial->n; i++) {
    if (dial->attempts[i].state != GLI_ATTEMPT_TRYING) continue;
    if (!attempt_connects(&dial->attempts[i])) return GLI_TCP_GREETING;
    state = GLI_TCP_CONNECTING;
  }
  return state;
}

static void dial_sooner(uint64_t *due_ns, uint64_t other_ns) {
  if (other_ns != 0 && (*due_ns == 0 || other_ns < *due_ns)) *due_ns = other_ns;
}

/* Updates the state, and the time of the next step. */
static void dial_settle(gli_tcp_stream *stream) {
  gli_tcp_dial *dial = stream->dial;
  uint64_t due_ns = dial->retry_ns;
  stream->state = dial_state(dial);
  if (dial_next(dial) != NULL) dial_sooner(&due_ns, dial->next_ns);
  for (uint32_t i = 0; i < dial->n; i++)
    if (attempt_connects(&dial->attempts[i]))
      dial_sooner(&due_ns, dial->attempts[i].begun_ns + connect_limit_ns);
  stream->due_ns = due_ns;
  if (due_ns != 0) gli_peers_schedule(&stream->pair->t->peers, due_ns);
}

/* Starts the next attempt that does not fail immediately. */
static void dial_go_on(gli_tcp_stream *stream, uint64_t now_ns) {
  gli_tcp_dial *dial = stream->dial;
  gli_tcp_attempt *attempt;
  while ((attempt = dial_next(dial)) != NULL && !attempt_begin(attempt, now_ns))
    if (stream->failing_since_ns == 0) stream->failing_since_ns = now_ns;
  dial->next_ns = now_ns + connect_head_start_ns;
  dial->retry_ns = 0;
  if (attempt == NULL && dial_state(dial) == GLI_TCP_WAITING)
    dial_round_over(stream, now_ns);
  dial_settle(stream);
}

/* Continues with the other addresses, even if the peer was found here. */
static void dial_after_failure(gli_tcp_attempt *attempt) {
  gli_tcp_stream *stream = attempt->stream;
  uint64_t now = uv_hrtime();
  if (stream->failing_since_ns == 0) stream->failing_since_ns = now;
  if (stream->dial->found == attempt) stream->dial->found = NULL;
  dial_go_on(stream, now);
}

void gli_tcp_attempt_failed(gli_tcp_attempt *attempt, int code) {
  attempt_note_code(attempt, code, NULL);
  dial_after_failure(attempt);
}

void gli_tcp_attempt_failed_because(gli_tcp_attempt *attempt, const char *why,
                                    const char *guess) {
  attempt_note(attempt, GLI_ATTEMPT_FAILED, 0, why, guess);
  dial_after_failure(attempt);
}

static void attempt_give_up(gli_tcp_attempt *attempt, const char *format,
                            va_list arguments) {
  char why[GLI_ATTEMPT_WHY_BYTES];
  (void)vsnprintf(why, sizeof why, format, arguments);
  attempt_note(attempt, GLI_ATTEMPT_WRONG, 0, why,
               "another program may use its port");
  dial_after_failure(attempt);
}

void gli_tcp_attempt_bad_peer(gli_tcp_attempt *attempt, const char *format,
                              ...) {
  va_list arguments;
  va_start(arguments, format);
  attempt_give_up(attempt, format, arguments);
  va_end(arguments);
}

void gli_tcp_attempt_rejected(gli_tcp_attempt *attempt, const char *format,
                              ...) {
  va_list arguments;
  attempt->denied = true;
  va_start(arguments, format);
  attempt_give_up(attempt, format, arguments);
  va_end(arguments);
}

void gli_tcp_attempt_postpone(gli_tcp_attempt *attempt) {
  gli_tcp_stream *stream = attempt->stream;
  attempt_note(attempt, GLI_ATTEMPT_FAILED, 0, "it is not ready yet",
               "it may take long to start");
  stream->failing_since_ns = 0;
  stream->lack = 0;
  dial_go_on(stream, uv_hrtime());
}

void gli_tcp_attempt_hello_sent(gli_tcp_attempt *attempt) {
  gli_tcp_dial *dial = attempt->stream->dial;
  dial->next_ns = uv_hrtime() + answer_head_start_ns;
  dial_settle(attempt->stream);
}

/* Drops the attempts elsewhere that have not sent a hello. */
void gli_tcp_attempt_retry_at(gli_tcp_attempt *attempt, uint64_t due_ns,
                              const char *why, const char *guess) {
  gli_tcp_dial *dial = attempt->stream->dial;
  attempt_note(attempt, GLI_ATTEMPT_IDLE, 0, why, guess);
  dial->found = attempt;
  for (uint32_t i = 0; i < dial->n; i++) {
    if (!attempt_connects(&dial->attempts[i])) continue;
    attempt_close(&dial->attempts[i]);
    dial->attempts[i].state = GLI_ATTEMPT_IDLE;
  }
  dial->next_ns = 0;
  dial->retry_ns = due_ns;
  dial_settle(attempt->stream);
}

/* ---- starting and ending ------------------------------------------------- */

static gli_tcp_dial *dial_new(gli_tcp_stream *stream) {
  gli_tcp_pair *pair = stream->pair;
  gli_tcp_contact contact;
  gli_endpoints list = {.n = 1, .at = {pair->there}};
  /* Decoding cannot fail: it succeeded when the pair was opened. */
  if (stream->index == 0 &&
      gli_tcp_contact_decode(&pair->peer.config.address, &contact))
    gli_tcp_order(&contact, pair->t->contact.place, &pair->t->own, &list);
  gli_tcp_dial *dial =
      calloc(1, sizeof *dial + list.n * sizeof dial->attempts[0]);
  if (dial == NULL) return NULL;
  dial->n = list.n;
  dial->begun_ns = uv_hrtime();
  for (uint32_t i = 0; i < list.n; i++) {
    dial->attempts[i].stream = stream;
    dial->attempts[i].at = list.at[i];
  }
  return dial;
}

/* Retries or gives up, as dial_round_over does, without memory for a dial. */
static void dial_lacks_memory(gli_tcp_stream *stream, uint64_t now_ns) {
  stream->state = GLI_TCP_WAITING;
  stream->lack = ENOMEM;
  if (stream->failing_since_ns == 0) stream->failing_since_ns = now_ns;
  if (now_ns - stream->failing_since_ns >= patience_ns) {
    stream->due_ns = 0;
    gli_peer_fail_resource(&stream->pair->peer, ENOMEM);
    return;
  }
  stream->due_ns = now_ns + (backoff_ns << BACKOFF_DOUBLINGS);
  gli_peers_schedule(&stream->pair->t->peers, stream->due_ns);
}

void gli_tcp_stream_begin(gli_tcp_stream *stream) {
  uint64_t now = uv_hrtime();
  if (stream->dial == NULL) stream->dial = dial_new(stream);
  if (stream->dial == NULL)
    dial_lacks_memory(stream, now);
  else
    dial_go_on(stream, now);
}

/* Fails an attempt that takes too long. The failure dates from its start. */
static bool attempt_times_out(gli_tcp_attempt *attempt, uint64_t now_ns) {
  gli_tcp_stream *stream = attempt->stream;
  uint64_t begun = attempt->begun_ns;
  char why[GLI_ATTEMPT_WHY_BYTES];
  if (!attempt_connects(attempt)) return false;
  if (now_ns < begun + connect_limit_ns) return false;
  (void)snprintf(why, sizeof why, "no answer within %d s", CONNECT_LIMIT_S);
  attempt_note_code(attempt, ETIMEDOUT, why);
  if (stream->failing_since_ns == 0 || begun < stream->failing_since_ns)
    stream->failing_since_ns = begun;
  if (stream->dial->found == attempt) stream->dial->found = NULL;
  return true;
}

/* Does what is due: fails attempts that never connected, tries the next
 * address, asks a busy peer again, or starts a new round. */
void gli_tcp_stream_due(gli_tcp_stream *stream, uint64_t now_ns) {
  gli_tcp_dial *dial = stream->dial;
  if (dial == NULL) {
    gli_tcp_stream_begin(stream);
    return;
  }
  bool next = dial->next_ns != 0 && dial->next_ns <= now_ns;
  for (uint32_t i = 0; i < dial->n; i++)
    if (attempt_times_out(&dial->attempts[i], now_ns)) next = true;
  if (dial->retry_ns != 0 && dial->retry_ns <= now_ns) {
    next = true;
    for (uint32_t i = 0; i < dial->n && dial->found == NULL; i++)
      if (dial->attempts[i].state == GLI_ATTEMPT_FAILED)
        dial->attempts[i].state = GLI_ATTEMPT_IDLE;
  }
  if (next)
    dial_go_on(stream, now_ns);
  else
    dial_settle(stream);
}

void gli_tcp_dial_drop(gli_tcp_stream *stream) {
  gli_tcp_dial *dial = stream->dial;
  stream->dial = NULL;
  if (dial == NULL) return;
  for (uint32_t i = 0; i < dial->n; i++) attempt_close(&dial->attempts[i]);
  free(dial);
}

void gli_tcp_dial_ignore(gli_tcp_stream *stream) {
  gli_tcp_dial *dial = stream->dial;
  for (uint32_t i = 0; dial != NULL && i < dial->n; i++)
    if (dial->attempts[i].state == GLI_ATTEMPT_TRYING)
      gli_conn_for(dial->attempts[i].conn, 0);
}

void gli_tcp_dial_forked(gli_tcp_stream *stream) {
  gli_tcp_dial *dial = stream->dial;
  for (uint32_t i = 0; dial != NULL && i < dial->n; i++)
    gli_conn_forked(dial->attempts[i].conn);
}
