#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "algorithms/registry.h"
#include "api/tuning_file.h"
#include "core/cpu.h"
#include "core/environment.h"
#include "core/json.h"
#include "gloo_c/gloo_c.h"
#include "kernels/reduce.h"
#include "memory/gpu.h"
#include "net/tls.h"
#include "observe/observe_socket.h"
#include "rendezvous/launch/launch.h"
#include "security/keys.h"
#include "tools/info.h"
#include "tools/tools.h"
#include "transport/transport.h"
#include "transport_shm/shm.h"

static bool json = false, local = false, tuning = false;
static int64_t ranks = 0, groups = 0, members = 0;
static const char *transport = NULL;

static const gli_option options[] = {
    {"json", 0, GLI_OPTION_FLAG, &json, NULL, "print one JSON object", 0, 0},
    {"local", 0, GLI_OPTION_FLAG, &local, NULL,
     "do not contact the other ranks of a job", 0, 0},
    {"groups", 0, GLI_OPTION_INTEGER, &groups, "N",
     "in a job: number of groups that each rank makes", 1, 100000},
    {"members", 0, GLI_OPTION_INTEGER, &members, "M",
     "with --groups: number of ranks of a group (8)", 1, 1 << 20},
    {"tuning", 0, GLI_OPTION_FLAG, &tuning, NULL,
     "print only the algorithms chosen, by bytes of the longest buffer", 0, 0},
    {"ranks", 0, GLI_OPTION_INTEGER, &ranks, "N",
     "with --tuning: number of ranks, on one host (4)", 1, 1 << 20},
    {"transport", 0, GLI_OPTION_TEXT, &transport, "NAME",
     "with --tuning: auto, shm, tcp or inproc (auto)", 0, 0},
};

static const gli_command command = {
    .name = "info",
    .usage =
        "gloo info [--json] [--local | --groups N [--members M]]\n"
        "       gloo info --tuning [--local | --ranks N] [--transport NAME]",
    .about =
        "Prints the features of this build, the resources found on this host\n"
        "and the defaults.\n"
        "\n"
        "Started as the ranks of a job, for example\n"
        "\n"
        "    gloo run -n 4 -- gloo info\n"
        "\n"
        "rank 0 also prints the host of each rank and how it waits, and for\n"
        "each pair of ranks their transport and why they do not use shared\n"
        "memory. To find out, every pair of ranks connects and exchanges\n"
        "messages over the transport of GLOO_TRANSPORT. Consecutive ranks "
        "with\n"
        "the same result share a line: '0 with 2-3'. Then it prints the "
        "memory\n"
        "of a rank, median and maximum, that the library has added: with its\n"
        "context, with connections to all ranks, and with N groups. Memory is\n"
        "anonymous and shared memory (proportional share; Linux). With "
        "--tuning,\n"
        "the ranks of a job print the choices that follow from their\n"
        "measurements.\n",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
};

enum { MAX_NAMES = 64 };

/* Defaults, as documented in gloo_c/context.h. */
#define DEFAULT_TIMEOUT_S "30"
#define DEFAULT_STREAMS "1"
#define WAIT_DEFAULT                                                          \
  "spin briefly, yield, then sleep; with more ranks than cores: yield, then " \
  "sleep"

typedef struct names {
  const char *list[MAX_NAMES];
  size_t count;
} names;

static void add(names *n, const char *name) {
  if (n->count < MAX_NAMES) n->list[n->count++] = name;
}

/* Returns the transports of this build. */
static names built_transports(void) {
  names n = {.count = 0};
  const char *name;
  for (size_t i = 0; (name = gloo_transport_name(i)) != NULL; i++)
    add(&n, name);
  return n;
}

/* Returns the transports that work here. */
static names working_transports(void) {
  names n = built_transports(), working = {.count = 0};
  gloo_error error;
  for (size_t i = 0; i < n.count; i++) {
    if (gloo_transport_usable(n.list[i], &error) == GLOO_OK)
      add(&working, n.list[i]);
  }
  return working;
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
  add(&n, gloo_op_name(GLOO_SCALED_SUM));
  add(&n, gloo_op_name(GLOO_CUSTOM));
  return n;
}

static names algorithms(gli_collective collective) {
  names n = {.count = 0};
  const char *of = gli_collective_name(collective), *name;
  for (size_t i = 0; (name = gloo_algorithm_name(of, i)) != NULL; i++)
    add(&n, name);
  return n;
}

/* Returns the value of an environment variable, or the default. */
static const char *setting(const char *variable, const char *otherwise) {
  const char *value = gli_environment_read(variable);
  return value != NULL ? value : otherwise;
}

/* ---- as text ------------------------------------------------------------- */

static void print_names(const char *title, const names *n) {
  printf("%-20s", title);
  for (size_t i = 0; i < n->count; i++) {
    printf("%s %s", i > 0 ? "," : "", n->list[i]);
  }
  printf("%s\n", n->count == 0 ? " none" : "");
}

/* Describes whether ranks in this environment would use RDMA, which works. */
static const char *describe_rdma(void) {
  bool on;
  gloo_error error;
  if (strcmp(setting("GLOO_TRANSPORT", "auto"), "ibv") == 0 ||
      gli_switch_read(0, "GLOO_RDMA", false, &on, &error) != GLOO_OK || on)
    return "yes";
  return "available, off (set GLOO_RDMA=1)";
}

static void print_transports(void) {
  printf("transports\n");
  const char *name;
  for (size_t i = 0; (name = gloo_transport_name(i)) != NULL; i++) {
    gloo_error error;
    bool works = gloo_transport_usable(name, &error) == GLOO_OK;
    const char *text = works ? "yes" : error.message;
    if (works && strcmp(name, "ibv") == 0) text = describe_rdma();
    printf("  %-18s %s%s\n", name, works ? "" : "no: ", text);
  }
}

/* Prints the OpenSSL version. An OpenSSL configuration may lack a required
 * algorithm, which only an attempt to use it shows. */
static void print_openssl(void) {
  gli_key key;
  gloo_error error;
  bool works = gli_key_extract("", 0, "gloo info", 9, &key, &error) == GLOO_OK;
  printf("%-20s %s%s\n", "OpenSSL",
         works ? gli_openssl_version() : "no: ", works ? "" : error.message);
}

/* Prints TLS as ranks in this environment would use it. */
static void print_tls(void) {
  gli_tls_settings *settings;
  gloo_error error;
  bool works = gli_tls_settings_read(NULL, &settings, &error) == GLOO_OK;
  gli_tls_kind kind = works ? gli_tls_settings_kind(settings) : GLI_TLS_NONE;
  printf("%-20s %s\n", "TLS over TCP",
         !works                 ? error.message
         : kind == GLI_TLS_NONE ? "off (set GLOO_TLS=1)"
                                : gli_tls_kind_text(kind));
  if (works) gli_tls_settings_release(settings);
}

static void print_gpus(void) {
  char text[512], bytes[GLI_BYTES_TEXT];
  const char *name;
  size_t kinds = 0;
  while ((name = gli_gpu_describe(kinds, text, sizeof text)) != NULL) {
    printf("%-20s %s\n", name, text);
    kinds++;
  }
  if (kinds == 0) printf("%-20s %s\n", "GPUs", "not built");
  if (kinds == 0 || gli_pinned_limit() == 0) return;
  printf("%-20s up to %s per process kept between calls\n", "staging memory",
         gli_format_bytes(gli_pinned_limit(), bytes));
}

/* Describes where processes of this environment create their sockets for gloo
 * top. */
static void describe_observing(char text[GLI_OBSERVE_PATH_BYTES]) {
  bool on;
  gloo_error error;
  strcpy(text, "off (GLOO_OBSERVE)");
  if (gli_switch_read(0, "GLOO_OBSERVE", true, &on, &error) != GLOO_OK || !on)
    return;
  for (int i = 0; i < GLI_OBSERVE_DIRECTORIES; i++)
    if (gli_observe_directory(i, true, text)) return;
  strcpy(text, "off: this user has no private directory");
}

static void print_text(void) {
  names types = dtypes(), reductions = ops();
  printf("%-20s %s\n", "gloo_c", gloo_version());
  printf("%-20s %s\n", "libuv", uv_version_string());
  print_openssl();
  print_tls();
  print_transports();
  print_gpus();
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
  char bound[GLI_BYTES_TEXT], shared[GLI_SHM_DESCRIPTION_BYTES];
  gli_shm_describe(shared);
  printf("%-20s up to %s per rank, for messages: %s\n", "shared memory",
         gli_format_bytes(GLI_SHM_MEMORY_MAX, bound), shared);
  printf("%-20s %u\n", "effective cores", gli_cpu_effective());
  printf("%-20s %s\n", "waiting", setting("GLOO_WAIT", WAIT_DEFAULT));
  printf("%-20s %s\n", "default transport", setting("GLOO_TRANSPORT", "auto"));
  printf("%-20s %s\n", "default interface",
         setting("GLOO_SOCKET_IFNAME",
                 "loopback, or the one that reaches "
                 "MASTER_ADDR"));
  printf("%-20s %s\n", "default timeout", DEFAULT_TIMEOUT_S " s");
  printf("%-20s %s\n", "default streams", DEFAULT_STREAMS);
  char observed[GLI_OBSERVE_PATH_BYTES];
  describe_observing(observed);
  printf("%-20s %s\n", "observed at", observed);
  printf("%-20s %s\n", "log level", setting("GLOO_LOG_LEVEL", "warn"));
}

/* ---- as JSON ------------------------------------------------------------- */

/* Prints an object, which is left open. */
static void print_json(gli_json *object) {
  names transports = built_transports();
  names working = working_transports(), types = dtypes(), reductions = ops();
  gli_json out;
  gli_json_open(&out, stdout);
  gli_json_text(&out, "version", gloo_version());
  const char *openssl = gli_openssl_version();
  gli_json_text(&out, "libuv", uv_version_string());
  gli_json_text(&out, "openssl", openssl != NULL ? openssl : "none");
  gli_json_list(&out, "transports", transports.list, transports.count);
  gli_json_list(&out, "transports_usable", working.list, working.count);
  gloo_error why;
  bool rdma = gloo_transport_usable("ibv", &why) == GLOO_OK;
  gli_json_text(&out, "rdma", rdma ? describe_rdma() : why.message);
  char gpus[512];
  const char *kind;
  for (size_t i = 0; (kind = gli_gpu_describe(i, gpus, sizeof gpus)); i++)
    gli_json_text(&out, strcmp(kind, "HIP") == 0 ? "hip" : "cuda", gpus);
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
  gli_json_integer(&out, "shared_memory_max_bytes", GLI_SHM_MEMORY_MAX);
  char shared[GLI_SHM_DESCRIPTION_BYTES];
  gli_shm_describe(shared);
  gli_json_text(&out, "shared_memory", shared);
  gli_json_text(&out, "waiting", setting("GLOO_WAIT", "adapt"));
  gli_json_text(&out, "default_transport", setting("GLOO_TRANSPORT", "auto"));
  gli_json_integer(&out, "default_timeout_s",
                   strtoul(DEFAULT_TIMEOUT_S, NULL, 10));
  gli_json_integer(&out, "default_streams", strtoul(DEFAULT_STREAMS, NULL, 10));
  char observed[GLI_OBSERVE_PATH_BYTES];
  describe_observing(observed);
  gli_json_text(&out, "observed_at", observed);
  gli_json_text(&out, "log_level", setting("GLOO_LOG_LEVEL", "warn"));
  *object = out;
}

/* ---- the command --------------------------------------------------------- */

/* Prints everything. All ranks of a job call it; rank 0 prints. */
static int print_all(const gli_launch *launch) {
  gli_json out;
  bool first = launch->rank == 0;
  int status = GLI_EXIT_OK;
  if (first && json) print_json(&out);
  if (first && !json) print_text();
  fflush(stdout);
  const gli_info_groups wanted = {groups, members > 0 ? members : 8};
  if (launch->size > 1) status = gli_info_job(&wanted, json ? &out : NULL);
  if (first && json) gli_json_close(&out);
  return status;
}

/* Prints the choices; rank 0 only. */
static int show_tuning(const gli_info_tuning *what) {
  gli_json out;
  if (json) gli_json_open(&out, stdout);
  int status = gli_info_print_tuning(what, json ? &out : NULL);
  if (json) gli_json_close(&out);
  return status;
}

/* Prints the choices for assumed ranks, including the effect of the
 * environment. */
static int print_tuning(void) {
  gli_info_tuning what = {.ranks = ranks > 0 ? ranks : 4};
  const char *name =
      transport != NULL ? transport : setting("GLOO_TRANSPORT", "auto");
  const gli_transport_ops *ops = gli_transport_find(name);
  if (ops == NULL) {
    return gli_usage_error(
        &command, "option --transport: this build has no transport '%s'", name);
  }
  bool promised;
  gloo_error error;
  if (gli_switch_read(0, "GLOO_SHARED_BUFFERS", false, &promised, &error) !=
      GLOO_OK) {
    fprintf(stderr, "gloo info: %s\n", error.message);
    return GLI_EXIT_FAILED;
  }
  what.locality = promised ? GLI_MAPPED : GLI_INTRA_NODE;
  if (ops->rkey_pack == NULL) what.locality = GLI_INTER_NODE;
  return show_tuning(&what);
}

/* Prints the choices in a job, with the costs measured when its ranks met. */
static int print_tuning_of_job(void) {
  gloo_init_options o = GLOO_INIT_OPTIONS_INIT;
  gloo_device_options d = GLOO_DEVICE_OPTIONS_INIT;
  gloo_context *context;
  gloo_error error;
  d.transport = transport;
  o.device = &d;
  if (gloo_init(&o, &context, &error) != GLOO_OK) {
    fprintf(stderr, "gloo info: %s\n", error.message);
    return GLI_EXIT_FAILED;
  }
  gli_info_tuning what = {.context = context};
  int status = GLI_EXIT_OK;
  if (gloo_context_rank(context) == 0) status = show_tuning(&what);
  gloo_context_destroy(context);
  return status;
}

int gli_tool_info(int argc, char **argv) {
  gli_parse parsed = gli_options_parse(&command, argc, argv, NULL);
  if (parsed == GLI_PARSE_HELP) return GLI_EXIT_OK;
  if (parsed == GLI_PARSE_BAD) return GLI_EXIT_USAGE;
  if (!tuning && (ranks > 0 || transport != NULL)) {
    return gli_usage_error(&command, "%s requires --tuning",
                           ranks > 0 ? "--ranks" : "--transport");
  }
  if (members > 0 && groups == 0)
    return gli_usage_error(&command, "--members requires --groups");
  if (groups > 0 && (tuning || local)) {
    return gli_usage_error(&command, "--groups requires a job; remove %s",
                           tuning ? "--tuning" : "--local");
  }
  gli_launch launch = {.size = 1};
  gloo_error error;
  if (!local && gli_launch_read(&launch, &error) != GLOO_OK) {
    fprintf(stderr, "gloo info: %s\n", error.message);
    return GLI_EXIT_FAILED;
  }
  if (groups > 0 && launch.size <= 1) {
    return gli_usage_error(&command,
                           "--groups requires a job; start it with 'gloo run'");
  }
  if (!tuning) return print_all(&launch);
  if (launch.size > 1 && ranks == 0) return print_tuning_of_job();
  return print_tuning();
}
