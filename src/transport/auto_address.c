/* Layout: 0 magic  4 number of parts, then for each: child, length, bytes. */
#include <string.h>

#include "core/bytes.h"
#include "transport/auto.h"

#define ADDRESS_MAGIC UINT32_C(0x31545541) /* "AUT1" */
enum { HEAD_BYTES = 5, PART_BYTES = 2 };

void gli_auto_address(const gli_transport *base, gli_address *address) {
  const gli_auto *t = (const gli_auto *)base;
  *address = (gli_address){.bytes = HEAD_BYTES};
  gli_put_u32(address->data, ADDRESS_MAGIC);
  for (int i = 0; i < GLI_AUTO_CHILDREN; i++) {
    const gli_transport *child = t->child[i].t;
    if (child == NULL) continue;
    gli_address part;
    child->ops->address(child, &part);
    /* Never exceeded by the addresses of the existing transports. */
    size_t end = (size_t)address->bytes + PART_BYTES + part.bytes;
    if (end > GLI_ADDRESS_MAX) continue;
    uint8_t *at = address->data + address->bytes;
    at[0] = (uint8_t)i;
    at[1] = (uint8_t)part.bytes;
    memcpy(at + PART_BYTES, part.data, part.bytes);
    address->bytes = (uint16_t)(address->bytes + PART_BYTES + part.bytes);
    address->data[4]++;
  }
}

bool gli_auto_address_decode(const gli_address *address,
                             gli_address part[GLI_AUTO_CHILDREN]) {
  for (int i = 0; i < GLI_AUTO_CHILDREN; i++) part[i].bytes = 0;
  if (address->bytes < HEAD_BYTES || address->bytes > GLI_ADDRESS_MAX)
    return false;
  if (gli_get_u32(address->data) != ADDRESS_MAGIC) return false;
  size_t at = HEAD_BYTES;
  for (unsigned n = address->data[4]; n > 0; n--) {
    if (at + PART_BYTES > address->bytes) return false;
    uint8_t child = address->data[at], bytes = address->data[at + 1];
    at += PART_BYTES;
    if (at + bytes > address->bytes) return false;
    if (child < GLI_AUTO_CHILDREN) {
      part[child].bytes = bytes;
      memcpy(part[child].data, address->data + at, bytes);
    }
    at += bytes;
  }
  return at == address->bytes;
}
