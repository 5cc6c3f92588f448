/* The version of the headers, and of the library that is linked. */
#ifndef GLOO_C_VERSION_H
#define GLOO_C_VERSION_H

#include "gloo_c/visibility.h"

#ifdef __cplusplus
extern "C" {
#endif

#define GLOO_VERSION_MAJOR 0
#define GLOO_VERSION_MINOR 1
#define GLOO_VERSION_PATCH 0

/* "MAJOR.MINOR.PATCH" of the library in use. Static string. Any thread. */
GLOO_API const char *gloo_version(void);

#ifdef __cplusplus
}
#endif
#endif
