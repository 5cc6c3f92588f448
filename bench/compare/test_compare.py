"""Tests of what happens between the single runs and the tables; no library is
started. Prints TAP."""

import os
import sys
import tempfile
import time
import types
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import campaign  # noqa: E402
import limits  # noqa: E402
import page  # noqa: E402
import results  # noqa: E402
import runs  # noqa: E402
import tables  # noqa: E402


def line(library, repetition, p50, size=1024, collective="allreduce", ranks=2):
    return {"library": library, "repetition": repetition, "transport": "shm", "ranks": ranks,
            "collective": collective, "bytes": size, "min_us": p50 / 2, "p50_us": p50,
            "p99_us": p50 * 2}


def cells(measured, over_limit=()):
    return results.cells_of(types.SimpleNamespace(measured=measured, over_limit=list(over_limit)))


class Ratios(unittest.TestCase):
    def test_the_ratio_is_that_of_medians_and_of_the_fastest_peer(self):
        cell, = cells([line("gloo_c", r, t) for r, t in enumerate((4.0, 1.0, 2.0))]
                      + [line("mpich", r, 4.0) for r in range(3)]
                      + [line("openmpi", r, 8.0) for r in range(3)])
        self.assertEqual(cell.best_peer, "mpich")
        self.assertEqual(cell.ratio, 0.5)
        self.assertEqual((cell.ratio_low, cell.ratio_high), (0.25, 1.0))

    def test_without_ours_or_without_peers_there_is_no_ratio(self):
        for name in ("gloo_c", "mpich"):
            cell, = cells([line(name, 0, 1.0)])
            self.assertNotEqual(cell.ratio, cell.ratio)

    def test_the_geometric_mean_weighs_cells_alike(self):
        found = cells([line("gloo_c", 0, 1.0), line("mpich", 0, 4.0),
                       line("gloo_c", 0, 4.0, size=4096), line("mpich", 0, 1.0, size=4096)])
        self.assertAlmostEqual(results.geometric_mean(found), 1.0)
        (transport, ranks, mean, above, n), = results.means(found)
        self.assertEqual((transport, ranks, above, n), ("shm", 2, 1, 2))
        self.assertAlmostEqual(mean, 1.0)

    def test_what_was_over_the_limit_is_said_unless_it_was_measured_once(self):
        late = {k: line("mpich", 0, 1.0)[k]
                for k in ("library", "transport", "ranks", "collective", "bytes")}
        cell, = cells([line("gloo_c", 0, 1.0)], [late])
        self.assertEqual(tables.figure_text(cell, "mpich"), "over the limit")
        cell, = cells([line("gloo_c", 0, 1.0), line("mpich", 1, 1.0)], [late])
        self.assertEqual(tables.figure_text(cell, "mpich"), "1")


class Sizes(unittest.TestCase):
    def test_sizes_are_rounded_as_gloo_bench_does(self):
        self.assertEqual(campaign.rounded("allreduce", 8, 5), 4)
        self.assertEqual(campaign.rounded("allgather", 8, 4), 32)
        self.assertEqual(campaign.rounded("reduce_scatter", 3, 1024), 1020)
        self.assertEqual(campaign.rounded("barrier", 3, 1024), 0)

    def test_times_and_sizes_read_well(self):
        self.assertEqual(tables.time_text(0.0312), "0.03")
        self.assertEqual(tables.time_text(1234.5), "1234")
        self.assertEqual(tables.time_text(34300), "34.3 ms")
        self.assertEqual(tables.size_text(65536), "64 KiB")


class Floors(unittest.TestCase):
    LIMITS = [{"limit": "flag_one_way", "bytes": 64, "value": 0.1, "unit": "us"},
              {"limit": "fused_add", "bytes": 1 << 20, "value": 10.0, "unit": "GB/s"}]

    def test_a_floor_is_the_message_and_the_bytes(self):
        floor = limits.floor_us(self.LIMITS, "shm", 2, "allreduce", 1000000)
        self.assertAlmostEqual(floor, 0.1 + 100)

    def test_there_is_none_for_more_ranks(self):
        floor = limits.floor_us(self.LIMITS, "shm", 4, "allreduce", 1000000)
        self.assertNotEqual(floor, floor)

    def test_the_better_of_two_measurements_counts(self):
        worse = [{**self.LIMITS[0], "value": 0.3}, {**self.LIMITS[1], "value": 4.0}]
        self.assertEqual(limits.combine(worse, self.LIMITS), self.LIMITS)


class Pages(unittest.TestCase):
    def test_only_what_is_between_the_marks_is_replaced(self):
        with tempfile.NamedTemporaryFile("w+") as file:
            file.write(f"above\n{page.BEGIN}\nold\n{page.END}\nbelow\n")
            file.flush()
            page.write(file.name, "new\n")
            page.write(file.name, "newer\n")
            with open(file.name, encoding="utf-8") as again:
                expected = f"above\n{page.BEGIN}\n\nnewer\n\n{page.END}\nbelow\n"
                self.assertEqual(again.read(), expected)

    def test_a_page_without_marks_is_refused(self):
        with tempfile.NamedTemporaryFile("w+") as file:
            with self.assertRaises(SystemExit):
                page.write(file.name, "new\n")


class Runs(unittest.TestCase):
    def run_shell(self, script, limit):
        with runs.job_directory() as directory:
            return runs.run(["sh", "-c", script], {}, directory, limit)

    def test_what_was_printed_before_the_limit_is_kept(self):
        result = self.run_shell("echo '{\"bytes\": 4}'; sleep 600", 1)
        self.assertTrue(result.over_limit)
        self.assertEqual(result.lines, [{"bytes": 4}])

    def test_children_that_ignore_the_end_are_killed(self):
        with tempfile.NamedTemporaryFile("r") as file:
            self.run_shell(f"trap '' TERM; sh -c \"trap '' TERM; echo \\$\\$ >{file.name}; "
                           "while :; do sleep 1; done\" & wait; wait; sleep 600", 1)
            child = int(file.read())
        deadline = time.monotonic() + 30
        while child in runs.all_processes() and time.monotonic() < deadline:
            time.sleep(0.01)
        self.assertNotIn(child, runs.all_processes())

    def test_a_failure_is_told_in_the_words_of_the_program(self):
        result = self.run_shell("echo 'launcher: rank 1 failed' >&2; "
                                "echo 'gloo bench: no such thing' >&2; exit 2", 60)
        self.assertEqual(result.complaint, "gloo bench: no such thing")
        self.assertFalse(result.over_limit)

    def test_a_program_that_is_not_there_is_a_failure(self):
        with runs.job_directory() as directory:
            result = runs.run(["/nonexistent/program"], {}, directory, 1)
        self.assertIn("/nonexistent/program", result.complaint)


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


if __name__ == "__main__":
    suite = unittest.defaultTestLoader.loadTestsFromModule(sys.modules["__main__"])
    print(f"1..{suite.countTestCases()}")
    suite.run(Tap())
