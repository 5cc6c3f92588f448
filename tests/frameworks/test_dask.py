"""Dask: workers of a local cluster, without PyTorch."""

from conftest import EXAMPLES, run


def test_workers(tmp_path):
    status, said = run(["python", EXAMPLES / "dask_workers.py"], tmp_path, False)
    assert status == 0 and "2 workers: mean [1. 2. 3.], deviation [1.  2.  0.5]" in said, said[-4000:]
