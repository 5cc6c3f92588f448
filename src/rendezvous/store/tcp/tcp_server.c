#include "rendezvous/store/tcp/tcp_server.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

#include "core/bytes.h"
#include "core/descriptor.h"
#include "core/exhaustion.h"
#include "core/fork.h"
#include "core/log.h"
#include "core/signals.h"
#include "core/text.h"
#include "net/port_holder.h"
#include "net/ports.h"
#include "net/socket.h"
#include "rendezvous/store/tcp/tcp_local.h"
#include "rendezvous/store/tcp/tcp_session.h"

#define KEYS_MAX ((size_t)256 * 1024) /* slightly more than 3 per rank */
#define BYTES_MAX ((uint64_t)1 << 30)
#define BACKLOG 4096

#define ACCEPTS_PER_TURN 64
#define PAUSE_NS UINT64_C(100000000)
#define PATIENCE_NS UINT64_C(1000000000)
/* Time limit for a forked child to run. */
#define CHILD_TRIES 250
#define CHILD_PAUSE_MS 2u

/* A listening socket: TCP, or the local socket, which only processes of this
 * host reach and which identifies their user (tcp_local.h). */
typedef struct server_door {
  gli_watch watch; /* without a descriptor if closed */
  bool local;
  gli_tcp_server *server;
} server_door;

enum { DOORS = 2 };

struct gli_tcp_server {
  server_door doors[DOORS];
  gli_watch wake;
  int wake_write;
  bool stopping;
  bool touched;              /* the next poll registers a change of interest */
  int spare;                 /* reserve descriptor, for refusing a client */
  bool telling;              /* true while a client uses it */
  bool said_lack;            /* true once the log has the lack */
  uint64_t pause_ns;         /* end of a pause in accepting; 0 if none */
  uint64_t lacking_since_ns; /* start of accept failures; 0 if none */
  uv_thread_t thread;
  uv_mutex_t serving; /* held by the thread, except during its sleep */
  uv_cond_t answered; /* signalled for requests of this process */
  gli_fork_guard forks;
  gli_fork_watch doors_watch;
  struct sockaddr_storage address;
  gli_tcp_service service;
  bool own_user;   /* no secret: clients of this host must be of this user */
  bool name_taken; /* another process has the local socket's name */
  gli_tcp_process holder;  /* that process, if the system identifies it */
  gli_tcp_local_path path; /* path of a local socket in a directory */
  gli_key key;
  char job[];
};

static void on_touched(void *user) {
  ((gli_tcp_server *)user)->touched = true;
}

static gloo_status server_no_memory(gloo_error *error) {
  return gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                  "no memory for the server of a TCP store");
}

/* ---- accepting ----------------------------------------------------------- */

static void take_spare(gli_tcp_server *server) {
  if (server->spare >= 0) return;
  server->spare = gli_fd_keep(fcntl(server->wake_write, F_DUPFD_CLOEXEC, 3));
}

static void server_watch_doors(gli_tcp_server *server, int events) {
  for (int i = 0; i < DOORS; i++)
    if (server->doors[i].watch.fd >= 0)
      gli_watch_for(&server->doors[i].watch, events);
}

/* Refuses one client after a lasting lack of descriptors: it uses the reserve
 * descriptor for the time of the reply. */
static void refuse_one(gli_tcp_server *server, int code) {
  server->service.lack = code;
  gli_fd_close(server->spare);
  server->spare = -1;
  for (int i = 0; i < DOORS; i++) {
    const server_door *door = &server->doors[i];
    int fd = door->watch.fd >= 0 ? gli_socket_accept(door->watch.fd) : -1;
    if (fd < 0) continue;
    server->telling = true;
    gli_session_accept(&server->service, fd, true);
    return;
  }
}

/* Pauses accepting. Waiting clients stay in the accept queue. */
static void server_accept_failed(gli_tcp_server *server, int code) {
  uint64_t now = uv_hrtime();
  server_watch_doors(server, 0);
  server->pause_ns = now + PAUSE_NS;
  if (server->lacking_since_ns == 0) {
    server->lacking_since_ns = now;
    gli_log(server->said_lack ? GLOO_LOG_DEBUG : GLOO_LOG_WARN,
            "the TCP store at %s cannot accept connections: %s",
            server->service.address,
            server->service.full ? "its clients use half of its limit on open "
                                   "files; raise that limit (ulimit -n)"
                                 : gli_exhaustion_text(code));
    server->said_lack = true;
  }
  if (now - server->lacking_since_ns < PATIENCE_NS) return;
  if (gli_is_exhaustion(code) && server->spare >= 0) refuse_one(server, code);
}

/* Returns true if a connection is pending. Without a free descriptor accept()
 * fails in any case. */
static bool server_is_called(const server_door *door) {
  return gli_tcp_socket_wait(door->watch.fd, GLI_READABLE, 0) == 0;
}

/* Accepts connections. A silent connection makes room for a new one. */
static void on_connection(void *owner, int events) {
  const server_door *door = owner;
  gli_tcp_server *server = door->server;
  gli_tcp_service *service = &server->service;
  size_t max = gli_tcp_sessions_max();
  if ((events & GLI_UNWATCHED) != 0) {
    server_accept_failed(server, door->watch.code);
    return;
  }
  for (int i = 0; i < ACCEPTS_PER_TURN; i++) {
    service->full = service->n_sessions >= max;
    int fd = service->full ? -1 : gli_socket_accept(door->watch.fd);
    int code = service->full ? EMFILE : errno;
    if (fd >= 0) {
      server->lacking_since_ns = 0;
      service->lack = 0;
      gli_session_accept(service, fd, false);
      continue;
    }
    if (gli_would_block(code)) return;
    if (code == ECONNABORTED || code == EINTR) continue;
    if (gli_is_exhaustion(code)) {
      if (!server_is_called(door)) return;
      if (gli_strangers_give_way(service)) continue;
    }
    server_accept_failed(server, code);
    return;
  }
}

/* Opens the reserve descriptor again after it was used to refuse a client, so
 * that the next client gets an answer too. */
static void end_pause(gli_tcp_server *server, uint64_t now_ns) {
  bool told = server->telling && server->service.n_refused == 0;
  if (server->pause_ns == 0 || (now_ns < server->pause_ns && !told)) return;
  server->telling = server->telling && !told;
  if (server->service.n_refused == 0) take_spare(server);
  server->pause_ns = 0;
  server_watch_doors(server, GLI_READABLE);
}

/* ---- the thread ---------------------------------------------------------- */

static void on_wake(void *owner, int events) {
  gli_tcp_server *server = owner;
  char bytes[64];
  (void)events;
  while (read(server->wake.fd, bytes, sizeof bytes) > 0) continue;
}

/* Sleeps until there is work. `serving` is held, except during the sleep
 * itself. */
static void sleep_until_ready(gli_tcp_server *server) {
  gli_sleep sleep = {.fds = 0};
  bool at_once = server->touched || server->service.hides;
  gli_sleep_add(&sleep, gli_events_fd(server->service.events),
                server->service.due_ns);
  gli_sleep_add(&sleep, -1, server->pause_ns);
  uv_mutex_unlock(&server->serving);
  if (!at_once) gli_sleep_wait(&sleep, uv_hrtime(), -1);
  uv_mutex_lock(&server->serving);
}

static void server_serve(void *argument) {
  gli_tcp_server *server = argument;
  uv_mutex_lock(&server->serving);
  while (!server->stopping) {
    sleep_until_ready(server);
    server->touched = false;
    gli_events_poll(server->service.events);
    gli_sessions_read_tls_pending(&server->service);
    uint64_t now = uv_hrtime();
    gli_sessions_expire(&server->service, now);
    do gli_sessions_sweep(&server->service);
    while (gli_budget_go_on(&server->service));
    end_pause(server, now);
  }
  uv_mutex_unlock(&server->serving);
}

/* ---- requests of this process -------------------------------------------- */

static void await_reply(gli_tcp_server *server, gli_session *session) {
  const uint64_t longest = 3600 * UINT64_C(1000000000);
  while (session->state == GLI_SESSION_PARKED) {
    uint64_t now = uv_hrtime(), left = longest;
    if (session->due_ns != 0 && session->due_ns <= now) {
      gli_session_expire(session);
      return;
    }
    if (session->due_ns != 0 && session->due_ns - now < left)
      left = session->due_ns - now;
    uv_cond_timedwait(&server->answered, &server->serving, left);
  }
}

gloo_status gli_tcp_server_call(gli_tcp_server *server, gli_frame *request,
                                gli_tcp_op op, gli_tcp_reply *reply,
                                gloo_error *error) {
  gli_signal_guard signals;
  gli_session *session =
      gli_session_own(&server->service, request, op, &server->answered);
  if (session == NULL) return server_no_memory(error);
  gli_signal_guard_enter(&signals); /* other clients get replies as well */
  uv_mutex_lock(&server->serving);
  gli_session_serve(session);
  await_reply(server, session);
  (void)gli_budget_go_on(&server->service); /* may have woken others */
  if (server->touched) gli_pipe_signal(server->wake_write);
  uv_mutex_unlock(&server->serving);
  gli_signal_guard_leave(&signals);
  bool answered = session->state == GLI_SESSION_READY;
  if (answered) {
    *reply =
        (gli_tcp_reply){.status = -(gloo_status)gli_get_u32(session->out + 4),
                        .data = session->out,
                        .body = {session->out + GLI_TCP_HEAD_BYTES,
                                 session->out_bytes - GLI_TCP_HEAD_BYTES}};
    session->out = NULL;
  }
  gli_session_own_free(session);
  return answered ? GLOO_OK : server_no_memory(error);
}

/* ---- creation ------------------------------------------------------------ */

/* Accepts IPv4 too on the IPv6 wildcard address; the default differs between
 * systems. */
static void server_take_both(int fd, const struct sockaddr_storage *address) {
  const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)address;
  int no = 0;
  if (address->ss_family == AF_INET6 && IN6_IS_ADDR_UNSPECIFIED(&v6->sin6_addr))
    (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
}

/* Takes over fd, which listens. Returns 0 or errno. */
static int door_open(server_door *door, int fd) {
  if (gli_watch_init(&door->watch, door->server->service.events, fd,
                     on_connection, door)) {
    gli_watch_for(&door->watch, GLI_READABLE);
    return 0;
  }
  gli_fd_close(fd);
  return errno;
}

/* Listens at the local socket, with retries: a child that was just forked may
 * not have closed its copy of the previous one yet. */
static int local_listen_patiently(gli_tcp_server *server) {
  const struct sockaddr_storage *address = &server->address;
  int fd = gli_tcp_local_listen(address);
  for (int i = 0; i < CHILD_TRIES && fd < 0 && errno == EADDRINUSE; i++) {
    server->holder = (gli_tcp_process){.local = false};
    if (!gli_tcp_local_holder(address, &server->service.user,
                              &server->holder) ||
        !server->holder.own) {
      errno = EADDRINUSE;
      return -1;
    }
    uv_sleep(CHILD_PAUSE_MS);
    fd = gli_tcp_local_listen(address);
  }
  return fd;
}

/* Opens the local socket for processes of this host. A server without a secret
 * admits them through it alone, so it must have one; a server with a secret
 * uses it to answer clients that lack the secret. `privately` puts the socket
 * into a directory if another user has the name. A system without such sockets
 * uses TCP. Returns 0 or errno. */
static int server_listen_locally(gli_tcp_server *server, bool privately) {
  gli_tcp_service *service = &server->service;
  int fd = server->own_user ? local_listen_patiently(server)
                            : gli_tcp_local_listen(&server->address);
  server->name_taken = fd < 0 && errno == EADDRINUSE && !server->holder.own;
  if (server->own_user && server->name_taken && privately)
    fd = gli_tcp_local_listen_privately(&server->address, &server->path);
  if (fd < 0) return errno == EAFNOSUPPORT || !server->own_user ? 0 : errno;
  int code = door_open(&server->doors[1], fd);
  service->own_user = code == 0 && server->own_user;
  service->from_elsewhere = !gli_tcp_address_is_loopback(&server->address);
  return code;
}

/* Binds and listens at one address. Returns 0 or errno. */
static int server_listen_at(gli_tcp_server *server,
                            const struct sockaddr_storage *address,
                            bool privately) {
  socklen_t bytes = sizeof server->address;
  int yes = 1;
  int fd = gli_socket_open(address->ss_family, SOCK_STREAM);
  if (fd < 0) return errno;
  (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  server_take_both(fd, address);
  bool listens =
      bind(fd, (const struct sockaddr *)address,
           gli_endpoint_bytes((const gli_endpoint *)address)) == 0 &&
      listen(fd, BACKLOG) == 0 &&
      getsockname(fd, (struct sockaddr *)&server->address, &bytes) == 0;
  int code = listens ? server_listen_locally(server, privately) : errno;
  if (code == 0) return door_open(&server->doors[0], fd);
  close(fd);
  return code;
}

/* Returns true if another socket listens at that address. */
static bool is_taken(const struct sockaddr_storage *address) {
  int yes = 1;
  int fd = gli_socket_open(address->ss_family, SOCK_STREAM);
  if (fd < 0) return false;
  bool taken =
      setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) == 0 &&
      bind(fd, (const struct sockaddr *)address,
           gli_endpoint_bytes((const gli_endpoint *)address)) != 0 &&
      errno == EADDRINUSE;
  close(fd);
  return taken;
}

/* Writes the remedy that ends the message. */
static void server_advise(const gli_tcp_server *server,
                          const struct sockaddr_storage *address, int code,
                          char advice[192]) {
  gli_endpoint at;
  uint32_t user;
  const size_t room = 192;
  memcpy(&at, address, sizeof at);
  advice[0] = '\0';
  if (code == EADDRNOTAVAIL)
    (void)snprintf(
        advice, room,
        "it is not an address of this machine. Run the rank that serves the "
        "store (rank 0) on that host, or, behind NAT, set GLOO_BIND_ADDR to a "
        "local address");
  else if (code == EADDRINUSE && gli_port_holder(&at, &user) &&
           !gli_user_is_own(&server->service.user, user))
    (void)snprintf(advice, room,
                   "a process of another user, user %lu, uses the port: use "
                   "another port",
                   (unsigned long)user);
  else if (code == EADDRINUSE)
    (void)snprintf(
        advice, room,
        "the port is in use, perhaps by an earlier run. Stop that, or "
        "set MASTER_PORT to another one");
  else
    (void)snprintf(advice, room, "%s",
                   uv_strerror(uv_translate_sys_error(code)));
}

/* Fills the error for a free port whose local socket has neither a name nor a
 * directory (`code`). */
static gloo_status server_has_no_door(const gli_tcp_server *server,
                                      const struct sockaddr_storage *address,
                                      int code, gloo_error *error) {
  char whose[GLI_TCP_WHOSE_BYTES] = "another process";
  if (server->holder.local) gli_tcp_local_whose(&server->holder, whose);
  return gli_fail(
      error, GLOO_ERR_ADDRESS, -1,
      "the TCP store cannot listen on %s for this user only: %s uses the name "
      "of its local socket, and no private directory is available instead: %s; "
      "set GLOO_JOB_SECRET on all ranks, set XDG_RUNTIME_DIR to a private "
      "directory, or use another port",
      gli_tcp_address_name(address).text, whose,
      uv_strerror(uv_translate_sys_error(code)));
}

static gloo_status server_cannot_listen(const gli_tcp_server *server,
                                        const struct sockaddr_storage *address,
                                        const char *host, int code,
                                        gloo_error *error) {
  char advice[192];
  if (server->name_taken)
    return server_has_no_door(server, &server->address, code, error);
  server_advise(server, address, code, advice);
  gli_tcp_name name = gli_tcp_address_name(address);
  bool numeric = strncmp(name.text, host, strlen(host)) == 0;
  return gli_fail(error, GLOO_ERR_ADDRESS, -1,
                  "the TCP store cannot listen on %s%s%s%s: %s", name.text,
                  numeric ? "" : " (", numeric ? "" : gli_quote(host).text,
                  numeric ? "" : ")", advice);
}

/* Listens at the first address that can be used. Fails if another program has
 * the port at any of them, since some clients would reach that program instead.
 * Returns 0, or errno and the address at fault. */
static int listen_at_port(gli_tcp_server *server, gli_tcp_addresses *addresses,
                          uint16_t port, bool privately,
                          struct sockaddr_storage *about) {
  int code = EADDRNOTAVAIL;
  server->name_taken = false;
  for (size_t i = 0; i < addresses->n; i++)
    gli_tcp_address_set_port(&addresses->list[i], port);
  for (size_t i = 0; i < addresses->n; i++) {
    *about = addresses->list[i];
    if (is_taken(about)) return EADDRINUSE;
  }
  for (size_t i = 0; i < addresses->n; i++) {
    *about = addresses->list[i];
    code = server_listen_at(server, about, privately);
    if (code == 0 || code == EADDRINUSE || gli_is_exhaustion(code)) break;
  }
  return code;
}

/* Listens at one of the ports. If any port will do, one whose local socket is
 * free is preferred, within a few attempts. */
static int listen_at_ports(gli_tcp_server *server, gli_tcp_addresses *addresses,
                           const gli_ports *ports,
                           struct sockaddr_storage *about) {
  enum { SOCKETS_TRIED = 16 };
  uint32_t n = gli_ports_count(ports);
  bool any_taken = false;
  int code = EADDRINUSE;
  for (uint32_t i = 0;
       code == EADDRINUSE &&
       (i < n || (ports->first == 0 && any_taken && i < SOCKETS_TRIED));
       i++) {
    code =
        listen_at_port(server, addresses, gli_ports_at(ports, i), false, about);
    any_taken = any_taken || server->name_taken;
  }
  for (uint32_t i = 0; code == EADDRINUSE && any_taken && i < n; i++)
    code =
        listen_at_port(server, addresses, gli_ports_at(ports, i), true, about);
  return code;
}

static gloo_status listen_anywhere(gli_tcp_server *server,
                                   const gloo_store_tcp_options *options,
                                   gloo_error *error) {
  const char *host = options->host;
  gli_tcp_addresses addresses;
  gli_ports ports;
  char range[GLI_PORTS_TEXT_BYTES];
  struct sockaddr_storage about;
  gloo_status status = gli_ports_read(options->port, &ports, error);
  if (status == GLOO_OK)
    status = gli_tcp_listen_at(host, options->timeout_ns, &addresses, error);
  if (status != GLOO_OK) return status;
  int code = listen_at_ports(server, &addresses, &ports, &about);
  if (code == 0) return GLOO_OK;
  if (gli_is_exhaustion(code))
    return gli_fail(error, gli_exhaustion_status(code), -1,
                    "the TCP store cannot listen: %s",
                    gli_exhaustion_text(code));
  if (gli_ports_ranged(&ports, range) && code == EADDRINUSE)
    return gli_fail(error, GLOO_ERR_ADDRESS, -1,
                    "the TCP store cannot listen on %s: all ports of "
                    "GLOO_PORT_RANGE (%s) are in use",
                    gli_quote(host).text, range);
  return server_cannot_listen(server, &about, host, code, error);
}

static void server_release(gli_tcp_server *server) {
  gli_tcp_service *service = &server->service;
  for (gli_session *s = service->sessions; s != NULL; s = s->next)
    gli_session_close(s);
  gli_sessions_sweep(service);
  gli_tcp_local_unlink(&server->path); /* before the port is free */
  for (int i = 0; i < DOORS; i++) gli_watch_close(&server->doors[i].watch);
  gli_watch_close(&server->wake);
  gli_fd_close(server->wake_write);
  gli_fd_close(server->spare);
  gli_events_close(service->events);
  if (service->table != NULL) gli_table_destroy(service->table);
  gli_wipe(&server->key, sizeof server->key);
  gli_wipe(&service->tls_key, sizeof service->tls_key);
  gli_tls_settings_release(service->tls);
  free(server);
}

/* Creates what the thread needs besides the listener. Returns 0 or errno. */
static int server_open_parts(gli_tcp_server *server) {
  int fds[2];
  gli_tcp_service *service = &server->service;
  service->table = gli_table_create(KEYS_MAX, BYTES_MAX);
  if (service->table == NULL) return ENOMEM;
  service->events = gli_events_open(on_touched, server);
  if (service->events == NULL) return errno;
  if (!gli_pipe_open(fds)) return errno;
  server->wake_write = fds[1];
  if (!gli_watch_init(&server->wake, service->events, fds[0], on_wake,
                      server)) {
    int code = errno;
    close(fds[0]);
    return code;
  }
  take_spare(server);
  /* Without this watch the thread could not be stopped. */
  return gli_watch_now(&server->wake, GLI_READABLE) ? 0 : errno;
}

/* ---- forks --------------------------------------------------------------- */

/* Closes local sockets in a forked child. Their name is free when the last copy
 * is closed, and a copy in the child would keep the parent from reusing it. */
static bool doors_hold(void *object, gli_fork_patience *patience) {
  (void)object;
  (void)patience;
  return true;
}

static void doors_release(void *object) {
  (void)object;
}

static void doors_child(void *object, bool held) {
  gli_tcp_server *server = object;
  (void)held;
  for (int i = 0; i < DOORS; i++) {
    if (!server->doors[i].local) continue;
    gli_fd_close(server->doors[i].watch.fd);
    server->doors[i].watch.fd = -1;
  }
}

static bool forks_begin(gli_tcp_server *server) {
  static const gli_fork_care care = {doors_hold, doors_release, doors_child};
  if (!gli_fork_guard_begin(&server->forks, GLI_FORK_OBJECTS, &server->serving,
                            &server->answered))
    return false;
  if (gli_fork_watch_begin(&server->doors_watch, GLI_FORK_OBJECTS, &care,
                           server))
    return true;
  gli_fork_guard_end(&server->forks);
  return false;
}

static void forks_end(gli_tcp_server *server) {
  gli_fork_watch_end(&server->doors_watch);
  gli_fork_guard_end(&server->forks);
}

static void destroy_locks(gli_tcp_server *server) {
  uv_cond_destroy(&server->answered);
  uv_mutex_destroy(&server->serving);
}

static void server_end(gli_tcp_server *server) {
  forks_end(server);
  destroy_locks(server);
  server_release(server);
}

void gli_tcp_server_abandon(gli_tcp_server *server) {
  server->path.text[0] = '\0'; /* the parent's file stays */
  if (server->forks.torn) {
    forks_end(server);
    return;
  }
  gli_events_abandon(server->service.events);
  server_end(server);
}

/* ---- starting and ending ------------------------------------------------- */

static gloo_status start_thread(gli_tcp_server *server, gloo_error *error) {
  if (uv_mutex_init(&server->serving) != 0) return server_no_memory(error);
  if (uv_cond_init(&server->answered) != 0) {
    uv_mutex_destroy(&server->serving);
    return server_no_memory(error);
  }
  if (!forks_begin(server)) {
    destroy_locks(server);
    return server_no_memory(error);
  }
  gli_signal_guard signals;
  gli_signal_block_all(&signals);
  int rc = uv_thread_create(&server->thread, server_serve, server);
  gli_signal_restore(&signals);
  if (rc == 0) return GLOO_OK;
  forks_end(server);
  destroy_locks(server);
  return gli_fail(error, GLOO_ERR_IO, -1,
                  "cannot start the thread of the TCP store: %s; raise the "
                  "limit on processes (ulimit -u) or that of the control group",
                  uv_strerror(rc));
}

static gloo_status server_trust(gli_tcp_server *server, const gli_trust *trust,
                                gli_tls_settings *tls, gloo_error *error) {
  gli_tcp_service *service = &server->service;
  service->tls = gli_tls_settings_hold(tls);
  if (trust == NULL) return GLOO_OK;
  server->own_user = !trust->asks && !trust->silent && tls == NULL;
  if (!trust->asks) return GLOO_OK;
  service->key = &server->key;
  gloo_status status = gli_trust_store_key(trust, service->job, service->epoch,
                                           &server->key, error);
  if (status == GLOO_OK && tls != NULL)
    status = gli_proofs_tls_key(&server->key, "store", NULL, 0,
                                &service->tls_key, error);
  return status;
}

gloo_status gli_tcp_server_create(const gloo_store_tcp_options *options,
                                  const gli_trust *trust, gli_tls_settings *tls,
                                  gli_tcp_server **result, gloo_error *error) {
  size_t job_bytes = strlen(options->job);
  gli_tcp_server *server = calloc(1, sizeof *server + job_bytes + 1);
  if (server == NULL) return server_no_memory(error);
  memcpy(server->job, options->job, job_bytes + 1);
  server->service.job = server->job;
  server->service.epoch = options->epoch;
  server->service.user = gli_user_here();
  for (int i = 0; i < DOORS; i++)
    server->doors[i] = (server_door){{.fd = -1}, i == 1, server};
  server->wake.fd = server->wake_write = server->spare = -1;
  gloo_status status = server_trust(server, trust, tls, error);
  int code = status == GLOO_OK ? server_open_parts(server) : 0;
  if (code != 0)
    status = gli_fail(error, gli_exhaustion_status(code), -1,
                      "cannot start the server of a TCP store: %s",
                      gli_exhaustion_text(code));
  if (status == GLOO_OK) status = listen_anywhere(server, options, error);
  if (status == GLOO_OK) {
    memcpy(server->service.address, gli_tcp_address_name(&server->address).text,
           sizeof server->service.address);
    status = start_thread(server, error);
  }
  if (status != GLOO_OK) {
    server_release(server);
    return status;
  }
  gli_log(GLOO_LOG_INFO, "the TCP store listens on %s",
          server->service.address);
  *result = server;
  return GLOO_OK;
}

const struct sockaddr_storage *gli_tcp_server_address(
    const gli_tcp_server *server) {
  return &server->address;
}

gli_tcp_served gli_tcp_server_served(gli_tcp_server *server) {
  uv_mutex_lock(&server->serving);
  gli_tcp_served served = server->service.served;
  uv_mutex_unlock(&server->serving);
  return served;
}

gli_tcp_budget gli_tcp_server_budget(gli_tcp_server *server) {
  uv_mutex_lock(&server->serving);
  gli_tcp_budget budget = server->service.budget;
  uv_mutex_unlock(&server->serving);
  return budget;
}

void gli_tcp_server_destroy(gli_tcp_server *server) {
  uv_mutex_lock(&server->serving);
  server->stopping = true;
  uv_mutex_unlock(&server->serving);
  gli_pipe_signal(server->wake_write);
  uv_thread_join(&server->thread);
  (void)gli_strangers_tell_rest(&server->service, UINT64_MAX);
  server_end(server);
}
