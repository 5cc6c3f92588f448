/* Gradient descent, with the parts that a program for Gloo is made of.
 * usage: from_gloo RANK SIZE DIRECTORY, with a directory that all ranks see */
#include <gloo_c/gloo_c.h>
#include <stdio.h>
#include <stdlib.h>

enum { PARAMETERS = 4, STEPS = 40, LOSS_TAG = 7 };

static void check(gloo_status status, const gloo_error *error) {
  if (status == GLOO_OK) return;
  fprintf(stderr, "from_gloo: %s\n", error->message);
  exit(1);
}

/* Gloo: FileStore, then rendezvous::Context and connectFullMesh. */
static gloo_context *meet(int rank, int size, const char *directory,
                          gloo_device *device) {
  gloo_error error;
  gloo_store *store;
  gloo_store_file_options where = GLOO_STORE_FILE_OPTIONS_INIT;
  where.directory = directory;
  check(gloo_store_file_create(&where, &store, &error), &error);

  gloo_context *context;
  gloo_context_options options = GLOO_CONTEXT_OPTIONS_INIT;
  options.timeout_ns = INT64_C(20000000000); /* Gloo: setTimeout */
  check(gloo_context_create(rank, size, store, device, &options, &context,
                            &error),
        &error);
  gloo_store_destroy(store);
  return context;
}

/* Every rank pulls the weights towards a different point; the average of the
 * gradients leads to the mean of all points. Returns this rank's loss. */
static float train(gloo_context *context, float *weights) {
  gloo_error error;
  float gradient[PARAMETERS], loss = 0;

  /* Gloo: an object of a class such as AllreduceRing, created once, run many
   * times. */
  gloo_request *allreduce;
  check(
      gloo_allreduce_init(context, GLOO_IN_PLACE, gradient, PARAMETERS,
                          GLOO_FLOAT32, GLOO_AVERAGE, NULL, &allreduce, &error),
      &error);
  for (int step = 0; step < STEPS; step++) {
    loss = 0;
    for (int i = 0; i < PARAMETERS; i++) {
      gradient[i] = weights[i] - (float)(gloo_context_rank(context) + i);
      loss += gradient[i] * gradient[i] / 2;
    }
    gloo_status status = gloo_request_start(allreduce, NULL);
    if (status == GLOO_OK)
      status = gloo_request_wait(allreduce, GLOO_TIMEOUT_DEFAULT, NULL);
    if (status != GLOO_OK) gloo_request_error(allreduce, &error);
    check(status, &error);
    for (int i = 0; i < PARAMETERS; i++) weights[i] -= gradient[i] / 2;
  }
  gloo_request_destroy(allreduce);
  return loss;
}

/* Gloo: UnboundBuffer::recv from a list of ranks, at a slot. */
static void report(gloo_context *context, float loss) {
  gloo_error error;
  gloo_options options = GLOO_OPTIONS_INIT;
  options.tag = LOSS_TAG;
  if (gloo_context_rank(context) != 0) {
    check(gloo_send(context, &loss, 1, GLOO_FLOAT32, 0, &options, &error),
          &error);
    return;
  }
  float total = loss;
  for (int left = gloo_context_size(context) - 1; left > 0; left--) {
    int source;
    check(gloo_recv_any(context, &loss, 1, GLOO_FLOAT32, NULL, 0, &options,
                        &source, &error),
          &error);
    total += loss;
  }
  printf("all ranks together: loss %.3f\n", (double)total);
}

int main(int argc, char **argv) {
  if (argc != 4) {
    fprintf(stderr, "usage: from_gloo RANK SIZE DIRECTORY\n");
    return 2;
  }
  gloo_error error;
  gloo_device *device; /* Gloo: transport::tcp::CreateDevice */
  check(gloo_device_create(NULL, &device, &error), &error);
  gloo_context *context = meet(atoi(argv[1]), atoi(argv[2]), argv[3], device);

  float weights[PARAMETERS] = {0};
  if (gloo_context_rank(context) == 0) weights[0] = 100;
  gloo_options options = GLOO_OPTIONS_INIT; /* Gloo: BroadcastOptions */
  options.timeout_ns = INT64_C(10000000000);
  check(gloo_broadcast(context, GLOO_IN_PLACE, weights, PARAMETERS,
                       GLOO_FLOAT32, 0, &options, &error),
        &error);

  float loss = train(context, weights);
  printf("rank %d: weights %.3f %.3f %.3f %.3f\n", gloo_context_rank(context),
         (double)weights[0], (double)weights[1], (double)weights[2],
         (double)weights[3]);
  report(context, loss);
  gloo_context_destroy(context);
  gloo_device_destroy(device);
  return 0;
}
