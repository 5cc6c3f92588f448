#!/usr/bin/env python3
"""A process of another user on the host of a job. Started as root, it becomes
the user nobody. From what the system shows to all users, it tries to learn secrets,
to join the job, to set values and to exhaust listeners.

usage: stranger.py try SECONDS PROGRAM    attacks all listeners repeatedly
       stranger.py take PORT,.. port|socket  takes the store's address first
       stranger.py reach SECONDS PID ADDRESS  attacks from another host all listeners
           in the network namespace of PID, at ADDRESS

`try` and `reach` print their attempts, and exit with 1 if one succeeded. Run `try`
in namespaces with no other job: it attacks all sockets, except those of processes
with other names than PROGRAM. Launchers have ports, too, and some do not tolerate
connections: mpiexec of MPICH ends."""
import os
import re
import socket
import struct
import sys
import time

NOBODY = 65534
SOURCES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../src")


def version(header, name):
    """Returns the version of a protocol from its header. A rank refuses a hello of
    another version without further checks."""
    with open(os.path.join(SOURCES, header)) as file:
        return int(re.search(r"#define %s ([0-9]+)" % name, file.read()).group(1))


MAGIC = 0x65726F7473636C67
VERSION = version("rendezvous/store/tcp/tcp_protocol.h", "GLI_TCP_VERSION")
TCP_VERSION = version("transport_tcp/handshake.h", "GLI_TCP_VERSION")
SHM_VERSION = version("transport_shm/note.h", "GLI_SHM_VERSION")
HELLO, SET, FETCH = 1, 2, 3
ACCEPTED, OTHER_VERSION = 1, 6  # replies of a rank over TCP
SHM_ACCEPTED, SHM_OTHER_VERSION = 2, 9
JOBS = [b"", b"known", b"none"]

TABLES = "/proc/net/"  # with tables of the system's sockets
HOSTS = {socket.AF_INET: "127.0.0.1", socket.AF_INET6: "::1"}

tried = {}
leaks = set()


def count(what):
    tried[what] = tried.get(what, 0) + 1


# ---- public information ------------------------------------------------------


def sockets_of_others(program):
    """Returns links of descriptors of other programs. Becomes root meanwhile, unlike a real stranger."""
    found = set()
    os.seteuid(0)
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/comm" % pid) as file:
                if file.read().strip() == program:
                    continue
            for fd in os.listdir("/proc/%s/fd" % pid):
                found.add(os.readlink("/proc/%s/fd/%s" % (pid, fd)))
        except OSError:
            continue
    os.seteuid(NOBODY)
    return found


def tcp_listeners(others):
    """Returns (family, port) of each TCP listener."""
    found = []
    for name, family in (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6)):
        with open(TABLES + name) as table:
            for line in table.readlines()[1:]:
                words = line.split()
                if words[3] == "0A" and "socket:[%s]" % words[9] not in others:
                    found.append((family, int(words[1].split(":")[1], 16)))
    return found


def abstract_sockets():
    """Returns (type, name) of each listening socket with a name of the library."""
    found = []
    with open("/proc/net/unix", errors="replace") as table:
        for line in table.readlines()[1:]:
            words = line.split()
            if len(words) > 7 and words[7].startswith("@gloo_c") and int(words[3], 16) & 0x10000:
                kind = socket.SOCK_STREAM if words[4] == "0001" else socket.SOCK_SEQPACKET
                found.append((kind, "\0" + words[7][1:]))
    return found


def look_at_processes():
    """Looks for secrets on command lines and in readable environments."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.stat("/proc/" + pid).st_uid == os.getuid():
                continue
            count("processes")
            with open("/proc/%s/cmdline" % pid, "rb") as file:
                line = file.read()
            if re.search(rb"[0-9a-f]{32}", line) or b"SECRET=" in line:
                leaks.add("a command line has a secret")
            for match in re.findall(rb"GLOO_JOB_ID=([^\0]+)", line):
                JOBS.append(match)
        except OSError:
            continue
        try:
            with open("/proc/%s/environ" % pid, "rb") as file:
                if file.read():
                    leaks.add("an environment can be read")
        except OSError:
            pass


# ---- sockets -----------------------------------------------------------------


def opened(family, kind, place):
    s = socket.socket(family, kind)
    s.settimeout(0.3)
    try:
        s.connect(place)
        return s
    except OSError:
        s.close()
        return None


def tcp(family, port):
    host = HOSTS[family]
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return opened(family, socket.SOCK_STREAM, (host, port))


def ask(s, data):
    """Sends data and returns the reply, up to the end or a timeout."""
    got = b""
    if s is None:
        return got
    try:
        s.sendall(data)
        while len(got) < 65536:
            part = s.recv(65536)
            if not part:
                break
            got += part
    except OSError:
        pass
    s.close()
    return got


# ---- the store ---------------------------------------------------------------


def frame(op, body):
    return struct.pack("<II", len(body), op) + body


def blob(data):
    return struct.pack("<I", len(data)) + data


def hello_by_name(job):
    return frame(HELLO, struct.pack("<QIIQ", MAGIC, VERSION, 0, 0) + blob(job + b"\0"))


def try_store(open_it):
    fetch = frame(FETCH, struct.pack("<qI", 0, 1) + blob(b"\0") + struct.pack("<I", 1) + blob(b"gloo/rank/0\0"))
    poison = frame(SET, blob(b"gloo/outcome\0") + blob(struct.pack("<III", 9, 1, 1) + b"all is well"))
    for job in JOBS[:6]:
        for request in (fetch, poison):
            count("hellos to a store by name")
            answer = ask(open_it(), hello_by_name(job) + request)
            if len(answer) >= 8 and struct.unpack_from("<I", answer, 4)[0] == 0:
                leaks.add("a store let a stranger in")
    count("hellos to a store without a proof")
    nonce = os.urandom(16)
    answer = ask(open_it(), frame(HELLO, struct.pack("<QII", MAGIC, VERSION, 1) + nonce) + fetch + bytes(16))
    # Expects one reply, a challenge or an error, and none to the request.
    if len(answer) > 8 and len(answer) > 8 + struct.unpack_from("<I", answer)[0]:
        leaks.add("a store answered a request without a proof")


# ---- the transports ----------------------------------------------------------


def try_listener(open_it):
    """Sends hellos as each rank to the next one, with a random key."""
    for rank in range(4):
        count("hellos to a rank over TCP")
        numbers = struct.pack("<IIIIII", TCP_VERSION, 0, 1, rank, (rank + 1) % 4, 0)
        judge(ask(open_it(), b"gloo_c>\0" + numbers + os.urandom(8) + bytes(24)), b"gloo_c<", ACCEPTED,
              OTHER_VERSION, "a rank over TCP")


def judge(answer, magic, accepted, other, of):
    """Checks a reply, whose type is the word after the version."""
    word = struct.unpack_from("<I", answer, 12)[0] if answer[:7] == magic and len(answer) >= 16 else 0
    if word == accepted:
        leaks.add("%s accepted a stranger" % of)
    if word == other:
        leaks.add("%s is asked by another version than its own: the stranger tries nothing" % of)


def try_shared_memory(kind, name):
    """Sends a hello with two descriptors."""
    count("packets to a rank's socket")
    s = opened(socket.AF_UNIX, kind, name)
    if s is None:
        return
    hello = b"gloo_c=\0" + struct.pack("<IIIIQ", SHM_VERSION, 1, 1, 0, 4711) + bytes(64)
    rings = [os.memfd_create("stranger"), os.memfd_create("stranger")]
    try:
        socket.send_fds(s, [hello], rings)
    except OSError:
        pass
    for ring in rings:
        os.close(ring)
    judge(ask(s, b""), b"gloo_c=", SHM_ACCEPTED, SHM_OTHER_VERSION, "a rank's shared memory")


# ---- crowds ------------------------------------------------------------------

held = []


def crowd(open_it, n):
    """Opens silent connections and keeps them."""
    for _ in range(n):
        s = open_it()
        if s is not None:
            count("silent connections")
            held.append(s)
    while len(held) > 600:
        held.pop(0).close()


def report():
    for what in sorted(tried):
        print("tried %s: %d" % (what, tried[what]))
    for leak in sorted(leaks):
        print("LEAK: %s" % leak)
    return 1 if leaks else 0


def try_tcp(others):
    for family, port in tcp_listeners(others):
        count("TCP listeners")
        try_store(lambda: tcp(family, port))
        try_listener(lambda: tcp(family, port))
        crowd(lambda: tcp(family, port), 20)


def reach(seconds, pid, address):
    """Attacks the listeners of another network namespace, with no other information."""
    global TABLES
    TABLES = "/proc/%s/net/" % pid
    HOSTS.update(dict.fromkeys(HOSTS, address))
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try_tcp(())
    return report()


def main():
    if sys.argv[1] == "reach":
        return reach(float(sys.argv[2]), sys.argv[3], sys.argv[4])
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, 0)
    if sys.argv[1] == "take":
        for port in map(int, sys.argv[2].split(",")):
            if sys.argv[3] == "port":
                s = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
                s.bind(("127.0.0.1", port))
            else:
                s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                s.bind("\0gloo_c-store-127.0.0.1:%d" % port)
            s.listen(8)
            held.append(s)
        print("taken", flush=True)
        time.sleep(60)
        return 0
    end = time.monotonic() + float(sys.argv[2])
    while time.monotonic() < end:
        look_at_processes()
        try_tcp(sockets_of_others(sys.argv[3]))
        for kind, name in abstract_sockets():
            count("abstract sockets")
            if kind == socket.SOCK_STREAM:
                try_store(lambda: opened(socket.AF_UNIX, kind, name))
            else:
                try_shared_memory(kind, name)
            crowd(lambda: opened(socket.AF_UNIX, kind, name), 20)
    return report()


if __name__ == "__main__":
    sys.exit(main())
