"""The forms of PyTorch's process group methods.

Each operation has a long form, which takes lists of tensors and an options object, and most have a
short form: `group.broadcast(tensor, root=1, timeout=...)`. `operation` makes a method that takes
both, by position and by keyword, from a function that takes the lists and the options."""

from __future__ import annotations

from functools import wraps
from typing import Any, Callable, NamedTuple, Sequence

from torch import Tensor
from torch._C import _distributed_c10d as _c10d

from ._errors import ArgumentError

FIELDS = {"root": "rootRank", "op": "reduceOp", "timeout": "timeout"}


class Data(NamedTuple):
    """An argument that holds tensors."""

    depth: int | None  # 0: a tensor, 1: a list of tensors, 2: a list of lists, None: no tensors
    names: tuple[str, ...]


def data(depth: int | None, *names: str) -> Data:
    return Data(depth, names)


def _nested(value: Any, depth: int | None) -> Any:
    """Returns `value` as the long form has it: the short form omits the outer list."""
    if depth == 1 and isinstance(value, Tensor):
        return [value]
    if depth == 2 and isinstance(value, (list, tuple)) and value and isinstance(value[0], Tensor):
        return [value]
    return value


def _has_depth(value: Any, depth: int | None) -> bool:
    if depth is None:
        return True
    if depth == 0:
        return isinstance(value, Tensor)
    return isinstance(value, (list, tuple)) and all(_has_depth(each, depth - 1) for each in value)


_EXPECTED = {0: "a tensor", 1: "a list of tensors", 2: "a list of lists of tensors"}


def _check(name: str, parameters: Sequence[Data], values: Sequence[Any]) -> None:
    for parameter, value in zip(parameters, values):
        depth = parameter.depth
        if depth is not None and not _has_depth(value, depth):
            raise TypeError(f"{name}: {parameter.names[0]} is {type(value).__name__}: {value!r:.80}; "
                            f"expected {_EXPECTED[depth]}") from None


def _options(name: str, kind: type, fields: Sequence[str], given: dict[str, Any]) -> Any:
    """Returns an options object with the arguments of the short form."""
    made = kind()
    for field, value in given.items():
        if field not in fields:
            raise TypeError(f"{name}: unexpected argument {field!r}; the last ones are opts, or "
                            f"{', '.join(fields) or 'none'}")
        if value is None and field == "timeout":
            continue
        try:
            setattr(made, FIELDS[field], value)
        except TypeError:
            raise TypeError(f"{name}: {field} is {value!r:.80} ({type(value).__name__}), which "
                            f"{kind.__name__}.{FIELDS[field]} does not take") from None
    return made


def _read(name: str, kind: type, parameters: Sequence[Data], fields: Sequence[str],
          args: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, ...]:
    """Returns the arguments of a call as the long form has them."""
    values = []
    for position, parameter in enumerate(parameters):
        found = [named.pop(each) for each in parameter.names if each in named]
        found += args[position:position + 1]
        if len(found) != 1:
            raise TypeError(f"{name}: {parameter.names[0]} is "
                            f"{'missing' if not found else 'given twice'}")
        # Operations without fields have no short form.
        values.append(_nested(found[0], parameter.depth) if fields else found[0])
    rest = list(args[len(parameters):])
    opts = named.pop("opts", None)
    if rest and opts is None and (rest[0] is None or isinstance(rest[0], kind)):
        opts = rest.pop(0)
    for field, value in zip(fields, rest):
        if field in named:
            raise TypeError(f"{name}: {field} is given twice")
        named[field] = value
    if len(rest) > len(fields) or (opts is not None and named):
        raise TypeError(f"{name}: too many arguments; the last ones are opts, or "
                        f"{', '.join(fields) or 'none'}")
    _check(name, parameters, values)
    return (*values, _options(name, kind, fields, named) if opts is None else opts)


def operation(kind: str, *parameters: Data, fields: Sequence[str] = ()) -> Callable[..., Any]:
    """Makes a method of an operation. kind: the class of its options. fields: the options that the
    short form takes."""
    options = getattr(_c10d, kind)
    count = len(parameters)

    def wrap(function: Callable[..., Any]) -> Callable[..., Any]:
        name = function.__name__

        @wraps(function)
        def method(self: Any, *args: Any, **named: Any) -> Any:
            if named or len(args) != count + 1 or type(args[count]) is not options:
                args = _read(name, options, parameters, fields, args, named)
            if self._checks is not None:
                self._checks.verify(name, args)
            try:
                return function(self, *args)
            except (AttributeError, TypeError, ArgumentError):
                _check(name, parameters, args)  # was the error in an argument?
                raise

        return method

    return wrap
