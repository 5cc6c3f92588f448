"""Runs the tests of one file of PyTorch's, each in a process of its own that is forked from one that has
imported the file, and ends what that leaves.

usage: run_file.py [--spawn] FILE RESULTS LOG LIMIT DEADLINE [PATTERN ...]

RESULTS gets a line of JSON for each test, LOG what the tests write. A test has LIMIT seconds; none begins
after DEADLINE (of time.time(); 0: none). Ranks are forked, too: as PyTorch starts them (--spawn) each imports
torch anew, which takes longer than the test."""

import argparse
import ctypes
import importlib.util
import json
import os
import re
import select
import shutil
import signal
import sys
import time
import unittest
from pathlib import Path

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36


class Outcome(unittest.TestResult):
    """The outcome of a test, and its reason."""

    def __init__(self):
        super().__init__()
        self.what, self.why = "passed", ""

    def addSkip(self, test, reason):
        self.what, self.why = "skipped", reason

    def addFailure(self, test, error):
        self.what, self.why = "failed", self._exc_info_to_string(error, test)

    addError = addFailure

    def addSubTest(self, test, subtest, error):
        if error is not None:
            self.addFailure(test, error)

    def addUnexpectedSuccess(self, test):
        self.what, self.why = "failed", "PyTorch expects it to fail, and it does not"


def descendants(ancestor):
    """Returns the processes that a process has started, directly or not, by number."""
    children = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            said = entry.read_text(encoding="utf-8", errors="replace")
        except OSError:  # it has exited
            continue
        children.setdefault(int(said.rpartition(")")[2].split()[1]), []).append(int(entry.parent.name))
    found = list(children.get(ancestor, ()))
    for process in found:
        found.extend(children.get(process, ()))
    return found


def clear():
    """Ends the processes that a test has left."""
    while True:
        left = descendants(os.getpid())
        for process in left:
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                pass
        try:
            while os.waitpid(-1, 0)[0]:
                pass
        except ChildProcessError:
            return


def stop(_number, _frame):
    clear()
    os._exit(1)


def tests_of(given):
    """Yields all tests of a suite, in order."""
    for each in given:
        if isinstance(each, unittest.TestSuite):
            yield from tests_of(each)
        else:
            yield each


def name_of(test):
    return ".".join(test.id().split(".")[-2:])


def in_child(test, log, pipe):
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    outcome = Outcome()
    try:
        unittest.TestSuite([test]).run(outcome)
    except BaseException as error:  # a test that ends its process
        outcome.what, outcome.why = "failed", f"{type(error).__name__}: {error}"
    with os.fdopen(pipe, "w", encoding="utf-8", errors="replace") as told:
        json.dump([outcome.what, outcome.why], told)
    os._exit(0)


def run(test, log, limit):
    """Returns the outcome of a test, and its reason."""
    reader, writer = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        os.close(reader)
        in_child(test, log, writer)
    os.close(writer)
    os.set_inheritable(reader, False)
    said, deadline = b"", time.monotonic() + limit
    while select.select([reader], [], [], max(0, deadline - time.monotonic()))[0]:
        part = os.read(reader, 1 << 20)
        if not part:
            break
        said += part
        try:  # surviving ranks keep the pipe open
            json.loads(said)
            break
        except ValueError:
            continue
    os.close(reader)
    late = time.monotonic() >= deadline
    clear()
    try:
        return json.loads(said)
    except ValueError:
        return ["failed", f"did not end within {limit} s" if late else "the process of the test has ended"]


def prepare(spawn):
    """Makes ranks fork, and ends threads that a fork would lose."""
    import torch
    from torch.distributed.elastic.rendezvous import etcd_server
    from torch.testing._internal import common_distributed, common_utils

    torch.set_num_threads(1)
    common_distributed.TIMEOUT_OVERRIDE.clear()
    common_utils.check_test_defined_in_running_script = lambda test: None  # the running script is a different one
    # Classes start etcd, although most of their tests use other stores. It takes the server and a client.
    if shutil.which("etcd") is None or importlib.util.find_spec("etcd") is None:
        etcd_server.EtcdServer.start = lambda self, *given, **named: None
    if not spawn:
        fork = torch.multiprocessing.get_context("fork")
        common_distributed.MultiProcessTestCase._spawn_processes = (
            lambda self: self._start_processes(fork.Process))


def wanted_of(file, patterns):
    """Returns the wanted tests of a file."""
    chosen = [re.compile(each) for each in patterns]
    for test in tests_of(unittest.defaultTestLoader.loadTestsFromModule(importlib.import_module(file.stem))):
        if not chosen or any(each.search(name_of(test)) for each in chosen):
            yield test


def run_all(file, patterns, tell, log, limit, deadline):
    try:
        tests = list(wanted_of(file, patterns))
    except (Exception, SystemExit) as error:
        skipped = isinstance(error, (SystemExit, unittest.SkipTest))
        tell("", "skipped" if skipped else "failed",
             f"the file cannot be imported: {type(error).__name__}: {error}")
        return
    for test in tests:
        if deadline and time.time() > deadline:
            tell(name_of(test), "not run", "there was no time left")
            continue
        log.write(f"---- {name_of(test)}\n")
        log.flush()
        began = time.monotonic()
        tell(name_of(test), *run(test, log.fileno(), limit), time.monotonic() - began)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--spawn", action="store_true")
    parser.add_argument("file", type=Path)
    parser.add_argument("results")
    parser.add_argument("log")
    parser.add_argument("limit", type=float)
    parser.add_argument("deadline", type=float)
    parser.add_argument("patterns", nargs="*")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, stop)
    prctl = ctypes.CDLL(None).prctl
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    sys.path.insert(0, str(given.file.parent))
    prepare(given.spawn)
    with open(given.results, "w", encoding="utf-8") as lines, open(given.log, "a", encoding="utf-8") as log:
        def tell(test, what, why, seconds=0.0):
            lines.write(json.dumps({"test": test, "outcome": what, "why": why,
                                    "seconds": round(seconds, 2)}) + "\n")
            lines.flush()

        run_all(given.file, given.patterns, tell, log, given.limit, given.deadline)


if __name__ == "__main__":
    main()
