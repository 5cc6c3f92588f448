/* The checks of stores of `gloo doctor --selftest`. */
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "tools/selftest.h"

#define MISSING_NS INT64_C(20000000)
enum { PLACE_BYTES = 1024, DEEPEST = 4 };

/* A kind of store, as one rank uses it. */
typedef struct user {
  gloo_context *context;
  gloo_store *store;
  const char *kind;
  int rank, ranks;
  gloo_error error;
} user;

static bool went(user *u, gloo_status status) {
  if (status == GLOO_OK) return true;
  gli_selftest_say(GLI_SELFTEST_FAILED, "stores", "rank %d, %s: %s", u->rank,
                   u->kind, u->error.message);
  return false;
}

static bool holds(user *u, bool right, const char *text) {
  if (!right)
    gli_selftest_say(GLI_SELFTEST_FAILED, "stores", "rank %d, %s: %s", u->rank,
                     u->kind, text);
  return right;
}

static bool meet(user *u) {
  return went(u, gloo_barrier(u->context, NULL, &u->error));
}

/* Sets a key, and gets those of all ranks. */
static bool exchange(user *u) {
  char key[32], text[32];
  (void)snprintf(key, sizeof key, "rank-%d", u->rank);
  if (!went(u, gloo_store_set(u->store, key, key, strlen(key), &u->error)))
    return false;
  for (int r = 0; r < u->ranks; r++) {
    gloo_value value;
    (void)snprintf(text, sizeof text, "rank-%d", r);
    if (!went(u, gloo_store_get(u->store, text, GLOO_TIMEOUT_DEFAULT, &value,
                                &u->error)))
      return false;
    bool same = value.bytes == strlen(text) &&
                memcmp(value.data, text, value.bytes) == 0;
    free(value.data);
    if (!holds(u, same, "get returned another value than was set"))
      return false;
  }
  return true;
}

/* Lets all ranks change the same keys at the same time. */
static bool compete(user *u) {
  int64_t sum = 0;
  int32_t won;
  gloo_value value;
  uint8_t byte = (uint8_t)u->rank;
  if (!went(u, gloo_store_add(u->store, "sum", 1, &sum, &u->error)) ||
      !went(u, gloo_store_append(u->store, "list", &byte, 1, &u->error)))
    return false;
  gloo_status status = gloo_store_compare_and_set(u->store, "winner", NULL, 0,
                                                  "rank", 4, NULL, &u->error);
  won = status == GLOO_OK;
  if (status != GLOO_ERR_COMPARE && !went(u, status)) return false;
  if (!went(u, gloo_allreduce(u->context, GLOO_IN_PLACE, &won, 1, GLOO_INT32,
                              GLOO_SUM, NULL, &u->error)) ||
      !holds(u, won == 1, "compare_and_set did not succeed exactly once") ||
      !went(u, gloo_store_add(u->store, "sum", 0, &sum, &u->error)) ||
      !holds(u, sum == u->ranks, "an addition was lost") ||
      !went(u, gloo_store_get(u->store, "list", GLOO_TIMEOUT_DEFAULT, &value,
                              &u->error)))
    return false;
  free(value.data);
  return holds(u, value.bytes == (size_t)u->ranks, "an appended byte was lost");
}

/* Waits for a key that is missing. */
static bool miss(user *u) {
  const char *key = "missing";
  return holds(u,
               gloo_store_wait(u->store, &key, 1, MISSING_NS, &u->error) ==
                   GLOO_ERR_TIMEOUT,
               "waiting for a missing key gave no GLOO_ERR_TIMEOUT");
}

static bool use(user *u) {
  return exchange(u) && compete(u) && miss(u) && meet(u) &&
         (u->rank != 0 ||
          went(u, gloo_store_delete(u->store, "sum", &u->error))) &&
         meet(u);
}

/* ---- kinds --------------------------------------------------------------- */

static bool share(user *u, char place[PLACE_BYTES]) {
  return went(u, gloo_broadcast(u->context, GLOO_IN_PLACE, place, PLACE_BYTES,
                                GLOO_UINT8, 0, NULL, &u->error));
}

/* Removes a directory with the files and directories of the store. */
static void remove_directory(const char *path, int depth) {
  uv_fs_t all, one;
  uv_dirent_t entry;
  char file[PLACE_BYTES + 256];
  if (uv_fs_scandir(NULL, &all, path, 0, NULL) >= 0)
    while (uv_fs_scandir_next(&all, &entry) == 0) {
      int length = snprintf(file, sizeof file, "%s/%s", path, entry.name);
      if (length < 0 || (size_t)length >= sizeof file) continue;
      int code = uv_fs_unlink(NULL, &one, file, NULL);
      uv_fs_req_cleanup(&one);
      if (code != 0 && depth < DEEPEST) remove_directory(file, depth + 1);
    }
  uv_fs_req_cleanup(&all);
  (void)uv_fs_rmdir(NULL, &one, path, NULL);
  uv_fs_req_cleanup(&one);
}

/* Makes a directory for temporary files; "" on failure. */
static void make_directory(char path[PLACE_BYTES]) {
  char template[PLACE_BYTES];
  size_t size = sizeof template - 32;
  uv_fs_t made;
  path[0] = '\0';
  if (uv_os_tmpdir(template, &size) != 0) return;
  strcpy(template + size, "/gloo-selftest-XXXXXX");
  if (uv_fs_mkdtemp(NULL, &made, template, NULL) == 0)
    (void)snprintf(path, PLACE_BYTES, "%s", made.path);
  uv_fs_req_cleanup(&made);
}

static bool check_file(user *u) {
  char path[PLACE_BYTES] = "";
  gloo_store_file_options options = GLOO_STORE_FILE_OPTIONS_INIT;
  u->kind = "file store";
  if (u->rank == 0) make_directory(path);
  if (!share(u, path) ||
      !holds(u, path[0] != '\0', "no directory for temporary files"))
    return false;
  options.directory = path;
  bool good = went(u, gloo_store_file_create(&options, &u->store, &u->error));
  if (good) {
    good = use(u);
    gloo_store_destroy(u->store);
  }
  good = good && meet(u);
  if (u->rank == 0) remove_directory(path, 0);
  return good;
}

static bool check_tcp(user *u) {
  char place[PLACE_BYTES] = "";
  gloo_store_tcp_options options = GLOO_STORE_TCP_OPTIONS_INIT;
  gloo_store *server = NULL;
  u->kind = "TCP store";
  options.host = "127.0.0.1";
  options.serve = 1;
  if (u->rank == 0) {
    if (!went(u, gloo_store_tcp_create(&options, &server, &u->error)))
      return false;
    (void)snprintf(place, sizeof place, "%u",
                   (unsigned)gloo_store_tcp_port(server));
  }
  bool good = share(u, place);
  options.serve = 0;
  options.port = (uint16_t)strtoul(place, NULL, 10);
  good = good && went(u, gloo_store_tcp_create(&options, &u->store, &u->error));
  if (good) {
    good = use(u) && meet(u);
    gloo_store_destroy(u->store);
  }
  gloo_store_destroy(server);
  return good;
}

bool gli_selftest_stores(gloo_context *context, gloo_store *memory) {
  user u = {.context = context,
            .store = memory,
            .kind = "store in memory",
            .rank = gloo_context_rank(context),
            .ranks = gloo_context_size(context)};
  if ((memory != NULL && !use(&u)) || !check_file(&u) || !check_tcp(&u))
    return false;
  if (u.rank == 0)
    gli_selftest_say(GLI_SELFTEST_PASSED, "stores", "%sfiles and TCP",
                     memory != NULL ? "memory, " : "");
  return true;
}
