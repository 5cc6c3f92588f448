/* Remote keys (rkeys) for memory, on transports that support them. */
#include <stdlib.h>
#include <unistd.h>

#include "battery.h"
#include "core/bytes.h"
#include "gloo_c/memory.h"

enum { BYTES = 3 << 20 };

static uint8_t *shared(size_t bytes) {
  void *memory = NULL;
  gloo_error error;
  if (gloo_alloc(bytes, &memory, &error) != GLOO_OK)
    fail_msg("%s", error.message);
  return memory;
}

static bool refer(bat_pair *p, const void *memory, size_t bytes, bool write,
                  uint64_t *rkey) {
  return p->pair->ops->rkey_pack(p->pair, memory, bytes, write, rkey);
}

/* Packs an rkey as soon as the pair is up. */
static uint64_t rkey_to(bat_pair *p, const void *memory, size_t bytes,
                        bool write) {
  uint64_t rkey = 0;
  BAT_DRIVE(p->world, refer(p, memory, bytes, write, &rkey));
  assert_true(rkey != 0);
  return rkey;
}

static gloo_status reach(bat_pair *p, uint64_t rkey, size_t bytes, bool write,
                         void **memory) {
  gloo_error error;
  gloo_status status =
      p->pair->ops->rkey_map(p->pair, rkey, bytes, write, memory, &error);
  if (status != GLOO_OK) {
    assert_int_equal(error.status, status);
    assert_true(error.message[0] != '\0');
  }
  return status;
}

static uint8_t *reached(bat_pair *p, uint64_t rkey, size_t bytes, bool write) {
  void *memory = NULL;
  assert_int_equal(reach(p, rkey, bytes, write, &memory), GLOO_OK);
  assert_non_null(memory);
  return memory;
}

static gloo_status fetch(bat_pair *p, uint64_t rkey, void *to, size_t bytes) {
  gloo_error error;
  return p->pair->ops->get(p->pair, rkey, to, bytes, &error);
}

static bool revoked(bat_pair *p) {
  return p->pair->ops->revoked(p->pair);
}

/* Connects until both sides can pack rkeys. */
static void connect_both(bat_world *w, bat_pair **a, bat_pair **b) {
  bat_connect(w, 0, 1, a, b);
  uint8_t *memory = shared(1);
  (void)rkey_to(*a, memory, 1, true);
  (void)rkey_to(*b, memory, 1, true);
  gloo_free(memory);
}

/* ---- what is shared ------------------------------------------------------ */

static uint64_t rkey_in(const bat_pair *p, size_t i) {
  assert_int_equal(p->in[i].header.form, GLI_FORM_RKEY);
  return gli_get_u64(p->in[i].data);
}

static void send_rkey(bat_pair *p, uint64_t rkey) {
  uint8_t bytes[GLI_RKEY_BYTES];
  gli_put_u64(bytes, rkey);
  gli_header header = {
      .type = GLI_MESSAGE_DATA, .form = GLI_FORM_RKEY, .length = sizeof bytes};
  bat_send_header(p, &header, bytes);
}

static void memory_is_read_and_written_where_it_is(void **state) {
  bat_world *w = *state;
  bat_pair *a, *b;
  connect_both(w, &a, &b);
  uint8_t *ours = shared(BYTES);
  bat_fill(ours, BYTES, 1);
  send_rkey(a, rkey_to(a, ours, BYTES, true));
  BAT_DRIVE(w, b->n_received == 1);
  uint64_t rkey = rkey_in(b, 0);
  uint8_t *theirs = reached(b, rkey, BYTES, true);
  assert_true(bat_matches(theirs, BYTES, 1));
  bat_fill(theirs, BYTES, 2);
  assert_true(bat_matches(ours, BYTES, 2));
  assert_false(revoked(b));
  uint8_t *inside = reached(b, rkey + 12345, BYTES - 12345, false);
  assert_ptr_equal(inside, theirs + 12345);
  uint8_t copy[100];
  assert_int_equal(fetch(b, rkey + 7, copy, sizeof copy), GLOO_OK);
  assert_memory_equal(copy, ours + 7, sizeof copy);
  gloo_free(ours);
}

/* Copies in both directions; claims are tested in
 * transport_shm/test_shared_copy.c. */
static void both_see_what_is_copied_together(void **state) {
  bat_world *w = *state;
  bat_pair *p[2];
  connect_both(w, &p[0], &p[1]);
  for (int i = 0; i < 2; i++) {
    gli_shared_copy *theirs = p[i]->pair->ops->shared_copy(p[i]->pair, true);
    gli_shared_copy *ours =
        p[1 - i]->pair->ops->shared_copy(p[1 - i]->pair, false);
    gli_header h = {.context = 1, .tag = 2, .slot = 3, .operation = 4};
    uint64_t seen, to;
    uint32_t piece;
    for (uint32_t place = 0; place < GLI_SHARED_COPIES; place++) {
      gli_shared_copy_begin(ours + place, 1, 10 + place, &h, h.context, h.slot);
    }
    for (uint32_t place = 0; place < GLI_SHARED_COPIES; place++) {
      assert_true(gli_shared_copy_is_about(theirs + place, &h, &seen, &to));
      assert_int_equal(to, 10 + place);
      assert_true(gli_shared_copy_claim_back(theirs + place, &seen, 2, &piece));
      assert_int_equal(piece, 1);
      assert_true(gli_shared_copy_claim_front(ours + place, 1, 2, &piece));
      assert_int_equal(piece, 0);
      assert_false(gli_shared_copy_claim_front(ours + place, 1, 2, &piece));
    }
  }
}

static void parts_of_memory_are_told_apart(void **state) {
  bat_world *w = *state;
  bat_pair *a, *b;
  connect_both(w, &a, &b);
  uint8_t *ours = shared(BYTES);
  uint64_t random = 1;
  for (int i = 0; i < 500; i++) {
    size_t at = (size_t)(bat_random(&random) % BYTES);
    size_t bytes = 1 + (size_t)(bat_random(&random) % (BYTES - at));
    /* Short ranges need not be readable by rkey. */
    bool write = i % 2 == 1 || bytes < 65536;
    uint64_t rkey = rkey_to(a, ours + at, bytes, write);
    uint8_t *theirs = reached(b, rkey, bytes, write);
    theirs[0] = (uint8_t)i;
    theirs[bytes - 1] = (uint8_t)(i * 7);
    assert_int_equal(ours[at + bytes - 1], (uint8_t)(i * 7));
    if (bytes > 1) assert_int_equal(ours[at], (uint8_t)i);
  }
  gloo_free(ours);
}

static void many_regions_both_ways(void **state) {
  enum { REGIONS = 100 };
  bat_world *w = *state;
  bat_pair *a, *b;
  connect_both(w, &a, &b);
  uint8_t *ours[REGIONS];
  for (int i = 0; i < REGIONS; i++) {
    ours[i] = shared(5000);
    bat_fill(ours[i], 5000, (uint64_t)i);
  }
  for (int round = 0; round < 2; round++)
    for (int i = REGIONS - 1; i >= 0; i--) {
      bat_pair *from = i % 2 ? a : b, *to = i % 2 ? b : a;
      uint64_t rkey = rkey_to(from, ours[i], 5000, true);
      assert_true(
          bat_matches(reached(to, rkey, 5000, false), 5000, (uint64_t)i));
    }
  for (int i = 0; i < REGIONS; i++) gloo_free(ours[i]);
}

/* Memory that is not from gloo_alloc can be read at most, never written. */
static void other_memory_is_read_or_has_no_rkey(void **state) {
  bat_world *w = *state;
  bat_pair *a, *b;
  connect_both(w, &a, &b);
  uint8_t *ours = malloc(BYTES), *copy = malloc(BYTES);
  assert_true(ours && copy);
  bat_fill(ours, BYTES, 5);
  uint64_t rkey = 0;
  assert_false(refer(a, ours, BYTES, true, &rkey));
  if (refer(a, ours, BYTES, false, &rkey)) {
    void *memory = ours;
    assert_int_equal(reach(b, rkey, BYTES, false, &memory), GLOO_OK);
    assert_null(memory);
    assert_int_equal(reach(b, rkey, BYTES, true, &memory), GLOO_ERR_PROTOCOL);
    assert_int_equal(fetch(b, rkey + 3, copy, BYTES - 3), GLOO_OK);
    assert_memory_equal(copy, ours + 3, BYTES - 3);
  }
  free(ours);
  free(copy);
}

/* Registration gives the memory to a device, not to a peer: it has no
 * descriptor. */
static void registered_memory_is_like_other_memory(void **state) {
  bat_world *w = *state;
  bat_pair *a, *b;
  connect_both(w, &a, &b);
  uint8_t *ours = malloc(BYTES);
  assert_non_null(ours);
  uint64_t plain = 0, registered = 0;
  bool readable = refer(a, ours, BYTES, false, &plain);
  assert_int_equal(gloo_memory_register(ours, BYTES, NULL), GLOO_OK);
  assert_false(refer(a, ours, BYTES, true, &registered));
  assert_int_equal(refer(a, ours, BYTES, false, &registered), readable);
  assert_true(plain == registered);
  bat_send_filled(a, 1, BYTES, 6); /* the pair is unharmed */
  BAT_DRIVE(w, b->n_received == 1);
  bat_assert_message(b, 0, BYTES, 6);
  assert_int_equal(gloo_memory_deregister(ours, NULL), GLOO_OK);
  free(ours);
}

static void pairs_do_not_share_what_the_other_has(void **state) {
  bat_world *w = *state;
  bat_pair *a, *b, *c, *d;
  connect_both(w, &a, &b);
  connect_both(w, &c, &d);
  uint8_t *ours = shared(BYTES);
  uint64_t first = rkey_to(a, ours, BYTES, true);
  void *memory;
  assert_int_equal(reach(d, first, BYTES, false, &memory), GLOO_ERR_PROTOCOL);
  assert_true(reached(b, first, BYTES, false) != NULL);
  uint64_t second = rkey_to(c, ours, BYTES, true);
  uint8_t *theirs = reached(d, second, BYTES, false);
  bat_close(a, GLI_MESSAGE_ABORT, NULL, 0);
  assert_true(revoked(b));
  assert_false(revoked(d));
  ours[17] = 99;
  assert_int_equal(theirs[17], 99);
  gloo_free(ours);
}

/* ---- what is not --------------------------------------------------------- */

static void assert_refused(bat_pair *p, uint64_t rkey, size_t bytes,
                           bool write) {
  void *memory;
  uint8_t room[64];
  gloo_status status = reach(p, rkey, bytes, write, &memory);
  assert_int_equal(status, GLOO_ERR_PROTOCOL);
  if (bytes <= sizeof room)
    assert_int_equal(fetch(p, rkey, room, bytes), GLOO_ERR_PROTOCOL);
}

static void bad_rkeys_are_refused(void **state) {
  bat_world *w = *state;
  bat_pair *a, *b;
  connect_both(w, &a, &b);
  size_t region = BYTES; /* whole pages, and so a separate region */
  uint8_t *ours = shared(region);
  uint64_t good = rkey_to(a, ours, region, true);
  assert_refused(b, 0, 1, false);
  assert_refused(b, good, region + 1, false);
  assert_refused(b, good, SIZE_MAX, false);
  assert_refused(b, good + region, 1, true);
  assert_refused(b, good + region - 1, 2, true);
  assert_refused(b, good - 1, 2, false);
  assert_refused(b, good + (UINT64_C(1) << 44), 1, false);
  assert_refused(b, UINT64_MAX, 64, false);
  assert_refused(b, UINT64_C(1) << 63, 64, true);
  uint8_t room[64];
  assert_int_equal(fetch(b, UINT64_C(1) << 63, room, 64), GLOO_ERR_PROTOCOL);
  uint64_t random = 7;
  for (int i = 0; i < 20000; i++) {
    uint64_t rkey = bat_random(&random);
    size_t bytes = (size_t)(bat_random(&random) >> (bat_random(&random) % 64));
    void *memory = NULL;
    if (reach(b, rkey, bytes, i % 2, &memory) == GLOO_OK) assert_null(memory);
    (void)fetch(b, rkey, room, bytes % 64);
  }
  bat_send_filled(a, 0, 1000, 3);
  BAT_DRIVE(w, b->n_received == 1);
  assert_int_equal(b->failed, 0);
  gloo_free(ours);
}

static void freed_memory_is_forgotten(void **state) {
  bat_world *w = *state;
  bat_pair *a, *b;
  connect_both(w, &a, &b);
  for (int i = 0; i < 20; i++) {
    size_t bytes = (size_t)(i % 3 + 1) << 20;
    uint8_t *ours = shared(bytes);
    bat_fill(ours, bytes, 1);
    uint64_t rkey = rkey_to(a, ours, bytes, true);
    uint8_t *theirs = reached(b, rkey, bytes, true);
    gloo_free(ours);
    void *memory;
    BAT_DRIVE(w, reach(b, rkey, bytes, true, &memory) != GLOO_OK);
    /* Access through an old address does no harm. */
    theirs[0] = theirs[bytes - 1] = 1;
  }
}

static void closing_takes_everything_back(void **state) {
  bat_world *w = *state;
  static const int types[] = {GLI_MESSAGE_ABORT, GLI_MESSAGE_BYE, 0};
  for (int i = 0; i < 3; i++) {
    bat_pair *a, *b;
    connect_both(w, &a, &b);
    uint8_t *ours = shared(BYTES);
    bat_fill(ours, BYTES, 4);
    uint64_t rkey = rkey_to(a, ours, BYTES, false);
    uint8_t *theirs = reached(b, rkey, BYTES, false);
    assert_true(bat_matches(theirs, BYTES, 4));
    assert_false(revoked(a));
    assert_false(revoked(b));
    bat_close(a, types[i], NULL, 0);
    assert_true(revoked(b)); /* without a poll in between */
    assert_true(bat_matches(theirs, BYTES, 4));
    gloo_free(ours);
    assert_true(theirs[BYTES - 1] + 1 > 0);
    bat_settle(w);
    assert_true(revoked(b));
  }
}

int bat_run_rkey_tests(void *variant) {
  /* Enables what is off by default, too. */
  setenv("GLOO_SHM_READ", "1", 1);
  struct CMUnitTest tests[] = {
      BAT_TEST(memory_is_read_and_written_where_it_is),
      BAT_TEST(both_see_what_is_copied_together),
      BAT_TEST(parts_of_memory_are_told_apart),
      BAT_TEST(many_regions_both_ways),
      BAT_TEST(other_memory_is_read_or_has_no_rkey),
      BAT_TEST(registered_memory_is_like_other_memory),
      BAT_TEST(pairs_do_not_share_what_the_other_has),
      BAT_TEST(bad_rkeys_are_refused),
      BAT_TEST(freed_memory_is_forgotten),
      BAT_TEST(closing_takes_everything_back),
  };
  return bat_run("reach", tests, sizeof tests / sizeof tests[0], variant);
}
