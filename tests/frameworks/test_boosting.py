"""XGBoost and LightGBM in a process that has a context of gloo_c: neither changes what the other computes."""

import re

import pytest
from conftest import HERE, run


def sums(said, what):
    """Returns the checksums of models that each rank has printed, ordered by rank."""
    return [found for _rank, found in sorted(re.findall(rf"\b{what} (\d) (\w+)", said))]


@pytest.mark.parametrize("library", ["xgboost", "lightgbm"])
def test_beside(tmp_path, library):
    program = ["python", HERE / "job_boosting.py", library]
    status, said = run([*program, "alone"], tmp_path, False)
    assert status == 0, said[-4000:]
    alone = sums(said, "trained")
    assert len(set(alone)) == 2, said
    status, said = run(["gloo", "run", "-n", 2, "--", *program, "beside"], tmp_path, False)
    assert status == 0, said[-4000:]
    assert sums(said, "trained") == alone and sums(said, "child") == alone, said
    if library == "xgboost":
        together = sums(said, "together")
        assert len(together) == 2 and len(set(together)) == 1 and together[0] not in alone, said
