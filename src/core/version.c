#include "gloo_c/version.h"

#define TEXT_OF(number) #number
#define TEXT(number) TEXT_OF(number)

const char *gloo_version(void) {
  return TEXT(GLOO_VERSION_MAJOR) "." TEXT(GLOO_VERSION_MINOR) "." TEXT(
      GLOO_VERSION_PATCH);
}

int gloo_version_number(void) {
  return GLOO_VERSION_NUMBER;
}
