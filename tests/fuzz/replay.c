/* Runs a target on files, in place of libFuzzer: replay FILE|FOLDER... Each
 * file is a case. A fault that the target finds ends the process. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "fuzz.h"

enum { FILE_MAX = 1 << 20, PATH_BYTES = 1024 };

static int cases;

static void replay_file(const char *path, const char *name) {
  uint8_t *room = malloc(FILE_MAX), *data;
  FILE *file = fopen(path, "rb");
  fuzz_check(room != NULL && file != NULL, path);
  size_t bytes = fread(room, 1, FILE_MAX, file);
  fuzz_check(ferror(file) == 0, path);
  fclose(file);
  data = malloc(bytes > 0 ? bytes : 1); /* so that reads beyond its end are
                                           detected */
  fuzz_check(data != NULL, path);
  memcpy(data, room, bytes);
  free(room);
  printf("# %s\n", path);
  fflush(stdout);
  (void)LLVMFuzzerTestOneInput(data, bytes);
  free(data);
  printf("ok %d - %s\n", ++cases, name);
}

static void replay_folder(const char *path) {
  struct dirent **list;
  char file[PATH_BYTES];
  int n = scandir(path, &list, NULL, alphasort);
  fuzz_check(n >= 0, path);
  for (int i = 0; i < n; i++) {
    if (list[i]->d_name[0] != '.') {
      snprintf(file, sizeof file, "%s/%s", path, list[i]->d_name);
      replay_file(file, list[i]->d_name);
    }
    free(list[i]);
  }
  free(list);
}

int main(int argc, char **argv) {
  (void)LLVMFuzzerInitialize(&argc, &argv);
  (void)LLVMFuzzerTestOneInput((const uint8_t *)"", 0);
  printf("ok %d - nothing\n", ++cases);
  for (int i = 1; i < argc; i++) {
    struct stat info;
    fuzz_check(stat(argv[i], &info) == 0, argv[i]);
    if (S_ISDIR(info.st_mode))
      replay_folder(argv[i]);
    else
      replay_file(argv[i], argv[i]);
  }
  printf("1..%d\n", cases);
  return 0;
}
