/* Certificates for tests. A failure ends the program. */
#ifndef TESTS_SECURITY_PKI_H
#define TESTS_SECURITY_PKI_H

typedef struct pki_authority pki_authority;

/* Makes later certificates independent of the time and the process, except for
 * OpenSSL's random numbers. */
void pki_make_alike(void);

pki_authority *pki_authority_new(const char *name);
void pki_authority_free(pki_authority *authority);
/* Writes the authority's certificate as PEM. */
void pki_authority_write(const pki_authority *authority, const char *path);
/* Writes it under its hashed name in a directory of authorities. */
void pki_authority_write_hashed(const pki_authority *authority,
                                const char *directory);

/* Contents of a certificate. Zero means valid from an hour ago for 65 years,
 * for all uses. */
typedef struct pki_paper {
  const char *names; /* "URI:gloo:rank/3,DNS:node3,IP:127.0.0.1"; NULL: none */
  const char *use;   /* "serverAuth"; NULL: any */
  long from_s, until_s; /* relative to the present */
  const char *password; /* password of the key; NULL: none */
  int rsa;              /* an RSA key */
} pki_paper;

/* Issues a certificate for a new key, signed by the authority. If `key` is
 * NULL, both go into one file. */
void pki_issue(const pki_authority *by, const pki_paper *paper,
               const char *certificate, const char *key);

/* Creates a folder. Its absolute path stays valid until the program ends. */
const char *pki_folder(void);
/* Removes the folder and its files. */
void pki_folder_remove(const char *folder);

#endif
