"""The machine's limits, and what they mean for two ranks.

A floor is the time of an operation that only moves its bytes, the minimum number of times, at the
speed that `gloo bench limits` measured. It is an estimate: it leaves out all other work of a
library. Limits between two measured sizes are those of the nearest one, and times of exchanges over
TCP are interpolated."""

import json
import math
import os
import subprocess


def measure(build):
    """Returns (limits, reason if there are none)."""
    command = [os.path.join(build, "tools/gloo"), "bench", "limits", "--json"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
        return [json.loads(line) for line in done.stdout.splitlines()], ""
    except subprocess.TimeoutExpired:
        return [], "gloo bench limits did not end within a minute"
    except (OSError, ValueError, subprocess.CalledProcessError) as problem:
        said = (getattr(problem, "stderr", "") or str(problem)).strip()
        return [], "gloo bench limits failed: " + said


def better(a, b):
    """Returns the better of two measurements: disturbances only make a machine slower."""
    choose = min if a["unit"] == "us" else max
    return choose(a, b, key=lambda limit: limit["value"])


def combine(before, after):
    """Combines two sets of limits; a limit in only one of them counts as well."""
    found = {(limit["limit"], limit["bytes"]): limit for limit in before}
    for limit in after:
        key = limit["limit"], limit["bytes"]
        found[key] = better(found[key], limit) if key in found else limit
    return list(found.values())


def nearest(limits, name, size):
    """Returns a limit at the measured size that is nearest, as a ratio."""
    known = [l for l in limits if l["limit"] == name]
    if not known:
        return math.nan
    def distance(limit):
        return abs(math.log((limit["bytes"] + 1) / (size + 1)))
    return min(known, key=distance)["value"]


def between(limits, name, size):
    """Returns a time at a size between two measured ones, by logarithmic interpolation."""
    known = sorted((l["bytes"], l["value"]) for l in limits if l["limit"] == name)
    if not known:
        return math.nan
    if len(known) == 1 or size <= known[0][0]:
        return known[0][1]
    upper = next((i for i, (b, _) in enumerate(known) if b >= size), len(known) - 1)
    (b0, t0), (b1, t1) = known[upper - 1], known[upper]
    return t0 * (t1 / t0) ** (math.log(size / b0) / math.log(b1 / b0))


# Number of consecutive messages, and bytes that cross a link in one and in both directions at once,
# as a share of the larger buffer, on two ranks.
SHAPES = {
    "barrier": (1, 0, 0),
    "sendrecv": (2, 2, 0),
    "broadcast": (1, 1, 0),
    "reduce": (1, 1, 0),
    "allreduce": (1, 0, 1),
    "allgather": (1, 0, 0.5),
    "reduce_scatter": (1, 0, 0.5),
    "alltoall": (1, 0, 0.5),
    "scan": (1, 1, 0),
    "exscan": (1, 1, 0),
    "gather": (1, 0.5, 0),
    "scatter": (1, 0.5, 0),
    # Rank 0 has two thirds: see collectives.py.
    "reduce_scatterv": (1, 0, 2 / 3),
    "allgatherv": (1, 0, 2 / 3),
    "gatherv": (1, 1 / 3, 0),
    "scatterv": (1, 1 / 3, 0),
    "alltoallv": (1, 0, 1 / 4),
}
# Memory accesses of two ranks with a core each: the limit for their speed, and their bytes as a
# share of the larger buffer.
MEMORY = {
    "sendrecv": ("memcpy", 2),
    "broadcast": ("memcpy", 1),
    "reduce": ("fused_add", 0.5),
    "allreduce": ("fused_add", 1),
    "allgather": ("memcpy", 1),
    "reduce_scatter": ("fused_add", 0.5),
    "alltoall": ("memcpy", 1),
    "scan": ("fused_add", 1),
    "exscan": ("memcpy", 0.5),
    "gather": ("memcpy", 0.5),
    "scatter": ("memcpy", 0.5),
    "reduce_scatterv": ("fused_add", 2 / 3),
    "allgatherv": ("memcpy", 1),
    "gatherv": ("memcpy", 2 / 3),
    "scatterv": ("memcpy", 2 / 3),
    "alltoallv": ("memcpy", 1),
}


def exactly(limits, name, size):
    """Returns a limit at exactly this size, or NaN if it was not measured."""
    return next((l["value"] for l in limits if (l["limit"], l["bytes"]) == (name, size)), math.nan)


def microseconds(size, gigabytes_per_second):
    return size / gigabytes_per_second / 1e3


def floor_us(limits, transport, ranks, collective, size):
    """Returns the floor, or NaN without an estimate: on more than two ranks."""
    if ranks != 2 or collective not in SHAPES:
        return math.nan
    messages, one_way, both_ways = SHAPES[collective]
    if transport == "tcp":
        if not one_way and messages == 1:
            return between(limits, "tcp_exchange", max(size * both_ways, 4))
        latency = nearest(limits, "tcp_pingpong_roundtrip", 4) / 2
        stream = nearest(limits, "tcp_stream", size)
        return messages * latency + microseconds(size * one_way, stream)
    floor = messages * nearest(limits, "flag_one_way", 64)
    if collective in MEMORY:
        name, share = MEMORY[collective]
        floor += microseconds(size * share, nearest(limits, name, size))
    return floor
