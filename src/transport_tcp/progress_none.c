/* Of systems that do not tell. */
#include "transport_tcp/progress.h"

bool gli_tcp_socket_progress(int fd, gli_tcp_progress *progress) {
  (void)fd;
  (void)progress;
  return false;
}
