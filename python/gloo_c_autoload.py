"""The entry point that `import torch` calls, of the group torch.backends: it registers the backend
gloo_c, so that init_process_group(backend="gloo_c") works without an import of gloo_c.torch.

The module is outside the package, whose import takes longer than it may add to `import torch`. The first
group imports the package. TORCH_DEVICE_BACKEND_AUTOLOAD=0 prevents all of it."""

from __future__ import annotations

import os
import sys
from typing import Any, Callable

# Devices whose tensors a group takes.
DEVICES = ["cpu", "cuda", "xpu", "mps", "hpu", "npu"]


def make(options: Any, pg_options: Any = None) -> Any:
    """Creates a group, as gloo_c.torch does."""
    from gloo_c.torch._group import make as create
    return create(options, pg_options)


def add(backend: Any, create: Callable[..., Any]) -> None:
    """Registers the backend with PyTorch's class Backend. That makes it the default of devices without
    one, such as npu, and the package for that device, which is imported later, would not replace it."""
    defaults: dict[str, str] = backend.default_device_backend_map
    before = dict(defaults)
    backend.register_backend("gloo_c", create, extended_api=True, devices=list(DEVICES))
    defaults.clear()
    defaults.update(before)
    # PyTorch 2.15 records the operations of other backends, by a hook that expects a backend in C++.
    recorded: set[str] = getattr(sys.modules[backend.__module__], "_FR_SELF_RECORDING_BACKENDS", set())
    recorded.add("gloo_c")


def register() -> None:
    """Registers the backend. An error becomes a log line, because it would end `import torch`."""
    try:
        c10d = sys.modules.get("torch.distributed.distributed_c10d")
        if c10d is None:  # PyTorch without torch.distributed
            return
        if os.environ.get("GLOO_C_REPLACE_GLOO", "0") in ("", "0"):
            add(c10d.Backend, make)
        else:
            import gloo_c.torch  # noqa: F401 # it registers the backend, and replaces gloo
    except Exception as error:
        import logging
        logging.getLogger("gloo_c.torch").warning(
            "gloo_c: PyTorch cannot use gloo_c without `import gloo_c.torch`, and \"gloo\" remains PyTorch's own: %s "
            "(%s). TORCH_DEVICE_BACKEND_AUTOLOAD=0 prevents the attempt", error, type(error).__name__)
