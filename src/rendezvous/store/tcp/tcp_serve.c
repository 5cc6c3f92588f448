/* The operations of the server. */
#include <stdlib.h>
#include <string.h>

#include "core/log.h"
#include "rendezvous/store/tcp/tcp_session.h"
#include "rendezvous/store/value.h"

static void serve_broken(gli_session *session) {
  gli_session_drop(session, "it sent a broken request");
}

/* ---- waiting ------------------------------------------------------------- */

/* Continues a fetch; returns true if all keys exist now. */
static bool all_there(const gli_table *table, gli_tcp_fetch *fetch) {
  for (int pass = 0; pass < 2; pass++) {
    while (fetch->next < fetch->n_keys &&
           gli_table_find(table, fetch->keys[fetch->next]) != NULL)
      fetch->next++;
    if (fetch->next < fetch->n_keys) return false;
    /* A key that existed before may have been deleted, so all are checked once
     * more. */
    if (pass == 0) fetch->next = 0;
  }
  return true;
}

/* Sends the values. Returns false if there is no room for the reply yet. */
static bool reply_values(gli_session *session) {
  const gli_tcp_fetch *fetch = &session->fetch;
  size_t bytes = 4, n = 0;
  while (fetch->want_values && n < fetch->n_keys) {
    size_t more =
        gli_table_find(session->service->table, fetch->keys[n])->bytes + 4;
    if (bytes + more > GLI_TCP_FRAME_MAX) break;
    bytes += more;
    n++;
  }
  if (!gli_budget_ask(session, bytes, bytes)) return false;
  gli_frame reply;
  gli_frame_begin(&reply, bytes);
  gli_frame_put_u32(&reply, (uint32_t)n);
  for (size_t i = 0; i < n; i++) {
    const gloo_value *value =
        gli_table_find(session->service->table, fetch->keys[i]);
    gli_frame_put_blob(&reply, value->data, value->bytes);
  }
  gli_session_stop_timer(session);
  gli_session_reply(session, &reply, GLOO_OK);
  return true;
}

static void serve_wait_for(gli_session *session, gli_wait *wait,
                           const char *key) {
  gli_wait **bucket =
      &session->service->waiting[gli_table_hash(session->service->table, key) &
                                 (GLI_TCP_WAIT_BUCKETS - 1)];
  *wait = (gli_wait){session, key, *bucket, bucket};
  if (*bucket != NULL) (*bucket)->link = &wait->next;
  *bucket = wait;
}

static void serve_wait_no_more(gli_wait *wait) {
  if (wait->link == NULL) return;
  *wait->link = wait->next;
  if (wait->next != NULL) wait->next->link = wait->link;
  wait->link = NULL;
  wait->next = NULL;
}

static void serve_park(gli_session *session) {
  const gli_tcp_fetch *fetch = &session->fetch;
  session->state = GLI_SESSION_PARKED;
  serve_wait_for(session, &session->wait, fetch->keys[fetch->next]);
  if (fetch->alarm != NULL && session->alarm.link == NULL)
    serve_wait_for(session, &session->alarm, fetch->alarm);
}

void gli_session_unpark(gli_session *session) {
  serve_wait_no_more(&session->wait);
  serve_wait_no_more(&session->alarm);
}

static void reply_alarm(gli_session *session) {
  gloo_error error;
  gli_error_clear(&error);
  gli_session_reply_status(session, GLOO_ERR_POISONED, &error);
}

/* Serves a session after its next key, or its alarm, was created. */
static void serve_wake_one(gli_session *session) {
  gli_tcp_fetch *fetch = &session->fetch;
  if (session->state != GLI_SESSION_PARKED) return; /* woken by both keys */
  bool complete = all_there(session->service->table, fetch);
  bool rings = !complete && fetch->alarm != NULL &&
               gli_table_find(session->service->table, fetch->alarm) != NULL;
  if (!complete && !rings) {
    serve_park(session);
    return;
  }
  gli_session_unpark(session);
  if (complete) {
    (void)reply_values(session);
  } else {
    gli_session_stop_timer(session);
    reply_alarm(session);
  }
}

/* Resumes a fetch. Keys may have been deleted meanwhile, and its timer may have
 * ended. */
void gli_session_fetch_again(gli_session *session) {
  session->state = GLI_SESSION_PARKED;
  serve_wake_one(session);
  if (session->state == GLI_SESSION_PARKED) gli_budget_park(session);
}

/* Wakes the sessions that wait for `key`, which exists now. */
static void serve_wake(gli_tcp_service *service, const char *key) {
  gli_wait *woken = NULL;
  gli_wait *const *bucket =
      &service->waiting[gli_table_hash(service->table, key) &
                        (GLI_TCP_WAIT_BUCKETS - 1)];
  for (gli_wait *w = *bucket, *next; w != NULL; w = next) {
    next = w->next;
    if (strcmp(w->key, key) != 0) continue;
    serve_wait_no_more(w);
    w->next = woken;
    woken = w;
  }
  for (gli_wait *next; woken != NULL; woken = next) {
    next = woken->next;
    woken->next = NULL;
    serve_wake_one(woken->session);
  }
}

void gli_session_expire(gli_session *session) {
  const gli_tcp_fetch *fetch = &session->fetch;
  gli_frame reply;
  gli_session_unpark(session);
  if (session->service->lack !=
      0) { /* the missing ranks may be refused for it */
    gloo_error error;
    gli_tcp_service_lacks(session->service, &error);
    gli_session_reply_status(session, error.status, &error);
    return;
  }
  gli_frame_begin(&reply, fetch->n_keys);
  for (size_t i = 0; i < fetch->n_keys; i++) {
    uint8_t here =
        gli_table_find(session->service->table, fetch->keys[i]) != NULL;
    gli_frame_put_bytes(&reply, &here, 1);
  }
  gli_session_reply(session, &reply, GLOO_ERR_TIMEOUT);
}

static void fetch_set_timer(gli_session *session, uint64_t timeout_ns) {
  if (timeout_ns <= INT64_MAX) /* no limit if negative as int64 */
    gli_session_set_timer(session, timeout_ns);
}

static void serve_fetch(gli_session *session, gli_body *body) {
  gli_tcp_fetch *fetch = &session->fetch;
  uint64_t timeout;
  uint32_t want, n;
  const char *alarm;
  if (!gli_body_u64(body, &timeout) || !gli_body_u32(body, &want) ||
      !gli_body_string(body, 0, GLOO_STORE_KEY_MAX, &alarm) ||
      !gli_body_u32(body, &n) || n == 0 || n > GLI_TCP_KEYS_MAX ||
      n > body->left / 4) {
    serve_broken(session);
    return;
  }
  if (!gli_budget_ask(session, n * sizeof *fetch->keys,
                      n * sizeof *fetch->keys))
    return;
  fetch->keys = malloc(n * sizeof *fetch->keys);
  if (fetch->keys == NULL) {
    gli_session_drop(session, "out of memory for its list of keys");
    return;
  }
  fetch->n_keys = n;
  gli_budget_count(session);
  fetch->want_values = want != 0;
  fetch->alarm = *alarm != '\0' ? alarm : NULL;
  bool good = true;
  for (size_t i = 0; i < n && good; i++)
    good = gli_body_key(body, &fetch->keys[i]);
  if (!good || body->left != 0) {
    serve_broken(session);
  } else if (all_there(session->service->table, fetch)) {
    if (!reply_values(session)) fetch_set_timer(session, timeout);
  } else if (fetch->alarm != NULL &&
             gli_table_find(session->service->table, fetch->alarm) != NULL) {
    reply_alarm(session);
  } else if (timeout == 0) {
    gli_session_expire(session);
  } else {
    serve_park(session);
    fetch_set_timer(session, timeout);
    gli_budget_park(session);
  }
}

/* ---- other operations ---------------------------------------------------- */

/* Replies first, which frees the request. `key` must outlive that. */
static void reply_and_wake(gli_session *session, gloo_status status,
                           const gloo_error *error, const char *key) {
  gli_tcp_service *service = session->service;
  uint8_t *body = session->body; /* keeps `key` until the end */
  session->body = NULL;
  gli_session_reply_status(session, status, error);
  if (status == GLOO_OK) serve_wake(service, key);
  free(body);
}

static void serve_set_or_append(gli_session *session, gli_body *body) {
  gli_table *table = session->service->table;
  gloo_error error;
  const char *key;
  const void *data;
  size_t bytes;
  if (!gli_body_key(body, &key) ||
      !gli_body_blob(body, GLOO_STORE_VALUE_MAX, &data, &bytes) ||
      body->left != 0) {
    serve_broken(session);
    return;
  }
  gloo_status status = session->op == GLI_TCP_SET
                           ? gli_table_set(table, key, data, bytes, &error)
                           : gli_table_append(table, key, data, bytes, &error);
  reply_and_wake(session, status, &error, key);
}

static void serve_add(gli_session *session, gli_body *body) {
  gloo_error error;
  gli_frame reply;
  const char *key;
  uint64_t amount;
  int64_t sum;
  if (!gli_body_key(body, &key) || !gli_body_u64(body, &amount) ||
      body->left != 0) {
    serve_broken(session);
    return;
  }
  gloo_status status = gli_table_add(session->service->table, key,
                                     (int64_t)amount, &sum, &error);
  if (status != GLOO_OK) {
    gli_session_reply_status(session, status, &error);
    return;
  }
  gli_tcp_service *service = session->service;
  uint8_t *held = session->body;
  session->body = NULL;
  gli_frame_begin(&reply, 8);
  gli_frame_put_u64(&reply, (uint64_t)sum);
  gli_session_reply(session, &reply, GLOO_OK);
  serve_wake(service, key);
  free(held);
}

/* Returns true if there is room for the reply, which has the old value or the
 * new one. */
static bool compare_has_room(gli_session *session, const char *key,
                             size_t desired_bytes) {
  const gloo_value *old = gli_table_find(session->service->table, key);
  size_t bytes =
      old != NULL && old->bytes > desired_bytes ? old->bytes : desired_bytes;
  return gli_budget_ask(session, bytes, bytes);
}

static void serve_compare(gli_session *session, gli_body *body) {
  gli_tcp_service *service = session->service;
  gloo_error error;
  gloo_value current = {NULL, 0};
  gli_frame reply;
  const char *key;
  const void *expected, *desired;
  size_t expected_bytes, desired_bytes;
  uint32_t want;
  if (!gli_body_key(body, &key) ||
      !gli_body_blob(body, GLOO_STORE_VALUE_MAX, &expected, &expected_bytes) ||
      !gli_body_blob(body, GLOO_STORE_VALUE_MAX, &desired, &desired_bytes) ||
      !gli_body_u32(body, &want) || body->left != 0) {
    serve_broken(session);
    return;
  }
  if (want != 0 && !compare_has_room(session, key, desired_bytes)) return;
  gloo_status status = gli_table_compare_and_set(
      service->table, key, expected, expected_bytes, desired, desired_bytes,
      want != 0 ? &current : NULL, &error);
  if (status != GLOO_OK && status != GLOO_ERR_COMPARE) {
    gli_session_reply_status(session, status, &error);
    return;
  }
  uint8_t *held = session->body;
  session->body = NULL;
  gli_frame_begin(&reply, 4 + current.bytes);
  gli_frame_put_blob(&reply, current.data, current.bytes);
  gli_value_free(&current);
  gli_session_reply(session, &reply, status);
  if (status == GLOO_OK) serve_wake(service, key);
  free(held);
}

static void serve_remove(gli_session *session, gli_body *body) {
  gloo_error error;
  const char *key;
  if (!gli_body_key(body, &key) || body->left != 0) {
    serve_broken(session);
    return;
  }
  gloo_status status = gli_table_remove(session->service->table, key);
  gli_error_clear(&error);
  gli_session_reply_status(session, status, &error);
}

/* ---- wills --------------------------------------------------------------- */

/* Stores the will in its encoded form. */
static void serve_will(gli_session *session, gli_body *body) {
  const char *key;
  gloo_value value;
  uint32_t n, n_if;
  bool good =
      session->body_bytes <= GLI_WILL_MAX && gli_body_will(body, &n, &n_if);
  for (uint32_t i = 0; good && i < n; i++)
    good = gli_body_will_next(body, &key, &value);
  if (!good || body->left != 0) {
    serve_broken(session);
    return;
  }
  if (n > 0 && !gli_budget_keeps_will(session, session->body_bytes)) {
    gloo_error error;
    gli_fail(&error, GLOO_ERR_NO_MEMORY, -1,
             "the server of the TCP store at %s has no room for a will of %zu "
             "bytes",
             session->service->address, session->body_bytes);
    gli_session_reply_status(session, error.status, &error);
    return;
  }
  free(session->will);
  session->will = NULL;
  if (n > 0) {
    session->will = session->body;
    session->will_bytes = session->body_bytes;
    session->body = NULL;
  }
  gli_session_reply_status(session, GLOO_OK, NULL);
}

void gli_session_execute(gli_session *session) {
  gli_tcp_service *service = session->service;
  gli_body body = {session->will, session->will_bytes};
  const char *key;
  gloo_value value;
  uint32_t n, n_if;
  bool goes = true;
  if (!gli_body_will(&body, &n, &n_if)) return;
  for (uint32_t i = 0; i < n && gli_body_will_next(&body, &key, &value); i++) {
    if (i == 0 && n_if > 0) goes = gli_table_find(service->table, key) == NULL;
    if (i < n_if && !goes) continue;
    if (i == 0 && n_if > 0)
      gli_log(GLOO_LOG_INFO, "the TCP store at %s lost the client at %s",
              service->address, session->peer);
    if (gli_table_set(service->table, key, value.data, value.bytes, NULL) ==
        GLOO_OK)
      serve_wake(service, key);
  }
}

void gli_session_serve(gli_session *session) {
  gli_body body = {session->body, session->body_bytes};
  switch (session->op) {
    case GLI_TCP_HELLO:
      gli_session_hello(session, &body);
      break;
    case GLI_TCP_PROVE:
      gli_session_prove(session, &body);
      break;
    case GLI_TCP_SET:
    case GLI_TCP_APPEND:
      serve_set_or_append(session, &body);
      break;
    case GLI_TCP_FETCH:
      serve_fetch(session, &body);
      break;
    case GLI_TCP_ADD:
      serve_add(session, &body);
      break;
    case GLI_TCP_COMPARE:
      serve_compare(session, &body);
      break;
    case GLI_TCP_REMOVE:
      serve_remove(session, &body);
      break;
    case GLI_TCP_WILL:
      serve_will(session, &body);
      break;
    default:
      serve_broken(session);
  }
}
