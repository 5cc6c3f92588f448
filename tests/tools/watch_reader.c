/* Readers of a rank's socket other than `gloo top`: of another user, or without
 * a request.
 * usage: watch_reader USER|- SOCKET PATH|-
 * Prints the data received. `-` for PATH: connects several times, prints
 * "held", and is silent until standard input ends. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static int reader_connect(const char *path) {
  struct sockaddr_un address;
  memset(&address, 0, sizeof address);
  address.sun_family = AF_UNIX;
  strncpy(address.sun_path, path, sizeof address.sun_path - 1);
  int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  if (fd >= 0 &&
      connect(fd, (const struct sockaddr *)&address, sizeof address) == 0)
    return fd;
  perror(path);
  exit(3);
}

static void reader_ask(const char *socket_path, const char *path) {
  char request[256], text[4096];
  int fd = reader_connect(socket_path);
  int n = snprintf(request, sizeof request, "GET %s HTTP/1.0\r\n\r\n", path);
  (void)send(fd, request, (size_t)n, MSG_NOSIGNAL);
  for (ssize_t got; (got = recv(fd, text, sizeof text, 0)) > 0;)
    (void)fwrite(text, 1, (size_t)got, stdout);
}

int main(int argc, char **argv) {
  if (argc != 4) return 2;
  if (strcmp(argv[1], "-") != 0 && setuid((uid_t)atoi(argv[1])) != 0) return 4;
  if (strcmp(argv[3], "-") != 0) {
    reader_ask(argv[2], argv[3]);
    return 0;
  }
  for (int i = 0; i < 3; i++) (void)reader_connect(argv[2]);
  puts("held");
  fflush(stdout);
  while (getchar() != EOF) {
  }
  return 0;
}
