"""Tests of the comparison with PyTorch's gloo."""

import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import pytorch
import testing


def times(ranks, **taken):
    return {"ranks": ranks, "torch": "2.0", "times": {
        name: {"gloo": theirs, "gloo_c": ours, "ratio": ours / theirs}
        for name, (theirs, ours) in taken.items()}}


class Pytorch(unittest.TestCase):
    def test_a_line_has_the_times_of_all_ranks(self):
        two, four = times(2, step=(1640.4, 820.2)), times(4, step=(9000.0, 4500.0))
        lines = pytorch.table([two, four]).splitlines()
        self.assertEqual(lines[0], "| us | 2 ranks: gloo | gloo_c | ratio | 4 ranks: gloo | gloo_c | ratio |")
        self.assertEqual(lines[2], "| step | 1,640 | 820 | 0.50 | 9,000 | 4,500 | 0.50 |")

    def test_what_only_some_lines_have_is_blank_in_the_others(self):
        run = times(2, step=(40.0, 20.0))
        run["times"]["layer"] = {"operator": 6.25, "gloo": 40.0, "gloo_c": 10.0, "ratio": 0.25,
                                 "alone": 1234.5, "vllm": 18.0}
        lines = pytorch.table([run]).splitlines()
        self.assertEqual(lines[0], "| us | 2 ranks: alone | gloo | gloo_c | ratio | operator | vllm |")
        self.assertEqual(lines[2], "| step |  | 40.0 | 20.0 | 0.50 |  |  |")
        self.assertEqual(lines[3], "| layer | 1,234 | 40.0 | 10.0 | 0.25 | 6.2 | 18.0 |")

    def test_the_wished_parts_are_measured_and_kept(self):
        with tempfile.TemporaryDirectory() as folder:
            kept = os.path.join(folder, "kept.json")

            def run(command, _limit):
                self.assertEqual(command[command.index("--only") + 1:], ["layer", "ddp"])
                with open(command[command.index("--json") + 1], "w", encoding="utf-8") as file:
                    json.dump(times(2, layer=(40.0, 20.0)), file)
                return subprocess.CompletedProcess(command, 0, "", "")

            with mock.patch.object(pytorch, "run", run), mock.patch.object(pytorch, "look"), \
                 contextlib.redirect_stdout(io.StringIO()):
                pytorch.main(["--build", "b", "--ranks", "2", "--only", "layer,ddp", "--json", kept])
            with open(kept, encoding="utf-8") as file:
                self.assertEqual(json.load(file), [times(2, layer=(40.0, 20.0))])

    def test_a_python_that_lacks_the_packages_is_named(self):
        with tempfile.TemporaryDirectory() as empty, \
             mock.patch.dict(os.environ, {"PYTHONPATH": empty}):
            with open(os.path.join(empty, "torch.py"), "w", encoding="utf-8") as file:
                file.write("raise ImportError('not here')\n")
            with self.assertRaisesRegex(pytorch.Missing, "not both torch and gloo_c .*not here"):
                pytorch.look(sys.executable)

    def test_a_python_that_is_not_there_is_named(self):
        with self.assertRaisesRegex(pytorch.Missing, "/nowhere/python cannot be started"):
            pytorch.look("/nowhere/python")

    def test_what_a_failed_run_said_last_is_told(self):
        options = pytorch.parse(["--build", "b", "--python", "/bin/false"])
        with self.assertRaisesRegex(pytorch.Missing, "3 ranks were not measured: its status is 1"):
            pytorch.measure(options, 3)


if __name__ == "__main__":
    testing.main()
