#include "shim.h"

#include <dlfcn.h>
#include <gloo_c/gloo_c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

torch_shim torch;

static struct torch_dtype {
  int32_t number; /* of PyTorch */
  int dtype;
} torch_dtypes[] = {
#define TORCH_DTYPE(name, number) {0, number},
    TORCH_DTYPES(TORCH_DTYPE)
#undef TORCH_DTYPE
};
enum { TORCH_DTYPE_COUNT = sizeof torch_dtypes / sizeof *torch_dtypes };
static const char *const torch_dtype_functions[TORCH_DTYPE_COUNT] = {
#define TORCH_DTYPE(name, number) "aoti_torch_dtype_" #name,
    TORCH_DTYPES(TORCH_DTYPE)
#undef TORCH_DTYPE
};

/* Functions that a C++ compiler calls for `throw std::runtime_error(message)`.
 * The names are those of the Itanium C++ ABI, which gcc and clang have. They are
 * taken from the C++ library that PyTorch has loaded. */
typedef struct torch_exceptions {
  void *(*allocate)(size_t);
  void (*construct)(void *exception, const char *message);
  void (*destroy)(void *exception);
  void (*raise)(void *exception, void *type, void (*destroy)(void *));
  void *type;
} torch_exceptions;
static torch_exceptions torch_exception;
/* The object has a pointer to its class and one to its message. */
enum { TORCH_EXCEPTION_BYTES = 4 * sizeof(void *) };

static const char *const torch_exception_names[] = {
    "__cxa_allocate_exception", "_ZNSt13runtime_errorC1EPKc",
    "_ZNSt13runtime_errorD1Ev", "__cxa_throw", "_ZTISt13runtime_error"};

/* Copies the address of each function in `names` to `places`, one pointer after
 * the other. Returns the first missing name, or NULL. */
static const char *torch_shim_find(void *module, const char *const *names,
                                   size_t count, void *places) {
  for (size_t i = 0; i < count; i++) {
    void *found = dlsym(module, names[i]);
    if (found == NULL) return names[i];
    memcpy((char *)places + i * sizeof found, &found, sizeof found);
  }
  return NULL;
}

static const char *torch_shim_find_all(void *module) {
  static const char *const names[] = {
#define TORCH_NAME(result, name, arguments) #name,
      TORCH_SHIM(TORCH_NAME)
#undef TORCH_NAME
  };
  _Static_assert(sizeof torch == sizeof names, "a pointer for each name");
  _Static_assert(sizeof torch_exception == sizeof torch_exception_names,
                 "a pointer for each name");
  const char *missing =
      torch_shim_find(module, names, sizeof names / sizeof *names, &torch);
  if (missing == NULL) {
    missing = torch_shim_find(
        module, torch_exception_names,
        sizeof torch_exception_names / sizeof *torch_exception_names,
        &torch_exception);
  }
  for (size_t i = 0; missing == NULL && i < TORCH_DTYPE_COUNT; i++) {
    int32_t (*number)(void);
    missing = torch_shim_find(module, &torch_dtype_functions[i], 1, &number);
    if (missing == NULL) torch_dtypes[i].number = number();
  }
  return missing;
}

const char *torch_shim_load(const char *path) {
  static char reason[256];
  /* The handle stays: the operators use the functions until the process ends.
   */
  void *module = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
  if (module == NULL) {
    snprintf(reason, sizeof reason, "%s cannot be opened", path);
    return reason;
  }
  const char *missing = torch_shim_find_all(module);
  if (missing == NULL) return NULL;
  snprintf(reason, sizeof reason, "it has no function %s", missing);
  return reason;
}

int torch_dtype_of(int32_t dtype) {
  for (size_t i = 0; i < TORCH_DTYPE_COUNT; i++) {
    if (torch_dtypes[i].number == dtype) return torch_dtypes[i].dtype;
  }
  return -1;
}

_Noreturn void torch_throw(const char *message) {
  void *exception = torch_exception.allocate(TORCH_EXCEPTION_BYTES);
  torch_exception.construct(exception, message);
  torch_exception.raise(exception, torch_exception.type,
                        torch_exception.destroy);
  abort(); /* not reached */
}
