"""The name "gloo" of torch.distributed, answered by gloo_c.

answer() replaces torch.distributed.ProcessGroupGloo by a group of gloo_c with the same constructors,
so that whatever asks for backend "gloo" gets gloo_c, in this process. The folder start/ does the same in
processes that this one starts."""

import sys
from datetime import timedelta

import gloo_c.torch
import torch.distributed as dist
from torch._C import _distributed_c10d
from torch.distributed import distributed_c10d

_DEFAULT = timedelta(minutes=30)


class Options:
    """The options of ProcessGroupGloo, as ProcessGroupGloo._Options."""

    def __init__(self):
        self._devices, self._threads, self._timeout = [], 2, _DEFAULT
        self.backend, self.group_name, self.global_ranks_in_group = "gloo", "", []


class ProcessGroupGloo(gloo_c.torch.Group):
    """A group of gloo_c with the name gloo."""

    Options = _Options = Options
    Device = gloo_c.Device
    options = None  # each group has separate ones

    def __init__(self, store, rank, size, options=None, timeout=_DEFAULT, enable_reconfigure=False):
        if not isinstance(options, (Options, type(None))):
            options, timeout = None, options
        assert not enable_reconfigure
        self.options = options or Options()
        timeout = timeout if options is None else options._timeout
        if not isinstance(timeout, timedelta):  # pybind also accepts seconds
            timeout = timedelta(seconds=timeout)
        self.options._timeout = timeout
        # The function that creates groups sets their name in the options only later.
        variables = sys._getframe(1).f_locals
        name = variables.get("group_name") or getattr(variables.get("opts"), "group_id", None)  # since 2.14
        super().__init__(store, rank, size, timeout, name if isinstance(name, str) else "",
                         next(iter(self.options._devices), None))
        # PyTorch would wrap gloo's own class here.
        if isinstance(name, str) and dist.get_debug_level() == dist.DebugLevel.DETAIL:
            self._compare_calls(store, timeout)

    def set_timeout(self, timeout):
        super().set_timeout(timeout)
        self.options._timeout = timeout

    _set_default_timeout = set_timeout

    def name(self):
        return "gloo"

    # C++ code gets gloo_c from getBackendName, because it would take "gloo" for gloo's own class.
    _get_backend_name = name

    @staticmethod
    def create_device(hostname="", interface="", lazy_init=None):
        return gloo_c.Device(host=hostname or None, interface=interface or None)

    @staticmethod
    def create_default_device(lazy_init=None):
        return gloo_c.Device()


def wrapped(wrapped_pg, store_prefix, store, rank, world_size, timeout=_DEFAULT):
    """Returns the group itself, which compares calls from now on, as PyTorch's wrapper does."""
    if not isinstance(timeout, timedelta):
        timeout = timedelta(seconds=timeout)
    wrapped_pg._compare_calls(dist.PrefixStore(store_prefix, store), timeout)
    return wrapped_pg


def answer():
    """Makes "gloo" mean gloo_c from now on."""
    for module in (dist, distributed_c10d):
        module._create_process_group_wrapper = wrapped
    for module in (dist, distributed_c10d, _distributed_c10d):
        module.ProcessGroupGloo = ProcessGroupGloo
