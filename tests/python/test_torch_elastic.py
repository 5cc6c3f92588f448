"""Training that survives the death of a rank: by torchrun, which restarts all, and by the surviving
ranks."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import gloo_command
from torch_job import run_ranks

pytest.importorskip("torch")

pytestmark = pytest.mark.long

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "pytorch"
STEPS = ("--steps", "12", "--at", "7")


def run(*command, cwd):
    environment = {name: value for name, value in os.environ.items() if name != "LOCAL_WORLD_SIZE"}
    process = subprocess.Popen([str(part) for part in command], cwd=cwd, text=True,
                               env={**environment, "OMP_NUM_THREADS": "1"}, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        said, _none = process.communicate(timeout=240)
    except subprocess.TimeoutExpired:
        process.terminate()  # launchers take that as an order to end their processes, too
        said, _none = process.communicate(timeout=60)
        pytest.fail(f"it was not done in time, and was ended:\n{said}")
    return process.returncode, said


def losses(said):
    return [float(loss) for loss in re.findall(r"loss ([\d.]+)", said)]


@pytest.fixture(name="loss", scope="module")
def fixture_loss(tmp_path_factory):
    """Returns the loss of one rank without failures: all take the same steps."""
    checkpoint = tmp_path_factory.mktemp("one") / "digits.pt"
    ((status, said),) = run_ranks(1, FOLDER / "restarts.py", *STEPS, "--checkpoint", checkpoint,
                                  timeout=240)
    assert status == 0, said
    (found,) = losses(said)
    return found


def test_those_that_are_left_end_by_themselves(tmp_path):
    """They fail with an error that names the rank. torchrun waits for nothing else."""
    done = run_ranks(3, FOLDER / "restarts.py", *STEPS, "--kill", 1, "--checkpoint",
                     tmp_path / "digits.pt", timeout=240)
    assert [status for status, _said in done] == [1, -signal.SIGKILL, 1], done
    for rank in (0, 2):
        assert re.search(r"BackendError: (reported by rank \d: )?rank 1 ", done[rank][1]), done


def test_torchrun_starts_again_from_the_checkpoint(tmp_path, loss):
    status, said = run(sys.executable, "-m", "torch.distributed.run", "--standalone",
                       "--nproc-per-node", 3, "--max-restarts", 2, FOLDER / "restarts.py", *STEPS,
                       "--every", 5, "--kill", 1, "--checkpoint", "digits.pt", cwd=tmp_path)
    assert status == 0, said
    assert "restart 0: 3 ranks, from step 0" in said, said
    assert "restart 1: 3 ranks, from step 5" in said and "restart 2" not in said, said
    assert losses(said) == [pytest.approx(loss, abs=2e-4)], said


@pytest.mark.parametrize("victim", [pytest.param(0, marks=pytest.mark.slow), 2])
def test_ddp_goes_on_with_those_that_are_left(tmp_path, loss, victim):
    gloo = gloo_command()
    if gloo is None:
        pytest.skip("there is no command gloo")
    status, said = run(gloo, "run", "-n", 4, "--min-ranks", 3, "--", sys.executable,
                       FOLDER / "survivors.py", *STEPS, "--kill", victim, cwd=tmp_path)
    assert status == 0, said
    ends = re.findall(r"rank (\d) of (\d): loss [\d.]+, parameters are the same", said)
    assert sorted(ends) == [("0", "3"), ("1", "3"), ("2", "3")], said
    assert losses(said) == [pytest.approx(loss, abs=2e-4)] * 3, said


@pytest.mark.parametrize("end", ["last", pytest.param("too few", marks=pytest.mark.slow)])
def test_groups_of_those_that_are_left(end):
    done = run_ranks(4, Path(__file__).parent / "torch_elastic.py", end, timeout=240)
    killed = -signal.SIGKILL
    assert [status for status, _said in done] == [killed, killed, 0, killed], done
    assert "as expected" in done[2][1], done
