/* Names of files. */
#ifndef GLI_CORE_PATH_H
#define GLI_CORE_PATH_H

#include <stdbool.h>
#include <stddef.h>

enum { GLI_PATH_BYTES = 4096 };

/* Makes a path absolute, so that it stays valid if the process changes its
 * directory. Returns false with errno if it does not fit, or the current
 * directory is unknown. */
bool gli_path_absolute(const char *path, char *absolute, size_t room);

#endif
