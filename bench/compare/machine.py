"""The machine of a measurement, and versions."""

import datetime
import os
import platform
import re
import shlex
import subprocess


def cores():
    return len(os.sched_getaffinity(0))


def physical_cores():
    siblings = set()
    for cpu in os.sched_getaffinity(0):
        path = f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"
        try:
            with open(path, encoding="ascii") as file:
                siblings.add(file.read().strip())
        except OSError:
            siblings.add(cpu)
    return len(siblings)


def field(path, key):
    """Returns the value after "key :" in a file of such lines."""
    try:
        with open(path, encoding="utf-8") as file:
            for line in file:
                name, _, value = line.partition(":")
                if name.strip() == key:
                    return value.strip()
    except OSError:
        pass
    return "unknown"


def processor():
    """Returns the processor's name, with its model if the name has no number."""
    name = field("/proc/cpuinfo", "model name")
    model = field("/proc/cpuinfo", "model")
    if any(c.isdigit() for c in name) or not model.isdigit():
        return name
    return f"{name} (family {field('/proc/cpuinfo', 'cpu family')}, model {model})"


def short(cpu):
    """Returns the maker and the series of a processor: "Intel Xeon"."""
    return " ".join(re.sub(r"\(.*?\)|\bProcessor\b|\bCPU\b|@.*", " ", cpu).split())


def version(package):
    """Returns the version in dpkg, or ""."""
    command = ["dpkg-query", "-W", "-f", "${Version}", package]
    try:
        found = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return found.stdout.strip() if found.returncode == 0 else ""


def revision():
    """Returns the revision in git, with "+" if files differ from it."""
    command = ["git", "describe", "--always", "--abbrev=12", "--exclude=*", "--dirty=+"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return "unknown"
    return found.stdout.strip() if found.returncode == 0 else "unknown"


def describe(versions):
    """Describes the machine. `versions`: those of the libraries, by name."""
    return {
        "revision": revision(),
        "date": datetime.date.today().isoformat(),
        "cpu": processor(),
        "architecture": platform.machine(),
        "cores": cores(),
        "memory": field("/proc/meminfo", "MemTotal"),
        "kernel": platform.system() + " " + platform.release(),
        "load_before": os.getloadavg()[0],
        "versions": versions,
    }


def command_line(program, argv):
    """Returns the command line as given, without additions of scripts/compare and local paths."""
    given = [a for i, a in enumerate(argv) if a not in ("--build", "--inside")
             and argv[i - 1:i] != ["--build"]]
    return shlex.join(program + [without_folders(a) for a in given])


def without_folders(argument):
    """Returns an absolute path, alone or after an option's "=", relative to this folder; only the
    name if it is elsewhere."""
    option, equals, path = argument.rpartition("=")
    if not os.path.isabs(path):
        return argument
    here = os.path.relpath(path)
    return option + equals + (os.path.basename(path) if here.startswith(os.pardir) else here)
