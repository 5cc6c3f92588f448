"""Arrays in GPU memory: gpu_cases.py, in a process of its own on the stand-in for CUDA's driver."""

import os
from pathlib import Path

import pytest
from cases import names_in, result_of

HERE = Path(__file__).resolve().parent
SLOW = "test_pieces_are_sent_while_others_are_copied"
pytestmark = pytest.mark.skipif(not os.environ.get("CUDA_STANDIN"), reason="CUDA_STANDIN names no stand-in for CUDA")


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """Runs the cases at most twice: the second time with copies of 10 MB/s."""
    made = {}

    def get(name):
        slow = name == SLOW
        if slow not in made:
            made[slow] = result_of(HERE / "gpu_cases.py", tmp_path_factory.mktemp("gpu"),
                                   ["-k", SLOW if slow else f"not {SLOW}"], STANDIN_MBPS="10" if slow else "0")
        return made[slow]

    return get


@pytest.mark.parametrize("name", names_in(HERE / "gpu_cases.py"))
def test_on_gpus(report, name):
    report(name).check(name)
