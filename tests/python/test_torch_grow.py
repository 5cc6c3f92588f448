"""PyTorch: ranks that join a running job."""

import signal
from pathlib import Path

import pytest
from torch_job import run_ranks

pytest.importorskip("torch")

HERE = Path(__file__).parent
LIMIT_S = 240


def test_ranks_admit_another_and_go_on_without_it(tmp_path):
    done = run_ranks(3, HERE / "torch_grow.py", f"file://{tmp_path}/store", timeout=LIMIT_S)
    assert [status for status, _said in done] == [0, 0, -signal.SIGKILL], done
    assert all("as expected" in said for _status, said in done[:2]), done
