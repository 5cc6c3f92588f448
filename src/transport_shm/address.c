/* Layout: 0 magic  4 host  40 place: device, inode  56 user  60 name  76
 * checksum. */
#include "transport_shm/address.h"

#include <string.h>

#include "core/bytes.h"
#include "core/random.h"
#include "core/user.h"
#include "transport_shm/system.h"

#define ADDRESS_MAGIC UINT32_C(0x324d4853) /* "SHM2" */
enum { ADDRESS_BYTES = 77 };

_Static_assert(ADDRESS_BYTES <= GLI_ADDRESS_MAX, "an address fits");

int gli_shm_endpoint_here(gli_shm_endpoint *endpoint, const char **what) {
  endpoint->user = gli_user_here().id;
  int code = gli_random(endpoint->name, sizeof endpoint->name, what);
  return code == 0 ? gli_shm_place_here(endpoint, what) : code;
}

void gli_shm_endpoint_encode(const gli_shm_endpoint *endpoint,
                             gli_address *address) {
  *address = (gli_address){.bytes = ADDRESS_BYTES};
  uint8_t *out = address->data;
  gli_put_u32(out, ADDRESS_MAGIC);
  memcpy(out + 4, endpoint->boot, sizeof endpoint->boot);
  gli_put_u64(out + 40, endpoint->device);
  gli_put_u64(out + 48, endpoint->inode);
  gli_put_u32(out + 56, endpoint->user);
  memcpy(out + 60, endpoint->name, sizeof endpoint->name);
  out[76] = endpoint->checksum;
}

bool gli_shm_endpoint_decode(const gli_address *address,
                             gli_shm_endpoint *endpoint) {
  const uint8_t *in = address->data;
  if (address->bytes != ADDRESS_BYTES) return false;
  if (gli_get_u32(in) != ADDRESS_MAGIC) return false;
  memcpy(endpoint->boot, in + 4, sizeof endpoint->boot);
  endpoint->device = gli_get_u64(in + 40);
  endpoint->inode = gli_get_u64(in + 48);
  endpoint->user = gli_get_u32(in + 56);
  memcpy(endpoint->name, in + 60, sizeof endpoint->name);
  endpoint->checksum = in[76] == 1;
  return in[76] <= 1;
}

const char *gli_shm_endpoint_unreachable(const gli_shm_endpoint *here,
                                         const gli_shm_endpoint *there) {
  if (memcmp(here->boot, there->boot, sizeof here->boot) != 0)
    return "is on another host";
  if (here->device != there->device || here->inode != there->inode)
    return gli_shm_place_differs;
  if (here->user == GLI_USER_NONE || there->user == GLI_USER_NONE)
    return "or this rank runs as a user without a number in its user namespace";
  if (here->user != there->user) return "runs as another user";
  return NULL;
}
