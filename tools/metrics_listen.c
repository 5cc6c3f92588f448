#include "tools/metrics_server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BACKLOG = 64, HOST_BYTES = 256 };

static bool listen_fail(const char *address, const char *why) {
  fprintf(stderr, "gloo metrics: cannot listen on %s: %s\n", address, why);
  return false;
}

/* Splits an address. Returns NULL, or the reason why it is malformed. */
static const char *listen_split(const char *address, char host[HOST_BYTES],
                                char port[8]) {
  static const char form[] =
      "it must be HOST:PORT, [IPv6]:PORT or :PORT, such as 127.0.0.1:9955";
  const char *colon = strrchr(address, ':');
  if (colon == NULL) return form;
  size_t n = (size_t)(colon - address);
  const char *from = address;
  if (*from == '[' && n > 1 && from[n - 1] == ']') {
    from++;
    n -= 2;
  } else if (memchr(from, ':', n) != NULL) {
    return form;
  }
  size_t digits = strspn(colon + 1, "0123456789");
  if (digits == 0 || colon[1 + digits] != '\0') return form;
  if (digits > 5 || atoi(colon + 1) > 65535) return "ports are 0 to 65535";
  if (n >= HOST_BYTES) return "the name is too long";
  memcpy(host, from, n);
  host[n] = '\0';
  memcpy(port, colon + 1, digits + 1);
  return NULL;
}

static int listen_one(uv_tcp_t *tcp, const struct sockaddr *address,
                      uv_connection_cb arrived) {
  int code = uv_tcp_bind(tcp, address, 0);
  return code != 0 ? code : uv_listen((uv_stream_t *)tcp, BACKLOG, arrived);
}

bool gli_metrics_listen_at(uv_loop_t *loop, const char *address, uv_tcp_t *tcp,
                           uv_connection_cb arrived) {
  char host[HOST_BYTES], port[8];
  uv_getaddrinfo_t found;
  const struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                                 .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
  (void)uv_tcp_init(loop, tcp);
  const char *why = listen_split(address, host, port);
  if (why != NULL) return listen_fail(address, why);
  const char *node = host[0] != '\0' ? host : NULL;
  int code = uv_getaddrinfo(loop, &found, NULL, node, port, &hints);
  if (code != 0) return listen_fail(address, uv_strerror(code));
  const struct addrinfo *first = found.addrinfo;
  for (const struct addrinfo *a = first; a != NULL && node == NULL;
       a = a->ai_next)
    if (a->ai_family == AF_INET6) first = a; /* takes IPv4 as well */
  code = listen_one(tcp, first->ai_addr, arrived);
  if (code != 0 && first != found.addrinfo)
    code = listen_one(tcp, found.addrinfo->ai_addr, arrived);
  uv_freeaddrinfo(found.addrinfo);
  return code == 0 || listen_fail(address, uv_strerror(code));
}

void gli_metrics_print_url(const uv_tcp_t *tcp) {
  struct sockaddr_storage at;
  char host[64] = "";
  int bytes = (int)sizeof at;
  (void)uv_tcp_getsockname(tcp, (struct sockaddr *)&at, &bytes);
  bool six = at.ss_family == AF_INET6;
  unsigned port;
  if (six) {
    const struct sockaddr_in6 *a = (const struct sockaddr_in6 *)&at;
    (void)uv_ip6_name(a, host, sizeof host);
    port = ntohs(a->sin6_port);
  } else {
    const struct sockaddr_in *a = (const struct sockaddr_in *)&at;
    (void)uv_ip4_name(a, host, sizeof host);
    port = ntohs(a->sin_port);
  }
  printf("http://%s%s%s:%u/metrics\n", six ? "[" : "", host, six ? "]" : "",
         port);
  fflush(stdout);
}
