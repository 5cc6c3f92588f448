#include "net/port_holder.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#if GLI_LINUX

/* Lines of /proc/net/tcp and tcp6 are "SL: ADDRESS:PORT PEER:PORT STATE TX:RX
 * TR:WHEN RETRANSMITS USER ...", hexadecimal except for the user. An address is
 * one or four words, each in network byte order but printed as a native
 * integer. */
enum { LISTENS = 0x0a };

static bool holder_parse(const char *line, gli_endpoint *at, uint32_t *user) {
  char address[33] = "";
  unsigned port = 0, state = 0;
  if (sscanf(line,
             " %*[^:]: %32[0-9A-F]:%x %*[0-9A-F]:%*x %x %*x:%*x %*x:%*x %*x "
             "%" SCNu32,
             address, &port, &state, user) != 4)
    return false;
  size_t digits = strlen(address);
  if (state != LISTENS || (digits != 8 && digits != 32)) return false;
  uint32_t words[4];
  for (size_t i = 0; i < digits / 8; i++)
    if (sscanf(address + 8 * i, "%8" SCNx32, &words[i]) != 1) return false;
  memset(at, 0, sizeof *at);
  if (digits == 8) {
    at->v4.sin_family = AF_INET;
    memcpy(&at->v4.sin_addr, words, 4);
  } else {
    at->v6.sin6_family = AF_INET6;
    memcpy(&at->v6.sin6_addr, words, 16);
    gli_endpoint_unmap(at);
  }
  gli_endpoint_set_port(at, (uint16_t)port);
  return true;
}

static bool holder_find(const char *path, const gli_endpoint *at,
                        uint32_t *user) {
  char line[512];
  bool found = false;
  FILE *table = fopen(path, "re");
  if (table == NULL) return false;
  while (!found && fgets(line, sizeof line, table) != NULL) {
    gli_endpoint its;
    uint32_t whose;
    if (!holder_parse(line, &its, &whose)) continue;
    found = gli_endpoint_port(&its) == gli_endpoint_port(at) &&
            (gli_endpoint_is_wildcard(&its) || gli_endpoint_is_wildcard(at) ||
             gli_endpoint_same_address(&its, at));
    if (found) *user = whose;
  }
  (void)fclose(table);
  return found;
}

bool gli_port_holder(const gli_endpoint *at, uint32_t *user) {
  gli_endpoint address = *at;
  gli_endpoint_unmap(&address);
  return holder_find("/proc/net/tcp", &address, user) ||
         holder_find("/proc/net/tcp6", &address, user);
}

#else

bool gli_port_holder(const gli_endpoint *at, uint32_t *user) {
  (void)at;
  (void)user;
  return false;
}

#endif
