/* GLOO_PORT_RANGE: the ports from which the library picks where it would
 * otherwise take any free one. */
#ifndef GLI_NET_PORTS_H
#define GLI_NET_PORTS_H

#include <stdbool.h>
#include <stdint.h>

#include "gloo_c/status.h"

typedef struct gli_ports {
  uint16_t first, last; /* 0 and 0 if the system picks */
  uint32_t start;       /* offset of the first to try, by process */
} gli_ports;

/* Gets the ports for a listener: `port`, or if it is 0 the range from the
 * environment. GLOO_ERR_INVALID names the variable and its value. */
gloo_status gli_ports_read(uint16_t port, gli_ports *ports, gloo_error *error);

/* Return the number of ports to try, at least 1, and the i-th port. */
uint32_t gli_ports_count(const gli_ports *ports);
uint16_t gli_ports_at(const gli_ports *ports, uint32_t i);

/* Returns true if the ports are a range from the environment, with `text` such
 * as "29500-29600" for messages. */
enum { GLI_PORTS_TEXT_BYTES = 16 };
bool gli_ports_ranged(const gli_ports *ports, char text[GLI_PORTS_TEXT_BYTES]);

#endif
