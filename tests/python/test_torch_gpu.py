"""The PyTorch backend on tensors in GPU memory: torch_gpu_cases.py, in a process of its own. PyTorch's build
for CPUs gets a device "cuda" there, on the stand-in for CUDA's driver."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from cases import names_in, result_of

torch = pytest.importorskip("torch")

HERE = Path(__file__).resolve().parent
SLOW = "test_pieces_are_sent_while_others_are_copied"
COMPILER = shutil.which(os.environ.get("CXX", "c++"))
pytestmark = [
    pytest.mark.skipif(not os.environ.get("CUDA_STANDIN"), reason="CUDA_STANDIN names no stand-in for CUDA"),
    pytest.mark.skipif(COMPILER is None, reason="there is no compiler for C++")]


@pytest.fixture(scope="module")
def device(tmp_path_factory):
    """Returns the path of the library that makes the device."""
    made = tmp_path_factory.mktemp("device") / "standin_torch.so"
    root = Path(torch.__file__).parent
    done = subprocess.run(
        [COMPILER, "-shared", "-fPIC", "-O0", "-std=c++20", f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}",
         f"-I{root}/include", f"-I{root}/include/torch/csrc/api/include", HERE / "standin_torch.cpp", "-o", made,
         f"-L{root}/lib", "-ltorch_cpu", "-lc10"], capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return made


@pytest.fixture(scope="module")
def report(device, tmp_path_factory):
    """Runs the cases at most twice: the second time with copies of 10 MB/s."""
    made = {}

    def get(name):
        slow = name == SLOW
        if slow not in made:
            made[slow] = result_of(HERE / "torch_gpu_cases.py", tmp_path_factory.mktemp("gpu"),
                                   ["-k", SLOW if slow else f"not {SLOW}"], TORCH_STANDIN=str(device),
                                   STANDIN_MBPS="10" if slow else "0")
        return made[slow]

    return get


@pytest.mark.parametrize("name", names_in(HERE / "torch_gpu_cases.py"))
def test_on_gpus(report, name):
    report(name).check(name)
