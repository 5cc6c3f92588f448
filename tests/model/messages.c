#include "messages.h"

#include <stdio.h>

#include "kinds.h"
#include "model.h"

gli_header message_header(int number, uint8_t type, uint32_t length) {
  uint32_t n = (uint32_t)number;
  return (gli_header){.type = type,
                      .collective = (uint8_t)(n + 1),
                      .algorithm = (uint8_t)(3 * n + 1),
                      .context = n + 2,
                      .tag = n + 3,
                      .slot = n + 4,
                      .root = n + 5,
                      .credit = n + 6,
                      .operation = n,
                      .count = n + 7,
                      .length = length};
}

static uint8_t byte_of(int number, size_t i) {
  return (uint8_t)((size_t)number * 29 + i * 7 + i / 64 + 1);
}

const uint8_t *message_payload(int number) {
  static uint8_t payloads[MESSAGES_MAX][MESSAGE_BYTES];
  for (size_t i = 0; i < MESSAGE_BYTES; i++)
    payloads[number][i] = byte_of(number, i);
  return payloads[number];
}

bool message_is(int number, const gli_header *h, const uint8_t *data) {
  uint32_t n = (uint32_t)number;
  bool same = h->collective == n + 1 && h->algorithm == 3 * n + 1 &&
              h->context == n + 2 && h->tag == n + 3 && h->slot == n + 4 &&
              h->root == n + 5 && h->credit == n + 6 && h->operation == n &&
              h->count == n + 7;
  for (size_t i = 0; same && i < h->length; i++)
    same = data[i] == byte_of(number, i);
  return same;
}

/* Names live as long as the scenes. */
static const char *name_slot(const char *whose, unsigned i, const char *what) {
  static char names[4][GLI_SHM_SLOTS][2][24];
  static const char *owners[4];
  unsigned owner = 0, kind = what[0] == 's';
  while (owners[owner] != NULL && owners[owner] != whose) owner++;
  owners[owner] = whose;
  (void)snprintf(names[owner][i][kind], sizeof names[0][0][0], "%s%s%u", whose,
                 what, i);
  return names[owner][i][kind];
}

/* Returns the distance from `first` back to the last record in this slot. */
static uint32_t age_in(unsigned slot, uint32_t first) {
  uint32_t age = (first - slot) % GLI_SHM_SLOTS;
  return age == 0 ? GLI_SHM_SLOTS : age;
}

gli_shm_memory *ring_in_arena(uint32_t data_bytes, uint32_t first,
                              const char *whose) {
  gli_shm_memory *m = model_alloc(gli_shm_ring_bytes(data_bytes));
  for (unsigned i = 0; i < GLI_SHM_SLOTS; i++) {
    gli_shm_slot *slot = &m->slots[i];
    if (first != 0)
      atomic_init(&slot->flag.sequence, first - age_in(i, first) + 1);
    model_counter(&slot->flag.sequence, 4, name_slot(whose, i, "record"),
                  KIND_SEQUENCE);
    model_plain(slot, sizeof *slot, name_slot(whose, i, "slot"));
  }
  atomic_init(&m->slots_taken, first);
  model_plain(m->data, data_bytes, "data");
  model_atomic(&m->revoked, 4, "revoked", KIND_REVOKED);
  model_owned(&m->wants, 4, "wants", KIND_WANTS);
  model_counter(&m->slots_taken, 4, "slots_taken", KIND_SLOTS_TAKEN);
  model_counter(&m->bytes_taken, 8, "bytes_taken", KIND_BYTES_TAKEN);
  return m;
}

gli_shm_out ring_out(gli_shm_memory *memory, uint32_t data_bytes,
                     uint32_t chunk, uint32_t first) {
  return (gli_shm_out){.memory = memory,
                       .bytes = gli_shm_ring_bytes(data_bytes),
                       .data_bytes = data_bytes,
                       .chunk = chunk,
                       .far_from = GLI_SHM_NEAR,
                       .next = first,
                       .slots_until = first + GLI_SHM_SLOTS,
                       .slots_seen = first};
}

gli_shm_in ring_in(gli_shm_memory *memory, uint32_t data_bytes, uint32_t chunk,
                   uint32_t first) {
  return (gli_shm_in){.memory = memory,
                      .bytes = gli_shm_ring_bytes(data_bytes),
                      .data_bytes = data_bytes,
                      .chunk = chunk,
                      .next = first};
}
