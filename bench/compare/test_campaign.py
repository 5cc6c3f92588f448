"""Tests of what is run, in which order, and when it is given up."""

import os
import socket
import subprocess
import sys
import tempfile
import time
import types
import unittest
import unittest.mock

import campaign
import hosts
import libraries
import machine
import repeats
import results
import runs
import tables
import testing
import turns
from testing import LIMITS, cells, line


# Some: the times below are those of so many.
LIBRARIES = [l for l in libraries.LIBRARIES if not l.newer and l.name != "intelmpi"]


def options(**given):
    settings = dict(ranks=[2], sizes=[4, 1024], collectives=["allreduce"],
                    transports=["shm", "tcp"], repetitions=3, budget=20, limit=20, build="build",
                    time=0.1, warmup=5, buffers="2", untouched=False)
    return types.SimpleNamespace(**{**settings, **given})


class Campaigns(unittest.TestCase):
    """A campaign whose runs are made up: each takes `seconds` of an imagined
    clock, and all calls the same time."""

    def campaign(self, seconds, p50, earlier=None, **given):
        work = campaign.Campaign(options(**given), LIBRARIES)
        work.say = lambda text: None
        if earlier:
            work.go_on_from(earlier)
        clock, self.order = [work.began], []

        def launch(library, transport, ranks, collective, sizes, limit, extra=()):
            clock[0] += seconds[library.name]
            if not extra:
                self.order.append((library.name, transport))
            got = [s for s in sizes if (library.name, s) not in self.stuck]
            clock[0] += sum(self.size_s.get(s, 0) for s in got)
            return runs.Run([{"ranks": ranks, "collective": collective, "bytes": s, "min_us": 1,
                              "p50_us": p50[library.name], "p99_us": 1,
                              "seconds": self.size_s.get(s, 0)} for s in got],
                            over_limit=len(got) < len(sizes))
        work.launch = launch
        monotonic = campaign.time.monotonic
        campaign.time.monotonic = lambda: clock[0]
        try:
            work.run()
        finally:
            campaign.time.monotonic = monotonic
        return work

    FAST = {l.name: 1.0 for l in LIBRARIES}
    size_s, stuck = {}, set()  # seconds of a size; (library, size) that never ends

    def repetitions(self, work):
        return {(name, cell.bytes): figure.repetitions for cell in cells(work.measured)
                for name, figure in cell.figures.items()}

    def test_everything_is_measured_side_by_side_and_as_often_as_asked(self):
        work = self.campaign(self.FAST, self.FAST)
        found = cells(work.measured)
        self.assertEqual(len(found), 4)
        for cell in found:
            expected = {l.name for l in LIBRARIES
                        if cell.transport in l.transports}
            self.assertEqual(set(cell.figures), expected)
            self.assertEqual({f.repetitions for f in cell.figures.values()}, {3})
        per_repetition = len(self.order) // 3
        firsts = {self.order[i * per_repetition] for i in range(3)}
        self.assertEqual(len(firsts), 3)

    def test_gloo_runs_once_and_counts_for_both_transports(self):
        self.campaign(self.FAST, self.FAST, repetitions=1)
        self.assertEqual([pair for pair in self.order if pair[0] == "gloo"], [("gloo", "tcp")])

    def test_what_is_slow_and_far_behind_is_not_repeated_when_time_is_short(self):
        slow = {**self.FAST, "mpich": 100.0, "gloo": 90.0}
        work = self.campaign(slow, {**self.FAST, "mpich": 50.0}, budget=15)
        repetitions = {name: f.repetitions for name, f in cells(work.measured)[0].figures.items()}
        self.assertEqual(repetitions["mpich"], 1)
        for name in ("gloo_c", "gloo_c_alloc", "openmpi", "gloo"):
            self.assertEqual(repetitions[name], 3, name)

    def test_what_takes_long_is_repeated_less_than_what_is_short(self):
        self.size_s = {1024: 60.0}
        counts = self.repetitions(self.campaign(self.FAST, self.FAST, budget=10))
        for library in LIBRARIES:
            self.assertEqual(counts[library.name, 4], 3)
            self.assertLess(counts[library.name, 1024], 3)

    def test_a_peer_is_not_repeated_where_it_is_far_behind(self):
        self.size_s = {4: 20.0, 1024: 20.0}
        p50 = {**self.FAST, "mpich": 50.0}
        counts = self.repetitions(self.campaign(self.FAST, p50, budget=13))
        self.assertEqual(counts["mpich", 4], 1)
        self.assertGreater(counts["openmpi", 4], 1)

    def test_of_what_was_over_the_limit_the_sizes_that_it_finished_are_repeated(self):
        self.stuck = {("openmpi", 1024)}
        with unittest.mock.patch.object(machine, "cores", lambda: 1):
            work = self.campaign(self.FAST, self.FAST)
        counts = self.repetitions(work)
        self.assertEqual(counts["openmpi", 4], 3)
        self.assertNotIn(("openmpi", 1024), counts)
        found = {cell.bytes: cell for cell in cells(work.measured, work.missing())}
        self.assertEqual(found[1024].missing, {"openmpi": "over the limit"})

    def test_what_there_was_no_time_for_is_said(self):
        work = self.campaign(self.FAST, self.FAST, budget=0.6)
        found = cells(work.measured, work.missing())
        self.assertEqual(len(found), 4)
        for cell in found:
            here = {l.name for l in LIBRARIES if cell.transport in l.transports}
            self.assertEqual(set(cell.figures) | set(cell.missing), here)
            self.assertLessEqual(set(cell.missing.values()), {"no time left"})
        work = self.campaign(self.FAST, self.FAST, budget=0.2)
        found = cells(work.measured, work.missing())
        self.assertTrue(any(cell.missing for cell in found))
        self.assertIn("no time left", tables.missing_text(found))

    def test_a_library_that_fails_is_noted_and_the_others_go_on(self):
        work = campaign.Campaign(options(), LIBRARIES)
        work.say = lambda text: None

        def launch(library, transport, ranks, collective, sizes, limit, extra=()):
            if library.name == "mpich" and not extra:
                return runs.Run([], "it crashed")
            return runs.Run([{**line(library.name, 0, 1.0, size=size), "transport": transport}
                             for size in sizes])
        work.launch = launch
        work.run()
        for cell in cells(work.measured, work.missing()):
            self.assertEqual(cell.missing, {"mpich": "failed"})
            self.assertTrue(cell.lacks_a_peer())
        self.assertTrue(any("it crashed" in note for note in work.notes))

    def test_a_run_that_was_broken_off_is_continued(self):
        work = self.campaign(self.FAST, self.FAST, budget=0.2)
        began = len(self.order)
        earlier = {"runs": work.measured, "why": [],
                   "done": [(key, r, took) for (key, r), took in work.done.items()]}
        again = self.campaign(self.FAST, self.FAST, earlier=earlier)
        self.assertEqual(began + len(self.order), 3 * len(self.order_of_all()))
        for cell in cells(again.measured):
            self.assertEqual({f.repetitions for f in cell.figures.values()}, {3})

    def order_of_all(self):
        self.campaign(self.FAST, self.FAST, repetitions=1)
        return self.order

    def test_several_runs_become_one(self):
        def run(us, size, version="1"):
            return {"machine": {"versions": {"mpich": version}},
                    "runs": [line("gloo_c", 0, us, size=size), line("mpich", 0, 2.0, size=size)],
                    "missing": [], "notes": ["n"], "turns": [{"limits": LIMITS, "took": []}],
                    "command": "c"}
        whole = results.merge([run(1.0, 4), run(3.0, 4), run(1.0, 8)])
        found = {cell.bytes: cell for cell in cells(whole["runs"])}
        self.assertEqual(found[4].figures["gloo_c"].repetitions, 2)
        self.assertEqual(found[4].ratio(), results.Ratio(1.0, 0.5, 1.5))
        self.assertEqual(found[8].ratio().value, 0.5)
        self.assertEqual(len(whole["turns"]), 3)
        self.assertEqual(whole["notes"], ["n"])
        with self.assertRaises(SystemExit):
            results.merge([run(1.0, 4), run(1.0, 4, version="2")])

    def test_a_run_gets_no_more_than_several_times_its_fair_share(self):
        work = campaign.Campaign(options(budget=1), LIBRARIES)
        job = campaign.Job(LIBRARIES[0], "shm", 2, "allreduce")
        self.assertEqual(work.limit(job), 20)
        work.ahead = 1000
        self.assertEqual(work.limit(job), campaign.SHORTEST_LIMIT_S)
        work.ahead = 15
        self.assertLess(work.limit(job), 20)


class Turns(unittest.TestCase):
    """What is compared with the limits is run beside them."""

    def measured(self, **given):
        asked = []

        def launch(library, transport, ranks, collective, sizes, limit):
            asked.append((library.name, transport, ranks, collective, sizes))
            return runs.Run([{"p50_us": 3.0}])
        work = types.SimpleNamespace(options=options(**given), libraries=LIBRARIES,
                                     launch=launch, note=lambda text: None)
        with unittest.mock.patch.object(turns.limits, "measure", lambda build: (LIMITS, "")):
            return turns.measure(work), asked

    def test_each_turn_measures_limits_and_what_has_a_goal(self):
        taken, asked = self.measured(collectives=["barrier", "allreduce"], sizes=[4, 1 << 26],
                                     libraries=["gloo_c", "gloo_c_alloc"])
        self.assertEqual(len(taken), turns.MOST)
        self.assertEqual(asked, turns.MOST * [("gloo_c", "shm", 2, "barrier", [0]),
                                              ("gloo_c_alloc", "shm", 2, "allreduce", [1 << 26]),
                                              ("gloo_c", "shm", 2, "allreduce", [1 << 26])])
        self.assertEqual([one["library"] for one in taken[0]["took"]],
                         ["gloo_c", "gloo_c_alloc", "gloo_c"])

    def test_what_is_not_compared_is_not_measured(self):
        given = dict(collectives=["barrier", "allreduce"], libraries=["gloo_c"])
        self.assertEqual(len(self.measured(**given)[1]), turns.MOST)  # no 64 MiB
        for less in ({"transports": ["tcp"]}, {"ranks": [4]}, {"collectives": ["scan"]},
                     {"libraries": ["mpich"]}):
            taken, asked = self.measured(**{**given, **less})
            self.assertEqual(asked, [], less)
            self.assertEqual(taken, [{"limits": LIMITS, "took": []}], less)

    def test_fewer_repetitions_are_fewer_turns(self):
        taken, _ = self.measured(collectives=["barrier"], libraries=["gloo_c"], repetitions=1)
        self.assertEqual(len(taken), 1)


class Repeats(unittest.TestCase):
    def group(self, start, seconds, times=1):
        """Of two jobs, which take the same."""
        return repeats.Group({size: {"ours": s / 2, "theirs": s / 2} for size, s in seconds.items()},
                             {"ours": start / 2, "theirs": start / 2},
                             {size: times for size in seconds})

    def test_all_is_kept_that_there_is_time_for(self):
        groups = [self.group(1, {4: 1, 8: 1}), self.group(1, {4: 2})]
        self.assertEqual(repeats.choose(groups, 6), [{4, 8}, {4}])

    def test_the_costliest_size_goes_first(self):
        groups = [self.group(1, {4: 1, 8: 5}), self.group(1, {4: 1, 8: 4})]
        self.assertEqual(repeats.choose(groups, 9), [{4}, {4, 8}])

    def test_what_takes_long_to_start_goes_as_a_whole(self):
        groups = [self.group(9, {4: 1, 8: 1}), self.group(1, {4: 3, 8: 3})]
        self.assertEqual(repeats.choose(groups, 10), [set(), {4, 8}])

    def test_what_was_measured_more_often_goes_sooner(self):
        groups = [self.group(1, {4: 1}, times=3), self.group(1, {4: 2}, times=1)]
        self.assertEqual(repeats.choose(groups, 3), [set(), {4}])

    def test_without_time_nothing_is_kept(self):
        self.assertEqual(repeats.choose([self.group(1, {4: 1})], 0), [set()])


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

    def test_of_a_list_of_functions_the_cause_is_told(self):
        result = self.run_shell("printf '%s\n' 'Abort(1) on node 1: Fatal error in internal_Init: "
                                "Other MPI error, error stack:' 'internal_Init(70)....: failed' "
                                "'MPII_Init_thread(333): ' 'exchange(19)...: Unreachable' >&2; exit 1",
                                60)
        self.assertEqual(result.complaint, "Abort(1) on node 1: Fatal error in internal_Init: Other "
                                           "MPI error: exchange(19)...: Unreachable")

    def test_a_program_that_is_not_there_is_a_failure(self):
        with runs.job_directory() as directory:
            result = runs.run(["/nonexistent/program"], {}, directory, 1)
        self.assertIn("/nonexistent/program", result.complaint)


class Arguments(unittest.TestCase):
    def test_all_libraries_leave_buffers_alone_or_none_does(self):
        for untouched in True, False:
            for library in LIBRARIES:
                given = libraries.arguments(library, "allreduce", [4],
                                            options(untouched=untouched), "shm")
                self.assertEqual("--untouched" in given, untouched)


class CommandLine(unittest.TestCase):
    def line_of(self, *argv):
        return machine.command_line(["scripts/compare"],
                                    ["--inside", "--build", "build-compare", *argv])

    def test_the_command_is_repeated_as_it_was_given(self):
        self.assertEqual(self.line_of("--quick", "--sizes", "4,1K"),
                         "scripts/compare --quick --sizes 4,1K")

    def test_arguments_are_quoted_for_a_shell(self):
        self.assertEqual(self.line_of("--json", "my figures.json"),
                         "scripts/compare --json 'my figures.json'")

    def test_folders_of_this_machine_are_not_named(self):
        inside = os.path.join(os.getcwd(), "build-compare", "run.json")
        outside = os.path.join(os.sep, "home", "somebody", "run.json")
        expected = {inside: os.path.join("build-compare", "run.json"), outside: "run.json"}
        for path, shown in expected.items():
            self.assertEqual(self.line_of("--json", path), f"scripts/compare --json {shown}")
            self.assertEqual(self.line_of(f"--json={path}"), f"scripts/compare --json={shown}")


class Hosts(unittest.TestCase):
    def test_the_limit_of_a_link_is_its_bytes_with_headers(self):
        self.assertAlmostEqual(hosts.limit_us(1448 * 1000, 1), 1514 * 8, places=3)
        self.assertAlmostEqual(hosts.limit_us(1448 * 1000, 10), 1514 * 0.8, places=3)

    def test_the_command_of_a_run_is_what_was_typed(self):
        class TwoHosts:
            def __enter__(self):
                return self

            def __exit__(self, *_):
                return None

            def set_rate(self, rate):
                pass

        with tempfile.TemporaryDirectory() as directory:
            options = types.SimpleNamespace(
                budget=1, repetitions=1, rates=[1], per_host=2, limit=1, build=directory,
                json=os.path.join(directory, "hosts.json"))
            result = types.SimpleNamespace(lines=[], over_limit=False, complaint="")
            library = LIBRARIES[0]
            with unittest.mock.patch.multiple(
                    hosts, Hosts=TwoHosts, contestants=lambda _: [("ours", library, None)],
                    command_of=lambda *_: (["a", "program"], {})), \
                    unittest.mock.patch.object(runs, "run", lambda *_: result):
                run = hosts.measure(options, ["--budget", "1"])
        self.assertEqual(run["command"], "scripts/compare --hosts --budget 1")

    def test_bare_sockets_are_measured(self):
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = str(free.getsockname()[1])
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "streams.py")
        environment = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        both = [subprocess.Popen([sys.executable, script, "0.01", "65536,1048576"],
                                 env={**environment, "RANK": rank}, stdout=subprocess.PIPE)
                for rank in "01"]
        said = [process.communicate(timeout=60)[0].decode() for process in both]
        self.assertEqual([process.returncode for process in both], [0, 0])
        found = runs.parse(said[0])
        self.assertEqual([line["bytes"] for line in found], [65536, 1048576])
        self.assertTrue(all(line["p50_us"] > 0 for line in found))
        self.assertEqual(said[1], "")


if __name__ == "__main__":
    testing.main()
