/* gloo plan --hosts: parses which ranks share a host. */
#include <errno.h>
#include <stdlib.h>

#include "core/error.h"
#include "tools/plan_tool.h"

enum { MAX_NUMBER = 1000000 };

static bool number(const char **text, uint32_t *value) {
  if (**text < '0' || **text > '9') return false;
  char *end;
  errno = 0;
  unsigned long n = strtoul(*text, &end, 10);
  if (errno != 0 || n > MAX_NUMBER) return false;
  *text = end;
  *value = (uint32_t)n;
  return true;
}

/* Parses "2+3": the number of ranks on each host. */
static bool sums(const char *text, uint32_t size, uint64_t *keys) {
  uint32_t rank = 0, host = 0;
  for (;; host++, text++) {
    uint32_t ranks;
    if (!number(&text, &ranks) || ranks == 0 || ranks > size - rank) {
      return false;
    }
    for (; ranks > 0; ranks--) keys[rank++] = host;
    if (*text != '+') break;
  }
  return *text == 0 && rank == size;
}

/* Parses "0,0,1,1": the host of each rank. */
static bool list(const char *text, uint32_t size, uint64_t *keys) {
  for (uint32_t rank = 0; rank < size; rank++) {
    uint32_t host;
    if (!number(&text, &host)) return false;
    keys[rank] = host;
    if (rank + 1 < size && *text++ != ',') return false;
  }
  return *text == 0;
}

/* Parses "4", a number of hosts, or "4x2", with the number of ranks on each. */
static bool equal(const char *text, uint32_t size, uint64_t *keys) {
  uint32_t hosts, each;
  if (!number(&text, &hosts) || hosts == 0 || hosts > size) return false;
  if (*text == 'x') {
    text++;
    if (!number(&text, &each) || (uint64_t)hosts * each != size) return false;
  } else {
    each = (size - 1) / hosts + 1;
  }
  for (uint32_t rank = 0; rank < size; rank++) keys[rank] = rank / each;
  return *text == 0;
}

gloo_status gli_plan_hosts(const char *text, uint32_t size, gli_hosts **hosts,
                           gloo_error *error) {
  uint64_t *keys = calloc(size, sizeof *keys);
  if (keys == NULL) {
    return gli_fail(error, GLOO_ERR_NO_MEMORY, -1, "out of memory");
  }
  gloo_status status = GLOO_OK;
  if (equal(text, size, keys) || sums(text, size, keys) ||
      list(text, size, keys)) {
    status = gli_hosts_make(keys, size, hosts, error);
  } else {
    status = gli_fail(error, GLOO_ERR_INVALID, -1,
                      "'%.40s' does not place %u ranks on hosts; use a number "
                      "of hosts (4), hosts x ranks (4x2), the ranks per host "
                      "(2+3) or the host of each rank (0,0,1,1)",
                      text, size);
  }
  free(keys);
  return status;
}
