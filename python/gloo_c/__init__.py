"""Collectives for CPUs."""

from ._binding import ffi, lib

__version__ = ffi.string(lib.gloo_version()).decode()
