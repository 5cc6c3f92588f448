"""Two hosts that a link of a known rate joins: which share of it is reached?

The hosts are two network namespaces of this machine with a veth pair between
them, whose ends let pass only so many bits per second (tbf). Everything lives in
namespaces that belong to this process and its children, so nothing is left when
they end, by whatever cause. Started by scripts/compare --hosts; needs root."""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time

import libraries
import machine
import page
import runs
import summary
import tables

LINK = "link0"  # name of both ends, each in a separate namespace
NET, HERE, THERE = "10.213.78.0/24", "10.213.78.1", "10.213.78.2"
# tbf: burst size, and maximum time of packets in the queue.
BURST_BYTES, LATENCY_MS = {1: 128 << 10, 10: 512 << 10}, 20
BARE, LARGE = "bare sockets", 1 << 16  # and the size from which bandwidth matters
MSS, FRAME = 1448, 1514  # payload of a full TCP segment, and its frame
PAGE, SECTION = "docs/performance.md", "scripts/compare --hosts"
# UCX looks for network devices here, and must see those of its namespace.
OWN_SYSFS = "mount -t sysfs sysfs /sys"
FOLDER = os.path.dirname(os.path.abspath(__file__))
TOOLS = ("unshare", "nsenter", "ip", "tc")


def parse(argv):
    parser = argparse.ArgumentParser(
        prog="scripts/compare --hosts",
        description="Measure allreduce between two hosts (network namespaces) with a link of a "
                    "limited rate: our algorithms, and the other libraries. Needs root.")
    def numbers(text):
        return [int(one) for one in text.split(",")]
    add = parser.add_argument
    add("--rates", type=numbers, default=[1, 10], metavar="N,..", help="Gbit/s, 1 and 10 (1,10)")
    add("--sizes", type=numbers, default=[4, 1 << 14, 1 << 20, 1 << 26], metavar="BYTES,..",
        help="(4,16384,1048576,67108864)")
    add("--per-host", type=int, default=2, metavar="N", help="ranks of each host (2)")
    add("--algorithms", metavar="NAME,..", default="two_level,ring,circulant",
        help="of gloo_c, besides its own choice; unknown ones are left out "
             "(two_level,ring,circulant)")
    add("--repetitions", type=int, default=3, metavar="N", help="of everything (3)")
    add("--time", type=float, default=0.5, metavar="SECONDS",
        help="for each size of a run (0.5)")
    add("--limit", type=float, default=30, metavar="SECONDS", help="for one run of all sizes (30)")
    add("--budget", type=float, metavar="MINUTES", default=10, help="for everything (10)")
    add("--json", metavar="FILE", help="where the figures go (build-compare/hosts.json)")
    add("--from", dest="source", metavar="FILE", help="measure nothing, use the JSON of an "
        "earlier run")
    add("--write-docs", action="store_true", help="put the tables into docs/performance.md, and "
        "what they are made from into results/")
    add("--build", required=True, help=argparse.SUPPRESS)
    add("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if any(rate not in BURST_BYTES for rate in options.rates):
        parser.error("--rates: 1 and 10 are possible")
    options.warmup, options.buffers, options.untouched = 2, "2", False
    options.json = options.json or os.path.join(options.build, "hosts.json")
    return options


# ---- the two hosts ----------------------------------------------------------


def must(*command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"compare: {' '.join(command)} failed: {done.stderr.strip()}")


def enter_namespaces(argv):
    """Restarts the program in new namespaces."""
    if os.geteuid() != 0:
        raise SystemExit("compare: --hosts makes network namespaces, which needs root: run it as "
                         "root, or with sudo")
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        raise SystemExit(f"compare: --hosts needs the commands {', '.join(missing)} "
                         "(Debian: util-linux, iproute2)")
    program = [sys.executable, os.path.abspath(__file__), "--inside"] + argv
    os.execvp("unshare", ["unshare", "-m", "-n", "-u", "--"] + program)


class Hosts:
    """The other host, which exists as long as this object is open. It ends with this process,
    because it reads from a pipe that is closed then."""

    def __enter__(self):
        must("sh", "-c", "hostname host-a && " + OWN_SYSFS)
        self.process = subprocess.Popen(
            ["unshare", "-m", "-n", "-u", "--", "sh", "-c",
             f"hostname host-b && {OWN_SYSFS} && echo ready && exec cat"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            if self.process.stdout.readline().strip() != "ready":
                raise SystemExit("compare: no second network namespace can be made here")
            self.pid = str(self.process.pid)
            self.join()
        except BaseException:
            self.__exit__()
            raise
        return self

    def join(self):
        there = ["nsenter", "-t", self.pid, "-n", "--"]
        must("ip", "link", "add", LINK, "type", "veth", "peer", "name", "link1")
        must("ip", "link", "set", "link1", "netns", self.pid)
        must(*there, "ip", "link", "set", "link1", "name", LINK)
        for enter, address in ([], HERE), (there, THERE):
            must(*enter, "ip", "addr", "add", address + "/24", "dev", LINK)
            must(*enter, "ip", "link", "set", LINK, "up")
            must(*enter, "ip", "link", "set", "lo", "up")

    def set_rate(self, gbit):
        for enter in [], ["nsenter", "-t", self.pid, "-n", "--"]:
            must(*enter, "tc", "qdisc", "replace", "dev", LINK, "root", "tbf", "rate",
                 f"{gbit}gbit", "burst", str(BURST_BYTES[gbit]), "latency", f"{LATENCY_MS}ms")

    def __exit__(self, *_):
        self.process.stdin.close()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


# ---- what is run ------------------------------------------------------------


def algorithms(options):
    """Returns [(title, name or None)] for the names of `--algorithms` that the library has."""
    program = os.path.join(options.build, "tools/gloo")
    asked = subprocess.run([program, "bench", "allreduce", "--algorithm", "?"],
                           capture_output=True, text=True, check=False)
    known = asked.stderr.partition("is none of ")[2].replace(",", " ").split()
    chosen = [name for name in options.algorithms.split(",") if name in known]
    return [("gloo_c", None)] + [(f"gloo_c, {name}", name) for name in chosen]


def mpi_command(library, hosts, options, program):
    agent = os.path.join(FOLDER, "enter_host.sh")
    where = f"{HERE}:{options.per_host},{THERE}:{options.per_host}"
    environment = {"OTHER_HOST": hosts.pid, "OTHER_ADDRESS": THERE}
    ranks = str(2 * options.per_host)
    if library.name == "openmpi_debian":
        environment["OMPI_ALLOW_RUN_AS_ROOT"] = environment["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1"
        command = ["mpirun.openmpi", "-np", ranks, "--host", where, "--oversubscribe"]
        command += ["--mca", "plm_rsh_agent", agent, "--mca", "pml", "ob1"]
        command += ["--mca", "btl", "vader,tcp,self", "--mca", "btl_tcp_if_include", NET]
        command += ["--mca", "oob_tcp_if_include", NET]
        if 2 * options.per_host > machine.cores():
            command += ["--mca", "mpi_yield_when_idle", "1"]  # it takes them for two machines
        return command + [program], environment
    environment.update(UCX_TLS="tcp,self", UCX_NET_DEVICES=LINK)
    command = ["mpirun.mpich", "-np", ranks, "-hosts", where, "-localhost", HERE]
    command += ["-launcher", "rsh", "-launcher-exec", agent]
    return command + [program], environment


def on_hosts(hosts, per_host, command):
    script = os.path.join(FOLDER, "on_hosts.sh")
    return [script, hosts.pid, str(per_host), HERE, THERE] + command


def command_of(library, algorithm, hosts, options, directory):
    if library is None:
        large = ",".join(str(size) for size in options.sizes if size >= LARGE)
        program = [sys.executable, os.path.join(FOLDER, "streams.py"), str(options.time), large]
        return on_hosts(hosts, 1, program), {}
    program = os.path.abspath(os.path.join(options.build, library.program))
    arguments = libraries.arguments(library, "allreduce", options.sizes, options, "auto")
    if library.name in libraries.MPIS:
        command, environment = mpi_command(library, hosts, options, program)
        return command + arguments, environment
    chosen = ["--algorithm", algorithm] if algorithm else []
    command = on_hosts(hosts, options.per_host, [program] + arguments + chosen)
    return command, {"PEER_STORE": directory}


def between_hosts(build):
    known = libraries.titled(libraries.versions(libraries.LIBRARIES, build))
    return [library for library in known if library.name in libraries.BETWEEN_HOSTS]


def contestants(options):
    """Returns [(title, library, algorithm)]; without a library: bare sockets."""
    found = [(BARE, None, None)] if max(options.sizes) >= LARGE else []
    for library in between_hosts(options.build):
        program = os.path.join(options.build, library.program)
        if library.name == libraries.OURS:
            found += [(title, library, name) for title, name in algorithms(options)]
        elif os.path.exists(program):
            found.append((library.title, library, None))
    return found


def write_json(path, run):
    with open(path + ".new", "w", encoding="utf-8") as file:
        json.dump(run, file, indent=1)
        file.write("\n")
    os.replace(path + ".new", path)


def measure(options, argv):
    here = machine.describe(libraries.versions(between_hosts(options.build), options.build))
    ends = time.monotonic() + options.budget * 60
    command = machine.command_line(["scripts/compare", "--hosts"], argv)
    notes, measured, gone = [], [], set()

    def so_far():
        here["load_after"] = os.getloadavg()[0]
        return {"machine": here, "command": command, "notes": notes, "runs": measured,
                "per_host": options.per_host}

    with Hosts() as hosts:
        for repetition in range(options.repetitions):
            for rate in options.rates:
                hosts.set_rate(rate)
                for title, library, algorithm in contestants(options):
                    if (rate, title) in gone:
                        continue
                    if time.monotonic() > ends:
                        notes.append(f"the time for all of it, {options.budget:g} minutes, was up "
                                     f"in repetition {repetition + 1}, at {title}, {rate} Gbit/s")
                        return so_far()
                    began = time.monotonic()
                    with runs.job_directory() as directory:
                        launch, environment = command_of(
                            library, algorithm, hosts, options, directory)
                        result = runs.run(launch, environment, directory, options.limit)
                    problem = "over the limit" if result.over_limit else result.complaint
                    measured += [{**line, "library": title, "rate": rate, "repetition": repetition}
                                 for line in result.lines]
                    print(f"compare: {repetition + 1}/{options.repetitions} {rate} Gbit/s {title}: "
                          f"{time.monotonic() - began:.1f} s {problem}", file=sys.stderr, flush=True)
                    if problem:
                        gone.add((rate, title))
                        notes.append(f"{title} at {rate} Gbit/s: {problem}")
                write_json(options.json, so_far())
    return so_far()


# ---- tables -----------------------------------------------------------------


def limit_us(size, gbit):
    """Returns the limit of an allreduce between two hosts: each sends at least one buffer of bytes
    (half to reduce, half reduced), with their headers."""
    return size * 8 / gbit / 1e3 * FRAME / MSS


def median(values):
    return sorted(values)[len(values) // 2]


def rate_table(measured, rate):
    mine = [line for line in measured if line["rate"] == rate]
    titles = list(dict.fromkeys(line["library"] for line in mine))
    rows = []
    for size in sorted({line["bytes"] for line in mine}):
        row = [tables.size_text(size), tables.time_text(limit_us(size, rate))]
        for title in titles:
            times = [line["p50_us"] for line in mine
                     if (line["library"], line["bytes"]) == (title, size)]
            if not times:
                row.append("")
                continue
            share = limit_us(size, rate) / median(times)
            large = f" ({share:.0%})" if size >= LARGE else ""
            row.append(tables.time_text(median(times)) + large)
        rows.append(row)
    return tables.table(["size", "the link's limit"] + titles, rows)


def report(run):
    ranks = 2 * run["per_host"]
    parts = [tables.machine_text(run["machine"]), f"    {run['command']}"]
    for rate in dict.fromkeys(line["rate"] for line in run["runs"]):
        parts.append(f"### Two hosts, {rate} Gbit/s, allreduce of {ranks} ranks")
        parts.append(rate_table(run["runs"], rate))
    if run["notes"]:
        parts.append("\n".join("- " + note for note in run["notes"]))
    return "\n\n".join(parts) + "\n"


def median_lines(measured):
    """Returns a line for each library, rate and size, with the values that the tables need."""
    times = {}
    for line in measured:
        times.setdefault((line["rate"], line["library"], line["bytes"]), []).append(line["p50_us"])
    return [{"rate": rate, "library": library, "bytes": size,
             "p50_us": summary.rounded(median(found))}
            for (rate, library, size), found in times.items()]


def results_text(run):
    """Returns JSON with one median per line, which `--from` reads like single figures."""
    parts = [f' "{key}": {summary.one_line(run[key])}'
             for key in ("machine", "command", "notes", "per_host")]
    lines = ",\n".join("  " + summary.one_line(line) for line in median_lines(run["runs"]))
    return "{\n" + ",\n".join(parts) + f',\n "runs": [\n{lines}\n ]\n}}\n'


def docs_text(path, root="."):
    """Returns the part of the page for a file in results/, which is below `root`."""
    return page.source(path) + "\n\n" + report(summary.read(os.path.join(root, path), dict))


def write_docs(options, run):
    """Writes a file in results/, unless it came from there, and its part of the page."""
    path = options.source or ""
    if not path.startswith("results/"):
        path = summary.name(run["machine"], "-hosts")
        with open(path, "w", encoding="utf-8") as file:
            file.write(results_text(run))
    page.write(PAGE, docs_text(path), SECTION)


def main(argv):
    options = parse(argv)
    if options.write_docs:
        page.split(PAGE, SECTION)
    if options.source:
        run = summary.read(options.source, dict)
    elif not options.inside:
        enter_namespaces(argv)
    else:
        run = measure(options, argv)
        write_json(options.json, run)
    print(report(run), end="")
    if options.write_docs:
        write_docs(options, run)
    return 0 if run["runs"] else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
