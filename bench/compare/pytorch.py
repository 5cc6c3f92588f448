"""torch.distributed with gloo_c and with PyTorch's gloo, if both are installed.

Started by scripts/compare --torch. bench/python/torch_backends.py measures: both backends take
turns in the same processes."""

import argparse
import json
import os
import subprocess
import sys
import tempfile

import machine

HERE = os.path.dirname(os.path.abspath(__file__))
MEASURES = os.path.join(HERE, "..", "python", "torch_backends.py")
LIMIT_S = 900
# Importing torch takes seconds, and many on a slow disk.
PROBE_LIMIT_S = 120


class Missing(Exception):
    """The measurement is impossible; the text is the reason."""


def run(command, limit):
    try:
        return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              errors="replace", timeout=limit, check=False)
    except OSError as problem:
        raise Missing(f"{command[0]} cannot be started: {problem.strerror}") from None
    except subprocess.TimeoutExpired:
        raise Missing(f"{' '.join(command)} took longer than {limit} s") from None


def last_words(done):
    said = [line.strip() for line in (done.stderr or done.stdout).splitlines() if line.strip()]
    return (said or [f"its status is {done.returncode}"])[-1]


def look(python):
    """Checks that the packages are installed."""
    done = run([python, "-c", "import torch, gloo_c.torch"], PROBE_LIMIT_S)
    if done.returncode != 0:
        raise Missing(f"{python} has not both torch and gloo_c ({last_words(done)}): install them, "
                      "or say with --python where they are")


def measure(options, ranks):
    """Returns the results of torch_backends.py."""
    with tempfile.TemporaryDirectory(prefix="gloo-compare-") as directory:
        path = os.path.join(directory, "times.json")
        done = run([options.python, "-m", "torch.distributed.run", "--standalone",
                    "--nproc-per-node", str(ranks), MEASURES, "--json", path], LIMIT_S)
        if done.returncode != 0 or not os.path.exists(path):
            raise Missing(f"{ranks} ranks were not measured: {last_words(done)}")
        with open(path, encoding="utf-8") as file:
            return json.load(file)


def table(runs):
    heads = "".join(f" {r['ranks']} ranks: gloo | gloo_c | ratio |" for r in runs)
    lines = [f"| us |{heads}", "|---|" + "---:|" * 3 * len(runs)]
    for name in runs[0]["times"]:
        cells = "".join(f" {r['times'][name]['gloo']:,.0f} | {r['times'][name]['gloo_c']:,.0f} "
                        f"| {r['times'][name]['ratio']:.2f} |" for r in runs)
        lines.append(f"| {name} |{cells}")
    return "\n".join(lines)


def parse(argv):
    parser = argparse.ArgumentParser(
        prog="scripts/compare --torch",
        description="all_reduce, and steps of DDP, through torch.distributed: gloo_c beside PyTorch's "
                    "own gloo, in turns in the same processes; medians, of the rank that took longest. "
                    "Both packages have to be installed.")
    add = parser.add_argument
    add("--ranks", type=lambda text: [int(word) for word in text.split(",")], default=[2, 4],
        metavar="N,N", help="ranks (2,4)")
    add("--python", default=sys.executable, metavar="FILE", help="the Python that has them (python3)")
    add("--build", required=True, help=argparse.SUPPRESS)
    return parser.parse_args(argv)


def main(argv):
    options = parse(argv)
    try:
        look(options.python)
        before = os.getloadavg()[0]
        runs = [measure(options, ranks) for ranks in options.ranks]
    except Missing as problem:
        raise SystemExit(f"scripts/compare: {problem}") from None
    print(f"PyTorch {runs[0]['torch']}, {machine.cores()} cores, one thread per rank; load average "
          f"before {before:.1f}, after {os.getloadavg()[0]:.1f}\n\n{table(runs)}")


if __name__ == "__main__":
    main(sys.argv[1:])
