/* The protocol of grow and join through the store: numbers, calls, places, and
 * the records of the meeting that follows. The input holds the store's answers.
 * The first byte selects whether this process joins or admits newcomers,
 * whether the ranks have a secret, and the final number of ranks.
 *
 * Records of the other ranks are not in the corpus: the library publishes each
 * in this process, as that rank (records_make). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/grow.h"
#include "gloo_c/gloo_c.h"
#include "nowhere.h"
#include "store_answers.h"

enum { JOINS = 1, ASKS = 2, NO_COMPARE = 4 };
enum { RANKS_MAX = 4 };

static const char secret[] = "a secret of a job";

static gloo_context_options grow_options(bool asks) {
  gloo_context_options o = GLOO_CONTEXT_OPTIONS_INIT;
  o.timeout_ns = 1000000;
  o.secret = asks ? secret : NULL;
  o.secret_bytes = asks ? sizeof secret : 0;
  return o;
}

/* ---- records of other ranks ---------------------------------------------- */

static gloo_value records[2][RANKS_MAX + 1][RANKS_MAX]; /* asks, size, rank */

static gloo_status records_none(store_answers *s, const char *key,
                                gloo_value *value) {
  (void)s;
  (void)key;
  (void)value;
  return GLOO_ERR_TIMEOUT;
}

/* Returns the round of the first meeting; its nonce is the random number of
 * fuzz.c. */
static gli_grow_round records_round(void) {
  gli_grow_round round = {.number = 1};
  memset(round.drawn, 0x5a, sizeof round.drawn);
  return round;
}

/* Publishes the record of one rank; the other ranks never come. */
static gloo_value records_publish(int rank, int size, bool asks) {
  store_answers s = {.input = {(const uint8_t *)"", 0},
                     .missing = records_none};
  const gloo_context_options o = grow_options(asks);
  gloo_device *device = nowhere_open();
  gloo_store *store = answers_store(&s, true);
  gloo_context *context;
  gloo_error error;
  const gli_grow_round round = records_round();
  char key[48];
  snprintf(key, sizeof key, "gloo/grow/meeting/1/gloo/rank/%d", rank);
  fuzz_check(gli_grow_meet(store, &round, rank, size, device, &o, NULL,
                           &context, &error) != GLOO_OK,
             "a rank alone meets none");
  const gloo_value *own = answers_find(&s, key);
  fuzz_check(own != NULL, error.message);
  gloo_value record = answers_copy(own->data, own->bytes);
  gloo_store_destroy(store);
  answers_end(&s);
  nowhere_close(device);
  return record;
}

static void records_make(void) {
  for (int asks = 0; asks < 2; asks++)
    for (int size = 2; size <= RANKS_MAX; size++)
      for (int rank = 0; rank < size; rank++)
        records[asks][size][rank] = records_publish(rank, size, asks != 0);
}

/* ---- the store ----------------------------------------------------------- */

static struct {
  bool asks, joins;
  int rank, size; /* final values of this process */
} scene;

static bool scene_is(const char *key, const char *what) {
  char begin[GLI_GROW_KEY_BYTES];
  int n = snprintf(begin, sizeof begin, "gloo/grow/%s/", what);
  return strncmp(key, begin, (size_t)n) == 0;
}

static gloo_status scene_says(const char *text, gloo_value *value) {
  *value = answers_copy(text, strlen(text));
  return GLOO_OK;
}

/* "1 RANK SIZE DRAWN" */
static gloo_status scene_place(gloo_value *value) {
  const gli_grow_round round = records_round();
  char text[GLI_GROW_PLACE_BYTES];
  int n = snprintf(text, sizeof text, "1 %d %d ", scene.rank, scene.size);
  for (size_t i = 0; i < sizeof round.drawn; i++)
    n += snprintf(text + n, sizeof text - (size_t)n, "%02x",
                  (unsigned)round.drawn[i]);
  return scene_says(text, value);
}

/* Returns the values that the other side sets: the call and the place of a
 * newcomer, or the answers of newcomers, and the records of the meeting. */
static gloo_status scene_missing(store_answers *s, const char *key,
                                 gloo_value *value) {
  (void)s;
  if (scene.joins && scene_is(key, GLI_GROW_PLACE)) return scene_place(value);
  if (scene_is(key, scene.joins ? GLI_GROW_CALL : GLI_GROW_COMES))
    return scene_says("1", value);
  if (strcmp(key, GLI_GROW_CAME) == 0) {
    char text[16];
    snprintf(text, sizeof text, "%d", scene.size - 1);
    return scene_says(text, value);
  }
  int rank = answers_rank(key);
  if (rank < 0 || rank >= scene.size) return GLOO_ERR_TIMEOUT;
  const gloo_value *record = &records[scene.asks][scene.size][rank];
  *value = answers_copy(record->data, record->bytes);
  return GLOO_OK;
}

/* ---- one input ----------------------------------------------------------- */

static void scene_join(gloo_store *store, gloo_device *device) {
  const gloo_context_options o = grow_options(scene.asks);
  gloo_context *context;
  gloo_error error;
  gloo_status status =
      gloo_context_join(store, device, &o, GLOO_TIMEOUT_NOW, &context, &error);
  fuzz_check_error(status, &error);
  if (status != GLOO_OK) return;
  int rank = gloo_context_rank(context), size = gloo_context_size(context);
  fuzz_check(rank >= 0 && rank < size, "a newcomer has a place");
  gloo_context_destroy(context);
}

/* Grows a context of rank 0 alone, so that it decides the whole agreement. */
static void scene_grow(gloo_store *store, gloo_device *device, uint8_t how) {
  const gloo_context_options o = grow_options(scene.asks);
  gloo_grow_options grow = GLOO_GROW_OPTIONS_INIT;
  gloo_context *context, *more;
  gloo_error error;
  fuzz_check(
      gloo_context_create(0, 1, NULL, device, &o, &context, &error) == GLOO_OK,
      "a rank alone has a context");
  grow.context = &o;
  grow.ranks_max = how >> 5;
  grow.timeout_ns = GLOO_TIMEOUT_NOW;
  gloo_status status = gloo_context_grow(context, store, &grow, &more, &error);
  fuzz_check_error(status, &error);
  if (status == GLOO_OK && more != NULL) {
    fuzz_check(
        gloo_context_rank(more) == 0 && gloo_context_size(more) > 1 &&
            (grow.ranks_max == 0 || gloo_context_size(more) <= grow.ranks_max),
        "the ranks that are there keep their numbers");
    gloo_context_destroy(more);
  }
  fuzz_check(gloo_context_error(context, &error) == GLOO_OK,
             "the context stays as it is");
  gloo_context_destroy(context);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  store_answers s = {.input = {data, bytes}, .missing = scene_missing};
  if (records[0][2][0].data == NULL) records_make();
  uint8_t how = fuzz_take_u8(&s.input);
  scene.asks = (how & ASKS) != 0;
  scene.size = 2 + (how >> 3) % (RANKS_MAX - 1);
  scene.joins = (how & JOINS) != 0;
  scene.rank = scene.joins ? scene.size - 1 : 0;
  gloo_device *device = nowhere_open();
  gloo_store *store = answers_store(&s, (how & NO_COMPARE) == 0);
  if (scene.joins)
    scene_join(store, device);
  else
    scene_grow(store, device, how);
  gloo_store_destroy(store);
  answers_end(&s);
  nowhere_close(device);
  return 0;
}
