"""PyTorch's own test files, and their sources.

distributed_test.py is part of the torch package. The others are not on PyPI; they are in Debian's
source package pytorch. apt downloads that from the machine's package mirror, with separate lists,
and changes nothing in the system. It is kept in ~/.cache/gloo_c."""

import importlib.util
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

SUITE = "trixie"  # of Debian: CI must not change from day to day
APT = Path("/etc/apt")
LONGEST = 600  # seconds for apt-get: the slice's timeout is longer


class NotToBeHad(Exception):
    """The files could not be fetched; the text is the reason."""


def own():
    """Returns distributed_test.py, which is part of torch."""
    found = importlib.util.find_spec("torch.testing._internal.distributed")
    return Path(found.submodule_search_locations[0]) / "distributed_test.py"


def entries():
    """Returns (URI, distributions, components, the key's file) of apt's configuration."""
    for file in sorted((APT / "sources.list.d").glob("*.sources")):
        for paragraph in re.split(r"\n\s*\n", file.read_text(encoding="utf-8")):
            fields = dict(re.findall(r"^([A-Za-z-]+):[ \t]*(.*)$", paragraph, re.M))
            for uri in fields.get("URIs", "").split():
                yield uri, fields.get("Suites", "").split(), fields.get("Components", "").split(), fields.get("Signed-By", "")
    for file in [APT / "sources.list", *sorted((APT / "sources.list.d").glob("*.list"))]:
        said = file.read_text(encoding="utf-8") if file.exists() else ""
        for options, uri, suite, components in re.findall(
                r"^deb(?:-src)?\s+(?:\[(.*?)\]\s+)?(\S+)\s+(\S+)\s+(.*)$", said, re.M):
            key = re.search(r"signed-by=(\S+)", options)
            yield uri, [suite], components.split(), key[1] if key else ""


def source_lines(suite):
    """Returns the lines with which apt finds Debian's source packages of a suite."""
    lines = [f"deb-src {f'[signed-by={key}] ' if key else ''}{uri} {suite} main"
             for uri, suites, components, key in entries()
             if "main" in components and uri.rstrip("/").endswith("/debian")
             and not any("security" in each for each in suites)]
    return list(dict.fromkeys(lines))


def apt(folder, *command):
    options = {"Dir::Etc::SourceList": folder / "sources.list", "Dir::Etc::SourceParts": "/dev/null",
               "Dir::State::Lists": folder / "lists", "Dir::Cache": folder / "cache",
               "APT::Sandbox::User": "", "Acquire::Retries": 2, "Acquire::http::Timeout": 60}
    try:
        done = subprocess.run(
            ["apt-get", "-q", *(f"-o{name}={value}" for name, value in options.items()), *command], cwd=folder,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            errors="replace", check=False, timeout=LONGEST)
    except subprocess.TimeoutExpired:
        raise NotToBeHad(f"apt-get {command[0]} did not end within {LONGEST} s") from None
    if done.returncode:
        wrong = [line for line in done.stdout.splitlines() if line.startswith(("E:", "Err:"))]
        raise NotToBeHad(f"apt-get {command[0]} failed: {(wrong or ['no reason given'])[-1]}")


def fetch(suite, target):
    """Downloads the source package of a suite, and puts its tests in `target`."""
    if shutil.which("apt-get") is None:
        raise NotToBeHad("this machine has no apt-get")
    lines = source_lines(suite)
    if not lines:
        raise NotToBeHad("apt is not set up for Debian's packages on this machine")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as place:
        folder = Path(place)
        for each in ("lists/partial", "cache/archives/partial"):
            (folder / each).mkdir(parents=True)
        (folder / "sources.list").write_text("\n".join(lines) + "\n", encoding="utf-8")
        apt(folder, "update")
        apt(folder, "source", "--download-only", "--only-source", "pytorch")
        for archive in folder.glob("pytorch_*.orig.tar.*"):
            with tarfile.open(archive) as source:
                source.extractall(folder / "all", filter="data", members=(
                    member for member in source if "/test/distributed/" in member.name))
        for tests in folder.glob("all/*/test/distributed"):
            tests.parents[1].joinpath("version").write_text(version(folder), encoding="utf-8")
            tests.parents[1].rename(target)
            return
    raise NotToBeHad(f"the source package pytorch of {suite} has no folder test/distributed")


def version(folder):
    """Returns the PyTorch version of the source package."""
    archive = next(folder.glob("pytorch_*.orig.tar.*")).name
    return re.search(r"_([0-9.]+)", archive)[1]


def debian(suite=SUITE):
    """Returns (the folder test/distributed, the version) of Debian's PyTorch."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    target = cache / "gloo_c/pytorch" / suite
    if not (target / "version").exists():
        fetch(suite, target)
    return target / "test/distributed", (target / "version").read_text(encoding="utf-8")
