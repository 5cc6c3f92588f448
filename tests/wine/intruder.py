#!/usr/bin/env python3
"""A program beside a job that is none of its ranks.

usage: intruder.py ports N              prints the first of N free ports in a row
       intruder.py try FILE PASSES PORT N  sends what no rank sends to the listeners at N
           ports, so often, from when the first one listens, and then makes the file

`try` prints how often it tried what, and exits with 1 if a listener took it for a rank
or a client of the job."""
import os
import random
import socket
import struct
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../security"))
from stranger import (ACCEPTED, FETCH, HELLO, MAGIC, OTHER_VERSION, TCP_VERSION, VERSION, ask, blob, count, crowd,  # noqa: E402
                      frame, hello_by_name, judge, leaks, opened, report)

SILENT = 300  # connections to each listener: more than it keeps


def first_of(n):
    """Returns a port that is free with those behind it, below those of outgoing connections."""
    for _ in range(1000):
        first = random.randrange(20000, 32000)
        taken = [socket.socket() for _ in range(n)]
        try:
            for i, s in enumerate(taken):
                s.bind(("127.0.0.1", first + i))
            return first
        except OSError:
            continue
        finally:
            for s in taken:
                s.close()
    sys.exit("no free ports")


def to(port):
    return opened(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", port))


def send(port, what, data, kept=None):
    """Sends data, and keeps the connection, or closes it."""
    s = to(port)
    if s is None:
        return
    count(what)
    try:
        s.sendall(data)
    except OSError:
        pass  # it has been closed already
    if kept is None:
        s.close()
    else:
        kept.append(s)


def rank_hello(sender, receiver):
    numbers = struct.pack("<IIIIII", TCP_VERSION, 0, 1, sender, receiver, 0)
    return b"gloo_c>\0" + numbers + os.urandom(8) + bytes(24)


def wrong_job(port):
    """Says hello with right versions, as of another job. Both kinds of listeners refuse that."""
    for rank in range(4):
        s = to(port)
        if s is None:
            return
        count("hellos of another job to a rank")
        judge(ask(s, rank_hello(rank, (rank + 1) % 4)), b"gloo_c<", ACCEPTED, OTHER_VERSION, "a rank")
    fetch = frame(FETCH, struct.pack("<qI", 0, 1) + blob(b"\0") + struct.pack("<I", 1) + blob(b"gloo/rank/0\0"))
    s = to(port)
    if s is None:
        return
    count("hellos of another job to the store")
    answer = ask(s, hello_by_name(b"another job") + fetch)
    if len(answer) >= 8 and struct.unpack_from("<I", answer, 4)[0] == 0:
        leaks.add("the store served another job")


def attack(port, kept):
    for _ in range(8):
        send(port, "garbage", os.urandom(random.randrange(1, 4096)))
    store_hello = frame(HELLO, struct.pack("<QIIQ", MAGIC, VERSION, 0, 0) + blob(b"another job\0"))
    for hello in (rank_hello(1, 0), store_hello):
        send(port, "hellos that end early", hello[:random.randrange(1, len(hello))])
        send(port, "halves, then silence", hello[:len(hello) // 2], kept)
    send(port, "halves, then silence", struct.pack("<II", 1000, HELLO) + bytes(10), kept)
    send(port, "announced lengths", struct.pack("<II", 0xFFFFFFFF, HELLO) + bytes(100), kept)
    wrong_job(port)
    crowd(lambda: to(port), SILENT)


def main():
    if sys.argv[1] == "ports":
        print(first_of(int(sys.argv[2])))
        return 0
    path, passes, first, n = sys.argv[2], *map(int, sys.argv[3:6])
    kept: list[socket.socket] = []
    end = time.monotonic() + 60
    while (s := to(first)) is None and time.monotonic() < end:
        time.sleep(0.05)
    kept += [s] if s is not None else []
    for _ in range(passes):
        for port in range(first, first + n):
            attack(port, kept)
        while len(kept) > 200:
            kept.pop(0).close()
    with open(path, "w"):
        pass
    return report()


if __name__ == "__main__":
    sys.exit(main())
