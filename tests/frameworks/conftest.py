"""Programs of frameworks that name gloo, started with PyTorch's gloo and with gloo_c under that name."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
EXAMPLES = HERE.parents[1] / "examples" / "frameworks"
LINE = re.compile(r"^loss (\d+) (\d+) (\S+)$", re.M)  # rank, step, float.hex()
SAID = re.compile(r'the backend "gloo" of torch\.distributed is gloo_c \S+ in this job')


def run(command, folder, replaced, timeout=900):
    """Returns the status and the output of a command, whose processes end with it. `python` and programs
    of the environment are found first."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("GLOO_", "TORCH_"))}
    variables |= {"PATH": f"{Path(sys.executable).parent}:{variables['PATH']}", "OMP_NUM_THREADS": "1",
                  "HF_HUB_OFFLINE": "1", "HOME": str(folder), "PYTHONUNBUFFERED": "1", "CUDA_VISIBLE_DEVICES": "",
                  "GLOO_C_REPLACE_GLOO": "1" if replaced else "0"}
    with open(folder / "output", "w+", encoding="utf-8", errors="replace") as output:
        process = subprocess.Popen([str(word) for word in command], cwd=folder, env=variables, text=True,
                                   stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                                   start_new_session=True)
        try:
            status = process.wait(timeout)
        except subprocess.TimeoutExpired:
            status = f"none after {timeout} s"
        finally:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()
        output.seek(0)
        return status, output.read()


@pytest.fixture
def check_losses(tmp_path):
    """Runs a command with gloo, then with gloo_c in its place, and compares the losses of each rank and
    step: lines "loss RANK STEP HEX". They are equal bit by bit on two ranks, where the sum has one order."""
    def check(command, ranks, steps, timeout=900):
        found = {}
        for replaced in (False, True):
            folder = tmp_path / ("gloo_c" if replaced else "gloo")
            folder.mkdir()
            status, said = run(command, folder, replaced, timeout)
            assert status == 0, said[-4000:]
            found[replaced] = {(int(rank), int(step)): float.fromhex(loss) for rank, step, loss in LINE.findall(said)}
            assert len(found[replaced]) == ranks * steps, said[-4000:]
            assert bool(SAID.search(said)) == replaced, said[-4000:]
        assert len(set(found[True].values())) > steps // 2, "the loss does not change"
        assert found[True] == found[False]

    return check


def check_cluster(engine, tmp_path):
    """Runs a cluster of two hosts, which are namespaces, started by the engine's own commands."""
    status, said = run(["bash", HERE / f"{engine}_hosts.sh", Path(sys.executable).parent], tmp_path, False, timeout=320)
    if said.startswith("1..0 # SKIP"):
        pytest.skip(said.partition("SKIP ")[2].strip())
    assert status == 0 and "\n1.." in said, said[-6000:]
