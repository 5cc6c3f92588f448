#include "rendezvous/bootstrap_failure.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/bytes.h"
#include "rendezvous/store.h"
#include "rendezvous/value.h"

/* The others look for a failure about once a second. */
#define LINGER_NS ((int64_t)3000000000)
#define FAILED_KEY "gloo/failed"
/* What it holds: 0 - status, rank that reports, rank at fault or -1, sentence.
 */
#define HEAD_BYTES ((size_t)12)

gli_rank_key gli_bootstrap_key(const char *what, uint32_t rank) {
  gli_rank_key key;
  snprintf(key.text, sizeof(key.text), "gloo/%s/%u", what, (unsigned)rank);
  return key;
}

gloo_status gli_bootstrap_wait(gloo_store *store, const char *what,
                               uint32_t size, const bool *who,
                               uint64_t deadline_ns, bool *present,
                               gloo_error *error) {
  gli_rank_key *texts = calloc(size, sizeof(*texts));
  const char **keys = calloc(size, sizeof(*keys));
  bool *there = calloc(size, sizeof(*there));
  gloo_status status = GLOO_ERR_NO_MEMORY;
  size_t n = 0;
  if (texts == NULL || keys == NULL || there == NULL) {
    gli_fail(error, status, -1, "no memory to wait for %u ranks",
             (unsigned)size);
    goto free_all;
  }
  for (uint32_t i = 0; i < size; i++) {
    if (who != NULL && !who[i]) continue;
    texts[n] = gli_bootstrap_key(what, i);
    keys[n] = texts[n].text;
    n++;
  }
  status = gli_store_fetch(store, keys, n, deadline_ns, NULL, there, error);
  for (uint32_t i = 0, k = 0; i < size; i++)
    present[i] =
        (who == NULL || who[i]) && (status == GLOO_OK || (k < n && there[k++]));

free_all:
  free(texts);
  free(keys);
  free(there);
  return status;
}

static void tell(gloo_store *store, uint32_t rank, const gloo_error *cause) {
  uint8_t data[HEAD_BYTES + GLOO_ERROR_MESSAGE_BYTES];
  size_t text_bytes = strlen(cause->message);
  gli_put_u32(data, (uint32_t)-cause->status);
  gli_put_u32(data + 4, rank);
  gli_put_u32(data + 8, (uint32_t)cause->rank);
  memcpy(data + HEAD_BYTES, cause->message, text_bytes);
  gloo_status status = gli_store_compare_and_set(
      store, FAILED_KEY, NULL, 0, data, HEAD_BYTES + text_bytes, NULL, NULL);
  if (status == GLOO_ERR_UNSUPPORTED)
    gli_store_set(store, FAILED_KEY, data, HEAD_BYTES + text_bytes, NULL);
}

/* Give those that have come the time to hear of it. With a wrong idea of the
 * size, the rank at fault may be one beyond ours. */
static void linger(gloo_store *store, uint32_t size, int at_fault) {
  uint64_t deadline = gli_deadline_after(LINGER_NS);
  bool *come = calloc(size, sizeof(*come));
  bool *gone = calloc(size, sizeof(*gone));
  if (come != NULL && gone != NULL) {
    gloo_status status =
        gli_bootstrap_wait(store, "rank", size, NULL, 0, come, NULL);
    if (status == GLOO_OK || status == GLOO_ERR_TIMEOUT)
      gli_bootstrap_wait(store, "done", size, come, deadline, gone, NULL);
  }
  free(come);
  free(gone);
  if (at_fault < 0 || (uint32_t)at_fault < size) return;
  gli_rank_key text = gli_bootstrap_key("done", (uint32_t)at_fault);
  const char *key = text.text;
  bool left = false;
  gli_store_fetch(store, &key, 1, deadline, NULL, &left, NULL);
}

void gli_bootstrap_give_up(gloo_store *store, uint32_t rank, uint32_t size,
                           bool published, const gloo_error *cause) {
  gli_rank_key key = gli_bootstrap_key("done", rank);
  /* Then it is the store that is gone, or useless. */
  if (cause->status == GLOO_ERR_PEER || cause->status == GLOO_ERR_IO) return;
  tell(store, rank, cause);
  if (published && gli_store_set(store, key.text, "1", 1, NULL) != GLOO_OK)
    return;
  if (gli_store_serves(store)) linger(store, size, cause->rank);
}

gloo_status gli_bootstrap_heard(gloo_store *store, gloo_error *error) {
  const char *key = FAILED_KEY;
  gloo_value value = {NULL, 0};
  bool present;
  gloo_status status =
      gli_store_fetch(store, &key, 1, 0, &value, &present, error);
  if (status == GLOO_ERR_TIMEOUT) return GLOO_OK;
  if (status != GLOO_OK) return status;
  const uint8_t *data = value.data;
  if (value.bytes < HEAD_BYTES || gli_get_u32(data) == 0 ||
      gli_get_u32(data) > (uint32_t)-GLOO_ERR_INTERNAL) {
    status =
        gli_fail(error, GLOO_ERR_PROTOCOL, -1,
                 "key '" FAILED_KEY "' in %s was not written by this library",
                 store->label);
  } else {
    size_t bytes = value.bytes - HEAD_BYTES;
    if (bytes > GLOO_ERROR_MESSAGE_BYTES) bytes = GLOO_ERROR_MESSAGE_BYTES;
    uint32_t fault = gli_get_u32(data + 8);
    status = gli_fail(error, -(gloo_status)gli_get_u32(data),
                      fault > INT32_MAX ? -1 : (int)fault,
                      "rank %u reports: %.*s", (unsigned)gli_get_u32(data + 4),
                      (int)bytes, (const char *)data + HEAD_BYTES);
  }
  gli_value_free(&value);
  return status;
}
