/* The greeting of a client: its job, or its proof of the key. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "core/exhaustion.h"
#include "core/log.h"
#include "core/random.h"
#include "core/text.h"
#include "rendezvous/store/tcp/tcp_auth.h"
#include "rendezvous/store/tcp/tcp_session.h"

/* Fills the error for a lack of resources in this process, which waiting ranks
 * report. */
void gli_tcp_service_lacks(const gli_tcp_service *service, gloo_error *error) {
  struct rlimit limit;
  char most[48] = "";
  if (service->lack == EMFILE && getrlimit(RLIMIT_NOFILE, &limit) == 0)
    snprintf(most, sizeof most, ", which is %llu now",
             (unsigned long long)limit.rlim_cur);
  if (service->full) {
    gli_fail(error, GLOO_ERR_IO, -1,
             "the TCP store at %s (served by rank 0 if gloo_init opened it) "
             "cannot accept another client: it accepts at most %zu, half of "
             "its limit on open files; raise that limit (ulimit -n)%s",
             service->address, gli_tcp_sessions_max(), most);
    return;
  }
  gli_fail(error, gli_exhaustion_status(service->lack), -1,
           "the TCP store at %s (served by rank 0 if gloo_init opened it) "
           "cannot accept another client: %s%s",
           service->address, gli_exhaustion_text(service->lack), most);
}

static void hello_refuse(gli_session *session, const gloo_error *error) {
  gli_session_reply_status(session, error->status, error);
  gli_session_close(session);
}

/* Fails the waits of all ranks: the ranks that they wait for cannot connect. */
static void hello_tell_lack(gli_tcp_service *service) {
  for (size_t i = 0; i < GLI_TCP_WAIT_BUCKETS; i++) {
    for (gli_wait *w = service->waiting[i]; w != NULL;) {
      gli_session *session = w->session;
      if (w != &session->alarm) {
        w = w->next;
        continue;
      }
      gli_session_stop_timer(session);
      gli_session_expire(session);
      w = service->waiting[i]; /* the list has changed */
    }
  }
}

static void hello_refuse_loudly(gli_session *session, const gloo_error *error) {
  gli_log(gli_strangers_level(session->service),
          "rejected the client at %s: %s", session->peer, error->message);
  hello_refuse(session, error);
}

/* Admits a client that has completed its hello, or refuses it. */
static void hello_welcome(gli_session *session) {
  gli_tcp_service *service = session->service;
  gloo_error error;
  if (!session->refused) {
    session->greeting = GLI_SESSION_GREETED;
    gli_session_stop_timer(session);
    gli_session_reply_status(session, GLOO_OK, NULL);
    return;
  }
  gli_tcp_service_lacks(service, &error);
  gli_log(service->told_lack ? GLOO_LOG_DEBUG : GLOO_LOG_WARN,
          "rejected the client at %s: %s", session->peer, error.message);
  service->told_lack = true;
  hello_refuse(session, &error);
  hello_tell_lack(service);
}

/* ---- clients of this host ------------------------------------------------ */

static void hello_not_own(const gli_session *session, const char *but,
                          gloo_error *error) {
  gli_fail(error, GLOO_ERR_AUTH, -1,
           "the TCP store at %s has no secret, so on this host it accepts only "
           "processes of its own user; this client %s: set GLOO_JOB_SECRET on "
           "all ranks, or GLOO_SECURITY=off on all of them",
           session->service->address, but);
}

/* Sets *here if a client that came over TCP has an address of this host.
 * Returns false if that is unknown; then `error` holds the reason. */
static bool hello_came_from(const gli_session *session, bool *here,
                            gloo_error *error) {
  struct sockaddr_storage its, own;
  socklen_t bytes = sizeof its, own_bytes = sizeof own;
  memset(&its, 0, sizeof its);
  memset(&own, 0, sizeof own);
  int code = 0;
  if (getpeername(session->conn.watch.fd, (struct sockaddr *)&its, &bytes) !=
          0 ||
      getsockname(session->conn.watch.fd, (struct sockaddr *)&own,
                  &own_bytes) != 0)
    code = errno;
  if (code == 0) code = gli_tcp_address_is_here(&its, here);
  if (code != 0) {
    gli_fail(error, gli_exhaustion_status(code), -1,
             "the TCP store at %s cannot determine whether this client is on "
             "its host: %s",
             session->service->address, gli_exhaustion_text(code));
    return false;
  }
  gli_endpoint from, to;
  memcpy(&from, &its, sizeof from);
  memcpy(&to, &own, sizeof to);
  *here = *here || gli_endpoint_same_address(&from, &to);
  return true;
}

/* Returns true if the server has no secret and another user of its own host
 * runs the client. `error` holds the reason. */
static bool hello_is_strange(const gli_session *session, gloo_error *error) {
  const gli_tcp_service *service = session->service;
  const gli_tcp_process *who = &session->who;
  char whose[GLI_TCP_WHOSE_BYTES], but[GLI_TCP_WHOSE_BYTES + 16];
  bool here = true;
  if (!service->own_user || who->own) return false;
  if (who->local && who->code != 0) {
    gli_fail(error, gli_exhaustion_status(who->code), -1,
             "the TCP store at %s has no secret and cannot determine the user "
             "of this client: %s",
             service->address, gli_exhaustion_text(who->code));
    return true;
  }
  if (who->local) {
    gli_tcp_local_whose(who, whose);
    (void)snprintf(but, sizeof but, "is of %s", whose);
    hello_not_own(session, but, error);
    return true;
  }
  if (service->from_elsewhere && !hello_came_from(session, &here, error))
    return true;
  if (here)
    hello_not_own(session,
                  "connects over TCP from an address of this host, which does "
                  "not reveal its user",
                  error);
  return here;
}

/* ---- by name ------------------------------------------------------------- */

static void hello_by_name(gli_session *session, gli_body *body) {
  gli_tcp_service *service = session->service;
  gloo_error error;
  uint64_t epoch;
  const char *job;
  if (!gli_body_u64(body, &epoch) ||
      !gli_body_string(body, 0, GLI_JOB_MAX, &job) || body->left != 0) {
    gli_session_drop(session, "it sent a broken request");
  } else if (service->key != NULL) {
    gli_fail(&error, GLOO_ERR_AUTH, -1,
             "the TCP store at %s requires the job secret, but none is set in "
             "this client: set GLOO_JOB_SECRET or GLOO_JOB_SECRET_FILE to the "
             "same value on all ranks",
             service->address);
    hello_refuse_loudly(session, &error);
  } else if (hello_is_strange(session, &error)) {
    hello_refuse_loudly(session, &error);
  } else if (strcmp(job, service->job) == 0 && epoch == service->epoch) {
    hello_welcome(session);
  } else {
    gli_log(gli_strangers_level(service),
            "rejected the client at %s: it belongs to job '%s', epoch %" PRIu64
            ", and the TCP store at %s to job '%s', epoch %" PRIu64,
            session->peer, gli_quote(job).text, epoch, service->address,
            gli_quote(service->job).text, service->epoch);
    /* The reply keeps the job's name from a client that does not know it,
     * because the name admits a client to the keys of all ranks. */
    gli_fail(&error, GLOO_ERR_STALE, -1, "another job or epoch");
    hello_refuse(session, &error);
  }
}

/* ---- by key -------------------------------------------------------------- */

/* Sends the challenge. The client's next frame proves that it knows the key. */
static void hello_challenge(gli_session *session,
                            const gli_tcp_nonces *nonces) {
  gli_frame reply;
  gloo_error error;
  gli_tcp_seal *seal;
  uint8_t tag[GLI_TAG_BYTES];
  const gli_key *key = session->service->key;
  gloo_status status = gli_tcp_auth_tag(key, nonces, tag, &error);
  if (status == GLOO_OK)
    status = gli_tcp_seal_create(key, true, nonces, &seal, &error);
  if (status != GLOO_OK) {
    gli_session_drop(session, error.message);
    return;
  }
  gli_frame_begin(&reply, sizeof nonces->server + sizeof tag);
  gli_frame_put_bytes(&reply, nonces->server, sizeof nonces->server);
  gli_frame_put_bytes(&reply, tag, sizeof tag);
  session->greeting = GLI_SESSION_TO_PROVE;
  gli_session_reply(session, &reply, GLOO_OK);
  session->seal = seal;
}

static void hello_by_key(gli_session *session, gli_body *body) {
  gli_tcp_service *service = session->service;
  gloo_error error;
  if (body->left != GLI_NONCE_BYTES) {
    gli_session_drop(session, "it sent a broken request");
  } else if (service->key == NULL) {
    gli_fail(&error, GLOO_ERR_AUTH, -1,
             "this client requires the job secret, but none is set in the TCP "
             "store at %s",
             service->address);
    hello_refuse_loudly(session, &error);
  } else {
    gli_tcp_nonces nonces;
    memcpy(nonces.client, body->at, sizeof nonces.client);
    if (gli_random_draw(nonces.server, sizeof nonces.server, &error) ==
        GLOO_OK) {
      hello_challenge(session, &nonces);
    } else {
      gli_session_drop(session, error.message);
    }
  }
}

void gli_session_prove(gli_session *session, const gli_body *body) {
  if (body->left != 0) {
    gli_session_drop(session, "it sent a broken request");
    return;
  }
  hello_welcome(session);
}

/* ---- by TLS -------------------------------------------------------------- */

static void hello_other_tls(gli_session *session, gli_tls_kind its) {
  gli_tcp_service *service = session->service;
  gloo_error error;
  gli_fail(&error, GLOO_ERR_AUTH, -1,
           "the TCP store at %s uses %s, and this client %s: GLOO_TLS and "
           "GLOO_TLS_* must be the same on all ranks",
           service->address,
           gli_tls_kind_text(gli_tls_settings_kind(service->tls)),
           gli_tls_kind_text(its));
  hello_refuse_loudly(session, &error);
}

static void hello_by_tls(gli_session *session, gli_body *body) {
  uint32_t kind;
  if (!gli_body_u32(body, &kind) || body->left != 0 || kind == GLI_TLS_NONE ||
      session->conn.tls != NULL) {
    gli_session_drop(session, "it sent a broken request");
  } else if (kind != gli_tls_settings_kind(session->service->tls)) {
    hello_other_tls(session, (gli_tls_kind)kind);
  } else {
    session->greeting = GLI_SESSION_TO_SECURE;
    gli_session_reply_status(session, GLOO_OK, NULL);
  }
}

/* Sends the result of TLS. The client waits for it and sends nothing before, so
 * a refusal leaves no unread data, which would discard the reason. */
void gli_session_secured(gli_session *session) {
  gli_tcp_service *service = session->service;
  const gli_tls *tls = session->conn.tls;
  gloo_error error;
  gli_endpoint at;
  struct sockaddr_storage address;
  socklen_t bytes = sizeof address;
  memset(&at, 0, sizeof at);
  if (getpeername(session->conn.watch.fd, (struct sockaddr *)&address,
                  &bytes) == 0 &&
      gli_endpoint_from_socket((const struct sockaddr *)&address, bytes, &at))
    gli_endpoint_unmap(&at);
  if (gli_tls_is_member(session->conn.tls, &at)) {
    gli_session_reply_status(session, GLOO_OK, NULL);
    return;
  }
  gli_fail(&error, GLOO_ERR_AUTH, -1,
           "the TCP store at %s rejects this client: it %s", service->address,
           gli_tls_why(tls));
  hello_refuse_loudly(session, &error);
}

/* ---- the first request --------------------------------------------------- */

void gli_session_hello(gli_session *session, gli_body *body) {
  gli_tcp_service *service = session->service;
  gloo_error error;
  uint64_t magic;
  uint32_t version, how = UINT32_MAX;
  if (!gli_body_u64(body, &magic) || magic != GLI_TCP_MAGIC ||
      !gli_body_u32(body, &version)) {
    gli_session_drop(session, "it does not speak the store protocol");
    return;
  }
  if (version != GLI_TCP_VERSION) {
    gli_fail(&error, GLOO_ERR_PROTOCOL, -1,
             "the TCP store at %s speaks version %u of its protocol, this "
             "client version %u: use the same release of the library on all "
             "ranks",
             service->address, GLI_TCP_VERSION, (unsigned)version);
    hello_refuse_loudly(session, &error);
  } else if (!gli_body_u32(body, &how)) {
    gli_session_drop(session, "it sent a broken request");
  } else if (how == GLI_TCP_BY_TLS) {
    hello_by_tls(session, body);
  } else if (service->tls != NULL && session->conn.tls == NULL) {
    hello_other_tls(session, GLI_TLS_NONE);
  } else if (how == GLI_TCP_BY_NAME) {
    hello_by_name(session, body);
  } else if (how == GLI_TCP_BY_KEY) {
    hello_by_key(session, body);
  } else {
    gli_session_drop(session, "it sent a broken request");
  }
}
