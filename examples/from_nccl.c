/* Data-parallel steps: gradients of a layer are reduced while those of the
 * previous layer are computed. An error names the rank at fault.
 * usage: gloo run -n 3 -- from_nccl [RANK], where RANK leaves halfway */
#include <gloo_c/gloo_c.h>
#include <stdio.h>
#include <stdlib.h>

enum { LAYERS = 3, WIDTH = 1000, STEPS = 30 };

static float weights[LAYERS][WIDTH], gradients[LAYERS][WIDTH];

/* NCCL: ncclCommGetAsyncError, then ncclCommAbort. Here the error names the
 * rank, and from then on the library does not touch the buffers. */
static int give_up(gloo_context *context) {
  gloo_error error;
  gloo_context_error(context, &error);
  int rank = gloo_context_rank(context);
  if (error.rank >= 0)
    printf("rank %d: rank %d is at fault\n", rank, error.rank);
  fprintf(stderr, "rank %d: %s\n", rank, error.message);
  gloo_context_destroy(context);
  return 1;
}

/* NCCL: synchronising with the stream. Waits for all, even after an error. */
static gloo_status wait_for_all(gloo_request **operations, int n) {
  gloo_status first = GLOO_OK;
  for (int i = 0; i < n; i++) {
    gloo_status status =
        gloo_request_wait(operations[i], GLOO_TIMEOUT_DEFAULT, NULL);
    if (first == GLOO_OK) first = status;
    gloo_request_destroy(operations[i]);
  }
  return first;
}

/* NCCL: broadcasts between ncclGroupStart and ncclGroupEnd. */
static gloo_status share_weights(gloo_context *context) {
  gloo_request *started[LAYERS];
  gloo_status status = GLOO_OK;
  int n = 0;
  while (n < LAYERS && status == GLOO_OK) {
    status = gloo_broadcast_start(context, GLOO_IN_PLACE, weights[n], WIDTH,
                                  GLOO_FLOAT32, 0, NULL, &started[n], NULL);
    if (status == GLOO_OK) n++;
  }
  gloo_status waited = wait_for_all(started, n);
  return status != GLOO_OK ? status : waited;
}

static void backward(int rank, int layer) {
  for (int i = 0; i < WIDTH; i++) {
    gradients[layer][i] = weights[layer][i] - (float)(rank + layer);
  }
}

/* NCCL: ncclAllReduce on a separate stream, concurrent with the computation. */
static gloo_status step(gloo_context *context) {
  int rank = gloo_context_rank(context);
  gloo_request *started[LAYERS];
  gloo_status status = GLOO_OK;
  int n = 0;
  for (int layer = LAYERS - 1; layer >= 0 && status == GLOO_OK; layer--) {
    backward(rank, layer);
    status = gloo_allreduce_start(context, GLOO_IN_PLACE, gradients[layer],
                                  WIDTH, GLOO_FLOAT32, GLOO_AVERAGE, NULL,
                                  &started[n], NULL);
    if (status == GLOO_OK) n++;
  }
  gloo_status waited = wait_for_all(started, n);
  if (status != GLOO_OK || waited != GLOO_OK) {
    return status != GLOO_OK ? status : waited;
  }
  for (int layer = 0; layer < LAYERS; layer++) {
    for (int i = 0; i < WIDTH; i++) {
      weights[layer][i] -= gradients[layer][i] / 2;
    }
  }
  return GLOO_OK;
}

int main(int argc, char **argv) {
  gloo_context *context; /* NCCL: ncclGetUniqueId and ncclCommInitRank */
  gloo_error error;
  if (gloo_init(NULL, &context, &error) != GLOO_OK) {
    fprintf(stderr, "from_nccl: %s\n", error.message);
    return 1;
  }
  int rank = gloo_context_rank(context);
  int leaver = argc > 1 ? atoi(argv[1]) : GLOO_NO_RANK;
  if (rank == 0) {
    for (int i = 0; i < LAYERS; i++) weights[i][0] = 10;
  }
  if (share_weights(context) != GLOO_OK) return give_up(context);
  for (int i = 0; i < STEPS; i++) {
    if (rank == leaver && i == STEPS / 2) _Exit(3);
    if (step(context) != GLOO_OK) return give_up(context);
  }
  printf("rank %d: weights %.3f %.3f %.3f\n", rank, (double)weights[0][0],
         (double)weights[1][0], (double)weights[2][WIDTH - 1]);
  gloo_context_destroy(context);
  return 0;
}
