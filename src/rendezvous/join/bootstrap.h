/* How the ranks of a context meet. */
#ifndef GLI_RENDEZVOUS_JOIN_BOOTSTRAP_H
#define GLI_RENDEZVOUS_JOIN_BOOTSTRAP_H

#include <stdbool.h>
#include <stdint.h>

#include "gloo_c/context.h"
#include "net/tls.h"
#include "rendezvous/join/exchange.h"
#include "security/keys.h"

/* Holds the settings on which all ranks must agree. */
typedef struct gli_agreement {
  bool beats;                /* it gives signs of life; need not be alike */
  bool measures;             /* they are going to call gli_measure */
  bool shared_buffers;       /* as in gloo_context_options */
  bool big_endian;           /* elements are sent as they lie in memory */
  bool asks;                 /* peers are asked for the job's secret */
  uint32_t mark;             /* of that, see gli_trust_mark; 0: there is none */
  const gli_key *record_key; /* of the tags of what they publish; NULL: none */
  gli_tls_kind tls;          /* how what crosses a network is encrypted */
} gli_agreement;

/* Tells how far a rank has come, which decides how the others learn of its
 * failure. */
typedef enum gli_progress {
  GLI_NOT_YET,
  GLI_MEETING, /* a failure is in the store already */
  GLI_MET      /* what fails now, no other rank knows of yet */
} gli_progress;

/* Kept from one attempt to the next, but for the progress. */
typedef struct gli_meeting {
  gli_progress progress;
  bool all_know; /* that some differ: all ranks have read what each published */
  gli_attempt attempt;
  uint64_t key; /* 0: not drawn yet; others may have what was published */
} gli_meeting;

/* Exchange addresses and keys with all ranks through the store, and learn which
 * ranks share a host: everything that plans may know of hosts comes from what
 * was exchanged, so it is the same on all ranks. `host_id` as in
 * gloo_context_options. Errors: those of the exchange; GLOO_ERR_PROTOCOL and
 * GLOO_ERR_MISMATCH name a rank of another version, transport or byte order;
 * GLOO_ERR_AUTH one with another secret, or none;
 * GLOO_ERR_INVALID for a host id that cannot be used. `meeting`: of a rank that
 * calls gli_bootstrap_finish when it has succeeded; NULL for others. */
gloo_status gli_bootstrap_ranks(gloo_context *context, gloo_store *store,
                                uint64_t key, const char *host_id,
                                const gli_agreement *agreement,
                                int64_t timeout_ns, gli_meeting *meeting,
                                gloo_error *error);

#endif
