/* Time limits as moments of the monotonic clock. */
#ifndef GLI_NET_TIME_LIMIT_H
#define GLI_NET_TIME_LIMIT_H

#include <stdint.h>

/* An absolute time of uv_hrtime; never reached when it is GLI_NEVER. */
#define GLI_NEVER UINT64_MAX

/* Returns the moment `timeout_ns` (below 0: GLI_NEVER) from now. */
uint64_t gli_deadline_after(int64_t timeout_ns);

/* Returns the time left until the deadline: 0 if it has passed, -1 for
 * GLI_NEVER. */
int64_t gli_deadline_left(uint64_t deadline_ns);

#endif
