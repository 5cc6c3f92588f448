/* The version of the headers, and of the library in use. A program built with
 * headers of 0.1.0 or later runs on every later library with the same soname;
 * while the major number is 0 the soname changes with every change of a
 * function or struct.
 *
 * Example:
 *
 *     int library_is_older(void) {
 *       return gloo_version_number() < GLOO_VERSION_NUMBER;
 *     }
 */
#ifndef GLOO_C_VERSION_H
#define GLOO_C_VERSION_H

#include "gloo_c/visibility.h"

#ifdef __cplusplus
extern "C" {
#endif

#define GLOO_VERSION_MAJOR 0
#define GLOO_VERSION_MINOR 1
#define GLOO_VERSION_PATCH 0

/* One number that grows with the version, for #if and for comparison. */
#define GLOO_VERSION_OF(major, minor, patch) \
  ((major)*1000000 + (minor)*1000 + (patch))
#define GLOO_VERSION_NUMBER \
  GLOO_VERSION_OF(GLOO_VERSION_MAJOR, GLOO_VERSION_MINOR, GLOO_VERSION_PATCH)

/* Returns "MAJOR.MINOR.PATCH" of the library in use, and the same as a number
 * like GLOO_VERSION_NUMBER.
 * Errors: none. Threads: any, at any time. Ownership: a static string. */
GLOO_API const char *gloo_version(void);
GLOO_API int gloo_version_number(void);

#ifdef __cplusplus
}
#endif
#endif
