"""Tests of what happens between the single runs and the tables; no library is
started. Prints TAP."""

import importlib.machinery
import importlib.util
import math
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
import types
import unittest
import unittest.mock
import xml.etree.ElementTree

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import campaign  # noqa: E402
import charts  # noqa: E402
import collectives  # noqa: E402
import hosts  # noqa: E402
import libraries  # noqa: E402
import limits  # noqa: E402
import machine  # noqa: E402
import page  # noqa: E402
import repeats  # noqa: E402
import results  # noqa: E402
import runs  # noqa: E402
import tables  # noqa: E402
import webpage  # noqa: E402


def script(name):
    """A program of the folder above, as a module."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", name)
    loader = importlib.machinery.SourceFileLoader(name, path)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
    loader.exec_module(module)
    return module


instructions = script("instructions")


def line(library, repetition, p50, size=1024, collective="allreduce", ranks=2):
    return {"library": library, "repetition": repetition, "transport": "shm", "ranks": ranks,
            "collective": collective, "bytes": size, "min_us": p50 / 2, "p50_us": p50,
            "p99_us": p50 * 2}


def cells(measured, missing=()):
    return results.cells_of(measured, list(missing))


class Ratios(unittest.TestCase):
    def test_the_ratio_is_the_median_and_of_the_fastest_peer(self):
        cell, = cells([line("gloo_c", r, t) for r, t in enumerate((4.0, 1.0, 2.0))]
                      + [line("mpich", r, 4.0) for r in range(3)]
                      + [line("openmpi", r, 8.0) for r in range(3)])
        self.assertEqual(cell.best_peer, "mpich")
        self.assertEqual(cell.ratio(), results.Ratio(0.5, 0.25, 1.0))

    def test_a_machine_that_changes_between_repetitions_changes_no_ratio(self):
        """It was slow three times for ours, and twice for the peer."""
        ours, peer = (3.0, 3.0, 3.0, 1.0), {0: 6.0, 1: 6.0, 3: 2.0}
        cell, = cells([line("gloo_c", r, us) for r, us in enumerate(ours)]
                      + [line("mpich", r, us) for r, us in peer.items()])
        self.assertEqual(cell.ratio(), results.Ratio(0.5, 0.5, 0.5))

    def test_without_repetitions_in_common_the_ratio_is_that_of_medians(self):
        cell, = cells([line("gloo_c", 0, 1.0), line("gloo_c", 1, 3.0), line("mpich", 2, 4.0)])
        self.assertEqual(cell.ratio().value, 0.5)
        self.assertTrue(math.isnan(cell.ratio().low))

    def test_without_ours_or_without_peers_there_is_no_ratio(self):
        for name in ("gloo_c", "mpich"):
            cell, = cells([line(name, 0, 1.0)])
            self.assertTrue(math.isnan(cell.ratio().value))

    def test_the_geometric_mean_weighs_cells_alike(self):
        found = cells([line("gloo_c", 0, 1.0), line("mpich", 0, 4.0),
                       line("gloo_c", 0, 4.0, size=4096), line("mpich", 0, 1.0, size=4096)])
        mean, = results.means(found)
        self.assertAlmostEqual(mean.geometric_mean, 1.0)
        mean.geometric_mean = 1.0
        self.assertEqual(mean, results.Mean("shm", 2, "gloo_c", 1.0, 1, 2))

    def test_memory_from_gloo_alloc_has_ratios_of_its_own_and_is_no_peer(self):
        cell, = cells([line("gloo_c", 0, 3.0), line("gloo_c_alloc", 0, 1.0), line("mpich", 0, 2.0)])
        self.assertEqual(cell.best_peer, "mpich")
        self.assertEqual(cell.ratio("gloo_c").value, 1.5)
        self.assertEqual(cell.ratio("gloo_c_alloc").value, 0.5)
        self.assertEqual([m.library for m in results.means([cell])], ["gloo_c", "gloo_c_alloc"])
        self.assertEqual(results.above_1([cell]), [("gloo_c", cell)])

    def test_all_numbers_of_ranks_have_a_mean_together(self):
        found = cells([line("gloo_c", 0, 1.0), line("mpich", 0, 4.0),
                       line("gloo_c", 0, 1.0, ranks=4), line("mpich", 0, 1.0, ranks=4)])
        self.assertEqual([(m.ranks, m.geometric_mean) for m in results.means(found)],
                         [(2, 0.25), (4, 1.0), (0, 0.5)])

    def test_what_was_over_the_limit_is_said_unless_it_was_measured_once(self):
        late = {k: line("mpich", 0, 1.0)[k]
                for k in ("library", "transport", "ranks", "collective", "bytes")}
        late["why"] = "over the limit"
        cell, = cells([line("gloo_c", 0, 1.0)], [late])
        self.assertEqual(tables.figure_text(cell, "mpich"), "over the limit")
        cell, = cells([line("gloo_c", 0, 1.0), line("mpich", 1, 1.0)], [late])
        self.assertEqual(tables.figure_text(cell, "mpich"), "1")


class Sizes(unittest.TestCase):
    def test_sizes_are_rounded_as_gloo_bench_does(self):
        self.assertEqual(collectives.rounded("allreduce", 8, 5), 4)
        self.assertEqual(collectives.rounded("allgather", 8, 4), 32)
        self.assertEqual(collectives.rounded("reduce_scatter", 3, 1024), 1020)
        self.assertEqual(collectives.rounded("barrier", 3, 1024), 0)
        self.assertEqual(collectives.rounded("allgatherv", 3, 95), 72)
        self.assertEqual(collectives.rounded("alltoallv", 2, 64), 64)
        self.assertEqual(collectives.rounded("alltoallv", 5, 100), 96)

    def test_times_and_sizes_read_well(self):
        self.assertEqual(tables.time_text(0.0312), "0.03")
        self.assertEqual(tables.time_text(1234.5), "1234")
        self.assertEqual(tables.time_text(34300), "34.3 ms")
        self.assertEqual(tables.size_text(65536), "64 KiB")


class Floors(unittest.TestCase):
    LIMITS = [{"limit": "flag_one_way", "bytes": 64, "value": 0.1, "unit": "us"},
              {"limit": "fused_add", "bytes": 1 << 20, "value": 10.0, "unit": "GB/s"},
              {"limit": "memcpy", "bytes": 1 << 20, "value": 10.0, "unit": "GB/s"}]

    def test_a_floor_is_the_message_and_the_bytes(self):
        floor = limits.floor_us(self.LIMITS, "shm", 2, "allreduce", 1000000)
        self.assertAlmostEqual(floor, 0.1 + 100)

    def test_every_collective_has_one(self):
        for name in collectives.NAMES:
            self.assertIn(name, limits.SHAPES)
            self.assertGreater(limits.floor_us(self.LIMITS, "shm", 2, name, 1000000), 0, name)

    def test_there_is_none_for_more_ranks(self):
        floor = limits.floor_us(self.LIMITS, "shm", 4, "allreduce", 1000000)
        self.assertNotEqual(floor, floor)

    def test_the_better_of_two_measurements_counts(self):
        worse = [{**self.LIMITS[0], "value": 0.3}, {**self.LIMITS[1], "value": 4.0}]
        self.assertEqual(limits.combine(worse, self.LIMITS), self.LIMITS)
        self.assertEqual(limits.combine(self.LIMITS, []), self.LIMITS)


def options(**given):
    settings = dict(ranks=[2], sizes=[4, 1024], collectives=["allreduce"],
                    transports=["shm", "tcp"], repetitions=3, budget=20, limit=20, build="build",
                    time=0.1, warmup=5, buffers="2")
    return types.SimpleNamespace(**{**settings, **given})


class Campaigns(unittest.TestCase):
    """A campaign whose runs are made up: each takes `seconds` of an imagined
    clock, and all calls the same time."""

    def campaign(self, seconds, p50, earlier=None, **given):
        work = campaign.Campaign(options(**given), libraries.LIBRARIES)
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

    FAST = {l.name: 1.0 for l in libraries.LIBRARIES}
    size_s, stuck = {}, set()  # seconds of a size; (library, size) that never ends

    def repetitions(self, work):
        return {(name, cell.bytes): figure.repetitions for cell in cells(work.measured)
                for name, figure in cell.figures.items()}

    def test_everything_is_measured_side_by_side_and_as_often_as_asked(self):
        work = self.campaign(self.FAST, self.FAST)
        found = cells(work.measured)
        self.assertEqual(len(found), 4)
        for cell in found:
            expected = {l.name for l in libraries.LIBRARIES
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
        for library in libraries.LIBRARIES:
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
            here = {l.name for l in libraries.LIBRARIES if cell.transport in l.transports}
            self.assertEqual(set(cell.figures) | set(cell.missing), here)
            self.assertLessEqual(set(cell.missing.values()), {"no time left"})
        work = self.campaign(self.FAST, self.FAST, budget=0.2)
        found = cells(work.measured, work.missing())
        self.assertTrue(any(cell.missing for cell in found))
        self.assertIn("no time left", tables.missing_text(found))

    def test_a_library_that_fails_is_noted_and_the_others_go_on(self):
        work = campaign.Campaign(options(), libraries.LIBRARIES)
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
        def run(us, size):
            return {"runs": [line("gloo_c", 0, us, size=size), line("mpich", 0, 2.0, size=size)],
                    "missing": [], "notes": ["n"], "limits": Floors.LIMITS, "command": "c"}
        whole = results.merge([run(1.0, 4), run(3.0, 4), run(1.0, 8)])
        found = {cell.bytes: cell for cell in cells(whole["runs"])}
        self.assertEqual(found[4].figures["gloo_c"].repetitions, 2)
        self.assertEqual(found[4].ratio(), results.Ratio(1.0, 0.5, 1.5))
        self.assertEqual(found[8].ratio().value, 0.5)
        self.assertEqual(whole["notes"], ["n"])

    def test_a_run_gets_no_more_than_several_times_its_fair_share(self):
        work = campaign.Campaign(options(budget=1), libraries.LIBRARIES)
        job = campaign.Job(libraries.LIBRARIES[0], "shm", 2, "allreduce")
        self.assertEqual(work.limit(job), 20)
        work.ahead = 1000
        self.assertEqual(work.limit(job), campaign.SHORTEST_LIMIT_S)
        work.ahead = 15
        self.assertLess(work.limit(job), 20)


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


class Charts(unittest.TestCase):
    def test_labels_keep_their_distance_and_stay_inside(self):
        for wanted in ([5, 5, 5], [0, 100, 100, 100], [50, 10, 30], [99, 98, 97, 1]):
            places = charts.spread(wanted, 0, 100, gap=10)
            ordered = sorted(places)
            self.assertTrue(all(b - a >= 9.999 for a, b in zip(ordered, ordered[1:])), places)
            self.assertTrue(-0.001 <= ordered[0] and ordered[-1] <= 100.001, places)

    def test_labels_far_apart_stay_where_they_belong(self):
        self.assertEqual(charts.spread([80, 10, 40], 0, 100, gap=10), [80, 10, 40])


class WebPages(unittest.TestCase):
    def setUp(self):
        measured = []
        for name, us in (("gloo_c", 2.0), ("gloo_c_alloc", 1.0), ("openmpi", 3.0), ("gloo", 90.0)):
            measured += [line(name, 0, us * (1 + size / 1024), size=size) for size in (4, 1024)]
            if name != "gloo_c_alloc":
                measured += [line(name, 0, us, size=0, collective="barrier")]
        run = {"machine": {"date": "today", "cpu": "a <fast> one", "cores": 2, "memory": "1 GB",
                           "kernel": "K", "load_before": 0.0, "load_after": 0.0, "versions": {}},
               "command": "scripts/compare", "limits": Floors.LIMITS, "notes": ["one & all"]}
        self.page = webpage.render(run, cells(measured), libraries.LIBRARIES)

    def test_the_page_fetches_and_runs_nothing(self):
        for word in ("http:", "https:", "<script", "<link", "<img", "@import", "url("):
            self.assertNotIn(word, self.page)

    def test_its_pictures_are_well_formed_and_hold_every_point(self):
        pictures = re.findall(r"<figure>.*?</figure>", self.page)
        self.assertEqual(len(pictures), 2)
        points = {}
        for picture in pictures:
            figure = xml.etree.ElementTree.fromstring(picture)
            points[figure[0].text] = len(figure.findall(".//circle[@class='dot']"))
        # Four libraries and the limit at two sizes; barriers without gloo_alloc.
        self.assertEqual(points, {"allreduce": 10, "barrier": 4})

    def test_texts_are_escaped_and_ratios_shown(self):
        self.assertIn("a &lt;fast&gt; one", self.page)
        self.assertIn("one &amp; all", self.page)
        self.assertIn(">0.67</td>", self.page)
        self.assertIn(">0.33</td>", self.page)


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
            library = libraries.LIBRARIES[0]
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


class Instructions(unittest.TestCase):
    PROFILE = """events: Ir
ob=(1) /lib/libgloo_c.so
fl=(1) file.c
fn=(1) send
0 10
cfn=(2) copy
calls=3 0
0 300
0 5
fn=(2)
0 30
ob=(2) /lib/libuv.so.1
fn=(3) 0x0000000000001234
+3 7
fn=(4) 0x0000000000005678
* 2
summary: 54""".splitlines()

    def test_calls_are_not_counted_twice_and_nameless_functions_are_their_librarys(self):
        self.assertEqual(instructions.costs(self.PROFILE),
                         {"send": 15, "copy": 30, "(in libuv.so.1)": 9})

    def test_only_growth_beyond_the_tolerance_is_an_error(self):
        self.assertEqual([instructions.verdict(count, 1000, None)[1] for count in (500, 1050, 1051)],
                         [False, False, True])
        self.assertFalse(instructions.verdict(1, None, None)[1])

    def test_more_than_the_goal_is_an_error_whatever_was_before(self):
        self.assertEqual([instructions.verdict(count, before, 600)[1]
                          for count, before in ((600, 590), (601, 600), (601, 900), (601, None))],
                         [False, True, True, True])


class Pages(unittest.TestCase):
    def test_only_what_is_between_the_marks_is_replaced(self):
        begin, end = page.marks("scripts/compare")
        with tempfile.NamedTemporaryFile("w+") as file:
            file.write(f"above\n{begin}\nold\n{end}\nbelow\n")
            file.flush()
            page.write(file.name, "new\n")
            page.write(file.name, "newer\n")
            with open(file.name, encoding="utf-8") as again:
                expected = f"above\n{begin}\n\nnewer\n\n{end}\nbelow\n"
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
