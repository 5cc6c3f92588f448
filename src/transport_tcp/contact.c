/* An encoded contact: 0 version  1 checksum  2 count  3 flags  4 port
 * 6 zero  8 place, then for each address 4 or 6, and 4 or 16 bytes in network
 * order. Numbers are little-endian. The first byte was 4 or 6 in version 1. */
#include "transport_tcp/contact.h"

#include <string.h>

#include "core/bytes.h"

enum {
  CONTACT_VERSION = 2,
  CONTACT_HEAD_BYTES = 16,
  CONTACT_ENTRY_MAX = 17,
  CONTACT_EVERYWHERE = 1,
  CONTACT_TRANSLATED = 2,
  CONTACT_VERBS = 4
};

_Static_assert(CONTACT_HEAD_BYTES + GLI_TCP_CONTACT_MAX * CONTACT_ENTRY_MAX <=
                   GLI_ADDRESS_MAX,
               "a contact fits");

void gli_tcp_contact_encode(const gli_tcp_contact *contact,
                            gli_address *address) {
  memset(address, 0, sizeof *address);
  uint8_t *out = address->data;
  out[0] = CONTACT_VERSION;
  out[1] = contact->checksum;
  out[2] = (uint8_t)contact->n;
  out[3] = (uint8_t)((contact->everywhere ? CONTACT_EVERYWHERE : 0) |
                     (contact->translated ? CONTACT_TRANSLATED : 0) |
                     (contact->verbs ? CONTACT_VERBS : 0));
  gli_put_u32(out + 4, contact->port);
  gli_put_u64(out + 8, contact->place);
  size_t at = CONTACT_HEAD_BYTES;
  for (uint32_t i = 0; i < contact->n; i++) {
    unsigned bits;
    const uint8_t *figures = gli_endpoint_figures(&contact->at[i], &bits);
    out[at] = bits == 32 ? 4 : 6;
    memcpy(out + at + 1, figures, bits / 8);
    at += 1 + bits / 8;
  }
  address->bytes = (uint16_t)at;
}

/* Decodes an address and returns its length, or 0 if it is invalid. */
static size_t contact_read_one(const uint8_t *data, size_t left,
                               gli_endpoint *at) {
  memset(at, 0, sizeof *at);
  if (left >= 5 && data[0] == 4) {
    at->v4.sin_family = AF_INET;
    memcpy(&at->v4.sin_addr, data + 1, 4);
    return 5;
  }
  if (left < CONTACT_ENTRY_MAX || data[0] != 6) return 0;
  at->v6.sin6_family = AF_INET6;
  memcpy(&at->v6.sin6_addr, data + 1, 16);
  return CONTACT_ENTRY_MAX;
}

bool gli_tcp_contact_decode(const gli_address *address,
                            gli_tcp_contact *contact) {
  const uint8_t *data = address->data;
  gli_tcp_contact made;
  memset(&made, 0, sizeof made);
  if (address->bytes < CONTACT_HEAD_BYTES || data[0] != CONTACT_VERSION)
    return false;
  const uint8_t known = CONTACT_EVERYWHERE | CONTACT_TRANSLATED | CONTACT_VERBS;
  uint32_t port = gli_get_u32(data + 4);
  if (data[1] > 1 || (data[3] & ~known) != 0) return false;
  if (port == 0 || port > UINT16_MAX) return false;
  made.checksum = data[1] != 0;
  made.everywhere = (data[3] & CONTACT_EVERYWHERE) != 0;
  made.translated = (data[3] & CONTACT_TRANSLATED) != 0;
  made.verbs = (data[3] & CONTACT_VERBS) != 0;
  made.port = (uint16_t)port;
  made.place = gli_get_u64(data + 8);
  made.n = data[2];
  if (made.n == 0 || made.n > GLI_TCP_CONTACT_MAX) return false;
  size_t at = CONTACT_HEAD_BYTES;
  for (uint32_t i = 0; i < made.n; i++) {
    size_t bytes =
        contact_read_one(data + at, address->bytes - at, &made.at[i]);
    if (bytes == 0 || gli_endpoint_is_wildcard(&made.at[i])) return false;
    gli_endpoint_set_port(&made.at[i], made.port);
    at += bytes;
  }
  if (at != address->bytes) return false;
  *contact = made;
  return true;
}
