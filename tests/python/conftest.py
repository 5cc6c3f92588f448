"""Ranks for tests: threads of this process with a store in memory, or processes started by `gloo
run`."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from rank_threads import raise_first, run_threads

import gloo_c

TIMEOUT = 20


def pytest_configure(config):
    config.addinivalue_line("markers", "slow: it repeats others for minutes; with SLOW_TESTS=1 only")
    config.addinivalue_line("markers", "long: it takes up to a minute; with TEST_PART=K/N one of N such tests runs")


def pytest_collection_modifyitems(config, items):
    """Deselects excluded tests, as the other suites do, so that they are not reported as skipped."""
    left_out = []
    if os.environ.get("SLOW_TESTS") != "1":
        left_out += [item for item in items if item.get_closest_marker("slow")]
    if os.environ.get("TEST_PART"):
        part, parts = map(int, os.environ["TEST_PART"].split("/"))
        longs = [item for item in items if item.get_closest_marker("long")]
        left_out += [item for n, item in enumerate(longs) if n % parts != part]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


class World:
    """A number of ranks, each a thread with a context."""

    def __init__(self, size, transport="inproc", timeout=TIMEOUT):
        self.size, self.transport, self.timeout = size, transport, timeout

    def run(self, function, expect_errors=False):
        """Returns the results of function(context) on all ranks; raises an exception of a rank.
        With expect_errors, exceptions of the library are returned instead."""
        store, results, raised = gloo_c.MemoryStore(), [None] * self.size, []

        def rank_main(rank):
            try:
                device = gloo_c.Device(self.transport)
                with gloo_c.Context(rank, self.size, store, device=device,
                                    timeout=self.timeout) as context:
                    results[rank] = function(context)
            except gloo_c.GlooError as error:
                results[rank] = error
                if not expect_errors:
                    raised.append(error)
            except BaseException as error:
                raised.append(error)

        run_threads(self.size, rank_main)
        raise_first(raised, gloo_c.GlooError)
        return results


@pytest.fixture(params=[1, 2, 3, 4], ids=lambda size: f"ranks{size}")
def world(request):
    return World(request.param)


@pytest.fixture
def pair():
    return World(2)


@pytest.fixture
def alone():
    with gloo_c.init(transport="inproc", timeout=TIMEOUT) as context:
        yield context


def gloo_command():
    """Returns the gloo command of the wheel, or any other."""
    return shutil.which("gloo", path=Path(sys.executable).parent) or shutil.which("gloo")


@pytest.fixture
def job(tmp_path):
    """Runs a program on a number of processes. Returns (status, output)."""
    gloo = gloo_command()
    if gloo is None:
        pytest.skip("there is no command gloo")

    def run(program, size, arguments=(), timeout=60):
        path = tmp_path / "program.py"
        path.write_text(program)
        command = [gloo, "run", "-n", str(size), "--", sys.executable, str(path), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout,
                              cwd=tmp_path)
        return done.returncode, done.stdout + done.stderr

    return run
