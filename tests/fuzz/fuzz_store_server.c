/* The server of a TCP store whose clients send anything. The first byte selects
 * whether there is a secret, whether the clients' greetings are right, and
 * whether a further client is refused. The steps of two clients follow, each
 * with a byte that selects the client and the kind: valid or nearly valid
 * requests; requests with any operation and bytes, a correct header, and a
 * correct tag if frames have tags; raw bytes; the end of a connection; the
 * expiry of all timers. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

#include "fuzz.h"
#include "rendezvous/store/tcp/tcp_session.h"
#include "security/trust.h"

enum { CLIENTS = 2, STEPS_MAX = 100, POLLS = 4 };
enum { HAS_SECRET = 1, GREET = 2, REFUSED = 4, OWN_USER = 8 };

typedef struct scene {
  gli_tcp_service service;
  gli_key key;
  int client[CLIENTS]; /* -1: closed */
  gli_tcp_seal *seal[CLIENTS];
} scene;

static void scene_turn(scene *s) {
  char said[4096];
  for (int i = 0; i < POLLS; i++) {
    gli_events_poll(s->service.events);
    do gli_sessions_sweep(&s->service);
    while (gli_budget_go_on(&s->service));
    for (int c = 0; c < CLIENTS; c++)
      while (s->client[c] >= 0 &&
             recv(s->client[c], said, sizeof said, MSG_DONTWAIT) > 0)
        continue;
  }
}

static void scene_say(scene *s, int client, const void *data, size_t bytes) {
  if (bytes > 0)
    (void)send(s->client[client], data, bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void scene_request(scene *s, int client, uint32_t op, const void *body,
                          size_t bytes) {
  gli_frame frame;
  gli_frame_begin(&frame, bytes);
  gli_frame_put_bytes(&frame, body, bytes);
  gli_frame_end(&frame, op);
  gli_tcp_seal_frame(s->seal[client], &frame);
  if (!frame.failed) scene_say(s, client, frame.data, frame.bytes);
  free(frame.data);
}

/* ---- valid requests ------------------------------------------------------ */

static const char *scene_key(fuzz_input *input) {
  static const char *const keys[] = {"k", "n", "alarm", "another key"};
  return keys[fuzz_take_u8(input) % 4];
}

static void put_fetch(gli_frame *frame, fuzz_input *input) {
  uint8_t how = fuzz_take_u8(input);
  uint32_t n = 1 + how % 3;
  gli_frame_put_u64(frame, how >= 128 ? UINT64_MAX : how >> 4);
  gli_frame_put_u32(frame, how >> 2 & 1);
  gli_frame_put_key(frame, (how & 8) != 0 ? "alarm" : "");
  gli_frame_put_u32(frame, n);
  for (uint32_t i = 0; i < n; i++) gli_frame_put_key(frame, scene_key(input));
}

static void put_will(gli_frame *frame, fuzz_input *input) {
  uint8_t how = fuzz_take_u8(input);
  uint32_t n = how % 4;
  gli_frame_put_u32(frame, n);
  gli_frame_put_u32(frame, n > 0 ? how / 4 % (n + 1) : 0);
  for (uint32_t i = 0; i < n; i++) {
    gli_frame_put_key(frame, scene_key(input));
    gli_frame_put_blob(frame, "gone", 4);
  }
}

static void put_body(gli_frame *frame, uint32_t op, fuzz_input *input) {
  fuzz_input piece;
  if (op == GLI_TCP_FETCH) {
    put_fetch(frame, input);
    return;
  }
  if (op == GLI_TCP_WILL) {
    put_will(frame, input);
    return;
  }
  gli_frame_put_key(frame, scene_key(input));
  if (op == GLI_TCP_REMOVE) return;
  if (op == GLI_TCP_ADD) {
    gli_frame_put_u64(frame, fuzz_take_u8(input));
    return;
  }
  piece = fuzz_take_piece(input);
  gli_frame_put_blob(frame, piece.at, piece.left);
  if (op != GLI_TCP_COMPARE) return;
  gli_frame_put_blob(frame, "12", 2);
  gli_frame_put_u32(frame, fuzz_take_u8(input) & 1);
}

/* Sends a valid request, or one with a changed byte if the input selects
 * that. */
static void scene_ask(scene *s, int client, fuzz_input *input) {
  uint8_t what = fuzz_take_u8(input);
  uint32_t op = GLI_TCP_SET + what % (GLI_TCP_WILL - GLI_TCP_SET + 1);
  gli_frame frame;
  gli_frame_begin(&frame, 64);
  put_body(&frame, op, input);
  size_t body = frame.bytes - GLI_TCP_HEAD_BYTES;
  if (what >= 192 && !frame.failed && body > 0) {
    uint8_t at = fuzz_take_u8(input);
    frame.data[GLI_TCP_HEAD_BYTES + at % body] = fuzz_take_u8(input);
  }
  if (!frame.failed)
    scene_request(s, client, op, frame.data + GLI_TCP_HEAD_BYTES, body);
  free(frame.data);
}

/* ---- joining and leaving --------------------------------------------------
 */

/* Sends the greeting. Server and client have both drawn the numbers of
 * fuzz.c. */
static void scene_greet(scene *s, int client) {
  gli_tcp_nonces nonces;
  gloo_error error;
  gli_frame hello;
  bool keyed = s->service.key != NULL;
  memset(&nonces, 0x5a, sizeof nonces);
  gli_frame_begin(&hello, 64);
  gli_frame_put_u64(&hello, GLI_TCP_MAGIC);
  gli_frame_put_u32(&hello, GLI_TCP_VERSION);
  gli_frame_put_u32(&hello, keyed ? GLI_TCP_BY_KEY : GLI_TCP_BY_NAME);
  if (keyed) {
    gli_frame_put_bytes(&hello, nonces.client, sizeof nonces.client);
  } else {
    gli_frame_put_u64(&hello, 7);
    gli_frame_put_key(&hello, "job");
  }
  gli_frame_end(&hello, GLI_TCP_HELLO);
  if (!hello.failed) scene_say(s, client, hello.data, hello.bytes);
  free(hello.data);
  scene_turn(s);
  if (!keyed || s->seal[client] != NULL) return;
  if (gli_tcp_seal_create(s->service.key, false, &nonces, &s->seal[client],
                          &error) == GLOO_OK)
    scene_request(s, client, GLI_TCP_PROVE, NULL, 0);
}

static void scene_join(scene *s, int client, uint8_t how, bool again) {
  int fds[2];
  fuzz_check(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0 &&
                 fcntl(fds[0], F_SETFL, O_NONBLOCK) == 0 &&
                 fcntl(fds[1], F_SETFL, O_NONBLOCK) == 0,
             "there are descriptors");
  s->client[client] = fds[0];
  gli_session_accept(&s->service, fds[1], again && (how & REFUSED) != 0);
  if ((how & GREET) != 0) scene_greet(s, client);
}

static void scene_leave(scene *s, int client) {
  close(s->client[client]);
  gli_tcp_seal_destroy(s->seal[client]);
  s->client[client] = -1;
  s->seal[client] = NULL;
}

static void scene_open(scene *s, uint8_t how) {
  static const char secret[] = "a secret of a job";
  gli_trust trust;
  gloo_error error;
  memset(s, 0, sizeof *s);
  s->service.table = gli_table_create(16, 4096);
  s->service.events = gli_events_open(NULL, NULL);
  fuzz_check(s->service.table != NULL && s->service.events != NULL,
             "there are memory and descriptors");
  s->service.job = "job";
  s->service.epoch = 7;
  s->service.own_user = (how & OWN_USER) != 0;
  if ((how & HAS_SECRET) != 0 && gli_openssl_version() != NULL &&
      gli_trust_read(secret, sizeof secret, &trust, &error) == GLOO_OK) {
    if (gli_trust_store_key(&trust, "job", 7, &s->key, &error) == GLOO_OK)
      s->service.key = &s->key;
    gli_trust_release(&trust);
  }
  for (int c = 0; c < CLIENTS; c++) scene_join(s, c, how, false);
}

static void scene_close(scene *s) {
  for (int c = 0; c < CLIENTS; c++) scene_leave(s, c);
  for (gli_session *one = s->service.sessions; one != NULL; one = one->next)
    gli_session_close(one);
  gli_sessions_sweep(&s->service);
  fuzz_check(s->service.n_sessions == 0, "all sessions are closed");
  fuzz_check(s->service.budget.held == 0, "and hold nothing");
  gli_events_close(s->service.events);
  gli_table_destroy(s->service.table);
}

static void scene_step(scene *s, fuzz_input *input, uint8_t how) {
  uint8_t what = fuzz_take_u8(input);
  int client = what % CLIENTS;
  fuzz_input piece;
  switch (what / CLIENTS % 8) {
    default:
      scene_ask(s, client, input);
      break;
    case 3: {
      uint8_t op = fuzz_take_u8(input);
      piece = fuzz_take_piece(input);
      scene_request(s, client, op, piece.at, piece.left);
      break;
    }
    case 4:
      piece = fuzz_take_piece(input);
      scene_say(s, client, piece.at, piece.left);
      break;
    case 5:
      scene_leave(s, client);
      scene_turn(s);
      scene_join(s, client, how, true);
      break;
    case 6:
      gli_sessions_expire(&s->service, UINT64_MAX);
      break;
    case 7:
      scene_greet(s, client);
      break;
  }
  scene_turn(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  static scene s;
  fuzz_input input = {data, bytes};
  uint8_t how = fuzz_take_u8(&input);
  scene_open(&s, how);
  for (int i = 0; i < STEPS_MAX && input.left > 0; i++)
    scene_step(&s, &input, how);
  scene_close(&s);
  return 0;
}
