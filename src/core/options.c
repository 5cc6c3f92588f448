/* Version of the library, and option structs of other versions. */
#include "core/options.h"

#include <string.h>

#include "core/error.h"
#include "gloo_c/version.h"

/* Exceeds the size of any option struct; protects against an uninitialised
 * struct_size. */
enum { LARGEST_STRUCT = 4096 };

gloo_status gli_options_load(void *ours, size_t size, const void *theirs,
                             const char *name, gloo_error *error) {
  memset(ours, 0, size);
  if (theirs == NULL) return GLOO_OK;
  size_t given;
  memcpy(&given, theirs, sizeof given);
  if (given < sizeof given || given > LARGEST_STRUCT) {
    return gli_fail(error, GLOO_ERR_INVALID, -1,
                    "%s.struct_size is %zu; initialise the struct with its "
                    "_INIT macro",
                    name, given);
  }
  memcpy(ours, theirs, given < size ? given : size);
  const unsigned char *bytes = theirs;
  for (size_t i = size; i < given; i++) {
    if (bytes[i] == 0) continue;
    return gli_fail(error, GLOO_ERR_UNSUPPORTED, -1,
                    "%s sets a field unknown to this version of the library "
                    "(its struct has %zu bytes)",
                    name, size);
  }
  return GLOO_OK;
}

#define TEXT_OF(number) #number
#define TEXT(number) TEXT_OF(number)

const char *gloo_version(void) {
  return TEXT(GLOO_VERSION_MAJOR) "." TEXT(GLOO_VERSION_MINOR) "." TEXT(
      GLOO_VERSION_PATCH);
}

int gloo_version_number(void) {
  return GLOO_VERSION_NUMBER;
}
