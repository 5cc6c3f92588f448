#include <stdlib.h>

#include "observe/text_out.h"

char *gli_text_print(gli_text_fn print, void *of, size_t *bytes) {
  char *text = NULL;
  FILE *to = open_memstream(&text, bytes);
  if (to == NULL) return NULL;
  bool printed = print(to, of) && !ferror(to);
  if (fclose(to) == 0 && printed) return text;
  free(text);
  return NULL;
}
