"""Conversion of plain Python values for the C interface. A value that cannot be converted raises
TypeError with the argument, the value, and the expected type."""

from __future__ import annotations

import math
import operator
from typing import Any, Iterable

from ._binding import ffi, lib

_NEVER = (1 << 63) - 1


def shown(value: Any) -> str:
    """Returns a value and its type, for a message."""
    return f"{value!r:.60} ({type(value).__name__})"


def wrong(name: str, value: Any, expected: str) -> TypeError:
    return TypeError(f"{name} is {shown(value)}; expected {expected}")


def nanoseconds(seconds: Any, name: str = "timeout") -> int:
    """Returns a timeout as the C interface takes it: None is the default, infinity and negative
    numbers are no limit, and 0 does not wait."""
    if seconds is None:
        return int(lib.GLOO_TIMEOUT_DEFAULT)
    try:
        unknown = math.isnan(seconds)
    except (TypeError, OverflowError):
        raise wrong(name, seconds, "seconds as a number, None for the default, or math.inf for no "
                                   "limit (of a timedelta: total_seconds())") from None
    if unknown:
        raise ValueError(f"{name} is not a number (NaN); expected seconds")
    if seconds < 0 or seconds * 1e9 >= _NEVER:
        return int(lib.GLOO_TIMEOUT_NONE)
    return max(int(seconds * 1e9), int(lib.GLOO_TIMEOUT_NOW))


def integer(name: str, value: Any, least: int = -(1 << 31), most: int = (1 << 31) - 1) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        raise wrong(name, value, "a whole number") from None
    if not least <= number <= most:
        raise ValueError(f"{name} is {number}; expected a whole number from {least} to {most}")
    return number


def integers(name: str, values: Iterable[Any], expected: str) -> list[int]:
    try:
        if isinstance(values, (str, bytes)):
            raise TypeError
        return [operator.index(value) for value in values]
    except TypeError:
        raise wrong(name, values, expected) from None


def encoded(name: str, value: Any) -> bytes:
    if not isinstance(value, str):
        raise wrong(name, value, "a str")
    return value.encode()


def string(name: str, value: Any) -> Any:
    """Returns a C string, which the caller must keep as long as it is used."""
    return ffi.new("char[]", encoded(name, value))


def buffer(name: str, value: Any) -> Any:
    """Returns the bytes of a value."""
    try:
        return ffi.from_buffer(value)
    except TypeError:
        raise wrong(name, value, "bytes, or an object with a buffer of bytes (of text: "
                                 "text.encode())") from None


def an(name: str, value: Any, kind: Any, expected: str) -> None:
    if not isinstance(value, kind):
        raise wrong(name, value, expected)
