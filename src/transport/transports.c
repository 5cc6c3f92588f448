/* The list of transports: a new one is its folder and a line here. Each defines
 * its table in its own folder, which this file never includes. */
#include <string.h>

#include "transport/transport.h"

extern const gli_transport_ops gli_transport_auto;
extern const gli_transport_ops gli_transport_tcp;
extern const gli_transport_ops gli_transport_shm;
extern const gli_transport_ops gli_transport_ibv;
extern const gli_transport_ops gli_transport_inproc;

static const gli_transport_ops *const transports[] = {
    &gli_transport_auto, &gli_transport_tcp,    &gli_transport_shm,
    &gli_transport_ibv,  &gli_transport_inproc,
};

const gli_transport_ops *gli_transport_at(size_t index) {
  return index < sizeof transports / sizeof transports[0] ? transports[index]
                                                          : NULL;
}

const gli_transport_ops *gli_transport_find(const char *name) {
  if (name == NULL) return NULL;
  for (size_t i = 0; i < sizeof transports / sizeof transports[0]; i++) {
    if (strcmp(transports[i]->name, name) == 0) return transports[i];
  }
  return NULL;
}
