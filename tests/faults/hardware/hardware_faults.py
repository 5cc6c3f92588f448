#!/usr/bin/env python3
"""Plants faults of hardware (plantings.py), each in a copy of the tree, and shows that the tests find them.

A planting is found if a test fails that passes without it. First the tests that the planting names run; if they pass,
all tests of its kind on stand-ins.

usage: hardware_faults.py PROJECT [option...]
  --check      only test that each planting fits the tree
  --pick N     plant N of them (10), chosen by the seed; 0: all
  --seed N     which (by default another one each time; printed)
  --kind KIND  rdma, gpu or rails only (by default the first two)
  --only TEXT  those whose names contain TEXT
  --named      run no other tests than those that plantings name
  --work DIR   where the copy is made and built; kept, so that the next run builds less"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "law"))
import tap  # noqa: E402
from plantings import PLANTINGS, Planting  # noqa: E402

FOLDERS = ("abi", "bench", "cmake", "debian", "docs", "examples", "include", "python", "scripts", "share", "src", "tests", "tools")
SUITES = {"rdma": ("transport_ibv", "transport_ibv_slow"), "gpu": ("cuda_standin",), "rails": ("transport_ibv",)}
DEFAULT = ("rdma", "gpu")
# Not the reports and the programs that need the whole library: they find what these find, later.
LEFT_OUT = ("day", "matrix", "bench", "auto", "ports", "many", "standin")
TEST_SECONDS = 240
BUILD_SECONDS = 3600


def fits(project: Path, planting: Planting) -> bool:
    return (project / planting.file).read_text().count(planting.old) == 1


def check(project: Path) -> bool:
    """Tests the list against the tree."""
    wrong = [p.name for p in PLANTINGS if not fits(project, p)]
    tap.case("each planting fits the tree", not wrong, wrong)
    names = [p.name for p in PLANTINGS]
    tap.case("there are at least 25, all with names", len(names) >= 25 and len(set(names)) == len(names))
    unchanged = [p.name for p in PLANTINGS if p.old == p.new or not p.tests]
    tap.case("each changes something, and names a test", not unchanged, unchanged)
    return tap.finish()


class Copy:
    """A copy of the tree, with a build folder."""

    def __init__(self, project: Path, work: Path) -> None:
        self.tree, self.build = work / "tree", work / "tree" / "build"
        for name in FOLDERS:
            if (project / name).is_dir():
                self.bring(project / name, self.tree / name)
        for file in project.iterdir():
            if file.is_file():
                self.bring_file(file, self.tree / file.name)
        if not (self.build / "build.ninja").exists():
            self.run("meson", "setup", str(self.build), "--buildtype=debugoptimized", "-Dwerror=true", check=True)
        self.programs: dict[str, list[str]] = {}
        self.read_tests()

    def bring(self, source: Path, to: Path) -> None:
        """Files that did not change keep their times, so that they are not built again."""
        kept = {".git", "__pycache__"}
        for entry in source.rglob("*"):
            if entry.is_file() and not kept & set(entry.parts):
                self.bring_file(entry, to / entry.relative_to(source))

    @staticmethod
    def bring_file(source: Path, to: Path) -> None:
        to.parent.mkdir(parents=True, exist_ok=True)
        if not to.exists() or to.read_bytes() != source.read_bytes():
            shutil.copy(source, to)

    def run(self, *command: str, seconds: float = BUILD_SECONDS, check: bool = False) -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, cwd=self.tree, timeout=seconds, check=check, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)

    def introspect(self, what: str) -> list[dict[str, object]]:
        done = subprocess.run(["meson", "introspect", "--" + what, str(self.build)], check=True, text=True,
                              stdout=subprocess.PIPE)
        found: list[dict[str, object]] = json.loads(done.stdout)
        return found

    def read_tests(self) -> None:
        files = {str(t["id"]): [os.path.relpath(f, self.build) for f in list_of(t["filename"])]
                 for t in self.introspect("targets")}
        self.suites: dict[str, list[str]] = {}
        for test in self.introspect("tests"):
            needs = [f for target in list_of(test["depends"]) for f in files.get(target, [])]
            self.programs[str(test["name"])] = needs
            self.suites[str(test["name"])] = [s.split(":")[-1] for s in list_of(test["suite"])]

    def tests_of(self, kind: str) -> list[str]:
        return [name for name, suites in self.suites.items()
                if (set(suites) | {name}) & set(SUITES[kind]) and not {"again", "slow"} & set(suites)
                and not any(part in name.split("_") for part in LEFT_OUT) and name in self.programs]

    def failed(self, tests: list[str]) -> tuple[str, str]:
        """Builds and runs tests. Returns the name of one that failed, or "", and what was said."""
        targets = sorted({target for test in tests for target in self.programs[test]})
        done = self.run("ninja", "-C", str(self.build), *targets)
        if done.returncode != 0:
            return "the compiler", done.stdout[-3000:]
        log = self.build / "meson-logs" / "testlog.json"
        for test in tests:
            done = self.run("meson", "test", "-C", str(self.build), "--no-rebuild", "--num-processes", "1", test,
                            "--timeout-multiplier", self.patience(test))
            if done.returncode != 0:
                result = json.loads(log.read_text().splitlines()[-1])
                said = [line for line in result["stdout"].splitlines() if line.startswith("not ok")]
                return f"{test} ({result['result'].lower()})", (said or [""])[0]
        return "", ""

    def patience(self, test: str) -> str:
        """Has a test that hangs end after TEST_SECONDS."""
        for one in self.introspect("tests"):
            if one["name"] == test:
                return f"{TEST_SECONDS / float(str(one['timeout'])):.3f}"
        return "1"


def list_of(value: object) -> list[str]:
    assert isinstance(value, list)
    return [str(one) for one in value]


def try_one(copy: Copy, planting: Planting, only_named: bool) -> str:
    """Returns the test that finds it, or ""."""
    file = copy.tree / planting.file
    before = file.read_text()
    try:
        file.write_text(before.replace(planting.old, planting.new))
        named = list(planting.tests)
        found, why = copy.failed(named)
        if not found and not only_named:
            found, why = copy.failed([t for t in copy.tests_of(planting.kind) if t not in named])
    finally:
        file.write_text(before)
    if found == "the compiler":
        print(f"# it does not build:\n{why}")
        return ""
    return f"{found} {why}".strip()


def main() -> bool:
    options = argparse.ArgumentParser(usage=__doc__)
    options.add_argument("project", type=Path)
    options.add_argument("--check", action="store_true")
    options.add_argument("--pick", type=int, default=10)
    options.add_argument("--seed", type=int, default=int(time.time()) % 100000)
    options.add_argument("--kind", choices=sorted(SUITES))
    options.add_argument("--only", default="")
    options.add_argument("--named", action="store_true")
    options.add_argument("--work", type=Path)
    chosen = options.parse_args()
    project = chosen.project.resolve()
    if chosen.check:
        return check(project)
    kinds = (chosen.kind,) if chosen.kind else tuple(SUITES) if chosen.only else DEFAULT
    candidates = [p for p in PLANTINGS if chosen.only in p.name and p.kind in kinds]
    if 0 < chosen.pick < len(candidates) and not chosen.only:
        candidates = random.Random(chosen.seed).sample(candidates, chosen.pick)
    print(f"# --seed {chosen.seed} repeats this: {len(candidates)} of {len(PLANTINGS)} plantings", flush=True)
    with tempfile.TemporaryDirectory() as temporary:
        copy = Copy(project, (chosen.work or Path(temporary)).resolve())
        found, why = copy.failed(sorted({test for p in candidates for test in p.tests}))
        tap.case("the tests pass without them", not found, found, why)
        for planting in candidates if not found else ():
            began = time.monotonic()
            by = try_one(copy, planting, chosen.named)
            print(f"# {time.monotonic() - began:.0f} s: {planting.name}: {'found by ' + by if by else 'NOT FOUND'}", flush=True)
            tap.case(f"found: {planting.name}", bool(by))
    return tap.finish()


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
