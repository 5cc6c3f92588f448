"""The store through which the ranks of a process group meet.

PyTorch's store accepts any process that reaches its port, so the ranks do not meet through it: the
first rank of the group serves a store of this library, and PyTorch's store holds one record with
its address. On Linux that store accepts processes on its host only from its own user, and a client
on that host accepts only a server of its own user, whatever the record says. With a job secret,
client and server authenticate each other.

Each process knows that all ranks are on one host, or does not (`known_here`). If it does, it
accepts no record of another host. Ranks on several hosts without a secret meet over TCP, where a
stranger can join: the library warns of that (GLOO_SECURITY)."""

from __future__ import annotations

import hashlib
import ipaddress
import math
import os
import re
import socket
import threading
import time
from typing import Any, NamedTuple

from torch._C._distributed_c10d import FileStore, HashStore, TCPStore
from torch._C._distributed_c10d import PrefixStore as TheirPrefixStore

from .._errors import AuthError, GlooError, ProtocolError
from .._stores import CallbackStore, PrefixStore, Store, TcpStore
from ._store import functions_of

KEY = "gloo_c/meeting"
LOOPBACK = "127.0.0.1"
_VERSION = "1"
_RECORD_BYTES = 512
_HOST = re.compile(r"[0-9a-f]{32}\Z")
_ADDRESS = re.compile(r"[0-9A-Za-z._:%-]{1,253}\Z")
_SCOPE = re.compile(r"[0-9A-Za-z._-]{1,64}\Z")
_TOKEN = re.compile(r"[0-9a-f]{16}\Z")
_TRY = 1.0  # seconds for one attempt to reach a server, which may belong to a dead rank
_PAUSE = 0.02
# Seconds for which rank 0 may leave a record that is wrong, or whose server or meeting is not for
# this rank: until then a newer one may replace it.
_WRONG = 3.0
_TAKEN = 30.0
_LOCAL_OF = {"0.0.0.0": LOOPBACK, "::": "::1"}  # for processes on this host
# The library's message about different secrets, and its meaning for a group.
_SECRETS = {
    "has a different secret": "rank 0 and this rank hold different job secrets",
    "requires the job secret": "rank 0 holds a job secret, and this rank holds none",
    "did not prove knowledge": "this rank holds a job secret, and rank 0 holds none",
}
# File systems that only one kernel can access.
_LOCAL_FILE_SYSTEMS = frozenset(("btrfs", "ext2", "ext3", "ext4", "f2fs", "overlay", "ramfs", "tmpfs", "xfs", "zfs"))


# ---- the record ----------------------------------------------------------------------------------

class Record(NamedTuple):
    """The record of the first rank in PyTorch's store."""

    host: str  # its host_identity
    token: str  # unique to this group, even among groups of one name
    port: int
    local: str  # the address for processes of its host
    remote: str  # the address for other hosts; "" if it listens for its own host alone

    def encode(self) -> bytes:
        return " ".join((_VERSION, self.host, self.token, str(self.port), self.local, self.remote)).encode()


def parse(said: bytes) -> Record:
    """Returns the record in these bytes. Raises ConnectionError if they are not a record: any
    process may have written them."""
    words = bytes(said[:_RECORD_BYTES + 1]).decode("ascii", "replace").split(" ")
    if len(said) > _RECORD_BYTES or len(words) != 6:
        raise _odd(said, "it is not a record")
    version, host, token, port, local, remote = words
    if version != _VERSION:
        raise _odd(said, f"its version is not {_VERSION}; all ranks must use one version of gloo_c")
    if not (_HOST.match(host) and _TOKEN.match(token)):
        raise _odd(said, "it names no host and group")
    if not re.match(r"[1-9][0-9]{0,4}\Z", port) or int(port) > 65535:
        raise _odd(said, "it has no port")
    if not _is_address(local) or (remote and not _ADDRESS.match(remote)):
        raise _odd(said, "it has no address")
    return Record(host, token, int(port), local, remote)


def _odd(said: bytes, why: str) -> ConnectionError:
    shown = bytes(said[:40])
    return ConnectionError(f"PyTorch's store has {shown!r} instead of the record of rank 0, and {why}: "
                           "another program has changed it, or another version of gloo_c has written it")


def _is_address(text: str) -> bool:
    """Checks an address: Python accepts any characters in the scope of an IPv6 address."""
    address, scoped, scope = text.partition("%")
    try:
        ipaddress.ip_address(address)
    except ValueError:
        return False
    return not scoped or (":" in address and _SCOPE.match(scope) is not None)


# ---- the keys of a meeting -----------------------------------------------------------------------

_OPEN = "meeting/open"  # exists as long as ranks may join
_CLAIM = "meeting/rank"  # counts the joins of a rank


def _keys_of(kept: TcpStore, name: str, record: Record) -> PrefixStore:
    return PrefixStore(kept, f"{name}/{record.token}")


# ---- hosts ---------------------------------------------------------------------------------------

def host_identity() -> str:
    """Returns an identifier of this host and network namespace, which other hosts do not have."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            boot = file.read().strip()
        namespace = os.stat("/proc/self/ns/net")
        what = f"{boot} {namespace.st_dev} {namespace.st_ino}"
    except OSError:  # not Linux, or no /proc
        what = socket.gethostname()
    return hashlib.sha256(f"gloo_c host {what}".encode()).hexdigest()[:32]


def _base_of(store: Any) -> Any:
    """Returns PyTorch's store below the prefixes."""
    while isinstance(store, TheirPrefixStore):
        store = store.underlying_store
    return store


def _path_of(store: Any) -> str:
    """Returns the path of a FileStore, which PyTorch's types do not declare."""
    return str(store.path)


def _is_loopback(host: str) -> bool:
    """Returns true for names of loopback on any host. Other names may be loopback only here, as a
    host's own name in Debian's /etc/hosts."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _file_system_of(path: str) -> str:
    """Returns the type of the file system that holds the path; "" if that is unknown."""
    found, kind, path = "", "", os.path.realpath(path)
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as file:
            for line in file:
                fields, _, rest = line.partition(" - ")
                point = fields.split(" ")[4].encode().decode("unicode_escape")
                inside = path == point or path.startswith(point.rstrip("/") + "/")
                if inside and len(point) >= len(found):
                    found, kind = point, rest.split(" ")[0]
    except (OSError, IndexError, UnicodeError):
        return ""
    return kind


def known_here(store: Any, size: int) -> bool:
    """Returns true if all ranks of a group that meets by this store must be on this host."""
    base = _base_of(store)
    if isinstance(base, HashStore):
        return True
    if isinstance(base, FileStore):
        return _file_system_of(_path_of(base)) in _LOCAL_FILE_SYSTEMS
    if not isinstance(base, TCPStore):
        return False
    if _is_loopback(base.host):
        return True
    # The launcher's own store, of a job on one host. Another store may connect two jobs.
    environment = os.environ
    ranks = environment.get("WORLD_SIZE", "")
    return (ranks.isdigit() and environment.get("LOCAL_WORLD_SIZE") == ranks and size <= int(ranks)
            and environment.get("MASTER_ADDR") == base.host and environment.get("MASTER_PORT") == str(base.port))


def check_store(store: Any) -> None:
    """Raises PermissionError if other users can write into the file of a FileStore."""
    base = _base_of(store)
    if not isinstance(base, FileStore) or not hasattr(os, "geteuid"):
        return
    path = _path_of(base)
    about = os.stat(path)
    if about.st_uid not in (os.geteuid(), 0) or about.st_mode & 0o022:
        raise PermissionError(
            f"the FileStore {path} belongs to user {about.st_uid} and has mode {about.st_mode & 0o777:o}: "
            "other users could come between the ranks; use a file of this user that others cannot write")


def own_address(master: str) -> tuple[str, str]:
    """Returns the address at which other hosts reach this one, and the one to listen on for that:
    this host's address towards `master`, which all ranks know."""
    try:
        found = socket.getaddrinfo(master, 9, type=socket.SOCK_DGRAM)
    except OSError as failure:
        raise OSError(f"the address of this host towards '{master}' is unknown ({failure}): set MASTER_ADDR to a "
                      "name or address that all hosts know") from failure
    for family, kind, protocol, _name, where in found:
        with socket.socket(family, kind, protocol) as probe:
            try:
                probe.connect(where)  # sends nothing
            except OSError:
                continue
            own = str(probe.getsockname()[0])
        if not ipaddress.ip_address(own.partition("%")[0]).is_loopback:
            return own, own
    return master, "::" if all(entry[0] == socket.AF_INET6 for entry in found) else "0.0.0.0"


def master_of(store: Any = None) -> str:
    """Returns a name or address that leads all ranks to the same host."""
    base = _base_of(store)
    host = base.host if isinstance(base, TCPStore) else ""
    return host or os.environ.get("MASTER_ADDR") or socket.gethostname()


# ---- the first rank ------------------------------------------------------------------------------

class _Served:
    """The stores that this process serves for its groups, by listening address. A forked child
    makes its own."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.stores: dict[str, TcpStore] = {}
        self.process = 0

    def get(self, at: str) -> TcpStore:
        with self.lock:
            if self.process != os.getpid():
                self.stores, self.process = {}, os.getpid()
            if at not in self.stores:
                self.stores[at] = TcpStore(at, serve=True)
            return self.stores[at]


_served = _Served()


def _first_of(variable: str) -> str:
    """Returns the first name or address in a variable, or ""."""
    return (re.split(r"[, \t]+", os.environ.get(variable, "").strip(", \t"))[0]).strip("[]")


def _places(store: Any, here: bool) -> tuple[str, str, str]:
    """Returns the address to listen on, the one for processes on this host, and the one for other
    hosts. GLOO_BIND_ADDR sets the listening address, whatever address the server is made for."""
    remote, at = ("", LOOPBACK) if here else own_address(master_of(store))
    bound = _first_of("GLOO_BIND_ADDR")
    if bound:
        at = str(socket.getaddrinfo(bound, None, type=socket.SOCK_STREAM)[0][4][0])
        if remote and at not in _LOCAL_OF:
            remote = at
    published = _first_of("GLOO_PUBLISH_ADDR")
    if remote and published:
        if published in _LOCAL_OF or not _ADDRESS.match(published):
            raise ValueError(f"GLOO_PUBLISH_ADDR begins with {published[:64]!r}, to which other hosts cannot connect: "
                             "set it to a name or an address that leads them to this host")
        remote = published
    return at, _LOCAL_OF.get(at, at), remote


def _serve(functions: Any, store: Any, here: bool, name: str) -> tuple[Store, Record]:
    """Serves a store. Raises the error that prevents it after publishing it to the others, which
    wait for the record."""
    try:
        at, local, remote = _places(store, here)
        kept = _served.get(at)
    except (GlooError, OSError, ValueError) as failure:
        functions.set(KEY, f"! {failure}"[:_RECORD_BYTES].encode())
        raise
    record = Record(host_identity(), os.urandom(8).hex(), kept.port, local, remote)
    keys = _keys_of(kept, name, record)
    keys.set(_OPEN, b"1")
    functions.set(KEY, record.encode())
    return keys, record


# ---- the others ----------------------------------------------------------------------------------

def _place_of(said: bytes, here: bool) -> tuple[Record, str]:
    """Returns the record in PyTorch's store, and the address in it for this process."""
    if said.startswith(b"! "):
        why = said[2:_RECORD_BYTES].decode("utf-8", "replace")
        raise ConnectionError(f"rank 0 cannot serve the store: {why}")
    record = parse(said)
    if record.host == host_identity():
        return record, record.local
    if here:
        raise ConnectionError(
            "all ranks of this group are on one host, and PyTorch's store says that rank 0 is on another one: "
            "another program has changed it, or ranks are in different network namespaces (containers): set "
            "GLOO_JOB_SECRET, and MASTER_ADDR to an address that all ranks can reach")
    if not record.remote:
        raise ConnectionError(
            "rank 0 accepts only processes of its own host, but this rank is on another host or in another "
            "network namespace: set MASTER_ADDR to an address of rank 0's host that this rank reaches")
    return record, record.remote


class _Stale(ConnectionError):
    """The record belongs to a meeting that has ended: a newer one may come."""


class _OtherSecret(AuthError):
    """The secrets of rank 0 and of this rank differ; another record of the same rank 0 does not
    change that."""


class _Taken(ConnectionError):
    """The meeting is open, and this rank has already joined it."""


def _connect(at: str, record: Record, timeout: float, left: float) -> TcpStore:
    try:  # a temporary store, because its timeout is also that of the ranks' requests
        TcpStore(at, record.port, timeout=min(_TRY, left))
        return TcpStore(at, record.port, timeout=timeout)
    except AuthError as failure:
        held = next((held for words, held in _SECRETS.items() if words in failure.message), None)
        if held is None:
            raise
        raise _OtherSecret(f"{held}: each `gloo run` generates a secret for its own ranks. Set the same "
                           f"GLOO_JOB_SECRET for both before starting them ({failure.message})", failure.status) from failure


def _join(said: bytes, rank: int, name: str, timeout: float, left: float, here: bool) -> Store:
    """Joins the meeting and returns the store of its keys."""
    record, at = _place_of(said, here)
    keys = _keys_of(_connect(at, record, timeout, left), name, record)
    # In this order, so that a meeting that ends in between is not taken for an open one.
    claims = keys.add(f"{_CLAIM}/{rank}", 1)
    try:
        keys.get(_OPEN, 0.0)
    except GlooError as failure:
        raise _Stale("PyTorch's store has the record of an earlier, complete group of this name: rank 0 has not "
                     "started the new one") from failure
    if claims > 1:
        raise _Taken(f"two processes claim rank {rank} of this group, or rank 0 "
                     "has not left its previous group")
    return keys


def _patience(failure: Exception) -> float:
    """Returns how long rank 0 may take to replace the record that led to this, in seconds."""
    if isinstance(failure, _OtherSecret):
        return _WRONG
    if isinstance(failure, (AuthError, ProtocolError, _Taken)):
        return _TAKEN
    return math.inf if isinstance(failure, (GlooError, _Stale)) else _WRONG


def _reach(functions: Any, rank: int, name: str, timeout: float, here: bool) -> Store:
    """Connects to the meeting. PyTorch's store may have the record of a dead rank (torchrun keeps
    one store for all restarts), or of an earlier group, until the first rank has come."""
    deadline = time.monotonic() + timeout
    before, since = b"", 0.0
    while True:
        try:
            said = functions.get(KEY, max(deadline - time.monotonic(), 0.001))
        except TimeoutError as failure:
            raise TimeoutError(f"rank 0 of the group has not started within {timeout:g} s: PyTorch's store has no "
                               "record of it") from failure
        if said != before:
            before, since = said, time.monotonic()
        try:
            return _join(said, rank, name, timeout, max(deadline - time.monotonic(), 0.001), here)
        except (GlooError, ConnectionError) as failure:
            if time.monotonic() >= min(deadline, since + _patience(failure)):
                raise
            time.sleep(_PAUSE)


class Meeting:
    """The store in which the ranks of one group meet, given PyTorch's. Its keys belong to this
    group."""

    def __init__(self, store: Any, rank: int, size: int, timeout: float, name: str) -> None:
        self._theirs, self._first = store, rank == 0
        functions = functions_of(store)
        self.store: Store
        if size == 1:
            self.store, self._first = CallbackStore(functions), False
            return
        check_store(store)
        here = known_here(store, size)
        name = name or "group"
        if self._first:
            self.store, self._record = _serve(functions, store, here, name)
        else:
            self.store = _reach(functions, rank, name, timeout, here)

    def over(self) -> None:
        """Ends the meeting: all ranks have met, or the first one has given up. The record is
        removed, so that a later group with the same name and store does not join this meeting, and
        a rank that has read the record finds the meeting closed."""
        if not self._first:
            return
        self.store.delete(_OPEN)
        try:
            self._theirs.delete_key(KEY)
        except (RuntimeError, NotImplementedError):  # unsupported, or the store is closed
            pass
