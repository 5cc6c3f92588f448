/* Host names, with a resolver that is slow or does not know them yet. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "gloo_c/log.h"
#include "net/lookup.h"

#define SECOND ((int64_t)1000000000)

static int64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * SECOND + t.tv_nsec;
}

/* ---- a resolver ---------------------------------------------------------- */

static atomic_int asked, fails; /* queries so far, and queries that fail */
static atomic_bool holds;       /* the resolver does not answer now */
static atomic_int held;         /* unanswered queries */

/* Replaces the C library's function: numeric addresses of the tests, and one
 * name. */
int getaddrinfo(const char *host, const char *port,
                const struct addrinfo *hints, struct addrinfo **list) {
  (void)port;
  if ((hints->ai_flags & AI_NUMERICHOST) != 0 && strcmp(host, "127.0.0.1") != 0)
    return EAI_NONAME;
  if ((hints->ai_flags & AI_NUMERICHOST) == 0) {
    asked++;
    held++;
    while (holds) nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    held--;
    if (fails > 0) {
      fails--;
      return EAI_NONAME;
    }
  }
  struct addrinfo *one = calloc(1, sizeof *one + sizeof(struct sockaddr_in));
  assert_non_null(one);
  one->ai_family = AF_INET;
  one->ai_socktype = hints->ai_socktype;
  one->ai_addrlen = sizeof(struct sockaddr_in);
  one->ai_addr = (struct sockaddr *)(one + 1);
  *list = one;
  return 0;
}

void freeaddrinfo(struct addrinfo *list) {
  free(list);
}

/* ---- the tests ----------------------------------------------------------- */

static int setup(void **state) {
  (void)state;
  asked = fails = 0;
  holds = false;
  return 0;
}

/* An abandoned look-up ends by itself. */
static int teardown(void **state) {
  (void)state;
  holds = false;
  while (held > 0) nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  return 0;
}

static void figures_ask_nobody(void **state) {
  struct addrinfo *list;
  gloo_error e;
  (void)state;
  holds = true;
  assert_int_equal(
      gli_look_up("the host", "127.0.0.1", "1", SOCK_STREAM, SECOND, &list, &e),
      GLOO_OK);
  freeaddrinfo(list);
  assert_int_equal(asked, 0);
}

static void a_name_is_asked_for(void **state) {
  struct addrinfo *list;
  gloo_error e;
  (void)state;
  for (int i = 0; i < 2; i++) {
    assert_int_equal(gli_look_up("the host", "name", "1", SOCK_STREAM,
                                 i == 0 ? 60 * SECOND : -1, &list, &e),
                     GLOO_OK);
    assert_int_equal(list->ai_family, AF_INET);
    freeaddrinfo(list);
  }
  assert_int_equal(asked, 2);
}

static void a_name_that_is_unknown_is_named(void **state) {
  struct addrinfo *list;
  gloo_error e;
  (void)state;
  fails = 1;
  assert_int_equal(gli_look_up("the host", "some-name", "1", SOCK_STREAM,
                               60 * SECOND, &list, &e),
                   GLOO_ERR_ADDRESS);
  assert_non_null(strstr(e.message, "the host 'some-name' does not resolve"));
}

static void a_resolver_that_is_silent_does_not_hold_up_the_deadline(
    void **state) {
  struct addrinfo *list;
  gloo_error e;
  (void)state;
  holds = true;
  int64_t began = now_ns();
  assert_int_equal(
      gli_look_up("the host", "name", "1", SOCK_STREAM, SECOND / 5, &list, &e),
      GLOO_ERR_ADDRESS);
  int64_t took = now_ns() - began;
  assert_true(took >= SECOND / 5 && took < 10 * SECOND);
  assert_non_null(strstr(e.message, "resolver does not answer"));
  while (asked == 0) nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  assert_int_equal(asked, 1);
}

static void a_name_that_comes_to_be_known_is_found(void **state) {
  struct addrinfo *list;
  gloo_error e;
  (void)state;
  fails = 5;
  gli_retry retry = gli_retry_begin(60 * SECOND);
  assert_int_equal(gli_look_up_patiently("the host", "name", "1", SOCK_STREAM,
                                         &retry, &list, &e),
                   GLOO_OK);
  freeaddrinfo(list);
  assert_int_equal(asked, 6);
}

static void a_name_that_stays_unknown_is_an_error_at_the_deadline(
    void **state) {
  struct addrinfo *list;
  gloo_error e;
  (void)state;
  fails = 1000000;
  int64_t began = now_ns();
  gli_retry retry = gli_retry_begin(SECOND);
  assert_int_equal(gli_look_up_patiently("the host", "name", "1", SOCK_STREAM,
                                         &retry, &list, &e),
                   GLOO_ERR_ADDRESS);
  int64_t took = now_ns() - began;
  assert_true(took >= SECOND && took < 10 * SECOND);
  assert_true(asked > 1);
}

static void pauses_grow_and_end(void **state) {
  gloo_error cause = {.message = "it is not there"};
  (void)state;
  int pauses = 0;
  gli_retry retry = gli_retry_begin(SECOND / 5);
  while (gli_retry_pause(&retry, &cause)) pauses++;
  assert_true(pauses > 1 && pauses <= 40); /* each takes 5 ms or more */
  assert_int_equal(gli_retry_left(&retry), 0);
  retry = gli_retry_begin(-1);
  assert_true(gli_retry_left(&retry) == -1);
  retry = gli_retry_begin(0);
  assert_false(gli_retry_pause(&retry, NULL));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(figures_ask_nobody),
      TEST(a_name_is_asked_for),
      TEST(a_name_that_is_unknown_is_named),
      TEST(a_resolver_that_is_silent_does_not_hold_up_the_deadline),
      TEST(a_name_that_comes_to_be_known_is_found),
      TEST(a_name_that_stays_unknown_is_an_error_at_the_deadline),
      TEST(pauses_grow_and_end),
  };
  gloo_log_set_level(GLOO_LOG_OFF);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
