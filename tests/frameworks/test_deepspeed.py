"""DeepSpeed on CPUs, started by its own launcher."""

import socket

from conftest import HERE


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_every_stage(check_losses):
    check_losses(["deepspeed", "--num_gpus", 2, "--master_port", free_port(), HERE / "job_deepspeed.py"],
                 ranks=2, steps=40)
