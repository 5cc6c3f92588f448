#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "algorithms/registry.h"
#include "core/cpu.h"
#include "core/reduce.h"
#include "gloo_c/gloo_c.h"
#include "tools/json.h"
#include "tools/tools.h"
#include "transport/transport.h"

static bool json = false;

static const gli_option options[] = {
    {"json", 0, GLI_OPTION_FLAG, &json, NULL, "one JSON object", 0, 0},
};

static const gli_command command = {
    .name = "info",
    .usage = "gloo info [--json]",
    .about =
        "Prints what this build can do, what it found here, and what it\n"
        "would do by default.\n",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
};

enum { MAX_NAMES = 64 };

/* As gloo_c/context.h promises. */
#define DEFAULT_TIMEOUT_S "30"
#define DEFAULT_STREAMS "1"

typedef struct names {
  const char *list[MAX_NAMES];
  size_t count;
} names;

static void add(names *n, const char *name) {
  if (n->count < MAX_NAMES) n->list[n->count++] = name;
}

/* Transports that exist anywhere, as far as this build has them. */
static names built_transports(void) {
  static const char *const all[] = {"tcp", "inproc", "shm", "ibv"};
  names n = {.count = 0};
  for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
    if (gli_transport_find(all[i]) != NULL) add(&n, all[i]);
  }
  return n;
}

/* What the build options of these names added. So far nothing uses them. */
static names optional_features(void) {
  names n = {.count = 0};
#ifdef GLI_HAVE_OPENSSL
  add(&n, "openssl");
#endif
#ifdef GLI_HAVE_IBVERBS
  add(&n, "ibverbs");
#endif
#ifdef GLI_HAVE_CUDA
  add(&n, "cuda");
#endif
  return n;
}

static names dtypes(void) {
  names n = {.count = 0};
  for (int i = 0; i < GLOO_DTYPE_COUNT; i++) {
    add(&n, gloo_dtype_name((gloo_dtype)i));
  }
  return n;
}

static names ops(void) {
  names n = {.count = 0};
  for (int i = 0; i < GLOO_OP_COUNT; i++) add(&n, gloo_op_name((gloo_op)i));
  return n;
}

static names algorithms(gli_collective collective) {
  names n = {.count = 0};
  for (size_t i = 0; i < gli_algorithm_count; i++) {
    if (gli_algorithms[i].collective == collective) {
      add(&n, gli_algorithms[i].name);
    }
  }
  return n;
}

/* What an environment variable changes about the defaults. */
static const char *setting(const char *variable, const char *otherwise) {
  const char *value = getenv(variable);
  return value != NULL && value[0] != 0 ? value : otherwise;
}

/* ---- as text ------------------------------------------------------------ */

static void print_names(const char *title, const names *n) {
  printf("%-20s", title);
  for (size_t i = 0; i < n->count; i++) {
    printf("%s %s", i > 0 ? "," : "", n->list[i]);
  }
  printf("%s\n", n->count == 0 ? " none" : "");
}

static void print_text(void) {
  names transports = built_transports(), features = optional_features();
  names types = dtypes(), reductions = ops();
  printf("%-20s %s\n", "gloo_c", gloo_version());
  printf("%-20s %s\n", "libuv", uv_version_string());
  print_names("transports", &transports);
  print_names("optional features", &features);
  print_names("types", &types);
  print_names("operations", &reductions);
  printf("algorithms\n");
  for (int i = 0; i < GLI_COLLECTIVES; i++) {
    names known = algorithms((gli_collective)i);
    char title[32];
    snprintf(title, sizeof title, "  %s",
             gli_collective_name((gli_collective)i));
    if (known.count > 0) print_names(title, &known);
  }
  printf("%-20s %u\n", "effective cores", gli_cpu_effective());
  printf("%-20s %s\n", "default transport", setting("GLOO_TRANSPORT", "tcp"));
  printf("%-20s %s\n", "default interface",
         setting("GLOO_SOCKET_IFNAME",
                 "loopback, or the one that reaches "
                 "MASTER_ADDR"));
  printf("%-20s %s\n", "default timeout", DEFAULT_TIMEOUT_S " s");
  printf("%-20s %s\n", "default streams", DEFAULT_STREAMS);
  printf("%-20s %s\n", "log level", setting("GLOO_LOG_LEVEL", "warn"));
}

/* ---- as JSON ------------------------------------------------------------ */

static void print_json(void) {
  names transports = built_transports(), features = optional_features();
  names types = dtypes(), reductions = ops();
  gli_json out;
  gli_json_open(&out, stdout);
  gli_json_text(&out, "version", gloo_version());
  gli_json_text(&out, "libuv", uv_version_string());
  gli_json_list(&out, "transports", transports.list, transports.count);
  gli_json_list(&out, "features", features.list, features.count);
  gli_json_list(&out, "dtypes", types.list, types.count);
  gli_json_list(&out, "ops", reductions.list, reductions.count);
  for (int i = 0; i < GLI_COLLECTIVES; i++) {
    names known = algorithms((gli_collective)i);
    char key[48];
    snprintf(key, sizeof key, "%s_algorithms",
             gli_collective_name((gli_collective)i));
    if (known.count > 0) gli_json_list(&out, key, known.list, known.count);
  }
  gli_json_integer(&out, "effective_cores", gli_cpu_effective());
  gli_json_text(&out, "default_transport", setting("GLOO_TRANSPORT", "tcp"));
  gli_json_integer(&out, "default_timeout_s",
                   strtoul(DEFAULT_TIMEOUT_S, NULL, 10));
  gli_json_integer(&out, "default_streams", strtoul(DEFAULT_STREAMS, NULL, 10));
  gli_json_text(&out, "log_level", setting("GLOO_LOG_LEVEL", "warn"));
  gli_json_close(&out);
}

int gli_tool_info(int argc, char **argv) {
  int n_operands;
  gli_parse parsed = gli_options_parse(&command, argc, argv, &n_operands);
  if (parsed == GLI_PARSE_HELP) return GLI_EXIT_OK;
  if (parsed == GLI_PARSE_BAD) return GLI_EXIT_USAGE;
  if (n_operands > 0) {
    return gli_usage_error(&command, "takes no operands, but got '%s'",
                           argv[0]);
  }
  if (json) print_json();
  if (!json) print_text();
  return GLI_EXIT_OK;
}
