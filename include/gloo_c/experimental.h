/* Experimental functions, which may change. gloo_c.h does not include this
 * header. A program that includes it may need changes for any new version, even
 * with the same major number. Declarations in the other headers stay, or are
 * marked with GLOO_DEPRECATED at least one minor version before their removal.
 *
 * Nothing is experimental at present.
 *
 * Example:
 *
 *     #include <gloo_c/experimental.h>
 */
#ifndef GLOO_C_EXPERIMENTAL_H
#define GLOO_C_EXPERIMENTAL_H

#include "gloo_c/gloo_c.h"

#endif
