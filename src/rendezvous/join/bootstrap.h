/* Rendezvous of the ranks of a context. */
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
  bool beats;    /* true if it sends heartbeats; may differ between ranks */
  bool measures; /* true if gli_measure follows */
  bool shared_buffers; /* see gloo_context_options */
  bool big_endian;     /* byte order of the elements in messages */
  bool asks;           /* true if peer authentication is on */
  uint32_t mark; /* mark of the secret (gli_trust_mark); 0 if there is none */
  const gli_key *record_key; /* key of the records' tags; NULL if none */
  gli_tls_kind tls;          /* encryption of network traffic */
} gli_agreement;

/* The progress of a rank's rendezvous, which decides how other ranks learn of
 * its failure. */
typedef enum gli_progress {
  GLI_NOT_YET,
  GLI_MEETING, /* a failure is in the store already */
  GLI_MET      /* other ranks do not know of a later failure */
} gli_progress;

/* State that one attempt passes to the next, except for the progress. */
typedef struct gli_meeting {
  gli_progress progress;
  bool all_know; /* all ranks have read the records that differ */
  gli_attempt attempt;
  uint64_t key; /* kept: other ranks may have read it; 0 until drawn */
} gli_meeting;

/* Exchanges addresses and keys with all ranks through the store, and determines
 * the ranks of each host. Plans know hosts from the exchanged records only, so
 * all ranks have the same view. `host_id` is that of gloo_context_options.
 * `meeting` is for a rank that calls gli_bootstrap_finish on success, and NULL
 * for others. Errors: those of the exchange; GLOO_ERR_PROTOCOL and
 * GLOO_ERR_MISMATCH name a rank of another version, transport or byte order;
 * GLOO_ERR_AUTH names a rank with another secret or none; GLOO_ERR_INVALID for
 * an unusable host id. */
gloo_status gli_bootstrap_ranks(gloo_context *context, gloo_store *store,
                                uint64_t key, const char *host_id,
                                const gli_agreement *agreement,
                                int64_t timeout_ns, gli_meeting *meeting,
                                gloo_error *error);

#endif
