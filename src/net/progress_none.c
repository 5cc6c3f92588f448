/* Progress of a socket on systems that do not report it. */
#include "net/progress.h"

bool gli_tcp_socket_progress(int fd, gli_tcp_progress *progress) {
  (void)fd;
  (void)progress;
  return false;
}
