"""The compared collectives, and their sizes."""

# In the order of the tables. sendrecv is a round trip.
NAMES = ["barrier", "sendrecv", "broadcast", "reduce", "allreduce", "scan", "exscan",
         "reduce_scatter", "allgather", "gather", "scatter", "alltoall", "reduce_scatterv",
         "allgatherv", "gatherv", "scatterv", "alltoallv"]

ELEMENT_BYTES = 4  # float32
# Units of blocks of different lengths: see gli_case_init.
UNITS = (2, 1, 3, 2, 0)


def row(first, ranks):
    return sum(UNITS[(first + i) % len(UNITS)] for i in range(ranks))


def blocks(collective, ranks):
    """Returns the number of elements of which the larger buffer's size is a multiple: those of
    blocks for all ranks."""
    if collective == "alltoallv":
        return max(row(first, ranks) for first in range(ranks))
    if collective.endswith("v") and collective != "sendrecv":
        return row(0, ranks)
    if collective in ("reduce_scatter", "allgather", "gather", "scatter", "alltoall"):
        return ranks
    return 1


def rounded(collective, ranks, size):
    """Returns the size that `gloo bench` uses for a requested one."""
    if collective == "barrier":
        return 0
    unit = ELEMENT_BYTES * blocks(collective, ranks)
    return max(size // unit, 1) * unit
