/* How far the bytes of a TCP socket have come, where the system tells. */
#ifndef GLI_TRANSPORT_TCP_PROGRESS_H
#define GLI_TRANSPORT_TCP_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct gli_tcp_progress {
  uint64_t acknowledged; /* bytes, since the connection began */
  uint64_t queued;       /* bytes that are not, sent or not */
  uint64_t segment;      /* the longest packet's payload */
  unsigned repeats;      /* times in a row that the oldest packet was sent again
                            for want of an answer */
} gli_tcp_progress;

/* False: it is not known. */
bool gli_tcp_socket_progress(int fd, gli_tcp_progress *progress);

#endif
