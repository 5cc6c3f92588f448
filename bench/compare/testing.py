"""What the tests of this folder share. They start no library, and print TAP."""

import sys
import unittest

import results

LIMITS = [{"limit": "flag_one_way", "bytes": 64, "value": 0.1, "unit": "us"},
          {"limit": "fused_add", "bytes": 1 << 20, "value": 10.0, "unit": "GB/s"},
          {"limit": "memcpy", "bytes": 1 << 20, "value": 10.0, "unit": "GB/s"}]


def line(library, repetition, p50, size=1024, collective="allreduce", ranks=2):
    return {"library": library, "repetition": repetition, "transport": "shm", "ranks": ranks,
            "collective": collective, "bytes": size, "min_us": p50 / 2, "p50_us": p50,
            "p99_us": p50 * 2}


def cells(measured, missing=()):
    return results.cells_of(measured, list(missing))


class Tap(unittest.TestResult):
    """One line for each test."""

    def say(self, good, test, detail=""):
        for text in detail.splitlines():
            print("# " + text)
        print(("ok" if good else "not ok") + f" {self.testsRun} - {test._testMethodName[5:]}",
              flush=True)

    def addSuccess(self, test):
        self.say(True, test)

    def addFailure(self, test, err):
        self.say(False, test, self._exc_info_to_string(err, test))

    addError = addFailure

    def addSkip(self, test, reason):
        print(f"ok {self.testsRun} - {test._testMethodName[5:]} # SKIP {reason}", flush=True)


def main():
    suite = unittest.defaultTestLoader.loadTestsFromModule(sys.modules["__main__"])
    print(f"1..{suite.countTestCases()}")
    suite.run(Tap())
