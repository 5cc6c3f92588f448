#include "net/tls.h"

#include <errno.h>
#include <inttypes.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/descriptor.h"
#include "core/error.h"
#include "core/random.h"
#include "net/tls_context.h"
#include "security/openssl.h"

/* RFC 8446, section 5.5, limits one AES-GCM key to 2^24.5 full-size records.
 * OpenSSL does not count them. */
#if !defined(GLI_TLS_RECORDS_PER_KEY)
#define GLI_TLS_RECORDS_PER_KEY (1u << 23)
#endif

enum {
  RECORD_BYTES = 16384,    /* maximum of TLS */
  TOGETHER_BYTES = 131072, /* maximum written in one system call */
  AHEAD_BYTES = 4096,      /* read in one system call at first */
  AHEAD_MAX_BYTES = 65536, /* maximum, after a full read */
  TLS_WHY_BYTES = 160
};

struct gli_tls {
  gli_tls_settings *settings;
  SSL *ssl;
  int fd;
  gli_key key; /* key of BY_SECRET */
  /* With BY_CERTIFICATE: the other end's certificate must be for this URI or
   * one of these addresses; "" if it is checked later. */
  char uri[32];
  gli_endpoints at;
  bool belongs; /* true if it is */
  bool begun;   /* true after the first call of gli_tls_shake_hands */
  bool ready;   /* true after the handshake */

  /* Results of OpenSSL's calls. */
  bool blocked;   /* true if the last call stopped for lack of input */
  bool drained;   /* true if this call has emptied the socket */
  bool ended;     /* true if the other end sends no more */
  int code;       /* errno after which every call fails */
  int write_code; /* errno after which only writing fails */
  int alert; /* alert by which the other end refused to continue; -1 if none */
  unsigned records;        /* number of records written with the current key */
  char why[TLS_WHY_BYTES]; /* description of EBADMSG */

  /* Buffers of encrypted bytes: input read ahead of OpenSSL, and output that
   * the socket has not accepted yet. */
  uint8_t *ahead;
  size_t ahead_at, ahead_end, ahead_room;
  uint8_t *kept;
  size_t kept_at, kept_end, kept_room;
  bool more;    /* true if more records follow, to be written together */
  bool refused; /* true if the socket has not accepted everything */
};

/* ---- the socket ---------------------------------------------------------- */

static bool tls_keep(gli_tls *tls, const uint8_t *data, size_t bytes) {
  if (tls->kept_room - tls->kept_end < bytes) {
    size_t room = tls->kept_end + bytes;
    uint8_t *kept = realloc(tls->kept, room);
    if (kept == NULL) {
      tls->write_code = ENOMEM;
      return false;
    }
    tls->kept = kept;
    tls->kept_room = room;
  }
  memcpy(tls->kept + tls->kept_end, data, bytes);
  tls->kept_end += bytes;
  return true;
}

/* Accepts all bytes, so that OpenSSL never has to be called again with the same
 * ones. After an error it discards them and callers check `write_code`:
 * OpenSSL, which retries to write a key update before each read, can then still
 * read the data that has arrived. The records of one message are written
 * together, because a system call and a wake-up of the other end for each would
 * cost as much as its encryption. */
static int tls_bio_write(BIO *bio, const char *data, int bytes) {
  gli_tls *tls = BIO_get_data(bio);
  const uint8_t *from = (const uint8_t *)data;
  size_t left = (size_t)bytes;
  BIO_clear_retry_flags(bio);
  if (tls->write_code != 0) return bytes;
  if (!tls->more && !gli_tls_unsent(tls)) {
    ssize_t sent = gli_socket_send(tls->fd, from, left);
    if (sent < 0 && !gli_would_block(errno)) {
      tls->write_code = errno;
      return -1;
    }
    if (sent > 0) {
      from += sent;
      left -= (size_t)sent;
    }
    tls->refused = left > 0;
  }
  return left == 0 || tls_keep(tls, from, left) ? bytes : -1;
}

/* Grows the buffer after a read that filled it, because more is likely. */
static bool tls_ahead_grow(gli_tls *tls) {
  size_t room = tls->ahead_room == 0 ? AHEAD_BYTES : AHEAD_MAX_BYTES;
  bool filled = tls->ahead_end == tls->ahead_room;
  if (!filled || tls->ahead_room == room) return true;
  uint8_t *ahead = malloc(room);
  if (ahead == NULL && tls->ahead == NULL) {
    tls->code = ENOMEM;
    return false;
  }
  if (ahead == NULL) return true;
  free(tls->ahead);
  tls->ahead = ahead;
  tls->ahead_room = room;
  return true;
}

/* Refills the empty buffer. Returns false without input, or on failure. */
static bool tls_ahead_fill(gli_tls *tls) {
  if (tls->drained || tls->ended || !tls_ahead_grow(tls)) return false;
  ssize_t got = gli_socket_receive(tls->fd, tls->ahead, tls->ahead_room);
  tls->ahead_at = 0;
  tls->ahead_end = got > 0 ? (size_t)got : 0;
  tls->drained = got < 0 || tls->ahead_end < tls->ahead_room;
  tls->ended = got == 0;
  if (got < 0 && !gli_would_block(errno)) tls->code = errno;
  return got > 0;
}

static int tls_bio_read(BIO *bio, char *to, int room) {
  gli_tls *tls = BIO_get_data(bio);
  BIO_clear_retry_flags(bio);
  if (tls->ahead_at == tls->ahead_end && !tls_ahead_fill(tls)) {
    if (tls->ended) return 0;
    if (tls->code != 0) return -1;
    tls->blocked = true;
    BIO_set_retry_read(bio);
    return -1;
  }
  size_t bytes = tls->ahead_end - tls->ahead_at;
  if (bytes > (size_t)room) bytes = (size_t)room;
  memcpy(to, tls->ahead + tls->ahead_at, bytes);
  tls->ahead_at += bytes;
  return (int)bytes;
}

static long tls_bio_control(BIO *bio, int command, long number, void *data) {
  (void)bio;
  (void)number;
  (void)data;
  return command == BIO_CTRL_FLUSH ? 1 : 0;
}

/* Returns the method of our BIO. Several threads may call this at once, between
 * gli_openssl_begin and gli_openssl_end. */
static const BIO_METHOD *tls_bio_method(void) {
  static _Atomic(BIO_METHOD *) method;
  BIO_METHOD *known = atomic_load(&method);
  if (known != NULL) return known;
  BIO_METHOD *made =
      BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "gloo_c socket");
  if (made == NULL) return NULL;
  (void)BIO_meth_set_write(made, tls_bio_write);
  (void)BIO_meth_set_read(made, tls_bio_read);
  (void)BIO_meth_set_ctrl(made, tls_bio_control);
  if (atomic_compare_exchange_strong(&method, &known, made)) return made;
  BIO_meth_free(made);
  return known;
}

/* ---- failures ------------------------------------------------------------ */

static void tls_fail(gli_tls *tls, const char *what, const char *detail) {
  tls->code = EBADMSG;
  snprintf(tls->why, sizeof tls->why, "%s%s%.80s", what,
           detail[0] != '\0' ? ": " : "", detail);
}

/* Records alerts. close_notify only says that the other end sends no more. */
static void tls_heard(const SSL *ssl, int where, int value) {
  gli_tls *tls = SSL_get_app_data(ssl);
  int alert = value & 0xff;
  if (where != SSL_CB_READ_ALERT) return;
  if (alert == SSL_AD_CLOSE_NOTIFY)
    tls->ended = true;
  else if (alert != SSL_AD_USER_CANCELLED)
    tls->alert = alert;
}

/* Describes the other end's alert. */
static void tls_refused(gli_tls *tls, int alert) {
  bool secret = tls->settings->kind == GLI_TLS_BY_SECRET;
  const char *text = ERR_reason_error_string(
      ERR_PACK(ERR_LIB_SSL, 0, SSL_AD_REASON_OFFSET + alert));
  if (!secret && alert == SSL_AD_BAD_CERTIFICATE)
    tls_fail(tls,
             "rejected the certificate of this rank: it belongs to another "
             "rank or is not valid",
             "");
  else if (secret &&
           (alert == SSL_AD_ILLEGAL_PARAMETER ||
            alert == SSL_AD_HANDSHAKE_FAILURE || alert == SSL_AD_DECRYPT_ERROR))
    tls_fail(tls, "has a different secret, or none", "");
  else
    tls_fail(tls, "rejected the connection",
             text != NULL ? text : "for an unknown reason");
}

static void tls_changed(gli_tls *tls) {
  tls_fail(tls, "data was modified in transit", "");
}

/* Describes the failure of an OpenSSL call that met neither the end of the
 * stream nor a socket error. */
static void tls_explain(gli_tls *tls) {
  unsigned long code = ERR_peek_last_error();
  int reason = ERR_GET_REASON(code);
  long verified = SSL_get_verify_result(tls->ssl);
  const char *text = ERR_reason_error_string(code);
  bool of_tls = ERR_GET_LIB(code) == ERR_LIB_SSL;
  if (tls->alert >= 0) {
    tls_refused(tls, tls->alert);
  } else if (tls->ready) { /* the other end has spoken TLS before */
    tls_changed(tls);
  } else if (!of_tls) {
    tls_fail(tls, "does not speak TLS correctly", text != NULL ? text : "");
  } else if (verified == X509_V_ERR_HOSTNAME_MISMATCH) {
    tls->code = EBADMSG; /* tls_verify has said why */
  } else if (reason == SSL_R_CERTIFICATE_VERIFY_FAILED) {
    tls_fail(tls, "has a certificate that is not trusted",
             X509_verify_cert_error_string(verified));
  } else if (reason == SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE) {
    tls_fail(tls, "has no certificate", "");
  } else if (reason == SSL_R_BINDER_DOES_NOT_VERIFY ||
             (tls->settings->kind == GLI_TLS_BY_SECRET &&
              reason == SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM)) {
    tls_fail(tls, "has a different secret, or none", "");
  } else if (reason == SSL_R_UNSUPPORTED_PROTOCOL ||
             reason == SSL_R_WRONG_VERSION_NUMBER) {
    tls_fail(tls, "does not speak TLS 1.3", "");
  } else if (reason == SSL_R_DECRYPTION_FAILED_OR_BAD_RECORD_MAC) {
    tls_changed(tls);
  } else {
    tls_fail(tls, "does not speak TLS correctly", text != NULL ? text : "");
  }
}

/* ---- pre-shared keys ----------------------------------------------------- */

/* Identity of the pre-shared key, the same for all: a connection has one
 * key. */
static const unsigned char tls_identity[] = "gloo_c";

static SSL_SESSION *tls_session_of_key(SSL *ssl, const gli_key *key) {
  const SSL_CIPHER *cipher = SSL_CIPHER_find(ssl, gli_tls_cipher);
  SSL_SESSION *session = SSL_SESSION_new();
  if (cipher != NULL && session != NULL &&
      SSL_SESSION_set1_master_key(session, key->bytes, sizeof key->bytes) ==
          1 &&
      SSL_SESSION_set_cipher(session, cipher) == 1 &&
      SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) == 1)
    return session;
  SSL_SESSION_free(session);
  return NULL;
}

static int tls_use_key(SSL *ssl, const EVP_MD *md, const unsigned char **id,
                       size_t *id_bytes, SSL_SESSION **session) {
  const gli_tls *tls = SSL_get_app_data(ssl);
  *session = NULL;
  *id = tls_identity;
  *id_bytes = sizeof tls_identity - 1;
  if (md != NULL && !EVP_MD_is_a(md, "SHA2-256")) return 1; /* no key */
  *session = tls_session_of_key(ssl, &tls->key);
  return *session != NULL;
}

static int tls_find_key(SSL *ssl, const unsigned char *id, size_t id_bytes,
                        SSL_SESSION **session) {
  const gli_tls *tls = SSL_get_app_data(ssl);
  *session = NULL;
  if (id_bytes != sizeof tls_identity - 1 ||
      memcmp(id, tls_identity, id_bytes) != 0)
    return 1;
  *session = tls_session_of_key(ssl, &tls->key);
  return *session != NULL;
}

/* ---- owners of certificates ---------------------------------------------- */

#define RANK_URI "gloo:rank/"

/* Result of a search of a certificate's URIs: `any` if one begins with "gloo:",
 * `found` if one is `wanted`, or that of any rank if that is NULL. */
typedef struct tls_uris {
  bool any;
  bool found;
} tls_uris;

static tls_uris tls_look_at_uris(X509 *certificate, const char *wanted) {
  const size_t rank_bytes = sizeof RANK_URI - 1;
  tls_uris uris = {false, false};
  GENERAL_NAMES *names =
      X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
  for (int i = 0; names != NULL && i < sk_GENERAL_NAME_num(names); i++) {
    const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, i);
    if (name->type != GEN_URI) continue;
    const ASN1_IA5STRING *text = name->d.uniformResourceIdentifier;
    size_t bytes = (size_t)ASN1_STRING_length(text);
    const unsigned char *data = ASN1_STRING_get0_data(text);
    bool ours = bytes > 5 && memcmp(data, "gloo:", 5) == 0;
    uris.any = uris.any || ours;
    bool found =
        wanted == NULL
            ? bytes >= rank_bytes && memcmp(data, RANK_URI, rank_bytes) == 0
            : bytes == strlen(wanted) && memcmp(data, wanted, bytes) == 0;
    uris.found = uris.found || found;
  }
  GENERAL_NAMES_free(names);
  return uris;
}

static bool tls_has_address(X509 *certificate, const gli_endpoint *at) {
  unsigned bits;
  const uint8_t *figures = gli_endpoint_figures(at, &bits);
  return X509_check_ip(certificate, figures, bits / 8, 0) == 1;
}

static bool tls_has_name(X509 *certificate, const char *name) {
  return name != NULL &&
         X509_check_host(certificate, name, 0,
                         X509_CHECK_FLAG_NEVER_CHECK_SUBJECT, NULL) == 1;
}

/* Returns true if the certificate has the right owner. If it has "gloo:" URIs,
 * one must be `uri` (or any rank's if `uri` is NULL); otherwise it must have
 * the name or an address. Stores a reason before it returns false. */
static bool tls_belongs(gli_tls *tls, X509 *certificate, const char *uri,
                        const char *name, const gli_endpoint *at, uint32_t n) {
  tls_uris uris = {false, false};
  bool is = false;
  if (certificate != NULL) {
    uris = tls_look_at_uris(certificate, uri);
    is = uris.any ? uris.found
                  : tls_has_name(certificate, name) ||
                        tls_has_name(certificate, tls->settings->name);
    for (uint32_t i = 0; i < n && !is && !uris.any; i++)
      is = tls_has_address(certificate, &at[i]);
  }
  if (!is)
    snprintf(
        tls->why, sizeof tls->why, "has a certificate for another rank: %s%s%s",
        uris.any ? "its URI is not " : "it names neither the URI ",
        uri != NULL ? uri : RANK_URI "N",
        uris.any ? ""
                 : ", nor the peer's address, nor the name in GLOO_TLS_NAME");
  return is;
}

/* Checks the peer's own certificate, which OpenSSL verifies last. */
static int tls_verify(int good, X509_STORE_CTX *verifying) {
  int index = SSL_get_ex_data_X509_STORE_CTX_idx();
  gli_tls *tls =
      SSL_get_app_data((SSL *)X509_STORE_CTX_get_ex_data(verifying, index));
  if (good != 1 || X509_STORE_CTX_get_error_depth(verifying) != 0 ||
      tls->uri[0] == '\0')
    return good;
  if (tls_belongs(tls, X509_STORE_CTX_get_current_cert(verifying), tls->uri,
                  NULL, tls->at.at, tls->at.n)) {
    tls->belongs = true;
    return 1;
  }
  X509_STORE_CTX_set_error(verifying, X509_V_ERR_HOSTNAME_MISMATCH);
  return 0;
}

void gli_tls_expect_rank(gli_tls *tls, uint32_t rank, const gli_endpoint *at,
                         uint32_t n) {
  snprintf(tls->uri, sizeof tls->uri, RANK_URI "%" PRIu32, rank);
  for (uint32_t i = 0; i < n; i++) (void)gli_endpoints_add(&tls->at, &at[i]);
}

static bool tls_is(gli_tls *tls, const char *uri, const char *name,
                   const gli_endpoint *at) {
  gloo_error error;
  if (tls->settings->kind != GLI_TLS_BY_CERTIFICATE) return true;
  if (gli_openssl_begin(&error) != GLOO_OK) {
    snprintf(tls->why, sizeof tls->why, "cannot be checked: %.100s",
             error.message);
    return false;
  }
  bool is =
      tls_belongs(tls, SSL_get0_peer_certificate(tls->ssl), uri, name, at, 1);
  gli_openssl_end();
  return is;
}

bool gli_tls_is_host(gli_tls *tls, const char *name, const gli_endpoint *at) {
  return tls_is(tls, RANK_URI "0", name, at);
}

bool gli_tls_is_member(gli_tls *tls, const gli_endpoint *at) {
  return tls_is(tls, NULL, NULL, at);
}

/* ---- opening and closing ------------------------------------------------- */

/* With a pre-shared key, the accepting end requests no certificate, and the
 * connecting end accepts none in place of the key. */
static void tls_set_role(gli_tls *tls, bool accepts) {
  SSL *ssl = tls->ssl;
  bool secret = tls->settings->kind == GLI_TLS_BY_SECRET;
  SSL_set_verify(ssl,
                 secret && accepts
                     ? SSL_VERIFY_NONE
                     : SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT,
                 tls_verify);
  if (secret && accepts) SSL_set_psk_find_session_callback(ssl, tls_find_key);
  if (secret && !accepts) SSL_set_psk_use_session_callback(ssl, tls_use_key);
  if (accepts)
    SSL_set_accept_state(ssl);
  else
    SSL_set_connect_state(ssl);
}

static bool tls_open_ssl(gli_tls *tls, bool accepts) {
  const BIO_METHOD *method = tls_bio_method();
  BIO *bio = method != NULL ? BIO_new(method) : NULL;
  tls->ssl = bio != NULL ? gli_tls_context_connection(tls->settings) : NULL;
  if (tls->ssl == NULL || SSL_set_app_data(tls->ssl, tls) != 1) {
    BIO_free(bio);
    return false;
  }
  SSL_set_info_callback(tls->ssl, tls_heard);
  BIO_set_data(bio, tls);
  BIO_set_init(bio, 1);
  SSL_set_bio(tls->ssl, bio, bio);
  tls_set_role(tls, accepts);
  return true;
}

gloo_status gli_tls_open(gli_tls_settings *settings, int fd, bool accepts,
                         const gli_key *key, gli_tls **tls, gloo_error *error) {
  gli_tls *made = calloc(1, sizeof *made);
  if (made == NULL)
    return gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                    "out of memory for a TLS connection");
  made->settings = gli_tls_settings_hold(settings);
  made->fd = fd;
  made->alert = -1;
  if (settings->kind == GLI_TLS_BY_SECRET) made->key = *key;
  gloo_status status = gli_openssl_begin(error);
  if (status == GLOO_OK) {
    status = gli_openssl_made(tls_open_ssl(made, accepts), "a TLS connection",
                              error);
    gli_openssl_end();
  }
  if (status == GLOO_OK)
    *tls = made;
  else
    gli_tls_destroy(made);
  return status;
}

void gli_tls_destroy(gli_tls *tls) {
  if (tls == NULL) return;
  if (tls->ssl != NULL && gli_openssl_begin(NULL) == GLOO_OK) {
    SSL_free(tls->ssl);
    gli_openssl_end();
  }
  gli_tls_settings_release(tls->settings);
  gli_wipe(&tls->key, sizeof tls->key);
  free(tls->ahead);
  free(tls->kept);
  free(tls);
}

/* ---- the handshake ------------------------------------------------------- */

static gli_tls_step tls_handshake_failed(gli_tls *tls) {
  if (tls->code == 0) tls->code = tls->write_code;
  if (tls->code == 0) tls->code = ECONNRESET; /* the stream has ended */
  errno = tls->code;
  return GLI_TLS_FAILED;
}

gli_tls_step gli_tls_shake_hands(gli_tls *tls) {
  gloo_error error;
  tls->blocked = false;
  tls->drained = !tls->begun && !SSL_is_server(tls->ssl);
  tls->begun = true;
  if (tls->code != 0 || !gli_tls_flush(tls)) return tls_handshake_failed(tls);
  if (gli_openssl_begin(&error) != GLOO_OK) {
    tls_fail(tls, "cannot be reached over TLS", error.message);
    return tls_handshake_failed(tls);
  }
  bool done = SSL_do_handshake(tls->ssl) == 1;
  bool failed = tls->write_code != 0 || (!done && !tls->blocked);
  if (failed && tls->code == 0 && tls->write_code == 0 && !tls->ended)
    tls_explain(tls);
  gli_openssl_end();
  if (failed) return tls_handshake_failed(tls);
  if (done && tls->settings->kind == GLI_TLS_BY_SECRET &&
      SSL_session_reused(tls->ssl) != 1) {
    tls_fail(tls, "did not prove knowledge of the job secret", "");
    return tls_handshake_failed(tls);
  }
  if (done && tls->settings->kind == GLI_TLS_BY_CERTIFICATE &&
      tls->uri[0] != '\0' && !tls->belongs) {
    tls_fail(tls, "did not present its own certificate", "");
    return tls_handshake_failed(tls);
  }
  tls->ready = done;
  return done ? GLI_TLS_DONE : GLI_TLS_WAITS;
}

const char *gli_tls_why(const gli_tls *tls) {
  return tls->why;
}

/* ---- exported keys ------------------------------------------------------- */

gloo_status gli_tls_key(gli_tls *tls, gli_key *key, gloo_error *error) {
  static const char label[] = "EXPORTER-gloo_c";
  gloo_status status = gli_openssl_begin(error);
  if (status != GLOO_OK) return status;
  bool good =
      SSL_export_keying_material(tls->ssl, key->bytes, sizeof key->bytes, label,
                                 sizeof label - 1, NULL, 0, 0) == 1;
  status = gli_openssl_made(good, "a key of a connection", error);
  gli_openssl_end();
  return status;
}

/* ---- records ------------------------------------------------------------- */

bool gli_tls_pending(const gli_tls *tls) {
  return tls->ahead_at < tls->ahead_end || tls->ended || tls->code != 0 ||
         SSL_pending(tls->ssl) > 0;
}

bool gli_tls_unsent(const gli_tls *tls) {
  return tls->kept_at < tls->kept_end;
}

bool gli_tls_flush(gli_tls *tls) {
  tls->refused = false;
  while (gli_tls_unsent(tls)) {
    ssize_t sent = gli_socket_send(tls->fd, tls->kept + tls->kept_at,
                                   tls->kept_end - tls->kept_at);
    tls->refused = sent < 0;
    if (sent < 0 && gli_would_block(errno)) return true;
    if (sent < 0) {
      tls->write_code = errno;
      return false;
    }
    tls->kept_at += (size_t)sent;
  }
  tls->kept_at = tls->kept_end = 0;
  return true;
}

/* Progress of a message that is sent in parts. */
typedef struct tls_place {
  const struct iovec *part;
  int left;  /* number of parts left, including this one */
  size_t at; /* offset in this part */
} tls_place;

/* Returns the content of the next record: long parts in place, short ones
 * together. */
static const uint8_t *tls_next_record(tls_place *place, uint8_t *stage,
                                      size_t *bytes) {
  size_t staged = 0;
  while (place->left > 0) {
    const uint8_t *from = (const uint8_t *)place->part->iov_base + place->at;
    size_t left = place->part->iov_len - place->at;
    size_t n = left < RECORD_BYTES - staged ? left : RECORD_BYTES - staged;
    bool alone = staged == 0 && (n == RECORD_BYTES || place->left == 1);
    place->at += n;
    if (!alone && n > 0) memcpy(stage + staged, from, n);
    if (n == left) {
      place->part++;
      place->left--;
      place->at = 0;
    }
    *bytes = staged + n;
    if (alone) return from;
    staged += n;
    if (staged == RECORD_BYTES) break;
  }
  return stage;
}

static int tls_write_error(const gli_tls *tls) {
  return tls->write_code != 0 ? tls->write_code : tls->code;
}

/* Writes with a new key, which OpenSSL derives from the current one by
 * algorithms that it fetches at that time. If OpenSSL cannot be used that way
 * now, the change of keys is postponed. */
static bool tls_write_with_next_key(gli_tls *tls, const uint8_t *data,
                                    size_t bytes, size_t *written) {
  if (gli_openssl_begin(NULL) != GLOO_OK)
    return SSL_write_ex(tls->ssl, data, bytes, written) == 1;
  bool good = SSL_key_update(tls->ssl, SSL_KEY_UPDATE_NOT_REQUESTED) == 1 &&
              SSL_write_ex(tls->ssl, data, bytes, written) == 1;
  if (good) tls->records = 0;
  if (!good && tls->code == 0 && tls->write_code == 0) tls_explain(tls);
  gli_openssl_end();
  return good;
}

static bool tls_write(gli_tls *tls, const uint8_t *data, size_t bytes) {
  size_t written;
  (void)ERR_set_mark();
  bool good = tls->records++ < GLI_TLS_RECORDS_PER_KEY
                  ? SSL_write_ex(tls->ssl, data, bytes, &written) == 1
                  : tls_write_with_next_key(tls, data, bytes, &written);
  if (!good && tls->code == 0 && tls->write_code == 0) tls_explain(tls);
  (void)ERR_pop_to_mark();
  if (!good) errno = tls_write_error(tls);
  return good;
}

ssize_t gli_tls_send(gli_tls *tls, const struct iovec *parts, int count) {
  uint8_t stage[RECORD_BYTES];
  tls_place place = {parts, count, 0};
  ssize_t total = 0;
  if (tls_write_error(tls) != 0 || !gli_tls_flush(tls)) {
    errno = tls_write_error(tls);
    return -1;
  }
  if (gli_tls_unsent(tls)) {
    errno = EAGAIN;
    return -1;
  }
  while (place.left > 0 && !tls->refused) {
    size_t bytes = 0;
    const uint8_t *record = tls_next_record(&place, stage, &bytes);
    if (bytes == 0) continue;
    tls->more = place.left > 0;
    bool written = tls_write(tls, record, bytes);
    tls->more = false;
    if (written) total += (ssize_t)bytes;
    bool full = place.left == 0 || tls->kept_end >= TOGETHER_BYTES;
    if (written && full) written = gli_tls_flush(tls);
    if (!written) return total > 0 ? total : -1;
  }
  return total;
}

/* Returns true if it has read any bytes. */
static bool tls_read(gli_tls *tls, uint8_t *to, size_t room, size_t *got) {
  (void)ERR_set_mark();
  bool good = SSL_read_ex(tls->ssl, to, room, got) == 1;
  if (!good && !tls->blocked && !tls->ended && tls->code == 0) tls_explain(tls);
  (void)ERR_pop_to_mark();
  return good;
}

ssize_t gli_tls_receive(gli_tls *tls, const struct iovec *parts, int count) {
  ssize_t total = 0;
  tls->blocked = tls->drained = false;
  for (int i = 0; i < count; i++) {
    for (size_t at = 0; at < parts[i].iov_len;) {
      size_t got = 0;
      if (tls->code != 0 || !tls_read(tls, (uint8_t *)parts[i].iov_base + at,
                                      parts[i].iov_len - at, &got)) {
        if (total > 0) return total;
        if (tls->ended && tls->code == 0) return 0;
        errno = tls->code != 0 ? tls->code : EAGAIN;
        return -1;
      }
      at += got;
      total += (ssize_t)got;
    }
  }
  return total;
}

void gli_tls_shut(gli_tls *tls) {
  if (!tls->ready || tls_write_error(tls) != 0) return;
  if ((SSL_get_shutdown(tls->ssl) & SSL_SENT_SHUTDOWN) != 0) return;
  (void)ERR_set_mark();
  (void)SSL_shutdown(tls->ssl);
  (void)ERR_pop_to_mark();
}
