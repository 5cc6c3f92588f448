"""Lightning, which starts its ranks itself."""

import pytest
from conftest import HERE


@pytest.mark.parametrize("strategy", ["ddp", "ddp_spawn"])
def test_lightning(check_losses, strategy):
    check_losses(["python", HERE / "job_lightning.py", strategy], ranks=2, steps=10)
