#include "rendezvous/store/store_url.h"

#include <stdio.h>
#include <string.h>

#define FORMS                                                            \
  "a store is one of file:///folder, tcp://host:port, c10d://host:port/" \
  "prefix, redis://user:password@host:port/prefix, pmi:, pmix:, env:"

/* ---- text ---------------------------------------------------------------- */

static int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

typedef struct span {
  const char *from;
  size_t bytes;
} span;

/* Copies a part to *at, decoded. A percent sign without two hexadecimal digits
 * stands for itself, as in fe80::1%eth0. Returns NULL for a zero byte. */
static const char *url_part(span part, char **at) {
  char *begin = *at;
  for (size_t i = 0; i < part.bytes; i++) {
    char c = part.from[i];
    if (c == '%' && part.bytes - i > 2 && hex_digit(part.from[i + 1]) >= 0 &&
        hex_digit(part.from[i + 2]) >= 0) {
      c = (char)(hex_digit(part.from[i + 1]) * 16 +
                 hex_digit(part.from[i + 2]));
      i += 2;
    }
    if (c == '\0') return NULL;
    *(*at)++ = c;
  }
  *(*at)++ = '\0';
  return begin;
}

gli_text gli_store_url_shown(const char *url) {
  char shown[GLI_STORE_URL_MAX + 8];
  const char *authority = strstr(url, "://");
  const char *at = authority == NULL ? NULL : strrchr(authority, '@');
  const char *colon = at == NULL ? NULL : strchr(authority + 3, ':');
  if (colon == NULL || colon > at) return gli_quote(url);
  snprintf(shown, sizeof shown, "%.*s:***%s", (int)(colon - url), url, at);
  return gli_quote(shown);
}

/* ---- the parts ----------------------------------------------------------- */

typedef struct parts {
  span scheme, user, password, host, port, path;
} parts;

/* Returns the first `c` between `from` and `end`, or `end`. */
static const char *find_byte(const char *from, const char *end, char c) {
  const char *at = memchr(from, c, (size_t)(end - from));
  return at == NULL ? end : at;
}

static span span_between(const char *from, const char *end) {
  return (span){from, (size_t)(end - from)};
}

/* Splits off user:password@, before the last '@'. */
static const char *split_user(const char *from, const char *end, parts *p) {
  const char *at = end;
  while (at > from && at[-1] != '@') at--;
  if (at == from) return from;
  const char *colon = find_byte(from, at - 1, ':');
  p->user = span_between(from, colon);
  if (colon < at - 1) p->password = span_between(colon + 1, at - 1);
  return at;
}

/* Splits host and port. Returns NULL or an error. An IPv6 address is in
 * brackets. */
static const char *split_host(const char *from, const char *end, parts *p) {
  if (from < end && *from == '[') {
    const char *close = find_byte(from, end, ']');
    if (close == end) return "the address has no ']'";
    p->host = span_between(from + 1, close);
    from = close + 1;
    if (from < end && *from != ':') return "':' and a port must follow ']'";
  } else {
    const char *colon = find_byte(from, end, ':');
    p->host = span_between(from, colon);
    from = colon;
  }
  if (from < end) p->port = span_between(from + 1, end);
  if (find_byte(p->port.from, p->port.from + p->port.bytes, ':') !=
      p->port.from + p->port.bytes)
    return "an IPv6 address must be in brackets";
  return NULL;
}

static const char *split_url(const char *url, parts *p) {
  const char *end = url + strlen(url), *from = find_byte(url, end, ':');
  span none = {"", 0};
  *p = (parts){.scheme = span_between(url, from), none, none, none, none, none};
  if (from == end || from == url) return "it has no scheme";
  if (from + 1 == end) return NULL; /* pmi: */
  if (strncmp(from, "://", 3) != 0) return "'//' must follow the scheme";
  from += 3;
  const char *slash = find_byte(from, end, '/');
  if (slash < end) p->path = span_between(slash + 1, end);
  return split_host(split_user(from, slash, p), slash, p);
}

static bool read_port(span text, uint16_t *port) {
  uint32_t value = 0;
  if (text.bytes > 5) return false;
  for (size_t i = 0; i < text.bytes; i++) {
    if (text.from[i] < '0' || text.from[i] > '9') return false;
    value = value * 10 + (uint32_t)(text.from[i] - '0');
  }
  *port = (uint16_t)value;
  return value <= 65535 && (text.bytes == 0 || value > 0);
}

/* ---- requirements of each kind ------------------------------------------- */

typedef struct scheme {
  const char *name;
  bool host, path, user; /* true if the URL has such a part */
  uint16_t port;         /* default port; 0 if the URL must have one */
} scheme;

static const scheme schemes[] = {
    {"file", false, true, false, 0},    {"tcp", true, false, false, 0},
    {"c10d", true, true, false, 0},     {"redis", true, true, true, 6379},
    {"rediss", true, true, true, 6379}, {"pmi", false, false, false, 0},
    {"pmix", false, false, false, 0},   {"env", false, false, false, 0},
};

static const scheme *find_scheme(const char *name) {
  for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++)
    if (strcmp(schemes[i].name, name) == 0) return &schemes[i];
  return NULL;
}

static const char *check_scheme(const scheme *s, gli_store_url *url) {
  if (s == NULL) return "unknown scheme";
  if (s->host != (url->host[0] != '\0')) {
    if (s->host) return "it has no host";
    return s->path ? "a folder follows three slashes: file:///folder"
                   : "nothing may follow the scheme and its ':'";
  }
  if (!s->user && (url->user[0] != '\0' || url->password[0] != '\0'))
    return "this kind of store has no user and password";
  if (!s->path && url->path[0] != '\0') return "this kind of store has no path";
  if (!s->host && s->path && url->path[0] == '\0') return "it has no folder";
  if (s->host && url->port == 0) url->port = s->port;
  if (s->host && url->port == 0) return "it has no port";
  return NULL;
}

gloo_status gli_store_url_read(const char *text, gli_store_url *out,
                               gloo_error *error) {
  size_t bytes = strlen(text);
  if (bytes > GLI_STORE_URL_MAX)
    return gli_fail(error, GLOO_ERR_INVALID, -1,
                    "the URL of the store has %zu bytes; the limit is %zu",
                    bytes, GLI_STORE_URL_MAX);
  parts p;
  const char *wrong = split_url(text, &p);
  char *at = out->text;
  out->scheme = url_part(p.scheme, &at);
  out->user = url_part(p.user, &at);
  out->password = url_part(p.password, &at);
  out->host = url_part(p.host, &at);
  out->path = url_part(p.path, &at);
  if (wrong == NULL &&
      (out->scheme == NULL || out->user == NULL || out->password == NULL ||
       out->host == NULL || out->path == NULL))
    wrong = "it contains %00";
  if (wrong == NULL && !read_port(p.port, &out->port))
    wrong = "its port is not a number from 1 to 65535";
  if (wrong == NULL) wrong = check_scheme(find_scheme(out->scheme), out);
  if (wrong == NULL) return GLOO_OK;
  return gli_fail(error, GLOO_ERR_INVALID, -1,
                  "cannot open the store '%s': %s; " FORMS,
                  gli_store_url_shown(text).text, wrong);
}
