#include "pki.h"

#include <dirent.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct pki_authority {
  X509 *certificate;
  EVP_PKEY *key;
};

static void pki_need(bool good, const char *what) {
  if (good) return;
  fprintf(stderr, "pki: cannot %s\n", what);
  ERR_print_errors_fp(stderr);
  abort();
}

/* ---- certificates -------------------------------------------------------- */

static void pki_extend(X509 *certificate, X509 *issuer, int nid,
                       const char *value) {
  X509V3_CTX context;
  if (value == NULL) return;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, NULL, NULL, 0);
  X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &context, nid, value);
  pki_need(extension != NULL, value);
  pki_need(X509_add_ext(certificate, extension, -1) == 1, value);
  X509_EXTENSION_free(extension);
}

/* The default lifetime of certificates: 65 years. */
static const long pki_life_s = 3600L * 24 * 24000;
static bool pki_alike;

void pki_make_alike(void) {
  pki_alike = true;
}

static time_t pki_now(void) {
  const time_t start_of_2026 = 1767225600;
  return pki_alike ? start_of_2026 : time(NULL);
}

/* Begins a certificate, not yet signed. */
static X509 *pki_begin(EVP_PKEY *key, const char *name, long from_s,
                       long until_s) {
  static long serial;
  time_t now = pki_now();
  X509 *made = X509_new();
  pki_need(made != NULL, "make a certificate");
  X509_set_version(made, X509_VERSION_3);
  ASN1_INTEGER_set(X509_get_serialNumber(made),
                   ++serial + 1000 * (pki_alike ? 1 : getpid()));
  X509_time_adj(X509_getm_notBefore(made), from_s, &now);
  X509_time_adj(X509_getm_notAfter(made), until_s, &now);
  X509_set_pubkey(made, key);
  X509_NAME_add_entry_by_txt(X509_get_subject_name(made), "CN", MBSTRING_ASC,
                             (const unsigned char *)name, -1, -1, 0);
  return made;
}

static void pki_sign(X509 *certificate, const pki_authority *by) {
  X509_set_issuer_name(certificate, X509_get_subject_name(by->certificate));
  pki_need(X509_sign(certificate, by->key, EVP_sha256()) > 0,
           "sign a certificate");
}

pki_authority *pki_authority_new(const char *name) {
  pki_authority *made = calloc(1, sizeof *made);
  pki_need(made != NULL, "make an authority");
  made->key = EVP_EC_gen("P-256");
  pki_need(made->key != NULL, "make a key");
  X509 *own = pki_begin(made->key, name, -3600, pki_life_s);
  made->certificate = own;
  pki_extend(own, own, NID_basic_constraints, "critical,CA:TRUE");
  pki_extend(own, own, NID_key_usage, "critical,keyCertSign,cRLSign");
  pki_extend(own, own, NID_subject_key_identifier, "hash");
  pki_sign(own, made);
  return made;
}

void pki_authority_free(pki_authority *authority) {
  X509_free(authority->certificate);
  EVP_PKEY_free(authority->key);
  free(authority);
}

/* ---- files --------------------------------------------------------------- */

static FILE *pki_create(const char *path) {
  FILE *file = fopen(path, "w");
  pki_need(file != NULL, path);
  return file;
}

void pki_authority_write(const pki_authority *authority, const char *path) {
  FILE *file = pki_create(path);
  pki_need(PEM_write_X509(file, authority->certificate) == 1, path);
  fclose(file);
}

void pki_authority_write_hashed(const pki_authority *authority,
                                const char *directory) {
  char path[256];
  snprintf(path, sizeof path, "%s/%08lx.0", directory,
           X509_subject_name_hash(authority->certificate));
  pki_authority_write(authority, path);
}

static void pki_write_key(FILE *file, EVP_PKEY *key, const char *password) {
  const unsigned char *text = (const unsigned char *)password;
  int bytes = password != NULL ? (int)strlen(password) : 0;
  pki_need(PEM_write_PrivateKey(file, key,
                                password != NULL ? EVP_aes_128_cbc() : NULL,
                                text, bytes, NULL, NULL) == 1,
           "write a key");
}

void pki_issue(const pki_authority *by, const pki_paper *paper,
               const char *certificate, const char *key) {
  bool dated = paper->from_s != 0 || paper->until_s != 0;
  EVP_PKEY *own = paper->rsa ? EVP_RSA_gen(2048) : EVP_EC_gen("P-256");
  pki_need(own != NULL, "make a key");
  X509 *made = pki_begin(own, "a rank", dated ? paper->from_s : -3600,
                         dated ? paper->until_s : pki_life_s);
  pki_extend(made, by->certificate, NID_subject_alt_name, paper->names);
  pki_extend(made, by->certificate, NID_ext_key_usage, paper->use);
  pki_sign(made, by);
  FILE *file = pki_create(certificate);
  pki_need(PEM_write_X509(file, made) == 1, certificate);
  if (key == NULL) pki_write_key(file, own, paper->password);
  fclose(file);
  if (key != NULL) {
    file = pki_create(key);
    pki_write_key(file, own, paper->password);
    fclose(file);
  }
  X509_free(made);
  EVP_PKEY_free(own);
}

const char *pki_folder(void) {
  enum { FOLDERS = 8 };
  static char folders[FOLDERS][64];
  static int n;
  pki_need(n < FOLDERS, "have one more folder");
  strcpy(folders[n], "/tmp/gloo_c_tls_XXXXXX");
  pki_need(mkdtemp(folders[n]) != NULL, folders[n]);
  return folders[n++];
}

void pki_folder_remove(const char *folder) {
  char path[512];
  struct dirent *entry;
  DIR *all = opendir(folder);
  pki_need(all != NULL, folder);
  while ((entry = readdir(all)) != NULL) {
    snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
    if (entry->d_name[0] != '.') (void)unlink(path);
  }
  closedir(all);
  (void)rmdir(folder);
}
