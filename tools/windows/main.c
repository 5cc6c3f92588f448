/* The beginning of the command on Windows: arguments in UTF-8, and output
 * without carriage returns, because `gloo run` passes on bytes. */
#include <fcntl.h>
#include <io.h>
#include <stdio.h>
#include <stdlib.h>
#include <wchar.h>

#include "windows/posix.h"

int main(int argc, char **argv);
int wmain(int argc, wchar_t **wide);

/* The C library expands no wildcards: they may be arguments of a program. */
int _dowildcard = 0;

int wmain(int argc, wchar_t **wide) {
  char **argv = calloc((size_t)argc + 1, sizeof *argv);
  for (int i = 0; i < argc && argv != NULL; i++) {
    argv[i] = gli_windows_narrow(wide[i]);
    if (argv[i] != NULL) continue;
    (void)fprintf(stderr, "gloo: argument %d: %s\n", i, strerror(errno));
    return 2;
  }
  if (argv == NULL) {
    (void)fprintf(stderr, "gloo: out of memory\n");
    return 1;
  }
  for (int fd = 0; fd < 3; fd++) (void)_setmode(fd, _O_BINARY);
  return main(argc, argv);
}
