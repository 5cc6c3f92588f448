/* URLs of stores, and the text that is shown for them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "rendezvous/store/store_url.h"

static void check_part(const gli_store_url *url, const char *part) {
  fuzz_check(part >= url->text && part < url->text + sizeof url->text,
             "a part of a URL lies in its text");
  fuzz_check(
      memchr(part, 0, (size_t)(url->text + sizeof url->text - part)) != NULL,
      "and ends there");
}

/* Checks that the shown text does not depend on the password. */
static void check_shown(const char *text, const char *password) {
  char other[GLI_STORE_URL_MAX + 8];
  if (password[0] == '\0') return;
  const char *from = strchr(strstr(text, "://") + 3, ':');
  const char *at = strrchr(text, '@');
  fuzz_check(from != NULL && at != NULL && from < at, "a password has a place");
  size_t kept = (size_t)(from + 1 - text);
  memcpy(other, text, kept);
  snprintf(other + kept, sizeof other - kept, "other%s", at);
  fuzz_check(strcmp(gli_store_url_shown(text).text,
                    gli_store_url_shown(other).text) == 0,
             "the password is not shown");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  fuzz_input input = {data, bytes};
  char *text = fuzz_text(&input);
  gli_store_url url;
  gloo_error error;
  gloo_status status = gli_store_url_read(text, &url, &error);
  fuzz_check_error(status, &error);
  if (status == GLOO_OK) {
    check_part(&url, url.scheme);
    check_part(&url, url.user);
    check_part(&url, url.password);
    check_part(&url, url.host);
    check_part(&url, url.path);
    check_shown(text, url.password);
  }
  free(text);
  return 0;
}
