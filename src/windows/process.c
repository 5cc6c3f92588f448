/* This process, its environment and its host. */
#include "windows/posix.h"

#include "core/aligned.h"

#undef environ
#undef BOOL

long sysconf(int name) {
  SYSTEM_INFO info;
  GetSystemInfo(&info);
  return (long)(name == _SC_PAGESIZE ? info.dwPageSize
                                     : info.dwNumberOfProcessors);
}

int getrlimit(int resource, struct rlimit *limit) {
  (void)resource;
  *limit = (struct rlimit){RLIM_INFINITY, RLIM_INFINITY};
  return 0;
}

/* ---- environment --------------------------------------------------------- */

/* Variables that callers have read, in UTF-8. Callers keep the pointers, so no
 * value is freed: a changed variable gets a new value. */
typedef struct variable {
  struct variable *next;
  char *value;
  char name[];
} variable;

static SRWLOCK lock = SRWLOCK_INIT;
static variable *variables;

static char *environment_read(const char *name) {
  wchar_t *wide = gli_windows_wide(name);
  DWORD n = wide != NULL ? GetEnvironmentVariableW(wide, NULL, 0) : 0;
  wchar_t *value = n > 0 ? calloc(n, sizeof *value) : NULL;
  DWORD got = value != NULL ? GetEnvironmentVariableW(wide, value, n) : 0;
  char *text = value != NULL && got < n ? gli_windows_narrow(value) : NULL;
  free(value);
  free(wide);
  return text;
}

static char *environment_keep(const char *name, char *value) {
  for (variable *v = variables; v != NULL; v = v->next)
    if (strcmp(v->name, name) == 0 && strcmp(v->value, value) == 0) {
      free(value);
      return v->value;
    }
  variable *made = malloc(sizeof *made + strlen(name) + 1);
  if (made == NULL) {
    free(value);
    return NULL;
  }
  memcpy(made->name, name, strlen(name) + 1);
  made->value = value;
  made->next = variables;
  variables = made;
  return value;
}

char *gli_windows_getenv(const char *name) {
  char *value = environment_read(name);
  if (value == NULL) return NULL;
  AcquireSRWLockExclusive(&lock);
  value = environment_keep(name, value);
  ReleaseSRWLockExclusive(&lock);
  return value;
}

static int environment_set(const char *name, const char *value) {
  wchar_t *wide = gli_windows_wide(name);
  wchar_t *text = value != NULL ? gli_windows_wide(value) : NULL;
  bool made = wide != NULL && (text != NULL || value == NULL);
  bool set = made && SetEnvironmentVariableW(wide, text);
  if (made && !set) (void)gli_windows_fail();
  free(wide);
  free(text);
  return set ? 0 : -1;
}

int setenv(const char *name, const char *value, int overwrite) {
  if (!overwrite && gli_windows_getenv(name) != NULL) return 0;
  return environment_set(name, value);
}

/* The removal of a variable that does not exist is no error. */
int unsetenv(const char *name) {
  (void)environment_set(name, NULL);
  return 0;
}

char **gli_windows_environment;

/* Makes one list, which stays. */
__attribute__((constructor)) static void environment_list(void) {
  wchar_t *all = GetEnvironmentStringsW();
  size_t n = 0, kept = 0;
  for (const wchar_t *at = all; at != NULL && *at != 0; at += wcslen(at) + 1)
    n++;
  char **texts = calloc(n + 1, sizeof *texts);
  for (const wchar_t *at = all; texts != NULL && at != NULL && *at != 0;
       at += wcslen(at) + 1)
    if ((texts[kept] = gli_windows_narrow(at)) != NULL) kept++;
  if (all != NULL) FreeEnvironmentStringsW(all);
  gli_windows_environment = texts;
}

/* ---- memory -------------------------------------------------------------- */

void *gli_aligned_alloc(size_t alignment, size_t bytes) {
  return _aligned_malloc(bytes, alignment);
}

void gli_aligned_free(void *memory) {
  _aligned_free(memory);
}
