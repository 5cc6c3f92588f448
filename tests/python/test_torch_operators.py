"""Operators torch.ops.gloo_c: torch_operators.py, on processes of one job, by kernels in C and in Python."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from torch_job import run_ranks

torch = pytest.importorskip("torch")

PROGRAM = Path(__file__).parent / "torch_operators.py"
CASES = re.findall(r"^@case\ndef (\w+)", PROGRAM.read_text(encoding="utf-8"), re.M)
PYTHON = Path(__file__).resolve().parents[2] / "python"
_said = {}


def said(kernels):
    """Returns the status and the lines of all cases, which are one job."""
    if kernels not in _said:
        done = run_ranks(3 if kernels == "c" else 2, PROGRAM, kernels, timeout=240)
        _said[kernels] = [status for status, _text in done], "".join(text for _status, text in done)
    return _said[kernels]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("kernels", ["c", "python"])
def test_operators(kernels, case):
    status, text = said(kernels)
    found = re.search(rf"^(ok|failed) {case}\b.*", text, re.M)
    assert found, f"it did not come to {case} (status {status}):\n{text[-3000:]}"
    assert found[1] == "ok", found[0]


@pytest.mark.parametrize("kernels, reason", [
    ("c", "has the stable C interface"),
    ("python", "cannot call kernels in C: it has no function aoti_torch_library_init_impl")])
def test_all_ranks_end_well_and_know_the_kernels(kernels, reason):
    status, text = said(kernels)
    assert status == [0] * len(status), text[-3000:]
    assert f"operators: PyTorch {torch.__version__} {reason}" in text


# Functions of PyTorch, and of shim.h, with handles as plain pointers.
SAME = """
#include <type_traits>
#include <torch/csrc/stable/c/shim.h>
#define torch gloo_c_torch
#define _Noreturn [[noreturn]]
#include "torch/shim.h"
#undef torch
template <class T> struct plain { using type = T; };
template <class T> struct plain<T *> {
  using type = std::conditional_t<std::is_class_v<T>, void *, typename plain<T>::type *>;
};
template <class R, class... A> struct plain<R (*)(A...)> {
  using type = typename plain<R>::type (*)(typename plain<A>::type...);
};
#define CHECK(result, name, arguments) \\
  static_assert(std::is_same_v<plain<decltype(&name)>::type, plain<result(*) arguments>::type>, #name);
TORCH_SHIM(CHECK)
#define TYPE(name, number) static_assert(std::is_same_v<decltype(aoti_torch_dtype_##name()), int32_t>, #name);
TORCH_DTYPES(TYPE)
static_assert(std::is_same_v<StableIValue, torch_value>, "stack");
"""


def test_declarations_are_those_of_the_installed_pytorch(tmp_path):
    compiler = shutil.which("c++") or shutil.which("g++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    (tmp_path / "same.cpp").write_text(SAME, encoding="utf-8")
    include = Path(torch.__file__).parent / "include"
    done = subprocess.run([compiler, "-std=c++17", "-fsyntax-only", f"-I{include}", f"-I{PYTHON}", "same.cpp"],
                          cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]


NO_FILE = """
import torch
torch._C.__file__ = "/nonexistent"
import gloo_c.torch
print(gloo_c.torch.operators())
"""


def test_the_reason_names_a_module_that_is_not_loaded():
    done = subprocess.run([sys.executable, "-c", NO_FILE], capture_output=True, text=True, check=False)
    assert "native=False" in done.stdout and "/nonexistent cannot be opened" in done.stdout, done
