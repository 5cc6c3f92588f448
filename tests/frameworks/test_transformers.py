"""transformers' Trainer, started by torchrun."""

from conftest import HERE


def test_trainer(check_losses, tmp_path):
    check_losses(["torchrun", "--standalone", "--nproc-per-node", 2, HERE / "job_transformers.py"], ranks=2, steps=12)
