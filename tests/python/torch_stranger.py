"""A process outside a PyTorch job that tries to read from it, to join it, and to take names before
it.

It uses public information of the system, PyTorch's store, which accepts any process, and the
library."""

import ctypes
import glob
import json
import mmap
import os
import re
import resource
import select
import socket
import sys
from datetime import timedelta

import torch.distributed as dist

from gloo_c import GlooError, TcpStore
from gloo_c.torch import _meeting as meeting

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../security"))
import stranger as raw  # noqa: E402 - what processes of the library say to each other

NOBODY = 65534
CLONE_NEWNET = 0x40000000
PORTS = (40000, 41500)  # that the system assigns where the job runs
RECORD = re.compile(rb"1 [0-9a-f]{32} [0-9a-f]{16} [0-9]+ [0-9A-Za-z.:]+ [0-9A-Za-z.:]*")


def become_nobody():
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)


def enter_network(process):
    libc = ctypes.CDLL(None, use_errno=True)
    with open(f"/proc/{process}/ns/net", "rb") as file:
        if libc.setns(file.fileno(), CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "setns")


def store_at(host, port):
    """Returns PyTorch's store, or None if it has ended, or is a different server."""
    try:
        return dist.TCPStore(host, port, None, False, timedelta(seconds=1), wait_for_workers=False)
    except RuntimeError:
        return None


class Sockets:
    """Inodes of the job's sockets. Finding them requires root, which a stranger is not, so another
    process sets them. Launchers have ports of their own, and some do not tolerate a stranger's
    messages there."""

    LAUNCHERS = ("mpirun", "orted", "prted")

    def __init__(self):
        self.shared = mmap.mmap(-1, 2 << 16)  # two slots; the first byte selects the valid one

    def get(self):
        at = 1 + self.shared[0] * 65000
        return set(self.shared[at:at + 64000].split(b"\n")[0].decode().split())

    def set(self):
        found = set()
        for process in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{process}/comm", encoding="utf-8") as file:
                    if os.stat(f"/proc/{process}").st_uid == NOBODY or file.read().strip() in self.LAUNCHERS:
                        continue
                for fd in os.listdir(f"/proc/{process}/fd"):
                    name = os.readlink(f"/proc/{process}/fd/{fd}")
                    found.update(re.findall(r"socket:\[([0-9]+)\]", name))
            except OSError:  # it has exited
                continue
        text, other = " ".join(found).encode()[:63990] + b"\n", 1 - self.shared[0]
        self.shared[1 + other * 65000:1 + other * 65000 + len(text)] = text
        self.shared[0] = other


class Stranger:
    """hosts: the addresses at which it reaches the job. sockets: those of the job. port:
    MASTER_PORT. files: those of the job. at_host: it is on the job's host, not only in another
    network namespace."""

    def __init__(self, hosts, sockets, port, files, secret, at_host):
        self.hosts, self.sockets, self.port, self.files, self.at_host = hosts, sockets, port, files, at_host
        self.secret = secret.encode() if secret else None  # to recognise it
        self.leaks = raw.leaks
        self.seen = set()  # what any process can read
        self.joined = 0.0
        self.held = []  # names that it has taken first
        self.theirs = None  # PyTorch's store
        self.table = "/proc/1/net/"  # of the job's network namespace

    # ---- to have first ------------------------------------------------------------------------

    def take_names(self):
        """Takes the local sockets' names for each port that a store may get, ports near
        MASTER_PORT, and directories."""
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
        for port in [*range(*PORTS), *range(self.port, self.port + 17)]:
            for host in (*self.hosts, "*"):
                self._hold(socket.AF_UNIX, f"\0gloo_c-store-{host}:{port}", "names taken")
        for port in range(self.port + 1, self.port + 17):
            self._hold(socket.AF_INET, ("0.0.0.0", port), "ports taken")
        os.makedirs("/tmp/gloo_c-0", exist_ok=True)
        raw.count("directories taken")

    def _hold(self, family, name, what):
        taken = socket.socket(family, socket.SOCK_STREAM)
        taken.bind(name)
        taken.listen(1)
        self.held.append(taken)
        raw.count(what)

    def take_port(self, file):
        """Takes MASTER_PORT, as PyTorch's store, and the name of the file that ranks were to use."""
        self.held.append(dist.TCPStore("127.0.0.1", self.port, None, True, timedelta(seconds=5), wait_for_workers=False))
        with open(file, "wb"):
            pass
        raw.count("names that the job was given taken")

    def take_rank_0(self):
        """Serves a store to which PyTorch's store then leads."""
        os.environ["GLOO_SECURITY"] = "off"
        self.server = TcpStore("127.0.0.1", serve=True)
        os.environ.pop("GLOO_SECURITY")
        self.record = meeting.Record(meeting.host_identity(), os.urandom(8).hex(), self.server.port, "127.0.0.1", "")

    def mislead(self):
        """Puts its record into PyTorch's store; a rank that then joins counts itself in the server."""
        for key in self.keys_of_theirs():
            if key.endswith(meeting.KEY):
                self.theirs.set(key, self.record.encode())
                raw.count("records changed")
        for name in ("0", "1", "2", "group", "default_pg"):
            try:
                self.server.get(f"{name}/{self.record.token}/meeting/rank/1", 0.0)
                self.leaks.add("a rank took a stranger for rank 0")
            except GlooError:
                pass

    # ---- to get in ------------------------------------------------------------------------------

    def listeners(self):
        """Returns (family, port) of the job's listening sockets."""
        found, of_job = [], self.sockets.get()
        for name, family in (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6)):
            with open(self.table + name, encoding="ascii") as file:
                for line in file.readlines()[1:]:
                    words = line.split()
                    if words[3] == "0A" and words[9] in of_job:
                        found.append((family, int(words[1].rpartition(":")[2], 16)))
        return found

    def try_ports(self):
        for family, port in self.listeners():
            for host in self.hosts:
                raw.HOSTS[family] = host
                probe = raw.tcp(family, port)
                if probe is None:  # no listener at this address
                    continue
                probe.close()
                raw.count("TCP listeners")
                if port != self.port:  # PyTorch's store accepts any process, and answers none of these
                    raw.try_listener(lambda: raw.tcp(family, port))
                    raw.try_store(lambda: raw.tcp(family, port))
                    self.try_library(host, port)
                raw.crowd(lambda: raw.tcp(family, port), 3)

    def try_library(self, host, port):
        raw.count("stores opened by the library")
        try:
            store = TcpStore(host, port, timeout=0.3)
            store.set("stranger", b"1")
            self.leaks.add("a store let in a stranger that used the library")
        except GlooError:
            pass

    def try_sockets(self):
        """Tries Unix sockets, with and without a path."""
        of_job = self.sockets.get()
        with open(self.table + "unix", errors="replace", encoding="utf-8") as file:
            lines = file.readlines()[1:]
        for words in map(str.split, lines):
            if len(words) < 8 or not int(words[3], 16) & 0x10000 or words[6] not in of_job:
                continue
            name = words[7].replace("@", "\0", 1) if words[7][0] == "@" else words[7]
            raw.count("Unix sockets")
            if words[4] == "0001":
                raw.try_store(lambda: raw.opened(socket.AF_UNIX, socket.SOCK_STREAM, name))
            elif words[4] == "0005":
                raw.try_shared_memory(socket.SOCK_SEQPACKET, name)

    def try_record(self, said):
        """Connects as rank 1, with the record in PyTorch's store."""
        self.look_for_secret(said, "the record of a meeting")
        for here in (True, False):
            raw.count("meetings tried as rank 1")
            try:
                meeting._join(said, 1, "0", 0.3, 0.3, here)
                self.leaks.add("a stranger is rank 1 of a meeting")
            except (GlooError, ConnectionError):
                pass
        try:
            record = meeting.parse(said)
        except ConnectionError:
            return
        for host in {record.local, record.remote or self.hosts[0], *self.hosts}:
            self.try_library(host, record.port)

    # ---- to learn -------------------------------------------------------------------------------

    def keys_of_theirs(self):
        """Returns the keys of PyTorch's store."""
        if self.theirs is None:
            for host in self.hosts:
                probe = raw.opened(socket.AF_INET, socket.SOCK_STREAM, (host, self.port))
                if probe is not None:
                    probe.close()
                    self.theirs = store_at(host, self.port)
                    break
        try:
            return list(self.theirs.list_keys()) if self.theirs else []
        except RuntimeError:  # it has ended
            self.theirs = None
            return []

    def read_theirs(self):
        """Reads PyTorch's store."""
        for key in self.keys_of_theirs():
            self.seen.add("key " + re.sub(r"[0-9a-f]{8,}|[0-9]+", "N", key))
            try:
                if not self.theirs.check([key]):
                    continue
                said = self.theirs.get(key)
            except RuntimeError:
                continue
            raw.count("keys of PyTorch's store read")
            self.look_for_secret(said, f"PyTorch's key {key}")
            if key.endswith(meeting.KEY):
                self.try_record(said)

    def look_for_secret(self, said, where):
        if self.secret and (self.secret in said or bytes.fromhex(self.secret.decode()) in said):
            self.leaks.add(f"{where} has the secret")

    def read_files(self):
        found = [*self.files, *glob.glob("/dev/shm/*"), *glob.glob("/run/user/0/*")]
        for folder, _folders, names in os.walk("/tmp"):
            found += [os.path.join(folder, name) for name in names]
        for path in found:
            raw.count("files tried")
            try:
                with open(path, "rb") as file:
                    said = file.read(1 << 20)
            except OSError:
                continue
            if os.stat(path).st_uid == NOBODY:
                continue
            self.seen.add("file " + re.sub(r"[0-9a-f]{8,}|[0-9]+", "N", os.path.basename(path)))
            self.look_for_secret(said, path)
            for record in RECORD.findall(said)[-2:]:
                self.try_record(record)
            if os.access(path, os.W_OK):
                self.leaks.add(f"{path} can be written")

    def read_processes(self):
        raw.look_at_processes()
        for process in filter(str.isdigit, os.listdir("/proc")):
            for name, look in (("fd", os.listdir), ("map_files", os.listdir), ("mem", lambda path: open(path, "rb").close())):
                path = f"/proc/{process}/{name}"
                try:
                    if os.stat(f"/proc/{process}").st_uid == NOBODY:
                        break
                    raw.count("memory and descriptors of processes")
                    look(path)
                    self.leaks.add(f"the {name} of a process can be read")
                except OSError:
                    pass

    # ---- all of it --------------------------------------------------------------------------------

    def go(self, part, end, seen):
        """Runs until the pipe `end` is readable. Writes to `seen` after each turn in which the job
        existed."""
        there = False
        while not select.select([end], [], [], 0.05 if there else 0.2)[0]:
            there = bool(self.listeners())
            if part == "rank_0":
                self.mislead()
            elif part == "reader":
                self.read_theirs()
            else:
                self.try_ports()
                if self.at_host:
                    self.try_sockets()
                    self.read_files()
                    self.read_processes()
                else:
                    self.read_theirs()
            raw.count("turns")
            if there:
                os.write(seen, b"1")

    def report(self):
        return json.dumps({"tried": raw.tried, "leaks": sorted(self.leaks), "seen": sorted(self.seen)})
