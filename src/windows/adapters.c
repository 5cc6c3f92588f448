/* Interfaces of the network, by the IP helper. */
#include "windows/posix.h"

#undef BOOL
#undef FLOAT
#undef LONG
#undef SHORT
#undef SIZE
#undef WORD
#include <iphlpapi.h>

enum { FIRST_BYTES = 16384, TRIES = 4, NAME_BYTES = 64 };

/* One address, with the room for all that its entry points to. */
typedef struct item {
  struct ifaddrs entry;
  struct sockaddr_storage address, mask;
  char name[NAME_BYTES];
} item;

static IP_ADAPTER_ADDRESSES *adapters_read(void) {
  const ULONG flags = GAA_FLAG_SKIP_ANYCAST | GAA_FLAG_SKIP_MULTICAST |
                      GAA_FLAG_SKIP_DNS_SERVER;
  ULONG bytes = FIRST_BYTES, code = ERROR_BUFFER_OVERFLOW;
  IP_ADAPTER_ADDRESSES *all = NULL;
  for (int i = 0; i < TRIES && code == ERROR_BUFFER_OVERFLOW; i++) {
    free(all);
    all = malloc(bytes);
    if (all == NULL) {
      errno = ENOMEM;
      return NULL;
    }
    code = GetAdaptersAddresses(AF_UNSPEC, flags, NULL, all, &bytes);
  }
  if (code == NO_ERROR) return all;
  free(all);
  errno = gli_windows_errno(code);
  return NULL;
}

static void mask_fill(item *to, unsigned bits) {
  struct sockaddr_in *v4 = (struct sockaddr_in *)&to->mask;
  struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&to->mask;
  to->mask.ss_family = to->address.ss_family;
  bool is_v4 = to->address.ss_family == AF_INET;
  uint8_t *at = is_v4 ? (uint8_t *)&v4->sin_addr : (uint8_t *)&v6->sin6_addr;
  unsigned most = is_v4 ? 32 : 128;
  for (unsigned i = 0; i < bits && i < most; i++)
    at[i / 8] = (uint8_t)(at[i / 8] | 0x80 >> i % 8);
}

static item *item_new(const IP_ADAPTER_ADDRESSES *adapter,
                      const IP_ADAPTER_UNICAST_ADDRESS *at) {
  size_t bytes = (size_t)at->Address.iSockaddrLength;
  item *made = calloc(1, sizeof *made);
  if (made == NULL || bytes > sizeof made->address) return made;
  memcpy(&made->address, at->Address.lpSockaddr, bytes);
  mask_fill(made, at->OnLinkPrefixLength);
  char *name = gli_windows_narrow(adapter->FriendlyName);
  (void)snprintf(made->name, sizeof made->name, "%s",
                 name != NULL ? name : adapter->AdapterName);
  free(name);
  made->entry.ifa_name = made->name;
  made->entry.ifa_addr = (struct sockaddr *)&made->address;
  made->entry.ifa_netmask = (struct sockaddr *)&made->mask;
  if (adapter->OperStatus == IfOperStatusUp)
    made->entry.ifa_flags |= IFF_UP | IFF_RUNNING;
  if (adapter->IfType == IF_TYPE_SOFTWARE_LOOPBACK)
    made->entry.ifa_flags |= IFF_LOOPBACK;
  return made;
}

/* Adds the addresses of a family behind *end. */
static bool adapters_add(const IP_ADAPTER_ADDRESSES *a, int family,
                         struct ifaddrs ***end) {
  for (; a != NULL; a = a->Next)
    for (const IP_ADAPTER_UNICAST_ADDRESS *u = a->FirstUnicastAddress;
         u != NULL; u = u->Next) {
      if (u->Address.lpSockaddr->sa_family != family) continue;
      item *made = item_new(a, u);
      if (made == NULL) return false;
      **end = &made->entry;
      *end = &made->entry.ifa_next;
    }
  return true;
}

/* IPv4 comes first, as on other systems: ranks publish an interface's first
 * address first. */
int getifaddrs(struct ifaddrs **list) {
  IP_ADAPTER_ADDRESSES *all = adapters_read();
  struct ifaddrs **end = list;
  *list = NULL;
  if (all == NULL) return -1;
  bool done =
      adapters_add(all, AF_INET, &end) && adapters_add(all, AF_INET6, &end);
  free(all);
  if (done) return 0;
  freeifaddrs(*list);
  errno = ENOMEM;
  return -1;
}

void freeifaddrs(struct ifaddrs *list) {
  while (list != NULL) {
    struct ifaddrs *next = list->ifa_next;
    free(list); /* the entry begins an item */
    list = next;
  }
}
