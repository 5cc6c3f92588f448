"""The libraries, and how their users would start them on one host."""

import os
from dataclasses import dataclass

import machine

# In place: MPI and Gloo know no other broadcast, and Gloo no other
# reduce-scatter.
IN_PLACE = {"broadcast": ("gloo_c", "gloo_c_alloc", "openmpi", "mpich", "gloo"),
            "reduce_scatter": ("gloo",), "reduce_scatterv": ("gloo",)}


OURS, OURS_ALLOC = "gloo_c", "gloo_c_alloc"
TRANSPORTS = ("shm", "tcp")


@dataclass(frozen=True)
class Library:
    name: str  # in JSON
    title: str  # in tables
    program: str  # relative to the build directory
    package: str = ""  # whose version is reported
    ours: bool = False
    memory: str = ""  # where buffers come from; empty: there is only one kind
    transports: tuple = TRANSPORTS
    # It has no shared memory: what it does over TCP is compared with both.
    tcp_for_all: bool = False
    lacks: tuple = ()  # collectives

    def measures(self, collective):
        return collective not in self.lacks


LIBRARIES = [
    Library(OURS, "gloo_c", "bench/peers/peer-gloo_c", ours=True, memory="malloc"),
    Library(OURS_ALLOC, "gloo_c, gloo_alloc", "bench/peers/peer-gloo_c", ours=True,
            memory="gloo_alloc", transports=("shm",), lacks=("barrier",)),
    Library("openmpi", "Open MPI", "bench/peers/peer-openmpi", "openmpi-bin"),
    Library("mpich", "MPICH", "bench/peers/peer-mpich", "mpich"),
    Library("gloo", "Gloo", "bench/peers/peer-gloo", "libgloo0", tcp_for_all=True,
            lacks=("scan", "exscan", "gatherv", "scatterv")),
]


def openmpi_launcher(ranks, transport):
    command = ["mpirun.openmpi", "-np", str(ranks)]
    if ranks > machine.cores():
        command.append("--oversubscribe")  # which makes ranks yield
    elif ranks > machine.physical_cores():
        command.append("--use-hwthread-cpus")
    if transport == "tcp":
        command += ["--mca", "pml", "ob1", "--mca", "btl", "tcp,self"]
        command += ["--mca", "btl_tcp_if_include", "lo"]
    return command, {}


def mpich_launcher(ranks, transport):
    environment = {}
    if transport == "tcp":
        environment = {
            "MPIR_CVAR_NOLOCAL": "1",  # for ch4
            "MPIR_CVAR_CH3_NOLOCAL": "1",  # for ch3
            "UCX_TLS": "tcp,self",
            "UCX_NET_DEVICES": "lo",
        }
    return ["mpirun.mpich", "-np", str(ranks)], environment


def launch(library, build, ranks, transport, directory):
    """The command that starts ranks of a library's program, without the
    program's arguments, and what to add to the environment. `directory` is
    empty and for this job alone."""
    program = os.path.join(build, library.program)
    gloo_run = [os.path.join(build, "tools/gloo"), "run", "-n", str(ranks), "--"]
    if library.name == "openmpi":
        command, environment = openmpi_launcher(ranks, transport)
        if os.getuid() == 0:
            environment["OMPI_ALLOW_RUN_AS_ROOT"] = "1"
            environment["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1"
        return command + [program], environment
    if library.name == "mpich":
        command, environment = mpich_launcher(ranks, transport)
        return command + [program], environment
    if library.name == "gloo":
        return gloo_run + [program], {"PEER_STORE": directory}
    return gloo_run + [program], {}


def arguments(library, collective, sizes, options, transport):
    """Of the program, which are those of `gloo bench`."""
    given = [collective, "--json", "--time", str(options.time)]
    given += ["--warmup", str(options.warmup)]
    if collective != "barrier":
        given += ["--sizes", ",".join(str(size) for size in sizes)]
        given += ["--buffers", options.buffers]
        given += ["--untouched"] if options.untouched else []
    if library.ours:
        given += ["--transport", transport, "--memory", library.memory]
    if library.name in IN_PLACE.get(collective, ()):
        given.append("--in-place")
    return given
