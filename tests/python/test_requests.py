"""Requests: waiting, dropping, callbacks, asyncio."""

import asyncio
import gc
import sys
import threading
import time
import weakref

import numpy as np
import pytest

import gloo_c


def test_wait_again_after_its_time(pair):
    def play(c):
        if c.rank == 0:
            data = bytearray(3)
            request = c.recv_start(data, 1)
            assert not request.test() and not request.done()
            begun = time.monotonic()
            with pytest.raises(gloo_c.InProgressError):
                request.wait(0.2)
            assert 0.15 < time.monotonic() - begun < 5
            c.barrier(tag=1)
            assert request.wait() is data and data == b"abc" and request.source == 1
        else:
            c.barrier(tag=1)
            c.send(b"abc", 0)

    pair.run(play)


def test_dropped_requests_go_on_and_keep_their_arrays(pair):
    """They are not freed during the operation, not cancelled, and not kept after it."""
    class Kept(np.ndarray):
        pass

    def play(c):
        gone = []
        for turn in range(20):
            data = np.full(100000, float(c.rank + turn)).view(Kept)
            gone.append(weakref.ref(data))
            c.allreduce_start(data)
            del data
        gc.collect()
        last = np.ones(1)
        c.allreduce(last)
        assert last[0] == 2
        c.allreduce_start(np.ones(1)).wait()  # destroys dropped requests
        c.allreduce_start(np.ones(1)).wait()
        gc.collect()
        assert sum(ref() is not None for ref in gone) == 0

    pair.run(play)


def test_the_array_of_a_dropped_request_is_still_written(pair):
    def play(c):
        data = bytearray(8)
        if c.rank == 0:
            c.recv_start(data, 1)
            gc.collect()
            with pytest.raises(BufferError):
                data.clear()
            c.barrier(tag=1)
            for _ in range(200):
                if data == b"12345678":
                    return
                time.sleep(0.02)
            raise AssertionError("nothing came")
        c.barrier(tag=1)
        c.send(b"12345678", 0)

    pair.run(play)


def test_functions_at_the_end(pair):
    def play(c):
        ended, found = threading.Event(), []
        request = c.allreduce_start(np.ones(3))
        request.on_done(lambda r: (found.append(r), ended.set()))
        assert ended.wait(10) and found == [request] and request.test()
        request.on_done(found.append)  # completed: called at once
        assert found == [request, request]

        persistent, times = c.allreduce_init(np.ones(3)), []
        persistent.on_done(lambda r: times.append(1))
        for _ in range(3):
            persistent.start().wait()
        c.barrier()
        deadline = time.monotonic() + 5
        while len(times) < 3 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert len(times) == 3

    pair.run(play)


def test_a_function_asks_for_the_outcome_while_the_context_is_closed(pair):
    def play(c):
        asked, other = [], 1 - c.rank
        persistent, pending = c.recv_init(bytearray(1), other, tag=1), c.recv_start(bytearray(1), other, tag=2)

        def ask(request):
            asked.append((request.done(), type(request.exception()), request.source))
            with pytest.raises(gloo_c.CancelledError):
                request.wait()
            if not pending.done():
                with pytest.raises(gloo_c.InProgressError, match="a completion callback cannot wait"):
                    pending.wait()

        for request in (persistent.start(), c.recv_start(bytearray(1), other, tag=3), c.recv_any_start(bytearray(1), tag=4)):
            request.on_done(ask)
        c.barrier(tag=5)
        c.close()
        assert asked == [(True, gloo_c.CancelledError, None)] * 3

    pair.run(play)


@pytest.mark.parametrize("runs", [0, 1, 3])
@pytest.mark.parametrize("early", [True, False])
def test_a_persistent_request_with_a_function_can_be_collected(pair, runs, early):
    def play(c):
        request, ended = c.allreduce_init(np.ones(3)), threading.Semaphore(0)

        def end(given, kept=[request]):  # a cycle
            ended.release()

        if early:
            request.on_done(end)
        for turn in range(runs):
            request.start().wait()
            if turn == 0 and not early:
                request.on_done(end)
            assert ended.acquire(timeout=60)
        gone = weakref.ref(request)
        del request, end
        c.barrier()
        deadline = time.monotonic() + 60
        while gone() is not None and time.monotonic() < deadline:
            gc.collect()  # the callback's thread may still hold it
            time.sleep(0.01)
        assert gone() is None

    pair.run(play)


def test_a_persistent_request_that_is_dropped_under_way_calls_its_function(pair):
    def play(c):
        data, other, ended = bytearray(1), 1 - c.rank, threading.Event()
        request = c.recv_init(data, other)
        request.on_done(lambda _request: ended.set())
        request.start()
        gone = weakref.ref(request)
        del request
        gc.collect()
        c.barrier(tag=1)  # nothing was sent until now
        c.send(b"1", other)
        assert ended.wait(60) and data == b"1"
        deadline = time.monotonic() + 60
        while gone() is not None and time.monotonic() < deadline:
            time.sleep(0.01)
        assert gone() is None

    pair.run(play)


def test_functions_may_take_locks_of_threads_that_wait(pair):
    def play(c):
        mine, begun, ended = threading.Lock(), threading.Event(), threading.Event()
        data, other = bytearray(1), 1 - c.rank

        def take(request):
            begun.set()
            with mine:
                ended.set()

        request = c.recv_start(data, other)
        request.on_done(take)
        with mine:
            c.barrier(tag=1)  # nothing was sent until now
            c.send(b"1", other)
            assert begun.wait(60)
            request.wait()  # drops the library's references
            del request
            assert not ended.is_set()
        assert ended.wait(60)

    pair.run(play)


def test_closing_waits_for_functions(pair):
    def play(c):
        begun, ended = threading.Event(), []

        def stay(request):
            begun.set()
            time.sleep(0.1)
            ended.append(request)

        group = c.split(0)
        request = group.allreduce_start(np.ones(3))
        request.on_done(stay)
        assert begun.wait(60)
        group.close()
        assert ended == [request]
        c.barrier()

    pair.run(play)


def test_what_such_a_function_raises_is_told(pair, monkeypatch):
    told = []
    monkeypatch.setattr(sys, "unraisablehook", told.append)

    def fail(request):
        raise KeyError("mine")

    def play(c):
        c.allreduce_start(np.ones(3)).on_done(fail)
        c.barrier()
        time.sleep(0.2)

    pair.run(play)
    assert len(told) == 2 and all(isinstance(one.exc_value, KeyError) for one in told)


def test_persistent_requests(pair):
    def play(c):
        data = np.ones(2)
        request = c.allreduce_init(data)
        for turn in range(5):
            data[:] = turn
            assert request.start().wait() is data
            assert (data == 2 * turn).all()
        with pytest.raises(ValueError):
            c.allreduce_start(np.ones(1)).start()
        c.barrier()

    pair.run(play)


def test_wait_any_and_all(pair):
    def play(c):
        if c.rank == 0:
            requests = [c.recv_start(bytearray(1), 1, tag=tag) for tag in range(4)]
            with pytest.raises(gloo_c.InProgressError):
                gloo_c.wait_any(requests, 0.05)
            with pytest.raises(gloo_c.InProgressError):
                gloo_c.wait_all(requests, 0.05)
            c.barrier(tag=9)
            place = gloo_c.wait_any(requests, 10)
            assert place == 2
            requests[place] = None
            c.barrier(tag=9)
            left = gloo_c.wait_all(requests, 10)
            assert left[2] is None and left[0] == b"0"
            assert gloo_c.wait_any([None, None]) is None
        else:
            c.barrier(tag=9)
            c.send(b"2", 0, tag=2)
            c.barrier(tag=9)
            for tag in (0, 1, 3):
                c.send(str(tag).encode(), 0, tag=tag)

    pair.run(play)


def test_a_receive_can_be_cancelled(alone):
    request = alone.recv_start(bytearray(1), 0)
    request.cancel()
    with pytest.raises(gloo_c.CancelledError):
        request.wait()
    assert isinstance(request.exception(), gloo_c.CancelledError)
    assert alone.error() is None
    alone.barrier()


def test_closing_ends_what_is_under_way(alone):
    request = alone.recv_start(bytearray(1), 0)
    alone.close()
    with pytest.raises(gloo_c.GlooError):
        request.wait(5)
    with pytest.raises(ValueError, match="closed"):
        alone.barrier()
    alone.close()


def test_closing_while_another_thread_is_in_a_call(pair):
    """The thread keeps the context until its call returns."""
    def play(c):
        if c.rank == 0:
            raised = []

            def other():
                try:
                    c.recv(bytearray(1), 1)
                except gloo_c.GlooError as error:
                    raised.append(error)

            thread = threading.Thread(target=other)
            thread.start()
            time.sleep(0.1)
            c.close()
            thread.join(20)
            assert not thread.is_alive()
            return raised
        time.sleep(0.3)
        c.send(b"x", 0)
        return None

    pair.run(play)


def test_asyncio_errors_and_cancelled_futures(pair):
    async def play_later(c):
        if c.rank == 0:
            data = bytearray(1)
            future = c.recv_async(data, 1)
            await asyncio.sleep(0)
            future.cancel()
            await c.barrier_async(tag=1)
            await c.barrier_async(tag=2)
            with pytest.raises(asyncio.CancelledError):
                await future
            for _ in range(100):
                if data == b"x":
                    break
                await asyncio.sleep(0.02)
            assert data == b"x"  # the operation continued
            assert await c.recv_any_async(data) == 1
        else:
            await c.barrier_async(tag=1)
            await c.send_async(b"x", 0)
            await c.barrier_async(tag=2)
            await c.send_async(b"y", 0)
        with pytest.raises(gloo_c.GlooError):
            await asyncio.wait_for(c.allreduce_async(np.ones(1 + c.rank)), 10)

    pair.run(lambda c: asyncio.run(play_later(c)))


def test_many_loops_on_one_device():
    store, device, wrong = gloo_c.MemoryStore(), gloo_c.Device("inproc"), []

    async def loop_main(c):
        for turn in range(50):
            data = np.array([turn])
            await c.allreduce_async(data)
            assert data[0] == 3 * turn

    def rank_main(rank):
        try:
            with gloo_c.Context(rank, 3, store, device=device, timeout=20) as c:
                asyncio.run(loop_main(c))
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=rank_main, args=(rank,)) for rank in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not wrong and not any(thread.is_alive() for thread in threads)


def test_closing_a_context_that_a_loop_waits_for(alone):
    async def play():
        future = alone.recv_async(bytearray(1), 0)
        await asyncio.sleep(0.01)
        alone.close()
        with pytest.raises(gloo_c.GlooError):
            await asyncio.wait_for(future, 5)

    asyncio.run(play())


def test_threads_with_tags(pair):
    """Several threads of a rank, each with a separate tag."""
    def play(c):
        wrong = []

        def one(tag):
            for turn in range(100):
                data = np.array([float(turn + tag)])
                c.allreduce(data, tag=tag)
                if data[0] != 2 * (turn + tag):
                    wrong.append((tag, turn, data[0]))

        threads = [threading.Thread(target=one, args=(tag,)) for tag in range(1, 5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert not wrong

    pair.run(play)
