#include "net/ports.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/environment.h"
#include "core/error.h"

/* Parses a port of digits only, 1 to 65535; *end is the text after it. */
static bool ports_read_one(const char *text, uint16_t *port, const char **end) {
  uint32_t value = 0;
  const char *at = text;
  for (; *at >= '0' && *at <= '9' && value <= UINT16_MAX; at++)
    value = value * 10 + (uint32_t)(*at - '0');
  *end = at;
  *port = (uint16_t)value;
  return at != text && value > 0 && value <= UINT16_MAX;
}

static bool ports_parse(const char *text, gli_ports *ports) {
  const char *end;
  if (!ports_read_one(text, &ports->first, &end)) return false;
  ports->last = ports->first;
  if (*end == '\0') return true;
  if (*end != '-' || !ports_read_one(end + 1, &ports->last, &end)) return false;
  return *end == '\0' && ports->first <= ports->last;
}

gloo_status gli_ports_read(uint16_t port, gli_ports *ports, gloo_error *error) {
  *ports = (gli_ports){.first = port, .last = port};
  if (port != 0) return GLOO_OK;
  const char *text = gli_environment_read("GLOO_PORT_RANGE");
  if (text == NULL) return GLOO_OK;
  if (!ports_parse(text, ports))
    return gli_fail(error, GLOO_ERR_INVALID, -1,
                    "GLOO_PORT_RANGE is \"%.64s\", expected two ports from 1 "
                    "to 65535, the lower one first, such as 29500-29600",
                    text);
  /* Ranks of one host that start together begin at different ports. */
  ports->start = (uint32_t)getpid();
  return GLOO_OK;
}

uint32_t gli_ports_count(const gli_ports *ports) {
  return (uint32_t)(ports->last - ports->first) + 1;
}

uint16_t gli_ports_at(const gli_ports *ports, uint32_t i) {
  uint32_t n = gli_ports_count(ports);
  return (uint16_t)(ports->first + (ports->start % n + i) % n);
}

bool gli_ports_ranged(const gli_ports *ports, char text[GLI_PORTS_TEXT_BYTES]) {
  (void)snprintf(text, GLI_PORTS_TEXT_BYTES, "%u-%u", (unsigned)ports->first,
                 (unsigned)ports->last);
  return ports->start != 0;
}
