/* The part of libpmix that is used, declared as in PMIx 3 to 5. The library is
 * loaded at run time and not needed to build. Its ABI keeps these types and
 * numbers. */
#ifndef GLI_RENDEZVOUS_LAUNCH_PMIX_LIBRARY_H
#define GLI_RENDEZVOUS_LAUNCH_PMIX_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/error.h"

#define GLI_PMIX_NAME_BYTES 256
#define GLI_PMIX_KEY_BYTES 512

#define GLI_PMIX_SUCCESS 0
#define GLI_PMIX_RANK_ALL (UINT32_MAX - 1) /* PMIX_RANK_WILDCARD */
#define GLI_PMIX_GLOBAL 3                  /* a scope: all processes */

enum { /* value types */
       GLI_PMIX_TYPE_BOOL = 1,
       GLI_PMIX_TYPE_STRING = 3,
       GLI_PMIX_TYPE_UINT32 = 14,
};

typedef struct gli_pmix_proc {
  char name[GLI_PMIX_NAME_BYTES]; /* namespace: name of the job */
  uint32_t rank;
} gli_pmix_proc;

typedef struct gli_pmix_value {
  uint16_t type;
  union {
    bool flag;
    char *string;
    uint32_t uint32;
    struct {
      char *texts[2];
      char separator;
    } largest; /* gives the union its full size */
  } data;
} gli_pmix_value;

typedef struct gli_pmix_info {
  char key[GLI_PMIX_KEY_BYTES];
  uint32_t flags;
  gli_pmix_value value;
} gli_pmix_info;

typedef struct gli_pmix_library {
  int (*init)(gli_pmix_proc *self, gli_pmix_info *info, size_t n);
  int (*finalize)(const gli_pmix_info *info, size_t n);
  int (*put)(uint8_t scope, const char *key, gli_pmix_value *value);
  int (*commit)(void);
  int (*fence)(const gli_pmix_proc *procs, size_t n_procs,
               const gli_pmix_info *info, size_t n);
  /* Free *value, and a string in it, with free(). */
  int (*get)(const gli_pmix_proc *proc, const char *key,
             const gli_pmix_info *info, size_t n, gli_pmix_value **value);
  const char *(*error_string)(int status);
} gli_pmix_library;

/* Finds and loads the library. It stays loaded, because it has threads.
 * GLOO_ERR_UNSUPPORTED lists the places searched. */
gloo_status gli_pmix_load(gli_pmix_library *library, gloo_error *error);

#endif
