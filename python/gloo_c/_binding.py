"""The C interface, as cffi sees it: `lib.gloo_allreduce` and all others, `ffi` for memory.

For packages that are built on this one; programs use what `gloo_c` itself has. Calls let other
threads of Python run. All of the library is here under its own names: functions, structs,
enumerators and numbers, as the headers have them."""

from ._gloo_c import ffi, lib

__all__ = ["ffi", "lib"]
