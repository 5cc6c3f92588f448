/* A rank that finds the others by the environment, for jobs on Windows, and of
 * Windows and Linux together. Uses public functions alone. */
#include <gloo_c/gloo_c.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

enum { LENGTHS = 4, MOST = 300000 };
static const size_t lengths[LENGTHS] = {1, 7, 1000, MOST};
static float data[MOST];

/* Elements of a rank, whose sums depend on the order of the additions. */
static void fill(size_t n, int rank) {
  for (size_t i = 0; i < n; i++)
    data[i] = (float)((i * 7919 + (size_t)rank * 104729) % 10007) / 9.7f;
}

static void add_to_hash(uint64_t *hash, const void *bytes, size_t n) {
  for (size_t i = 0; i < n; i++)
    *hash = (*hash ^ ((const unsigned char *)bytes)[i]) * 1099511628211u;
}

/* Broadcasts from each rank. Returns true if all elements are the root's. */
static bool broadcasts(gloo_context *context, int rank, int ranks,
                       gloo_error *error) {
  for (int root = 0; root < ranks; root++) {
    uint32_t word = rank == root ? 1000u + (uint32_t)root : 0;
    if (gloo_broadcast(context, GLOO_IN_PLACE, &word, 1, GLOO_UINT32, root,
                       NULL, error) != GLOO_OK)
      return false;
    if (word == 1000u + (uint32_t)root) continue;
    snprintf(error->message, sizeof error->message, "broadcast brought %u",
             (unsigned)word);
    return false;
  }
  return true;
}

/* Prints a hash of all sums, which is the same on every rank and system. */
static int check(gloo_context *context, int rank, int ranks,
                 gloo_error *error) {
  uint64_t hash = 14695981039346656037u;
  for (int i = 0; i < LENGTHS; i++) {
    fill(lengths[i], rank);
    if (gloo_allreduce(context, GLOO_IN_PLACE, data, lengths[i], GLOO_FLOAT32,
                       GLOO_SUM, NULL, error) != GLOO_OK)
      return 1;
    add_to_hash(&hash, data, lengths[i] * sizeof *data);
  }
  if (!broadcasts(context, rank, ranks, error) ||
      gloo_barrier(context, NULL, error) != GLOO_OK)
    return 1;
  printf("rank %d of %d: hash %016" PRIx64 "\n", rank, ranks, hash);
  return 0;
}

/* Reduces until a rank ends: that of `victim` ends itself, unless that is -1.
 * Succeeds if the error names a rank. */
static int until_killed(gloo_context *context, int rank, int victim) {
  gloo_error error;
  float one = 1;
  gloo_status status = gloo_barrier(context, NULL, &error);
  printf("rank %d: ready, pid %d\n", rank, (int)uv_os_getpid());
  fflush(stdout);
  if (status == GLOO_OK && rank == victim)
    (void)uv_kill(uv_os_getpid(), SIGKILL);
  while (status == GLOO_OK)
    status = gloo_allreduce(context, GLOO_IN_PLACE, &one, 1, GLOO_FLOAT32,
                            GLOO_MAX, NULL, &error);
  printf("rank %d: %s names rank %d: %s\n", rank, gloo_status_string(status),
         error.rank, error.message);
  return status == GLOO_ERR_PEER ? 0 : 1;
}

/* Checks one sum. Rank 0 tells the others whether the file exists. */
static bool turn(gloo_context *context, const char *file, int8_t *on,
                 gloo_error *error) {
  int rank = gloo_context_rank(context), ranks = gloo_context_size(context);
  float ones = 1;
  uv_fs_t look;
  *on = rank != 0 || uv_fs_access(NULL, &look, file, 0, NULL) != 0;
  if (rank == 0) uv_fs_req_cleanup(&look);
  if (gloo_allreduce(context, GLOO_IN_PLACE, &ones, 1, GLOO_FLOAT32, GLOO_SUM,
                     NULL, error) != GLOO_OK ||
      gloo_broadcast(context, GLOO_IN_PLACE, on, 1, GLOO_INT8, 0, NULL,
                     error) != GLOO_OK)
    return false;
  if (ones == (float)ranks) return true;
  snprintf(error->message, sizeof error->message, "the sum is %g", ones);
  return false;
}

/* Adds until the file exists, and then checks as without one. */
static int steady(gloo_context *context, int rank, int ranks, const char *file,
                  gloo_error *error) {
  for (int8_t on = 1; on != 0;)
    if (!turn(context, file, &on, error)) return 1;
  return check(context, rank, ranks, error);
}

/* Joins the job again and again, until the file exists. */
static int again(const char *file) {
  gloo_context *context;
  gloo_error error;
  int rounds = 0, rank = -1;
  for (int8_t on = 1; on != 0; rounds++) {
    bool done = gloo_init(NULL, &context, &error) == GLOO_OK;
    if (done) {
      rank = gloo_context_rank(context);
      done = turn(context, file, &on, &error);
      gloo_context_destroy(context);
    }
    if (done) continue;
    fprintf(stderr, "rank %d fails: %s\n", rank, error.message);
    return 1;
  }
  printf("rank %d: well, in %d rounds\n", rank, rounds);
  return 0;
}

/* Arguments: "check"; "steady" or "again" and a file that ends it; or "killed"
 * and the rank that ends itself. */
int main(int argc, char **argv) {
  gloo_context *context;
  gloo_error error;
  if (argc > 2 && strcmp(argv[1], "again") == 0) return again(argv[2]);
  if (gloo_init(NULL, &context, &error) != GLOO_OK) {
    fprintf(stderr, "%s\n", error.message);
    return 1;
  }
  int rank = gloo_context_rank(context), ranks = gloo_context_size(context);
  int status = 0;
  if (argc > 2 && strcmp(argv[1], "killed") == 0) {
    status = until_killed(context, rank, atoi(argv[2]));
  } else {
    status = argc > 2 ? steady(context, rank, ranks, argv[2], &error)
                      : check(context, rank, ranks, &error);
    if (status != 0) fprintf(stderr, "rank %d: %s\n", rank, error.message);
  }
  gloo_context_destroy(context);
  return status;
}
