/* Processes of other users, and of this one, at the store of a job without a
 * secret: at its port and at its abstract socket. */
#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <uv.h>

#include "core/bytes.h"
#include "hostile.h"
#include "rendezvous/store/tcp/tcp_budget.h"
#include "rendezvous/store/tcp/tcp_protocol.h"

/* ---- messages ------------------------------------------------------------ */

static void say_hello(int fd, const char *name, uint64_t epoch) {
  gli_frame frame;
  gli_frame_begin(&frame, 64);
  gli_frame_put_u64(&frame, GLI_TCP_MAGIC);
  gli_frame_put_u32(&frame, GLI_TCP_VERSION);
  gli_frame_put_u32(&frame, GLI_TCP_BY_NAME);
  gli_frame_put_u64(&frame, epoch);
  gli_frame_put_key(&frame, name);
  gli_frame_end(&frame, GLI_TCP_HELLO);
  hostile_send(fd, frame.data, frame.bytes);
  free(frame.data);
}

static void say_fetch(int fd, const char *key) {
  gli_frame frame;
  gli_frame_begin(&frame, 64);
  gli_frame_put_u64(&frame, 0);
  gli_frame_put_u32(&frame, 1);
  gli_frame_put_key(&frame, "");
  gli_frame_put_u32(&frame, 1);
  gli_frame_put_key(&frame, key);
  gli_frame_end(&frame, GLI_TCP_FETCH);
  hostile_send(fd, frame.data, frame.bytes);
  free(frame.data);
}

static void demand_told(hostile *h, int fd, const char *words) {
  char text[1024];
  hostile_demand(h, hostile_is_closed_saying(fd, text, sizeof text),
                 "it was not hung up on");
  hostile_demand(h, strstr(text + 8, words) != NULL, "it was not told why");
  hostile_demand(h, strstr(text + 8, JOB_NAME) == NULL,
                 "it was told the job's name");
}

/* ---- refused clients ----------------------------------------------------- */

/* A process of another user knows the job's name and epoch, and requests the
 * keys of rank 0. */
static void is_another_user(hostile *h) {
  char key[64];
  snprintf(key, sizeof key, JOB_PREFIX "gloo/rank/0", 0);
  while (hostile_goes_on(h)) {
    int fd = hostile_connect_local(h->port);
    hostile_demand(h, fd >= 0, "there is no socket");
    say_hello(fd, JOB_NAME, JOB_EPOCH);
    say_fetch(fd, key);
    demand_told(h, fd, "processes of its own user");
  }
}

static void comes_over_tcp(hostile *h) {
  while (hostile_goes_on(h)) {
    int fd = hostile_connect_tcp(h->port);
    say_hello(fd, JOB_NAME, JOB_EPOCH);
    demand_told(h, fd, "processes of its own user");
  }
}

/* Opens the store through the library, by default and with
 * GLOO_SECURITY=off. */
static void uses_the_library(hostile *h) {
  for (int i = 0; hostile_goes_on(h); i++) {
    gloo_store *store;
    if (i % 2 == 1) setenv("GLOO_SECURITY", "off", 1);
    gloo_status status =
        job_open_store(&h->job->options, h->port, false, &store, NULL);
    unsetenv("GLOO_SECURITY");
    hostile_demand(h, status == GLOO_ERR_AUTH, "it was let in");
  }
}

static void is_of_another_job(hostile *h) {
  while (hostile_goes_on(h)) {
    int fd = hostile_connect_local(h->port);
    say_hello(fd, h->peer->number ? JOB_NAME : "\033[2J\007\nanother job",
              h->peer->number ? JOB_EPOCH + 1 : JOB_EPOCH);
    demand_told(h, fd, "another job or epoch");
  }
}

/* ---- crowds -------------------------------------------------------------- */

static int open_silent(hostile *h, size_t i) {
  return i % 2 ? hostile_connect_tcp(h->port) : hostile_connect_local(h->port);
}

static void are_silent(hostile *h) {
  hostile_crowd(h, h->peer->number, open_silent);
}

static void come_and_go(hostile *h) {
  hostile_churn(h, open_silent);
}

static void say_garbage(hostile *h) {
  uint8_t garbage[256];
  for (size_t i = 0; hostile_goes_on(h); i++) {
    int fd = open_silent(h, i);
    hostile_garbage(garbage, sizeof garbage);
    hostile_send(fd, garbage, sizeof garbage);
    hostile_demand(h, hostile_is_closed(fd), "it was not hung up on");
  }
}

static void are_slow(hostile *h) {
  enum { N = 100 };
  int fds[N];
  uint8_t hello[GLI_TCP_HEAD_BYTES + 16] = {60, 0, 0, 0, GLI_TCP_HELLO};
  gli_put_u64(hello + GLI_TCP_HEAD_BYTES, GLI_TCP_MAGIC);
  gli_put_u32(hello + GLI_TCP_HEAD_BYTES + 8, GLI_TCP_VERSION);
  for (size_t i = 0; i < N; i++) fds[i] = open_silent(h, i);
  for (size_t at = 0; hostile_goes_on(h); at = (at + 1) % sizeof hello) {
    for (int i = 0; i < N; i++) hostile_send(fds[i], hello + at, 1);
    uv_sleep(5);
  }
}

/* ---- squatters on the port ----------------------------------------------- */

static bool localhost_is_ipv6(void) {
  const struct addrinfo wanted = {.ai_family = AF_INET6};
  struct addrinfo *found;
  if (getaddrinfo("localhost", NULL, &wanted, &found) != 0) return false;
  freeaddrinfo(found);
  return true;
}

/* Squatters listen at the other address of localhost, at the same address or at
 * the abstract name. They report when ready and stay until the job has
 * ended. */
static void has_the_port(hostile *h) {
  struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(h->port)};
  struct sockaddr_in6 v6 = {.sin6_family = AF_INET6,
                            .sin6_port = htons(h->port)};
  socklen_t local_bytes;
  const struct sockaddr_un local = hostile_local_name(h->port, &local_bytes);
  const struct sockaddr *at[] = {(struct sockaddr *)&v4, (struct sockaddr *)&v6,
                                 (struct sockaddr *)&local};
  const socklen_t bytes[] = {sizeof v4, sizeof v6, local_bytes};
  size_t i = h->peer->number;
  v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  v6.sin6_addr = in6addr_loopback;
  int fd = socket(at[i]->sa_family, SOCK_STREAM, 0);
  if (fd < 0 || bind(fd, at[i], bytes[i]) != 0 || listen(fd, 8) != 0)
    hostile_skip(h, "the address cannot be had");
  if (i == 1 && !localhost_is_ipv6())
    hostile_skip(h, "localhost is no address of IPv6 here");
  hostile_begin(h);
  while (!job_ended(h->job) && job_rounds(h->job) < JOB_QUIET) uv_sleep(1);
}

enum { BIG = 8 << 20 };

/* ---- members ------------------------------------------------------------- */

/* Members request replies of 800 MiB with 3 KB of requests, and read none. */
static void members_do_not_read(hostile *h) {
  enum { N = 100 };
  int fds[N], few = 1024;
  uint8_t reply[GLI_TCP_HEAD_BYTES];
  gloo_store *store = NULL;
  char *value = calloc(1, BIG);
  hostile_demand(
      h,
      value != NULL && job_open_store(&h->job->options, h->port, false, &store,
                                      NULL) == GLOO_OK,
      "a member is refused");
  (void)gloo_store_set(store, "big", value, BIG, NULL);
  for (int i = 0; i < N; i++) {
    fds[i] = hostile_connect_local(h->port);
    (void)setsockopt(fds[i], SOL_SOCKET, SO_RCVBUF, &few, sizeof few);
    say_hello(fds[i], JOB_NAME, JOB_EPOCH);
    hostile_demand(h, hostile_read(fds[i], reply, sizeof reply),
                   "a member is hung up on");
    say_fetch(fds[i], "big");
  }
  h->began = job_rounds(h->job);
  while (hostile_goes_on(h)) uv_sleep(1);
  for (int i = 0; i < N; i++) close(fds[i]);
  (void)gloo_store_delete(store, "big", NULL);
  gloo_store_destroy(store);
  free(value);
}

/* ---- the list ------------------------------------------------------------ */

#define NOBODY .flags = HOSTILE_NOBODY
#define BEFORE                                                          \
  .flags = HOSTILE_NOBODY | HOSTILE_BEFORE, .status = GLOO_ERR_ADDRESS, \
  .blames = -1, .words = "another user, user 65534, uses the port"

static const hostile_peer peers[] = {
    PEER("another user at the abstract socket", is_another_user, NOBODY),
    PEER("another user over TCP", comes_over_tcp, NOBODY),
    PEER("this user over TCP", comes_over_tcp),
    PEER("another user with the library", uses_the_library, NOBODY),
    PEER("this user, of another job", is_of_another_job, .number = 0),
    PEER("this user, of another epoch", is_of_another_job, .number = 1),
    PEER("2,000 silent connections of another user", are_silent, .number = 2000,
         NOBODY),
    PEER("2,000 silent connections of this user", are_silent, .number = 2000),
    PEER("connections that come and go", come_and_go, NOBODY),
    PEER("garbage", say_garbage, NOBODY),
    PEER("slowloris", are_slow, NOBODY),
    PEER("descriptors used up", are_silent, .number = 100, .files = 40, NOBODY),
    PEER("another user has the port", has_the_port, .number = 0, BEFORE),
    PEER("another user has localhost's other address", has_the_port,
         .number = 1, BEFORE),
    PEER("another user has the abstract socket", has_the_port, .number = 2,
         .flags = HOSTILE_NOBODY | HOSTILE_BEFORE),
    PEER("members ask for 800 MiB and do not read", members_do_not_read),
};

const hostile_list hostile_local_list = {HOSTILE_LOCAL, peers,
                                         sizeof peers / sizeof *peers};
