/* Certificates that tests make for themselves. What fails ends the program. */
#ifndef TESTS_SECURITY_PKI_H
#define TESTS_SECURITY_PKI_H

typedef struct pki_authority pki_authority;

/* From now on certificates do not depend on when they are made, nor on which
 * process makes them, but for the numbers that OpenSSL draws. */
void pki_make_alike(void);

pki_authority *pki_authority_new(const char *name);
void pki_authority_free(pki_authority *authority);
/* Its certificate, as PEM. */
void pki_authority_write(const pki_authority *authority, const char *path);
/* ... under the name that a directory of authorities has it by. */
void pki_authority_write_hashed(const pki_authority *authority,
                                const char *directory);

/* What a certificate says; zero: an hour ago until in 65 years, for all uses.
 */
typedef struct pki_paper {
  const char *names; /* "URI:gloo:rank/3,DNS:node3,IP:127.0.0.1"; NULL: none */
  const char *use;   /* "serverAuth"; NULL: any */
  long from_s, until_s; /* from now on */
  const char *password; /* of the key; NULL: it has none */
  int rsa;              /* its key is one of RSA */
} pki_paper;

/* A certificate of a new key, signed by the authority. `key` may be NULL: both
 * are in the one file then. */
void pki_issue(const pki_authority *by, const pki_paper *paper,
               const char *certificate, const char *key);

/* A new folder, by an absolute path that lasts as long as the program. */
const char *pki_folder(void);
/* With the files in it. */
void pki_folder_remove(const char *folder);

#endif
