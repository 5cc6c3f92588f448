"""Where the ranks of a process group meet, when the launcher says that they are on one host."""

import threading

import pytest

dist = pytest.importorskip("torch.distributed")

from gloo_c import GlooError  # noqa: E402
from gloo_c.torch._meeting import meeting_store  # noqa: E402


@pytest.fixture(name="one_host")
def fixture_one_host(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")


def met(store, size=2, timeout=20.0):
    """What each rank got."""
    got = [None] * size

    def be(rank):
        try:
            got[rank] = meeting_store(store, rank, size, timeout, "group")
        except Exception as error:  # to be looked at
            got[rank] = error

    threads = [threading.Thread(target=be, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return got


def test_pytorchs_store_has_a_port_and_nothing_else(one_host):
    theirs = dist.HashStore()
    first, second = met(theirs)
    first.set("address", b"of rank 0")
    assert second.get("address", 20) == b"of rank 0"
    assert theirs.num_keys() == 1
    assert int(theirs.get("gloo_c/port")) > 0


def test_groups_share_a_server_and_no_keys(one_host):
    theirs = dist.HashStore()
    one = meeting_store(theirs, 0, 2, 20.0, "one")
    other = meeting_store(theirs, 0, 2, 20.0, "other")
    one.set("key", b"1")
    other.set("key", b"2")
    assert one.get("key", 20) == b"1"


def test_a_group_whose_name_comes_again_finds_no_keys_of_the_first(one_host):
    first = meeting_store(dist.HashStore(), 0, 2, 20.0, "group")
    first.set("key", b"of the first")
    theirs = dist.HashStore()
    again = meeting_store(theirs, 0, 2, 20.0, "group")
    with pytest.raises(GlooError):
        again.get("key", 0.0)
    meeting_store(theirs, 1, 2, 20.0, "group").set("key", b"of the second")
    assert again.get("key", 20) == b"of the second"
    assert first.get("key", 20) == b"of the first"


def test_what_somebody_else_put_there_is_an_error(one_host):
    theirs = dist.HashStore()
    theirs.set("gloo_c/port", "70000")
    with pytest.raises(ConnectionError, match="somebody else has changed it"):
        meeting_store(theirs, 1, 2, 2.0, "group")
    theirs.set("gloo_c/port", "1")  # where nobody listens
    with pytest.raises(GlooError, match="127.0.0.1:1"):
        meeting_store(theirs, 1, 2, 1.0, "group")


def test_several_hosts_meet_in_pytorchs_store(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "1")
    theirs = dist.HashStore()
    first, second = met(theirs)
    first.set("address", b"of rank 0")
    assert second.get("address", 20) == b"of rank 0"
    assert theirs.get("address") == b"of rank 0"
