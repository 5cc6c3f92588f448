"""The client of c10d stores with PyTorch's own server, of both kinds: the C tests that run on every
kind of store (suite.py's caller names them in STORE_TESTS)."""

import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

distributed = pytest.importorskip("torch.distributed")

PROGRAMS = [Path(path) for path in os.environ.get("STORE_TESTS", "").split(os.pathsep) if path]
SERVER = """
import sys
from datetime import timedelta
from torch.distributed import TCPStore
store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False,
                 use_libuv=sys.argv[1] == "libuv", timeout=timedelta(seconds=60))
print(store.port, flush=True)
sys.stdin.read()
"""
MARK = bytes.fromhex("f16d0be4932a57c81eb970ad448f35d2")


@pytest.fixture(params=["libuv", "poll"])
def server(request):
    """Starts a server in a separate process and returns its port."""
    # Its output about closed connections may be long, so it is not a pipe.
    with subprocess.Popen([sys.executable, "-c", SERVER, request.param], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            yield int(process.stdout.readline())
        finally:
            process.kill()


def left_behind(port):
    """Returns all keys and values, as PyTorch's own client sees them."""
    store = distributed.TCPStore("127.0.0.1", port, is_master=False, wait_for_workers=False,
                                 timeout=timedelta(seconds=60))
    return {key: store.get(key) for key in store.list_keys()}


@pytest.mark.skipif(not PROGRAMS, reason="there are no programs in STORE_TESTS")
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.name)
def test_as_every_store(program, server):
    done = subprocess.run([program, "c10d"], capture_output=True, text=True, timeout=300,
                          env={**os.environ, "GLOO_TEST_C10D": f"127.0.0.1:{server}",
                               "CMOCKA_MESSAGE_OUTPUT": "TAP"})
    said = done.stdout + done.stderr
    assert done.returncode == 0 and "\nok 1 - " in said and "not ok" not in said, said
    if program.name == "test_store":
        return  # its keys are not text to PyTorch
    values = left_behind(server)
    assert values
    # Each store had separate keys, and all values are readable by PyTorch's client.
    assert all(key.startswith("test ") and "/" in key for key in values), list(values)
    assert not [key for key, value in values.items() if MARK in value]
    if program.name == "test_store_waiting":
        counters = [value for key, value in values.items() if key.endswith("/counter")]
        assert counters == [b"200"]
