"""What is compared, and the sizes that it is compared at."""

# In the order of the tables. sendrecv is a round trip.
NAMES = ["barrier", "sendrecv", "broadcast", "reduce", "allreduce", "scan", "exscan",
         "reduce_scatter", "allgather", "gather", "scatter", "alltoall", "reduce_scatterv",
         "allgatherv", "gatherv", "scatterv", "alltoallv"]

ELEMENT_BYTES = 4  # float32
# Units of the blocks that differ in length: see gli_case_init.
UNITS = (2, 1, 3, 2, 0)


def row(first, ranks):
    return sum(UNITS[(first + i) % len(UNITS)] for i in range(ranks))


def blocks(collective, ranks):
    """What the size of the larger buffer is a multiple of, in elements: those of
    blocks for all ranks."""
    if collective == "alltoallv":
        return max(row(first, ranks) for first in range(ranks))
    if collective.endswith("v") and collective != "sendrecv":
        return row(0, ranks)
    if collective in ("reduce_scatter", "allgather", "gather", "scatter", "alltoall"):
        return ranks
    return 1


def rounded(collective, ranks, size):
    """The size that `gloo bench` makes of one that it is asked for."""
    if collective == "barrier":
        return 0
    unit = ELEMENT_BYTES * blocks(collective, ranks)
    return max(size // unit, 1) * unit
