/* Trace files that `gloo trace` reads: one, or two separated by a byte of 0.
 * Reading ends, whatever they contain. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "tools/trace.h"

const gli_trace_file *gli_traces_of(const gli_traces *traces, int64_t rank) {
  for (size_t i = 0; i < traces->n; i++) {
    if (traces->files[i].rank == rank) return &traces->files[i];
  }
  return NULL;
}

static void read_one(gli_traces *traces, const uint8_t *data, size_t bytes) {
  char why[GLI_TRACE_WHY_BYTES] = "";
  char *text = malloc(bytes > 0 ? bytes : 1);
  fuzz_check(text != NULL, "memory");
  if (bytes > 0) memcpy(text, data, bytes);
  gli_trace_file *file = &traces->files[traces->n];
  bool read = gli_trace_parse(file, "file", text, bytes, why);
  fuzz_check(read || why[0] != '\0', "a file that is refused, and why");
  if (!read) return;
  fuzz_check(file->rank < file->size, "a rank of the job");
  if (traces->n > 0 &&
      (file->size != traces->size || file->rank <= traces->files[0].rank)) {
    gli_trace_unload(file);
    return;
  }
  traces->size = file->size;
  traces->n++;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  gli_trace_file files[2];
  gli_traces traces = {.files = files};
  const uint8_t *end = bytes > 0 ? memchr(data, 0, bytes) : NULL;
  size_t first = end != NULL ? (size_t)(end - data) : bytes;
  read_one(&traces, data, first);
  if (end != NULL) read_one(&traces, end + 1, bytes - first - 1);
  FILE *nowhere = tmpfile();
  fuzz_check(nowhere != NULL, "a file");
  (void)gli_trace_compare(&traces, nowhere);
  (void)gli_trace_compare_messages(&traces, nowhere);
  (void)gli_trace_print_timeline(&traces, nowhere);
  fclose(nowhere);
  for (size_t i = 0; i < traces.n; i++) gli_trace_unload(&files[i]);
  return 0;
}
