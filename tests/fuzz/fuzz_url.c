/* URLs of stores, and what is shown of them. */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "rendezvous/store_url.h"

static void check_part(const gli_store_url *url, const char *part) {
  fuzz_check(part >= url->text && part < url->text + sizeof url->text,
             "a part of a URL lies in its text");
  fuzz_check(
      memchr(part, 0, (size_t)(url->text + sizeof url->text - part)) != NULL,
      "and ends there");
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
    /* Not that of another part. */
    size_t secret = strlen(url.password);
    char *shown = strstr(gli_store_url_shown(text).text, ":***@");
    fuzz_check(secret == 0 || strchr(url.user, ':') != NULL || shown != NULL ||
                   strlen(text) > 100,
               "the password is not shown");
  }
  free(text);
  return 0;
}
