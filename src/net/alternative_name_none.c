/* Alternative names on systems without them. */
#include "net/alternative_name.h"

bool gli_alternative_name_find(const char *alternative,
                               char name[IF_NAMESIZE]) {
  (void)alternative;
  (void)name;
  return false;
}
