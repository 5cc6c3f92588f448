/* Progress of the bytes of a TCP socket, if the system reports it. */
#ifndef GLI_TRANSPORT_TCP_PROGRESS_H
#define GLI_TRANSPORT_TCP_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct gli_tcp_progress {
  uint64_t acknowledged; /* number of bytes acknowledged since connecting */
  uint64_t queued;       /* number of bytes not acknowledged, sent or not */
  uint64_t segment;      /* maximum payload of a packet */
  unsigned repeats;      /* successive timeouts of the oldest packet */
} gli_tcp_progress;

/* Returns false if unknown. */
bool gli_tcp_socket_progress(int fd, gli_tcp_progress *progress);

#endif
