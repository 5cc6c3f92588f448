"""Our times compared with the machine's limits.

Memory, caches and other programs make a machine faster or slower for minutes. So limits are
measured in turns: each turn measures all limits and, directly afterwards, the operations that are
compared with them. A ratio is computed within a turn."""

import math
import statistics
from dataclasses import dataclass

import limits
from libraries import OURS, OURS_ALLOC

# Number of turns before everything else, and again afterwards; fewer with fewer repetitions.
MOST = 3
LIMIT_S = 20


@dataclass(frozen=True)
class Goal:
    """A goal for two ranks in shared memory: a limit, and the allowed multiple of it."""

    collective: str
    bytes: int
    library: str
    limit: str
    limit_bytes: int
    at_most: float = math.nan  # NaN: reported, without a goal


GOALS = [
    Goal("barrier", 0, OURS, "flag_one_way", 64, 3),
    Goal("allreduce", 1 << 26, OURS_ALLOC, "fused_allreduce", 1 << 26, 1.3),
    Goal("allreduce", 1 << 26, OURS, "fused_allreduce", 1 << 26),
]


def goals_of(options):
    """Returns the goals that are part of the comparison."""
    if "shm" not in options.transports or 2 not in options.ranks:
        return []
    return [g for g in GOALS if g.library in options.libraries
            and g.collective in options.collectives
            and (g.collective == "barrier" or g.bytes in options.sizes)]


def measure_one(work):
    """Returns {"limits": .., "took": [{"collective", "bytes", "library", "p50_us"}]}."""
    found, problem = limits.measure(work.options.build)
    if problem:
        work.note(problem)
    took = []
    by_name = {library.name: library for library in work.libraries}
    for goal in goals_of(work.options):
        ran = work.launch(by_name[goal.library], "shm", 2, goal.collective, [goal.bytes], LIMIT_S)
        took += [{"collective": goal.collective, "bytes": goal.bytes, "library": goal.library,
                  "p50_us": line["p50_us"]} for line in ran.lines]
    return {"limits": found, "took": took}


def measure(work):
    """Measures some turns; one if nothing is compared with the limits."""
    count = min(MOST, work.options.repetitions) if goals_of(work.options) else 1
    return [measure_one(work) for _ in range(count)]


def best_limits(turns):
    best = []
    for turn in turns:
        best = limits.combine(best, turn["limits"])
    return best


@dataclass
class Against:
    """Our time and the limit, in the turns that have both: medians, and the minimum and maximum of
    the ratios."""

    goal: Goal
    took_us: float
    limit_us: float
    ratio: float
    low: float
    high: float
    turns: int


def plain(found):
    """Converts for JSON."""
    goal = found.goal
    return {"collective": goal.collective, "bytes": goal.bytes, "library": goal.library,
            **{name: float(f"{getattr(found, name):.4g}")
               for name in ("took_us", "limit_us", "ratio", "low", "high")},
            "turns": found.turns}


def from_plain(line):
    """Converts from JSON; the goal must still exist."""
    key = line["collective"], line["bytes"], line["library"]
    goal = next(g for g in GOALS if (g.collective, g.bytes, g.library) == key)
    return Against(goal, line["took_us"], line["limit_us"], line["ratio"], line["low"],
                   line["high"], line["turns"])


def all_against(turns):
    """Returns the results of all measured goals."""
    found = [against(turns, goal) for goal in GOALS]
    return [one for one in found if one is not None]


def against(turns, goal):
    """Returns our times and the limit of a goal, or None if it was not measured."""
    pairs = []
    for turn in turns:
        limit = limits.exactly(turn["limits"], goal.limit, goal.limit_bytes)
        pairs += [(one["p50_us"], limit) for one in turn["took"]
                  if (one["collective"], one["bytes"], one["library"])
                  == (goal.collective, goal.bytes, goal.library) and limit > 0]
    if not pairs:
        return None
    ratios = [took / limit for took, limit in pairs]
    return Against(goal, statistics.median(took for took, _ in pairs),
                   statistics.median(limit for _, limit in pairs),
                   statistics.median(ratios), min(ratios), max(ratios), len(pairs))
