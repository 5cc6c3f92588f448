/* Time limits as moments of the monotonic clock. */
#ifndef GLI_NET_TIME_LIMIT_H
#define GLI_NET_TIME_LIMIT_H

#include <stdint.h>

/* The deadline that never passes. Deadlines are absolute times of uv_hrtime. */
#define GLI_NEVER UINT64_MAX

/* Returns the time `timeout_ns` from now, or GLI_NEVER if it is below 0. */
uint64_t gli_deadline_after(int64_t timeout_ns);

/* Returns the time left until the deadline: 0 if it has passed, -1 for
 * GLI_NEVER. */
int64_t gli_deadline_left(uint64_t deadline_ns);

#endif
