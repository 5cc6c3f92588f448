/* The store while a context is created: the input holds its answers. Where the
 * input gives none, the other ranks have published the same record as rank
 * 0. */
#include <string.h>

#include "core/bytes.h"
#include "gloo_c/gloo_c.h"
#include "nowhere.h"
#include "store_answers.h"

enum { SIZE = 3, RANK_AT = 8 };

static gloo_status context_record(store_answers *s, const char *key,
                                  gloo_value *value) {
  const gloo_value *own = answers_find(s, "gloo/rank/0");
  if (answers_rank(key) < 0 || own == NULL) return GLOO_ERR_TIMEOUT;
  *value = answers_copy(own->data, own->bytes);
  if (value->bytes >= RANK_AT + 4)
    gli_put_u32((uint8_t *)value->data + RANK_AT, (uint32_t)answers_rank(key));
  return GLOO_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  store_answers s = {.input = {data, bytes}, .missing = context_record};
  gloo_device *device = nowhere_open();
  uint8_t how = fuzz_take_u8(&s.input);
  gloo_store *store = answers_store(&s, (how & 1) == 0);
  gloo_context_options o = GLOO_CONTEXT_OPTIONS_INIT;
  o.timeout_ns = 1000000;
  gloo_context *context;
  gloo_error error;
  gloo_status status =
      gloo_context_create(0, SIZE, store, device, &o, &context, &error);
  fuzz_check_error(status, &error);
  if (status == GLOO_OK) gloo_context_destroy(context);
  gloo_store_destroy(store);
  answers_end(&s);
  nowhere_close(device);
  return 0;
}
