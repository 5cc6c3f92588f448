/* The kernel also counts probes of a closed window as timeouts. They are no
 * packets in flight.
 *
 * The kernel's structure is longer than that of the C library, whose header
 * cannot be included together with this one. Older kernels fill in less. */
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "net/progress.h"

bool gli_tcp_socket_progress(int fd, gli_tcp_progress *progress) {
  struct tcp_info info = {0};
  socklen_t bytes = sizeof info;
  int queued;
  if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) != 0) return false;
  if (bytes < offsetof(struct tcp_info, tcpi_bytes_received)) return false;
  if (ioctl(fd, SIOCOUTQ, &queued) != 0) return false;
  *progress = (gli_tcp_progress){
      .acknowledged = info.tcpi_bytes_acked,
      .queued = (uint64_t)queued,
      .segment = info.tcpi_snd_mss,
      .repeats = info.tcpi_unacked > 0 ? info.tcpi_backoff : 0,
      .longest = info.tcpi_rcv_mss,
      .announced = info.tcpi_advmss};
  return true;
}
