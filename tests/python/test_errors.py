"""Errors: the ranks that get them, and the contents of the exceptions."""

import os
import pickle
import threading
import time

import numpy as np
import pytest

import gloo_c


def test_a_mismatch_names_both_calls(pair):
    def play(c):
        c.allreduce(np.ones(3 + c.rank, "f4"))

    found = pair.run(play, expect_errors=True)
    for error in found:
        assert isinstance(error, gloo_c.MismatchError)
        assert "3" in error.message and "4" in error.message and "allreduce" in error.message
        assert error.rank is None and "cannot tell which" in error.message


def test_what_is_refused_leaves_the_context_as_it_is(alone):
    with pytest.raises(gloo_c.ArgumentError) as caught:
        alone.broadcast(np.ones(1), root=5)
    error = caught.value
    assert error.status_name == error.cause_name == "GLOO_ERR_ROOT" and error.rank is None
    assert isinstance(error, ValueError)
    with pytest.raises(gloo_c.UnsupportedError):
        alone.allreduce(np.ones(1, "c8"), op="max")
    alone.barrier()


def test_a_deadline_and_what_comes_after(pair):
    done = threading.Event()

    def play(c):
        if c.rank:
            done.wait(20)
            return None
        try:
            with pytest.raises(gloo_c.TimeoutError) as caught:
                c.allreduce(np.ones(1), timeout=0.3)
            assert isinstance(caught.value, TimeoutError)
            assert caught.value.rank == 1
            with pytest.raises(gloo_c.PoisonedError) as later:
                c.barrier()
            assert later.value.cause_name == "GLOO_ERR_TIMEOUT"
            assert c.error().status_name == "GLOO_ERR_TIMEOUT"
        finally:
            done.set()
        return None

    pair.run(play, expect_errors=True)


def test_abort_from_another_thread(pair):
    def play(c):
        if c.rank == 0:
            timer = threading.Timer(0.2, c.abort, ["lunch"])
            timer.start()
        begun = time.monotonic()
        with pytest.raises(gloo_c.GlooError) as caught:
            c.barrier() if c.rank == 0 else c.recv(bytearray(1), 0)
        assert time.monotonic() - begun < 10
        assert "lunch" in caught.value.message and caught.value.cause_name == "GLOO_ERR_ABORTED"
        assert caught.value.rank == 0

    pair.run(play)


def test_errors_can_be_pickled():
    error = gloo_c.PeerError("gone", -8, -8, 3, 5)
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is gloo_c.PeerError
    assert (again.message, again.status, again.rank, again.root_rank) == ("gone", -8, 3, 5)


def test_every_status_has_a_class():
    from gloo_c._errors import KINDS, STATUS_NAMES

    assert set(STATUS_NAMES) - set(KINDS) == {0}


def test_set_timeout(pair):
    def play(c):
        c.set_timeout(0.2)
        if c.rank == 0:
            with pytest.raises(gloo_c.GlooError) as caught:
                c.recv(bytearray(1), 1)
            assert caught.value.cause_name == "GLOO_ERR_TIMEOUT"
        else:
            time.sleep(1)

    pair.run(play, expect_errors=True)


# ---- processes ---------------------------------------------------------------------------------

START = "import gloo_c, os, sys, time, threading, numpy as np\nc = gloo_c.init(timeout=20)\n"


def test_a_killed_rank_is_named_within_seconds(job):
    status, said = job(START + """
c.barrier()
if c.rank == 1:
    os.kill(os.getpid(), 9)
begun = time.monotonic()
try:
    for _ in range(1000000):
        c.allreduce(np.ones(4))
except gloo_c.GlooError as error:
    taken = time.monotonic() - begun
    os.write(1, f"caught {type(error).__name__} {error.rank} {taken < 10}\\n".encode())
    time.sleep(1)
""", 3)
    assert said.count("caught PeerError 1 True") == 2, said


def test_those_that_are_left_go_on(job):
    status, said = job(START + """
old = c.rank
c.barrier()
if c.rank == 1:
    os.kill(os.getpid(), 9)
try:
    for _ in range(1000000):
        c.allreduce(np.ones(4))
except gloo_c.GlooError:
    left = c.shrink()
who = [c.translate(rank, left) for rank in range(3)]
c.close()
total = left.allreduce(np.array([1 << old]))
os.write(1, f"{old} is {left.rank} of {left.size}: {int(total[0])} {who}\\n".encode())
left.close()
""", 3)
    assert "0 is 0 of 2: 5 [0, None, 1]" in said, said
    assert "2 is 1 of 2: 5 [0, None, 1]" in said, said


def test_a_new_rank_comes(job):
    status, said = job("""
import gloo_c, os, numpy as np
rank = int(os.environ["RANK"])
store = gloo_c.FileStore(os.path.join(os.getcwd(), "store"))
if rank < 2:
    c = gloo_c.Context(rank, 2, store)
    nobody = c.grow(store)
    store.set("go", b"1")
    c = c.grow(store, newcomers=1, wait=20)
else:
    store.get("go")
    c, nobody = gloo_c.Context.join(store, wait=20), None
total = c.allreduce(np.array([1 << rank]))
os.write(1, f"{rank} is {c.rank} of {c.size}: {int(total[0])} {nobody}\\n".encode())
c.close()
""", 3)
    assert status == 0, said
    for rank in range(3):
        assert f"{rank} is {rank} of 3: 7 None" in said, said


@pytest.mark.parametrize("end", ["pass", "sys.exit(0)", "raise SystemExit(0)", "c.close()",
                                 "del c", "c.barrier(); del c"])
def test_ends_without_closing(job, end):
    status, said = job(START + f"""
device = gloo_c.Device("tcp")
group = c.split(0)
request = c.allreduce_init(np.ones(3)).start()
request.wait()
try:
    c.allreduce_start(np.ones(10))  # which ends with the first rank that leaves
except gloo_c.GlooError as error:
    assert error.rank is not None
{end}
""", 2)
    assert status == 0, said


@pytest.mark.parametrize("what", [
    "c.recv(bytearray(1), 1 - c.rank)",
    "c.recv_start(bytearray(1), 1 - c.rank).wait()",
    "c.recv_start(bytearray(1), 1 - c.rank).on_done(print) or time.sleep(100)"])
def test_ends_while_a_daemon_thread_is_in_a_call(job, what):
    begun = time.monotonic()
    status, said = job(START + f"""
def wait():
    try:
        {what}
    except gloo_c.GlooError:
        pass
thread = threading.Thread(target=wait, daemon=True)
thread.start()
time.sleep(0.3)
c.barrier(tag=1)
""", 2)
    assert status == 0, said
    assert time.monotonic() - begun < 15


def test_an_exception_ends_the_others_with_a_sentence(job):
    status, said = job(START + """
if c.rank == 0:
    1 / 0
c.barrier()
""", 2)
    assert status != 0 and "ZeroDivisionError" in said


def test_an_exception_that_has_the_context_keeps_no_rank_waiting(job):
    """Its frames hold the context until Python has exited."""
    status, said = job(START + """
if c.rank == 0:
    c.broadcast(bytearray(1), root=7)
try:
    c.barrier()
except gloo_c.GlooError as error:
    print("heard:", error, flush=True)
""", 2)
    assert status != 0 and "root 7 is not a rank" in said, said
    assert "heard: rank 0 left" in said and "the program ends" not in said, said


@pytest.mark.parametrize("child", ["os._exit(0)", "sys.exit(0)", "c.close(); os._exit(0)"])
def test_forked_children(job, child):
    status, said = job(START + f"""
request = c.allreduce_init(np.ones(2))
if hasattr(os, "fork") and os.fork() == 0:
    try:
        c.barrier()
        print("no error")
    except gloo_c.ForkedError:
        pass
    with gloo_c.Context(0, 1, gloo_c.MemoryStore()) as own:
        own.allreduce(np.ones(3))
    print("child is well", flush=True)
    {child}
pid, code = os.wait()
assert code == 0, code
c.allreduce(np.ones(1))
request.start().wait()
print("parent is well")
""", 2)
    assert status == 0 and said.count("child is well") == 2 and said.count("parent is well") == 2
    assert "no error" not in said, said


def test_multiprocessing_children(job):
    status, said = job(START + """
import multiprocessing
def work(x):
    return x * x
pool = multiprocessing.get_context("fork").Pool(2)
assert pool.map(work, range(10)) == [x * x for x in range(10)]
pool.close(); pool.join()
c.barrier()
""", 2)
    assert status == 0, said


def test_refusal_of_a_bad_environment(monkeypatch):
    monkeypatch.setenv("RANK", "seven")
    with pytest.raises(gloo_c.ArgumentError, match="RANK"):
        gloo_c.init()


def test_garbage_in_circles_is_left_in_order():
    """Contexts are destroyed before their devices, in whatever order the collector finds them."""
    import gc

    for _ in range(30):
        device = gloo_c.Device("inproc")
        context = gloo_c.Context(0, 1, gloo_c.MemoryStore(), device=device)
        circle = [device, context, context.split(0), context.allreduce_init(bytearray(1))]
        circle.append(circle)
        del device, context, circle
        gc.collect()
    assert os.getpid()
