"""How errors arrive in PyTorch: the cases of torch_errors.py, on two processes."""

import re
import signal
from pathlib import Path

import pytest
from torch_job import run_ranks

pytest.importorskip("torch")

PROGRAM = Path(__file__).parent / "torch_errors.py"
CASES = re.findall(r"^def (\w+)\(\):", PROGRAM.read_text(encoding="utf-8"), re.M)
HELPERS = {"die", "end_here"}


@pytest.mark.parametrize("case", [case for case in CASES if case not in HELPERS])
def test_error(case):
    (first, said_first), (second, said_second) = run_ranks(2, PROGRAM, case)
    assert first == 0, said_first
    assert second == (-signal.SIGKILL if case.startswith("killed") else 0), said_second
    if case != "wait_again_after_a_timeout":
        assert "rank 0: as expected" in said_first
    assert "Traceback" not in said_first + said_second
