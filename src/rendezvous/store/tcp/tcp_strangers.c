#include "rendezvous/store/tcp/tcp_strangers.h"

#include <inttypes.h>
#include <sys/resource.h>
#include <uv.h>

#include "core/descriptor.h"
#include "core/log.h"
#include "rendezvous/store/tcp/tcp_session.h"

#define SESSIONS_MAX ((size_t)65536)
#define LINES_NS UINT64_C(60000000000)

/* ---- limits -------------------------------------------------------------- */

size_t gli_tcp_sessions_max(void) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 ||
      (uint64_t)limit.rlim_cur / 2 >= SESSIONS_MAX)
    return SESSIONS_MAX;
  return (size_t)limit.rlim_cur / 2;
}

static bool strangers_take_the_last(const gli_tcp_queue *queue) {
  int highest = 0;
  if (queue->n <= GLI_STRANGERS_FEW) return false;
  for (const gli_tcp_place *p = queue->first; p != NULL; p = p->next)
    if (p->session->conn.watch.fd > highest)
      highest = p->session->conn.watch.fd;
  return gli_fd_is_scarce(highest);
}

void gli_strangers_join(gli_session *session) {
  gli_tcp_queue *queue = &session->service->strangers;
  gli_tcp_queue_append(queue, &session->stranger, session);
  if (queue->n > GLI_TCP_STRANGERS_MAX || strangers_take_the_last(queue))
    (void)gli_strangers_give_way(session->service);
}

void gli_strangers_leave(gli_session *session) {
  gli_tcp_queue_remove(&session->service->strangers, &session->stranger);
}

bool gli_strangers_give_way(gli_tcp_service *service) {
  gli_session *oldest = gli_tcp_queue_first(&service->strangers);
  if (oldest == NULL) return false;
  service->served.gave_way++;
  gli_session_drop(oldest, "it sent no hello, and other clients are waiting");
  return true;
}

/* ---- lines in the log ---------------------------------------------------- */

gloo_log_level gli_strangers_level(gli_tcp_service *service) {
  gli_tcp_lines *lines = &service->lines;
  uint64_t now_ns = uv_hrtime();
  if (now_ns >= lines->until_ns) {
    (void)gli_strangers_tell_rest(service, now_ns);
    lines->until_ns = now_ns + LINES_NS;
    lines->n = 0;
  }
  if (lines->n < GLI_TCP_LINES_MAX) {
    lines->n++;
    return GLOO_LOG_WARN;
  }
  lines->left_out++;
  gli_sessions_note_due(service, lines->until_ns);
  return GLOO_LOG_DEBUG;
}

uint64_t gli_strangers_tell_rest(gli_tcp_service *service, uint64_t now_ns) {
  gli_tcp_lines *lines = &service->lines;
  if (lines->left_out == 0) return 0;
  if (now_ns < lines->until_ns) return lines->until_ns;
  gli_log(GLOO_LOG_WARN,
          "the TCP store at %s dropped or rejected %" PRIu64
          " more clients; log level debug lists them",
          service->address, lines->left_out);
  lines->left_out = 0;
  return 0;
}
