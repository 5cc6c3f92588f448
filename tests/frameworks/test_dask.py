"""Dask: workers of a local cluster and of two hosts, without PyTorch."""

from conftest import EXAMPLES, check_cluster, run


def test_workers(tmp_path):
    status, said = run(["python", EXAMPLES / "dask_workers.py"], tmp_path, False)
    assert status == 0 and "2 workers: mean [1. 2. 3.], deviation [1.  2.  0.5]" in said, said[-4000:]


def test_two_hosts(tmp_path):
    check_cluster("dask", tmp_path)
