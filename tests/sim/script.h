/* What all ranks of a simulated job do: a list of calls drawn from a seed, the
 * data that each rank puts in, and what must come out. */
#ifndef TESTS_SIM_SCRIPT_H
#define TESTS_SIM_SCRIPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/collective.h"
#include "gloo_c/types.h"

enum { SCRIPT_CALLS_MAX = 16, SCRIPT_RANKS_MAX = 9, SCRIPT_ANY_TAG = 77 };

typedef struct script_call {
  gli_collective collective;
  const char *algorithm; /* NULL: chosen */
  uint64_t count;
  gloo_dtype dtype;
  gloo_op op;
  uint32_t root;
  uint32_t tag;
  bool in_place;
  uint32_t from, to; /* of a message */
  bool any;          /* received from whoever sends first */
  int again_of;      /* restarts the operation of this earlier call, or -1 */
  uint8_t *expected; /* what all outputs hold together, once it was computed */
} script_call;

typedef struct script {
  uint64_t seed;
  uint32_t ranks;
  bool heavy; /* few ranks that send each other more than they may park */
  int n_calls;
  script_call calls[SCRIPT_CALLS_MAX];
} script;

void script_make(script *s, uint64_t seed);
/* In place of what was drawn: one that is received from any rank. */
void script_have_one_message(script *s, uint32_t from, uint32_t to);
void script_free(script *s);

uint64_t script_random(uint64_t *state);

/* Does this rank take part in a call? Collectives: always. */
bool script_involves(const script_call *c, uint32_t rank);

/* Bytes of a rank's buffers. */
size_t script_in_bytes(const script *s, const script_call *c, uint32_t rank);
size_t script_out_bytes(const script *s, const script_call *c, uint32_t rank);
/* Where in the output the input of an in-place call is. */
size_t script_in_place_offset(const script_call *c, uint32_t rank);

/* What a rank puts in; script_in_bytes long. */
void script_input(const script *s, int call, uint32_t rank, void *data);

/* What must be at the start of a rank's output, and how many bytes of it. Not
 * for `any` calls. */
const uint8_t *script_expected(script *s, int call, uint32_t rank,
                               size_t *bytes);

/* The k-th message that `from` sends to `to` for `any` calls: its call. */
int script_nth_any(const script *s, uint32_t from, uint32_t to, int k);

/* One line for messages about a failure. */
void script_describe(const script *s, int call, char text[160]);

#endif
