"""torch_own/run_file.py and torch_own_tests.py with tests that fail in various ways."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("expecttest")

import torch_own_tests as program

pytestmark = pytest.mark.long

FILE = '''
import os, signal, subprocess, sys, time, unittest
import torch.distributed as dist
from torch.testing._internal.common_distributed import MultiProcessTestCase

WHOSE = "import sys, torch.distributed as d; sys.exit(d.ProcessGroupGloo.__module__ != 'gloo_name')"


class Ranks(MultiProcessTestCase):
    world_size = 2

    def setUp(self):
        super().setUp()
        self._spawn_processes()

    def test_gloo_is_gloo_c(self):
        dist.init_process_group("gloo", init_method=f"file://{self.file_name}", rank=self.rank, world_size=2)
        self.assertEqual(dist.get_backend(), "gloo")
        self.assertTrue(type(dist.group.WORLD).__mro__[1].__module__.startswith("gloo_c."))
        dist.barrier()

    def test_rank_fails(self):
        self.assertEqual(self.rank, 0)


class Single(unittest.TestCase):
    def test_child_knows(self):
        self.assertEqual(subprocess.run([sys.executable, "-c", WHOSE]).returncode, 0)

    def test_hangs(self):
        time.sleep(1000)

    def test_is_killed(self):
        os.kill(os.getpid(), signal.SIGKILL)

    def test_leaves_processes(self):
        for session in (False, True):
            left = subprocess.Popen(["sleep", "1000"], start_new_session=session)
            with open(os.environ["LEFT"], "a") as file:
                file.write(f"{left.pid}\\n")

    def test_skipped(self):
        self.skipTest("for a reason")
'''


def results(folder, backend, *patterns, deadline=0.0):
    (folder / "made_up.py").write_text(FILE, encoding="utf-8")
    start = [str(program.HERE / "start")] if backend == program.OURS else []
    done = subprocess.run(
        [sys.executable, program.HERE / "run_file.py", folder / "made_up.py", folder / "results", folder / "log",
         "20", str(deadline), *patterns], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300,
        env={**os.environ, "PYTHONPATH": ":".join([*start, str(folder)]), "LEFT": str(folder / "left"),
             "OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stderr
    lines = (folder / "results").read_text(encoding="utf-8").splitlines()
    return {each["test"]: each for each in map(json.loads, lines)}


@pytest.fixture(scope="module")
def ours(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ours")
    return folder, results(folder, program.OURS)


def test_name_gloo_is_answered_by_gloo_c_in_all_processes(ours):
    for test in ("Ranks.test_gloo_is_gloo_c", "Single.test_child_knows"):
        assert ours[1][test]["outcome"] == "passed", ours[1][test]["why"]


def test_without_the_start_folder_gloo_is_gloo(tmp_path):
    found = results(tmp_path, program.THEIRS, "gloo_is_gloo_c", "child_knows")
    assert [each["outcome"] for each in found.values()] == ["failed", "failed"]


@pytest.mark.parametrize("test, what, why", [
    ("Ranks.test_rank_fails", "failed", "AssertionError: Scalars are not equal!"),
    ("Single.test_hangs", "failed", "did not end within 20"),
    ("Single.test_is_killed", "failed", "the process of the test has ended"),
    ("Single.test_leaves_processes", "passed", ""),
    ("Single.test_skipped", "skipped", "for a reason")])
def test_outcome_is_told(ours, test, what, why):
    assert ours[1][test]["outcome"] == what
    assert why in ours[1][test]["why"]


def test_left_processes_are_ended(ours):
    left = (ours[0] / "left").read_text(encoding="utf-8").split()
    assert len(left) == 2
    assert not any(Path(f"/proc/{process}").exists() for process in left)


def test_nothing_begins_after_the_deadline(tmp_path):
    found = results(tmp_path, program.THEIRS, "Single", deadline=time.time() - 1)
    assert {each["outcome"] for each in found.values()} == {"not run"}
    assert not program.judge({"made_up.py": {program.THEIRS: found, program.OURS: found}})


def result(outcome, why=""):
    return {"outcome": outcome, "why": why, "seconds": 1.0}


@pytest.mark.parametrize("theirs, ours, good", [
    (result("passed"), result("passed"), True),
    (result("passed"), result("failed", "ValueError: other words"), True),
    (result("passed"), result("failed", "ValueError: not known"), False),
    (result("passed"), result("skipped", "for a reason"), False),
    (result("failed"), result("failed"), True),
    (result("failed"), result("passed"), True)])
def test_difference_counts_unless_it_is_known(monkeypatch, theirs, ours, good):
    monkeypatch.setattr(program, "KNOWN", {"made_up.py": {"Single.test": ("a reason", "other words")}})
    assert program.judge({"made_up.py": {program.THEIRS: {"Single.test": theirs},
                                         program.OURS: {"Single.test": ours}}}) == good


def test_missing_test_counts():
    assert not program.judge({"made_up.py": {program.THEIRS: {"Single.test": result("passed")},
                                             program.OURS: {}}})


@pytest.mark.parametrize("script, reason", [
    ("exec sleep 600", "apt-get update did not end within 0.5 s"),
    ("echo 'E: Unable to find a source package for pytorch'; exit 100",
     "apt-get update failed: E: Unable to find a source package for pytorch")])
def test_why_the_files_cannot_be_had_is_told(tmp_path, monkeypatch, script, reason):
    (tmp_path / "apt-get").write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    (tmp_path / "apt-get").chmod(0o755)
    (tmp_path / "sources.list").write_text("deb http://127.0.0.1:9/debian trixie main\n", encoding="utf-8")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(program.files, "APT", tmp_path)
    monkeypatch.setattr(program.files, "LONGEST", 0.5 if "sleep" in script else 60)
    with pytest.raises(program.files.NotToBeHad, match=reason):
        program.files.debian()
