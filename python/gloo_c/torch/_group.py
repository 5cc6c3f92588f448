"""A process group of PyTorch, and how PyTorch makes one."""

from __future__ import annotations

import importlib
import os
import re
import sys
from datetime import timedelta
from types import FrameType
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch._C import _distributed_c10d as _c10d
from torch._C._distributed_c10d import Store

from .. import _handles
from .._binding import lib
from .._context import Context
from .._devices import Device
from .._errors import give_back, new_error
from ._calls import BACKEND, limit_of
from ._errors import ArgumentError
from ._forms import operation
from ._memory import empty
from ._moves import Moves
from ._operators import list_group
from ._reductions import Reductions

BackendConfig: Any = dist.distributed_c10d.BackendConfig
_autoload: Any = importlib.import_module("gloo_c_autoload")  # without types, beside the package
_LONGEST = timedelta(days=100 * 365)  # the longest that PyTorch's options accept


def _is_available(device: str) -> bool:
    """Returns true if a module of PyTorch, or of another package, finds such a device."""
    module: Any = getattr(torch, device, None)
    return device == "cpu" or (hasattr(module, "is_available") and bool(module.is_available()))


class Operations(Reductions, Moves):
    """The operations of one process group. Ranks are those of the group."""

    _global_ranks: list[int] = []
    _listed: tuple[int, str | None] = (0, None)  # number and name in the list of contexts for operators

    # ---- what PyTorch asks of a group ------------------------------------------------------------

    def getRank(self) -> int:
        return self._rank

    def getSize(self) -> int:
        return self._size

    rank, size = getRank, getSize

    def getBackendName(self) -> str:
        return BACKEND

    name = _get_backend_name = getBackendName

    def getGroupName(self) -> str:
        return self._name

    def setGroupName(self, name: str) -> None:
        self._name = name
        list_group(self)

    _set_group_name = setGroupName

    def getGroupDesc(self) -> str:
        return self._desc

    def setGroupDesc(self, desc: str) -> None:
        self._desc = desc

    _set_group_desc = setGroupDesc
    group_name = property(getGroupName)
    group_desc = property(getGroupDesc)

    def get_group_store(self) -> Store:
        return self._store

    def supports_tensor_alloc(self, device: torch.device) -> bool:
        return torch.device(device).type == "cpu"

    def allocate_tensor(self, size: int, *, dtype: torch.dtype, device: torch.device) -> Tensor:
        """Returns a tensor of one dimension in memory that the ranks of a host access directly. FSDP2 asks for it
        after set_allocate_memory_from_process_group_for_comm(True)."""
        if not self.supports_tensor_alloc(device):
            raise ValueError(f"allocate_tensor: the backend {BACKEND} has memory of cpu, not of {device}")
        return empty(size, dtype=dtype)

    supports_coalescing = False
    supports_splitting = False

    @property
    def _device_types(self) -> list[torch.device]:
        return [torch.device(name) for name in _autoload.DEVICES if _is_available(name)]

    def _get_backend(self, _device: torch.device) -> Operations:
        return self

    @property
    def options(self) -> Any:
        """The settings of the group, as PyTorch has them. set_timeout changes the timeout."""
        made: Any = _c10d.Backend.Options(BACKEND, min(self._timeout, _LONGEST))
        made.group_name, made.global_ranks_in_group = self._name, self._global_ranks
        return made

    def set_timeout(self, timeout: timedelta | float) -> None:
        if not isinstance(timeout, timedelta):
            timeout = timedelta(seconds=timeout)
        for caller in self._callers():
            caller._checked(lib.gloo_context_set_timeout, limit_of(timeout))
        self._timeout = timeout

    _set_default_timeout = set_timeout

    def _get_sequence_number_for_group(self) -> int:
        return self._sequence

    def _set_sequence_number_for_group(self) -> None:
        self._sequence = 0

    def abort(self) -> None:
        """Makes all pending operations fail, on all ranks, and leaves. Any thread may call it."""
        for caller in self._callers():
            handle = caller._context._handle
            if handle is not None:
                error = new_error()
                lib.gloo_context_abort(handle.pointer, b"the process group was aborted", error)
                give_back(error)
        self._leave()

    def shutdown(self) -> None:
        """Leaves when the pending collectives have completed or failed, as gloo does: other ranks
        may need this one for them. Pending messages are cancelled."""
        try:
            for work in list(self._live):
                work._finish()
        finally:
            self._leave()

    def __del__(self, finalizing: Any = sys.is_finalizing) -> None:
        """A dropped group waits as in `shutdown`, unless Python exits: it has left its contexts then, and
        cleared its modules."""
        if not finalizing() and not _handles.in_callback():
            for work in list(getattr(self, "_live", ())):
                work._finish()

    def _leave(self) -> None:
        self._live.clear()
        self._messages.clear()
        for caller in self._callers():
            caller._context.close()

    # ---- barriers --------------------------------------------------------------------------------

    @operation("BarrierOptions", fields=("timeout",))
    def barrier(self, opts: Any) -> Any:
        return self._barrier(opts)

    def monitored_barrier(self, timeout: timedelta | Any = None,
                          wait_all_ranks: bool = False) -> None:
        """A barrier whose error names one missing rank, also with `wait_all_ranks`. timeout: a timedelta, or
        options that have one."""
        if isinstance(timeout, _c10d.BarrierOptions):
            timeout = timeout.timeout
        self._sequence += 1
        self._run("barrier", (), timeout)


# ---- what PyTorch knows them as ------------------------------------------------------------------

_Whole: Any = dist.ProcessGroup  # what PyTorch's types say of them does not fit in Python
_Part: Any = _c10d.Backend


class Group(Operations, _Whole):  # type: ignore[misc]
    """A whole process group, for tensors on all devices."""

    _splits: dict[tuple[int, ...], int]  # number of groups that split_group has made of these ranks

    def __init__(self, store: Store, rank: int, size: int, timeout: timedelta | Any,
                 name: str = "", device: Device | Context | None = None) -> None:
        _Whole.__init__(self, rank, size)
        self._splits = {}
        self._meet(store, rank, size, timeout, name, device)
        list_group(self)

    # Methods in C++ would look for a backend in C++, which a whole group does not have.
    supports_reconfigure = supports_window = use_pg_for_symm_mem_rendezvous = False

    def split_group(self, new_ranks: list[int], timeout: timedelta | None = None, opts: Any = None,
                    group_name: str | None = None, group_desc: str | None = None,
                    device_types: Any = None) -> Group | None:
        """Returns a group of some ranks, which all call it with the same list; None on other ranks."""
        ranks = tuple(new_ranks)
        if len(set(ranks)) < len(ranks) or not all(0 <= rank < self._size for rank in ranks):
            raise ArgumentError(f"split_group: new_ranks is {list(ranks)}; it must have different ranks from 0 to "
                                f"{self._size - 1}")
        if self._rank not in ranks:
            return None
        self._splits[ranks] = number = self._splits.get(ranks, 0) + 1
        name = group_name or f"{self._name}/{'-'.join(map(str, ranks))}/{number}"
        made = type(self)(_c10d.PrefixStore(f"split/{name}/{number}", self._store), ranks.index(self._rank),
                          len(ranks), timeout or opts or self._timeout, name)
        made._global_ranks = [self._global_ranks[rank] for rank in ranks] if self._global_ranks else list(ranks)
        made._desc = group_desc or made._desc
        return made

    def merge_remote_group(self, *_given: Any, **_named: Any) -> Any:
        raise NotImplementedError(f"merge_remote_group: the backend {BACKEND} cannot merge groups; create one of all "
                                  "ranks by dist.new_group, or admit processes by gloo_c.torch.grow")


def _try_part() -> bool:
    try:
        _Part(0, 1)
    except TypeError:
        return False
    return True


parts_can_be_made = _try_part()


class PartOfGroup(Operations, _Part):  # type: ignore[misc]
    """The part of a process group for some devices ("cpu:gloo_c,cuda:nccl"). It requires PyTorch
    2.14, which forwards only the wait and the future of its works, not is_completed, exception or
    the source of a message. So it is used only where it is necessary."""

    def __init__(self, store: Store, rank: int, size: int, timeout: timedelta | Any,
                 name: str = "", device: Device | Context | None = None) -> None:
        _Part.__init__(self, rank, size)
        self._meet(store, rank, size, timeout, name, device)
        list_group(self)


def is_whole(caller: FrameType | None, name: str = BACKEND) -> bool:
    """Returns true if the backend of this name serves all devices of the group that PyTorch is creating. The
    arguments do not include that, but the function that creates groups knows it."""
    for _ in range(2):  # gloo_c_autoload may be between
        config = None if caller is None else caller.f_locals.get("backend_config")
        if isinstance(config, BackendConfig):
            return set(config.get_device_backend_map().values()) == {name}
        caller = None if caller is None else caller.f_back
    return not parts_can_be_made


def given_device(pg_options: Any) -> Any:
    """Returns pg_options if it is a device or context for a group of this backend, or None."""
    return pg_options if isinstance(pg_options, (Device, Context)) else None


def compare_calls_if_asked(made: Operations, store: Any, timeout: timedelta) -> None:
    """Compares calls with TORCH_DISTRIBUTED_DEBUG=DETAIL. PyTorch takes a whole group as it is, and wraps a part in a
    class of C++, which cannot call a part in Python."""
    if _c10d.get_debug_level() == _c10d.DebugLevel.DETAIL:
        made._compare_calls(store, timeout)
        theirs = dist.distributed_c10d._create_process_group_wrapper
        if not hasattr(theirs, "of_gloo_c"):
            dist.distributed_c10d._create_process_group_wrapper = _wrapped_unless_part(theirs)


def _wrapped_unless_part(theirs: Any) -> Any:
    def wrapped(wrapped_pg: Any, *given: Any, **named: Any) -> Any:
        return wrapped_pg if isinstance(wrapped_pg, PartOfGroup) else theirs(wrapped_pg, *given, **named)

    setattr(wrapped, "of_gloo_c", True)
    return wrapped


def make(options: Any, pg_options: Any = None) -> Operations:
    """Creates a group, or a part of one, for PyTorch."""
    device, timeout = given_device(pg_options), options.timeout
    if isinstance(pg_options, _c10d.Backend.Options):
        timeout = _timeout_of(options.timeout, pg_options)
    elif pg_options is not None and device is None:
        raise TypeError(f"the backend {BACKEND} takes a gloo_c.Device, a gloo_c.Context or options of "
                        f"PyTorch with a _timeout as pg_options, not {type(pg_options).__name__}")
    timeout = _timeout_from_environment(timeout)
    whole = is_whole(sys._getframe().f_back)
    if not whole and not parts_can_be_made:
        raise NotImplementedError(f"PyTorch {torch.__version__} cannot have the backend {BACKEND} for "
                                  "some devices of a group and another for others; since 2.14 it "
                                  f"can. '{BACKEND}' alone takes tensors of all devices, by copies "
                                  "in host memory")
    made = (Group if whole else PartOfGroup)(options.store, options.group_rank, options.group_size,
                                             timeout, options.group_id, device)
    made._global_ranks = list(options.global_ranks_in_group)
    compare_calls_if_asked(made, options.store, timeout)
    return made


def _timeout_of(given: timedelta, pg_options: Any) -> timedelta:
    """Returns the timeout of a group: that of the call, unless only the options have one."""
    if getattr(pg_options, "_devices", None):
        raise ValueError(f"pg_options._devices are devices of gloo, which the backend {BACKEND} does "
                         "not use; pass pg_options=gloo_c.Device(interface=...), or set "
                         "GLOO_SOCKET_IFNAME")
    default = dist.distributed_c10d.default_pg_timeout
    return given if given != default else pg_options._timeout


def _timeout_from_environment(given: timedelta) -> timedelta:
    """Returns GLOO_TIMEOUT in place of PyTorch's default, which a group has that was given none."""
    text = os.environ.get("GLOO_TIMEOUT", "")
    if not text or given != dist.distributed_c10d.default_pg_timeout:
        return given
    if text == "none":
        return _LONGEST
    seconds = float(text) if re.fullmatch(r"[0-9]+(\.[0-9]*)?", text) else 0.0
    if not 0.001 <= seconds <= 1000000:
        raise ValueError(f"GLOO_TIMEOUT is '{text}'; it must be a number of seconds from 0.001 to "
                         "1000000, or 'none' for no limit")
    return timedelta(seconds=seconds)


def register() -> None:
    """Registers the backend. Importing gloo_c.torch does so; gloo_c_autoload may have done it before."""
    _autoload.add(dist.Backend, make)
