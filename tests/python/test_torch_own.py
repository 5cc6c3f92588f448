"""PyTorch's own tests of torch.distributed: those of torch_own_tests.SLICE pass with gloo_c as with gloo."""

import json
import subprocess
import sys

import pytest

pytest.importorskip("torch")
pytest.importorskip("expecttest")

import torch_own_tests as program


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """{file: {backend: {test: result}}} of one run of the slice, and why files are missing."""
    folder = tmp_path_factory.mktemp("own")
    done = subprocess.run([sys.executable, program.__file__, "--minutes", "20", "--limit", "120", "--json",
                           str(folder / "results.json")], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=1500)
    assert (folder / "results.json").exists(), done.stdout + done.stderr
    return json.loads((folder / "results.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("file", program.SLICE)
def test_passes_what_gloo_passes(run, file, capsys):
    if file not in run["files"]:
        assert run["missing"] and file != program.OWN
        pytest.skip(f"Debian's source package cannot be had: {run['missing']}")
    assert program.count(run["files"][file][program.THEIRS], "passed") > 0
    assert program.judge({file: run["files"][file]}), capsys.readouterr().out
