#include "rendezvous/pmix_library.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "core/environment.h"
#include "rendezvous/text.h"

#if defined(__APPLE__)
static const char *const pmix_names[] = {"libpmix.2.dylib", "libpmix.dylib"};
#else
static const char *const pmix_names[] = {"libpmix.so.2", "libpmix.so"};
#endif
/* Open MPI's packages for Python have it in a folder of their own, which is not
 * in LD_LIBRARY_PATH: their mpirun only says what they are installed below. */
static const char *const pmix_folders[] = {"lib", "lib64", "lib/openmpi"};
static const char *const pmix_prefixes[] = {"PMIX_PREFIX", "OPAL_PREFIX"};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static bool pmix_symbol(uv_lib_t *lib, const char *name, void *function) {
  void *symbol;
  if (uv_dlsym(lib, name, &symbol) != 0 || symbol == NULL) return false;
  memcpy(function, &symbol, sizeof symbol); /* POSIX: of the same form */
  return true;
}

static bool pmix_take(uv_lib_t *lib, gli_pmix_library *library) {
  gli_pmix_library l;
  bool all = pmix_symbol(lib, "PMIx_Init", &l.init) &&
             pmix_symbol(lib, "PMIx_Finalize", &l.finalize) &&
             pmix_symbol(lib, "PMIx_Put", &l.put) &&
             pmix_symbol(lib, "PMIx_Commit", &l.commit) &&
             pmix_symbol(lib, "PMIx_Fence", &l.fence) &&
             pmix_symbol(lib, "PMIx_Get", &l.get) &&
             pmix_symbol(lib, "PMIx_Error_string", &l.error_string);
  if (all) *library = l;
  return all;
}

/* Load it by name; NULL is the program, with what it is linked with. */
static bool pmix_try(const char *name, gli_pmix_library *library,
                     gli_text *reason) {
  uv_lib_t lib;
  bool found = uv_dlopen(name, &lib) == 0;
  if (found && pmix_take(&lib, library)) return true; /* stays */
  if (reason != NULL)
    *reason = gli_quote(found ? "it lacks functions" : uv_dlerror(&lib));
  uv_dlclose(&lib);
  return false;
}

/* The environment of a program with more rights than its caller's is its
 * caller's, as the dynamic linker knows, too. */
static bool pmix_environment_is_ours(void) {
  return getuid() == geteuid() && getgid() == getegid();
}

static bool pmix_try_prefixes(gli_pmix_library *library) {
  for (size_t i = 0; i < COUNT(pmix_prefixes); i++) {
    const char *prefix = gli_environment_read(pmix_prefixes[i]);
    if (prefix == NULL || prefix[0] != '/') continue;
    for (size_t k = 0; k < COUNT(pmix_folders) * COUNT(pmix_names); k++) {
      char path[PATH_MAX];
      int bytes = snprintf(path, sizeof path, "%s/%s/%s", prefix,
                           pmix_folders[k / COUNT(pmix_names)],
                           pmix_names[k % COUNT(pmix_names)]);
      if (bytes > 0 && (size_t)bytes < sizeof path &&
          pmix_try(path, library, NULL))
        return true;
    }
  }
  return false;
}

/* The one that the program has already, if it is one of MPI, for two in a
 * process confuse the launcher; then the launcher's own, which is of its
 * version; then that of the system. */
gloo_status gli_pmix_load(gli_pmix_library *library, gloo_error *error) {
  gli_text reason = {""};
  if (pmix_try(NULL, library, NULL)) return GLOO_OK;
  if (pmix_environment_is_ours() && pmix_try_prefixes(library)) return GLOO_OK;
  for (size_t i = 0; i < COUNT(pmix_names); i++)
    if (pmix_try(pmix_names[i], library, i == 0 ? &reason : NULL))
      return GLOO_OK;
  return gli_fail(
      error, GLOO_ERR_UNSUPPORTED, -1,
      "the launcher tells ranks through PMIx (PMIX_NAMESPACE is set), and the "
      "library for that cannot be loaded: %s; install it (libpmix2, pmix), or "
      "put its folder into LD_LIBRARY_PATH, or say which rank this is and "
      "where they meet (GLOO_RANK, GLOO_SIZE, GLOO_STORE)",
      reason.text);
}
