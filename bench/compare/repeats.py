"""The choice of measurements to repeat in the remaining time."""

from dataclasses import dataclass


@dataclass
class Group:
    """Measurements made side by side: for each size the seconds of each job, the seconds of each
    job apart from sizes, and the number of measurements of a size."""

    seconds: dict  # size: {key of a job: seconds}
    start: dict  # key of a job: seconds
    times: dict  # size: number

    def cost(self, sizes):
        keys = {key for size in sizes for key in self.seconds[size]}
        return (sum(self.start[key] for key in keys)
                + sum(sum(self.seconds[size].values()) for size in sizes))

    def worst(self, sizes):
        """Returns (price, sizes): those that cost most for their information, of single sizes and
        of all together. Each further measurement of a size adds less."""
        worth = {size: 1 / max(self.times[size], 1) for size in sizes}
        whole = self.cost(sizes)
        found = [((whole - self.cost(sizes - {size})) / worth[size], {size}) for size in sizes]
        return max(found + [(whole / sum(worth.values()), sizes)], key=lambda one: one[0])


def choose(groups, time_s):
    """Returns the sizes to measure again for each group, within the time."""
    kept = [set(group.seconds) for group in groups]
    cost = [group.cost(sizes) for group, sizes in zip(groups, kept)]
    worst = [group.worst(sizes) if sizes else (0, set()) for group, sizes in zip(groups, kept)]
    while sum(cost) > time_s and any(kept):
        at = max((i for i in range(len(groups)) if kept[i]), key=lambda i: worst[i][0])
        kept[at] = kept[at] - worst[at][1]
        cost[at] = groups[at].cost(kept[at])
        worst[at] = groups[at].worst(kept[at]) if kept[at] else (0, set())
    return kept
