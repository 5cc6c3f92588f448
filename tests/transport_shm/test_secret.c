/* Jobs with a secret: without it, a process on either side of a socket opens
 * nothing and receives the reason. Also covers the choice of transport. Linux
 * only. */
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

#include "ends.h"
#include "transport/auto.h"
#include "transport_shm/memory.h"
#include "transport_shm/note.h"
#include "transport_shm/shm.h"
#include "transport_tcp/contact.h"
#include "transport_tcp/handshake.h"

static const uint8_t job_key[GLI_JOB_KEY_BYTES] = "the key of this job";
static const uint8_t other_key[GLI_JOB_KEY_BYTES] = "the key of another job";

typedef struct scene {
  end ends[2];
} scene;

static scene *new_scene(const gli_transport_ops *ops, const uint8_t *key_0,
                        const uint8_t *key_1) {
  scene *s = calloc(1, sizeof *s);
  assert_non_null(s);
  ends_open(s->ends, ops);
  s->ends[0].config.job_key = key_0;
  s->ends[1].config.job_key = key_1;
  return s;
}

static void free_scene(scene *s) {
  ends_close(s->ends);
  free(s);
}

static void connect_end(end *e) {
  gloo_error error;
  if (end_connect(e, &error) != GLOO_OK) fail_msg("%s", error.message);
}

static void assert_denied(const end *e, const char *why) {
  assert_int_equal(e->cause.status, GLOO_ERR_AUTH);
  assert_int_equal(e->cause.rank, e->config.peer_rank);
  if (strstr(e->cause.message, why) == NULL) fail_msg("%s", e->cause.message);
}

/* ---- two ranks ----------------------------------------------------------- */

static void one_secret_connects(void **state) {
  static const gli_transport_ops *const all[] = {&gli_transport_shm,
                                                 &gli_transport_auto};
  (void)state;
  for (int i = 0; i < 4; i++) {
    scene *s = new_scene(all[i / 2], job_key, job_key);
    connect_end(&s->ends[i % 2]);
    end_send(&s->ends[i % 2], "there");
    ends_until(s->ends, &s->ends[!(i % 2)].n_received, 1);
    end_send(&s->ends[!(i % 2)], "and back");
    ends_until(s->ends, &s->ends[i % 2].n_received, 1);
    assert_int_equal(s->ends[0].n_failed + s->ends[1].n_failed, 0);
    free_scene(s);
  }
}

static void ranks_that_begin_at_once_prove_themselves(void **state) {
  (void)state;
  for (int i = 0; i < 50; i++) {
    scene *s = new_scene(&gli_transport_shm, job_key, job_key);
    connect_end(&s->ends[0]);
    if (i % 3 == 0) (void)s->ends[0].ops->poll(s->ends[0].t);
    connect_end(&s->ends[1]);
    end_send(&s->ends[0], "there");
    end_send(&s->ends[1], "and back");
    ends_until(s->ends, &s->ends[0].n_received, 1);
    ends_until(s->ends, &s->ends[1].n_received, 1);
    free_scene(s);
  }
}

/* Rank 0 connects first, then rank 1. */
static void refuse(const gli_transport_ops *ops, const uint8_t *key_0,
                   const uint8_t *key_1, const char *why_0, const char *why_1) {
  scene *s = new_scene(ops, key_0, key_1);
  connect_end(&s->ends[0]);
  ends_until(s->ends, &s->ends[0].n_failed, 1);
  assert_denied(&s->ends[0], why_0);
  assert_null(s->ends[1].pair);
  connect_end(&s->ends[1]);
  ends_until(s->ends, &s->ends[1].n_failed, 1);
  assert_denied(&s->ends[1], why_1);
  free_scene(s);
}

static void other_secret_and_none_are_refused(void **state) {
  static const gli_transport_ops *const all[] = {&gli_transport_shm,
                                                 &gli_transport_auto};
  (void)state;
  for (int i = 0; i < 2; i++) {
    refuse(all[i], job_key, other_key, "has a different secret than rank 0",
           "has a different secret than rank 1");
    refuse(all[i], job_key, NULL,
           "does not require the job secret, which rank 0 has",
           "requires the job secret, which rank 1 does not have");
    refuse(all[i], NULL, job_key,
           "requires the job secret, which rank 0 does not have",
           "does not require the job secret, which rank 1 has");
  }
}

/* Makes creation of shared memory fail, as on a system without it. */
static void forbid_memory(bool forbid) {
  struct rlimit limit;
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
  limit.rlim_cur = forbid ? 8192 : limit.rlim_max;
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

/* The pair falls back to TCP after the engine has erased its secret. */
static void closed_pair_of_auto_keeps_its_secret(void **state) {
  (void)state;
  scene *s = new_scene(&gli_transport_auto, job_key, job_key);
  uint8_t key[GLI_JOB_KEY_BYTES];
  memcpy(key, job_key, sizeof key);
  s->ends[0].config.job_key = key;
  connect_end(&s->ends[0]);
  memset(key, 0, sizeof key);
  s->ends[0].config.job_key = NULL;
  end_send(&s->ends[0], "the last words");
  end_bye(&s->ends[0]);
  forbid_memory(true);
  ends_until(s->ends, &s->ends[1].n_received, 2);
  forbid_memory(false);
  assert_string_equal(s->ends[1].texts[0], "the last words");
  assert_int_equal(((const gli_auto_pair *)(const void *)s->ends[1].pair)->via,
                   GLI_AUTO_TCP);
  free_scene(s);
}

/* Before the fallback, the pair answers a TCP connection with a challenge, and
 * changes nothing else. */
static void closed_pair_of_auto_challenges_its_peer(void **state) {
  (void)state;
  scene *s = new_scene(&gli_transport_auto, job_key, job_key);
  gli_address parts[GLI_AUTO_CHILDREN];
  gli_tcp_contact contact;
  uint8_t bytes[GLI_TCP_HELLO_BYTES];
  const gli_tcp_hello hello = {.version = GLI_TCP_VERSION,
                               .streams = 1,
                               .from = 1,
                               .to = 0,
                               .key = s->ends[0].config.local_key,
                               .asks = true};
  connect_end(&s->ends[0]);
  end_send(&s->ends[0], "the last words");
  end_bye(&s->ends[0]);
  assert_true(gli_auto_address_decode(&s->ends[1].config.address, parts));
  assert_true(gli_tcp_contact_decode(&parts[GLI_AUTO_TCP], &contact));
  int fd = socket(contact.at[0].any.sa_family, SOCK_STREAM, 0);
  assert_int_equal(
      connect(fd, &contact.at[0].any, gli_endpoint_bytes(&contact.at[0])), 0);
  gli_tcp_hello_encode(&hello, bytes);
  assert_int_equal(send(fd, bytes, sizeof bytes, MSG_NOSIGNAL), sizeof bytes);
  ssize_t got = -1;
  for (int i = 0; i < 5000 && got < 0; i++) {
    if (s->ends[0].ops->poll(s->ends[0].t) == 0) uv_sleep(1);
    got = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);
  }
  assert_int_equal(got, GLI_TCP_CHALLENGE_BYTES);
  assert_true(gli_tcp_challenge_begins(bytes));
  close(fd);
  ends_until(s->ends, &s->ends[1].n_received, 2);
  assert_string_equal(s->ends[1].texts[0], "the last words");
  free_scene(s);
}

/* ---- a stranger of the same user ----------------------------------------- */

static void sign(const scene *s, const uint8_t *job, gli_shm_say say,
                 gli_shm_note *note) {
  gli_pair_config config = s->ends[0].config;
  gli_key key;
  gloo_error error;
  config.job_key = job;
  assert_int_equal(gli_peer_key(&config, &key, &error), GLOO_OK);
  gli_shm_note other = *note;
  other.say = say;
  assert_int_equal(gli_shm_note_sign(&key, &other, &error), GLOO_OK);
  memcpy(note->tag, other.tag, sizeof note->tag);
  note->asks = 1;
}

/* Returns the hello of rank 0 to rank 1, without a tag. */
static gli_shm_note hello_of(const scene *s) {
  const gli_pair_config *c = &s->ends[0].config;
  return (gli_shm_note){.version = GLI_SHM_VERSION,
                        .say = GLI_SHM_HELLO,
                        .from = c->self_rank,
                        .to = c->peer_rank,
                        .key = c->remote_key,
                        .data_bytes = 65536,
                        .chunk = 2048,
                        .fds = {-1, -1}};
}

static gli_shm_note next_note(scene *s, int fd) {
  gli_shm_note note;
  gli_shm_received got = GLI_SHM_GOT_NOTHING;
  for (int i = 0; i < 5000 && got == GLI_SHM_GOT_NOTHING; i++) {
    ends_poll(s->ends, 1);
    got = gli_shm_note_receive(fd, &note);
  }
  assert_int_equal(got, GLI_SHM_GOT_NOTE);
  return note;
}

static gli_shm_note answer_to(scene *s, const gli_shm_note *hello) {
  gli_shm_endpoint endpoint;
  assert_true(gli_shm_endpoint_decode(&s->ends[0].config.address, &endpoint));
  int fd = gli_shm_connect(&endpoint);
  assert_true(fd >= 0);
  assert_int_equal(gli_shm_note_send(fd, hello), 0);
  gli_shm_note note = next_note(s, fd);
  gli_shm_note_close(&note);
  close(fd);
  return note;
}

static void assert_refused(scene *s, const gli_shm_note *hello) {
  gli_shm_note note = answer_to(s, hello);
  assert_int_equal(note.say, GLI_SHM_DENIED);
  assert_int_equal(note.asks, 1);
  assert_null(s->ends[1].pair);
}

static void greeting_without_the_right_tag_opens_nothing(void **state) {
  (void)state;
  scene *s = new_scene(&gli_transport_shm, job_key, job_key);
  gli_shm_note hello = hello_of(s);
  assert_refused(s, &hello);
  hello.asks = 1;
  assert_refused(s, &hello);
  sign(s, other_key, GLI_SHM_HELLO, &hello);
  assert_refused(s, &hello);
  sign(s, job_key, GLI_SHM_ACCEPTED, &hello); /* tag of another note */
  assert_refused(s, &hello);
  hello.from = 1, hello.to = 0; /* tag of the opposite direction */
  sign(s, job_key, GLI_SHM_HELLO, &hello);
  hello.from = 0, hello.to = 1;
  assert_refused(s, &hello);
  sign(s, job_key, GLI_SHM_HELLO, &hello);
  for (size_t i = 0; i < sizeof hello.tag; i++) {
    hello.tag[i] ^= 1;
    assert_refused(s, &hello);
    hello.tag[i] ^= 1;
  }
  hello.asks = 0;
  assert_refused(s, &hello);
  hello.asks = 1; /* valid, but without memory */
  assert_int_equal(answer_to(s, &hello).say, GLI_SHM_DECLINED);
  assert_non_null(s->ends[1].pair);
  free_scene(s);
}

/* A listener in place of rank 1 accepts, with a tag by `key` for a note of kind
 * `say` (none if `key` is NULL). */
static void answer_rank_0(const uint8_t *key, gli_shm_say say,
                          const char *why) {
  scene *s = new_scene(&gli_transport_shm, job_key, job_key);
  gli_shm_endpoint here = {.user = 0};
  const char *what;
  assert_int_equal(gli_shm_endpoint_here(&here, &what), 0);
  gli_shm_endpoint_encode(&here, &s->ends[0].config.address);
  int listener = gli_shm_listen(&here), fd = -1;
  assert_true(listener >= 0);
  connect_end(&s->ends[0]);
  for (int i = 0; i < 5000 && fd < 0; i++) {
    ends_poll(s->ends, 1);
    fd = gli_shm_accept(listener);
  }
  assert_true(fd >= 0);
  gli_shm_note hello = next_note(s, fd), answer = hello_of(s);
  assert_int_equal(hello.asks, 1);
  answer.say = GLI_SHM_ACCEPTED;
  answer.from = 1, answer.to = 0;
  answer.key = s->ends[0].config.local_key;
  if (key != NULL) sign(s, key, say, &answer);
  assert_int_equal(gli_shm_note_send(fd, &answer), 0);
  ends_until(s->ends, &s->ends[0].n_failed, 1);
  assert_denied(&s->ends[0], why);
  gli_shm_note_close(&hello);
  close(fd);
  close(listener);
  free_scene(s);
}

static void answer_without_the_right_tag_is_refused(void **state) {
  (void)state;
  answer_rank_0(NULL, GLI_SHM_ACCEPTED, "does not require the job secret");
  answer_rank_0(other_key, GLI_SHM_ACCEPTED,
                "has a different secret than rank 0");
  answer_rank_0(job_key, GLI_SHM_HELLO, "has a different secret than rank 0");
}

int main(void) {
  signal(SIGXFSZ, SIG_IGN);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(one_secret_connects),
      cmocka_unit_test(ranks_that_begin_at_once_prove_themselves),
      cmocka_unit_test(other_secret_and_none_are_refused),
      cmocka_unit_test(closed_pair_of_auto_keeps_its_secret),
      cmocka_unit_test(closed_pair_of_auto_challenges_its_peer),
      cmocka_unit_test(greeting_without_the_right_tag_opens_nothing),
      cmocka_unit_test(answer_without_the_right_tag_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
