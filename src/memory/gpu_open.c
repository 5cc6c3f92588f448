/* Detection of GPUs, and loading of their makers' libraries. These stay loaded,
 * like the program's. */
#define _GNU_SOURCE /* RTLD_NOLOAD */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/environment.h"
#include "core/text.h"
#include "memory/gpu_state.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* HIP first: it checks handles of streams, which may be another maker's. */
gli_gpu_api *const gli_gpu_apis[] = {&gli_gpu_hip, &gli_gpu_cuda, NULL};

gloo_status gli_gpu_watch(gloo_error *error) {
  gloo_status status = GLOO_OK;
  for (int i = 0; gli_gpu_apis[i] != NULL && status == GLOO_OK; i++) {
    gli_gpu_api *api = gli_gpu_apis[i];
    const char *const *node = api->nodes;
    bool wanted;
    while (*node != NULL && access(*node, F_OK) != 0) node++;
    status = gli_switch_read(0, api->variable, *node != NULL, &wanted, error);
    if (status != GLOO_OK || !wanted) continue;
    atomic_store(&api->wanted, true);
    atomic_store(&gli_gpu_watched_flag, true);
  }
  return status;
}

/* Loads functions by their versioned names, which match the table's types. */
static const char *take_symbols(const gli_gpu_api *api, void *library) {
  for (const gli_gpu_symbol *s = api->symbols; s->name != NULL; s++) {
    void *symbol = dlsym(library, s->name);
    if (symbol == NULL && !s->optional) return s->name;
    memcpy(s->function, &symbol, sizeof symbol); /* as POSIX permits */
  }
  return NULL;
}

static void open_library(gli_gpu_api *api, bool load) {
  void *library = NULL;
  const char *const *name = api->libraries;
  for (; library == NULL && *name != NULL; name += library == NULL)
    library = dlopen(*name, RTLD_NOW | RTLD_LOCAL | (load ? 0 : RTLD_NOLOAD));
  if (library == NULL && !load) {
    snprintf(api->why, sizeof api->why, "the program has not loaded %s",
             api->libraries[0]);
    return;
  }
  if (library == NULL) {
    const char *text = dlerror();
    snprintf(api->why, sizeof api->why, "no %s driver (%.120s)", api->name,
             text != NULL ? text : "no reason given");
    gli_make_printable(api->why);
    return;
  }
  const char *missing = take_symbols(api, library);
  atomic_store(&api->opened, missing == NULL);
  if (missing == NULL) return;
  api->unusable = true;
  snprintf(api->why, sizeof api->why,
           "%s is too old: it lacks %s (%s or newer is needed)", *name, missing,
           api->needs);
  dlclose(library);
}

bool gli_gpu_open(gli_gpu_api *api, bool load) {
  pthread_mutex_lock(&lock);
  if (!atomic_load(&api->opened) && !api->unusable) open_library(api, load);
  pthread_mutex_unlock(&lock);
  return atomic_load(&api->opened);
}
