"""PyTorch's features that use a backend: torch_features.py, on 1 to 4 processes."""

import re
from pathlib import Path

import pytest
from torch_job import run_ranks

pytest.importorskip("torch")

PROGRAM = Path(__file__).parent / "torch_features.py"
FEATURES = re.findall(r"^@feature\ndef (\w+)", PROGRAM.read_text(encoding="utf-8"), re.M)
SIZES = pytest.mark.parametrize("size", [1, 2, pytest.param(3, marks=pytest.mark.slow), 4],
                                ids=lambda size: f"ranks{size}")
_said = {}


def said(size):
    """Returns the status and the lines of all features for a size, which are one run."""
    if size not in _said:
        done = run_ranks(size, PROGRAM, "gloo_c", timeout=240)
        _said[size] = [status for status, _text in done], "".join(text for _status, text in done)
    return _said[size]


@pytest.mark.parametrize("feature", FEATURES)
@SIZES
def test_feature(size, feature):
    status, text = said(size)
    found = re.search(rf"^(ok|failed) {feature}\b.*", text, re.M)
    assert found, f"it did not come to {feature} (status {status}):\n{text[-3000:]}"
    assert found[1] == "ok", found[0]


@SIZES
def test_all_ranks_end_well(size):
    status, text = said(size)
    assert status == [0] * size, text[-3000:]


TIMEOUT = """
import datetime, sys
import torch.distributed as dist
import gloo_c.torch
given = {"timeout": datetime.timedelta(seconds=9)} if sys.argv[1:] else {}
dist.init_process_group("gloo_c", **given)
print("timeout", dist.group.WORLD.options._timeout.total_seconds())
"""


@pytest.mark.parametrize("value, given, expected", [
    ("", [], "timeout 1800.0"), ("7.5", [], "timeout 7.5"), ("7.5", ["given"], "timeout 9.0"),
    ("soon", [], "GLOO_TIMEOUT is 'soon'; it must be a number of seconds from 0.001 to 1000000")])
def test_gloo_timeout_is_that_of_groups_without_one(monkeypatch, value, given, expected):
    monkeypatch.setenv("GLOO_TIMEOUT", value)
    _status, text = run_ranks(1, "-c", TIMEOUT, *given)[0]
    assert expected in text, text[-3000:]
