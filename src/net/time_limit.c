#include "net/time_limit.h"

#include <uv.h>

#include "core/error.h"

uint64_t gli_deadline_after(int64_t timeout_ns) {
  uint64_t deadline;
  if (timeout_ns < 0) return GLI_NEVER;
  return gli_add_u64(uv_hrtime(), (uint64_t)timeout_ns, &deadline) ? deadline
                                                                   : GLI_NEVER;
}

int64_t gli_deadline_left(uint64_t deadline_ns) {
  if (deadline_ns == GLI_NEVER) return -1;
  uint64_t now = uv_hrtime();
  if (now >= deadline_ns) return 0;
  uint64_t left = deadline_ns - now;
  return left > INT64_MAX ? INT64_MAX : (int64_t)left;
}
