"""Tests that need a process of their own: files that pytest runs in another process."""

import os
import re
import subprocess
import sys
import xml.etree.ElementTree as xml


def names_in(path):
    return re.findall(r"^def (test_\w+)", path.read_text(encoding="utf-8"), re.M)


class Result:
    """The outcome of the tests of a file."""

    def __init__(self, said, cases):
        self.said, self.cases = said, cases

    def check(self, name):
        """Fails unless a test ran with all its parameters, and passed."""
        mine = [case for case in self.cases if case.get("name").partition("[")[0] == name]
        bad = [case.get("name") for case in mine if list(case.iter("failure")) + list(case.iter("error"))]
        ran = [case for case in mine if case.find("skipped") is None]
        assert ran and not bad, f"{name}: {len(ran)} ran; failed: {bad}\n{self.said[-6000:]}"


def result_of(path, folder, arguments=(), **variables):
    found = folder / "report.xml"
    done = subprocess.run([sys.executable, "-X", "faulthandler", "-m", "pytest", "-q", "-p", "no:cacheprovider",
                           f"--junitxml={found}", path, *arguments], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", timeout=600,
                          check=False, cwd=folder, env={**os.environ, **variables})
    cases = list(xml.parse(found).getroot().iter("testcase")) if found.exists() else []
    return Result(done.stdout, cases)
