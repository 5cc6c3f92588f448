/* A store of callbacks whose answers are the input: a byte for each call, and
 * perhaps a piece. Beyond the end of the input the answers are correct. */
#ifndef TESTS_FUZZ_STORE_ANSWERS_H
#define TESTS_FUZZ_STORE_ANSWERS_H

#include "fuzz.h"
#include "gloo_c/store.h"

enum { ANSWERS_VALUES = 32, ANSWERS_KEY_BYTES = 96 };

typedef struct store_answers {
  fuzz_input input;
  /* Answers for a key that was not set; GLOO_ERR_TIMEOUT: no value. The caller
   * frees `value`. */
  gloo_status (*missing)(struct store_answers *s, const char *key,
                         gloo_value *value);
  struct {
    char key[ANSWERS_KEY_BYTES];
    gloo_value value;
  } values[ANSWERS_VALUES];
  size_t n;
} store_answers;

/* Returns a copy; the caller frees it. */
gloo_value answers_copy(const void *data, size_t bytes);
/* Returns the value of the key, or NULL. */
const gloo_value *answers_find(const store_answers *s, const char *key);
/* Returns the rank whose record is under the key, or -1 if none is. */
int answers_rank(const char *key);

/* Makes the store; with `compares` it has compare_and_set. */
gloo_store *answers_store(store_answers *s, bool compares);
/* Frees the values, after the store was destroyed. */
void answers_end(store_answers *s);

#endif
