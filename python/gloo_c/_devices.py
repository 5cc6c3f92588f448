"""Devices: the endpoints of transports."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import _handles
from ._binding import ffi, lib
from ._convert import integer, string
from ._errors import checked, text
from ._handles import DeviceHandle, catch_up

if TYPE_CHECKING:
    from types import TracebackType

    from ._aio import Watcher


class WatchSlot:
    """The one Watcher of a device, shared by all its users; the last of them closes it."""

    __slots__ = ("watcher", "users")

    def __init__(self) -> None:
        self.watcher: Watcher | None = None
        self.users = 1

    def watched(self, device: Any) -> Watcher:
        from ._aio import Watcher

        with _handles.lock:  # two would consume each other's events from the descriptor
            if self.watcher is None:
                self.watcher = Watcher(device)
            return self.watcher

    def joined(self) -> None:
        with _handles.lock:
            self.users += 1

    def left(self) -> None:
        with _handles.lock:
            self.users -= 1
            last = self.users == 0
        if last and self.watcher is not None:
            self.watcher.close()


def device_options(transport: str | None, host: str | None, interface: str | None, port: int,
                   streams: int, helper: bool, checksum: bool | None) -> tuple[Any, list[Any]]:
    """Returns gloo_device_options, and the objects that must stay alive while they are read."""
    options, kept = ffi.new("gloo_device_options *"), []
    lib.py_gloo_device_options_init(options)
    for name, value in (("transport", transport), ("host", host), ("interface", interface)):
        if value is not None:
            kept.append(string(name, value))
            setattr(options, name, kept[-1])
    options.port, options.streams = integer("port", port, 0, 65535), integer("streams", streams)
    options.no_helper = not helper
    options.checksum = tristate(checksum)
    return options, kept


def tristate(value: bool | None) -> int:
    return 0 if value is None else 1 if value else -1


class Device:
    """The transport endpoint in this process, and its progress thread.

    transport: "auto" (shared memory between ranks on one host, RDMA or TCP between hosts), "tcp",
        "shm", "ibv" (RDMA) or "inproc" (ranks are threads); None: GLOO_TRANSPORT, or "auto".
    host, interface, port: address, interfaces and port for TCP; interface: as in
        GLOO_SOCKET_IFNAME.
    streams: TCP connections per pair of ranks.
    helper: without a helper thread operations advance only while a thread is in a call, and asyncio
        cannot be used.
    checksum: checksums for all messages; None: GLOO_CHECKSUM, or off.

    Several contexts may share a device; threads that use contexts of one device take turns, so give
    each busy thread its own device."""

    def __init__(self, transport: str | None = None, *, host: str | None = None,
                 interface: str | None = None, port: int = 0, streams: int = 0,
                 helper: bool = True, checksum: bool | None = None) -> None:
        catch_up()
        options, _kept = device_options(transport, host, interface, port, streams, helper, checksum)
        place = ffi.new("gloo_device **")
        checked(lib.gloo_device_create, options, place)
        self._handle: DeviceHandle | None = DeviceHandle(place[0])
        self._slot = WatchSlot()

    def _held(self) -> DeviceHandle:
        if self._handle is None:
            raise ValueError("this device was closed")
        return self._handle

    @property
    def transport(self) -> str:
        """Name of the transport."""
        return text(lib.gloo_device_transport(self._held().pointer))

    @property
    def waiting(self) -> str:
        """Description of how its threads wait, as text."""
        return text(lib.gloo_device_waiting(self._held().pointer))

    def close(self) -> None:
        """Releases the device. It is destroyed with the last context on it."""
        if self._handle is not None:
            self._slot.left()
            self._handle = None

    def __enter__(self) -> Device:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()
