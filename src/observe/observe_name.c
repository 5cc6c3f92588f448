#include "observe/observe_name.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/run_directory.h"

bool gli_observe_name_print(const char *directory, const gli_observe_name *name,
                            char path[GLI_OBSERVE_PATH_BYTES]) {
  int n = snprintf(path, GLI_OBSERVE_PATH_BYTES,
                   "%s/job-%012" PRIx64 "-rank%" PRId64 "-pid%" PRId64 ".sock",
                   directory, name->job, name->rank, name->process);
  return n > 0 && n < GLI_OBSERVE_PATH_BYTES;
}

bool gli_observe_name_parse(const char *file, gli_observe_name *name) {
  int used = 0;
  if (sscanf(file, "job-%12" SCNx64 "-rank%9" SCNd64 "-pid%18" SCNd64 ".sock%n",
             &name->job, &name->rank, &name->process, &used) != 3)
    return false;
  return used > 0 && file[used] == '\0' && name->rank >= 0 && name->process > 0;
}

bool gli_observe_directory(int n, bool create,
                           char directory[GLI_OBSERVE_PATH_BYTES]) {
  /* HOME is left out: hosts may share it, and a socket of another host would
   * look like one of an ended process. */
  static const gli_run_directory order[GLI_OBSERVE_DIRECTORIES] = {
      GLI_RUN_DIRECTORY_XDG, GLI_RUN_DIRECTORY_USER, GLI_RUN_DIRECTORY_TMP};
  errno = ENOENT;
  if (!gli_run_directory_path(order[n], directory, GLI_OBSERVE_PATH_BYTES))
    return false;
  if (!gli_run_directory_stays(directory)) return false;
  if (create && !gli_run_directory_make(order[n], directory)) return false;
  errno = EPERM;
  return gli_run_directory_is_private(directory);
}
