#include "window_ranks.h"

#include <stdlib.h>
#include <string.h>

const char *windows_transport = "auto";

void windows_run_with(int size, ranks_options o, rank_body body) {
  o.transport = windows_transport;
  ranks_run(size, &o, body);
}

void windows_run(int size, rank_body body) {
  windows_run_with(size, (ranks_options){0}, body);
}

void *windows_block(rank_env *env, enum kind kind, size_t bytes, int value) {
  void *memory = NULL;
  if (kind == MALLOCED) memory = malloc(bytes + 1);
  if (kind == SHARED)
    RANK_CHECK(env, gloo_alloc(bytes, &memory, NULL) == GLOO_OK);
  if (kind != OF_THE_WINDOW && memory == NULL) abort();
  if (memory) memset(memory, value, bytes);
  return memory;
}

void windows_block_free(enum kind kind, void *memory) {
  if (kind == MALLOCED) free(memory);
  if (kind == SHARED) gloo_free(memory);
}

gloo_window *windows_new(rank_env *env, void *memory, size_t bytes) {
  gloo_window *window = NULL;
  gloo_error error;
  gloo_status status =
      gloo_window_create(env->context, memory, bytes, NULL, &window, &error);
  if (status != GLOO_OK) rank_fail(env, __FILE__, __LINE__, error.message);
  return window;
}

static uint8_t pattern(int from, int to, size_t i) {
  return (uint8_t)(i * 31 + i / 251 + (size_t)from * 7 + (size_t)to * 13 + 1);
}

void windows_fill(uint8_t *data, int from, int to, size_t bytes) {
  for (size_t i = 0; i < bytes; i++) data[i] = pattern(from, to, i);
}

bool windows_is_filled(const uint8_t *data, int from, int to, size_t bytes) {
  size_t i = 0;
  while (i < bytes && data[i] == pattern(from, to, i)) i++;
  return i == bytes;
}

bool windows_are_mapped(void) {
  bool one_host = strcmp(windows_transport, "shm") == 0 ||
                  strcmp(windows_transport, "auto") == 0;
  return one_host && getenv("GLOO_CHECKSUM") == NULL;
}
