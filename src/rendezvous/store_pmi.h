/* The store of a job whose launcher tells the ranks where it is (pmi.h). */
#ifndef GLI_RENDEZVOUS_STORE_PMI_H
#define GLI_RENDEZVOUS_STORE_PMI_H

#include <stdbool.h>

#include "core/endpoint.h"
#include "gloo_c/store.h"
#include "rendezvous/pmi.h"

/* Rank 0 makes the server of a TCP store, at a free port of all of its host's
 * addresses, and the launcher tells the others where it is, and a name by which
 * it knows them. `rank` is that of gli_pmi_join. Collective: as often on each
 * rank as on the others. Where rank 0 fails, so do all, and hear why. */
gloo_status gli_store_pmi_open(gli_pmi_kind kind, uint32_t rank,
                               int64_t timeout_ns, gloo_store **store,
                               gloo_error *error);

/* ---- its parts ----------------------------------------------------------- */

#define GLI_PMI_ADDRESSES_MAX 16
#define GLI_PMI_JOB_BYTES 33

/* Where a store is served, and by what name it knows its clients. */
typedef struct gli_pmi_place {
  char job[GLI_PMI_JOB_BYTES];
  uint16_t port;
  size_t n;
  char addresses[GLI_PMI_ADDRESSES_MAX]
                [GLI_ENDPOINT_TEXT_BYTES]; /* in figures, the best first */
} gli_pmi_place;

/* As the text that is told, of at most GLI_PMI_PLACE_BYTES with its end. */
#define GLI_PMI_PLACE_BYTES \
  (GLI_PMI_ADDRESSES_MAX * GLI_ENDPOINT_TEXT_BYTES + 64)
void gli_pmi_place_write(const gli_pmi_place *place, char *text);
bool gli_pmi_place_read(const char *text, gli_pmi_place *place);

#endif
