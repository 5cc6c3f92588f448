#include "tls_papers.h"

#include <stdio.h>

#include "../security/pki.h"
#include "fuzz.h"

static gli_tls_settings *papers_read(const char *certificate,
                                     const char *authority) {
  gloo_tls_options o = GLOO_TLS_OPTIONS_INIT;
  gli_tls_settings *settings;
  gloo_error error;
  o.use = 1;
  o.certificate = certificate;
  o.authority = authority;
  fuzz_check(gli_tls_settings_read(&o, &settings, &error) == GLOO_OK,
             error.message);
  return settings;
}

static gli_tls_settings *papers_issue(const char *folder,
                                      const pki_authority *by,
                                      const char *names) {
  const pki_paper paper = {.names = names};
  char certificate[128], authority[128];
  snprintf(certificate, sizeof certificate, "%s/own.pem", folder);
  snprintf(authority, sizeof authority, "%s/authority.pem", folder);
  pki_issue(by, &paper, certificate, NULL);
  return papers_read(certificate, authority);
}

void tls_papers_make(tls_papers *papers) {
  static const char *const names[] = {"URI:gloo:rank/0,IP:127.0.0.1",
                                      "URI:gloo:rank/1,IP:127.0.0.1"};
  char path[128];
  pki_make_alike();
  const char *folder = pki_folder();
  pki_authority *known = pki_authority_new("known");
  pki_authority *unknown = pki_authority_new("unknown");
  snprintf(path, sizeof path, "%s/authority.pem", folder);
  pki_authority_write(known, path);
  for (int rank = 0; rank < 2; rank++) {
    papers->rank[rank] = papers_issue(folder, known, names[rank]);
    papers->stranger[rank] = papers_issue(folder, unknown, names[rank]);
  }
  papers->other_rank = papers_issue(folder, known, "URI:gloo:rank/7");
  papers->secret = papers_read(NULL, NULL);
  pki_authority_free(known);
  pki_authority_free(unknown);
  pki_folder_remove(folder);
  fuzz_check(gli_endpoint_from_text("127.0.0.1", &papers->at), "an address");
}
