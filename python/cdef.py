"""Generates the C source of gloo_c._gloo_c from the public headers, so that no declaration is
written twice.

usage: cdef.py INCLUDE_FOLDER OUTPUT DEPFILE C_COMPILER...

The compiler's preprocessor reads gloo_c.h with empty stand-ins for the system headers; the result
is C that cffi parses. Included are macros that are integers, and the initialisers of option
structs, as functions."""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

import cffi

# Functions that Python provides to the library. Their bodies are in gloo_c/_stores.py and
# _requests.py.
CALLBACKS = """
extern "Python" {
  void py_request_done(void *, gloo_request *, gloo_status);
  void py_log(gloo_log_level, const char *, void *);
  void py_custom(const gloo_custom_args *);
  void py_custom_release(void *);
  gloo_status py_store_set(void *, const char *, const void *, size_t);
  gloo_status py_store_get(void *, const char *, int64_t, gloo_value *);
  gloo_status py_store_wait(void *, const char *const *, size_t, int64_t);
  gloo_status py_store_add(void *, const char *, int64_t, int64_t *);
  gloo_status py_store_compare_and_set(void *, const char *, const void *, size_t, const void *,
                                       size_t, gloo_value *);
  gloo_status py_store_append(void *, const char *, const void *, size_t);
  gloo_status py_store_remove(void *, const char *);
  void py_store_destroy(void *);
  gloo_status py_store_multi_get(void *, const char *const *, size_t, int64_t, gloo_value *);
  gloo_status py_store_multi_set(void *, const char *const *, const gloo_value *, size_t);
}
void *malloc(size_t);
void free(void *);
"""
# Functions of native/, xla/ and torch/, which the extension module contains for gloo_c.jax and
# gloo_c.torch.
NATIVE = """
int64_t native_context_add(gloo_context *, const char *);
void native_context_remove(int64_t, int64_t);
void *xla_handler_address(void);
const char *torch_operators_register(const char *);
typedef enum torch_operator {
  TORCH_ALL_REDUCE_IN_PLACE, TORCH_ALL_REDUCE, TORCH_ALL_GATHER, TORCH_REDUCE_SCATTER, TORCH_BROADCAST,
  TORCH_ALL_TO_ALL } torch_operator;
int torch_group_call(gloo_context *, torch_operator, uintptr_t, uintptr_t, size_t, int, int, int64_t,
                     gloo_request **);
int torch_request_ends(gloo_request *, int64_t);
gloo_status torch_operators_failure(gloo_error *, int *);
"""
# Macros that are not integers, or not for programs.
NOT_NUMBERS = re.compile(r"_(?:H|LIST|INIT|ENUM|API)$|^GLOO_(?:DEPRECATED|IN_PLACE|VERSION_OF)$")


def preprocess(compiler, include, *options):
    """Returns gloo_c.h as preprocessed, without declarations from other headers."""
    with tempfile.TemporaryDirectory() as folder:
        for name in ("stddef.h", "stdint.h"):
            (Path(folder) / name).touch()
        # __GNUC__ would bring attributes, which cffi does not parse.
        command = [*compiler, "-E", "-P", "-nostdinc", "-U__GNUC__", f"-I{folder}",
                   f"-I{include}", *options, str(include / "gloo_c/gloo_c.h")]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def macros(compiler, include):
    """Returns the macros that the library's headers define: name and arguments, in order."""
    text = preprocess(compiler, include, "-dM")
    return sorted(set(re.findall(r"^#define (GLOO_\w+)(?= )", text, re.M)))


def source(names):
    """Returns the C code that is compiled after the headers, and the declarations for cffi."""
    told, code = [], ["#include <gloo_c/gloo_c.h>", "#include <stdlib.h>"]
    for name in names:
        if name.endswith("_OPTIONS_INIT") or name == "GLOO_OPTIONS_INIT":
            kind = name.removesuffix("_INIT").lower()
            code.append(f"static void py_{kind}_init({kind} *options) "
                        f"{{ *options = ({kind}){name}; }}")
            told.append(f"void py_{kind}_init({kind} *options);")
        elif not NOT_NUMBERS.search(name):
            told.append(f"#define {name} ...")
    told.append("static const void *const GLOO_IN_PLACE;")
    return "\n".join(told), "\n".join(code)


def main(include, output, depfile, *compiler):
    include = Path(include)
    told, code = source(macros(compiler, include))
    ffi = cffi.FFI()
    ffi.cdef(preprocess(compiler, include))
    ffi.cdef(told + CALLBACKS + NATIVE)
    ffi.set_source("gloo_c._gloo_c", code + NATIVE)
    ffi.emit_c_code(output)
    read = [Path(__file__), *sorted((include / "gloo_c").glob("*.h"))]
    Path(depfile).write_text(f"{output}: " + " ".join(str(p).replace(" ", "\\ ") for p in read)
                             + "\n", encoding="utf-8")


main(*sys.argv[1:])
