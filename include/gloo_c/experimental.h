/* Experimental functions, which may change. A program that includes this
 * header, which gloo_c.h does not, may have to be changed for any new version,
 * also for one with the same major number. Declarations in the other headers
 * are kept, or marked with GLOO_DEPRECATED at least one minor version before
 * they are removed.
 *
 * So far nothing is experimental.
 *
 * Example:
 *
 *     #include <gloo_c/experimental.h>
 */
#ifndef GLOO_C_EXPERIMENTAL_H
#define GLOO_C_EXPERIMENTAL_H

#include "gloo_c/gloo_c.h"

#endif
