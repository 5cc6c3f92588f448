/* with_certificates NAMES PROGRAM ARGUMENT...
 *
 * Runs a test with TLS by certificates: all its ranks use one certificate,
 * created here for NAMES ("IP:127.0.0.1", or a name shared by all ranks of a
 * job: "DNS:job.example"). */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pki.h"

int main(int argc, char **argv) {
  char authority[96], certificate[96];
  int status;
  if (argc < 3) return 2;
  const char *folder = pki_folder();
  pki_authority *ca = pki_authority_new("the authority");
  snprintf(authority, sizeof authority, "%s/ca.pem", folder);
  snprintf(certificate, sizeof certificate, "%s/rank.pem", folder);
  pki_authority_write(ca, authority);
  pki_issue(ca, &(pki_paper){.names = argv[1]}, certificate, NULL);
  pki_authority_free(ca);
  setenv("GLOO_TLS", "1", 1);
  setenv("GLOO_TLS_CERTIFICATE", certificate, 1);
  setenv("GLOO_TLS_AUTHORITY", authority, 1);
  setenv("GLOO_TLS_NAME", "job.example", 1);
  pid_t child = fork();
  if (child == 0) {
    execv(argv[2], argv + 2);
    _exit(127);
  }
  bool ended = child > 0 && waitpid(child, &status, 0) == child;
  pki_folder_remove(folder);
  return ended && WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
