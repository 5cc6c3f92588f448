/* Text in memory, where no stream prints into memory: by a file that ends when
 * it is closed. */
#include "observe/text_out.h"

#include "windows/posix.h"

static FILE *text_file(void) {
  wchar_t directory[MAX_PATH + 1], path[MAX_PATH + 1];
  DWORD n = GetTempPathW(MAX_PATH + 1, directory);
  if (n == 0 || n > MAX_PATH ||
      GetTempFileNameW(directory, L"glo", 0, path) == 0)
    return NULL;
  return _wfopen(path, L"w+bTDN");
}

char *gli_text_print(gli_text_fn print, void *of, size_t *bytes) {
  FILE *to = text_file();
  char *text = NULL;
  if (to == NULL) return NULL;
  bool printed = print(to, of) && fflush(to) == 0 && !ferror(to);
  long end = printed ? ftell(to) : -1;
  if (end >= 0) text = malloc((size_t)end + 1);
  rewind(to);
  if (text != NULL && fread(text, 1, (size_t)end, to) != (size_t)end) {
    free(text);
    text = NULL;
  }
  (void)fclose(to);
  if (text != NULL) text[end] = '\0';
  *bytes = end >= 0 ? (size_t)end : 0;
  return text;
}
