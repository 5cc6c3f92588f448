"""PyTorch: ranks that join a running job, and the program of docs/guide/elastic.md."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from torch_job import free_port, run_ranks

pytest.importorskip("torch")

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs/guide/elastic.md"
LIMIT_S = 240


def test_ranks_admit_another_and_go_on_without_it(tmp_path):
    done = run_ranks(3, HERE / "torch_grow.py", f"file://{tmp_path}/store", timeout=LIMIT_S)
    assert [status for status, _said in done] == [0, 0, -signal.SIGKILL], done
    assert all("as expected" in said for _status, said in done[:2]), done


# ---- the page ------------------------------------------------------------------------------------

@pytest.fixture(name="program")
def fixture_program(tmp_path):
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    (code,) = [block for block in blocks if "DistributedDataParallel" in block]
    assert code.count("\n") <= 40
    path = tmp_path / "train.py"
    path.write_text(code)
    return path


def start(program, tmp_path, name, **variables):
    """Starts a rank. Returns the process, and the file of its output."""
    path = tmp_path / name
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1",
                   "GLOO_START_TIMEOUT": "200", **variables}
    with open(path, "w") as output:
        process = subprocess.Popen([sys.executable, HERE / "torch_page.py", program, "1"], env=environment,
                                   stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
    return process, path


def ranks(program, tmp_path, size, **variables):
    port = str(free_port())
    return [start(program, tmp_path, f"rank{rank}", RANK=str(rank), WORLD_SIZE=str(size), MASTER_ADDR="127.0.0.1",
                  MASTER_PORT=port, LOCAL_RANK=str(rank), LOCAL_WORLD_SIZE=str(size), **variables)
            for rank in range(size)]


def wait_for(text, process, path):
    deadline = time.monotonic() + LIMIT_S
    while text not in path.read_text():
        assert process.poll() is None and time.monotonic() < deadline, path.read_text()
        time.sleep(0.05)


def ended(started):
    """Returns the statuses and the outputs. Ranks that exceed the limit are ended."""
    deadline, done = time.monotonic() + LIMIT_S, []
    for process, path in started:
        try:
            process.wait(max(1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        done.append((process.returncode, path.read_text()))
    return done


def loss_of(said):
    return float(re.search(r"^rank \d of \d: loss ([\d.]+)$", said, re.M)[1])


@pytest.mark.long
def test_the_loop_of_the_page_loses_a_rank_and_gets_another(program, tmp_path):
    (alone,) = ended(ranks(program, tmp_path, 1))
    assert alone[0] == 0, alone
    store = f"file://{tmp_path}/store"
    present = ranks(program, tmp_path, 3, GLOO_STORE=store)
    try:
        wait_for("reason='shrink'", *present[0])
    finally:
        newcomer = start(program, tmp_path, "newcomer", GLOO_STORE=store, GLOO_JOIN="1")
        done = ended([*present, newcomer])
    assert [status for status, _said in done] == [0, -signal.SIGKILL, 0, 0], done
    said = [said for _status, said in done]
    assert re.search(r"reason='shrink', rank=0, size=2, step=(19|20), root=", said[0]), said
    assert "reason='shrink', rank=1, size=2, " in said[2] and "reason='grow', rank=1, size=3, " in said[2], said
    joined = re.search(r"reason='start', rank=2, size=3, step=(\d+), root=[01]", said[3])
    assert joined and 40 <= int(joined[1]) < 60, said
    assert f"this process has made {60 - int(joined[1])} steps" in said[3], said
    for text in (said[0], said[2], said[3]):
        assert loss_of(text) == pytest.approx(loss_of(alone[1]), abs=2e-4), said
