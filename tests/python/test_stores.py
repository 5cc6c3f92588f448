"""Stores: those of the library, and those in Python."""

import os
import threading

import numpy as np
import pytest

import gloo_c


class Dictionary:
    """A store of the program."""

    def __init__(self):
        self.values, self.changed = {}, threading.Condition()

    def set(self, key, value):
        with self.changed:
            self.values[key] = value
            self.changed.notify_all()

    def get(self, key, timeout):
        self.wait([key], timeout)
        return self.values[key]

    def wait(self, keys, timeout):
        with self.changed:
            if not self.changed.wait_for(lambda: all(k in self.values for k in keys), timeout):
                raise TimeoutError(f"{keys} did not come")


class Whole(Dictionary):
    """A store with all optional operations."""

    def add(self, key, amount):
        with self.changed:
            self.values[key] = str(int(self.values.get(key, b"0")) + amount).encode()
            return int(self.values[key])

    def append(self, key, value):
        with self.changed:
            self.values[key] = self.values.get(key, b"") + value

    def delete(self, key):
        with self.changed:
            del self.values[key]

    def compare_and_set(self, key, expected, desired):
        with self.changed:
            if self.values.get(key, b"") == expected:
                self.values[key] = desired
                return True, desired
            return False, self.values.get(key, b"")


def stores(tmp_path):
    served = gloo_c.TcpStore("127.0.0.1", serve=True)
    return {"memory": gloo_c.MemoryStore(), "file": gloo_c.FileStore(tmp_path / "s"), "tcp": served,
            "client": gloo_c.TcpStore("127.0.0.1", served.port),
            "url": gloo_c.UrlStore(f"tcp://127.0.0.1:{served.port}"), "python": gloo_c.CallbackStore(Whole()),
            "prefix": gloo_c.PrefixStore(gloo_c.CallbackStore(Whole()), "x/")}


@pytest.mark.parametrize("kind", ["memory", "file", "tcp", "client", "url", "python", "prefix"])
def test_everything_a_store_does(kind, tmp_path):
    all_of_them = stores(tmp_path)
    store = all_of_them[kind]
    store.set("a", b"1\0 2")
    assert store.get("a") == b"1\0 2"
    store.set("empty", b"")
    assert store.get("empty") == b""
    store.set("big", bytes(1 << 20))
    assert store.get("big") == bytes(1 << 20)
    store.multi_set({"m1": b"x", "m2": bytearray(b"y")})
    assert store.multi_get(["m2", "m1"]) == [b"y", b"x"]
    store.wait(["a", "m1"])
    assert store.add("n", 5) == 5 and store.add("n", -7) == -2
    store.append("a", b"3")
    assert store.get("a") == b"1\0 23"
    assert store.compare_and_set("c", b"", b"first") == b"first"
    with pytest.raises(gloo_c.CompareError):
        store.compare_and_set("c", b"other", b"second")
    store.delete("c")
    with pytest.raises(gloo_c.NotFoundError):
        store.delete("c")
    with pytest.raises(gloo_c.TimeoutError):
        store.get("never", timeout=0.05)
    with pytest.raises(gloo_c.TimeoutError):
        store.wait(["a", "never"], timeout=0.05)
    for bad in ("", "k" * 2000):
        with pytest.raises(gloo_c.ArgumentError):
            store.set(bad, b"")
    with pytest.raises(TypeError):
        store.wait("a")


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_ranks_meet_in_a_store_of_python(size):
    functions, wrong = Dictionary(), []

    def rank_main(rank):
        try:
            with gloo_c.Context(rank, size, gloo_c.CallbackStore(functions), timeout=20) as c:
                data = np.ones(3)
                c.allreduce(data)
                assert (data == size).all()
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=rank_main, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not wrong


class Broken(Dictionary):
    def set(self, key, value):
        raise OSError("the disk is on fire")


def test_exceptions_of_a_store_are_the_cause():
    store = gloo_c.CallbackStore(Broken())
    for call in (lambda: store.set("a", b"b"),
                 lambda: gloo_c.Context(0, 2, store, timeout=2),
                 lambda: gloo_c.PrefixStore(store, "p").set("a", b"")):
        with pytest.raises(gloo_c.SystemFailure) as caught:
            call()
        assert isinstance(caught.value.__cause__, OSError)
        assert "on fire" in str(caught.value.__cause__)


@pytest.mark.parametrize("answer", [None, 3, "text", [b"a"]])
def test_nonsense_of_a_store_is_an_error(answer):
    class Nonsense(Dictionary):
        def get(self, key, timeout):
            return answer

    with pytest.raises(gloo_c.GlooError) as caught:
        gloo_c.CallbackStore(Nonsense()).get("a")
    assert isinstance(caught.value.__cause__, TypeError)


def test_what_a_store_lacks_is_unsupported():
    store = gloo_c.CallbackStore(Dictionary())
    for call in (lambda: store.add("a", 1), lambda: store.append("a", b""),
                 lambda: store.delete("a"), lambda: store.compare_and_set("a", b"", b"")):
        with pytest.raises(gloo_c.UnsupportedError):
            call()
    with pytest.raises(gloo_c.ArgumentError):
        gloo_c.CallbackStore(object())


def test_a_store_stays_for_ranks_that_come_later():
    """The program may drop the serving store after it has created its context."""
    wrong = []
    served = gloo_c.TcpStore("127.0.0.1", serve=True)
    port = served.port

    def rank_main(rank, store):
        try:
            with gloo_c.Context(rank, 2, store, timeout=20) as c:
                del store
                c.barrier()
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=rank_main, args=(0, served))]
    del served
    threads.append(threading.Thread(target=rank_main,
                                    args=(1, gloo_c.TcpStore("127.0.0.1", port))))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not wrong


def test_another_job_is_refused(tmp_path):
    gloo_c.FileStore(tmp_path / "s", job="one").set("a", b"")
    with pytest.raises(gloo_c.StaleError):
        gloo_c.FileStore(tmp_path / "s", job="two").set("a", b"")
    assert os.path.isdir(tmp_path / "s")
