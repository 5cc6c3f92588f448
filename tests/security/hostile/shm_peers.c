/* Strangers of this user and of others, and misbehaving members, at the
 * abstract sockets that ranks of a host use to set up shared memory. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

#include "hostile.h"
#include "memory/sealed.h"
#include "security/trust.h"
#include "transport_shm/note.h"
#include "transport_shm/shm.h"
#include "transport_shm/shm_ring.h"
#include "transport_shm/unsealed.h"

enum { RING_BYTES = 65536 };

/* ---- notes --------------------------------------------------------------- */

static int open_silent(hostile *h, size_t i) {
  return hostile_connect_shm(h, (int)(i % JOB_RANKS));
}

/* Returns the hello of one rank to another in the current context, without a
 * tag and without memory. */
static gli_shm_note hello_of(const hostile *h, uint32_t from, uint32_t to) {
  return (gli_shm_note){.version = GLI_SHM_VERSION,
                        .say = GLI_SHM_HELLO,
                        .from = from,
                        .to = to,
                        .key = h->job->ranks[to].key,
                        .data_bytes = RING_BYTES,
                        .chunk = 2048,
                        .fds = {-1, -1}};
}

static void sign(hostile *h, const char *secret, gli_shm_say say,
                 gli_shm_note *note) {
  gli_trust trust;
  gli_key key;
  gloo_error error;
  gli_pair_config config = {.self_rank = note->to,
                            .peer_rank = note->from,
                            .local_key = note->key,
                            .remote_key = h->job->ranks[note->from].key};
  gli_shm_note other = *note;
  other.say = say;
  hostile_demand(
      h,
      gli_trust_read(secret, strlen(secret), &trust, &error) == GLOO_OK &&
          (config.job_key = trust.key.bytes) != NULL &&
          gli_peer_key(&config, &key, &error) == GLOO_OK &&
          gli_shm_note_sign(&key, &other, &error) == GLOO_OK,
      "no tag");
  memcpy(note->tag, other.tag, sizeof note->tag);
  note->asks = 1;
}

/* Receives the next note; returns false if the peer has closed. */
static bool next_note(hostile *h, int fd, gli_shm_note *note) {
  struct pollfd ready = {fd, POLLIN, 0};
  hostile_demand(h, poll(&ready, 1, 20000) == 1, "there is no answer");
  return gli_shm_note_receive(fd, note) == GLI_SHM_GOT_NOTE;
}

/* Returns the reply of rank 1, or 0 if it closed. */
static uint32_t answer_to(hostile *h, const gli_shm_note *hello) {
  gli_shm_note note;
  int fd = hostile_connect_shm(h, 1);
  hostile_demand(h, gli_shm_note_send(fd, hello) == 0, "it cannot say hello");
  uint32_t say = next_note(h, fd, &note) ? note.say : 0;
  gli_shm_note_close(&note);
  close(fd);
  return say;
}

/* ---- silent clients and other protocols ---------------------------------- */

static void are_silent(hostile *h) {
  hostile_crowd(h, h->peer->number, open_silent);
}

static void come_and_go(hostile *h) {
  hostile_churn(h, open_silent);
}

/* A process of another user is refused whatever it sends, and outside of Linux
 * does not reach the socket's directory. */
static void is_another_user(hostile *h) {
  while (hostile_goes_on(h)) {
    int fd = hostile_connect_shm(h, 1);
    gli_shm_note hello = hello_of(h, 3, 1), note;
    sign(h, HOSTILE_SECRET, GLI_SHM_HELLO, &hello);
    if (!GLI_LINUX && fd < 0) continue;
    (void)gli_shm_note_send(fd, &hello);
    hostile_demand(h, !next_note(h, fd, &note) || note.say == GLI_SHM_DECLINED,
                   "another user was let in");
    hostile_demand(h, hostile_is_closed(fd), "it was not hung up on");
  }
}

/* Sends packets of all lengths up to 64 KiB. */
static void says_garbage(hostile *h) {
  static uint8_t garbage[65536];
  hostile_garbage(garbage, sizeof garbage);
  for (size_t n = 1; hostile_goes_on(h); n = n * 3 % sizeof garbage) {
    int fd = open_silent(h, n);
    hostile_send(fd, garbage, h->peer->number > 0 ? h->peer->number : n);
    hostile_demand(h, hostile_is_closed(fd), "it was not hung up on");
  }
}

/* Sends descriptors with an invalid packet. */
static void gives_descriptors(hostile *h) {
  enum { N = 200 };
  union {
    char bytes[CMSG_SPACE(N * sizeof(int))];
    struct cmsghdr align;
  } room;
  int fds[N];
  for (int i = 0; i < N; i++) fds[i] = STDOUT_FILENO;
  while (hostile_goes_on(h)) {
    int fd = open_silent(h, 1);
    char byte = 'x';
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = room.bytes,
                             .msg_controllen = sizeof room.bytes};
    memset(&room, 0, sizeof room);
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof fds);
    memcpy(CMSG_DATA(head), fds, sizeof fds);
    (void)sendmsg(fd, &message, MSG_NOSIGNAL);
    hostile_demand(h, hostile_is_closed(fd), "it was not hung up on");
  }
}

/* ---- wrong hellos -------------------------------------------------------- */

typedef enum wrong {
  WRONG_VERSION,
  WRONG_KEY,
  WRONG_ROUND,
  WRONG_FROM,
  WRONG_TO,
  WRONG_SAY,
  NO_TAG,
  OTHER_SECRET,
  OTHER_SAY,
  OTHER_WAY
} wrong;

static void says_a_wrong_hello(hostile *h) {
  static const uint32_t answers[] = {[WRONG_VERSION] = GLI_SHM_OTHER_VERSION,
                                     [WRONG_KEY] = GLI_SHM_UNKNOWN,
                                     [WRONG_ROUND] = GLI_SHM_UNKNOWN,
                                     [WRONG_FROM] = GLI_SHM_UNKNOWN,
                                     [WRONG_TO] = GLI_SHM_UNKNOWN,
                                     [WRONG_SAY] = 0,
                                     [NO_TAG] = GLI_SHM_DENIED,
                                     [OTHER_SECRET] = GLI_SHM_DENIED,
                                     [OTHER_SAY] = GLI_SHM_DENIED,
                                     [OTHER_WAY] = GLI_SHM_DENIED};
  const wrong what = (wrong)h->peer->number;
  hostile_await_held(h);
  for (int i = 0; i < 50; i++) {
    gli_shm_note hello = hello_of(h, 3, 1), back = hello_of(h, 1, 3);
    if (what != NO_TAG)
      sign(h, what == OTHER_SECRET ? HOSTILE_OTHER : HOSTILE_SECRET,
           what == OTHER_SAY ? GLI_SHM_ACCEPTED : GLI_SHM_HELLO, &hello);
    if (what == WRONG_VERSION) hello.version--;
    if (what == WRONG_KEY) hello.key ^= 1;
    if (what == WRONG_ROUND) hello.key = h->job->ranks[1].first_key;
    if (what == WRONG_FROM) hello.from = 9;
    if (what == WRONG_TO) hello.to = 2;
    if (what == WRONG_SAY) hello.say = GLI_SHM_CONFIRMED;
    if (what == OTHER_WAY) {
      sign(h, HOSTILE_SECRET, GLI_SHM_HELLO, &back);
      memcpy(hello.tag, back.tag, sizeof hello.tag);
    }
    hostile_demand(h, answer_to(h, &hello) == answers[what],
                   "it was not refused");
  }
  hostile_release(h);
}

/* ---- members ------------------------------------------------------------- */

static int memory_of(size_t bytes) {
  const gli_sealed_want want = {
      .bytes = bytes, .reserved = bytes, .most_percent = 100};
  const char *what;
  void *memory;
  int fd;
  if (gli_sealed_make(&want, &fd, &memory, &what) != 0) abort();
  gli_sealed_unmap(memory, bytes);
  return fd;
}

typedef enum offered { BROKEN_SOCKET, FULL_PIPE, UNSEALED, SHORT } offered;

/* Creates a descriptor to send in place of memory of this size. A file has a
 * name until the caller removes it. */
static int make_offered(offered what, size_t bytes, char *name) {
  static const char page[512];
  int ends[2];
  switch (what) {
    case BROKEN_SOCKET: /* writing to it raises SIGPIPE */
      if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0 ||
          fcntl(ends[0], F_SETFL, O_NONBLOCK) != 0)
        abort();
      close(ends[1]);
      return ends[0];
    case FULL_PIPE: /* writing to it blocks: the other end stays open */
      if (pipe(ends) != 0 || fcntl(ends[1], F_SETFL, O_NONBLOCK) != 0) abort();
      while (write(ends[1], page, sizeof page) > 0) continue;
      if (fcntl(ends[1], F_SETFL, 0) != 0) abort();
      return ends[1];
    case UNSEALED: /* shrinking it would raise SIGBUS */
      return unsealed_make(bytes, name);
    default:
      return memory_of(1);
  }
}

/* Sends the hello of rank 3 with a valid tag and an invalid descriptor. */
static void offers(hostile *h) {
  hostile_await_held(h);
  const size_t bytes[] = {gli_shm_ring_bytes(RING_BYTES), GLI_SHM_PAGE_BYTES};
  for (int i = 0; i < 2; i++) {
    char name[UNSEALED_NAME] = "";
    gli_shm_note hello = hello_of(h, 3, 1);
    sign(h, HOSTILE_SECRET, GLI_SHM_HELLO, &hello);
    hello.fds[i] = make_offered((offered)h->peer->number, bytes[i], name);
    hello.fds[1 - i] = memory_of(bytes[1 - i]);
    /* At the second attempt the pair may use TCP already. */
    bool accepted = answer_to(h, &hello) == GLI_SHM_ACCEPTED;
    if (name[0] != '\0') (void)unlink(name);
    hostile_demand(h, !accepted, "it was accepted");
    gli_shm_note_close(&hello);
  }
  hostile_release(h);
}

/* Connects as rank 3 to rank 1, before these two connect. */
static int joined(hostile *h) {
  gli_shm_note answer;
  hostile_await_held(h);
  gli_shm_note hello = hello_of(h, 3, 1);
  sign(h, HOSTILE_SECRET, GLI_SHM_HELLO, &hello);
  hello.fds[GLI_SHM_FD_RING] = memory_of(gli_shm_ring_bytes(RING_BYTES));
  hello.fds[GLI_SHM_FD_PAGE] = memory_of(GLI_SHM_PAGE_BYTES);
  int fd = hostile_connect_shm(h, 1);
  hostile_demand(h,
                 gli_shm_note_send(fd, &hello) == 0 &&
                     next_note(h, fd, &answer) &&
                     answer.say == GLI_SHM_ACCEPTED,
                 "it was not accepted");
  const gli_shm_note yes = {.version = GLI_SHM_VERSION,
                            .say = GLI_SHM_CONFIRMED,
                            .from = 3,
                            .to = 1,
                            .fds = {-1, -1}};
  hostile_demand(h, gli_shm_note_send(fd, &yes) == 0, "it was hung up on");
  return fd;
}

static void member_says_garbage(hostile *h) {
  uint8_t garbage[100];
  int fd = joined(h);
  hostile_garbage(garbage, sizeof garbage);
  hostile_send(fd, garbage, sizeof garbage);
  uv_sleep(50);
  hostile_release(h);
  hostile_demand(h, hostile_is_closed(fd), "it was not hung up on");
}

static void member_hangs_up(hostile *h) {
  close(joined(h));
  uv_sleep(50);
  hostile_release(h);
}

/* Announces memory repeatedly that does not exist in that size. */
static void member_gives_regions(hostile *h) {
  int fd = joined(h);
  gli_shm_note region = {.version = GLI_SHM_VERSION,
                         .say = GLI_SHM_REGION,
                         .from = 3,
                         .to = 1,
                         .region_bytes = UINT64_C(1) << 40,
                         .fds = {memory_of(4096), -1}};
  for (uint32_t i = 0; i < 1000; i++) {
    region.region = i * 7919;
    if (gli_shm_note_send(fd, &region) != 0) uv_sleep(1);
  }
  close(fd);
  uv_sleep(50);
  hostile_release(h);
}

/* ---- the list ------------------------------------------------------------ */

#define HELD .flags = HOSTILE_HOLDS | HOSTILE_QUIET
#define NAMES_RANK_3 \
  .flags = HOSTILE_HOLDS, .status = HOSTILE_ANY, .blames = 3, .words = "rank 3"

static const hostile_peer peers[] = {
    PEER("60 silent connections", are_silent, .number = 60),
    PEER("600 silent connections", are_silent, .number = 600),
    PEER("2,000 connections of another user", are_silent, .number = 2000,
         .flags = HOSTILE_NOBODY),
    PEER("connections that come and go", come_and_go),
    PEER("another user", is_another_user,
         .flags = HOSTILE_NOBODY | HOSTILE_QUIET),
    PEER("garbage of all lengths", says_garbage, .flags = HOSTILE_QUIET),
    PEER("packet of 64 KiB", says_garbage, .number = 65000,
         .flags = HOSTILE_QUIET),
    PEER("truncated packet", says_garbage, .number = 7, .flags = HOSTILE_QUIET),
    PEER("200 descriptors with a packet", gives_descriptors),
    PEER("descriptors used up", are_silent, .number = 300, .files = 40),
    PEER("another version", says_a_wrong_hello, .number = WRONG_VERSION, HELD),
    PEER("wrong number", says_a_wrong_hello, .number = WRONG_KEY, HELD),
    PEER("number of the first round", says_a_wrong_hello, .number = WRONG_ROUND,
         HELD),
    PEER("from a rank that is none", says_a_wrong_hello, .number = WRONG_FROM,
         HELD),
    PEER("for another rank", says_a_wrong_hello, .number = WRONG_TO, HELD),
    PEER("what is no hello", says_a_wrong_hello, .number = WRONG_SAY, HELD),
    PEER("without a tag", says_a_wrong_hello, .number = NO_TAG, HELD),
    PEER("another secret", says_a_wrong_hello, .number = OTHER_SECRET, HELD),
    PEER("tag of an answer", says_a_wrong_hello, .number = OTHER_SAY, HELD),
    PEER("reflection", says_a_wrong_hello, .number = OTHER_WAY, HELD),
    PEER("member offers a broken socket", offers, .number = BROKEN_SOCKET,
         .flags = HOSTILE_HOLDS),
    PEER("member offers a full pipe", offers, .number = FULL_PIPE,
         .flags = HOSTILE_HOLDS),
    PEER("member offers what can shrink", offers, .number = UNSEALED,
         .flags = HOSTILE_HOLDS),
    PEER("member offers too little", offers, .number = SHORT,
         .flags = HOSTILE_HOLDS),
    PEER("member says garbage as rank 3", member_says_garbage, NAMES_RANK_3),
    PEER("member hangs up as rank 3", member_hangs_up, NAMES_RANK_3),
    PEER("member gives 1,000 regions as rank 3", member_gives_regions,
         NAMES_RANK_3),
};

const hostile_list hostile_shm_list = {HOSTILE_SHM, peers,
                                       sizeof peers / sizeof *peers};
