#include "transport_ibv/verbs.h"

#include <string.h>
#include <uv.h>

#include "core/error.h"
#include "core/fork.h"

#define LIBRARY "libibverbs.so.1"

static atomic_bool once;
static gli_verbs verbs;
static gloo_error verbs_absent; /* status GLOO_OK if it is loaded */

typedef struct verbs_symbol {
  const char *name;
  void *function;
} verbs_symbol;

static bool verbs_take(uv_lib_t *library, const char **missing) {
  const verbs_symbol symbols[] = {
      {"ibv_fork_init", &verbs.fork_init},
      {"ibv_get_device_list", &verbs.get_device_list},
      {"ibv_free_device_list", &verbs.free_device_list},
      {"ibv_open_device", &verbs.open_device},
      {"ibv_close_device", &verbs.close_device},
      {"ibv_query_device", &verbs.query_device},
      {"ibv_query_port", &verbs.query_port},
      {"_ibv_query_gid_ex", &verbs.query_gid_ex},
      {"ibv_query_pkey", &verbs.query_pkey},
      {"ibv_get_async_event", &verbs.get_async_event},
      {"ibv_ack_async_event", &verbs.ack_async_event},
      {"ibv_event_type_str", &verbs.event_type_str},
      {"ibv_wc_status_str", &verbs.wc_status_str},
      {"ibv_alloc_pd", &verbs.alloc_pd},
      {"ibv_dealloc_pd", &verbs.dealloc_pd},
      {"ibv_reg_mr", &verbs.reg_mr},
      {"ibv_dereg_mr", &verbs.dereg_mr},
      {"ibv_create_comp_channel", &verbs.create_comp_channel},
      {"ibv_destroy_comp_channel", &verbs.destroy_comp_channel},
      {"ibv_create_cq", &verbs.create_cq},
      {"ibv_resize_cq", &verbs.resize_cq},
      {"ibv_destroy_cq", &verbs.destroy_cq},
      {"ibv_get_cq_event", &verbs.get_cq_event},
      {"ibv_ack_cq_events", &verbs.ack_cq_events},
      {"ibv_create_srq", &verbs.create_srq},
      {"ibv_modify_srq", &verbs.modify_srq},
      {"ibv_destroy_srq", &verbs.destroy_srq},
      {"ibv_create_qp", &verbs.create_qp},
      {"ibv_modify_qp", &verbs.modify_qp},
      {"ibv_destroy_qp", &verbs.destroy_qp},
  };
  for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
    void *symbol;
    *missing = symbols[i].name;
    if (uv_dlsym(library, *missing, &symbol) != 0 || symbol == NULL)
      return false;
    memcpy(symbols[i].function, &symbol, sizeof symbol); /* as POSIX permits */
  }
  return true;
}

/* Prepares for forks: memory that a device writes to must remain the parent's.
 * From Linux 5.12 on the kernel ensures this, and children keep the pages that
 * they share with it. On older kernels the library does so, for memory
 * registered later, by removing it from children. Returns 0 or errno. */
static int verbs_prepare_forks(uv_lib_t *library) {
  enum ibv_fork_status (*asks)(void);
  void *symbol;
  if (uv_dlsym(library, "ibv_is_fork_initialized", &symbol) == 0 &&
      symbol != NULL) {
    memcpy(&asks, &symbol, sizeof symbol);
    if (asks() == IBV_FORK_UNNEEDED) return 0;
  }
  return verbs.fork_init();
}

static void verbs_load(void) {
  static uv_lib_t library; /* keeps the error text */
  const char *missing = "";
  if (uv_dlopen(LIBRARY, &library) != 0) {
    (void)gli_fail(&verbs_absent, GLOO_ERR_UNSUPPORTED, -1,
                   "RDMA cannot be used here: " LIBRARY
                   " cannot be loaded (%.200s)",
                   uv_dlerror(&library));
  } else if (!verbs_take(&library, &missing)) {
    (void)gli_fail(&verbs_absent, GLOO_ERR_UNSUPPORTED, -1,
                   "RDMA cannot be used here: " LIBRARY
                   " is too old: it lacks %s (rdma-core 32 or newer is needed)",
                   missing);
  } else {
    int code = verbs_prepare_forks(&library);
    if (code == 0) return; /* the library stays open */
    (void)gli_fail(&verbs_absent, GLOO_ERR_UNSUPPORTED, -1,
                   "RDMA cannot be used here: " LIBRARY
                   " cannot prepare for fork (ibv_fork_init: %s): the program "
                   "registered memory earlier",
                   strerror(code));
  }
  uv_dlclose(&library);
}

const gli_verbs *gli_verbs_open(gloo_error *error) {
  gli_once(&once, verbs_load);
  if (verbs_absent.status == GLOO_OK) return &verbs;
  if (error != NULL) *error = verbs_absent;
  return NULL;
}
