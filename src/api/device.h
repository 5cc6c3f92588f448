/* Devices of ranks that know where they will meet. */
#ifndef GLI_API_DEVICE_H
#define GLI_API_DEVICE_H

#include "gloo_c/context.h"

/* As gloo_device_create. `towards`: the address of this host that reaches where
 * the ranks meet, in figures; others are told that one first. If it is
 * loopback, all ranks are on this host, and others are told nothing else. NULL
 * or "": it is not known. */
gloo_status gli_device_create_towards(const gloo_device_options *options,
                                      const char *towards, gloo_device **device,
                                      gloo_error *error);

#endif
