"""Messages over RDMA beside those of perftest, on the software RDMA device of the
virtual machine that the tests have (tests/transport_ibv/vm).

Started by scripts/compare --rdma, which builds everything first. One boot; in each
round every figure is measured once, and a ratio is one within a round."""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass

HERE = os.path.dirname(os.path.abspath(__file__))
VM = os.path.join(HERE, "..", "..", "tests", "transport_ibv", "vm", "vm.sh")
DEVICE, GID, ADDRESS, PORT = "rxe_lo", "1", "127.0.0.1", 18515
SHORT, LONG = 4, 4 << 20
RUN_LIMIT_S, BOOT_LIMIT_S, SKIPPED = 120, 120, 77
MIB = 1.048576  # perftest's megabytes are 2^20 bytes
# A round takes 20 s on an idle machine, and several times that on a busy one.
ROUND_LIMIT_S = 100


@dataclass(frozen=True)
class Figure:
    """A measurement of ours, the corresponding one of perftest, and the goal for their ratio."""

    name: str
    unit: str
    ours: str
    theirs: str
    limit: float
    more_is_better: bool

    def reached(self, ratio):
        return ratio >= self.limit if self.more_is_better else ratio <= self.limit


FIGURES = [
    Figure("round trip, 4 B", "us", "round_trip", "send_lat", 1.5, False),
    Figure("one way, 4 MiB, gloo_alloc", "MB/s", "stream_alloc", "write_bw", 0.8, True),
    Figure("one way, 4 MiB, malloc", "MB/s", "stream_malloc", "write_bw", 0.8, True),
]


# ---- in the machine -----------------------------------------------------------


def output_of(command, **more):
    done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_LIMIT_S,
                          check=False, env={**os.environ, **more})
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()[-3:]
        raise SystemExit(f"rdma: {' '.join(command)} failed: {' '.join(said)}")
    return done.stdout


def listens():
    """Returns true if perftest's server waits for its client."""
    for name in ("tcp", "tcp6"):
        with open(f"/proc/net/{name}", encoding="ascii") as file:
            fields = [line.split() for line in file.readlines()[1:]]
        if any(f[1].endswith(f":{PORT:04X}") and f[3] == "0A" for f in fields):
            return True
    return False


def figures_of(said):
    """Returns the numbers in perftest's one line of results."""
    for line in reversed(said.splitlines()):
        words = line.split()
        if len(words) > 4 and words[0].isdigit():
            return [float(word) for word in words]
    raise SystemExit(f"rdma: perftest has no results: {said.strip()[-300:]}")


def perftest(program, size, times):
    command = [program, "-F", "-d", DEVICE, "-x", GID, "-p", str(PORT), "-s", str(size),
               "-n", str(times)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        ends = time.monotonic() + RUN_LIMIT_S
        while not listens():
            if server.poll() is not None or time.monotonic() > ends:
                raise SystemExit(f"rdma: {program} does not listen")
            time.sleep(0.05)
        said = output_of(command + [ADDRESS])
        server.wait(RUN_LIMIT_S)
    return figures_of(said)


def ours(build, kind, size, times, memory):
    gloo, messages = (os.path.join(build, name) for name in ("tools/gloo", "bench/messages"))
    said = output_of([gloo, "run", "-n", "2", "--", messages, kind, str(size), str(times), memory],
                     GLOO_TRANSPORT="ibv", GLOO_IBV_DEVICE=DEVICE)
    return float(said)


def measure_round(options, backwards):
    """Returns {name: figure}."""
    build, short, long = options.build, options.round_trips, options.messages
    todo = [
        # The columns: bytes, iterations, minimum, maximum, typical.
        ("send_lat", lambda: 2 * perftest("ib_send_lat", SHORT, short)[4]),
        ("round_trip", lambda: ours(build, "round_trip", SHORT, short, "malloc")),
        # Bytes, iterations, peak, average.
        ("write_bw", lambda: MIB * perftest("ib_write_bw", LONG, long)[3]),
        ("stream_alloc", lambda: ours(build, "stream", LONG, long, "gloo_alloc")),
        ("stream_malloc", lambda: ours(build, "stream", LONG, long, "malloc")),
    ]
    return {name: measure() for name, measure in (reversed(todo) if backwards else todo)}


def measure(options):
    for i in range(options.rounds):
        print(json.dumps(measure_round(options, i % 2 == 1)), flush=True)


# ---- outside ------------------------------------------------------------------


def boot(options):
    """Returns the measurements of each round."""
    command = ["bash", VM, "run", "--rxe", "lo", "--cpus", str(options.cpus), "--timeout",
               str(BOOT_LIMIT_S + ROUND_LIMIT_S * options.rounds), "--", "python3", "-B",
               os.path.abspath(__file__), "--inside", "--build", options.build, "--rounds",
               str(options.rounds), "--round-trips", str(options.round_trips), "--messages",
               str(options.messages)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as machine:
        rounds = [json.loads(line) for line in machine.stdout if line.startswith("{")]
    if machine.returncode == SKIPPED:
        raise SystemExit(SKIPPED)
    if machine.returncode != 0 or not rounds:
        raise SystemExit(f"rdma: the machine's status is {machine.returncode}")
    return rounds


def row(figure, rounds):
    ratios = sorted(r[figure.ours] / r[figure.theirs] for r in rounds)
    ratio = statistics.median(ratios)
    sign = ">=" if figure.more_is_better else "<="
    verdict = "reached" if figure.reached(ratio) else "MISSED"
    return (f"| {figure.name} | {statistics.median(r[figure.ours] for r in rounds):.1f} "
            f"| {statistics.median(r[figure.theirs] for r in rounds):.1f} | {figure.unit} "
            f"| {ratio:.2f} | {ratios[0]:.2f} to {ratios[-1]:.2f} | {sign} {figure.limit}: {verdict} |")


def table(rounds):
    return "\n".join([
        "| | gloo_c | perftest | | ratio | of the rounds | goal |",
        "|---|---:|---:|---|---:|---|---|",
        *(row(figure, rounds) for figure in FIGURES)])


def parse(argv):
    parser = argparse.ArgumentParser(
        prog="scripts/compare --rdma",
        description="Messages of gloo_c over RDMA beside ib_send_lat (twice its typical latency) and "
                    "ib_write_bw of perftest, between two processes in a virtual machine that has a "
                    "software RDMA device (rdma_rxe). It says how much the library adds, not how fast "
                    "RDMA is.")
    add = parser.add_argument
    add("--rounds", type=int, default=5, metavar="N", help="each measures every figure once (5)")
    add("--boots", type=int, default=1, metavar="N", help="of the machine, one table each (1)")
    add("--cpus", type=int, default=2, metavar="N", help="that the machine has (2)")
    add("--round-trips", type=int, default=3000, metavar="N", help="of a figure (3000)")
    add("--messages", type=int, default=20, metavar="N", help="of 4 MiB, of a figure (20)")
    add("--inside", action="store_true", help=argparse.SUPPRESS)
    add("--build", required=True, help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    options.build = os.path.abspath(options.build)
    return options


def main(argv):
    options = parse(argv)
    if options.inside:
        measure(options)
        return
    for _ in range(options.boots):
        before = os.getloadavg()[0]
        rounds = boot(options)
        print(f"software RDMA (rdma_rxe) in a virtual machine with {options.cpus} processors; "
              f"medians of {len(rounds)} rounds in one boot; load average before {before:.1f}, "
              f"after {os.getloadavg()[0]:.1f}\n\n{table(rounds)}\n", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
