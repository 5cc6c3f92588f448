/* The store of a job whose launcher distributes its address (pmi.h). */
#ifndef GLI_RENDEZVOUS_LAUNCH_STORE_PMI_H
#define GLI_RENDEZVOUS_LAUNCH_STORE_PMI_H

#include <stdbool.h>

#include "gloo_c/store.h"
#include "net/endpoint.h"
#include "rendezvous/launch/pmi.h"
#include "security/secret.h"

/* Opens the store. Rank 0 serves a TCP store at a free port of all its host's
 * addresses, and the launcher distributes the addresses and a job name that
 * identifies the clients. `rank` is that of gli_pmi_join. Collective: all ranks
 * make the same number of calls. If rank 0 fails, all ranks fail with its
 * cause.
 *
 * If the user has set no secret, rank 0 draws one, which the launcher
 * distributes: the store requires it, and passes it to the context in
 * store->told. No secret is drawn with GLOO_SECURITY=off or without OpenSSL.
 *
 * `how`: secret, tls and timeout_ns are used, the other members ignored. */
gloo_status gli_store_pmi_open(gli_pmi_kind kind, uint32_t rank,
                               const gloo_store_tcp_options *how,
                               gloo_store **store, gloo_error *error);

/* ---- its parts ----------------------------------------------------------- */

#define GLI_PMI_ADDRESSES_MAX 16
#define GLI_PMI_JOB_BYTES 33
#define GLI_PMI_SECRET_BYTES ((size_t)32)

/* A store's address, the job name that it expects, and the job's secret if one
 * was drawn. */
typedef struct gli_pmi_place {
  char job[GLI_PMI_JOB_BYTES];
  gli_secret secret;
  uint16_t port;
  size_t n;
  /* Numeric addresses, best first. */
  char addresses[GLI_PMI_ADDRESSES_MAX][GLI_ENDPOINT_TEXT_BYTES];
} gli_pmi_place;

/* The text form of the record has at most GLI_PMI_PLACE_BYTES with its
 * terminator. */
#define GLI_PMI_PLACE_BYTES                               \
  (GLI_PMI_ADDRESSES_MAX * GLI_ENDPOINT_TEXT_BYTES + 64 + \
   2 * GLI_PMI_SECRET_BYTES)
void gli_pmi_place_write(const gli_pmi_place *place, char *text);
bool gli_pmi_place_read(const char *text, gli_pmi_place *place);

/* Serves a store as rank 0, at a free port of loopback (`here`) or of all
 * addresses, with place->secret if it is set. Completes `place`. */
gloo_status gli_pmi_place_serve(gli_pmi_place *place, bool here,
                                const gloo_store_tcp_options *how,
                                gloo_store **store, gloo_error *error);
/* Writes the text that rank 0 publishes: the place, or the cause of failure. */
void gli_pmi_place_publish(const gli_pmi_place *place, gloo_status status,
                           const gloo_error *cause, char *text);
/* Reads that text. GLOO_ERR_PEER: rank 0 could not serve the store.
 * GLOO_ERR_PROTOCOL: the text is invalid. */
gloo_status gli_pmi_place_find(const char *text, gli_pmi_place *place,
                               gloo_error *error);
/* Tries each address once, for some seconds altogether. */
gloo_status gli_pmi_place_try(const gli_pmi_place *place,
                              const gloo_store_tcp_options *how,
                              uint64_t deadline_ns, gloo_store **store,
                              gloo_error *error);

#endif
