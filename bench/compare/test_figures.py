"""Tests of what becomes of the figures: ratios, tables, curves and pages."""

import importlib.util
import json
import math
import os
import re
import tempfile
import unittest
import xml.etree.ElementTree

import charts
import collectives
import hosts
import libraries
import limits
import machine
import page
import results
import summary
import tables
import testing
import turns
import webpage
from testing import LIMITS, cells, line

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
# The program itself: its name is that of every main module.
program = importlib.util.spec_from_file_location("compare", os.path.join(HERE, "__main__.py"))
compare = importlib.util.module_from_spec(program)
program.loader.exec_module(compare)


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

    def test_near_cores_are_not_compared_with_cores_that_are_far_apart(self):
        def at(flag, *of):
            return {**line(*of), "flag_ns": flag}
        runs = [at(40.0, "gloo_c", 0, 2.0), at(200.0, "mpich", 0, 12.0),
                at(200.0, "gloo_c", 1, 6.0), at(210.0, "mpich", 1, 12.0)]
        self.assertEqual(cells(runs)[0].ratio(), results.Ratio(0.5, 0.5, 0.5))
        # In no repetition alike: across them.
        self.assertEqual(cells([at(40.0, "gloo_c", 0, 2.0), at(200.0, "mpich", 0, 12.0),
                                at(199.0, "gloo_c", 1, 6.0), at(41.0, "mpich", 1, 4.0)])[0].ratio(),
                         results.Ratio(0.5, 0.5, 0.5))
        # In few: across them, too.
        few = [at(40.0, "gloo_c", 0, 2.0), at(41.0, "mpich", 0, 8.0), at(199.0, "gloo_c", 1, 6.0),
               at(42.0, "mpich", 1, 4.0), at(43.0, "gloo_c", 2, 2.0), at(200.0, "mpich", 2, 12.0)]
        self.assertEqual(cells(few)[0].ratio(), results.Ratio(0.5, 0.25, 0.5))
        # Nowhere: what there is.
        self.assertEqual(cells(runs[:2])[0].ratio().value, 2.0 / 12.0)

    def test_the_fastest_peer_is_who_is_fastest_beside_ours(self):
        cell, = cells([line("gloo_c", 0, 1.0), line("mpich", 0, 4.0), line("openmpi", 0, 2.0),
                       line("gloo_c", 1, 10.0), line("mpich", 1, 40.0)])
        self.assertEqual(cell.best_peer, "openmpi")
        self.assertEqual(cell.ratio().value, 0.5)

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
    def test_a_floor_is_the_message_and_the_bytes(self):
        floor = limits.floor_us(LIMITS, "shm", 2, "allreduce", 1000000)
        self.assertAlmostEqual(floor, 0.1 + 100)

    def test_every_collective_has_one(self):
        for name in collectives.NAMES:
            self.assertIn(name, limits.SHAPES)
            self.assertGreater(limits.floor_us(LIMITS, "shm", 2, name, 1000000), 0, name)

    def test_there_is_none_for_more_ranks(self):
        floor = limits.floor_us(LIMITS, "shm", 4, "allreduce", 1000000)
        self.assertNotEqual(floor, floor)

    def test_over_tcp_it_is_an_exchange_by_sockets(self):
        known = [{"limit": "tcp_exchange", "bytes": size, "unit": "us", "value": took}
                 for size, took in ((4, 8.0), (1024, 10.0), (16384, 40.0))]
        for name, size, wanted in (("barrier", 0, 8), ("allreduce", 1024, 10), ("alltoall", 2048, 10),
                                   ("allreduce", 4096, 20), ("allreduce", 262144, 160)):
            self.assertAlmostEqual(limits.floor_us(known, "tcp", 2, name, size), wanted)

    def test_the_better_of_two_measurements_counts(self):
        worse = [{**LIMITS[0], "value": 0.3}, {**LIMITS[1], "value": 4.0}]
        self.assertEqual(limits.combine(worse, LIMITS), LIMITS)
        self.assertEqual(limits.combine(LIMITS, []), LIMITS)


class AgainstTheMachine(unittest.TestCase):
    def turn(self, flag, barrier):
        took = [{"collective": "barrier", "bytes": 0, "library": "gloo_c", "p50_us": barrier}]
        return {"limits": [{**LIMITS[0], "value": flag}], "took": took}

    def test_a_ratio_is_one_within_a_turn(self):
        """A machine whose flags take 0.1 or 0.3 microseconds, and barriers twice that."""
        found = turns.against([self.turn(0.1, 0.2), self.turn(0.3, 0.6), self.turn(0.1, 0.3)],
                              turns.GOALS[0])
        self.assertEqual([found.took_us, found.limit_us, found.turns], [0.3, 0.1, 3])
        for got, wanted in ((found.ratio, 2), (found.low, 2), (found.high, 3)):
            self.assertAlmostEqual(got, wanted)

    def test_half_a_turn_does_not_count(self):
        broken = [{"limits": [], "took": self.turn(1, 1)["took"]},
                  {"limits": LIMITS, "took": []}, self.turn(0, 1)]
        self.assertIsNone(turns.against(broken, turns.GOALS[0]))
        self.assertEqual(tables.against_table(turns.all_against(broken)), "")
        self.assertEqual(turns.against(broken + [self.turn(0.1, 0.2)], turns.GOALS[0]).turns, 1)

    def test_the_table_names_goal_and_range(self):
        found = turns.all_against([self.turn(0.1, 0.2), self.turn(0.1, 0.3)])
        rows = tables.against_table(found).splitlines()
        self.assertEqual(len(rows), 3)
        cells_of_row = [cell.strip() for cell in rows[2].split("|")[1:-1]]
        self.assertEqual(cells_of_row, ["barrier", "0.25", "flag_one_way", "0.1", "2.50",
                                        "2.00-3.00", "2", "at most 3"])

    def test_the_better_of_two_measurements_is_the_limit(self):
        worse = {"limits": [{**LIMITS[0], "value": 0.3}], "took": []}
        self.assertEqual(turns.best_limits([worse, {"limits": LIMITS, "took": []}]), LIMITS)


class Charts(unittest.TestCase):
    def test_labels_keep_their_distance_and_stay_inside(self):
        for wanted in ([5, 5, 5], [0, 100, 100, 100], [50, 10, 30], [99, 98, 97, 1]):
            places = charts.spread(wanted, 0, 100, gap=10)
            ordered = sorted(places)
            self.assertTrue(all(b - a >= 9.999 for a, b in zip(ordered, ordered[1:])), places)
            self.assertTrue(-0.001 <= ordered[0] and ordered[-1] <= 100.001, places)

    def test_labels_far_apart_stay_where_they_belong(self):
        self.assertEqual(charts.spread([80, 10, 40], 0, 100, gap=10), [80, 10, 40])


MACHINE = {"date": "today", "cpu": "a <fast> one", "cores": 2, "memory": "1 GB", "kernel": "K",
           "load_before": 0.0, "load_after": 0.0, "versions": {}}


class Summaries(unittest.TestCase):
    """What is kept in results/ tells what the single figures told."""

    def run_and_cells(self):
        took = [{"collective": "barrier", "bytes": 0, "library": "gloo_c", "p50_us": 0.2}]
        measured = [line("gloo_c", r, us) for r, us in enumerate((1.0, 2.0, 4.0))]
        measured += [line("mpich", r, 3.0) for r in range(3)]
        measured += [line("gloo_c_alloc", 0, 2.9999), line("openmpi", 1, 5.0, size=0)]
        late = {**line("gloo", 0, 1.0), "why": "over the limit"}
        run = {"machine": MACHINE, "command": "scripts/compare", "notes": ["one & all"],
               "turns": [{"limits": LIMITS, "took": took}]}
        return summary.with_limits(run), cells(measured, [late])

    def test_tables_and_page_are_those_of_the_single_figures(self):
        run, found = self.run_and_cells()
        again, kept = summary.parse(json.loads(summary.text(run, found)))
        self.assertEqual(len(kept), 2)
        for make in tables.report, webpage.render:
            self.assertEqual(make(again, kept, libraries.LIBRARIES),
                             make(run, found, libraries.LIBRARIES))

    def test_a_ratio_stays_on_its_side_of_1(self):
        found = cells([line("gloo_c", 0, 100010.0), line("mpich", 0, 100000.0)])
        run = self.run_and_cells()[0]
        _, kept = summary.parse(json.loads(summary.text(run, found)))
        self.assertEqual(len(results.above_1(kept)), 1)

    def test_a_page_does_not_need_to_know_who_was_fastest(self):
        run, found = self.run_and_cells()
        for cell in found:
            cell.best_peer = ""
        shown = webpage.render(*summary.parse(json.loads(summary.text(run, found))),
                               libraries.LIBRARIES)
        self.assertIn(">0.67*</td>", shown)

    def test_single_figures_are_no_summary(self):
        self.assertIsNone(summary.parse({"runs": [], "machine": MACHINE}))
        self.assertIsNone(summary.parse([]))

    def test_a_file_that_is_neither_is_refused(self):
        with tempfile.NamedTemporaryFile("w+") as file:
            file.write("{")
            file.flush()
            with self.assertRaises(SystemExit):
                summary.read(file.name, summary.parse)

    def test_files_are_named_for_day_and_processor(self):
        self.assertEqual(summary.name({"date": "2000-01-02", "cpu": "Some(R) CPU @ 2.0GHz"}),
                         "results/2000-01-02-some.json")

    def test_two_hosts_are_kept_as_medians(self):
        lines = [{"rate": 1, "library": "gloo_c", "bytes": 4, "p50_us": us, "max_us": 1}
                 for us in (3.0, 1.0, 2.0)]
        run = {"machine": MACHINE, "command": "c", "notes": [], "per_host": 2, "runs": lines}
        kept = json.loads(hosts.results_text(run))
        self.assertEqual(kept["runs"],
                         [{"rate": 1, "library": "gloo_c", "bytes": 4, "p50_us": 2.0}])
        self.assertEqual(hosts.report(kept), hosts.report(run))


class WebPages(unittest.TestCase):
    def setUp(self):
        measured = []
        for name, us in (("gloo_c", 2.0), ("gloo_c_alloc", 1.0), ("openmpi", 3.0), ("gloo", 90.0)):
            measured += [line(name, 0, us * (1 + size / 1024), size=size) for size in (4, 1024)]
            if name != "gloo_c_alloc":
                measured += [line(name, 0, us, size=0, collective="barrier")]
        run = {"machine": MACHINE, "command": "scripts/compare",
               "turns": [{"limits": LIMITS, "took": []}], "notes": ["one & all"]}
        self.page = webpage.render(summary.with_limits(run), cells(measured), libraries.LIBRARIES)

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


class Pages(unittest.TestCase):
    def test_only_what_is_between_the_marks_is_replaced(self):
        begin, end = page.marks("one")
        with tempfile.NamedTemporaryFile("w+") as file:
            file.write(f"above\n{begin}\nold\n{end}\nbelow\n")
            file.flush()
            page.write(file.name, "new\n", "one")
            page.write(file.name, "newer\n", "one")
            with open(file.name, encoding="utf-8") as again:
                expected = f"above\n{begin}\n\nnewer\n\n{end}\nbelow\n"
                self.assertEqual(again.read(), expected)

    def source_of(self, section, shown):
        """The file of results/ that a part says it was made from."""
        begin, _ = page.marks(section)
        return re.search(r"^From \[(results/[^]]*)\]", shown.partition(begin)[2], re.M)[1]

    def read(self, path):
        with open(os.path.join(ROOT, path), encoding="utf-8") as file:
            return file.read()

    def test_performance_md_shows_what_its_results_say(self):
        """Nobody has edited it by hand, or the results without it."""
        shown = self.read("docs/performance.md")
        made = {"scripts/compare --hosts": hosts.docs_text}
        made.update({section: compare.docs_text for section in self.processors(shown)})
        for section, text in made.items():
            source = self.source_of(section, shown)
            self.assertIn(page.part(text(source, ROOT), section), shown)

    def processors(self, shown):
        """The sections of processors, AMD's and Intel's."""
        found = re.findall("<!-- (scripts/compare, .*): begin -->", shown)
        self.assertEqual(found, ["scripts/compare, AMD EPYC", "scripts/compare, Intel Xeon"])
        return found

    def test_the_readme_says_the_means_of_these_results(self):
        shown = self.read("docs/performance.md")
        for section in self.processors(shown):
            path = os.path.join(ROOT, self.source_of(section, shown))
            run, found = summary.read(path, summary.parse)
            self.assertEqual(page.tables_on(run["machine"]["cpu"]), section)
            overall = {(m.transport, m.library): f"{m.geometric_mean:.2f}"
                       for m in results.means(found) if m.ranks == 0}
            means = overall["shm", "gloo_c"], overall["shm", "gloo_c_alloc"], overall["tcp", "gloo_c"]
            said = "{}: {}, {} and {}.".format(section.partition(", ")[2], *means)
            self.assertIn(said, self.read("README.md"))

    def test_names_of_processors(self):
        for cpu, name in {"AMD EPYC": "AMD EPYC", "AMD EPYC 7B13": "AMD EPYC 7B13",
                          "Intel(R) Xeon(R) Processor (family 6, model 207)": "Intel Xeon",
                          "Intel(R) Xeon(R) Platinum 8581C CPU @ 2.10GHz":
                          "Intel Xeon Platinum 8581C"}.items():
            self.assertEqual(machine.short(cpu), name)

    def test_a_page_without_marks_is_refused(self):
        with tempfile.NamedTemporaryFile("w+") as file:
            with self.assertRaises(SystemExit):
                page.write(file.name, "new\n", "one")


if __name__ == "__main__":
    testing.main()
