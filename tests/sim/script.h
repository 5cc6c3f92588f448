/* The script of a simulated job: a list of calls drawn from a seed, the input
 * of each rank, and the expected results. */
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
  bool any;          /* received from any rank */
  int again_of;      /* restarts the operation of this earlier call, or -1 */
  uint8_t *expected; /* all outputs together; NULL until computed */
} script_call;

typedef struct script {
  uint64_t seed;
  uint32_t ranks;
  bool heavy; /* few ranks, which send more than a peer may park */
  int n_calls;
  script_call calls[SCRIPT_CALLS_MAX];
} script;

void script_make(script *s, uint64_t seed);
/* Replaces the drawn calls by one message, received from any rank. */
void script_have_one_message(script *s, uint32_t from, uint32_t to);
void script_free(script *s);

uint64_t script_random(uint64_t *state);

/* Returns true if the rank takes part in the call; always for collectives. */
bool script_involves(const script_call *c, uint32_t rank);

/* Sizes of a rank's buffers in bytes. */
size_t script_in_bytes(const script *s, const script_call *c, uint32_t rank);
size_t script_out_bytes(const script *s, const script_call *c, uint32_t rank);
/* Offset in the output of the input of an in-place call. */
size_t script_in_place_offset(const script_call *c, uint32_t rank);

/* Writes the input of a rank, script_in_bytes long. */
void script_input(const script *s, int call, uint32_t rank, void *data);

/* Returns the expected start of a rank's output, and its length. Not for `any`
 * calls. */
const uint8_t *script_expected(script *s, int call, uint32_t rank,
                               size_t *bytes);

/* Returns the call of the k-th message from `from` to `to` among `any`
 * calls. */
int script_nth_any(const script *s, uint32_t from, uint32_t to, int k);

/* Writes one line that describes the call, for failure messages. */
void script_describe(const script *s, int call, char text[160]);

#endif
