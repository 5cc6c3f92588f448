#include "rendezvous/tcp_strangers.h"

#include <sys/resource.h>

#include "rendezvous/tcp_session.h"

#define SESSIONS_MAX ((size_t)65536)

size_t gli_tcp_sessions_max(void) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 ||
      limit.rlim_cur / 2 >= SESSIONS_MAX)
    return SESSIONS_MAX;
  return (size_t)limit.rlim_cur / 2;
}

void gli_strangers_join(gli_session *session) {
  gli_tcp_queue *queue = &session->service->strangers;
  gli_tcp_queue_append(queue, &session->stranger, session);
  if (queue->n > GLI_TCP_STRANGERS_MAX)
    (void)gli_strangers_give_way(session->service);
}

void gli_strangers_leave(gli_session *session) {
  gli_tcp_queue_remove(&session->service->strangers, &session->stranger);
}

bool gli_strangers_give_way(gli_tcp_service *service) {
  gli_session *oldest = gli_tcp_queue_first(&service->strangers);
  if (oldest == NULL) return false;
  service->served.gave_way++;
  gli_session_drop(oldest, "it has not said hello, and others want its place");
  return true;
}
