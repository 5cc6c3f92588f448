/* The store of a job whose launcher tells the ranks where it is (pmi.h). */
#ifndef GLI_RENDEZVOUS_LAUNCH_STORE_PMI_H
#define GLI_RENDEZVOUS_LAUNCH_STORE_PMI_H

#include <stdbool.h>

#include "gloo_c/store.h"
#include "net/endpoint.h"
#include "rendezvous/launch/pmi.h"
#include "security/secret.h"

/* Rank 0 makes the server of a TCP store, at a free port of all of its host's
 * addresses, and the launcher tells the others where it is, and a name by which
 * it knows them. `rank` is that of gli_pmi_join. Collective: as often on each
 * rank as on the others. Where rank 0 fails, so do all, and hear why.
 *
 * Where rank 0 has no secret of the user's, it draws one, which the launcher
 * carries to the others: the store asks for it, and store->told has it for the
 * context. GLOO_SECURITY=off, and a build without OpenSSL, make none.
 *
 * `how`: secret, tls and timeout_ns are the caller's, the rest is not looked
 * at. */
gloo_status gli_store_pmi_open(gli_pmi_kind kind, uint32_t rank,
                               const gloo_store_tcp_options *how,
                               gloo_store **store, gloo_error *error);

/* ---- its parts ----------------------------------------------------------- */

#define GLI_PMI_ADDRESSES_MAX 16
#define GLI_PMI_JOB_BYTES 33
#define GLI_PMI_SECRET_BYTES ((size_t)32)

/* Where a store is served, by what name it knows its clients, and the job's
 * secret, if one was drawn. */
typedef struct gli_pmi_place {
  char job[GLI_PMI_JOB_BYTES];
  gli_secret secret;
  uint16_t port;
  size_t n;
  char addresses[GLI_PMI_ADDRESSES_MAX]
                [GLI_ENDPOINT_TEXT_BYTES]; /* in figures, the best first */
} gli_pmi_place;

/* The text form of the record has at most GLI_PMI_PLACE_BYTES with its
 * terminator. */
#define GLI_PMI_PLACE_BYTES                               \
  (GLI_PMI_ADDRESSES_MAX * GLI_ENDPOINT_TEXT_BYTES + 64 + \
   2 * GLI_PMI_SECRET_BYTES)
void gli_pmi_place_write(const gli_pmi_place *place, char *text);
bool gli_pmi_place_read(const char *text, gli_pmi_place *place);

#endif
