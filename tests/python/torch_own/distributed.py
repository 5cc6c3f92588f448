"""distributed_test.py, which torch has but does not run by itself, as a file of tests for "gloo".

WORLD_SIZE is the number of ranks. Tests that are meant for MPI alone run, too: others can pass them. Events
of the profiler are not looked at: gloo_c's spans have other names, no shapes, and end where they began."""

import importlib.util
import os
import tempfile
from pathlib import Path

os.environ["BACKEND"] = "gloo"
os.environ["INIT_METHOD"] = f"file://{tempfile.gettempdir()}/meet"
os.environ.setdefault("WORLD_SIZE", "3")
from torch.testing._internal.distributed import distributed_test

distributed_test.PROFILING_SUPPORTED_BACKENDS.clear()
distributed_test.SEND_RECV_PROFILING_SUPPORTED_BACKENDS.clear()


def _for_mpi():
    """Returns the module as it is for another backend."""
    found = importlib.util.spec_from_file_location("for_mpi", Path(distributed_test.__file__))
    module = importlib.util.module_from_spec(found)
    os.environ["BACKEND"] = "mpi"
    found.loader.exec_module(module)
    os.environ["BACKEND"] = "gloo"
    return module


def _skipped(tests):
    return {name for name in dir(tests) if getattr(getattr(tests, name), "__unittest_skip__", False)}


class DistributedTest(distributed_test.TestDistBackend, distributed_test.DistributedTest._DistTestBase):
    def setUp(self):
        super().setUp()
        self._spawn_processes()

    def tearDown(self):
        ranks = self.processes
        super().tearDown()
        for rank in ranks:
            rank.join(5)
            rank.kill()
            rank.join()

    def _check_return_codes(self, test, seconds):
        """PyTorch checks only rank 0."""
        super()._check_return_codes(test, seconds)
        ends = [rank.exitcode for rank in self.processes]
        if any(ends) and test not in self.skip_return_code_checks:
            raise RuntimeError(f"the statuses of the ranks are {ends}")


for _name in _skipped(DistributedTest) - _skipped(_for_mpi().DistributedTest._DistTestBase):
    getattr(DistributedTest, _name).__unittest_skip__ = False
