"""Stores, through which ranks find each other before they are connected."""

from __future__ import annotations

import os
from typing import Any, Protocol, Sequence

from . import _errors
from ._binding import ffi, lib
from ._convert import an, buffer, encoded, integer, nanoseconds, string
from ._errors import GlooError, checked, text
from ._handles import called_back, catch_up

Bytes = Any  # bytes, or an object with a buffer of bytes


class Store:
    """A map of keys (text) to values (bytes) that all ranks can access: see MemoryStore, FileStore,
    TcpStore, PrefixStore and CallbackStore.

    A store serves only one context; give each a separate PrefixStore. Any thread may use it.
    Timeouts are in seconds; None is 30."""

    def __init__(self, pointer: Any, keep: Any = None) -> None:
        self._keep = keep  # set before the destructor of the pointer, which may need it
        self._pointer = ffi.gc(pointer, _Destroyer(keep))

    def set(self, key: str, value: Bytes) -> None:
        """Sets the value of a key."""
        data = buffer("value", value)
        self._checked(lib.gloo_store_set, self._pointer, encoded("key", key), data, len(data))

    def get(self, key: str, timeout: float | None = None) -> bytes:
        """Waits until a key exists, and returns its value."""
        value = ffi.new("gloo_value *")
        self._checked(lib.gloo_store_get, self._pointer, encoded("key", key), nanoseconds(timeout), value)
        return _taken(value)

    def wait(self, keys: Sequence[str], timeout: float | None = None) -> None:
        """Waits until all of these keys exist."""
        names, _kept = _keys(keys)
        self._checked(lib.gloo_store_wait, self._pointer, names, len(keys), nanoseconds(timeout))

    def add(self, key: str, amount: int) -> int:
        """Adds to the number that a key holds (0 if it is absent), and returns the sum."""
        result = ffi.new("int64_t *")
        self._checked(lib.gloo_store_add, self._pointer, encoded("key", key),
                      integer("amount", amount, -(1 << 63), (1 << 63) - 1), result)
        return int(result[0])

    def compare_and_set(self, key: str, expected: Bytes, desired: Bytes) -> bytes:
        """Sets a key to `desired` if it holds `expected` (empty: if it is absent). Returns the new
        value. Raises CompareError if it holds a different value."""
        old, new = buffer("expected", expected), buffer("desired", desired)
        value = ffi.new("gloo_value *")
        self._checked(lib.gloo_store_compare_and_set, self._pointer, encoded("key", key), old, len(old),
                      new, len(new), value)
        return _taken(value)

    def append(self, key: str, value: Bytes) -> None:
        """Appends to the value of a key."""
        data = buffer("value", value)
        self._checked(lib.gloo_store_append, self._pointer, encoded("key", key), data, len(data))

    def delete(self, key: str) -> None:
        """Deletes a key. Raises NotFoundError if it does not exist."""
        self._checked(lib.gloo_store_delete, self._pointer, encoded("key", key))

    def multi_get(self, keys: Sequence[str], timeout: float | None = None) -> list[bytes]:
        """Waits for several keys, and returns their values."""
        names, _kept = _keys(keys)
        values = ffi.new("gloo_value[]", max(len(keys), 1))
        self._checked(lib.gloo_store_multi_get, self._pointer, names, len(keys),
                      nanoseconds(timeout), values)
        return [_taken(ffi.addressof(values, index)) for index in range(len(keys))]

    def multi_set(self, items: dict[str, Bytes]) -> None:
        """Sets several keys."""
        names, _kept = _keys(list(items))
        values, held = ffi.new("gloo_value[]", max(len(items), 1)), []
        for value, data in zip(values, items.values()):
            held.append(buffer("a value of items", data))
            value.data, value.bytes = held[-1], len(held[-1])
        self._checked(lib.gloo_store_multi_set, self._pointer, names, values, len(items))

    def _checked(self, function: Any, *arguments: Any) -> None:
        try:
            checked(function, *arguments)
        except GlooError as error:
            raise error from self._raised()

    def _raised(self) -> BaseException | None:
        """Returns the exception that the program's function raised in the failed call, if any."""
        return None


class _Destroyer:
    """Destroys a store while its parts still exist."""

    def __init__(self, keep: Any) -> None:
        self.keep = keep

    def __call__(self, pointer: Any) -> None:
        lib.gloo_store_destroy(pointer)


def _keys(keys: Sequence[str]) -> tuple[Any, list[Any]]:
    an("keys", keys, (list, tuple), "a list of keys")
    kept = [string("a key", key) for key in keys]
    return ffi.new("char *[]", kept or [ffi.NULL]), kept


def _taken(value: Any) -> bytes:
    try:
        return bytes(ffi.buffer(value.data, value.bytes)) if value.bytes else b""
    finally:
        lib.free(value.data)


class MemoryStore(Store):
    """A store in this process, for ranks that are threads of it."""

    def __init__(self) -> None:
        place = ffi.new("gloo_store **")
        checked(lib.gloo_store_memory_create, place)
        super().__init__(place[0])


class FileStore(Store):
    """A store in a directory that all ranks can access; it is created if absent. A directory of
    another job or epoch (attempt) is refused."""

    def __init__(self, directory: str | os.PathLike[str], job: str = "", epoch: int = 0) -> None:
        options = ffi.new("gloo_store_file_options *")
        lib.py_gloo_store_file_options_init(options)
        an("directory", directory, (str, bytes, os.PathLike), "a path")
        where, name = ffi.new("char[]", os.fsencode(directory)), string("job", job)
        options.directory, options.job, options.epoch = where, name, integer("epoch", epoch)
        place = ffi.new("gloo_store **")
        checked(lib.gloo_store_file_create, options, place)
        super().__init__(place[0])


class TcpStore(Store):
    """A store that one process serves (`serve`), and all others access over TCP. The server binds
    only `host`; with `port` 0 it uses a free port, see the attribute `port`."""

    def __init__(self, host: str, port: int = 0, *, serve: bool = False, job: str = "",
                 epoch: int = 0, timeout: float | None = None) -> None:
        options = ffi.new("gloo_store_tcp_options *")
        lib.py_gloo_store_tcp_options_init(options)
        where, name = string("host", host), string("job", job)
        options.host, options.port = where, integer("port", port, 0, 65535)
        options.serve, options.job, options.epoch = bool(serve), name, integer("epoch", epoch)
        options.timeout_ns = nanoseconds(timeout)
        place = ffi.new("gloo_store **")
        checked(lib.gloo_store_tcp_create, options, place)
        super().__init__(place[0])

    @property
    def port(self) -> int:
        return int(lib.gloo_store_tcp_port(self._pointer))


class UrlStore(Store):
    """A store by its URL: file:///folder, tcp://host:port (a TcpStore that serves, or `gloo
    store`), c10d://host:port/prefix (a TCPStore of PyTorch),
    redis://user:password@host:port/prefix, or env: for the store of the launcher."""

    def __init__(self, url: str, timeout: float | None = None) -> None:
        place = ffi.new("gloo_store **")
        checked(lib.gloo_store_open, encoded("url", url), nanoseconds(timeout), place)
        super().__init__(place[0])


class PrefixStore(Store):
    """A view of another store in which every key starts with a prefix."""

    def __init__(self, base: Store, prefix: str) -> None:
        place = ffi.new("gloo_store **")
        an("base", base, Store, "a store of gloo_c")
        checked(lib.gloo_store_prefix_create, base._pointer, encoded("prefix", prefix), place)
        self._base = base
        super().__init__(place[0], base._pointer)

    def _raised(self) -> BaseException | None:
        return self._base._raised()


# ---- stores of the program ---------------------------------------------------------------------

class StoreFunctions(Protocol):
    """The interface that a CallbackStore requires. Timeouts are in seconds, None for no limit;
    raise TimeoutError when one has passed. Optional functions: add(key, amount) -> int, append(key,
    value), delete(key), compare_and_set(key, expected, desired) -> (bool, bytes), which returns
    whether it set the key and the current value, and for several keys at once multi_get(keys,
    timeout) -> list[bytes] and multi_set(keys, values). Any thread may call them."""

    def set(self, key: str, value: bytes) -> None: ...

    def get(self, key: str, timeout: float | None) -> bytes: ...

    def wait(self, keys: list[str], timeout: float | None) -> None: ...


# The status for each kind of exception; for others, GLOO_ERR_IO.
_STATUSES: list[tuple[type[BaseException], int]] = [
    (TimeoutError, lib.GLOO_ERR_TIMEOUT),
    (KeyError, lib.GLOO_ERR_NOT_FOUND),
    (NotImplementedError, lib.GLOO_ERR_UNSUPPORTED),
    (MemoryError, lib.GLOO_ERR_NO_MEMORY),
    (ConnectionError, lib.GLOO_ERR_PEER),
    (ValueError, lib.GLOO_ERR_INVALID),
    (TypeError, lib.GLOO_ERR_INVALID),
]


class _Called:
    """The program's object, as the library calls it."""

    def __init__(self, functions: StoreFunctions) -> None:
        self.functions = functions
        self.raised: BaseException | None = None

    def failed(self, raised: BaseException) -> int:
        self.raised = raised
        if isinstance(raised, GlooError) and raised.status < 0:
            return raised.status
        for kind, status in _STATUSES:
            if isinstance(raised, kind):
                return status
        return int(lib.GLOO_ERR_IO)


def _handed(value: Any, data: Bytes) -> None:
    """Copies bytes to memory that the library frees."""
    held = ffi.from_buffer(data)
    if len(held):
        memory = lib.malloc(len(held))
        if memory == ffi.NULL:
            raise MemoryError
        ffi.memmove(memory, held, len(held))
        value.data, value.bytes = memory, len(held)
    else:
        value.data, value.bytes = ffi.NULL, 0


def _bytes(data: Any, length: int) -> bytes:
    return bytes(ffi.buffer(data, length)) if length else b""


def _seconds(timeout_ns: int) -> float | None:
    if timeout_ns < 0:
        return None
    return 0.0 if timeout_ns == lib.GLOO_TIMEOUT_NOW else timeout_ns / 1e9


def _callback(body: Any) -> Any:
    """Makes one of the functions that the library calls."""

    def called(user: Any, *arguments: Any) -> int:
        store = ffi.from_handle(user)
        with called_back():
            try:
                body(store.functions, *arguments)
            except BaseException as raised:
                return int(store.failed(raised))
        return int(lib.GLOO_OK)

    return ffi.def_extern(name=f"py_store_{body.__name__.lstrip('_')}",
                          error=lib.GLOO_ERR_INTERNAL)(called)


@_callback
def _set(functions: Any, key: Any, data: Any, length: int) -> None:
    functions.set(text(key), _bytes(data, length))


@_callback
def _get(functions: Any, key: Any, timeout_ns: int, value: Any) -> None:
    _handed(value, functions.get(text(key), _seconds(timeout_ns)))


@_callback
def _wait(functions: Any, keys: Any, n: int, timeout_ns: int) -> None:
    functions.wait([text(keys[index]) for index in range(n)], _seconds(timeout_ns))


@_callback
def _add(functions: Any, key: Any, amount: int, result: Any) -> None:
    result[0] = functions.add(text(key), amount)


@_callback
def _compare_and_set(functions: Any, key: Any, expected: Any, expected_bytes: int, desired: Any,
                     desired_bytes: int, current: Any) -> None:
    done, holds = functions.compare_and_set(text(key), _bytes(expected, expected_bytes),
                                            _bytes(desired, desired_bytes))
    if current != ffi.NULL:
        _handed(current, holds)
    if not done:
        raise _errors.CompareError("it has another value", lib.GLOO_ERR_COMPARE)


@_callback
def _append(functions: Any, key: Any, data: Any, length: int) -> None:
    functions.append(text(key), _bytes(data, length))


@_callback
def _remove(functions: Any, key: Any) -> None:
    functions.delete(text(key))


@_callback
def _multi_get(functions: Any, keys: Any, n: int, timeout_ns: int, values: Any) -> None:
    found = functions.multi_get([text(keys[index]) for index in range(n)], _seconds(timeout_ns))
    if len(found) != n:
        raise ValueError(f"multi_get returned {len(found)} values for {n} keys")
    for index in range(n):
        _handed(values[index], found[index])


@_callback
def _multi_set(functions: Any, keys: Any, values: Any, n: int) -> None:
    functions.multi_set([text(keys[index]) for index in range(n)],
                        [_bytes(values[index].data, values[index].bytes) for index in range(n)])


@ffi.def_extern()  # type: ignore[untyped-decorator]
def py_store_destroy(_user: Any) -> None:
    """Does nothing: the object is freed with the CallbackStore."""


class CallbackStore(Store):
    """A store of the program: an object with set, get and wait, and optionally other functions of
    StoreFunctions. If one raises, the call of the library fails, and its error has that exception
    as `__cause__`."""

    def __init__(self, functions: StoreFunctions) -> None:
        self._called = _Called(functions)
        callbacks = ffi.new("gloo_store_callbacks *")
        callbacks.struct_size = ffi.sizeof("gloo_store_callbacks")
        handle = ffi.new_handle(self._called)
        callbacks.user = handle
        for name, theirs in (("set", "set"), ("get", "get"), ("wait", "wait"), ("add", "add"),
                             ("compare_and_set", "compare_and_set"), ("append", "append"),
                             ("remove", "delete"), ("multi_get", "multi_get"),
                             ("multi_set", "multi_set")):
            if callable(getattr(functions, theirs, None)):
                setattr(callbacks, name, getattr(lib, f"py_store_{name}"))
        callbacks.destroy = lib.py_store_destroy
        place = ffi.new("gloo_store **")
        catch_up()
        checked(lib.gloo_store_callbacks_create, callbacks, place)
        super().__init__(place[0], (handle, self._called))

    def _raised(self) -> BaseException | None:
        raised, self._called.raised = self._called.raised, None
        return raised
