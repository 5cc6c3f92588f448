"""Tests of PyTorch's that gloo passes and gloo_c does not: why, and what they fail with (a pattern)."""

# ---- what stays: the name, the words -------------------------------------------------------------

WORDS = "the test looks for the words of gloo's own message"
NOT_IN_TIME = r"AssertionError: \"[^\"]*\" does not match \"[^\"]*barrier #\d+ did not complete within"
LATE = WORDS, NOT_IN_TIME
ALL_LATE = f"{WORDS}, and for the first rank that is late, or all; gloo_c names one of them", NOT_IN_TIME
NAME = "C++ asks the group for its name, and gets gloo_c", r"String comparison failed: 'gloo_c' != 'gloo'"
PLUGIN = ("the test takes all backends that are registered for PyTorch's own: gloo_c is one more",
          r"String comparison failed: 'gloo_c' != 'custom'")
ROOT = WORDS, r"AssertionError: \"invalid root rank\" does not match \"[^\"]*root -1 is not a rank"
WRAPPED = ("PyTorch checks collectives (TORCH_DISTRIBUTED_DEBUG=DETAIL) of Backend objects alone, and before 2.14 "
           "those of Python cannot be made", r"RuntimeError not raised|TypeError: |does not match")

# ---- what Group does not do as gloo's own class does ---------------------------------------------

FORMS = ("Group does not take the arguments that Backend takes besides lists and options",
         r"unexpected keyword argument|missing 1 required positional argument|Tensor-likes are not close")
FUTURE = "the future of a single list of outputs has a list of one list", r"sequences mismatch: 4 != 1"
CHECKS = ("Group takes arguments that gloo refuses, or refuses them in other words",
          r"(Runtime|Value)Error not raised|does not match \"[^\"]*the list of tensors is empty")
SAME = "Group refuses tensors that share memory", r"BackendError: .* overlap"
SPARSE = "Group takes one sparse tensor, no list of them", r"of layout torch.sparse_coo cannot be sent"
LEFT = ("a group that is dropped while a collective is under way fails the others",
        r"destroyed its context while operations were running")
WAITS = ("a barrier does not wait for the operations that this rank has started: it mostly passes",
         r"Tensor-likes are not close")

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
        **{_GLOO + name: FORMS for name in ("allreduce_basics", "broadcast_basics", "broadcast_stress")},
        **{_GLOO + name: FUTURE for name in (
            "allgather_basics", "allgather_inference_mode", "allgather_noncontiguous_input", "allgather_stress",
            "gather_basics", "gather_noncontiguous_input", "gather_stress")},
        **{_GLOO + name: CHECKS for name in (
            "allgather_checks", "allgather_coalesced_checks", "allreduce_checks", "allreduce_coalesced_checks",
            "sparse_allreduce_checks")},
        "GlooProcessGroupWithDispatchedCollectivesTests.test_all_to_all_single": CHECKS,
        "GlooProcessGroupWithDispatchedCollectivesTests.test_collectives": SAME,
        **{_GLOO + name: SAME for name in ("allreduce_coalesced_async", "allreduce_coalesced_stress")},
        _GLOO + "sparse_allreduce_basics": SPARSE,
        _GLOO + "set_gloo_pg_timeout": LEFT,
        _GLOO + "barrier_implies_wait": WAITS,
    },
    "test_pg_wrapper.py": {f"ProcessGroupGlooWrapperTest.test_{name}": WRAPPED for name in (
        "collective_hang", "collective_shape_mismatch_debug_mode", "collective_shape_mismatch_debug_mode_off",
        "collectives_op_mismatch", "collectives_op_mismatch_debug_mode")},
}
