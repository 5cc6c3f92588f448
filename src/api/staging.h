/* Calls whose blocks lie apart (gloo_c/lists.h): from lists of pointers to the
 * plain call that the engine knows. */
#ifndef GLI_API_STAGING_H
#define GLI_API_STAGING_H

#include "api/call.h"

/* Refuse lists that are missing, incomplete or overlapping, and put the plain
 * call into *plain: on the caller's memory where blocks lie one behind the
 * other, else on that of *staging, which is the caller's of this (NULL: not
 * needed). */
gloo_status gli_staging_make(const gli_arguments *arguments, uint32_t rank,
                             uint32_t size, uint64_t elem_bytes,
                             gli_arguments *plain, gli_staging **staging,
                             gloo_error *error);

#endif
