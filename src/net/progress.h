/* Progress of the bytes of a TCP socket, if the system reports it. */
#ifndef GLI_NET_PROGRESS_H
#define GLI_NET_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct gli_tcp_progress {
  uint64_t acknowledged; /* number of bytes acknowledged since connecting */
  uint64_t queued;       /* number of bytes not acknowledged, sent or not */
  uint64_t segment;      /* maximum payload of a packet */
  unsigned repeats;      /* successive timeouts of the oldest packet */
  uint64_t longest;      /* longest payload of a packet from the peer; 536 at
                            first */
  uint64_t announced;    /* longest payload that this host accepts */
} gli_tcp_progress;

/* The remedy if a path drops long packets. */
#define GLI_MTU_ADVICE                                                 \
  "check the MTU of the path (ping -M do -s 1400) and firewalls that " \
  "drop the ICMP message 'fragmentation needed', or set "              \
  "net.ipv4.tcp_mtu_probing=1"

/* Returns false if unknown. */
bool gli_tcp_socket_progress(int fd, gli_tcp_progress *progress);

/* Returns true if no packet of about the longest length has come from the peer,
 * so that nothing shows that such packets pass. */
static inline bool gli_tcp_progress_unproved(const gli_tcp_progress *progress) {
  enum { OPTIONS = 100 }; /* more than IP and TCP options take */
  return progress->longest + OPTIONS < progress->announced;
}

#endif
