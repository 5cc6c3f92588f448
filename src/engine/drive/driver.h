/* Devices: a transport, and its progress. */
#ifndef GLI_ENGINE_DRIVE_DRIVER_H
#define GLI_ENGINE_DRIVE_DRIVER_H

#include "gloo_c/context.h"
#include "transport/transport.h"

/* Opens a device on any transport. Upcalls and device_user of `config` are set
 * here. Without a helper thread, operations advance inside test and wait
 * only. */
gloo_status gli_device_open(const gli_transport_ops *ops,
                            const gli_transport_config *config, bool helper,
                            gloo_device **device, gloo_error *error);
void gli_device_close(gloo_device *device);
void gli_device_address(const gloo_device *device, gli_address *address);
/* Returns true if ranks on this device can send heartbeats while the program
 * makes no calls, and others could miss them. */
bool gli_device_beats(const gloo_device *device);
const char *gli_device_transport(const gloo_device *device);

/* Stores the kind of encryption of its connections, which the engine does not
 * use; 0 at first. */
void gli_device_note_tls(gloo_device *device, unsigned kind);
unsigned gli_device_tls(const gloo_device *device);

/* Makes one round of progress for all contexts of the device, deadlines
 * included. Returns the number of events. */
int gli_device_progress(gloo_device *device);

/* Sets how to wait: `oversubscribed` if the ranks on this host outnumber its
 * cores, which makes spinning harmful. The environment variable GLOO_WAIT
 * (spin, yield, sleep) overrides it. Returns the previous value. */
bool gli_device_set_oversubscribed(gloo_device *device, bool oversubscribed);
/* Returns the wait policy of the device as text. */
const char *gli_device_wait_policy(const gloo_device *device);

#endif
