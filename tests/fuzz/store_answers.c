#include "store_answers.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- stored values ------------------------------------------------------- */

gloo_value answers_copy(const void *data, size_t bytes) {
  gloo_value copy = {malloc(bytes + 1), bytes};
  fuzz_check(copy.data != NULL, "there is memory");
  if (bytes > 0) memcpy(copy.data, data, bytes);
  return copy;
}

const gloo_value *answers_find(const store_answers *s, const char *key) {
  for (size_t i = 0; i < s->n; i++)
    if (strcmp(s->values[i].key, key) == 0) return &s->values[i].value;
  return NULL;
}

int answers_rank(const char *key) {
  const char *at = strstr(key, "gloo/rank/");
  if (at == NULL) return -1;
  char last = key[strlen(key) - 1];
  return last >= '0' && last <= '9' ? last - '0' : -1;
}

static void answers_set(store_answers *s, const char *key, const void *data,
                        size_t bytes) {
  gloo_value *old = (gloo_value *)answers_find(s, key);
  if (old != NULL) {
    free(old->data);
    *old = answers_copy(data, bytes);
  } else if (s->n < ANSWERS_VALUES && strlen(key) < ANSWERS_KEY_BYTES) {
    strcpy(s->values[s->n].key, key);
    s->values[s->n++].value = answers_copy(data, bytes);
  }
}

/* ---- the callbacks ------------------------------------------------------- */

typedef enum answer {
  ANSWER_RIGHT,
  ANSWER_CHANGED, /* XORed with a piece */
  ANSWER_PIECE,   /* the piece alone */
  ANSWER_FAILURE, /* a status */
  ANSWERS
} answer;

static answer answers_ask(store_answers *s) {
  return (answer)(fuzz_take_u8(&s->input) % ANSWERS);
}

static gloo_status answers_fail(store_answers *s) {
  return (gloo_status)(-(int)(fuzz_take_u8(&s->input) % 32));
}

static gloo_status on_set(void *user, const char *key, const void *data,
                          size_t bytes) {
  store_answers *s = user;
  if (answers_ask(s) == ANSWER_FAILURE) return answers_fail(s);
  answers_set(s, key, data, bytes);
  return GLOO_OK;
}

static gloo_status answers_right(store_answers *s, const char *key,
                                 gloo_value *value) {
  const gloo_value *there = answers_find(s, key);
  if (there == NULL) return s->missing(s, key, value);
  *value = answers_copy(there->data, there->bytes);
  return GLOO_OK;
}

static gloo_status answers_with(store_answers *s, answer how, const char *key,
                                gloo_value *value) {
  if (how == ANSWER_FAILURE) return answers_fail(s);
  if (how == ANSWER_RIGHT) return answers_right(s, key, value);
  fuzz_input piece = fuzz_take_piece(&s->input);
  if (how == ANSWER_PIECE) {
    *value = piece.left > 0 ? answers_copy(piece.at, piece.left)
                            : (gloo_value){NULL, 0};
    return GLOO_OK;
  }
  /* Changes start at the last byte, near the addresses of transports. */
  gloo_status status = answers_right(s, key, value);
  for (size_t i = 0; status == GLOO_OK && i < value->bytes && piece.left > 0;
       i++)
    ((uint8_t *)value->data)[value->bytes - 1 - i] ^= fuzz_take_u8(&piece);
  return status;
}

static gloo_status on_get(void *user, const char *key, int64_t timeout_ns,
                          gloo_value *value) {
  store_answers *s = user;
  (void)timeout_ns;
  return answers_with(s, answers_ask(s), key, value);
}

static gloo_status on_wait(void *user, const char *const *keys, size_t n_keys,
                           int64_t timeout_ns) {
  store_answers *s = user;
  (void)timeout_ns;
  if (answers_ask(s) == ANSWER_FAILURE) return answers_fail(s);
  for (size_t i = 0; i < n_keys; i++) {
    gloo_value value = {NULL, 0};
    gloo_status status = answers_right(s, keys[i], &value);
    free(value.data);
    if (status != GLOO_OK) return status;
  }
  return GLOO_OK;
}

static gloo_status on_add(void *user, const char *key, int64_t amount,
                          int64_t *result) {
  store_answers *s = user;
  answer how = answers_ask(s);
  if (how == ANSWER_FAILURE) return answers_fail(s);
  gloo_value old = {NULL, 0};
  char text[24] = "0";
  if (answers_right(s, key, &old) == GLOO_OK)
    memcpy(text, old.data, old.bytes < sizeof text ? old.bytes : 1);
  free(old.data);
  text[sizeof text - 1] = '\0';
  uint64_t sum = (uint64_t)strtoll(text, NULL, 10) + (uint64_t)amount;
  if (how != ANSWER_RIGHT) sum ^= fuzz_take_u64(&s->input);
  snprintf(text, sizeof text, "%" PRId64, (int64_t)sum);
  answers_set(s, key, text, strlen(text));
  *result = (int64_t)sum;
  return GLOO_OK;
}

static gloo_status on_compare(void *user, const char *key, const void *expected,
                              size_t expected_bytes, const void *desired,
                              size_t desired_bytes, gloo_value *current) {
  store_answers *s = user;
  answer how = answers_ask(s);
  (void)expected;
  if (how == ANSWER_RIGHT && expected_bytes == 0 &&
      answers_find(s, key) == NULL) {
    gloo_status status = on_set(user, key, desired, desired_bytes);
    if (status == GLOO_OK && current != NULL)
      *current = answers_copy(desired, desired_bytes);
    return status;
  }
  gloo_value value = {NULL, 0};
  gloo_status status = answers_with(s, how, key, &value);
  if (status != GLOO_OK) return status;
  if (current != NULL)
    *current = value;
  else
    free(value.data);
  return GLOO_ERR_COMPARE;
}

/* ---- for targets --------------------------------------------------------- */

gloo_store *answers_store(store_answers *s, bool compares) {
  gloo_store_callbacks lent = {.struct_size = sizeof lent,
                               .user = s,
                               .set = on_set,
                               .get = on_get,
                               .wait = on_wait,
                               .add = on_add};
  gloo_store *store;
  gloo_error error;
  if (compares) lent.compare_and_set = on_compare;
  fuzz_check(gloo_store_callbacks_create(&lent, &store, &error) == GLOO_OK,
             "the store is made");
  return store;
}

void answers_end(store_answers *s) {
  for (size_t i = 0; i < s->n; i++) free(s->values[i].value.data);
}
