/* What other ranks have published, and what else a store says while a context
 * is made. The store is one of callbacks, and what it does is the input: a byte
 * for each call, and perhaps a piece. Beyond the end of the input it does as it
 * should, and the other ranks have published what rank 0 has. */
#include <stdlib.h>
#include <string.h>

#include "core/bytes.h"
#include "gloo_c/gloo_c.h"
#include "nowhere.h"

enum { SIZE = 3, VALUES = 16, RANK_AT = 8 };

typedef struct context_store {
  fuzz_input input;
  struct {
    char key[64];
    gloo_value value;
  } values[VALUES];
  size_t n;
  gloo_value record; /* of rank 0 */
} context_store;

static gloo_value value_copy(const void *data, size_t bytes) {
  gloo_value copy = {malloc(bytes + 1), bytes};
  fuzz_check(copy.data != NULL, "there is memory");
  if (bytes > 0) memcpy(copy.data, data, bytes);
  return copy;
}

static gloo_value *value_find(context_store *s, const char *key) {
  for (size_t i = 0; i < s->n; i++)
    if (strcmp(s->values[i].key, key) == 0) return &s->values[i].value;
  return NULL;
}

/* ---- the callbacks ------------------------------------------------------- */

typedef enum context_answer {
  ANSWER_RIGHT,
  ANSWER_CHANGED, /* by the bits of a piece */
  ANSWER_PIECE,   /* nothing but that */
  ANSWER_FAILURE, /* with a status */
  ANSWERS
} context_answer;

static context_answer context_ask(context_store *s) {
  return (context_answer)(fuzz_take_u8(&s->input) % ANSWERS);
}

static gloo_status context_fails(context_store *s) {
  return (gloo_status)(-(int)(fuzz_take_u8(&s->input) % 32));
}

static gloo_status on_set(void *user, const char *key, const void *data,
                          size_t bytes) {
  context_store *s = user;
  if (context_ask(s) == ANSWER_FAILURE) return context_fails(s);
  gloo_value *old = value_find(s, key);
  if (old != NULL) {
    free(old->data);
    *old = value_copy(data, bytes);
  } else if (s->n < VALUES && strlen(key) < sizeof s->values[0].key) {
    strcpy(s->values[s->n].key, key);
    s->values[s->n++].value = value_copy(data, bytes);
  }
  if (strncmp(key, "gloo/rank", 9) == 0 && s->record.data == NULL)
    s->record = value_copy(data, bytes);
  return GLOO_OK;
}

/* The rank that a key is of; -1: none. */
static int key_rank(const char *key) {
  size_t n = strlen(key);
  if (strncmp(key, "gloo/rank", 9) != 0 || n == 0) return -1;
  return key[n - 1] >= '0' && key[n - 1] <= '9' ? key[n - 1] - '0' : -1;
}

static gloo_status context_right(context_store *s, const char *key,
                                 gloo_value *value) {
  const gloo_value *there = value_find(s, key);
  if (there == NULL && (key_rank(key) < 0 || s->record.data == NULL))
    return GLOO_ERR_TIMEOUT;
  if (there == NULL) there = &s->record;
  *value = value_copy(there->data, there->bytes);
  if (there == &s->record && value->bytes >= RANK_AT + 4)
    gli_put_u32((uint8_t *)value->data + RANK_AT, (uint32_t)key_rank(key));
  return GLOO_OK;
}

static gloo_status context_answer_with(context_store *s, context_answer answer,
                                       const char *key, gloo_value *value) {
  if (answer == ANSWER_FAILURE) return context_fails(s);
  if (answer == ANSWER_RIGHT) return context_right(s, key, value);
  fuzz_input piece = fuzz_take_piece(&s->input);
  if (answer == ANSWER_PIECE) {
    *value = value_copy(piece.at, piece.left);
    return GLOO_OK;
  }
  /* From the last byte on: that is where what a transport has published is. */
  gloo_status status = context_right(s, key, value);
  for (size_t i = 0; status == GLOO_OK && i < value->bytes && piece.left > 0;
       i++)
    ((uint8_t *)value->data)[value->bytes - 1 - i] ^= fuzz_take_u8(&piece);
  return status;
}

static gloo_status on_get(void *user, const char *key, int64_t timeout_ns,
                          gloo_value *value) {
  context_store *s = user;
  (void)timeout_ns;
  return context_answer_with(s, context_ask(s), key, value);
}

static gloo_status on_wait(void *user, const char *const *keys, size_t n_keys,
                           int64_t timeout_ns) {
  context_store *s = user;
  (void)timeout_ns;
  if (context_ask(s) == ANSWER_FAILURE) return context_fails(s);
  for (size_t i = 0; i < n_keys; i++)
    if (value_find(s, keys[i]) == NULL && key_rank(keys[i]) < 0)
      return GLOO_ERR_TIMEOUT;
  return GLOO_OK;
}

static gloo_status on_compare(void *user, const char *key, const void *expected,
                              size_t expected_bytes, const void *desired,
                              size_t desired_bytes, gloo_value *current) {
  context_store *s = user;
  context_answer answer = context_ask(s);
  (void)expected;
  if (answer == ANSWER_RIGHT && expected_bytes == 0 &&
      value_find(s, key) == NULL) {
    gloo_status status = on_set(user, key, desired, desired_bytes);
    if (status == GLOO_OK && current != NULL)
      *current = value_copy(desired, desired_bytes);
    return status;
  }
  gloo_value value = {NULL, 0};
  gloo_status status = context_answer_with(s, answer, key, &value);
  if (status != GLOO_OK) return status;
  if (current != NULL)
    *current = value;
  else
    free(value.data);
  return GLOO_ERR_COMPARE;
}

/* ---- one input ----------------------------------------------------------- */

static void store_empty(context_store *s) {
  for (size_t i = 0; i < s->n; i++) free(s->values[i].value.data);
  free(s->record.data);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  context_store s = {.input = {data, bytes}};
  gloo_device *device = nowhere_open();
  uint8_t how = fuzz_take_u8(&s.input);
  gloo_store_callbacks lent = {.struct_size = sizeof lent};
  lent.user = &s;
  lent.set = on_set;
  lent.get = on_get;
  lent.wait = on_wait;
  if ((how & 1) == 0) lent.compare_and_set = on_compare;
  gloo_context_options o = GLOO_CONTEXT_OPTIONS_INIT;
  o.timeout_ns = 1000000;
  gloo_store *store;
  gloo_context *context;
  gloo_error error;
  fuzz_check(gloo_store_callbacks_create(&lent, &store, &error) == GLOO_OK,
             "the store is made");
  gloo_status status =
      gloo_context_create(0, SIZE, store, device, &o, &context, &error);
  fuzz_check_error(status, &error);
  if (status == GLOO_OK) gloo_context_destroy(context);
  gloo_store_destroy(store);
  store_empty(&s);
  nowhere_close(device);
  return 0;
}
