"""Programs that run as the ranks of one PyTorch job, on this machine."""

import os
import socket
import subprocess
import sys
import time


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def run_ranks(size, program, *arguments, timeout=60):
    """Returns [(status, output)] of each rank. Ranks that exceed the timeout are ended."""
    port, processes = free_port(), []
    for rank in range(size):
        environment = {**os.environ, "RANK": str(rank), "LOCAL_RANK": str(rank),
                       "WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1",
                       "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
        if size != 3:  # as torchrun reports that all ranks are on this host
            environment["LOCAL_WORLD_SIZE"] = str(size)
        processes.append(subprocess.Popen(
            [sys.executable, str(program), *map(str, arguments)], env=environment,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
    deadline, done = time.monotonic() + timeout, []
    for process in processes:
        try:
            text, _ = process.communicate(timeout=max(1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            text = process.communicate()[0] + "\n(it was not done in time, and was killed)"
        done.append((process.returncode, text))
    return done
