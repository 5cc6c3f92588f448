#include "tls_client.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../pki.h"

/* ---- papers -------------------------------------------------------------- */

static const struct {
  const char *file;
  pki_paper paper;
  bool by_other;
} papers[] = {
    {"rank0.pem", {.names = "URI:gloo:rank/0"}, false},
    {"rank1.pem", {.names = "URI:gloo:rank/1"}, false},
    {"rank2.pem", {.names = "URI:gloo:rank/2"}, false},
    {"rank3.pem", {.names = "URI:gloo:rank/3"}, false},
    {"host.pem", {.names = "DNS:elsewhere,IP:127.0.0.9"}, false},
    {"expired.pem",
     {.names = "URI:gloo:rank/3", .from_s = -7200, .until_s = -3600},
     false},
    {"early.pem",
     {.names = "URI:gloo:rank/3", .from_s = 3600, .until_s = 7200},
     false},
    {"unbelieved.pem", {.names = "URI:gloo:rank/3"}, true},
};

void hostile_write_papers(const char *folder) {
  char path[256];
  pki_authority *ca = pki_authority_new("ca");
  pki_authority *other = pki_authority_new("other");
  snprintf(path, sizeof path, "%s/ca.pem", folder);
  pki_authority_write(ca, path);
  for (size_t i = 0; i < sizeof papers / sizeof *papers; i++) {
    snprintf(path, sizeof path, "%s/%s", folder, papers[i].file);
    pki_issue(papers[i].by_other ? other : ca, &papers[i].paper, path, NULL);
  }
  pki_authority_free(ca);
  pki_authority_free(other);
}

/* ---- a client of TLS ----------------------------------------------------- */

typedef struct client {
  const char *paper; /* NULL: none */
  int version;
} client;

static SSL_CTX *client_context(hostile *h, const client *c) {
  char path[256];
  SSL_CTX *context = SSL_CTX_new(TLS_client_method());
  if (context == NULL) abort();
  SSL_CTX_set_verify(context, SSL_VERIFY_NONE, NULL);
  hostile_demand(h,
                 SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) == 1 &&
                     SSL_CTX_set_max_proto_version(context, c->version) == 1,
                 "no such version of TLS");
  if (c->paper == NULL) return context;
  snprintf(path, sizeof path, "%s/%s", h->job->options.papers, c->paper);
  hostile_demand(
      h,
      SSL_CTX_use_certificate_chain_file(context, path) == 1 &&
          SSL_CTX_use_PrivateKey_file(context, path, SSL_FILETYPE_PEM) == 1,
      "no such certificate");
  return context;
}

static const client clients[] = {
    {NULL, TLS1_3_VERSION},        {"rank2.pem", TLS1_3_VERSION},
    {"host.pem", TLS1_3_VERSION},  {"expired.pem", TLS1_3_VERSION},
    {"early.pem", TLS1_3_VERSION}, {"unbelieved.pem", TLS1_3_VERSION},
    {"rank3.pem", TLS1_2_VERSION},
};

/* Returns true if the connection closed, or the bytes are a reply of the store
 * with an error status. */
static bool is_refusal(const uint8_t head[8], int bytes) {
  static const uint8_t good[4] = {0};
  return bytes <= 0 || (bytes == 8 && memcmp(head + 4, good, 4) != 0);
}

void hostile_tls_is_refused(hostile *h, int fd, size_t which) {
  uint8_t head[8];
  SSL_CTX *context = client_context(h, &clients[which]);
  SSL *ssl = SSL_new(context);
  signal(SIGPIPE, SIG_IGN);
  if (ssl == NULL || SSL_set_fd(ssl, fd) != 1) abort();
  bool made = SSL_connect(ssl) == 1;
  hostile_demand(h, !made || is_refusal(head, SSL_read(ssl, head, 8)),
                 "it was talked to");
  SSL_free(ssl);
  SSL_CTX_free(context);
  close(fd);
  ERR_clear_error();
}
