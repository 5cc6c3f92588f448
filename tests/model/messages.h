/* Messages of the scenes, identified by number, and a ring in the arena. */
#ifndef GLI_TESTS_MODEL_MESSAGES_H
#define GLI_TESTS_MODEL_MESSAGES_H

#include "transport_shm/shm_ring.h"

enum { MESSAGES_MAX = 6, MESSAGE_BYTES = 512 };

gli_header message_header(int number, uint8_t type, uint32_t length);
const uint8_t *message_payload(int number);
/* Returns true if header and data are those that were sent. */
bool message_is(int number, const gli_header *header, const uint8_t *data);

/* Memory of a ring in which `first` records have passed. */
gli_shm_memory *ring_in_arena(uint32_t data_bytes, uint32_t first,
                              const char *whose);
gli_shm_out ring_out(gli_shm_memory *memory, uint32_t data_bytes,
                     uint32_t chunk, uint32_t first);
gli_shm_in ring_in(gli_shm_memory *memory, uint32_t data_bytes, uint32_t chunk,
                   uint32_t first);

#endif
