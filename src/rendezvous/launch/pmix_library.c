#include "rendezvous/launch/pmix_library.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>
#if GLI_LINUX
#include <sys/auxv.h>
#endif

#include "core/environment.h"
#include "core/text.h"

#if defined(__APPLE__)
static const char *const pmix_names[] = {"libpmix.2.dylib", "libpmix.dylib"};
#else
static const char *const pmix_names[] = {"libpmix.so.2", "libpmix.so"};
#endif
/* Folders of libpmix below an Open MPI prefix. Open MPI's Python packages are
 * not in LD_LIBRARY_PATH: mpirun announces their prefix only. */
static const char *const pmix_folders[] = {"lib", "lib64", "lib/openmpi"};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static bool pmix_symbol(uv_lib_t *lib, const char *name, void *function) {
  void *symbol;
  if (uv_dlsym(lib, name, &symbol) != 0 || symbol == NULL) return false;
  memcpy(function, &symbol, sizeof symbol); /* POSIX: same size */
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

/* Returns true if the program has loaded the library already, through MPI. */
static bool pmix_is_there(void) {
  uv_lib_t lib;
  void *symbol;
  bool there =
      uv_dlopen(NULL, &lib) == 0 && uv_dlsym(&lib, "PMIx_Init", &symbol) == 0;
  uv_dlclose(&lib);
  return there;
}

static bool pmix_try(const char *name, gli_pmix_library *library,
                     gli_text *reason) {
  uv_lib_t lib;
  bool found = uv_dlopen(name, &lib) == 0;
  if (found && pmix_take(&lib, library)) return true; /* stays loaded */
  if (reason != NULL)
    *reason = gli_quote(found ? "it lacks functions" : uv_dlerror(&lib));
  uv_dlclose(&lib);
  return false;
}

/* Returns false if the program has more privileges than its caller, because the
 * caller controls the environment. The dynamic linker has the same rule. */
static bool pmix_environment_is_ours(void) {
#if GLI_LINUX
  if (getauxval(AT_SECURE) != 0) return false; /* file capabilities */
#endif
  return getuid() == geteuid() && getgid() == getegid();
}

static bool pmix_try_prefix(const char *prefix, gli_pmix_library *library) {
  if (prefix == NULL || prefix[0] != '/') return false;
  for (size_t i = 0; i < COUNT(pmix_folders) * COUNT(pmix_names); i++) {
    char path[PATH_MAX];
    int bytes = snprintf(path, sizeof path, "%s/%s/%s", prefix,
                         pmix_folders[i / COUNT(pmix_names)],
                         pmix_names[i % COUNT(pmix_names)]);
    if (bytes > 0 && (size_t)bytes < sizeof path &&
        pmix_try(path, library, NULL))
      return true;
  }
  return false;
}

/* Tries the installation prefixes that mpirun of Open MPI announces. */
static bool pmix_try_prefixes(gli_pmix_library *library) {
  return pmix_try_prefix(gli_environment_read("PMIX_PREFIX"), library) ||
         pmix_try_prefix(gli_environment_read("OPAL_PREFIX"), library);
}

/* Loads the launcher's library, which has its version, or else the system's. A
 * library that the program has already loaded comes first, because the launcher
 * would see two copies as two clients. It is opened again by name: MPI_Finalize
 * would unload it without another user. */
gloo_status gli_pmix_load(gli_pmix_library *library, gloo_error *error) {
  gli_text reason = {""};
  bool there = pmix_is_there(), ours = pmix_environment_is_ours();
  if (!there && ours && pmix_try_prefixes(library)) return GLOO_OK;
  for (size_t i = 0; i < COUNT(pmix_names); i++)
    if (pmix_try(pmix_names[i], library, i == 0 ? &reason : NULL))
      return GLOO_OK;
  if (there && ours && pmix_try_prefixes(library)) return GLOO_OK;
  return gli_fail(
      error, GLOO_ERR_UNSUPPORTED, -1,
      "the launcher uses PMIx (PMIX_NAMESPACE is set), but the PMIx library "
      "cannot be loaded: %s; install it (libpmix2, pmix), add its folder to "
      "LD_LIBRARY_PATH, or set GLOO_RANK, GLOO_SIZE and GLOO_STORE",
      reason.text);
}
