"""Releases of MPIs that are distributed as Python wheels.

Each has a separate virtual environment in the build folder, because all of them contain a libmpi
and an mpiexec. It is installed once; the reason of a failure is written next to it, for the report
of a run without it. bench/peers/meson.build uses a pkg-config file for each."""

import glob
import os
import shutil
import subprocess
import sys

PIP = ["-m", "pip", "install", "--disable-pip-version-check", "--no-input", "--quiet",
       "--only-binary=:all:", "--retries", "1", "--timeout", "15"]
# pip's messages without a network, in the words of the system.
NO_NETWORK = ("Failed to establish a new connection", "Temporary failure in name resolution",
              "Name or service not known", "Network is unreachable", "ConnectTimeoutError",
              "ProxyError")
NEEDED = ("bin/mpiexec", "include/mpi.h", "lib/libmpi.so")


class Missing(Exception):
    """A wheel is not available; the text is the reason."""


def home(build, name):
    """Returns the virtual environment of a library."""
    return os.path.join(build, "wheels", name)


def pkg_config_file(build, name):
    return os.path.join(build, "wheels", "pkgconfig", f"peer-{name}.pc")


def reason_file(build, name):
    return home(build, name) + ".missing"


def mpiexec(build, name):
    """Returns mpiexec by its path: another MPI's may come first in PATH, and Intel's mpirun would
    run that one."""
    return os.path.join(home(build, name), "bin", "mpiexec")


def version(build, name, wheel):
    """Returns the installed version, or ""."""
    pattern = os.path.join(glob.escape(home(build, name)), "lib", "python3*", "site-packages",
                           wheel.replace("-", "_") + "-*.dist-info", "RECORD")
    found = glob.glob(pattern)
    if not found:
        return ""
    return os.path.basename(os.path.dirname(found[0])).removesuffix(".dist-info").split("-")[1]


def why_missing(build, name):
    try:
        with open(reason_file(build, name), encoding="utf-8") as file:
            return file.read().strip()
    except OSError:
        return "it is not installed; scripts/compare does that"


# ---- installing --------------------------------------------------------------


def reason(said):
    """Returns the reason of pip's failure, as one line of its output."""
    if any(words in said for words in NO_NETWORK):
        return "pip reaches no package index from here (no network?)"
    errors = [line.strip() for line in said.splitlines() if line.startswith("ERROR: ")]
    said = [line.strip() for line in said.splitlines() if line.strip()]
    return (errors or said or ["pip failed and said nothing"])[-1].removeprefix("ERROR: ")[:300]


def output_of(command):
    """Returns (success, output)."""
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace", check=False)
    except OSError as problem:
        return False, str(problem)
    return done.returncode == 0, done.stdout


def make(folder, wheels):
    """Creates a virtual environment with these wheels."""
    made, said = output_of([sys.executable, "-m", "venv", "--clear", folder])
    if not made:
        if "ensurepip" in said or "No module named venv" in said:
            raise Missing("Python makes no virtual environments here (Debian: python3-venv)")
        raise Missing(f"no virtual environment could be made: {reason(said)}")
    made, said = output_of([os.path.join(folder, "bin", "python"), *PIP, *wheels])
    if not made:
        raise Missing(f"{' and '.join(wheels)} could not be installed: {reason(said)}")
    lacks = [path for path in NEEDED if not os.path.exists(os.path.join(folder, path))]
    if lacks:
        raise Missing(f"the wheel of {wheels[0]} for this machine lacks {', '.join(lacks)}")


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def quoted(path):
    """Quotes for pkg-config."""
    return path.replace("\\", "\\\\").replace(" ", "\\ ")


def describe(build, name, title, found):
    """Writes the pkg-config file. LD_LIBRARY_PATH does not override its library folder: libraries
    of several MPIs have the same name."""
    write(pkg_config_file(build, name), f"""prefix={quoted(os.path.abspath(home(build, name)))}
Name: {title}
Description: an MPI that gloo_c is compared with
Version: {found}
Cflags: -I${{prefix}}/include
Libs: -L${{prefix}}/lib -Wl,--disable-new-dtags -Wl,-rpath,${{prefix}}/lib -lmpi
""")


def install(build, name, title, wheels):
    """Installs a wheel unless it is installed; raises Missing."""
    folder = home(build, name)
    try:
        if not all(version(build, name, wheel) for wheel in wheels):
            print(f"installing {title}: {', '.join(wheels)}, by pip", file=sys.stderr, flush=True)
            make(folder, wheels)
    except Missing as problem:
        shutil.rmtree(folder, ignore_errors=True)
        write(reason_file(build, name), f"{problem}\n")
        remove(pkg_config_file(build, name))
        raise
    remove(reason_file(build, name))
    describe(build, name, title, version(build, name, wheels[0]))


def remove(path):
    if os.path.exists(path):
        os.remove(path)
