#include "security/openssl.h"

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <pthread.h>

#include "core/error.h"
#include "core/fork.h"
#include "security/keys.h"

const char *gli_openssl_version(void) {
  return OpenSSL_version(OPENSSL_VERSION_STRING);
}

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t lookup_lock = PTHREAD_MUTEX_INITIALIZER;
static gli_fork_guard lookup_guard;
static bool lookup_guarded;

static void lookup_init(void) {
  lookup_guarded =
      gli_fork_guard_begin(&lookup_guard, GLI_FORK_KEYS, &lookup_lock, NULL);
}

/* By default OpenSSL frees all that it has when the program calls exit, while
 * threads of the library may still be at work. */
gloo_status gli_openssl_begin(gloo_error *error) {
  if (pthread_once(&once, lookup_init) != 0 || !lookup_guarded)
    return gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                    "out of memory for the first key of this process");
  (void)pthread_mutex_lock(&lookup_lock);
  if (lookup_guard.torn) {
    (void)pthread_mutex_unlock(&lookup_lock);
    return gli_fail(error, GLOO_ERR_FORKED, -1,
                    "this process was forked while another thread was making a "
                    "key, so none can be made here: fork before that, or start "
                    "a program (exec) in the child");
  }
  (void)OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, NULL);
  (void)ERR_set_mark();
  return GLOO_OK;
}

void gli_openssl_end(void) {
  (void)ERR_pop_to_mark();
  (void)pthread_mutex_unlock(&lookup_lock);
}

gloo_status gli_openssl_made(bool good, const char *what, gloo_error *error) {
  if (good) return GLOO_OK;
  unsigned long code = ERR_peek_last_error();
  const char *reason = ERR_reason_error_string(code);
  bool memory = code == 0 || ERR_GET_REASON(code) == ERR_R_MALLOC_FAILURE;
  return gli_fail(error, memory ? GLOO_ERR_NO_MEMORY : GLOO_ERR_UNSUPPORTED, -1,
                  "OpenSSL %s cannot make %s: %s%s", gli_openssl_version(),
                  what, reason != NULL && !memory ? reason : "out of memory",
                  memory ? ""
                         : "; does its configuration (openssl.cnf) leave "
                           "SHA-256 out?");
}
