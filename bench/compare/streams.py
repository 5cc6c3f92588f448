"""What bare sockets reach: two processes that each send as many bytes as a size
says, receive as many, and do nothing else. The least that any allreduce between
two hosts must do, on the same machine and over the same link.

RANK is 0 or 1; rank 0 listens at MASTER_ADDR, MASTER_PORT, and prints one JSON
object for each of the sizes."""

import json
import os
import socket
import sys
import threading
import time

PIECE, PATIENCE_S, LEAST = 1 << 20, 30, 5


def connect(rank, address):
    if rank == 0:
        with socket.create_server(address) as listener:
            listener.settimeout(PATIENCE_S)
            return listener.accept()[0]
    ends = time.monotonic() + PATIENCE_S
    while True:
        try:
            return socket.create_connection(address, PATIENCE_S)
        except OSError:
            if time.monotonic() > ends:
                raise
            time.sleep(0.02)


def receive(link, size, room):
    while size > 0:
        got = link.recv_into(room, min(size, len(room)))
        if got == 0:
            raise SystemExit("streams: the other side is gone")
        size -= got


def exchange(link, data, room):
    sender = threading.Thread(target=link.sendall, args=(data,))
    began = time.perf_counter()
    sender.start()
    receive(link, len(data), room)
    sender.join()
    return (time.perf_counter() - began) * 1e6


def measure(link, rank, size, seconds):
    """Measures; rank 0 announces each further repetition."""
    data, room, times = bytearray(size), memoryview(bytearray(PIECE)), []
    flag = memoryview(bytearray(1))
    ends = time.monotonic() + seconds
    while True:
        if rank == 0:
            more = len(times) < LEAST or time.monotonic() < ends
            link.sendall(bytes([more]))
        else:
            receive(link, 1, flag)
            more = flag[0] == 1
        if not more:
            return sorted(times)
        times.append(exchange(link, data, room))


def main(argv):
    seconds, sizes = float(argv[0]), [int(size) for size in argv[1].split(",")]
    rank = int(os.environ["RANK"])
    with connect(rank, (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))) as link:
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        link.settimeout(PATIENCE_S)
        for size in sizes:
            times = measure(link, rank, size, seconds)
            if rank == 0:
                print(json.dumps({"collective": "streams", "bytes": size, "min_us": times[0],
                                  "p50_us": times[len(times) // 2], "p99_us": times[-1],
                                  "iterations": len(times)}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
