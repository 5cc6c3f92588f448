"""The C interface through cffi: `lib.gloo_allreduce` and all other functions, `ffi` for memory.

For packages built on this one; programs use the names in `gloo_c`. Calls release the interpreter
lock. `lib` has the whole library under its C names: functions, structs, enumerators and constants,
as in the headers."""

from ._gloo_c import ffi, lib

__all__ = ["ffi", "lib"]
