/* `gloo info --tuning`: which algorithm is chosen from which size on, found out
 * by asking for one choice after the other. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "api/tuning.h"
#include "core/cpu.h"
#include "plan/shape.h"
#include "tools/info.h"
#include "tools/tools.h"

#define ELEMENT_BYTES 4
#define LONGEST ((uint64_t)1 << 34) /* elements */

typedef struct text {
  char data[1024];
  size_t used;
} text;

static void put(text *t, const char *from, const char *to) {
  int n =
      snprintf(t->data + t->used, sizeof t->data - t->used, "%s%s", from, to);
  if (n > 0 && (size_t)n < sizeof t->data - t->used) t->used += (size_t)n;
}

static const char *choice(gli_plan_params *p, uint64_t count) {
  p->count = count;
  return gli_algorithm_choose(p).algorithm->name;
}

/* The first count after `low` with another choice, which `high` has. */
static uint64_t find_change(gli_plan_params *p, uint64_t low, uint64_t high) {
  const char *before = choice(p, low);
  while (high - low > 1) {
    uint64_t middle = low + (high - low) / 2;
    if (choice(p, middle) == before)
      low = middle;
    else
      high = middle;
  }
  return high;
}

/* As an entry of a tuning file, without the collective. */
static void describe(gli_plan_params *p, text *t) {
  char size[GLI_BYTES_TEXT];
  uint64_t low = 0;
  bool lengths =
      p->collective != GLI_BARRIER && !gli_collective_pairwise(p->collective);
  put(t, "0-", "");
  for (uint64_t high = 1; lengths && high <= LONGEST; high *= 2) {
    while (choice(p, low) != choice(p, high)) {
      const char *before = choice(p, low);
      low = find_change(p, low, high);
      p->count = low;
      gli_format_bytes(gli_plan_vector_bytes(p), size);
      put(t, size, "=");
      put(t, before, ",");
      put(t, size, "-");
    }
    low = high;
  }
  put(t, "=", choice(p, low));
}

/* What is known of ranks that are not there. */
static gli_plan_params assume(const gli_info_tuning *what) {
  return (gli_plan_params){.size = (uint32_t)what->ranks,
                           .crowded = what->ranks > gli_cpu_effective(),
                           .near = what->near};
}

int gli_info_print_tuning(const gli_info_tuning *what, gli_json *out) {
  gli_tuning *tuning;
  gloo_error error;
  if (gli_tuning_load(&tuning, &error) != GLOO_OK) {
    fprintf(stderr, "gloo info: %s\n", error.message);
    return GLI_EXIT_FAILED;
  }
  if (out == NULL) {
    printf("# %" PRId64 " ranks on one host, %s, %u cores%s\n", what->ranks,
           what->near ? "in shared memory" : "over TCP", gli_cpu_effective(),
           tuning != NULL ? "; with choices from GLOO_ALGORITHM or "
                            "GLOO_TUNING_FILE"
                          : "");
  }
  for (int c = 0; c < GLI_COLLECTIVES; c++) {
    if (c == GLI_SENDRECV) continue;
    gli_plan_params p = assume(what);
    p.collective = (gli_collective)c;
    p.elem_bytes = c == GLI_BARRIER ? 1 : ELEMENT_BYTES;
    p.tuning = tuning;
    text t = {.used = 0};
    describe(&p, &t);
    const char *name = gli_collective_name(p.collective);
    if (out != NULL)
      gli_json_text(out, name, t.data);
    else
      printf("%s:%s\n", name, t.data);
  }
  free(tuning);
  return GLI_EXIT_OK;
}
