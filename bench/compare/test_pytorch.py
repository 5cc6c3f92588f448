"""Tests of the comparison with PyTorch's gloo."""

import os
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
