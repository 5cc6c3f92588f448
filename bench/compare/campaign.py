"""The selection and order of runs, and their time limits."""

import statistics
import sys
import time
from dataclasses import dataclass

import collectives
import libraries
import machine
import repeats
import runs

# Share of the time for the first repetition; the rest is divided among the others.
FIRST_SHARE = 0.5
# A run may take this multiple of its fair share, and at least this many seconds.
PATIENCE, SHORTEST_LIMIT_S = 6, 4
# Share of the time for the limits of the machine, after everything else, and for runs in progress
# when the rest has passed.
RESERVE = 0.04
# Interval between writes of the results so far.
SAVE_EVERY_S = 20
# A peer this much slower than the fastest at a size is measured there again only if time remains.
FAR_BEHIND = 2
# Seconds before the first call of a run, if unknown.
START_S = 1
# A library that did not get halfway through its sizes gets this many seconds at other collectives
# on as many ranks.
COLLAPSED_LIMIT_S = 1.5


@dataclass(frozen=True)
class Job:
    """A library at one collective, with all sizes."""

    library: libraries.Library
    transport: str
    ranks: int
    collective: str

    def key(self):
        return self.library.name, self.transport, self.ranks, self.collective


class Campaign:
    def __init__(self, options, chosen, save=None):
        self.options = options
        self.libraries = chosen
        self.save = save or (lambda: None)
        self.began = self.saved = time.monotonic()
        self.deadline = self.began + options.budget * 60 * (1 - RESERVE)
        self.measured = []  # JSON objects, with "library" and "repetition"
        self.done = {}  # seconds taken, by key of a job and repetition
        self.why = {}  # reason, by key of an unfinished job
        self.notes = []
        self.given_up = set()  # keys of jobs
        self.late = set()  # keys of jobs that exceeded the limit once
        self.collapsed = set()  # (library, transport, ranks)
        self.unknown = set()  # (library, transport)
        self.took_s = {}  # by key: the longest run
        self.size_s = {}  # seconds of that for each size, by key and size
        self.times = {}  # number of measurements, by key and size
        self.start_s = {}  # seconds of a run apart from its sizes, by key
        self.ahead = 0  # jobs of the first repetition that have not run yet

    def note(self, text):
        if text not in self.notes:
            self.notes.append(text)
            self.say(text)

    def say(self, text):
        print("compare: " + text, file=sys.stderr, flush=True)

    # ---- an earlier run --------------------------------------------------------

    def go_on_from(self, run):
        """Adopts the results of an earlier run, which need not be measured again."""
        self.measured = list(run["runs"])
        for key, why in run["why"]:
            self.why[tuple(key)] = why
            self.given_up.add(tuple(key))
        lines = {}
        for line in self.measured:
            key = line["library"], line["transport"], line["ranks"], line["collective"]
            lines.setdefault((key, line["repetition"]), []).append(line)
        for key, repetition, took in run["done"]:
            one = tuple(key), repetition
            self.done[one] = took
            self.learn(one[0], lines.get(one, []), took, one[0] not in self.given_up)

    def missing(self):
        """Returns what has no figure: keys as in `measured`."""
        have = {(l["library"], l["ranks"], l["collective"], l["bytes"], l["transport"])
                for l in self.measured}
        found = []
        for job in self.all_jobs():
            why = self.why.get(job.key(), "no time left")
            for size in self.sizes(job):
                line = {"ranks": job.ranks, "collective": job.collective, "bytes": size}
                found += [one for one in self.add(job, {**line, "why": why})
                          if (job.library.name, job.ranks, job.collective, size,
                              one["transport"]) not in have]
        return found

    # ---- what does not run -----------------------------------------------------

    def launch(self, library, transport, ranks, collective, sizes, limit, extra=()):
        with runs.job_directory() as directory:
            command, environment = libraries.launch(
                library, self.options.build, ranks, transport, directory)
            command += libraries.arguments(
                library, collective, sizes, self.options, transport)
            return runs.run(command + list(extra), environment, directory, limit)

    def probe(self, library, transport, collective):
        once = self.launch(library, transport, 2, collective, [4], 20, ["--iterations", "1"])
        if once.lines:
            return ""
        return once.complaint or "it did not end within 20 s"

    def transports_of(self, library):
        """Returns the transports that the library is measured over."""
        if library.tcp_for_all:
            return ["tcp"]
        return [t for t in self.options.transports if t in library.transports]

    def find_unknown(self):
        """Excludes libraries that do not start."""
        for library in self.libraries:
            for transport in self.transports_of(library):
                collective = "barrier" if library.measures("barrier") else "allreduce"
                problem = self.probe(library, transport, collective)
                if problem:
                    self.unknown.add((library.name, transport))
                    self.note(f"{library.title} is left out over {transport}: {problem}")
        if all((l.name, t) in self.unknown for l in self.libraries for t in self.transports_of(l)):
            raise SystemExit("compare: none of the libraries runs")

    # ---- the order -----------------------------------------------------------

    def jobs(self, ranks, collective):
        """Yields jobs that are compared with each other, side by side."""
        return [Job(library, transport, ranks, collective)
                for library in self.libraries if library.measures(collective)
                for transport in self.transports_of(library)
                if (library.name, transport) not in self.unknown]

    def groups(self):
        return [self.jobs(ranks, collective)
                for ranks in self.options.ranks for collective in self.options.collectives]

    def all_jobs(self):
        return [job for group in self.groups() for job in group]

    def run(self):
        self.find_unknown()
        self.ahead = sum((job.key(), 0) not in self.done for job in self.all_jobs())
        for repetition in range(self.options.repetitions):
            again = self.again(repetition) if repetition > 0 else None
            for group in self.groups():
                # A different library comes first each time.
                first = repetition * len(group) // self.options.repetitions
                for job in group[first:] + group[:first]:
                    if time.monotonic() > self.deadline:
                        self.note(f"the time for all of it, {self.options.budget:g} minutes, was "
                                  f"up in repetition {repetition + 1}, at {job.collective} of "
                                  f"{job.ranks} ranks")
                        return
                    sizes = self.sizes(job) if again is None else again.get(job.key())
                    if sizes and (job.key(), repetition) not in self.done:
                        self.measure(job, repetition, sizes)
                        self.ahead -= repetition == 0
                if time.monotonic() - self.saved > SAVE_EVERY_S:
                    self.save()
                    self.saved = time.monotonic()

    # ---- what is repeated ------------------------------------------------------

    def near_the_best(self):
        """Returns (key, size) of peers close to the fastest one, and always of ours."""
        p50, found = {}, set()
        for line in self.measured:
            cell = (line["transport"], line["ranks"], line["collective"], line["bytes"])
            p50.setdefault(cell, {}).setdefault(line["library"], []).append(line["p50_us"])
        ours = {library.name for library in self.libraries if library.ours}
        over_tcp = {library.name for library in self.libraries if library.tcp_for_all}
        for (transport, ranks, collective, size), by_library in p50.items():
            medians = {name: statistics.median(times) for name, times in by_library.items()}
            best = min((us for name, us in medians.items() if name not in ours), default=0)
            for name, us in medians.items():
                if name in ours or us <= FAR_BEHIND * best:
                    ran_over = "tcp" if name in over_tcp else transport
                    found.add(((name, ran_over, ranks, collective), size))
        return found

    def learn(self, key, lines, took, finished):
        """Records the time of a run, for each size and apart from sizes."""
        self.took_s[key] = max(took, self.took_s.get(key, 0))
        for line in lines:
            one = key, line["bytes"]
            self.size_s[one] = max(line.get("seconds", 0), self.size_s.get(one, 0))
            self.times[one] = self.times.get(one, 0) + 1
        if finished:
            self.start_s[key] = max(took - sum(line.get("seconds", 0) for line in lines), 0)

    def candidates(self):
        """Returns {(key, size): seconds} of repeatable measurements: after a run over the limit,
        the sizes that it completed."""
        found = {}
        for job in self.all_jobs():
            key = job.key()
            for size in self.sizes(job) if self.why.get(key) != "failed" else []:
                if (key, size) in self.size_s:
                    found[key, size] = self.size_s[key, size]
                elif key not in self.given_up:
                    found[key, size] = self.took_s.get(key, 0)
        return found

    def group_of(self, jobs, wanted):
        seconds = {}
        for job in jobs:
            for size in self.sizes(job):
                if (job.key(), size) in wanted:
                    seconds.setdefault(size, {})[job.key()] = wanted[job.key(), size]
        times = {size: min(self.times.get((key, size), 0) for key in keys)
                 for size, keys in seconds.items()}
        start = {job.key(): self.start_s.get(job.key(), START_S) for job in jobs}
        return repeats.Group(seconds, start, times)

    def again(self, repetition):
        """Returns {key: sizes} for which this repetition has time."""
        left = self.options.repetitions - repetition
        time_s = (self.deadline - time.monotonic()) / left
        wanted = self.candidates()
        groups = [self.group_of(jobs, wanted) for jobs in self.groups()]
        if sum(group.cost(group.seconds) for group in groups) > time_s:
            near = self.near_the_best()
            hopeful = {one: cost for one, cost in wanted.items() if one in near}
            groups = [self.group_of(jobs, hopeful) for jobs in self.groups()]
        kept = {}
        for group, sizes in zip(groups, repeats.choose(groups, time_s)):
            for size in sorted(sizes):
                for key in group.seconds[size]:
                    kept.setdefault(key, []).append(size)
        count = sum(len(sizes) for sizes in kept.values())
        if count < len(wanted):
            self.say(f"repetition {repetition + 1}: {count} of {len(wanted)} figures, for which "
                     "there is time")
        return kept

    # ---- one run -------------------------------------------------------------

    def limit(self, job):
        """Returns the limit of a job. In the first repetition it is fair to the remaining jobs. A
        library that collapsed once with more ranks than cores will do so again, and gets less
        time."""
        if (job.library.name, job.transport, job.ranks) in self.collapsed:
            return COLLAPSED_LIMIT_S
        if self.ahead == 0:
            return self.options.limit
        ends = self.began + FIRST_SHARE * (self.deadline - self.began)
        fair = (ends - time.monotonic()) / self.ahead
        return min(self.options.limit, max(PATIENCE * fair, SHORTEST_LIMIT_S))

    def add(self, job, line):
        """Adds a result. A result over TCP may count for all transports."""
        transports = [job.transport]
        if job.library.tcp_for_all:
            transports = self.options.transports
        return [{**line, "library": job.library.name, "transport": t} for t in transports]

    def sizes(self, job):
        return sorted({collectives.rounded(job.collective, job.ranks, s)
                       for s in self.options.sizes})

    def measure(self, job, repetition, sizes):
        began = time.monotonic()
        result = self.launch(job.library, job.transport, job.ranks, job.collective, sizes,
                             self.limit(job))
        took = time.monotonic() - began
        self.learn(job.key(), result.lines, took,
                   not result.over_limit and not result.complaint)
        for line in result.lines:
            self.measured += self.add(job, {**line, "repetition": repetition})
        self.done[job.key(), repetition] = took
        self.say(f"{repetition + 1}/{self.options.repetitions} {job.ranks} ranks {job.collective} "
                 f"{job.transport} {job.library.title}: {took:.1f} s"
                 + (", over the limit" if result.over_limit else ""))
        if result.over_limit:
            self.give_up(job, sizes, result)
        elif result.complaint:
            self.given_up.add(job.key())
            self.why[job.key()] = "failed"
            self.note(f"{job.library.title}, {job.collective} of {job.ranks} ranks over "
                      f"{job.transport} failed: {result.complaint}")

    def give_up(self, job, sizes, result):
        """Gives up a job; its measurements count. Another program may have caused the failure, so
        with a core for each rank the job is tried once more."""
        done = {line["bytes"] for line in result.lines}
        crowded = job.ranks > machine.cores()
        if crowded or job.key() in self.late:
            self.given_up.add(job.key())
        self.late.add(job.key())
        self.why[job.key()] = "over the limit"
        if crowded and len(done) * 2 < len(sizes):
            self.collapsed.add((job.library.name, job.transport, job.ranks))
