/* Rails are the ports that share long messages, if GLOO_IBV_RAILS is above 1. The
 * first port is a rail, too. Each rail has its own completion queue, and memory
 * that peers read to test the path. A lane (lanes.h) is the queue
 * pair of a pair on a rail. See docs/adr/0080.
 *
 * Completion queues of rails are armed while reads are in progress, so that
 * sleepers need to know only one descriptor. */
#ifndef GLI_TRANSPORT_IBV_RAILS_H
#define GLI_TRANSPORT_IBV_RAILS_H

#include "net/events.h"
#include "transport_ibv/port.h"

struct gli_ibv_lanes;

enum { GLI_IBV_TRIAL_BYTES = 8192 }; /* length of the read that tries a lane */

typedef struct gli_ibv_rail {
  bool armed, lost;
  uint32_t in_flight; /* reads, at most the entries of its queue */
  unsigned home;      /* the rail whose registrations are this one's */
  struct ibv_mr *mr;  /* registration of `memory` */
  uint8_t *memory;    /* to be read by peers, then to read to */
  gli_watch watch[2]; /* completions, events */
  int n_watches;
} gli_ibv_rail;

typedef struct gli_ibv_rails {
  gli_ibv_more_ports more;
  gli_ibv_port port[GLI_IBV_RAILS_MAX]; /* by name, on all hosts */
  gli_ibv_rail rail[GLI_IBV_RAILS_MAX];
  uint32_t n; /* 0: off */
  uint64_t min_bytes;
  gli_events *set;             /* NULL if off */
  struct gli_ibv_lanes *lanes; /* all that exist */
} gli_ibv_rails;

/* `home` of rails on the device of the first port. */
enum { GLI_IBV_HOME_FIRST = GLI_IBV_RAILS_MAX };

/* Equips the ports that gli_ibv_port_open has opened. Off if that fails, or if
 * there are none. */
void gli_ibv_rails_open(gli_ibv_rails *rails, const gli_ibv_port *first);
void gli_ibv_rails_close(gli_ibv_rails *rails);
/* Close descriptors, and free memory, in a forked child. */
void gli_ibv_rails_forked(gli_ibv_rails *rails);
void gli_ibv_rails_abandon(gli_ibv_rails *rails);

/* Takes completions of reads (gli_ibv_read_done). */
void gli_ibv_rails_poll(gli_ibv_rails *rails);
/* Arms the queue of a rail. Returns false if the rail is lost. */
bool gli_ibv_rail_arm(gli_ibv_rails *rails, uint32_t i);
/* Takes events from channels and devices. Returns true if there was one of a
 * completion. */
bool gli_ibv_rails_heard(gli_ibv_rails *rails);

#endif
