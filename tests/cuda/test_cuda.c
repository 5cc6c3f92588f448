/* Buffers in GPU memory: errors of the driver, streams, several devices. Tests
 * that need the stand-in are skipped with another driver. */
#define _GNU_SOURCE /* RTLD_NOLOAD */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/gpu.h"
#include "cuda/sum.h"
#include "gloo_c/memory.h"
#include "memory/gpu_api.h"
#include "ranks/ranks.h"

enum { RANKS = 2 };

static const char *transport;

/* ---- before anything has loaded the driver ------------------------------- */

static void add_on_the_host(rank_env *env) {
  float x = 1;
  RANK_OK(env, gloo_allreduce(env->context, GLOO_IN_PLACE, &x, 1, GLOO_FLOAT32,
                              GLOO_SUM, NULL, NULL));
  RANK_CHECK(env, x == (float)env->size);
}

static void host_programs_do_not_load_the_driver(void **state) {
  (void)state;
  ranks_options o = {.transport = transport};
  ranks_run(RANKS, &o, add_on_the_host);
  assert_null(dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD));
  assert_null(dlopen("libamdhip64.so.6", RTLD_NOW | RTLD_NOLOAD));
}

static void use_no_stream(rank_env *env) {
  gloo_options o = GLOO_OPTIONS_INIT;
  gloo_error error;
  float x = 1;
  o.stream = &x; /* an invalid stream */
  gloo_status status = gloo_allreduce(env->context, GLOO_IN_PLACE, &x, 1,
                                      GLOO_FLOAT32, GLOO_SUM, &o, &error);
  rank_expect_invalid(env, status, &error, "does not use CUDA");
}

static void streams_need_cuda(void **state) {
  (void)state;
  ranks_options o = {.transport = transport};
  ranks_run(RANKS, &o, use_no_stream);
}

/* ---- failing driver calls ------------------------------------------------ */

typedef void (*fail_fn)(const char *name, unsigned n, gli_gpu_result result);
typedef void (*break_fn)(gli_gpu_result result);

static fail_fn standin_fail;
static break_fn standin_break;

static void find_standin(void) {
  void *symbol = gpu_symbol("standin_fail");
  memcpy(&standin_fail, &symbol, sizeof symbol);
  symbol = gpu_symbol("standin_break");
  memcpy(&standin_break, &symbol, sizeof symbol);
}

/* Skips the test if there are no GPUs. */
static void need_gpus(void) {
  const char *why;
  if (!gpu_open(&why)) {
    print_message("# %s\n", why);
    skip();
  }
  find_standin();
}

/* Entry points to fail. Those called once per process come first. */
static const char *const entries[] = {
    "cuEventCreate",          "cuCtxPushCurrent_v2", "cuMemHostRegister_v2",
    "cuPointerGetAttributes", "cuMemcpyAsync",       "cuStreamGetCtx",
    "cuStreamIsCapturing",    "cuEventRecord",       "cuEventQuery"};
enum { ENTRIES = sizeof entries / sizeof entries[0] };

/* The fault to inject, shared by the ranks of one job. */
static struct failing {
  const char *name; /* NULL: every call, from then on */
  unsigned n;
  gli_gpu_result result;
  unsigned seen; /* errors */
} failing;

/* Checks that the error comes from CUDA, and says so, or reports the other
 * rank's failure. */
static void check_failure(rank_env *env, gloo_status status,
                          const gloo_error *error) {
  gloo_status cause = error->cause;
  bool others = cause == GLOO_ERR_PEER || cause == GLOO_ERR_ABORTED;
  bool known = cause == GLOO_ERR_IO || cause == GLOO_ERR_NO_MEMORY ||
               cause == GLOO_ERR_INVALID;
  if (!others && !(known && strstr(error->message, gpu_name()))) {
    fprintf(stderr, "# %s, call %u: %s: %s\n",
            failing.name != NULL ? failing.name : "all", failing.n,
            gloo_status_string(status), error->message);
    rank_fail(env, __FILE__, __LINE__, "the error is another one");
  }
}

static void add_and_fail(rank_env *env) {
  sum s;
  gloo_error error;
  sum_open(&s, env->rank);
  if (env->rank == 0) {
    if (failing.name != NULL)
      standin_fail(failing.name, failing.n, failing.result);
    else
      standin_break(failing.result);
  }
  gloo_status status = sum_run(env, &s, &error);
  if (env->rank == 0) {
    if (failing.name != NULL) standin_fail(failing.name, 0, 0);
    standin_break(GLI_GPU_SUCCESS);
  }
  if (status != GLOO_OK) {
    check_failure(env, status, &error);
    if (env->rank == 0) failing.seen++;
    /* The abort saves the other rank from waiting for the deadline. */
    (void)gloo_context_abort(env->context, "the test has seen it", NULL);
  }
  sum_close(&s);
}

static void each_call_may_fail(void **state) {
  (void)state;
  need_gpus();
  if (standin_fail == NULL) skip();
  setenv("GLOO_CUDA_STAGING", "0", 1); /* each job pins memory anew */
  for (size_t i = 0; i < ENTRIES; i++) {
    failing.seen = 0;
    for (unsigned n = 1; n <= 7; n++) {
      failing.name = entries[i];
      failing.n = n;
      failing.result = n % 2 ? 700 : GLI_GPU_OUT_OF_MEMORY;
      ranks_options o = {.transport = transport};
      ranks_run(1, &o, add_and_fail);
    }
    if (failing.seen == 0) fail_msg("%s was never called", entries[i]);
  }
  failing.name = NULL;
  failing.seen = 0;
  ranks_options o = {.transport = transport};
  ranks_run(RANKS, &o, add_and_fail);
  assert_int_equal(failing.seen, 1);
  unsetenv("GLOO_CUDA_STAGING");
}

static void add_rightly(rank_env *env) {
  sum s;
  sum_open(&s, env->rank);
  RANK_OK(env, sum_run(env, &s, NULL));
  RANK_CHECK(env, sum_is_right(&s, env->size));
  sum_close(&s);
}

/* The process remains usable after the injected errors. */
static void later_jobs_go_well(void **state) {
  (void)state;
  need_gpus();
  ranks_options o = {.transport = transport};
  ranks_run(RANKS, &o, add_rightly);
}

/* ---- a device that is reset ---------------------------------------------- */

static void add_or_fail(rank_env *env) {
  sum s;
  gloo_error error;
  sum_open(&s, env->rank);
  gloo_status status = sum_run(env, &s, &error);
  if (status != GLOO_OK) check_failure(env, status, &error);
  sum_close(&s);
}

/* A reset ends the library's streams. The first call that uses them may fail,
 * and later ones have new ones. */
static void a_device_can_be_reset(void **state) {
  gli_gpu_result (*reset)(int device), (*retain)(void **context, int device);
  void *context;
  (void)state;
  need_gpus();
  void *symbol = gpu_symbol("cuDevicePrimaryCtxReset_v2");
  if (standin_fail == NULL || symbol == NULL) skip();
  memcpy(&reset, &symbol, sizeof reset);
  symbol = gpu_symbol("cuDevicePrimaryCtxRetain");
  memcpy(&retain, &symbol, sizeof retain);
  ranks_options o = {.transport = transport};
  ranks_run(1, &o, add_rightly);
  assert_int_equal(reset(0), GLI_GPU_SUCCESS);
  assert_int_equal(retain(&context, 0), GLI_GPU_SUCCESS);
  ranks_run(1, &o, add_or_fail);
  ranks_run(RANKS, &o, add_rightly);
}

/* ---- streams ------------------------------------------------------------- */

static void wait_in_vain(rank_env *env) {
  sum s;
  gloo_error error;
  gloo_options o = GLOO_OPTIONS_INIT;
  sum_open(&s, env->rank);
  o.stream = s.stream;
  o.timeout_ns = INT64_C(800000000);
  if (env->rank == 1) {
    for (int i = 0; i < 3; i++) gpu_delay(s.device, s.stream, 900000);
  }
  gloo_status status = gloo_allreduce(env->context, s.in, s.out, SUM_COUNT,
                                      GLOO_FLOAT32, GLOO_SUM, &o, &error);
  RANK_CHECK(env, status != GLOO_OK);
  RANK_CHECK(env, error.cause == GLOO_ERR_TIMEOUT);
  RANK_CHECK(env, error.rank == 1);
  if (env->rank == 1)
    RANK_CHECK(env, strstr(error.message, "work in a GPU stream") != NULL);
  sum_close(&s);
}

/* ---- features limited to host memory ------------------------------------- */

static void refuse_windows(rank_env *env) {
  sum s;
  uint64_t here = 0;
  gloo_window *window;
  gloo_error error;
  sum_open(&s, env->rank);
  gloo_status status =
      gloo_window_create(env->context, s.in, 64, NULL, &window, &error);
  rank_expect_invalid(env, status, &error, "is GPU memory");
  RANK_OK(env, gloo_window_create(env->context, NULL, 64, NULL, &window, NULL));
  status = gloo_window_put(window, 0, 0, s.in, 8, &error);
  rank_expect_invalid(env, status, &error, "is GPU memory");
  status = gloo_window_get(window, 0, 0, s.out, 8, &error);
  rank_expect_invalid(env, status, &error, "is GPU memory");
  RANK_OK(env, gloo_window_get(window, 0, 0, &here, 8, NULL));
  RANK_OK(env, gloo_window_destroy(window, NULL));
  sum_close(&s);
}

static void windows_are_of_the_host(void **state) {
  (void)state;
  need_gpus();
  ranks_options o = {.transport = transport};
  ranks_run(RANKS, &o, refuse_windows);
}

static void a_stream_that_does_not_come_is_named(void **state) {
  (void)state;
  need_gpus();
  ranks_options o = {.transport = transport};
  ranks_run(RANKS, &o, wait_in_vain);
}

static void let_streams_wait(rank_env *env) {
  sum s;
  float x = 1;
  gloo_error error;
  gloo_options o = GLOO_OPTIONS_INIT;
  gloo_request *request;
  sum_open(&s, env->rank);
  o.stream = s.stream;
  RANK_OK(env,
          gloo_allreduce_start(env->context, GLOO_IN_PLACE, &x, 1, GLOO_FLOAT32,
                               GLOO_SUM, NULL, &request, NULL));
  RANK_CHECK(env, gloo_request_wait_stream(request, s.stream, &error) ==
                      GLOO_ERR_UNSUPPORTED);
  RANK_OK(env, gloo_request_wait(request, GLOO_TIMEOUT_NONE, NULL));
  gloo_request_destroy(request);
  RANK_CHECK(env, gloo_request_wait_stream(NULL, s.stream, &error) ==
                      GLOO_ERR_INVALID);
  RANK_OK(env, gloo_allreduce_init(env->context, s.in, s.out, SUM_COUNT,
                                   GLOO_FLOAT32, GLOO_SUM, &o, &request, NULL));
  for (int run = 0; run < 3; run++) {
    gpu_delay(s.device, s.stream, 3000);
    RANK_OK(env, gloo_request_start(request, NULL));
    RANK_OK(env, gloo_request_wait_stream(request, s.stream, NULL));
    RANK_CHECK(env, sum_is_right(&s, env->size)); /* by the stream alone */
    RANK_OK(env, gloo_request_wait(request, GLOO_TIMEOUT_NONE, NULL));
    RANK_OK(env, gloo_request_wait_stream(request, s.stream, NULL));
    gpu_sync(s.device, s.stream);
  }
  gloo_request_destroy(request);
  sum_close(&s);
}

static void streams_wait_for_requests(void **state) {
  (void)state;
  need_gpus();
  ranks_options o = {.transport = transport};
  ranks_run(RANKS, &o, let_streams_wait);
  setenv("GLOO_STREAM_WAIT_VALUE", "1", 0);
  ranks_run(RANKS, &o, let_streams_wait);
  unsetenv("GLOO_STREAM_WAIT_VALUE");
}

/* ---- messages ------------------------------------------------------------ */

/* A message from the host does not overtake an earlier one with the same tag
 * from a GPU, which is delayed. */
static void send_one_after_the_other(rank_env *env) {
  enum { FEW = 10 };
  sum s;
  float got[2][FEW] = {{0}}, second[FEW];
  gloo_request *r[2];
  gloo_options o = GLOO_OPTIONS_INIT;
  sum_open(&s, 0);
  o.stream = s.stream;
  for (int i = 0; i < FEW; i++) second[i] = -1;
  if (env->rank == 0) {
    gpu_delay(s.device, s.stream, 5000);
    RANK_OK(env, gloo_send_start(env->context, s.in, FEW, GLOO_FLOAT32, 1, &o,
                                 &r[0], NULL));
    RANK_OK(env, gloo_send_start(env->context, second, FEW, GLOO_FLOAT32, 1,
                                 NULL, &r[1], NULL));
  } else {
    for (int i = 0; i < 2; i++)
      RANK_OK(env, gloo_recv_any_start(env->context, got[i], FEW, GLOO_FLOAT32,
                                       NULL, 0, NULL, &r[i], NULL));
  }
  for (int i = 0; i < 2; i++) {
    RANK_OK(env, gloo_request_wait(r[i], GLOO_TIMEOUT_DEFAULT, NULL));
    gloo_request_destroy(r[i]);
  }
  for (int i = 0; env->rank == 1 && i < FEW; i++)
    RANK_CHECK(env, got[0][i] == (float)i && got[1][i] == -1);
  sum_close(&s);
}

static void messages_keep_their_order(void **state) {
  (void)state;
  need_gpus();
  ranks_options o = {.transport = transport};
  ranks_run(RANKS, &o, send_one_after_the_other);
}

/* An exscan leaves rank 0's output, here in GPU memory, untouched. */
static void wait_for_nothing(rank_env *env) {
  sum s;
  double factor = 2;
  uint16_t in[8] = {0};
  gloo_request *request;
  gloo_options o = GLOO_OPTIONS_INIT;
  sum_open(&s, 0);
  o.factor = &factor;
  RANK_OK(env, gloo_exscan_start(env->context, in, s.out, 8, GLOO_BFLOAT16,
                                 GLOO_SCALED_SUM, &o, &request, NULL));
  RANK_OK(env, gloo_request_wait_stream(request, s.stream, NULL));
  RANK_OK(env, gloo_request_wait(request, GLOO_TIMEOUT_DEFAULT, NULL));
  gloo_request_destroy(request);
  sum_close(&s);
}

static void streams_may_wait_for_nothing(void **state) {
  (void)state;
  need_gpus();
  ranks_options o = {.transport = transport};
  ranks_run(RANKS, &o, wait_for_nothing);
}

/* ---- several devices ----------------------------------------------------- */

/* Inputs on two devices and one on the host; the outputs likewise. */
static void add_from_all(rank_env *env) {
  enum { BUFFERS = 3, BYTES = SUM_COUNT * sizeof(float) };
  sum s;
  sum_open(&s, 0);
  int other = gpu_devices() - 1;
  void *ins[BUFFERS] = {s.in, gpu_alloc(other, GPU_MANAGED, BYTES),
                        malloc(BYTES)};
  void *outs[BUFFERS] = {malloc(BYTES), s.out,
                         gpu_alloc(other, GPU_DEVICE, BYTES)};
  memcpy(ins[2], s.host, BYTES);
  gpu_copy(other, NULL, ins[1], s.host, BYTES);
  RANK_OK(env, gloo_allreduce_multi(env->context, (const void *const *)ins,
                                    BUFFERS, outs, BUFFERS, SUM_COUNT,
                                    GLOO_FLOAT32, GLOO_SUM, NULL, NULL));
  for (int b = 0; b < BUFFERS; b++) {
    int device = outs[b] == s.out ? s.device : other;
    gpu_copy(device, NULL, s.host, outs[b], BYTES);
    gpu_sync(device, NULL);
    bool right = true;
    for (int i = 0; i < SUM_COUNT; i++)
      right = right && s.host[i] == (float)(BUFFERS * env->size * (i % 1000));
    RANK_CHECK(env, right);
  }
  gpu_free(other, GPU_MANAGED, ins[1]);
  gpu_free(other, GPU_DEVICE, outs[2]);
  free(ins[2]);
  free(outs[0]);
  sum_close(&s);
}

static void buffers_are_on_several_devices(void **state) {
  (void)state;
  need_gpus();
  ranks_options o = {.transport = transport};
  ranks_run(RANKS, &o, add_from_all);
}

static void add_elsewhere(rank_env *env) {
  sum s;
  int current = gpu_devices() - 1;
  sum_open(&s, 0);
  gpu_use(current);
  RANK_OK(env, sum_run(env, &s, NULL));
  RANK_CHECK(env, gpu_current() == current);
  gpu_leave();
  sum_close(&s);
}

static void current_device_is_kept(void **state) {
  (void)state;
  need_gpus();
  ranks_options o = {.transport = transport};
  ranks_run(RANKS, &o, add_elsewhere);
}

/* Only memory that calls access through copies belongs to a GPU. */
static void memory_is_located(void **state) {
  enum { BYTES = 10000 };
  (void)state;
  need_gpus();
  int last = gpu_devices() - 1;
  gloo_error error;
  for (int kind = 0; kind < GPU_KINDS; kind++) {
    uint8_t *memory = gpu_alloc(last, (gpu_kind)kind, BYTES);
    int gpu = -2;
    assert_int_equal(gloo_memory_locate(memory + BYTES - 1, &gpu, &error),
                     GLOO_OK);
    assert_int_equal(gpu,
                     kind == GPU_MANAGED || kind == GPU_DEVICE ? last : -1);
    gpu_free(last, (gpu_kind)kind, memory);
  }
  assert_int_equal(gloo_memory_locate(&last, NULL, &error), GLOO_ERR_INVALID);
  assert_non_null(strstr(error.message, "`gpu` must not be NULL"));
  if (standin_break == NULL) return;
  int gpu = -2;
  void *memory = gpu_alloc(last, GPU_DEVICE, BYTES);
  standin_break(GLI_GPU_OUT_OF_MEMORY);
  gloo_status status = gloo_memory_locate(memory, &gpu, &error);
  standin_break(GLI_GPU_SUCCESS);
  gpu_free(last, GPU_DEVICE, memory);
  assert_int_equal(status, GLOO_ERR_NO_MEMORY);
  assert_int_equal(gpu, -2);
}

static void what_is_found_is_described(void **state) {
  (void)state;
  need_gpus();
  char text[512];
  const char *name;
  size_t i = 0;
  while ((name = gli_gpu_describe(i, text, sizeof text)) != NULL &&
         strcmp(name, gpu_name()) != 0)
    i++;
  assert_non_null(name);
  print_message("# %s: %s\n", name, text);
  assert_non_null(strstr(text, "the driver of"));
}

/* A buffer must not span host and device memory even if the two are adjacent;
 * this buffer extends past the device's allocation. */
static void read_too_far(rank_env *env) {
  sum s;
  gloo_error error;
  sum_open(&s, env->rank);
  gloo_status status =
      gloo_broadcast(env->context, GLOO_IN_PLACE, s.out, (size_t)1 << 40,
                     GLOO_UINT8, 0, NULL, &error);
  RANK_CHECK(env, status == GLOO_ERR_BUFFER);
  RANK_CHECK(
      env, strstr(error.message, "span host memory and device memory") != NULL);
  sum_close(&s);
}

static void buffers_are_of_one_device(void **state) {
  (void)state;
  need_gpus();
  ranks_options o = {.transport = transport};
  ranks_run(1, &o, read_too_far);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(host_programs_do_not_load_the_driver),
      cmocka_unit_test(streams_need_cuda),
      cmocka_unit_test(what_is_found_is_described),
      cmocka_unit_test(each_call_may_fail),
      cmocka_unit_test(later_jobs_go_well),
      cmocka_unit_test(a_device_can_be_reset),
      cmocka_unit_test(memory_is_located),
      cmocka_unit_test(buffers_are_on_several_devices),
      cmocka_unit_test(buffers_are_of_one_device),
      cmocka_unit_test(current_device_is_kept),
      cmocka_unit_test(streams_wait_for_requests),
      cmocka_unit_test(messages_keep_their_order),
      cmocka_unit_test(streams_may_wait_for_nothing),
      cmocka_unit_test(windows_are_of_the_host),
      cmocka_unit_test(a_stream_that_does_not_come_is_named),
  };
  transport = argc > 1 ? argv[1] : "inproc";
  gloo_log_set_level(GLOO_LOG_OFF);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
