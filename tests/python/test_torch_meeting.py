"""The meeting of a process group's ranks, and strangers that try to join."""

import os
import random
import subprocess
import sys
import threading
import time

import pytest

dist = pytest.importorskip("torch.distributed")

from gloo_c import GlooError, TcpStore  # noqa: E402
from gloo_c.torch import _meeting as meeting  # noqa: E402
from gloo_c.torch._store import functions_of  # noqa: E402

STRANGER = 4242  # a user with no processes here
TIMEOUT = 20.0


@pytest.fixture(autouse=True)
def fixture_no_launcher(monkeypatch):
    for name in ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "GLOO_JOB_SECRET"):
        monkeypatch.delenv(name, raising=False)


def meet(store, rank, size=2, timeout=TIMEOUT, name="group"):
    return meeting.Meeting(store, rank, size, timeout, name)


def met(store, size=2):
    """Returns the meeting of each rank, or its exception."""
    got = [None] * size

    def be(rank):
        try:  # a client of a TCPStore handles one request at a time
            got[rank] = meet(store.clone() if isinstance(store, dist.TCPStore) else store, rank, size)
        except Exception as error:  # checked by the caller
            got[rank] = error

    threads = [threading.Thread(target=be, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return got


def record(**changes):
    whole = meeting.Record(meeting.host_identity(), "0123456789abcdef", 1, "127.0.0.1", "")
    return whole._replace(**changes).encode()


# ---- the meeting -------------------------------------------------------------------------------

def test_pytorchs_store_has_the_record_and_nothing_else():
    theirs = dist.HashStore()
    first, second = met(theirs)
    first.store.set("address", b"of rank 0")
    assert second.store.get("address", 20) == b"of rank 0"
    assert theirs.num_keys() == 1
    assert meeting.parse(theirs.get(meeting.KEY)).local == "127.0.0.1"


def test_groups_share_a_server_and_no_keys():
    one, other = meet(dist.HashStore(), 0, name="one"), meet(dist.HashStore(), 0, name="other")
    one.store.set("key", b"1")
    other.store.set("key", b"2")
    assert one.store.get("key", 20) == b"1"


def test_group_made_again_does_not_find_the_record_of_the_first():
    theirs = dist.HashStore()
    first, _second = met(theirs)
    first.store.set("key", b"of the first")
    first.over()
    got = []
    early = threading.Thread(target=lambda: got.append(meet(theirs, 1)))
    early.start()  # faster than rank 0
    time.sleep(0.1)
    again = meet(theirs, 0)
    early.join()
    with pytest.raises(GlooError):
        got[0].store.get("key", 0.0)
    got[0].store.set("key", b"of the second")
    assert again.store.get("key", 20) == b"of the second"


def again(theirs, first, delete=True):
    """A second group of the same name, whose rank 1 leaves the first group before rank 0."""
    got = []
    early = threading.Thread(target=lambda: got.append(meet(theirs, 1)))
    early.start()
    time.sleep(0.3)
    assert not got, "rank 1 is in the first group once more"
    if not delete:
        theirs = Kept(theirs)
        first._theirs = theirs
    first.over()
    time.sleep(0.1)
    assert not got, "rank 1 is in a group that is over"
    second = meet(theirs, 0)
    early.join()
    second.store.set("key", b"of the second")
    assert got[0].store.get("key", 20) == b"of the second"


class Kept(dist.Store):
    """A store that deletes nothing."""

    def __init__(self, store):
        super().__init__()
        self.set = store.set
        self.has_extended_api = lambda: False

    def delete_key(self, _key):
        raise NotImplementedError


@pytest.mark.parametrize("delete", [True, False])
def test_rank_that_has_met_waits_for_the_group_that_is_made_next(delete):
    theirs = dist.HashStore()
    first, _second = met(theirs)
    again(theirs, first, delete)


def test_meeting_that_another_group_of_the_server_has_is_not_taken_for_the_own():
    """The port was since given to another group."""
    theirs = dist.HashStore()
    port = meet(tcp_store(), 0, name="other")._record.port
    theirs.set(meeting.KEY, record(port=port))
    with pytest.raises(ConnectionError, match="rank 0 has not started"):
        meet(theirs, 1, timeout=0.5)


def test_two_processes_of_one_rank_are_told(monkeypatch):
    monkeypatch.setattr(meeting, "_TAKEN", 0.2)
    theirs = dist.HashStore()
    met(theirs)
    with pytest.raises(ConnectionError, match="two processes claim rank 1 of this group"):
        meet(theirs, 1, timeout=600.0)


def test_rank_0_that_does_not_come_is_named():
    with pytest.raises(TimeoutError, match="rank 0 of the group has not started within 0.1 s"):
        meet(tcp_store(), 1, timeout=0.1)


def test_wrong_record_is_replaced_by_rank_0():
    theirs = dist.HashStore()
    theirs.set(meeting.KEY, b"! of an earlier start")
    got = []
    early = threading.Thread(target=lambda: got.append(meet(theirs, 1)))
    early.start()
    time.sleep(0.2)
    meet(theirs, 0)
    early.join()
    assert got


def test_record_of_a_rank_that_is_gone_is_read_again():
    theirs = dist.HashStore()
    theirs.set(meeting.KEY, record(port=1))  # without a listener
    got = []
    early = threading.Thread(target=lambda: got.append(meet(theirs, 1)))
    early.start()
    time.sleep(0.2)
    first = meet(theirs, 0)
    early.join()
    first.store.set("key", b"there")
    assert got[0].store.get("key", 20) == b"there"


# ---- which hosts -------------------------------------------------------------------------------

def tcp_store(host="127.0.0.1"):
    return dist.TCPStore(host, 0, 1, True, wait_for_workers=False)


def test_loopback_store_means_one_host_without_a_launcher(tmp_path):
    store = tcp_store()
    assert meeting.known_here(dist.PrefixStore("a", dist.PrefixStore("b", store)), 3)
    met_ = met(store)
    assert meeting.parse(store.get(meeting.KEY)).remote == ""
    assert all(isinstance(each, meeting.Meeting) for each in met_), met_


@pytest.mark.parametrize("changes, size, here", [
    ({}, 2, True), ({}, 3, False), ({"LOCAL_WORLD_SIZE": "1"}, 2, False), ({"MASTER_PORT": "1"}, 2, False),
    ({"MASTER_ADDR": "elsewhere"}, 2, False), ({"WORLD_SIZE": "two", "LOCAL_WORLD_SIZE": "two"}, 2, False)])
def test_launchers_word_counts_for_its_own_store_and_ranks(monkeypatch, changes, size, here):
    class Launched(dist.TCPStore):
        host, port = "a-name", 29500

    store = Launched("127.0.0.1", 0, 1, True, wait_for_workers=False)
    for name, value in {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "a-name",
                        "MASTER_PORT": "29500", **changes}.items():
        monkeypatch.setenv(name, value)
    assert meeting.known_here(store, size) is here


def test_each_launcher_speaks_of_its_own_ranks_alone(tmp_path):
    """Two jobs on one host, each on one host only, meet in a third group."""
    store = tcp_store()
    program = tmp_path / "side.py"
    program.write_text(
        "import sys, gloo_c.torch, torch, torch.distributed as dist\n"
        "rank, port = int(sys.argv[1]), int(sys.argv[2])\n"
        "dist.init_process_group('gloo_c', init_method=f'tcp://127.0.0.1:{port}', rank=rank, world_size=2)\n"
        "x = torch.ones(1); dist.all_reduce(x); assert x.item() == 2\n")
    port = store.port
    del store
    sides = [subprocess.Popen([sys.executable, program, str(rank), str(port)], stderr=subprocess.PIPE, text=True,
                              env={**os.environ, "OMP_NUM_THREADS": "1", **launcher})
             for rank, launcher in enumerate(({"WORLD_SIZE": "1", "LOCAL_WORLD_SIZE": "1", "RANK": "0"}, {}))]
    told = [side.communicate(timeout=120)[1] for side in sides]
    assert [side.returncode for side in sides] == [0, 0], told


THIRD_GROUP = """
import datetime, os, sys, torch, torch.distributed as dist
import gloo_c.torch
from torch.distributed.distributed_c10d import Backend, PrefixStore, _new_process_group_helper, _world
torch.set_num_threads(1)
first, port, launched = int(sys.argv[1]), int(sys.argv[2]), "RANK" in os.environ
if launched:
    dist.init_process_group("gloo_c")
rank = first + (dist.get_rank() if launched else 0)
store = dist.TCPStore("127.0.0.1", port, 3, False, wait_for_workers=False)
group, _ = _new_process_group_helper(3, rank, [], Backend("gloo_c"), PrefixStore("weights", store),
                                     group_name="weights", timeout=datetime.timedelta(seconds=100))
_world.pg_group_ranks[group] = {i: i for i in range(3)}
x = torch.full((1000,), rank + 1.0)
dist.all_reduce(x, group=group)
assert x.eq(6).all(), x
w = torch.full((100000,), float(rank))
dist.broadcast(w, 0, group=group)
assert w.eq(0).all(), w
if launched:
    own = torch.ones(1)
    dist.all_reduce(own)
    assert own.item() == 2, own
print("met", flush=True)
"""


@pytest.mark.parametrize("launched_first", [0, 1])
def test_launched_side_and_a_plain_one_meet_in_a_third_group(launched_first, tmp_path):
    """A trainer of two ranks started by torchrun, with a group, and a generating process; or the
    reverse, where rank 0 is the process without a launcher."""
    store = tcp_store()
    program = tmp_path / "third.py"
    program.write_text(THIRD_GROUP)
    variables = {**os.environ, "OMP_NUM_THREADS": "1"}
    launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2",
                "--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:0"]
    sides = [subprocess.Popen([*command, program, str(first), str(store.port)], text=True, env=variables,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
             for command, first in ((launcher, launched_first), ([sys.executable], 0 if launched_first else 2))]
    told = [side.communicate(timeout=300)[0] for side in sides]
    assert [side.returncode for side in sides] == [0, 0], told
    assert [text.count("met") for text in told] == [2, 1], told


# ---- files -------------------------------------------------------------------------------------

def test_file_store_waits_for_a_rank_that_comes_later(tmp_path):
    theirs = [dist.FileStore(str(tmp_path / "meet"), 2) for _ in range(2)]
    got = []
    early = threading.Thread(target=lambda: got.append(meet(theirs[1], 1)))
    early.start()
    time.sleep(1.2)  # longer than one attempt at the store
    first = meet(theirs[0], 0)
    early.join()
    first.store.set("key", b"there")
    assert got[0].store.get("key", 20) == b"there"


@pytest.mark.parametrize("kind", ["file", "hash", "tcp", "prefix"])
def test_missing_key_is_a_timeout_in_every_store(tmp_path, kind):
    store = {"file": lambda: dist.FileStore(str(tmp_path / "meet"), 2), "hash": dist.HashStore, "tcp": tcp_store,
             "prefix": lambda: dist.PrefixStore("a", dist.FileStore(str(tmp_path / "meet"), 2))}[kind]()
    with pytest.raises(TimeoutError):
        functions_of(store).get("missing", 0.05)


def test_file_that_others_may_write_is_refused(tmp_path):
    path = tmp_path / "meet"
    store = dist.FileStore(str(path), 2)
    path.chmod(0o666)
    with pytest.raises(PermissionError, match="mode 666"):
        meet(store, 0)


def test_scope_of_an_address_is_a_name():
    good = record(local="fe80::1%eth0.5_a-b")
    assert meeting.parse(good).encode() == good


# ---- what somebody else put there --------------------------------------------------------------

@pytest.mark.parametrize("said", [
    b"0", b"", b"70000", b"\xff" * 40, b"a" * 100000, b"2" + record()[1:], record(port=70000), record(port=0),
    record(local="name"), record(local="fe80::1%\x1b[2J"), record(local="fe80::1%a\n"), record(local="fe80::1%"),
    record(local="127.0.0.1%lo"), record(host="x" * 32), record(token="short"), record() + b" more",
    record(host="0" * 32), record(host="0" * 32, remote="10.0.0.1")])
def test_strange_record_is_an_error_long_before_the_time_is_up(said, monkeypatch):
    monkeypatch.setattr(meeting, "_WRONG", 0.1)
    theirs = tcp_store()
    theirs.set(meeting.KEY, said)
    with pytest.raises(ConnectionError, match="changed it|own version|another version"):
        meet(theirs, 1, timeout=600.0)


def test_rank_0_that_cannot_serve_is_told_and_nobody_goes_on(monkeypatch):
    def fail(_at):
        raise OSError("no port is left")

    monkeypatch.setattr(meeting._served, "get", fail)
    theirs = dist.HashStore()
    monkeypatch.setattr(meeting, "_WRONG", 0.1)
    with pytest.raises(OSError, match="no port is left"):
        meet(theirs, 0)
    with pytest.raises(ConnectionError, match="rank 0 cannot serve .* no port is left"):
        meet(theirs, 1)


def test_bytes_by_chance_are_a_record_or_an_error():
    draw = random.Random(41)
    good = record(remote="10.0.0.1", port=29500)
    for _ in range(20000):
        said = bytearray(good)
        for _ in range(draw.randrange(1, 5)):
            how, at = draw.randrange(3), draw.randrange(len(said))
            if how == 0:
                said[at] = draw.randrange(256)
            elif how == 1:
                del said[at:at + draw.randrange(1, 8)]
            else:
                said[at:at] = bytes(draw.randrange(256) for _ in range(draw.randrange(9)))
            if not said:
                break
        try:
            found = meeting.parse(bytes(said))
        except ConnectionError:
            continue
        assert meeting.parse(found.encode()) == found and 0 < found.port < 65536


@pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="another user is imitated by root on Linux")
def test_server_of_another_user_is_no_meeting_place():
    """This holds for any writer of the record, and any host in it."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setuid(STRANGER)
            server = TcpStore("127.0.0.1", serve=True)
            os.write(write, str(server.port).encode())
            time.sleep(60)
        finally:
            os._exit(0)
    try:
        port = int(os.read(read, 8))
        for said in (record(port=port), record(port=port, host="0" * 32, remote="127.0.0.1")):
            theirs = tcp_store()
            theirs.set(meeting.KEY, said)
            with pytest.raises((GlooError, ConnectionError)):
                meet(theirs, 1, timeout=1.0)

        class Elsewhere(dist.TCPStore):
            host = "a-name"  # an unknown name

        theirs = Elsewhere("127.0.0.1", 0, 1, True, wait_for_workers=False)
        theirs.set(meeting.KEY, record(port=port, host="0" * 32, remote="127.0.0.1"))
        with pytest.raises(GlooError, match="user"):
            meet(theirs, 1, timeout=1.0)
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)
        os.close(read)
        os.close(write)


@pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="another user is imitated by root on Linux")
@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_another_user_of_the_host_is_not_let_in(host):
    server = TcpStore(host, serve=True)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.setuid(STRANGER)
            TcpStore("127.0.0.1", server.port, timeout=1.0).set("key", b"stranger")
            status = 0
        except GlooError:
            pass
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1


def test_two_hosts_meet_by_the_address_of_the_first(monkeypatch):
    theirs = tcp_store()
    monkeypatch.setattr(meeting, "known_here", lambda store, size: False)
    monkeypatch.setattr(meeting, "own_address", lambda master: ("127.0.0.1", "0.0.0.0"))
    first = meet(theirs, 0)
    first.store.set("key", b"there")
    monkeypatch.setattr(meeting, "host_identity", lambda: "f" * 32)  # the second host's
    second = meet(theirs, 1)
    assert second.store.get("key", 20) == b"there"


# ---- where to listen, and what others are told ---------------------------------------------------

@pytest.fixture(name="several")
def fixture_several(monkeypatch):
    """Makes it unknown whether all ranks are on this host."""
    monkeypatch.setattr(meeting, "known_here", lambda store, size: False)
    monkeypatch.setattr(meeting, "own_address", lambda master: ("10.0.0.9", "127.0.0.1"))


@pytest.mark.parametrize("bind, publish, local, remote", [
    ("127.0.0.2", None, "127.0.0.2", "127.0.0.2"), ("127.0.0.2", "outer.example", "127.0.0.2", "outer.example"),
    ("0.0.0.0", "192.0.2.7, 192.0.2.8", "127.0.0.1", "192.0.2.7"), ("0.0.0.0", None, "127.0.0.1", "10.0.0.9"),
    (None, "192.0.2.7", "127.0.0.1", "192.0.2.7")])
def test_variables_say_where_to_listen_and_what_others_are_told(monkeypatch, several, bind, publish, local, remote):
    for name, value in {"GLOO_BIND_ADDR": bind, "GLOO_PUBLISH_ADDR": publish}.items():
        if value:
            monkeypatch.setenv(name, value)
    theirs = dist.HashStore()
    first, second = met(theirs)
    said = meeting.parse(theirs.get(meeting.KEY))
    assert (said.local, said.remote) == (local, remote)
    first.store.set("key", b"there")
    assert second.store.get("key", 20) == b"there"


def test_group_of_one_host_listens_where_it_is_told(monkeypatch):
    monkeypatch.setenv("GLOO_BIND_ADDR", "127.0.0.3")
    theirs = dist.HashStore()
    first, second = met(theirs)
    assert meeting.parse(theirs.get(meeting.KEY)).local == "127.0.0.3"
    first.store.set("key", b"there")
    assert second.store.get("key", 20) == b"there"


@pytest.mark.parametrize("published", ["0.0.0.0", "::", "a/b"])
def test_address_that_leads_nowhere_is_not_published(monkeypatch, several, published):
    monkeypatch.setenv("GLOO_PUBLISH_ADDR", published)
    with pytest.raises(ValueError, match="GLOO_PUBLISH_ADDR begins with .* set it to"):
        meet(tcp_store(), 0)


# ---- secrets -------------------------------------------------------------------------------------

SIDE = """
import sys, torch.distributed as dist
from gloo_c import AuthError
from gloo_c.torch import _meeting as meeting
rank = int(sys.argv[1])
meeting._TAKEN = 600.0  # longer than the test has
store = dist.TCPStore("127.0.0.1", int(sys.argv[2]), is_master=False, wait_for_workers=False)
try:
    made = meeting.Meeting(store, rank, 2, 600.0, "group")
    print("in", flush=True)
    sys.stdin.read()
except Exception as failure:
    print(isinstance(failure, AuthError) and "AuthError", failure)
"""


@pytest.mark.parametrize("first, second, words", [
    ("11" * 16, "22" * 16, "hold different job secrets"), ("11" * 16, None, "rank 0 holds a job secret, and this"),
    (None, "22" * 16, "this rank holds a job secret, and rank 0")])
def test_two_jobs_with_secrets_that_differ_are_told(first, second, words, tmp_path):
    theirs = tcp_store()
    sides = []
    for rank, secret in enumerate((first, second)):
        variables = {**os.environ, "HOME": str(tmp_path), **({"GLOO_JOB_SECRET": secret} if secret else {})}
        sides.append(subprocess.Popen([sys.executable, "-c", SIDE, str(rank), str(theirs.port)], env=variables, text=True,
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE))
    told = sides[1].communicate(timeout=240)[0]
    sides[0].communicate(timeout=120)
    assert told.startswith("AuthError ") and words in told, told
    assert "each `gloo run` generates a secret for its own ranks" in told
    assert "GLOO_JOB_SECRET for both before starting them" in told
