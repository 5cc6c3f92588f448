"""accelerate: a script started by torchrun (its own launcher starts ranks on CPUs by mpirun only), and one
that starts its ranks itself."""

import pytest
from conftest import HERE


@pytest.mark.parametrize("command", [["torchrun", "--standalone", "--nproc-per-node", 2], ["python"]],
                         ids=["torchrun", "debug_launcher"])
def test_accelerate(check_losses, command):
    check_losses([*command, HERE / "job_accelerate.py"], ranks=2, steps=20)
