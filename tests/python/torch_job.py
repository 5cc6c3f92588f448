"""Programs that run as the ranks of one PyTorch job, on this machine."""

import os
import socket
import subprocess
import tempfile
import time

from torch_forks import start


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def variables_of(rank, size, port):
    return {"RANK": str(rank), "WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
            "OMP_NUM_THREADS": "1"}


def ended(processes, timeout):
    """Returns [(status, output)] of [(process, file of its output)]. Those that exceed the timeout are ended."""
    deadline, done = time.monotonic() + timeout, []
    for process, output in processes:
        late = ""
        try:
            process.wait(max(1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            late = "\n(it was not done in time, and was killed)"
        output.seek(0)
        done.append((process.returncode, output.read().decode(errors="replace") + late))
        output.close()
    return done


def run_ranks(size, program, *arguments, timeout=60):
    """Returns [(status, output)] of each rank. Ranks that exceed the timeout are ended."""
    port, processes = free_port(), []
    for rank in range(size):
        environment = {**os.environ, **variables_of(rank, size, port), "LOCAL_RANK": str(rank)}
        if size != 3:  # as torchrun reports that all ranks are on this host
            environment["LOCAL_WORLD_SIZE"] = str(size)
        output = tempfile.TemporaryFile()
        processes.append((start([program, *arguments], environment, output), output))
    return ended(processes, timeout)
