"""What is run, in which order, and when it is given up."""

import sys
import time

import libraries
import machine
import runs

# Ranks that each hold a block of the larger buffer make its size a multiple of
# their number.
BY_RANK = ("allgather", "reduce_scatter", "alltoall")
ELEMENT_BYTES = 4  # float32


def rounded(collective, ranks, size):
    """The size that `gloo bench` makes of one that it is asked for."""
    if collective == "barrier":
        return 0
    unit = ELEMENT_BYTES * (ranks if collective in BY_RANK else 1)
    return max(size // unit, 1) * unit


class Campaign:
    def __init__(self, options, chosen):
        self.options = options
        self.libraries = chosen
        self.deadline = time.monotonic() + options.budget * 60
        self.measured = []  # JSON objects, with "library" and "repetition"
        self.over_limit = []  # what took too long: keys as in `measured`
        self.notes = []
        self.given_up = set()  # (library, transport, ranks, collective)
        self.late = set()  # the same: once over the limit
        self.collapsed = set()  # (library, transport, ranks)
        self.unknown = set()  # (library, collective or transport)

    def note(self, text):
        if text not in self.notes:
            self.notes.append(text)
            self.say(text)

    def say(self, text):
        print("compare: " + text, file=sys.stderr, flush=True)

    # ---- what gloo_c does not have -------------------------------------------

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

    def find_unknown(self):
        """Collectives and transports that gloo_c has not got are left out; so is
        a peer that does not start."""
        working = []
        for library in self.libraries:
            for transport in self.options.transports:
                problem = self.probe(library, transport, "barrier")
                if not problem:
                    working.append((library, transport))
                    continue
                self.unknown.add((library.name, transport))
                self.note(f"{library.title} is left out over {transport}: {problem}")
        working.sort(key=lambda pair: not pair[0].ours)
        if not working:
            raise SystemExit("compare: none of the libraries runs")
        for collective in list(self.options.collectives):
            problem = self.probe(*working[0], collective)
            if problem:
                self.options.collectives.remove(collective)
                self.note(f"{collective} is left out: {problem}")

    # ---- the order -----------------------------------------------------------

    def run(self):
        self.find_unknown()
        for repetition in range(self.options.repetitions):
            for transport in self.options.transports:
                for ranks in self.options.ranks:
                    for collective in self.options.collectives:
                        if not self.compare(repetition, transport, ranks, collective):
                            return

    def compare(self, repetition, transport, ranks, collective):
        """All libraries, one after the other, another one first each time. False
        when time is up."""
        n = len(self.libraries)
        for i in range(n):
            library = self.libraries[(i + repetition) % n]
            if time.monotonic() > self.deadline:
                self.note(f"the time for all of it, {self.options.budget} minutes, was up in "
                          f"repetition {repetition + 1}, at {collective} of {ranks} ranks "
                          f"over {transport}")
                return False
            self.measure(library, repetition, transport, ranks, collective)
        return True

    # ---- one run -------------------------------------------------------------

    def limit(self, library, transport, ranks):
        """A library that did not get half way through its sizes once, with more
        ranks than cores, will not do so later, and need not be waited for as
        long."""
        collapsed = (library.name, transport, ranks) in self.collapsed
        return self.options.limit / (4 if collapsed else 1)

    def measure(self, library, repetition, transport, ranks, collective):
        key = (library.name, transport, ranks, collective)
        if (library.name, transport) in self.unknown or key in self.given_up:
            return
        sizes = sorted({rounded(collective, ranks, s) for s in self.options.sizes})
        began = time.monotonic()
        result = self.launch(library, transport, ranks, collective, sizes,
                             self.limit(library, transport, ranks))
        for line in result.lines:
            line.update(library=library.name, transport=transport, repetition=repetition)
            self.measured.append(line)
        self.say(f"{repetition + 1}/{self.options.repetitions} {transport} {ranks} ranks "
                 f"{collective} {library.title}: {time.monotonic() - began:.1f} s"
                 + (", over the limit" if result.over_limit else ""))
        if result.over_limit:
            self.give_up(key, sizes, result)
        elif result.complaint:
            self.given_up.add(key)
            self.note(f"{library.title}, {collective} of {ranks} ranks over {transport} "
                      f"failed: {result.complaint}")

    def give_up(self, key, sizes, result):
        """What it did measure counts. It may have been the fault of another
        program, so with a core for each rank it is tried once more."""
        library, transport, ranks, collective = key
        done = {line["bytes"] for line in result.lines}
        crowded = ranks > machine.cores()
        if crowded or key in self.late:
            self.given_up.add(key)
        self.late.add(key)
        if crowded and len(done) * 2 < len(sizes):
            self.collapsed.add((library, transport, ranks))
        for size in sizes:
            if size not in done:
                self.over_limit.append({
                    "library": library, "transport": transport, "ranks": ranks,
                    "collective": collective, "bytes": size})
