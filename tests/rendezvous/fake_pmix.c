/* A PMIx library with one job of FAKE_SIZE ranks. FAKE_TRICK names a deviation
 * from correct behaviour. Rank 1 gets FAKE_TEXT. Each call writes one letter to
 * the descriptor FAKE_LOG. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rendezvous/launch/pmix_library.h"

int PMIx_Init(gli_pmix_proc *self, gli_pmix_info *info, size_t n);
int PMIx_Finalize(const gli_pmix_info *info, size_t n);
int PMIx_Put(uint8_t scope, const char *key, gli_pmix_value *value);
int PMIx_Commit(void);
int PMIx_Fence(const gli_pmix_proc *procs, size_t n_procs,
               const gli_pmix_info *info, size_t n);
int PMIx_Get(const gli_pmix_proc *proc, const char *key,
             const gli_pmix_info *info, size_t n, gli_pmix_value **value);
const char *PMIx_Error_string(int status);

static char kept_key[GLI_PMIX_KEY_BYTES], kept[GLI_PMIX_KEY_BYTES];

static const char *variable(const char *name, const char *otherwise) {
  const char *text = getenv(name);
  return text != NULL ? text : otherwise;
}

/* Returns true if FAKE_TRICK is `name`. */
static bool trick(const char *name) {
  return name[0] != '\0' && strcmp(variable("FAKE_TRICK", ""), name) == 0;
}

static int called(char letter, const char *fails, const char *hangs) {
  if (write(atoi(variable("FAKE_LOG", "-1")), &letter, 1) < 0) return -1;
  while (trick(hangs)) sleep(1);
  return trick(fails) ? -25 : 0;
}

int PMIx_Init(gli_pmix_proc *self, gli_pmix_info *info, size_t n) {
  int code = called('i', "init fails", "init hangs");
  if (info != NULL || n != 0) return -1;
  snprintf(self->name, sizeof self->name, "%s",
           trick("alone") ? "singleton" : variable("PMIX_NAMESPACE", ""));
  if (trick("no end")) memset(self->name, 'x', sizeof self->name);
  self->rank = (uint32_t)atoi(variable("PMIX_RANK", "0"));
  return code;
}

int PMIx_Finalize(const gli_pmix_info *info, size_t n) {
  if (info != NULL || n != 0) return -1;
  return called('e', "finalize fails", "finalize hangs");
}

int PMIx_Put(uint8_t scope, const char *key, gli_pmix_value *value) {
  if (scope != 3 || value->type != 3) return -1;
  snprintf(kept_key, sizeof kept_key, "%s", key);
  snprintf(kept, sizeof kept, "%s", value->data.string);
  return called('p', "put fails", "put hangs");
}

int PMIx_Commit(void) {
  return called('c', "commit fails", "");
}

int PMIx_Fence(const gli_pmix_proc *procs, size_t n_procs,
               const gli_pmix_info *info, size_t n) {
  if (n_procs != 1 || procs->rank != UINT32_MAX - 1 || n != 1 ||
      strcmp(info->key, "pmix.collect") != 0 || info->value.type != 1 ||
      !info->value.data.flag)
    return -1;
  return called('f', "fence fails", "fence hangs");
}

int PMIx_Get(const gli_pmix_proc *proc, const char *key,
             const gli_pmix_info *info, size_t n, gli_pmix_value **value) {
  bool size = strcmp(key, "pmix.job.size") == 0;
  if (info != NULL || n != 0) return -1;
  if (size != (proc->rank == UINT32_MAX - 1)) return -1;
  int code = called(size ? 's' : 'g', size ? "size fails" : "get fails", "");
  if (code != 0) return code;
  *value = NULL;
  if (trick(size ? "no size" : "nothing")) return 0;
  *value = calloc(1, sizeof **value);
  if (size) {
    (*value)->type = trick("size is text") ? 3 : 14;
    (*value)->data.uint32 = (uint32_t)atol(variable("FAKE_SIZE", "2"));
    return 0;
  }
  (*value)->type = trick("number") ? 14 : 3;
  if (trick("number") || trick("no text")) return 0;
  size_t bytes = trick("long") ? 100000 : 100;
  char *text = calloc(1, bytes);
  if (text == NULL) return -1;
  memset(text, 'x', trick("long") ? bytes - 1 : 0);
  if (!trick("long"))
    snprintf(text, bytes, "%s", variable("FAKE_TEXT", "told"));
  (*value)->data.string = text;
  return 0;
}

const char *PMIx_Error_string(int status) {
  return status == -25 ? "OUT OF ORDER" : "PROGRAMMED WRONGLY";
}
