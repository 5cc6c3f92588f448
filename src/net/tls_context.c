/* OpenSSL contexts: version, ciphers, and the files of a certificate. */
#include "net/tls_context.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/error.h"
#include "core/exhaustion.h"
#include "core/log.h"
#include "security/openssl.h"

/* Both suites use SHA-256, which pre-shared keys require. The second suite is
 * faster on processors without AES instructions. */
#define SUITES "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256"
const unsigned char gli_tls_cipher[2] = {0x13, 0x01};

enum { FILES = 3 };

/* State of a file when it was read. */
typedef struct file_stamp {
  dev_t device;
  ino_t number;
  off_t bytes;
  struct timespec changed;
} file_stamp;

struct gli_tls_context {
  /* Serialises the opening of connections. Held between gli_openssl_begin and
   * gli_openssl_end only, so it is free in a forked child. */
  pthread_mutex_t lock;
  SSL_CTX *openssl;
  file_stamp stamps[FILES];
};

/* ---- changes of files ---------------------------------------------------- */

static file_stamp file_stamp_of(const char *path) {
  file_stamp stamp;
  struct stat info;
  memset(&stamp, 0, sizeof stamp);
  if (path == NULL || stat(path, &info) != 0) return stamp;
  stamp.device = info.st_dev;
  stamp.number = info.st_ino;
  stamp.bytes = info.st_size;
#if defined(__APPLE__)
  stamp.changed = info.st_mtimespec;
#else
  stamp.changed = info.st_mtim;
#endif
  return stamp;
}

static bool file_stamps_equal(const file_stamp *a, const file_stamp *b) {
  return a->device == b->device && a->number == b->number &&
         a->bytes == b->bytes && a->changed.tv_sec == b->changed.tv_sec &&
         a->changed.tv_nsec == b->changed.tv_nsec;
}

/* Returns true if the files have changed since the last call. */
static bool files_look(const gli_tls_settings *settings, file_stamp *stamps) {
  const char *const paths[FILES] = {settings->certificate, settings->key,
                                    settings->authority};
  bool changed = false;
  for (int i = 0; i < FILES; i++) {
    file_stamp now = file_stamp_of(paths[i]);
    changed = changed || !file_stamps_equal(&now, &stamps[i]);
    stamps[i] = now;
  }
  return changed;
}

/* ---- files --------------------------------------------------------------- */

/* Argument of context_password, which sets `asked`. */
typedef struct context_asks {
  const gli_tls_settings *settings;
  bool asked;
} context_asks;

/* Calls the user's function for the password of a key. Without this callback
 * OpenSSL would prompt on the terminal. */
static int context_password(char *text, int room, int writes, void *user) {
  context_asks *asks = user;
  const gli_tls_settings *settings = asks->settings;
  (void)writes;
  asks->asked = true;
  if (settings->password == NULL || room < 0) return -1;
  int bytes = settings->password(settings->user, text, (size_t)room);
  return bytes <= room ? bytes : -1;
}

/* Describes the fault of a file. OpenSSL's first error is the most specific. */
static gloo_status file_refused(const char *path, const char *what,
                                gloo_error *error) {
  struct stat info;
  int code = stat(path, &info) != 0 || access(path, R_OK) != 0 ? errno : 0;
  if (code == 0 && S_ISDIR(info.st_mode)) code = EISDIR;
  const char *reason = ERR_reason_error_string(ERR_peek_error());
  if (code != 0)
    return gli_fail(error, GLOO_ERR_IO, -1, "cannot read %s %.160s: %s", what,
                    path, gli_exhaustion_text(code));
  return gli_fail(error, GLOO_ERR_INVALID, -1,
                  "cannot load %s %.160s: %s; expected PEM", what, path,
                  reason != NULL ? reason : "no such object in the file");
}

static gloo_status key_is_another(const gli_tls_settings *settings,
                                  gloo_error *error) {
  return gli_fail(error, GLOO_ERR_INVALID, -1,
                  "the key %.120s does not match the certificate %.120s",
                  settings->key, settings->certificate);
}

static gloo_status context_load_key(SSL_CTX *context, const context_asks *asks,
                                    gloo_error *error) {
  const gli_tls_settings *settings = asks->settings;
  if (SSL_CTX_use_PrivateKey_file(context, settings->key, SSL_FILETYPE_PEM) ==
      1)
    return SSL_CTX_check_private_key(context) == 1
               ? GLOO_OK
               : key_is_another(settings, error);
  if (asks->asked)
    return gli_fail(error, GLOO_ERR_INVALID, -1,
                    "the key %.160s has a password, and %s: set `password` in "
                    "gloo_tls_options, or remove the password (openssl pkey)",
                    settings->key,
                    settings->password == NULL ? "none is given"
                                               : "the one given is wrong");
  unsigned long code = ERR_peek_last_error();
  if (ERR_GET_LIB(code) == ERR_LIB_X509 &&
      ERR_GET_REASON(code) == X509_R_KEY_VALUES_MISMATCH)
    return key_is_another(settings, error);
  return file_refused(settings->key, "the key", error);
}

static gloo_status context_load_authority(SSL_CTX *context, const char *path,
                                          gloo_error *error) {
  struct stat info;
  if (path == NULL)
    return gli_openssl_made(SSL_CTX_set_default_verify_paths(context) == 1,
                            "a list of the system's authorities", error);
  bool folder = stat(path, &info) == 0 && S_ISDIR(info.st_mode);
  bool good = folder ? SSL_CTX_load_verify_dir(context, path) == 1
                     : SSL_CTX_load_verify_file(context, path) == 1;
  return good ? GLOO_OK : file_refused(path, "the authority", error);
}

static gloo_status context_load_own(SSL_CTX *context,
                                    const gli_tls_settings *settings,
                                    gloo_error *error) {
  context_asks asks = {.settings = settings};
  SSL_CTX_set_default_passwd_cb(context, context_password);
  SSL_CTX_set_default_passwd_cb_userdata(context, &asks);
  if (SSL_CTX_use_certificate_chain_file(context, settings->certificate) != 1)
    return file_refused(settings->certificate, "the certificate", error);
  gloo_status status = context_load_key(context, &asks, error);
  SSL_CTX_set_default_passwd_cb_userdata(context, NULL);
  SSL_CTX_set_default_passwd_cb(context, NULL);
  return status;
}

static gloo_status context_load(SSL_CTX *context,
                                const gli_tls_settings *settings,
                                gloo_error *error) {
  gloo_status status = GLOO_OK;
  if (settings->certificate != NULL)
    status = context_load_own(context, settings, error);
  if (status == GLOO_OK)
    status = context_load_authority(context, settings->authority, error);
  return status;
}

/* ---- contexts ------------------------------------------------------------ */

/* Creates a context. There is no session resumption: keys are never reused. */
static SSL_CTX *context_new(void) {
  SSL_CTX *context = SSL_CTX_new(TLS_method());
  if (context == NULL) return NULL;
  (void)SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  (void)SSL_CTX_set_options(context, SSL_OP_NO_COMPRESSION | SSL_OP_NO_TICKET);
  (void)SSL_CTX_set_mode(context, SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  if (SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) == 1 &&
      SSL_CTX_set_max_proto_version(context, TLS1_3_VERSION) == 1 &&
      SSL_CTX_set_ciphersuites(context, SUITES) == 1 &&
      SSL_CTX_set_num_tickets(context, 0) == 1 &&
      SSL_CTX_set_max_early_data(context, 0) == 1)
    return context;
  SSL_CTX_free(context);
  return NULL;
}

static gloo_status context_make(const gli_tls_settings *settings,
                                SSL_CTX **openssl, gloo_error *error) {
  SSL_CTX *made = context_new();
  gloo_status status = gli_openssl_made(made != NULL, "TLS 1.3", error);
  if (status == GLOO_OK && settings->kind == GLI_TLS_BY_CERTIFICATE)
    status = context_load(made, settings, error);
  if (status == GLOO_OK)
    *openssl = made;
  else
    SSL_CTX_free(made);
  return status;
}

gloo_status gli_tls_context_create(const gli_tls_settings *settings,
                                   gli_tls_context **context,
                                   gloo_error *error) {
  gli_tls_context *made = calloc(1, sizeof *made);
  if (made == NULL)
    return gli_fail(error, GLOO_ERR_NO_MEMORY, -1, "out of memory for TLS");
  (void)pthread_mutex_init(&made->lock, NULL);
  gloo_status status = gli_openssl_begin(error);
  if (status == GLOO_OK) {
    if (settings->kind == GLI_TLS_BY_CERTIFICATE)
      (void)files_look(settings, made->stamps);
    status = context_make(settings, &made->openssl, error);
    gli_openssl_end();
  }
  if (status == GLOO_OK) {
    *context = made;
  } else {
    (void)pthread_mutex_destroy(&made->lock);
    free(made);
  }
  return status;
}

void gli_tls_context_destroy(gli_tls_context *context) {
  if (context == NULL) return;
  if (gli_openssl_begin(NULL) == GLOO_OK) {
    SSL_CTX_free(context->openssl);
    gli_openssl_end();
  }
  (void)pthread_mutex_destroy(&context->lock);
  free(context);
}

/* Reloads changed files. On failure the previous certificate stays: a renewal
 * that replaces one file after the other may be seen half done. */
static void context_refresh(const gli_tls_settings *settings) {
  gli_tls_context *context = settings->context;
  SSL_CTX *made;
  gloo_error error;
  if (!files_look(settings, context->stamps)) return;
  if (context_make(settings, &made, &error) != GLOO_OK) {
    gli_log(GLOO_LOG_WARN, "TLS keeps the previous certificate: %s",
            error.message);
    return;
  }
  SSL_CTX_free(context->openssl);
  context->openssl = made;
  gli_log(GLOO_LOG_INFO, "TLS: reloaded the certificate %s",
          settings->certificate);
}

SSL *gli_tls_context_connection(const gli_tls_settings *settings) {
  gli_tls_context *context = settings->context;
  (void)pthread_mutex_lock(&context->lock);
  if (settings->kind == GLI_TLS_BY_CERTIFICATE) context_refresh(settings);
  SSL *connection = SSL_new(context->openssl);
  (void)pthread_mutex_unlock(&context->lock);
  return connection;
}
