#include "tools/metrics_http.h"

#include <string.h>
#include <strings.h>

typedef struct http_part {
  const char *at, *end;
} http_part;

static bool http_is_space(char c) {
  return c == ' ' || c == '\t';
}

static http_part http_trim(http_part p) {
  while (p.at < p.end && http_is_space(*p.at)) p.at++;
  while (p.at < p.end && http_is_space(p.end[-1])) p.end--;
  return p;
}

static bool http_equals(http_part p, const char *text) {
  size_t n = strlen(text);
  return (size_t)(p.end - p.at) == n && memcmp(p.at, text, n) == 0;
}

/* Returns true if they are equal without regard to case, as names of headers
 * and types are. */
static bool http_is(http_part p, const char *text) {
  size_t n = strlen(text);
  return (size_t)(p.end - p.at) == n && strncasecmp(p.at, text, n) == 0;
}

/* Returns the part before `by`, which *rest then follows. */
static http_part http_split(http_part *rest, char by) {
  const char *at = memchr(rest->at, by, (size_t)(rest->end - rest->at));
  http_part first = {rest->at, at != NULL ? at : rest->end};
  rest->at = at != NULL ? at + 1 : rest->end;
  return http_trim(first);
}

/* ---- the Accept header (RFC 9110, 12.5.1) -------------------------------- */

typedef struct http_accept {
  int classic, open; /* largest weights, in thousandths */
} http_accept;

/* Returns a weight in thousandths; 0 if it is malformed. */
static int accept_weight(http_part p) {
  if (p.at == p.end || (*p.at != '0' && *p.at != '1')) return 0;
  int weight = 1000 * (*p.at++ - '0'), unit = 100;
  if (p.at < p.end && *p.at++ != '.') return 0;
  for (; p.at < p.end; p.at++, unit /= 10) {
    if (*p.at < '0' || *p.at > '9') return 0;
    weight += unit * (*p.at - '0');
  }
  return weight < 1000 ? weight : 1000;
}

static void accept_range(http_part range, http_accept *accept) {
  static const char *const text[] = {"text/plain", "text/*", "*/*"};
  http_part type = http_split(&range, ';');
  bool open = http_is(type, "application/openmetrics-text");
  bool classic = false;
  int weight = 1000;
  for (int i = 0; i < 3; i++) classic = classic || http_is(type, text[i]);
  while (range.at < range.end) {
    http_part value = http_split(&range, ';');
    http_part name = http_split(&value, '=');
    value = http_trim(value);
    if (http_is(name, "q")) weight = accept_weight(value);
    if (http_is(name, "version") && !http_is(value, "1.0.0") &&
        !http_is(value, "\"1.0.0\""))
      open = false;
  }
  if (open && weight > accept->open) accept->open = weight;
  if (classic && weight > accept->classic) accept->classic = weight;
}

static void accept_read(http_part value, http_accept *accept) {
  while (value.at < value.end) accept_range(http_split(&value, ','), accept);
}

/* ---- requests ------------------------------------------------------------ */

/* Returns the next line, without its end. */
static http_part http_line(http_part *rest) {
  http_part line = {rest->at, rest->at};
  while (line.end < rest->end && *line.end != '\n') line.end++;
  rest->at = line.end < rest->end ? line.end + 1 : rest->end;
  if (line.end > line.at && line.end[-1] == '\r') line.end--;
  return line;
}

/* Returns the end of the empty line after the headers; NULL if it is missing.
 */
static const char *http_end(const char *bytes, size_t n) {
  for (size_t i = 0; i < n; i++) {
    if (bytes[i] != '\n') continue;
    if (i + 1 < n && bytes[i + 1] == '\n') return bytes + i + 2;
    if (i + 2 < n && bytes[i + 1] == '\r' && bytes[i + 2] == '\n')
      return bytes + i + 3;
  }
  return NULL;
}

/* Checks "METHOD TARGET HTTP/1.x". Returns a status. */
static int http_first(http_part line, gli_http_request *request) {
  http_part method = http_split(&line, ' ');
  http_part target = http_split(&line, ' ');
  http_part version = {line.at, line.end};
  if (method.at == method.end || target.at == target.end ||
      !(http_equals(version, "HTTP/1.0") || http_equals(version, "HTTP/1.1")))
    return 400;
  request->head = http_equals(method, "HEAD");
  if (!request->head && !http_equals(method, "GET")) return 405;
  http_part path = http_split(&target, '?');
  return http_equals(path, "/metrics") ? 200 : 404;
}

static bool http_is_printable(const char *bytes, const char *end) {
  for (; bytes < end; bytes++) {
    bool space = *bytes == '\t' || *bytes == '\r' || *bytes == '\n';
    if (!space && ((unsigned char)*bytes < ' ' || *bytes == 127)) return false;
  }
  return true;
}

int gli_http_read(const char *bytes, size_t n, gli_http_request *request) {
  const char *end = http_end(bytes, n);
  http_accept accept = {0, 0};
  *request = (gli_http_request){.format = GLI_METRICS_CLASSIC};
  if (end == NULL) return n < GLI_HTTP_HEAD_BYTES ? 0 : 431;
  if (!http_is_printable(bytes, end)) return 400;
  http_part rest = {bytes, end};
  int status = http_first(http_line(&rest), request);
  while (status == 200 && rest.at < rest.end) {
    http_part value = http_line(&rest);
    if (value.at == value.end) break;
    http_part name = http_split(&value, ':');
    if (http_is(name, "Accept")) accept_read(value, &accept);
  }
  if (accept.open > 0 && accept.open >= accept.classic)
    request->format = GLI_METRICS_OPEN;
  return status;
}

const char *gli_http_words(int status) {
  switch (status) {
    case 200:
      return "200 OK";
    case 404:
      return "404 Not Found";
    case 405:
      return "405 Method Not Allowed";
    case 431:
      return "431 Request Header Fields Too Large";
    case 503:
      return "503 Service Unavailable";
    default:
      return "400 Bad Request";
  }
}
