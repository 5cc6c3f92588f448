/* The proof in a note that its sender knows the job's secret. The kernel has
 * authenticated the sender's user already, and no other process sees the
 * traffic of the socket; so a tag is the same each time. Linux only. */
#ifndef GLI_TRANSPORT_SHM_TAG_H
#define GLI_TRANSPORT_SHM_TAG_H

#include "security/keys.h"
#include "transport/transport.h"
#include "transport_shm/note.h"

/* Computes the tag of a HELLO or an ACCEPTED from one rank to another. */
gloo_status gli_shm_tag(const gli_key *key, gli_shm_say say, uint32_t from,
                        uint32_t to, uint8_t tag[GLI_TAG_BYTES],
                        gloo_error *error);

/* Has a note the right one? */
bool gli_shm_tag_holds(const gli_key *key, uint32_t from, uint32_t to,
                       const gli_shm_note *note);

#endif
