#include "security/openssl.h"

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <pthread.h>
#include <stdatomic.h>

#include "core/error.h"
#include "core/fork.h"
#include "security/keys.h"

const char *gli_openssl_version(void) {
  return OpenSSL_version(OPENSSL_VERSION_STRING);
}

/* Number of threads between gli_openssl_begin and gli_openssl_end. They enter
 * under the mutex `door`, which a fork takes and holds when no thread is
 * inside. */
static atomic_uint inside;
static pthread_mutex_t door = PTHREAD_MUTEX_INITIALIZER;
static bool torn; /* in a child: a thread was inside at the fork */
static gli_fork_watch door_watch;

static bool door_hold(void *object, gli_fork_patience *patience) {
  (void)object;
  if (!gli_fork_lock(&door, patience)) return false;
  while (atomic_load(&inside) != 0) {
    if (gli_fork_wait(patience)) continue;
    (void)pthread_mutex_unlock(&door);
    return false;
  }
  return true;
}

static void door_release(void *object) {
  (void)object;
  (void)pthread_mutex_unlock(&door);
}

static void door_child(void *object, bool held) {
  (void)object;
  torn = torn || !held;
  atomic_store(&inside, 0);
  gli_fork_mutex(&door, held);
}

/* Enters. By default OpenSSL frees its state at exit, while threads of the
 * library may still use it; OPENSSL_INIT_NO_ATEXIT prevents that. */
gloo_status gli_openssl_begin(gloo_error *error) {
  static const gli_fork_care care = {door_hold, door_release, door_child};
  if (!gli_fork_watch_once(&door_watch, GLI_FORK_KEYS, &care, NULL))
    return gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                    "out of memory for the first key of this process");
  (void)pthread_mutex_lock(&door);
  bool useless = torn;
  if (!useless) atomic_fetch_add(&inside, 1);
  (void)pthread_mutex_unlock(&door);
  if (useless)
    return gli_fail(
        error, GLOO_ERR_FORKED, -1,
        "this process was forked while another thread was deriving a key, so "
        "it cannot derive keys: fork before that, or call exec in the child");
  (void)OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, NULL);
  (void)ERR_set_mark();
  return GLOO_OK;
}

void gli_openssl_end(void) {
  (void)ERR_pop_to_mark();
  atomic_fetch_sub(&inside, 1);
}

gloo_status gli_openssl_made(bool good, const char *what, gloo_error *error) {
  if (good) return GLOO_OK;
  unsigned long code = ERR_peek_last_error();
  const char *reason = ERR_reason_error_string(code);
  bool memory = code == 0 || ERR_GET_REASON(code) == ERR_R_MALLOC_FAILURE;
  return gli_fail(
      error, memory ? GLOO_ERR_NO_MEMORY : GLOO_ERR_UNSUPPORTED, -1,
      "OpenSSL %s cannot make %s: %s%s", gli_openssl_version(), what,
      reason != NULL && !memory ? reason : "out of memory",
      memory ? "" : "; does its configuration (openssl.cnf) exclude SHA-256?");
}
