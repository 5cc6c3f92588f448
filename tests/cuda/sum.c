#include "sum.h"

#include <stdlib.h>

enum { BYTES = SUM_COUNT * sizeof(float) };

void sum_open(sum *s, int rank) {
  s->device = rank % gpu_devices();
  s->stream = gpu_stream_new(s->device);
  s->host = malloc(BYTES);
  s->in = gpu_alloc(s->device, GPU_DEVICE, BYTES);
  s->out = gpu_alloc(s->device, GPU_DEVICE, BYTES);
  for (int i = 0; i < SUM_COUNT; i++) s->host[i] = (float)(i % 1000 + rank);
  gpu_copy(s->device, s->stream, s->in, s->host, BYTES);
  gpu_sync(s->device, s->stream);
}

void sum_close(sum *s) {
  gpu_sync(s->device, s->stream);
  gpu_stream_free(s->device, s->stream);
  gpu_free(s->device, GPU_DEVICE, s->in);
  gpu_free(s->device, GPU_DEVICE, s->out);
  free(s->host);
}

gloo_status sum_run(rank_env *env, sum *s, gloo_error *error) {
  gloo_options o = GLOO_OPTIONS_INIT;
  o.stream = s->stream;
  return gloo_allreduce(env->context, s->in, s->out, SUM_COUNT, GLOO_FLOAT32,
                        GLOO_SUM, &o, error);
}

gloo_request *sum_start(rank_env *env, const sum *s, unsigned tag,
                        int64_t timeout_ns) {
  gloo_options o = GLOO_OPTIONS_INIT;
  gloo_request *request = NULL;
  o.stream = s->stream;
  o.tag = tag;
  o.timeout_ns = timeout_ns;
  RANK_OK(env,
          gloo_allreduce_start(env->context, s->in, s->out, SUM_COUNT,
                               GLOO_FLOAT32, GLOO_SUM, &o, &request, NULL));
  return request;
}

bool sum_is_right(sum *s, int size) {
  gpu_copy(s->device, s->stream, s->host, s->out, BYTES);
  gpu_sync(s->device, s->stream);
  for (int i = 0; i < SUM_COUNT; i++) {
    float all = (float)(size * (i % 1000) + size * (size - 1) / 2);
    if (s->host[i] != all) return false;
  }
  return true;
}
