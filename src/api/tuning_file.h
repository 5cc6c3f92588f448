/* The tuning of algorithm choice from the environment of the process. */
#ifndef GLI_API_TUNING_FILE_H
#define GLI_API_TUNING_FILE_H

#include "algorithms/tuning.h"

/* Reads GLOO_ALGORITHM, which takes precedence, and the file that
 * GLOO_TUNING_FILE names. *tuning is NULL if neither has an entry; otherwise
 * free() it. Errors: those of gli_tuning_parse; GLOO_ERR_IO and
 * GLOO_ERR_INVALID for a file that is unreadable or not text. */
gloo_status gli_tuning_load(gli_tuning **tuning, gloo_error *error);

#endif
