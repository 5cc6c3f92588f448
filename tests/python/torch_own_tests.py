"""PyTorch's own tests of torch.distributed, with the backend gloo_c and with PyTorch's gloo.

usage: torch_own_tests.py [--backends gloo,gloo_c] [--sizes 2,3,4,8] [--limit SECONDS] [--spawn]
                          [--json FILE] [--log FILE] [TEST ...]

They come with PyTorch: torch/testing/_internal/distributed/distributed_test.py, which needs the
package expecttest too. It prints how many pass, are skipped and fail, why they are skipped, and each
test that fails, or that only gloo_c skips. --json writes all results, --log what the ranks wrote. The
status is 1 if a test that gloo passes is skipped with gloo_c, or fails otherwise than KNOWN says.

Many of the tests are for backends of one name only, "gloo" or "mpi", though others could pass them.
Those run here with both backends; the table counts the ones that are not meant for a backend.

All four sizes take about fifteen minutes on two cores. Ranks are forked from a process that has
imported PyTorch; with --spawn each starts anew, as in PyTorch's own runs, which takes several times
as long and tests the end of Python, too."""

import argparse
import functools
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

OURS, THEIRS = "gloo_c", "gloo"

# Tests that only gloo itself passes: why, and with what others fail (a pattern).
NOT_IN_TIME = r"AssertionError: .* does not match \"[^\"]*barrier #\d+ did not complete within"
WORDS = "the test looks for the words of gloo's own message", NOT_IN_TIME
REFUSED = ("torch.distributed.monitored_barrier is for the name gloo only in PyTorch 2.13; since 2.14 the "
           "test looks for the words of gloo's own message",
           f"ValueError: monitored_barrier is only implemented for GLOO backend|{NOT_IN_TIME}")
NAMES_ONE = (REFUSED[0] + ", and for the first rank that is late, or all; gloo_c names one of them",
             REFUSED[1])
KNOWN = {
    "test_barrier_timeout_full_group": WORDS,
    "test_barrier_timeout_global": WORDS,
    "test_barrier_timeout_group": WORDS,
    "test_monitored_barrier_gloo_rank_0_timeout": WORDS,
    "test_monitored_barrier_gloo": REFUSED,
    "test_monitored_barrier_gloo_subgroup": REFUSED,
    "test_monitored_barrier_failure_order": NAMES_ONE,
    "test_monitored_barrier_wait_all_ranks": NAMES_ONE,
}

# Why tests are skipped: the first pattern that is in what they say.
REASONS = {"it is for NCCL": r"(?i)nccl|high priority", "it needs GPUs": "CUDA|GPU",
           "it needs more ranks": "world size",
           "PyTorch has switched it off": r"github.com/pytorch|failing|flak", "": ""}


# ---- all tests with one backend, on so many ranks: a process of its own --------------------------

class Name(str):
    """The name of a backend that is taken for gloo where it is compared."""

    def __eq__(self, other):
        return other == THEIRS or str.__eq__(self, other)

    def __ne__(self, other):
        return not self == other

    __hash__ = str.__hash__


def skipped(tests):
    return {name: getattr(tests, name).__unittest_skip_why__ for name in dir(tests)
            if getattr(getattr(tests, name), "__unittest_skip__", False)}


def tests_for(module, backend):
    """The tests as they are for a backend of this name: each says whether it is skipped."""
    found = importlib.util.spec_from_file_location("copy", module.__file__)
    copy = importlib.util.module_from_spec(found)
    os.environ["BACKEND"] = backend
    found.loader.exec_module(copy)
    return copy.DistributedTest._DistTestBase


def lift_guards(module, backend):
    """Let those run that are meant for gloo's name, or MPI's. Returns which are not meant for this
    one: {test: why}"""
    tests = module.DistributedTest._DistTestBase
    left_out = skipped(tests)
    for name in left_out.keys() - skipped(tests_for(module, "mpi")).keys():
        getattr(tests, name).__unittest_skip__ = False
        del left_out[name]
    guarded = skipped(tests_for(module, backend))
    os.environ["BACKEND"] = backend
    return {name: why for name, why in guarded.items() if name not in left_out}


class Results(unittest.TestResult):
    """One line of JSON for each test."""

    def __init__(self, lines, guarded):
        super().__init__()
        self.lines, self.guarded = lines, guarded

    def startTest(self, test):
        super().startTest(test)
        self.began = time.monotonic()

    def tell(self, test, outcome, why=""):
        name = test.id().rpartition(".")[2]
        self.lines.write(json.dumps({
            "test": name, "outcome": outcome, "why": why, "guard": self.guarded.get(name),
            "seconds": round(time.monotonic() - self.began, 2)}) + "\n")
        self.lines.flush()

    def addSuccess(self, test):
        self.tell(test, "passed")

    def addSkip(self, test, reason):
        self.tell(test, "skipped", reason)

    def addFailure(self, test, error):
        self.tell(test, "failed", self._exc_info_to_string(error, test))

    addError = addFailure


def load(backend):
    """The module of the tests, as it is for gloo, and then taught the name of the backend."""
    import torch
    from torch.testing._internal import common_distributed

    torch.set_num_threads(1)
    os.environ["BACKEND"] = THEIRS
    from torch.testing._internal.distributed import distributed_test as module

    common_distributed.TIMEOUT_OVERRIDE.clear()
    if backend != THEIRS:
        import gloo_c.torch  # noqa: F401

        for features in ("ddp", "subgroup", "plugin", "cuda", "gpu"):
            common_distributed.DistTestCases.backend_feature[features].add(backend)
    module.BACKEND = Name(backend)
    os.environ["BACKEND"] = backend
    return module


@functools.cache
def tests_class(backend):
    from torch import multiprocessing

    module = load(backend)

    class OwnTests(module.TestDistBackend, module.DistributedTest._DistTestBase):
        tested, start = module, "fork"

        def setUp(self):
            super().setUp()
            self._start_processes(multiprocessing.get_context(self.start).Process)

        def tearDown(self):
            ranks = self.processes
            super().tearDown()
            for rank in ranks:
                rank.join(5)
                rank.kill()
                rank.join()

        def _check_return_codes(self, test, seconds):
            """PyTorch looks at rank 0 only."""
            super()._check_return_codes(test, seconds)
            ends = [rank.exitcode for rank in self.processes]
            if any(ends) and test not in self.skip_return_code_checks:
                raise RuntimeError(f"the statuses of the ranks are {ends}")

    OwnTests.__module__, OwnTests.__qualname__ = __name__, "OwnTests"
    return OwnTests


def __getattr__(name):
    """Ranks that are spawned look for the class here."""
    if name != "OwnTests":
        raise AttributeError(name)
    return tests_class(os.environ["BACKEND"])


def run_one(given):
    tests = tests_class(given.one)
    tests.start = "spawn" if given.spawn else "fork"
    guarded = lift_guards(tests.tested, given.one)
    names = given.tests or unittest.defaultTestLoader.getTestCaseNames(tests)
    with open(given.json, "w", encoding="utf-8") as lines:
        unittest.TestSuite(tests(name) for name in names).run(Results(lines, guarded))


# ---- all runs, and what they gave ----------------------------------------------------------------

def run(given, backend, size, log):
    """{test: what is known of it}"""
    with tempfile.TemporaryDirectory() as folder:
        lines = Path(folder) / "results"
        variables = {**os.environ, "WORLD_SIZE": str(size), "OMP_NUM_THREADS": "1",
                     "TEMP_DIR": folder, "TMPDIR": folder, "INIT_METHOD": f"file://{folder}/meet",
                     "DISTRIBUTED_TESTS_DEFAULT_TIMEOUT": str(given.limit)}
        status = subprocess.run(
            [sys.executable, __file__, "--one", backend, "--json", lines,
             *(["--spawn"] if given.spawn else []), *given.tests], env=variables,
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=False).returncode
        if status:
            sys.exit(f"{backend} on {size} ranks: the run ended with status {status}")
        told = [json.loads(line) for line in lines.read_text(encoding="utf-8").splitlines()]
    return {each.pop("test"): each for each in told}


def run_all(given):
    """{size: {backend: {test: what is known of it}}}"""
    found = {}
    with open(given.log, "w", encoding="utf-8") as log:
        for size in given.sizes:
            for backend in given.backends:
                began = time.monotonic()
                results = found.setdefault(size, {})[backend] = run(given, backend, size, log)
                print(f"{backend} on {size} ranks: {len(results)} tests in "
                      f"{time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    return found


def count(results, outcome):
    return sum(each["outcome"] == outcome for each in results.values())


def errors(text):
    """The exceptions that ended the ranks."""
    found = re.findall(r"^(?:[\w.]+\.)?(\w*(?:Error|Exception): .*)", text, re.M)
    return [line for line in found if not line.startswith("RuntimeError: Process ")] or [text]


def known(test, each):
    """Why it cannot be otherwise, where that is known and it failed as it then does."""
    why, pattern = KNOWN.get(test, (None, ""))
    return why if why and re.search(pattern, each["why"]) else None


def show(found):
    print("| ranks | backend | passed | skipped | failed as known | failed | of all: meant for others |\n"
          "|---|---|---:|---:|---:|---:|---:|")
    for size, runs in found.items():
        for backend, results in runs.items():
            excused = sum(known(test, each) is not None for test, each in results.items()
                          if backend != THEIRS and each["outcome"] == "failed")
            print(f"| {size} | {backend} | {count(results, 'passed')} | {count(results, 'skipped')} "
                  f"| {excused} | {count(results, 'failed') - excused} | "
                  f"{sum(each['guard'] is not None for each in results.values())} |")


def show_skips(found):
    counts = {}
    for size, runs in found.items():
        for backend, results in runs.items():
            for each in results.values():
                if each["outcome"] == "skipped":
                    why = next(name or each["why"] for name, pattern in REASONS.items()
                               if re.search(pattern, each["why"]))
                    column = counts.setdefault(why, {})
                    column[size, backend] = column.get((size, backend), 0) + 1
    columns = [(size, backend) for size, runs in found.items() for backend in runs]
    print("\n| skipped | " + " | ".join(f"{backend}, {size}" for size, backend in columns) + " |\n"
          "|---|" + "---:|" * len(columns))
    for why, column in counts.items():
        print(f"| {why} | " + " | ".join(str(column.get(place, 0)) for place in columns) + " |")


def remarkable(found):
    """(what happened, the test, backend, why, whether it is as it should be), of what is no success
    and no skip that both have."""
    for runs in found.values():
        for backend, results in runs.items():
            for test, each in results.items():
                theirs = runs.get(THEIRS, {}).get(test, {}).get("outcome")
                if each["outcome"] == "failed":
                    why = known(test, each) if backend != THEIRS else None
                    yield ("failed", test, backend, why or errors(each["why"])[-1],
                           why or backend == THEIRS or theirs == "failed")
                if each["outcome"] == "skipped" and theirs in ("passed", "failed"):
                    yield "skipped", test, backend, each["why"], False


def judge(found):
    """Tell of single tests, one line for all sizes; and whether all is as it should be."""
    sizes, good = {}, True
    for size, runs in found.items():
        for what, test, backend, why, right in remarkable({size: runs}):
            sizes.setdefault((what, backend, test, why), []).append(str(size))
            good = good and bool(right)
    for (what, backend, test, why), on in sorted(sizes.items()):
        print(f"{what} with {backend} on {', '.join(on)} ranks: {test}: {why}")
    return good


def numbers(text):
    return [int(part) for part in text.split(",")]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("tests", nargs="*")
    parser.add_argument("--backends", type=lambda text: text.split(","), default=[THEIRS, OURS])
    parser.add_argument("--sizes", type=numbers, default=[2, 3, 4, 8])
    parser.add_argument("--limit", type=int, default=120, help="seconds for each test")
    parser.add_argument("--spawn", action="store_true")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--log", default=os.devnull)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        run_one(given)
        return
    found = run_all(given)
    if given.json:
        given.json.write_text(json.dumps(found), encoding="utf-8")
    show(found)
    show_skips(found)
    print()
    sys.exit(0 if judge(found) else 1)


if __name__ == "__main__":
    main()
