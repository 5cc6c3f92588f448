"""Each slice of .ci/run selects tests, and each suite that .ci names exists.

usage: slices.py PROJECT BUILD"""

import json
import re
import subprocess
import sys
from pathlib import Path

import tap

PARTS = 8  # values of chosen_by_tree, in turn: the largest number of parts of a slice
# Runs the slices with stubs for the functions that run tests; prints "SLICE: options" for each
# call.
CALLS = r"""
eval "$(sed -n '/^address_each=(/,/)/p' "$1/.ci/run")"
. "$2"
suite() { echo "$name: ${*:2}"; }
tested() { echo "$name: ${*:2}"; }
check() { :; }
chosen_by_tree() { echo $((part % $1)); }
for ((number = 1; number <= slice_count; number++)); do
  name=$(slice_field "$number" 2)
  for ((part = 0; part < PARTS; part++)); do "slice_${name//-/_}"; done
done""".replace("PARTS", str(PARTS))


def calls(project, slices):
    """Returns (slice, options) of each call of scripts/test."""
    done = subprocess.run(["bash", "-c", CALLS, "bash", project, slices], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and not done.stderr, done.stderr
    found = {tuple(line.split(": ", 1)) for line in done.stdout.splitlines()}
    return sorted((name, words.split()) for name, words in found)


def values(words, option):
    return [word.partition("=")[2] for word in words if word.startswith(f"--{option}=")]


def selected(tests, words):
    """Returns the tests that scripts/test would run with these options."""
    suites, without, names = (set(values(words, option)) for option in ("suite", "without", "name"))
    without |= set() if "--slow" in words else {"slow"}
    return [name for name, of in tests
            if (not suites or suites & of) and not without & of and (not names or name in names)]


def unknown(tests, text):
    """Returns suites that options in a script name, and that do not exist."""
    suites = set().union(*(of for _, of in tests))
    return sorted(set(re.findall(r"--(?:suite|without)=([a-z_0-9]+)", text)) - suites)


def main(project, build):
    described = subprocess.run(["meson", "introspect", "--tests", build], capture_output=True, text=True, check=True)
    tests = [(test["name"], {suite.partition(":")[2] for suite in test["suite"]})
             for test in json.loads(described.stdout)]
    slices = project / ".ci/slices.sh"
    found = [f"slice {name} selects no test: {' '.join(words)}" for name, words in calls(project, slices)
             if words and words[0].startswith("--") and not selected(tests, words)]
    missing = [f"{path.name} names the suite {suite}, which does not exist"
               for path in (project / ".ci/run", project / ".ci/cross", slices)
               for suite in unknown(tests, path.read_text(encoding="utf-8"))]
    planted = ["--slow", "--suite=cuda_seeds", "--name=matrix_gpus_seeds_tcp_1"]
    tap.report([("each slice selects tests", not found), ("each suite that .ci names exists", not missing),
                ("a suite without tests is found", not selected(tests, planted) and unknown(tests, planted[1]) != [])],
               found + missing)


main(Path(sys.argv[1]), sys.argv[2])
