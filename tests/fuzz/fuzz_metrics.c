/* The parsers of `gloo metrics`: requests of clients (first byte 'h') and the
 * texts of ranks. A page made from accepted texts consists of valid lines. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "tools/metrics_http.h"
#include "tools/metrics_line.h"
#include "tools/metrics_page.h"

static void read_request(const fuzz_input *input) {
  gli_http_request request;
  uint8_t *bytes = fuzz_copy(input);
  int status = gli_http_read((const char *)bytes, input->left, &request);
  fuzz_check(status == 0 || strtol(gli_http_words(status), NULL, 10) == status,
             "a status with words");
  fuzz_check(status != 0 || input->left < GLI_HTTP_HEAD_BYTES,
             "an answer to a long request");
  free(bytes);
}

static void check_page(const gli_metrics_page *page,
                       gli_metrics_format format) {
  char *text = NULL;
  size_t bytes = 0;
  FILE *to = open_memstream(&text, &bytes);
  fuzz_check(to != NULL, "memory");
  fuzz_check(gli_metrics_page_print(page, format, to), "a page");
  fuzz_check(fclose(to) == 0 && strlen(text) == bytes, "a text");
  for (const char *at = text; *at != '\0';) {
    gli_metrics_line line = gli_metrics_line_read(at);
    fuzz_check(line.kind != GLI_METRICS_MALFORMED, "valid lines");
    at = line.next;
  }
  free(text);
}

static void read_texts(const fuzz_input *input) {
  gli_metrics_page *page = gli_metrics_page_new("a\"\\\n\xff");
  char *text = fuzz_text(input);
  fuzz_check(page != NULL && text != NULL, "memory");
  for (const char *at = text, *end; *at != '\0'; at = end) {
    gli_metrics_rank rank;
    end = gli_metrics_check(at, &rank);
    if (end == NULL) break;
    fuzz_check(end > at, "progress");
    fuzz_check(gli_metrics_page_add(page, &rank, at, end), "memory");
    fuzz_check(gli_metrics_page_gauge(page, "gloo_a", "Help.", &rank, 1),
               "memory");
  }
  check_page(page, GLI_METRICS_CLASSIC);
  check_page(page, GLI_METRICS_OPEN);
  gli_metrics_page_free(page);
  free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  fuzz_input input = {data, bytes};
  if (fuzz_take_u8(&input) == 'h')
    read_request(&input);
  else
    read_texts(&input);
  return 0;
}
