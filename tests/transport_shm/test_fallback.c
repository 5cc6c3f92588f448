/* Failure to create shared memory: an error that says so, or, with the
 * transport "auto", TCP on both sides, and no message is lost. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/user.h"
#include "ends.h"
#include "transport/auto.h"
#include "transport_shm/shm.h"

typedef struct scene {
  end ends[2];
} scene;

static int set_up(void **state) {
  scene *s = calloc(1, sizeof *s);
  assert_non_null(s);
  ends_open(s->ends, &gli_transport_auto);
  *state = s;
  return 0;
}

static int tear_down(void **state) {
  scene *s = *state;
  ends_close(s->ends);
  free(s);
  return 0;
}

/* Makes creation of shared memory fail, as on a system without it. */
static void forbid_memory(bool forbid) {
  struct rlimit limit;
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
  limit.rlim_cur = forbid ? 8192 : limit.rlim_max;
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

/* Returns the lowest free descriptor; all below it are in use. */
static int lowest_free_descriptor(void) {
  int fd = dup(0);
  assert_true(fd >= 0);
  close(fd);
  return fd;
}

static int via(const end *e) {
  return ((const gli_auto_pair *)(const void *)e->pair)->via;
}

static void connect_end(end *e) {
  gloo_error error;
  if (end_connect(e, &error) != GLOO_OK) fail_msg("%s", error.message);
}

/* Three messages from each side, some of them queued already, arrive in order.
 */
static void send_three(end *e, int from) {
  char text[32];
  for (int i = from; i < 3; i++) {
    snprintf(text, sizeof text, "message %d", i);
    end_send(e, text);
  }
}

static void assert_three(scene *s, int to) {
  end *e = &s->ends[to];
  ends_until(s->ends, &e->n_received, 3);
  for (int i = 0; i < 3; i++) {
    char text[32];
    snprintf(text, sizeof text, "message %d", i);
    assert_string_equal(e->texts[i], text);
  }
  assert_int_equal(e->n_received, 3);
}

static void assert_talk_over(scene *s, int expected) {
  for (int i = 0; i < 2; i++) {
    if (s->ends[i].n_posted == 0) send_three(&s->ends[i], 0);
    assert_three(s, !i);
  }
  for (int i = 0; i < 2; i++) {
    ends_until(s->ends, &s->ends[i].n_sent, 3);
    assert_int_equal(s->ends[i].n_sent, 3);
    assert_int_equal(s->ends[i].n_failed, 0);
    assert_int_equal(via(&s->ends[i]), expected);
  }
}

static void ranks_of_one_host_share_memory(void **state) {
  scene *s = *state;
  connect_end(&s->ends[0]);
  send_three(&s->ends[0], 0);
  ends_until(s->ends, &s->ends[1].n_received, 1);
  assert_talk_over(s, GLI_AUTO_SHM);
}

static void no_memory_is_an_error_without_an_alternative(void **state) {
  (void)state;
  end ends[2];
  ends_open(ends, &gli_transport_shm);
  gloo_error error;
  forbid_memory(true);
  gloo_status status = end_connect(&ends[0], &error);
  forbid_memory(false);
  assert_int_equal(status, GLOO_ERR_NO_MEMORY);
  assert_non_null(strstr(error.message, "shared memory"));
  ends[0].pair = NULL;
  ends_close(ends);
}

/* A ring makes its pages when messages need them. */
static void no_memory_for_a_message_is_an_error_of_its_sender(void **state) {
  (void)state;
  end ends[2];
  ends_open(ends, &gli_transport_shm);
  connect_end(&ends[0]);
  end_send(&ends[0], "short");
  ends_until(ends, &ends[1].n_received, 1);
  forbid_memory(true);
  end_send(&ends[0], "a message that does not fit a slot");
  ends_until(ends, &ends[0].n_failed, 1);
  forbid_memory(false);
  assert_int_equal(ends[0].cause.rank, 0);
  assert_non_null(
      strstr(ends[0].cause.message, "no shared memory with rank 1"));
  ends_until(ends, &ends[1].n_failed, 1);
  assert_int_equal(ends[1].n_received, 1);
  assert_int_equal(ends[1].cause.rank, 0);
  ends_close(ends);
}

static void who_begins_has_no_memory(void **state) {
  scene *s = *state;
  forbid_memory(true);
  connect_end(&s->ends[0]);
  forbid_memory(false);
  send_three(&s->ends[0], 0);
  ends_until(s->ends, &s->ends[1].n_received, 1);
  assert_talk_over(s, GLI_AUTO_TCP);
}

/* The other side has begun to use shared memory, and has queued messages. */
static void who_begins_second_has_no_memory(void **state) {
  scene *s = *state;
  for (int first = 0; first < 2; first++) {
    connect_end(&s->ends[first]);
    send_three(&s->ends[first], 0);
    assert_int_equal(via(&s->ends[first]), GLI_AUTO_SHM);
    s->ends[first].ops->poll(s->ends[first].t);
    forbid_memory(true);
    connect_end(&s->ends[!first]);
    forbid_memory(false);
    assert_talk_over(s, GLI_AUTO_TCP);
    tear_down(state);
    set_up(state);
    s = *state;
  }
}

static void who_is_asked_has_no_memory(void **state) {
  scene *s = *state;
  connect_end(&s->ends[0]);
  send_three(&s->ends[0], 0);
  s->ends[0].ops->poll(s->ends[0].t);
  forbid_memory(true);
  for (int i = 0; i < 100 && s->ends[1].pair == NULL; i++)
    s->ends[1].ops->poll(s->ends[1].t);
  forbid_memory(false);
  assert_non_null(s->ends[1].pair);
  assert_talk_over(s, GLI_AUTO_TCP);
}

/* The reply carries descriptors for which one side has no room. */
static void who_begins_cannot_take_the_answer(void **state) {
  scene *s = *state;
  connect_end(&s->ends[0]);
  send_three(&s->ends[0], 0);
  s->ends[0].ops->poll(s->ends[0].t);
  for (int i = 0; i < 100 && s->ends[1].pair == NULL; i++)
    s->ends[1].ops->poll(s->ends[1].t);
  assert_non_null(s->ends[1].pair);
  send_three(&s->ends[1], 0);
  struct rlimit limit, few;
  assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
  few = limit;
  few.rlim_cur = (rlim_t)lowest_free_descriptor();
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
  for (int i = 0; i < 100; i++) s->ends[0].ops->poll(s->ends[0].t);
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
  assert_talk_over(s, GLI_AUTO_TCP);
}

/* A side that leaves before the choice of transport still delivers its
 * messages. */
static void messages_of_one_who_left_arrive(void **state) {
  for (int forbid = 0; forbid < 2; forbid++) {
    scene *s = *state;
    connect_end(&s->ends[0]);
    send_three(&s->ends[0], 0);
    if (forbid) s->ends[0].ops->poll(s->ends[0].t);
    end_bye(&s->ends[0]);
    assert_int_equal(s->ends[0].owed, 1);
    forbid_memory(forbid);
    for (int i = 0; i < 100 && s->ends[1].pair == NULL; i++) {
      s->ends[0].ops->poll(s->ends[0].t);
      s->ends[1].ops->poll(s->ends[1].t);
    }
    forbid_memory(false);
    ends_until(s->ends, &s->ends[1].n_received, 4);
    assert_int_equal(s->ends[1].types[3], GLI_MESSAGE_BYE);
    for (int i = 0; i < 3; i++) {
      char text[32];
      snprintf(text, sizeof text, "message %d", i);
      assert_string_equal(s->ends[1].texts[i], text);
    }
    assert_int_equal(via(&s->ends[1]), forbid ? GLI_AUTO_TCP : GLI_AUTO_SHM);
    tear_down(state);
    set_up(state);
  }
}

static void address_of_another_host_is_not_reachable(void **state) {
  (void)state;
  end ends[2];
  ends_open(ends, &gli_transport_shm);
  const gli_transport_ops *ops = ends[0].ops;
  char why[GLI_WHY_BYTES] = "";
  gli_address address = ends[0].config.address;
  assert_true(ops->reachable(ends[0].t, &address, why));
  gli_shm_endpoint endpoint;
  assert_true(gli_shm_endpoint_decode(&address, &endpoint));
  gli_shm_endpoint other = endpoint;
  other.boot[0] ^= 1;
  gli_shm_endpoint_encode(&other, &address);
  assert_false(ops->reachable(ends[0].t, &address, why));
  assert_non_null(strstr(why, "another host"));
  other = endpoint;
  other.inode ^= 1;
  gli_shm_endpoint_encode(&other, &address);
  assert_false(ops->reachable(ends[0].t, &address, why));
  assert_non_null(strstr(why, gli_shm_place_differs));
  other = endpoint;
  other.user ^= 1;
  gli_shm_endpoint_encode(&other, &address);
  assert_false(ops->reachable(ends[0].t, &address, why));
  assert_non_null(strstr(why, "another user"));
  other.user = GLI_USER_NONE; /* an unmapped user is refused as well */
  gli_shm_endpoint_encode(&other, &address);
  assert_false(ops->reachable(ends[0].t, &address, why));
  assert_non_null(strstr(why, "user namespace"));
  address.bytes--;
  assert_false(ops->reachable(ends[0].t, &address, why));
  ends_close(ends);
}

static void damaged_lists_of_addresses_are_refused(void **state) {
  scene *s = *state;
  gli_address good = s->ends[0].config.address;
  gli_address part[GLI_AUTO_CHILDREN];
  assert_true(gli_auto_address_decode(&good, part));
  for (uint16_t bytes = 0; bytes < good.bytes; bytes++) {
    gli_address cut = good;
    cut.bytes = bytes;
    assert_false(gli_auto_address_decode(&cut, part));
  }
  gli_address more = good;
  more.data[4]++;
  assert_false(gli_auto_address_decode(&more, part));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(ranks_of_one_host_share_memory),
      cmocka_unit_test(no_memory_is_an_error_without_an_alternative),
      cmocka_unit_test(no_memory_for_a_message_is_an_error_of_its_sender),
      TEST(who_begins_has_no_memory),
      TEST(who_begins_second_has_no_memory),
      TEST(who_is_asked_has_no_memory),
      TEST(who_begins_cannot_take_the_answer),
      TEST(messages_of_one_who_left_arrive),
      cmocka_unit_test(address_of_another_host_is_not_reachable),
      TEST(damaged_lists_of_addresses_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
