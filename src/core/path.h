/* Names of files. */
#ifndef GLI_CORE_PATH_H
#define GLI_CORE_PATH_H

#include <stdbool.h>
#include <stddef.h>

enum { GLI_PATH_BYTES = 4096 };

/* The same file, whatever directory the process changes to later. False with
 * errno: there is no room for it, or the system does not say where this is. */
bool gli_path_absolute(const char *path, char *absolute, size_t room);

#endif
