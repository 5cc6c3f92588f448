/* `gloo info --tuning`: the algorithm that is chosen from each size on, found
 * by querying one choice after the other, and the costs behind the choices. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "api/tuning_file.h"
#include "core/cpu.h"
#include "core/text.h"
#include "engine/engine.h"
#include "plan/shape.h"
#include "tools/info.h"
#include "tools/run.h"
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

/* Returns the first count after `low` with the other choice, which `high` has.
 */
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

/* Writes an entry of a tuning file, without the collective. */
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

static const char *subscription_word(gli_subscription crowding) {
  static const char *const words[] = {
      "a core per rank", "more ranks than cores",
      "more ranks than cores, each bound to one"};
  return words[crowding];
}

/* Assumes the binding that `gloo run` would use. */
static gli_subscription assume_subscription(int64_t ranks) {
  if (ranks <= gli_cpu_effective()) return GLI_CORE_EACH;
  return gli_run_pins((int)ranks) ? GLI_PINNED : GLI_OVERSUBSCRIBED;
}

/* Returns the parameters of a job's ranks, or of assumed ranks. */
static gli_plan_params assume(const gli_info_tuning *what,
                              const gli_tuning *tuning) {
  const gloo_context *context = what->context;
  if (context == NULL)
    return (gli_plan_params){.size = (uint32_t)what->ranks,
                             .oversubscribed = assume_subscription(what->ranks),
                             .locality = what->locality,
                             .tuning = tuning};
  return (gli_plan_params){
      .size = (uint32_t)gloo_context_size(context),
      .hosts = gli_context_hosts(context),
      .oversubscribed = gli_context_oversubscribed(context),
      .locality = gli_context_locality(context),
      .tuning = tuning};
}

static void print_costs(const gli_costs *costs, gli_json *out) {
  text t = {.used = 0};
  for (int i = 0; i < GLI_LINK_KINDS; i++) {
    char link[96];
    snprintf(link, sizeof link, "%s %u ns and %u ps per byte, ",
             gli_link_kind_name((gli_link_kind)i), costs->link[i].alpha_ns,
             costs->link[i].beta_ps);
    put(&t, link, "");
  }
  char reducing[64];
  snprintf(reducing, sizeof reducing, "reducing %u ps per byte",
           costs->gamma_ps);
  put(&t, reducing, "");
  bool estimates = gli_costs_hash(costs) == gli_costs_hash(&gli_costs_estimate);
  if (out != NULL) {
    gli_json_text(out, "costs", t.data);
  } else {
    printf("# costs (%s): %s\n", estimates ? "estimates" : "as measured",
           t.data);
  }
}

static void print_choices(const gli_info_tuning *what, const gli_tuning *tuning,
                          gli_json *out) {
  for (int c = 0; c < GLI_COLLECTIVES; c++) {
    if (c == GLI_SENDRECV) continue;
    gli_plan_params p = assume(what, tuning);
    p.collective = (gli_collective)c;
    p.elem_bytes = c == GLI_BARRIER ? 1 : ELEMENT_BYTES;
    text t = {.used = 0};
    describe(&p, &t);
    const char *name = gli_collective_name(p.collective);
    if (out != NULL)
      gli_json_text(out, name, t.data);
    else
      printf("%s:%s\n", name, t.data);
  }
}

static const char *locality_word(gli_locality locality) {
  switch (locality) {
    case GLI_INTER_NODE:
      return "over TCP";
    case GLI_INTRA_NODE:
      return "in shared memory";
    case GLI_MAPPED:
      return "in shared buffers";
  }
  return "";
}

static void print_heading(const gli_info_tuning *what, bool told) {
  gli_plan_params p = assume(what, NULL);
  const char *by = told ? "; with choices from GLOO_ALGORITHM or "
                          "GLOO_TUNING_FILE"
                        : "";
  if (p.hosts != NULL) {
    printf("# %s on %s, %s%s\n", gli_count(p.size, "rank").text,
           gli_count(p.hosts->n, "host").text,
           p.locality == GLI_MAPPED       ? "shared buffers within"
           : p.locality == GLI_INTRA_NODE ? "shared memory within"
                                          : "TCP",
           by);
  } else if (what->context != NULL) {
    printf("# %s on one host, %s, %s%s\n", gli_count(p.size, "rank").text,
           locality_word(p.locality), subscription_word(p.oversubscribed), by);
  } else {
    printf("# %s on one host, %s, %s%s\n", gli_count(p.size, "rank").text,
           locality_word(p.locality), subscription_word(p.oversubscribed), by);
  }
}

int gli_info_print_tuning(const gli_info_tuning *what, gli_json *out) {
  gli_tuning *loaded = NULL;
  const gli_tuning *tuning;
  gloo_error error;
  if (what->context != NULL) {
    tuning = gli_context_tuning(what->context);
  } else if (gli_tuning_load(&loaded, &error) == GLOO_OK) {
    tuning = loaded;
  } else {
    fprintf(stderr, "gloo info: %s\n", error.message);
    return GLI_EXIT_FAILED;
  }
  if (out == NULL) print_heading(what, tuning != NULL && tuning->n > 0);
  print_costs(tuning != NULL ? &tuning->costs : &gli_costs_estimate, out);
  print_choices(what, tuning, out);
  free(loaded);
  return GLI_EXIT_OK;
}
