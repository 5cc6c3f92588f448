/* gloo plan: prints, checks and simulates plans. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/reduce.h"
#include "proof/print.h"
#include "tools/plan_picture.h"
#include "tools/plan_tool.h"
#include "tools/tools.h"

enum { MAX_RANKS = 1000000 };

static bool list = false, check = false, check_all = false, simulate = false;
static bool docs = false, in_place = false, reach = false;
static bool svg = false, dot = false, json = false;
static const char *algorithm_name = NULL, *ranks_text = NULL;
static const char *dtype_name = "float32";
static const char *hosts_text = NULL;
static int64_t rank = -1, root = 0, count = 1024;
static uint64_t segment = UINT64_MAX;
static const char *alpha = NULL, *beta = NULL, *gap = NULL, *overhead = NULL;
static const char *alpha_inside = NULL, *beta_inside = NULL;
static const char *overhead_inside = NULL, *gamma_text = NULL;

static const gli_option options[] = {
    {"list", 0, GLI_OPTION_FLAG, &list, NULL,
     "print the collectives and their algorithms", 0, 0},
    {"ranks", 'n', GLI_OPTION_TEXT, &ranks_text, "N",
     "number of ranks; with --check-all also a range, 1-64", 0, 0},
    {"rank", 'r', GLI_OPTION_INTEGER, &rank, "R",
     "rank to print (0; with --json all)", 0, MAX_RANKS},
    {"algorithm", 'a', GLI_OPTION_TEXT, &algorithm_name, "NAME",
     "algorithm (the library's choice)", 0, 0},
    {"count", 'c', GLI_OPTION_INTEGER, &count, "N",
     "number of elements, the count of the call (1024)", 0, INT64_MAX},
    {"dtype", 't', GLI_OPTION_TEXT, &dtype_name, "TYPE",
     "element type (float32)", 0, 0},
    {"root", 0, GLI_OPTION_INTEGER, &root, "R", "root of a broadcast (0)", 0,
     MAX_RANKS},
    {"in-place", 0, GLI_OPTION_FLAG, &in_place, NULL, "operate in place", 0, 0},
    {"segment", 's', GLI_OPTION_BYTES, &segment, "BYTES",
     "split steps into segments; 0: do not (the library's choice)", 0,
     INT64_MAX},
    {"svg", 0, GLI_OPTION_FLAG, &svg, NULL,
     "draw the messages and steps of all ranks as SVG", 0, 0},
    {"dot", 0, GLI_OPTION_FLAG, &dot, NULL,
     "print the steps of all ranks as a graph for Graphviz", 0, 0},
    {"json", 0, GLI_OPTION_FLAG, &json, NULL,
     "print one JSON object per rank (docs/formats.md)", 0, 0},
    {"check", 0, GLI_OPTION_FLAG, &check, NULL,
     "prove the plans of all ranks correct", 0, 0},
    {"check-all", 0, GLI_OPTION_FLAG, &check_all, NULL,
     "prove every algorithm correct for --ranks A-B", 0, 0},
    {"docs", 0, GLI_OPTION_FLAG, &docs, NULL,
     "print docs/internals/algorithms.md", 0, 0},
    {"simulate", 0, GLI_OPTION_FLAG, &simulate, NULL,
     "estimate the time in a model of a machine", 0, 0},
    {"hosts", 0, GLI_OPTION_TEXT, &hosts_text, "HOSTS",
     "hosts of the ranks: 4, 4x2, 2+3 or 0,0,1,1 (one host)", 0, 0},
    {"reach", 0, GLI_OPTION_FLAG, &reach, NULL,
     "simulate: ranks of a host access each other's memory", 0, 0},
    {"alpha-us", 0, GLI_OPTION_TEXT, &alpha, "US",
     "simulate: latency across hosts (1.5)", 0, 0},
    {"beta-gbps", 0, GLI_OPTION_TEXT, &beta, "GB/S",
     "simulate: 10^9 bytes per second across (12.5)", 0, 0},
    {"gap-us", 0, GLI_OPTION_TEXT, &gap, "US",
     "simulate: link time between messages across (0.1)", 0, 0},
    {"overhead-us", 0, GLI_OPTION_TEXT, &overhead, "US",
     "simulate: processor time per message across (0.5)", 0, 0},
    {"alpha-inside-us", 0, GLI_OPTION_TEXT, &alpha_inside, "US",
     "simulate: latency inside a host (0.15)", 0, 0},
    {"beta-inside-gbps", 0, GLI_OPTION_TEXT, &beta_inside, "GB/S",
     "simulate: 10^9 bytes per second inside (10)", 0, 0},
    {"overhead-inside-us", 0, GLI_OPTION_TEXT, &overhead_inside, "US",
     "simulate: processor time per message inside (0.1)", 0, 0},
    {"gamma-gbps", 0, GLI_OPTION_TEXT, &gamma_text, "GB/S",
     "simulate: 10^9 bytes reduced or copied per second (7)", 0, 0},
};

static const gli_command command = {
    .name = "plan",
    .usage = "gloo plan COLLECTIVE --ranks N [options]",
    .about =
        "Prints the steps of rank R; with --svg, --dot or --json those of all\n"
        "ranks as a picture, graph or data. With --check, proves the plans of\n"
        "all ranks correct together; with --simulate, estimates their time.\n"
        "'gloo plan --list' lists the collectives and algorithms. 'gloo plan\n"
        "bootstrap --simulate' estimates the time that the ranks need to\n"
        "connect.\n",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
};

/* ---- names --------------------------------------------------------------- */

static int compare_algorithms(const void *left, const void *right) {
  const gli_algorithm *a = *(const gli_algorithm *const *)left;
  const gli_algorithm *b = *(const gli_algorithm *const *)right;
  int order = strcmp(gli_collective_name(a->collective),
                     gli_collective_name(b->collective));
  return order != 0 ? order : strcmp(a->name, b->name);
}

int gli_plan_list(void) {
  const gli_algorithm **sorted = calloc(gli_algorithm_count, sizeof *sorted);
  if (sorted == NULL) {
    fprintf(stderr, "gloo plan: out of memory\n");
    return GLI_EXIT_FAILED;
  }
  for (size_t i = 0; i < gli_algorithm_count; i++)
    sorted[i] = &gli_algorithms[i];
  qsort(sorted, gli_algorithm_count, sizeof *sorted, compare_algorithms);
  for (size_t i = 0; i < gli_algorithm_count; i++) {
    const gli_algorithm *a = sorted[i];
    printf("%-15s  %-23s  %s\n", gli_collective_name(a->collective), a->name,
           a->summary != NULL ? a->summary : "");
  }
  free(sorted);
  return GLI_EXIT_OK;
}

static bool has_algorithms(gli_collective collective) {
  for (size_t i = 0; i < gli_algorithm_count; i++) {
    if (gli_algorithms[i].collective == collective) return true;
  }
  return false;
}

static int unknown_collective(const char *name) {
  fprintf(stderr, "gloo plan: unknown collective '%s'; valid:", name);
  const char *comma = "";
  for (int c = 0; c < GLI_COLLECTIVES; c++) {
    if (!has_algorithms((gli_collective)c)) continue;
    fprintf(stderr, "%s %s", comma, gli_collective_name((gli_collective)c));
    comma = ",";
  }
  fprintf(stderr, "\n");
  return GLI_EXIT_USAGE;
}

static void unknown_algorithm(const char *name, gli_collective collective) {
  fprintf(stderr, "gloo plan: unknown %s algorithm '%s'; valid:",
          gli_collective_name(collective), name);
  const char *comma = "";
  for (size_t i = 0; i < gli_algorithm_count; i++) {
    if (gli_algorithms[i].collective != collective) continue;
    fprintf(stderr, "%s %s", comma, gli_algorithms[i].name);
    comma = ",";
  }
  fprintf(stderr, "\n");
}

/* ---- numbers ------------------------------------------------------------- */

static bool parse_u32(const char *text, char stop, const char **end,
                      uint32_t *value) {
  if (*text < '0' || *text > '9') return false;
  char *after;
  errno = 0;
  unsigned long number = strtoul(text, &after, 10);
  if (errno != 0 || number < 1 || number > MAX_RANKS) return false;
  if (*after != stop && *after != 0) return false;
  *end = after;
  *value = (uint32_t)number;
  return true;
}

/* Parses "8" or, if `to` is not NULL, "1-64". */
static bool parse_ranks(uint32_t *from, uint32_t *to) {
  const char *end;
  if (!parse_u32(ranks_text, to != NULL ? '-' : 0, &end, from)) return false;
  if (to != NULL) *to = *from;
  if (*end == 0) return true;
  return parse_u32(end + 1, 0, &end, to) && *from <= *to;
}

static bool parse_positive(const char *option, const char *text, bool zero_ok,
                           double *value) {
  if (text == NULL) return true;
  char *end;
  double number = strtod(text, &end);
  if (end != text && *end == 0 && isfinite(number) && number <= 1e9 &&
      (zero_ok ? number >= 0 : number >= 1e-6)) {
    *value = number;
    return true;
  }
  gli_usage_error(&command, "option --%s: '%s' is not a number %s, up to 1e9",
                  option, text, zero_ok ? "of 0 or more" : "above 1e-6");
  return false;
}

static bool parse_us(const char *option, const char *text, double *ns) {
  double us = *ns / 1000;
  if (!parse_positive(option, text, true, &us)) return false;
  *ns = us * 1000;
  return true;
}

static bool parse_gbps(const char *option, const char *text,
                       double *ns_per_byte) {
  double gbps = 1 / *ns_per_byte;
  if (!parse_positive(option, text, false, &gbps)) return false;
  if (text != NULL) *ns_per_byte = 1 / gbps;
  return true;
}

static bool parse_model(gli_sim_model *m) {
  *m = (gli_sim_model)GLI_SIM_MODEL_DEFAULT;
  m->reach = reach;
  double reduce = m->reduce_ns;
  bool ok =
      parse_us("alpha-us", alpha, &m->across.latency_ns) &&
      parse_gbps("beta-gbps", beta, &m->across.per_byte_ns) &&
      parse_us("gap-us", gap, &m->across.gap_ns) &&
      parse_us("overhead-us", overhead, &m->across.overhead_ns) &&
      parse_us("alpha-inside-us", alpha_inside, &m->inside.latency_ns) &&
      parse_gbps("beta-inside-gbps", beta_inside, &m->inside.per_byte_ns) &&
      parse_us("overhead-inside-us", overhead_inside, &m->inside.overhead_ns) &&
      parse_gbps("gamma-gbps", gamma_text, &reduce);
  if (gamma_text != NULL) m->reduce_ns = m->copy_ns = reduce;
  return ok;
}

/* ---- the question -------------------------------------------------------- */

gli_plan_params gli_plan_params_for(const gli_plan_question *q,
                                    const gli_algorithm *algorithm) {
  gli_plan_params p = q->params;
  if (!q->segment_given) p.segment_bytes = gli_segment_bytes(algorithm, &p);
  return p;
}

static bool ask_ranks(gli_plan_params *p) {
  if (ranks_text == NULL) {
    gli_usage_error(&command,
                    "option --ranks is required: the number of ranks");
    return false;
  }
  if (!parse_ranks(&p->size, NULL)) {
    gli_usage_error(&command,
                    "option --ranks: '%s' is not a whole number from 1 to %d",
                    ranks_text, MAX_RANKS);
    return false;
  }
  if (rank >= p->size || root >= p->size) {
    gli_usage_error(&command,
                    "option --%s: %" PRId64
                    " is out of range: the number of ranks is %u",
                    rank >= p->size ? "rank" : "root",
                    rank >= p->size ? rank : root, p->size);
    return false;
  }
  p->rank = rank < 0 ? 0 : (uint32_t)rank;
  p->root = (uint32_t)root;
  return true;
}

static bool ask_hosts(gli_plan_params *p, gli_hosts **hosts) {
  gloo_error error;
  if (hosts_text == NULL) return true;
  if (gli_plan_hosts(hosts_text, p->size, hosts, &error) != GLOO_OK) {
    gli_usage_error(&command, "option --hosts: %s", error.message);
    return false;
  }
  if ((*hosts)->n > 1) p->hosts = *hosts;
  return true;
}

static bool ask_elements(gli_plan_params *p) {
  gloo_dtype dtype;
  if (!gli_dtype_from_name(dtype_name, &dtype)) {
    fprintf(stderr, "gloo plan: unknown type '%s'; valid:", dtype_name);
    for (int i = 0; i < GLOO_DTYPE_COUNT; i++) {
      fprintf(stderr, "%s %s", i == 0 ? "" : ",",
              gloo_dtype_name((gloo_dtype)i));
    }
    fprintf(stderr, "\n");
    return false;
  }
  p->elem_bytes = gloo_dtype_size(dtype);
  p->low_precision = gli_collective_reduces(p->collective) &&
                     gli_dtype_is_low_precision(dtype);
  p->count = (uint64_t)count;
  if (p->collective == GLI_BARRIER) {
    p->elem_bytes = 1;
    p->count = 0;
  }
  p->in_place = in_place;
  p->segment_bytes = segment == UINT64_MAX ? 0 : segment;
  uint64_t in, out;
  if (gli_plan_buffer_bytes(p, &in, &out)) return true;
  gli_usage_error(&command,
                  "option --count: %" PRId64
                  " elements from %u ranks exceed the address space",
                  count, p->size);
  return false;
}

static bool ask_algorithm(gli_plan_question *q) {
  q->segment_given = segment != UINT64_MAX;
  q->algorithm_given = algorithm_name != NULL;
  if (!q->algorithm_given) {
    q->algorithm = gli_algorithm_select(&q->params);
    return true;
  }
  q->algorithm = gli_algorithm_find(q->params.collective, algorithm_name);
  if (q->algorithm != NULL) return true;
  unknown_algorithm(algorithm_name, q->params.collective);
  return false;
}

int gli_plan_print(const gli_plan_question *q) {
  gloo_error error;
  gli_plan *plan;
  gli_plan_params p = gli_plan_params_for(q, q->algorithm);
  gloo_status status = gli_plan_make(q->algorithm->build, &p, &plan, &error);
  if (status != GLOO_OK) {
    fprintf(stderr, "gloo plan: %s\n", error.message);
    return GLI_EXIT_FAILED;
  }
  printf("algorithm %s%s", q->algorithm->name,
         q->algorithm_given ? "" : " (chosen)");
  if (p.segment_bytes != 0) {
    printf(", segments of %" PRIu64 " bytes", p.segment_bytes);
  }
  printf("\n");
  bool ok = gli_print_plan(plan, stdout);
  gli_plan_free(plan);
  if (!ok) fprintf(stderr, "gloo plan: out of memory\n");
  return ok ? GLI_EXIT_OK : GLI_EXIT_FAILED;
}

static int run_check_all(void) {
  uint32_t from = 1, to = 64;
  if (ranks_text != NULL && !parse_ranks(&from, &to)) {
    return gli_usage_error(&command,
                           "option --ranks: '%s' is neither a number nor a "
                           "range such as 1-64, of 1 to %d",
                           ranks_text, MAX_RANKS);
  }
  return gli_plan_check_all(from, to);
}

static int answer(gli_plan_question *q) {
  if (!ask_elements(&q->params) || !ask_algorithm(q)) return GLI_EXIT_USAGE;
  if (check) return gli_plan_check(q);
  if (svg) return gli_plan_svg(q);
  if (dot) return gli_plan_dot(q);
  if (json)
    return gli_plan_json(q, rank < 0 ? GLI_PICTURE_NONE : (uint32_t)rank);
  if (!simulate) return gli_plan_print(q);
  gli_sim_model model;
  if (!parse_model(&model)) return GLI_EXIT_USAGE;
  return gli_plan_simulate(q, &model);
}

static int run_bootstrap(void) {
  gli_plan_question q = {0};
  gli_hosts *hosts = NULL;
  gli_sim_model model;
  if (!simulate)
    return gli_usage_error(&command, "bootstrap has no plan: use --simulate");
  if (!parse_model(&model) || !ask_ranks(&q.params) ||
      !ask_hosts(&q.params, &hosts))
    return GLI_EXIT_USAGE;
  int exit_status = gli_plan_bootstrap(&q, &model);
  gli_hosts_free(hosts);
  return exit_status;
}

static int run_one(const char *collective) {
  gli_plan_question q = {0};
  gli_hosts *hosts = NULL;
  if (strcmp(collective, "bootstrap") == 0) return run_bootstrap();
  if (!gli_collective_from_name(collective, &q.params.collective) ||
      !has_algorithms(q.params.collective)) {
    return unknown_collective(collective);
  }
  if (!ask_ranks(&q.params) || !ask_hosts(&q.params, &hosts)) {
    return GLI_EXIT_USAGE;
  }
  int exit_status = answer(&q);
  gli_hosts_free(hosts);
  return exit_status;
}

int gli_tool_plan(int argc, char **argv) {
  int n_operands;
  gli_parse parsed = gli_options_parse(&command, argc, argv, &n_operands);
  if (parsed == GLI_PARSE_HELP) return GLI_EXIT_OK;
  if (parsed == GLI_PARSE_BAD) return GLI_EXIT_USAGE;
  if (list + docs + check_all + check + simulate + svg + dot + json > 1) {
    return gli_usage_error(&command,
                           "use only one of --list, --docs, --svg, --dot, "
                           "--json, --check, --check-all and --simulate");
  }
  bool whole = list || docs || check_all;
  if (n_operands != (whole ? 0 : 1)) {
    return gli_usage_error(&command,
                           whole ? "unexpected operand '%s'" : "usage: %s",
                           whole ? argv[0] : command.usage);
  }
  if (list) return gli_plan_list();
  if (docs) return gli_plan_docs();
  if (check_all) return run_check_all();
  return run_one(argv[0]);
}
