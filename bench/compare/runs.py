"""Running one program, within a limit of time, and leaving nothing behind."""

import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
from dataclasses import dataclass, field

TERM_SECONDS = 3


@dataclass
class Run:
    lines: list = field(default_factory=list)  # the JSON objects that it printed
    complaint: str = ""  # reason of the failure, from its output
    over_limit: bool = False


# ---- processes --------------------------------------------------------------


def all_processes():
    """Returns {pid: (parent, start time)}; the start time distinguishes two processes with the same
    pid."""
    found = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                fields = file.read().rpartition(")")[2].split()
        except OSError:
            continue
        found[int(name)] = (int(fields[1]), fields[19])
    return found


def descendants(pid):
    """Returns {pid: start time} of a process and its descendants."""
    processes = all_processes()
    family = {pid} if pid in processes else set()
    grown = True
    while grown:
        children = {p for p, (parent, _) in processes.items() if parent in family}
        grown = not children <= family
        family |= children
    return {p: processes[p][1] for p in family}


def kill_what_is_left(family):
    processes = all_processes()
    for pid, start in family.items():
        if pid in processes and processes[pid][1] == start:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass


def end(process):
    """Asks the launcher to end its ranks, and kills those that do not."""
    family = descendants(process.pid)
    process.terminate()
    try:
        process.wait(TERM_SECONDS)
    except subprocess.TimeoutExpired:
        family.update(descendants(process.pid))
    kill_what_is_left(family)
    process.wait()


# ---- one run ----------------------------------------------------------------


def parse(text):
    lines = []
    for line in text.splitlines():
        if not line.startswith("{"):
            continue
        try:
            lines.append(json.loads(line))
        except ValueError:
            continue  # truncated
    return lines


def first_words(text):
    """Returns the output of a failed program, rather than its launcher's."""
    said = [line.strip() for line in text.splitlines() if line.strip(" -=|*")]
    own = [line for line in said if line.startswith("gloo bench: ")]
    telling = [line for line in said if "rank" in line or "rror" in line]
    first = (own or telling or said or ["it said nothing"])[0]
    # MPICH and Intel MPI print the cause last, after a list of functions.
    causes = [line for line in said if re.match(r"\w+\(\d+\)\.*: *\S", line)]
    if first.endswith("error stack:") and causes:
        first = first.removesuffix(", error stack:") + ": " + causes[-1]
    return first[:300]


def run(command, environment, directory, limit):
    """Runs `command` for at most `limit` seconds. Measurements before the limit are kept."""
    result = Run()
    with open(os.path.join(directory, "out"), "w+", encoding="utf-8", errors="replace") as out, \
         open(os.path.join(directory, "err"), "w+", encoding="utf-8", errors="replace") as err:
        try:
            process = subprocess.Popen(
                command, env={**os.environ, **environment}, stdin=subprocess.DEVNULL,
                stdout=out, stderr=err, start_new_session=True)
        except OSError as problem:
            result.complaint = str(problem)
            return result
        try:
            process.wait(limit)
        except subprocess.TimeoutExpired:
            result.over_limit = True
        finally:
            if process.returncode is None:
                end(process)
        out.seek(0)
        err.seek(0)
        result.lines = parse(out.read())
        if process.returncode != 0 and not result.over_limit:
            result.complaint = first_words(err.read())
    return result


class job_directory:
    """A temporary directory for one job."""

    def __enter__(self):
        self.path = tempfile.mkdtemp(prefix="gloo-compare-")
        return self.path

    def __exit__(self, *_):
        shutil.rmtree(self.path, ignore_errors=True)
