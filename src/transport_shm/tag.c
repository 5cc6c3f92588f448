#include "transport_shm/tag.h"

#include "core/bytes.h"

gloo_status gli_shm_tag(const gli_key *key, gli_shm_say say, uint32_t from,
                        uint32_t to, uint8_t tag[GLI_TAG_BYTES],
                        gloo_error *error) {
  uint8_t what[12];
  gli_put_u32(what, (uint32_t)say);
  gli_put_u32(what + 4, from);
  gli_put_u32(what + 8, to);
  const gli_part parts[] = {{"shm", 3}, {what, sizeof what}};
  gli_mac *mac;
  gloo_status status = gli_mac_create(key, &mac, error);
  if (status != GLOO_OK) return status;
  status = gli_mac_tag(mac, parts, 2, tag, error);
  gli_mac_destroy(mac);
  return status;
}

bool gli_shm_tag_holds(const gli_key *key, uint32_t from, uint32_t to,
                       const gli_shm_note *note) {
  uint8_t right[GLI_TAG_BYTES];
  gloo_error ignored;
  return note->asks == 1 &&
         gli_shm_tag(key, (gli_shm_say)note->say, from, to, right, &ignored) ==
             GLOO_OK &&
         gli_tags_equal(note->tag, right);
}
