"""Ray: Train, whose worker processes get variables by runtime_env, and actors without PyTorch. Ray runs on
loopback, and its files are in a folder of its own: paths of its sockets would be too long under tmp_path."""

import json
import re
import shutil
import tempfile

import pytest
from conftest import EXAMPLES, HERE, SAID, check_cluster, run


@pytest.fixture(autouse=True)
def ray_folder(monkeypatch):
    folder = tempfile.mkdtemp(prefix="ray", dir="/tmp")
    monkeypatch.setenv("RAY_TMPDIR", folder)
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setenv("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")  # without a cluster it binds loopback only
    yield
    shutil.rmtree(folder)


def test_train(tmp_path):
    status, said = run(["python", HERE / "job_ray_train.py"], tmp_path, False)
    assert status == 0, said[-4000:]
    found = {name: json.loads(text) for name, text in re.findall(r"^(gloo|replaced|gloo_c) (\[.*\])$", said, re.M)}
    assert {name: ours for name, (_losses, ours) in found.items()} == {"gloo": False, "replaced": True, "gloo_c": True}
    losses = found["gloo"][0]
    assert len(losses) == 2 and len({*losses[0], *losses[1]}) > 20
    assert found["replaced"][0] == losses and found["gloo_c"][0] == losses
    assert SAID.search(said)


def test_actors(tmp_path):
    status, said = run(["python", EXAMPLES / "ray_actors.py"], tmp_path, False)
    assert status == 0 and "2 actors found [ 1.  -2.   3.   0.5]" in said, said[-4000:]


def test_two_hosts(tmp_path, monkeypatch):
    monkeypatch.delenv("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER")
    monkeypatch.delenv("RAY_TMPDIR")  # hosts have folders of their own
    check_cluster("ray", tmp_path)
