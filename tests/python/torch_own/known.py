"""Tests of PyTorch that gloo passes and gloo_c does not: the reason, and the error (a pattern)."""

WORDS = "the test looks for the words of gloo's own message"
NOT_IN_TIME = r"AssertionError: \"[^\"]*\" does not match \"[^\"]*barrier #\d+ timed out after"
LATE = WORDS, NOT_IN_TIME
ALL_LATE = f"{WORDS}, and for the first rank that is late, or all; gloo_c names one of them", NOT_IN_TIME
NAME = "C++ asks the group for its name, and gets gloo_c", r"String comparison failed: 'gloo_c' != 'gloo'"
PLUGIN = ("the test takes all backends that are registered for PyTorch's own: gloo_c is one more",
          r"String comparison failed: 'gloo_c' != 'custom'")


def words(theirs, ours):
    return WORDS, rf"AssertionError: \"{theirs}\" does not match \"[^\"]*{ours}"


EMPTY = words("requires non-empty (input )?tensor list", "the list of tensors is empty")
ROOT = words("invalid root rank", "root -1 is not a rank")
SIZE = words("invalid size of output tensor at index 0", r"tensor 0 has the shape \[0\], not \[1\]")

_GLOO = "ProcessGroupGlooTest.test_"

KNOWN = {
    "distributed.py": {
        "DistributedTest.test_barrier_timeout_full_group": LATE,
        "DistributedTest.test_barrier_timeout_global": LATE,
        "DistributedTest.test_barrier_timeout_group": LATE,
        "DistributedTest.test_monitored_barrier_gloo_rank_0_timeout": LATE,
        "DistributedTest.test_monitored_barrier_gloo": LATE,
        "DistributedTest.test_monitored_barrier_gloo_subgroup": LATE,
        "DistributedTest.test_monitored_barrier_failure_order": ALL_LATE,
        "DistributedTest.test_monitored_barrier_wait_all_ranks": ALL_LATE,
        "DistributedTest.test_ddp_logging_data_cpu": NAME,
    },
    "test_c10d_gloo.py": {
        "GlooProcessGroupWithDispatchedCollectivesTests.test_init_process_group_for_all_backends": PLUGIN,
        **{_GLOO + name: ROOT for name in ("broadcast_checks", "gather_checks", "reduce_checks", "scatter_checks")},
        **{_GLOO + name: EMPTY for name in (
            "allgather_checks", "allreduce_checks", "allreduce_coalesced_checks", "sparse_allreduce_checks")},
        _GLOO + "allgather_coalesced_checks": SIZE,
    },
}
