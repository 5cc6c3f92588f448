#include "transport_tcp/watch.h"

#include <stdlib.h>
#include <unistd.h>

#include "core/descriptor.h"
#include "core/hints.h"
#include "transport_tcp/tcp.h"

gli_tcp_watch *gli_tcp_watch_new(gli_tcp *t, int fd, gli_ready ready,
                                 void *owner) {
  gli_tcp_watch *watch = calloc(1, sizeof *watch);
  if (watch == NULL ||
      !gli_watch_init(&watch->eye, t->events, fd, ready, owner)) {
    free(watch);
    close(fd);
    return NULL;
  }
  return watch;
}

void gli_tcp_watch_give(gli_tcp_watch *watch, gli_ready ready, void *owner) {
  watch->eye.ready = ready;
  watch->eye.owner = owner;
}

void gli_tcp_watch_for(gli_tcp_watch *watch, int events) {
  gli_watch_for(&watch->eye, events);
}

void gli_tcp_watch_await(gli_tcp_watch *watch) {
  gli_tcp_watch_for(
      watch, GLI_READABLE | (gli_tcp_watch_unsent(watch) ? GLI_WRITABLE : 0));
}

/* Apart from gli_tcp_watch_read, which is not to have the struct on its stack.
 */
GLI_COLD ssize_t gli_tcp_watch_read_tls(gli_tcp_watch *watch, void *to,
                                        size_t bytes) {
  struct iovec part = {to, bytes};
  return gli_tls_receive(watch->tls, &part, 1);
}

void gli_tcp_watch_close(gli_tcp_watch *watch) {
  gli_watch_close(&watch->eye);
  gli_tls_destroy(watch->tls);
  free(watch);
}

void gli_tcp_watch_forked(gli_tcp_watch *watch) {
  if (watch == NULL) return;
  gli_fd_close(watch->eye.fd);
  watch->eye.fd = -1;
}
