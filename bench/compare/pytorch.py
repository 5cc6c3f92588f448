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
LIMIT_S = 1800
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
                    "--nproc-per-node", str(ranks), MEASURES, "--json", path,
                    *(["--only", *options.only] if options.only else [])], LIMIT_S)
        if done.returncode != 0 or not os.path.exists(path):
            raise Missing(f"{ranks} ranks were not measured: {last_words(done)}")
        with open(path, encoding="utf-8") as file:
            return json.load(file)


def columns(runs):
    """Returns what the runs measured, in a fixed order."""
    found = {key for run in runs for taken in run["times"].values() for key in taken}
    known = ("alone", "hook", "gloo", "gloo_c", "ratio", "shared", "operator", "deepspeed", "vllm")
    return [key for key in known if key in found]


def shown(taken, key):
    if key not in taken:
        return ""
    digits = 2 if key == "ratio" else 0 if taken[key] >= 100 else 1
    return f"{taken[key]:,.{digits}f}"


def table(runs):
    keys = columns(runs)
    heads = "".join(f" {r['ranks']} ranks: {' | '.join(keys)} |" for r in runs)
    lines = [f"| us |{heads}", "|---|" + "---:|" * len(keys) * len(runs)]
    for name in runs[0]["times"]:
        cells = "".join(f" {shown(r['times'].get(name, {}), key)} |" for r in runs for key in keys)
        lines.append(f"| {name} |{cells}")
    return "\n".join(lines)


def parse(argv):
    parser = argparse.ArgumentParser(
        prog="scripts/compare --torch",
        description="Sums, decoding, a compiled layer, and steps of DDP and FSDP2, through torch.distributed: "
                    "gloo_c beside PyTorch's own gloo, in turns in the same processes; medians, of the rank "
                    "that took longest. Columns: alone (without communication), hook (DDP with a hook that does not "
                    "communicate), ratio (gloo_c / gloo), shared (gloo_c, with ddp_buckets, or FSDP2 with memory "
                    "of the group), operator (torch.ops.gloo_c), and the kernels of deepspeed and vllm if these "
                    "are installed. PyTorch and gloo_c have to be.")
    add = parser.add_argument
    add("--ranks", type=lambda text: [int(word) for word in text.split(",")], default=[2, 4],
        metavar="N,N", help="ranks (2,4)")
    add("--only", type=lambda text: text.split(","), default=[], metavar="PART,PART",
        help="these parts: sums, overlap, decoding, layer, ddp, fsdp")
    add("--json", metavar="FILE", help="keep the results in a file")
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
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(runs, file, indent=1)


if __name__ == "__main__":
    main(sys.argv[1:])
