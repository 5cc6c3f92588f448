/* Helpers for tests of windows. */
#ifndef TESTS_RANKS_WINDOW_RANKS_H
#define TESTS_RANKS_WINDOW_RANKS_H

#include <stdbool.h>

#include "ranks.h"

extern const char *windows_transport;

void windows_run_with(int size, ranks_options o, rank_body body);
void windows_run(int size, rank_body body);

/* Memory of every kind. */
enum kind { MALLOCED, SHARED, OF_THE_WINDOW, KINDS };

/* Returns a block filled with `value`, or NULL if the window is to allocate
 * it. */
void *windows_block(rank_env *env, enum kind kind, size_t bytes, int value);
void windows_block_free(enum kind kind, void *memory);
/* Returns NULL, and records a failure, if the window cannot be made. */
gloo_window *windows_new(rank_env *env, void *memory, size_t bytes);

/* Fills memory with bytes that depend on two numbers, and looks for them. */
void windows_fill(uint8_t *data, int from, int to, size_t bytes);
bool windows_is_filled(const uint8_t *data, int from, int to, size_t bytes);

/* Returns true if windows of SHARED memory are mapped. */
bool windows_are_mapped(void);

#endif
