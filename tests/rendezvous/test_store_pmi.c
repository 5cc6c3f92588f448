/* The store announced through the launcher: ranks that find it, and the errors
 * of other ranks. Each rank is a process. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <errno.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <unistd.h>
#include <uv.h>

#include "core/descriptor.h"
#include "net/tcp_race.h"
#include "pmi_server.h"
#include "rendezvous/launch/store_pmi.h"

#define LONG INT64_C(20000000000)
#define SHORT INT64_C(700000000)
#define DIGITS \
  "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static int expect(bool good, const char *what, const gloo_error *error) {
  if (!good) fprintf(stderr, "# %s: %s\n", what, error->message);
  return good ? 0 : 1;
}
#define EXPECT(condition) \
  if (expect(condition, #condition, &error) != 0) return 1

static gloo_status open_pmi(int rank, int64_t timeout_ns, gloo_store **store,
                            gloo_error *error) {
  gloo_store_tcp_options how = GLOO_STORE_TCP_OPTIONS_INIT;
  how.timeout_ns = timeout_ns;
  return gli_store_pmi_open(GLI_PMI_SIMPLE, (uint32_t)rank, &how, store, error);
}

/* ---- the announcement ---------------------------------------------------- */

static void a_place_is_read_as_it_was_written(void **state) {
  gli_pmi_place place = {.job = "0123456789abcdef0123456789abcdef",
                         .port = 65535,
                         .n = 3,
                         .addresses = {"10.0.0.1", "fd00::2", "127.0.0.1"}};
  gli_pmi_place read;
  char text[GLI_PMI_PLACE_BYTES];
  (void)state;
  gli_pmi_place_write(&place, text);
  assert_string_equal(text,
                      "served 0123456789abcdef0123456789abcdef - 65535 "
                      "10.0.0.1 fd00::2 127.0.0.1");
  assert_true(gli_pmi_place_read(text, &read));
  assert_string_equal(read.job, place.job);
  assert_int_equal(read.port, place.port);
  assert_int_equal(read.n, 3);
  for (int i = 0; i < 3; i++)
    assert_string_equal(read.addresses[i], place.addresses[i]);
  /* The longest announcement, with a secret, fits. */
  place.secret.n_bytes = GLI_PMI_SECRET_BYTES;
  memset(place.secret.bytes, 0x5a, GLI_PMI_SECRET_BYTES);
  place.n = GLI_PMI_ADDRESSES_MAX;
  for (int i = 0; i < GLI_PMI_ADDRESSES_MAX; i++)
    snprintf(place.addresses[i], sizeof place.addresses[i],
             "1111:2222:3333:4444:5555:6666:7777:%04x", 0x8000 + i);
  gli_pmi_place_write(&place, text);
  assert_true(gli_pmi_place_read(text, &read));
  assert_int_equal(read.n, GLI_PMI_ADDRESSES_MAX);
  assert_int_equal(read.secret.n_bytes, GLI_PMI_SECRET_BYTES);
  assert_memory_equal(read.secret.bytes, place.secret.bytes,
                      GLI_PMI_SECRET_BYTES);
  assert_true(strlen(text) < GLI_PMI_TEXT_BYTES);
}

static void places_that_make_no_sense_are_refused(void **state) {
  static const char *const texts[] = {
      "",
      "served",
      "served j",
      "served j - 1",
      "served j - 1 ",
      "served j - 0 10.0.0.1",
      "served j - 65536 10.0.0.1",
      "served j - x 10.0.0.1",
      "served  - 1 10.0.0.1",
      "served j - 1 10.0.0",
      "served j - 1 host-a",
      "served j - 1 10.0.0.1  10.0.0.2",
      "served 0123456789abcdef0123456789abcdef0 - 1 10.0.0.1",
      "served j - 1 1111:2222:3333:4444:5555:6666:7777:8888:9999:aaaa:bbbb",
      "failed j - 1 10.0.0.1",
      "served j - 1 :: :: :: :: :: :: :: :: :: :: :: :: :: :: :: :: ::",
      "served j 1 10.0.0.1",
      "served j 0123 1 10.0.0.1",
      "served j " DIGITS "0 1 10.0.0.1",
      ("served j x123456789abcdef0123456789abcdef"
       "0123456789abcdef0123456789abcdef 1 10.0.0.1"),
  };
  (void)state;
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    gli_pmi_place place = {.port = 7};
    if (gli_pmi_place_read(texts[i], &place))
      fail_msg("'%s' was read", texts[i]);
    assert_int_equal(place.port, 7);
  }
}

/* ---- the race ------------------------------------------------------------ */

static struct sockaddr_storage at(const char *ip, uint16_t port) {
  struct sockaddr_storage address = {0};
  struct sockaddr_in *v4 = (struct sockaddr_in *)&address;
  assert_int_equal(uv_ip4_addr(ip, port, v4), 0);
  return address;
}

static int listen_at(const char *ip, uint16_t *port) {
  struct sockaddr_storage address = at(ip, *port);
  socklen_t bytes = sizeof address;
  int fd = gli_socket_open(AF_INET, SOCK_STREAM);
  assert_true(fd >= 0);
  assert_int_equal(
      bind(fd, (struct sockaddr *)&address, sizeof(struct sockaddr_in)), 0);
  assert_int_equal(listen(fd, 8), 0);
  assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &bytes), 0);
  *port = ntohs(((struct sockaddr_in *)&address)->sin_port);
  return fd;
}

static void the_first_address_that_answers_wins(void **state) {
  uint16_t port = 0;
  bool failed[3] = {false};
  int code = 0;
  (void)state;
  int listener = listen_at("127.0.0.1", &port);
  /* The first two addresses have no listener. */
  struct sockaddr_storage all[] = {at("127.0.0.2", port), at("127.0.0.3", port),
                                   at("127.0.0.1", port)};
  uint64_t deadline = uv_hrtime() + UINT64_C(20000000000);
  assert_int_equal(gli_tcp_race(all, 3, deadline, failed, &code), 2);
  assert_true(failed[0] && failed[1] && !failed[2]);
  /* All addresses have failed: the race has no candidates. */
  failed[2] = true;
  assert_int_equal(gli_tcp_race(all, 3, deadline, failed, &code), -1);
  close(listener);
  /* All addresses refuse. */
  memset(failed, 0, sizeof failed);
  assert_int_equal(gli_tcp_race(all, 3, deadline, failed, &code), -1);
  assert_int_equal(code, ECONNREFUSED);
  assert_true(failed[0] && failed[1] && failed[2]);
}

/* A listener with a full queue leaves connections unanswered, as a firewall
 * would. */
static void an_address_that_is_silent_holds_up_nobody(void **state) {
  uint16_t port = 0;
  bool failed[2] = {false};
  int code = 0, fillers[16];
  (void)state;
  int answering = listen_at("127.0.0.1", &port);
  int silent = listen_at("127.0.0.2", &port);
  assert_int_equal(listen(silent, 0), 0);
  struct sockaddr_storage all[] = {at("127.0.0.2", port),
                                   at("127.0.0.1", port)};
  for (int i = 0; i < 16; i++) {
    fillers[i] = gli_socket_open(AF_INET, SOCK_STREAM);
    (void)connect(fillers[i], (struct sockaddr *)&all[0],
                  sizeof(struct sockaddr_in));
  }
  uint64_t begun = uv_hrtime();
  assert_int_equal(
      gli_tcp_race(all, 2, begun + UINT64_C(20000000000), failed, &code), 1);
  assert_true(uv_hrtime() - begun < UINT64_C(5000000000));
  close(answering);
  /* The silent address alone takes the whole time. */
  begun = uv_hrtime();
  assert_int_equal(gli_tcp_race(all, 1, begun + 300000000, failed, &code), -1);
  assert_int_equal(code, ETIMEDOUT);
  assert_true(uv_hrtime() - begun >= 300000000);
  for (int i = 0; i < 16; i++) close(fillers[i]);
  close(silent);
}

/* ---- ranks --------------------------------------------------------------- */

static int ranks_meet(int rank, void *argument) {
  gloo_error error = {.message = ""};
  (void)argument;
  for (int round = 0; round < 3; round++) {
    gloo_store *store;
    gloo_value value;
    int64_t n;
    char text[16];
    EXPECT(open_pmi(rank, LONG, &store, &error) == GLOO_OK);
    snprintf(text, sizeof text, "%d", round);
    if (rank == 2)
      EXPECT(gloo_store_set(store, "key", text, 1, &error) == GLOO_OK);
    EXPECT(gloo_store_get(store, "key", LONG, &value, &error) == GLOO_OK);
    EXPECT(value.bytes == 1 && memcmp(value.data, text, 1) == 0);
    free(value.data);
    EXPECT(gloo_store_add(store, "done", 1, &n, &error) == GLOO_OK);
    while (rank == 0 && n < 3) {
      uv_sleep(2);
      EXPECT(gloo_store_add(store, "done", 0, &n, &error) == GLOO_OK);
    }
    gloo_store_destroy(store);
  }
  return 0;
}

static void ranks_meet_at_a_store_for_each_round(void **state) {
  (void)state;
  pmi_run(&(pmi_script){.ranks = 3}, ranks_meet, NULL, NULL);
}

/* Rank 0 has no descriptor left for a server. */
static int hears_why_not(int rank, void *argument) {
  gloo_error error = {.message = ""};
  gloo_store *store;
  gli_pmi_job job;
  (void)argument;
  EXPECT(gli_pmi_join(GLI_PMI_SIMPLE, LONG, &job, &error) == GLOO_OK);
  struct rlimit before, none;
  EXPECT(getrlimit(RLIMIT_NOFILE, &before) == 0);
  if (rank == 0) {
    int lowest = dup(0);
    none = (struct rlimit){(rlim_t)lowest, before.rlim_max};
    EXPECT(setrlimit(RLIMIT_NOFILE, &none) == 0);
    close(lowest);
  }
  gloo_status status = open_pmi(rank, LONG, &store, &error);
  EXPECT(setrlimit(RLIMIT_NOFILE, &before) == 0);
  EXPECT(status == (rank == 0 ? GLOO_ERR_IO : GLOO_ERR_PEER));
  EXPECT(strstr(error.message, "descriptor") != NULL);
  EXPECT(rank == 0 || error.rank == 0);
  return 0;
}

static void all_hear_why_rank_0_cannot_serve(void **state) {
  (void)state;
  pmi_run(&(pmi_script){.ranks = 3}, hears_why_not, NULL, NULL);
}

typedef struct told {
  int64_t patience;
  gloo_status status;
  const char *words[3];
} told;

static int rank_1_finds_none(int rank, void *argument) {
  const told *t = argument;
  gloo_error error = {.message = ""};
  gloo_store *store;
  char out[GLI_PMI_PLACE_BYTES];
  if (rank == 0) {
    EXPECT(gli_pmi_tell(GLI_PMI_SIMPLE, "x", out, sizeof out, LONG, &error) ==
           GLOO_OK);
    return 0;
  }
  uint64_t begun = uv_hrtime();
  EXPECT(open_pmi(1, t->patience, &store, &error) == t->status);
  for (int i = 0; i < 3 && t->words[i] != NULL; i++)
    EXPECT(strstr(error.message, t->words[i]) != NULL);
  EXPECT(error.rank == 0);
  EXPECT(uv_hrtime() - begun < (uint64_t)t->patience + UINT64_C(10000000000));
  return 0;
}

static void a_place_that_makes_no_sense_is_refused(void **state) {
  pmi_trick trick = {"cmd=get ", "cmd=get_result rc=0 value=.served_20x\n", 0};
  told t = {LONG, GLOO_ERR_PROTOCOL, {"rank 0", "is invalid"}};
  (void)state;
  pmi_run(&(pmi_script){.ranks = 2, .trick = &trick}, rank_1_finds_none, &t,
          NULL);
}

/* The value may contain the job's secret, and messages are printed. */
static int rank_1_shows_no_value(int rank, void *argument) {
  gloo_error error = {.message = ""};
  char out[GLI_PMI_PLACE_BYTES];
  (void)argument;
  if (rank == 0) {
    EXPECT(gli_pmi_tell(GLI_PMI_SIMPLE, "x", out, sizeof out, LONG, &error) ==
           GLOO_OK);
    return 0;
  }
  EXPECT(gli_pmi_tell(GLI_PMI_SIMPLE, NULL, out, sizeof out, LONG, &error) ==
         GLOO_ERR_PROTOCOL);
  EXPECT(strstr(error.message, "value=...") != NULL);
  EXPECT(strstr(error.message, "0123") == NULL);
  return 0;
}

static void a_value_that_makes_no_sense_is_not_shown(void **state) {
  pmi_trick nonsense = {"cmd=get ", "cmd=get_result rc=0 value=" DIGITS "\n",
                        0};
  pmi_trick refusal = {"cmd=get ", "cmd=get_result rc=1 value=" DIGITS "\n", 0};
  (void)state;
  pmi_run(&(pmi_script){.ranks = 2, .trick = &nonsense}, rank_1_shows_no_value,
          NULL, NULL);
  pmi_run(&(pmi_script){.ranks = 2, .trick = &refusal}, rank_1_shows_no_value,
          NULL, NULL);
}

static void an_address_that_nobody_has_is_named(void **state) {
  pmi_trick trick = {
      "cmd=get ",
      "cmd=get_result rc=0 value=.served_20j_20-_209_20127.0.0.2_20127.0.0.3\n",
      0};
  told t = {SHORT,
            GLOO_ERR_TIMEOUT,
            {"port 9 at any of its addresses: 127.0.0.2 127.0.0.3",
             "connection refused", "700 ms"}};
  (void)state;
  pmi_run(&(pmi_script){.ranks = 2, .trick = &trick}, rank_1_finds_none, &t,
          NULL);
}

static gloo_store *serve(const char *host, uint16_t port, const char *job,
                         gloo_error *error) {
  gloo_store_tcp_options o = GLOO_STORE_TCP_OPTIONS_INIT;
  gloo_store *store;
  o.host = host;
  o.port = port;
  o.serve = 1;
  o.job = job;
  return gloo_store_tcp_create(&o, &store, error) == GLOO_OK ? store : NULL;
}

/* Serves two stores at the same port of two addresses until rank 1 is done. A
 * port that is free at one address may be taken at the other, which is frequent
 * after other tests have closed thousands of connections. */
static int serves_two(void) {
  gli_pmi_place place = {
      .job = "mine", .n = 2, .addresses = {"127.0.0.2", "127.0.0.1"}};
  char text[GLI_PMI_PLACE_BYTES], out[GLI_PMI_PLACE_BYTES];
  gloo_error error = {.message = ""};
  gloo_store *other = NULL, *own = NULL;
  gloo_value value;
  for (int i = 0; i < 1000 && own == NULL; i++) {
    gloo_store_destroy(other);
    other = serve("127.0.0.2", 0, "else", &error);
    EXPECT(other != NULL);
    own = serve("127.0.0.1", gloo_store_tcp_port(other), "mine", &error);
  }
  EXPECT(own != NULL);
  EXPECT(gloo_store_set(other, "whose", "else", 4, &error) == GLOO_OK);
  EXPECT(gloo_store_set(own, "whose", "mine", 4, &error) == GLOO_OK);
  place.port = gloo_store_tcp_port(own);
  gli_pmi_place_write(&place, text);
  EXPECT(gli_pmi_tell(GLI_PMI_SIMPLE, text, out, sizeof out, LONG, &error) ==
         GLOO_OK);
  EXPECT(gloo_store_get(own, "done", LONG, &value, &error) == GLOO_OK);
  free(value.data);
  gloo_store_destroy(own);
  gloo_store_destroy(other);
  return 0;
}

/* The first address that answers belongs to another job. Only the ranks have
 * the threads of stores: in a child of a program with threads,
 * AddressSanitizer's locks may stay locked, so the test itself forks before it
 * has any. */
static int finds_its_own(int rank, void *argument) {
  gloo_error error = {.message = ""};
  gloo_store *store;
  gloo_value value;
  (void)argument;
  if (rank == 0) return serves_two();
  EXPECT(open_pmi(1, LONG, &store, &error) == GLOO_OK);
  EXPECT(gloo_store_get(store, "whose", LONG, &value, &error) == GLOO_OK);
  EXPECT(value.bytes == 4 && memcmp(value.data, "mine", 4) == 0);
  free(value.data);
  EXPECT(gloo_store_set(store, "done", "", 0, &error) == GLOO_OK);
  gloo_store_destroy(store);
  return 0;
}

static void a_store_of_another_job_is_passed_over(void **state) {
  (void)state;
  pmi_run(&(pmi_script){.ranks = 2}, finds_its_own, NULL, NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_place_is_read_as_it_was_written),
      cmocka_unit_test(places_that_make_no_sense_are_refused),
      cmocka_unit_test(the_first_address_that_answers_wins),
      cmocka_unit_test(an_address_that_is_silent_holds_up_nobody),
      cmocka_unit_test(ranks_meet_at_a_store_for_each_round),
      cmocka_unit_test(all_hear_why_rank_0_cannot_serve),
      cmocka_unit_test(a_place_that_makes_no_sense_is_refused),
      cmocka_unit_test(a_value_that_makes_no_sense_is_not_shown),
      cmocka_unit_test(an_address_that_nobody_has_is_named),
      cmocka_unit_test(a_store_of_another_job_is_passed_over),
  };
  return cmocka_run_group_tests_name("store_pmi", tests, NULL, NULL);
}
