"""Strangers next to PyTorch jobs, for each way to start one: see torch_strangers.py.

With STRANGER_ROUNDS=20 each case takes twenty rounds. Cases and their totals are printed (pytest
-s)."""

import os
import shutil

import pytest

pytest.importorskip("torch.distributed")

import torch_strangers  # noqa: E402
from torch_strangers import OPEN, WAYS  # noqa: E402

pytestmark = pytest.mark.long
ROUNDS = int(os.environ.get("STRANGER_ROUNDS", "1"))
ATTEMPTS = 6  # a stranger may be late on a busy machine: it must change a record before rank 1 reads it
CASES = ["host/auth/beside", "host/auth/names", "host/auth/port", "network/auth/beside", "network/required/beside",
         "network/secret/beside"]


@pytest.fixture(name="strangers")
def fixture_strangers(tmp_path):
    """Returns a function that runs cases, requires that none has a fault, and returns the strangers'
    attempts and findings."""
    why = torch_strangers.missing()
    if why:
        pytest.skip(why)

    def strangers(*cases):
        rounds = torch_strangers.run(tmp_path, ROUNDS, cases)
        faults = [each for each in rounds if each["faults"]]
        told = "".join(f"{each['case']}: {'; '.join(each['faults'])}\n" for each in faults)
        assert not faults, told + faults[0]["said"]
        for case in cases:
            tried, seen = torch_strangers.total(each for each in rounds if each["case"] == case)
            print(f"{case}: {ROUNDS} rounds, tried {tried}, read {seen}")
        return torch_strangers.total(rounds)

    return strangers


def try_until(what, strangers, case, tried):
    """Repeats the case until the count of `what` shows that the strangers made the attempt in time."""
    for _attempt in range(ATTEMPTS):
        if tried.get(what):
            return
        tried, _seen = strangers(case)
    assert tried.get(what), (what, tried)


@pytest.mark.parametrize("way", WAYS)
def test_strangers_get_in_where_the_guide_says_so_alone(way, strangers):
    if way == "mpirun" and shutil.which("mpirun") is None:
        pytest.skip("mpirun is not installed")
    tried, seen = strangers(*(f"{way}/{case}" for case in CASES))
    for what in ("TCP listeners", "Unix sockets", "hellos to a store by name", "hellos to a rank over TCP",
                 "packets to a rank's socket", "stores opened by the library", "meetings tried as rank 1",
                 "memory and descriptors of processes", "files tried", "names taken"):
        try_until(what, strangers, f"{way}/host/auth/names", tried)
    assert any(key.endswith("gloo_c/meeting") for key in seen) or way == "file", seen
    if way in OPEN:
        try_until("came in from the network", strangers, f"{way}/network/auth/beside", tried)


@pytest.mark.parametrize("way", ["variables", "torchrun"])
def test_user_who_changes_pytorchs_store_becomes_no_rank_0(way, strangers):
    try_until("records changed", strangers, f"{way}/host/auth/rank_0", {})


def test_stranger_comes_in_where_nobody_is_kept_out(strangers):
    try_until("came in from the host", strangers, "variables/host/off/beside", {})
