"""PyTorch's own tests of torch.distributed: those of torch_own_tests.SLICE pass with gloo_c as with gloo."""

import json
import subprocess
import sys

import pytest

pytest.importorskip("torch")
pytest.importorskip("expecttest")

import torch_own_tests as program


@pytest.mark.long
@pytest.mark.parametrize("file", program.SLICE)
def test_passes_what_gloo_passes(file, tmp_path, capsys):
    results = tmp_path / "results.json"
    done = subprocess.run([sys.executable, program.__file__, "--minutes", "10", "--limit", "120", "--json", results,
                           f"{file}:{program.SLICE[file]}"], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=1500, check=False)
    found = json.loads(results.read_text(encoding="utf-8")) if results.exists() else {}
    if program.NOT_TO_BE_HAD in done.stdout and file != program.OWN:
        pytest.skip(done.stdout.strip().splitlines()[-1])
    assert file in found, done.stdout + done.stderr
    runs = found[file]
    assert program.count(runs[program.THEIRS], "passed") > 0
    assert program.judge({file: runs}), capsys.readouterr().out
