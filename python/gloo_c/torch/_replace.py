"""The name "gloo" of torch.distributed, for groups of gloo_c.

Since 2.14 PyTorch has a table of the functions that create groups, by name. Before, it called the class
distributed_c10d.ProcessGroupGloo for a group named "gloo". `replace_gloo` replaces the function, and puts a class
derived from that one in its place, which creates a group of gloo_c where an older PyTorch creates one by name. All
else remains: its attributes, direct calls of the class, and isinstance(), which also accepts groups of gloo_c."""

from __future__ import annotations

import logging
import os
import sys
from types import FrameType
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d

from .._library import version
from ._group import (BackendConfig, Group, Operations, PartOfGroup, compare_calls_if_asked, given_device, is_whole,
                     parts_can_be_made)

GLOO = "gloo"
VARIABLE = "GLOO_C_REPLACE_GLOO"
_log = logging.getLogger("gloo_c.torch")
_modules: tuple[Any, Any] = (dist, distributed_c10d)
_creators: dict[str, Any] = getattr(dist.Backend, "_plugins", {})  # those of PyTorch's own backends since 2.14


class _Named(Operations):
    """The operations of a group named "gloo". C++ code still gets gloo_c from getBackendName, since it
    would take "gloo" for PyTorch's own class."""

    def name(self) -> str:
        return GLOO

    _get_backend_name = name


class NamedGroup(_Named, Group):
    """A whole group of gloo_c that PyTorch has created by the name "gloo"."""


class NamedPart(_Named, PartOfGroup):
    """The part of a group that PyTorch has created by the name "gloo" ("cpu:gloo,cuda:nccl")."""


class _State:
    """The class and the function that are replaced, or None, and whether the log line has been written."""

    theirs: Any = None
    creator: Any = None
    said = False


def _is_first(rank: int) -> bool:
    """Returns true on global rank 0, which alone logs: the others do the same. rank: that in the group."""
    return (dist.get_rank() if dist.is_initialized() else rank) == 0


def _say(rank: int) -> None:
    if not _State.said and _is_first(rank):
        _log.warning('gloo_c: the backend "gloo" of torch.distributed is gloo_c %s in this job '
                     "(%s=1 or gloo_c.torch.replace_gloo)", version(), VARIABLE)
    _State.said = True


def _create(whole: bool, store: Any, rank: int, size: int, timeout: Any, name: str, given: Any, ranks: Any) -> Any:
    _say(rank)
    made = (NamedGroup if whole else NamedPart)(store, rank, size, timeout, name, given_device(given))
    made._global_ranks = list(ranks)
    compare_calls_if_asked(made, store, timeout)
    return made


def _create_by_name(options: Any, pg_options: Any = None) -> Any:
    """Creates a group for PyTorch 2.14 or newer."""
    return _create(is_whole(sys._getframe().f_back, GLOO), options.store, options.group_rank, options.group_size,
                   options.timeout, options.group_id, pg_options, options.global_ranks_in_group)


def _create_by_class(theirs: Any, caller: FrameType, config: Any, given: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """Creates a group for the function of an older PyTorch that creates groups, `caller`. Its arguments are
    store, rank, size and timeout; its variables have the name and the options."""
    whole = set(config.get_device_backend_map().values()) == {GLOO}
    if not whole and not parts_can_be_made:
        if _is_first(given[1]):
            _log.warning('gloo_c: "gloo" remains PyTorch\'s own in the group %r, because PyTorch %s cannot have a '
                         'backend of another package for some devices of a group; 2.14 can. "gloo" alone is gloo_c',
                         config, torch.__version__)
        return theirs(*given, **named)
    variables, (store, rank, size) = caller.f_locals, given
    return _create(whole, store, rank, size, named["timeout"], variables["group_name"],
                   variables.get("backend_options"), variables["global_ranks_in_group"])


def _stand_in(theirs: Any) -> Any:
    class StandIn(type(theirs)):  # type: ignore[misc]
        """The type of the class that takes the place of ProcessGroupGloo."""

        def __call__(cls, *given: Any, **named: Any) -> Any:
            caller = sys._getframe(1)
            config = caller.f_locals.get("backend_config")
            if cls is made and isinstance(config, BackendConfig):
                return _create_by_class(theirs, caller, config, given, named)
            return theirs(*given, **named) if cls is made else super().__call__(*given, **named)

        def __instancecheck__(cls, instance: Any) -> bool:
            return isinstance(instance, (theirs, _Named)) if cls is made else super().__instancecheck__(instance)

        def __subclasscheck__(cls, other: Any) -> bool:
            return issubclass(other, (theirs, _Named)) if cls is made else super().__subclasscheck__(other)

    made: Any = StandIn(theirs.__name__, (theirs,), {"__module__": theirs.__module__, "__doc__": theirs.__doc__})
    return made


def replace_gloo() -> None:
    """Makes the name "gloo" mean gloo_c wherever torch.distributed creates a group from now on:
    init_process_group (also without a name, and "cpu:gloo"), new_group, DeviceMesh. Existing groups are
    unchanged. dist.get_backend() answers "gloo", as programs expect; is_gloo_c() distinguishes. Further
    calls have no effect. The variable GLOO_C_REPLACE_GLOO=1 does the same when torch is imported."""
    if _State.theirs is not None:
        return
    theirs = getattr(distributed_c10d, "ProcessGroupGloo", None)
    if theirs is None:
        raise RuntimeError(f"gloo_c.torch.replace_gloo: PyTorch {torch.__version__} is built without gloo, so its "
                           'name cannot be replaced; pass backend="gloo_c"')
    stand_in = _stand_in(theirs)
    _State.theirs = theirs
    for module in _modules:
        module.ProcessGroupGloo = stand_in
    if hasattr(dist.Backend, "_ensure_backend_registered"):
        dist.Backend._ensure_backend_registered(GLOO)  # 2.15 does so for the first group
    _State.creator = _creators.get(GLOO.upper())
    if _State.creator is not None:
        _creators[GLOO.upper()] = type(_State.creator)(_create_by_name, True)


def restore_gloo() -> None:
    """Undoes replace_gloo: groups that are created by the name "gloo" from now on are PyTorch's own.
    Existing groups keep working. Without replace_gloo it has no effect."""
    if _State.theirs is not None:
        for module in _modules:
            module.ProcessGroupGloo = _State.theirs
        if _State.creator is not None:
            _creators[GLOO.upper()] = _State.creator
        _State.theirs, _State.creator, _State.said = None, None, False


def gloo_is_replaced() -> bool:
    """Returns true between replace_gloo and restore_gloo."""
    return _State.theirs is not None


def replace_if_asked() -> None:
    """Replaces gloo if the variable says so."""
    value = os.environ.get(VARIABLE, "")
    if value not in ("", "0", "1"):
        raise ValueError(f"{VARIABLE} is '{value}'; valid values are 0 and 1")
    if value == "1":
        replace_gloo()


def is_gloo_c(group: dist.ProcessGroup | None = None, device: str | torch.device = "cpu") -> bool:
    """Returns true if operations of a group on tensors of this device are gloo_c's, whatever name
    dist.get_backend() answers. group: None is the default group."""
    found: Any = dist.group.WORLD if group is None else group
    if found is None:
        raise ValueError("gloo_c.torch.is_gloo_c: the default process group does not exist; call "
                         "init_process_group first, or pass a group")
    if isinstance(found, Operations):
        return True
    try:
        part = found._get_backend(torch.device(device))
    except RuntimeError:  # no backend for this device
        return False
    return isinstance(getattr(part, "wrapped_pg", part), Operations)
