/* Devices of ranks that know where they will meet. */
#ifndef GLI_API_DEVICE_H
#define GLI_API_DEVICE_H

#include "gloo_c/context.h"

/* Creates a device as gloo_device_create does. `towards` is the numeric address
 * of this host on the route to the rendezvous, which others try first. A
 * loopback address means that all ranks are on this host, and others get no
 * other address. NULL or "": unknown. */
gloo_status gli_device_create_towards(const gloo_device_options *options,
                                      const char *towards, gloo_device **device,
                                      gloo_error *error);

#endif
