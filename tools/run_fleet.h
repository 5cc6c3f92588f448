/* Agents on hosts: starts one child per host, keeps the connections, sends
 * beats, and reports frames and ends. */
#ifndef GLI_TOOLS_RUN_FLEET_H
#define GLI_TOOLS_RUN_FLEET_H

#include "tools/run_link.h"
#include "tools/run_rsh.h"

typedef struct gli_run_fleet gli_run_fleet;

typedef struct gli_run_fleet_events {
  /* The agent of a host has started; its version is that of this command. */
  void (*greeted)(void *user, int host);
  void (*frame)(void *user, int host, const gli_run_frame *frame);
  /* Reports the loss of a host and its cause, as the host's last event. Hosts
   * that were released are not reported. */
  void (*gone)(void *user, int host, const char *why);
  /* Nothing is left, after gli_run_fleet_end. */
  void (*done)(void *user);
} gli_run_fleet_events;

/* Returns a fleet for the hosts of a list, or NULL if out of memory. All
 * pointers are borrowed. At most `parallel` hosts are being started at any
 * time; a host is lost after `lost_ms` without a frame. */
gli_run_fleet *gli_run_fleet_open(uv_loop_t *loop, const gli_run_hosts *hosts,
                                  const gli_run_rsh *rsh, int parallel,
                                  int64_t lost_ms,
                                  const gli_run_fleet_events *events,
                                  void *user);
void gli_run_fleet_start(gli_run_fleet *fleet);

/* Sends a frame to a host, or (-1) to all that have greeted. */
void gli_run_fleet_send(gli_run_fleet *fleet, int host, gli_run_type type,
                        uint32_t index, const void *data, size_t bytes);

/* Stops or continues to read from all hosts. A host is not judged lost while
 * nothing is read from it. */
void gli_run_fleet_pause(gli_run_fleet *fleet, bool pause);

/* Ends the connection to a host whose agent has no rank left. */
void gli_run_fleet_release(gli_run_fleet *fleet, int host);

/* Ends a connection because of `why`, which `gone` then reports. */
void gli_run_fleet_drop(gli_run_fleet *fleet, int host, const char *why);

/* Ends all connections, and kills children that do not end soon. */
void gli_run_fleet_end(gli_run_fleet *fleet);
/* Returns true, and frees nothing, if a thread still looks up a name. */
bool gli_run_fleet_free(gli_run_fleet *fleet);

#endif
