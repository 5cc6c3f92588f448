/* Environment variables: the one place where they are read. */
#ifndef GLI_CORE_ENVIRONMENT_H
#define GLI_CORE_ENVIRONMENT_H

/* NULL where it is not set, and where it is set to nothing: a script that says
 * NAME=$OTHER means the same with either. */
const char *gli_environment_read(const char *name);

#endif
