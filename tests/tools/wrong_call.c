/* Collectives of `gloo doctor --selftest` that go wrong on rank 1, as the
 * variable WRONG says: "result" changes a byte of a scan; "kill" and "stop" end
 * or stop the rank before a reduce. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#define gli_case_run right_case_run
#include "tools/bench_call.c"
#undef gli_case_run

gloo_status gli_case_run(const gli_bench_case *c, const gli_bench_buffers *b,
                         gloo_error *error);

gloo_status gli_case_run(const gli_bench_case *c, const gli_bench_buffers *b,
                         gloo_error *error) {
  const char *wrong = getenv("WRONG");
  bool here = wrong != NULL && c->rank == 1;
  if (here && c->call.collective == GLI_REDUCE) {
    if (strcmp(wrong, "kill") == 0) (void)raise(SIGKILL);
    while (strcmp(wrong, "stop") == 0) uv_sleep(1000);
  }
  gloo_status status = right_case_run(c, b, error);
  if (here && c->call.collective == GLI_SCAN && strcmp(wrong, "result") == 0)
    *(uint8_t *)b->out ^= 1;
  return status;
}
