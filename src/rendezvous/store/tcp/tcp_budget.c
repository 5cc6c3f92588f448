#include "rendezvous/store/tcp/tcp_budget.h"

#include "rendezvous/store/tcp/tcp_session.h"

/* ---- counting ------------------------------------------------------------ */

static void budget_set(gli_session *session, size_t held, size_t kept) {
  gli_tcp_budget *budget = &session->service->budget;
  gli_tcp_share *share = &session->share;
  if (session->answered != NULL)
    return; /* requests of this process are not limited */
  budget->held = budget->held - share->held + held;
  budget->kept = budget->kept - share->kept + kept;
  if (budget->held > budget->most) budget->most = budget->held;
  share->held = held;
  share->kept = kept;
}

void gli_budget_count(gli_session *session) {
  size_t will = session->will != NULL ? session->will_bytes : 0;
  size_t held = session->fetch.n_keys * sizeof *session->fetch.keys;
  bool waits = session->state == GLI_SESSION_PARKED && session->out == NULL;
  if (session->body != NULL) held += session->body_room;
  if (session->out != NULL) held += session->out_room;
  budget_set(session, held + will, (waits ? held : 0) + will);
}

void gli_budget_forget(gli_session *session) {
  budget_set(session, 0, 0);
}

/* ---- waiting for room ---------------------------------------------------- */

static bool budget_has_room(const gli_tcp_budget *budget, size_t more) {
  return budget->held <= GLI_TCP_BUDGET &&
         more <= GLI_TCP_BUDGET - budget->held;
}

bool gli_budget_ask(gli_session *session, size_t more, size_t size) {
  gli_tcp_budget *budget = &session->service->budget;
  bool granted = more <= session->share.granted;
  session->share.granted = 0;
  if (granted || size <= GLI_TCP_BUDGET_SMALL) return true;
  if (session->answered != NULL || session == budget->beyond) return true;
  if (budget->queue.n == 0) {
    if (budget_has_room(budget, more)) return true;
    session->service->due_ns = 1; /* the timers of all sessions get shorter */
  }
  session->share.wants = more;
  gli_tcp_queue_append(&budget->queue, &session->share.place, session);
  session->state = GLI_SESSION_QUEUED;
  gli_budget_count(session);
  gli_conn_for(&session->conn, 0);
  return false;
}

void gli_budget_leave(gli_session *session) {
  gli_tcp_budget *budget = &session->service->budget;
  gli_tcp_queue_remove(&budget->queue, &session->share.place);
  if (budget->beyond == session) budget->beyond = NULL;
}

bool gli_budget_go_on(gli_tcp_service *service) {
  gli_tcp_budget *budget = &service->budget;
  gli_session *session;
  bool any = false;
  while ((session = gli_tcp_queue_first(&budget->queue)) != NULL) {
    if (!budget_has_room(budget, session->share.wants)) {
      if (budget->beyond != NULL) break;
      budget->beyond = session;
    }
    gli_tcp_queue_remove(&budget->queue, &session->share.place);
    session->share.granted = session->share.wants;
    gli_session_go_on(session);
    session->share.granted = 0; /* the grant covers this request only */
    any = true;
  }
  return any;
}

/* ---- parked requests and wills ------------------------------------------- */

static void budget_refuse(gli_session *session) {
  gloo_error error;
  size_t n_keys = session->fetch.n_keys;
  gli_session_unpark(session);
  gli_session_stop_timer(session);
  gli_fail(&error, GLOO_ERR_NO_MEMORY, -1,
           "the server of the TCP store at %s has no room for a request that "
           "waits for %zu keys: waiting requests may use %zu MiB; wait for "
           "fewer keys at a time",
           session->service->address, n_keys, GLI_TCP_BUDGET_KEPT >> 20);
  gli_session_reply_status(session, error.status, &error);
}

/* Returns the largest parked session; NULL if only small ones are parked. */
static gli_session *budget_largest_parked(const gli_tcp_service *service) {
  gli_session *largest = NULL;
  size_t most = GLI_TCP_BUDGET_SMALL;
  for (gli_session *s = service->sessions; s != NULL; s = s->next) {
    if (s->state != GLI_SESSION_PARKED || s->share.held <= most) continue;
    largest = s;
    most = s->share.held;
  }
  return largest;
}

void gli_budget_park(gli_session *session) {
  gli_tcp_budget *budget = &session->service->budget;
  bool beyond = budget->beyond == session;
  gli_session *largest;
  gli_budget_leave(session);
  gli_budget_count(session);
  /* A session beyond the budget may not stay parked. */
  if (beyond && budget->held > GLI_TCP_BUDGET) {
    budget_refuse(session);
    return;
  }
  while (budget->kept > GLI_TCP_BUDGET_KEPT &&
         (largest = budget_largest_parked(session->service)) != NULL)
    budget_refuse(largest);
}

bool gli_budget_keeps_will(const gli_session *session, size_t bytes) {
  const gli_tcp_budget *budget = &session->service->budget;
  return bytes <= GLI_TCP_BUDGET_SMALL ||
         (budget->kept <= GLI_TCP_BUDGET_KEPT &&
          bytes <= GLI_TCP_BUDGET_KEPT - budget->kept);
}
