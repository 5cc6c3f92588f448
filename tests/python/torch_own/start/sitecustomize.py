"""Runs at the start of each Python that has this folder in PYTHONPATH: once torch has been imported,
its backend "gloo" is answered by gloo_c."""

import importlib.util
import runpy
import sys
from pathlib import Path


class _AfterTorch:
    """A finder that only waits for torch."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name != "torch":
            return None
        sys.meta_path.remove(_AfterTorch)
        spec = importlib.util.find_spec("torch")
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def then_answer(module):
            execute(module)
            runpy.run_path(str(Path(__file__).parents[1] / "name.py"), run_name="gloo_name")["answer"]()

        spec.loader.exec_module = then_answer
        return spec


sys.meta_path.insert(0, _AfterTorch)
