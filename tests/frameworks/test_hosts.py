"""Clusters of two hosts (namespaces), started by the engines' own commands."""

import sys
from pathlib import Path

import pytest
from conftest import HERE, run


@pytest.mark.parametrize("engine", ["ray", "dask"])
def test_hosts(tmp_path, engine):
    status, said = run(["bash", HERE / f"{engine}_hosts.sh", Path(sys.executable).parent], tmp_path, False, timeout=320)
    if said.startswith("1..0 # SKIP"):
        pytest.skip(said.partition("SKIP ")[2].strip())
    assert status == 0 and "\n1.." in said, said[-6000:]
