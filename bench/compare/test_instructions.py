"""Tests of the guard on instruction counts."""

import importlib.machinery
import importlib.util
import os
import unittest
from unittest import mock

import testing


def script(name):
    """A program of the folder above, as a module."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", name)
    loader = importlib.machinery.SourceFileLoader(name, path)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
    loader.exec_module(module)
    return module


instructions = script("instructions")


class Instructions(unittest.TestCase):
    PROFILE = """events: Ir
ob=(1) /lib/libgloo_c.so
fl=(1) file.c
fn=(1) send
0 10
cfn=(2) copy
calls=3 0
0 300
0 5
fn=(2)
0 30
ob=(2) /lib/libuv.so.1
fn=(3) 0x0000000000001234
+3 7
fn=(4) 0x0000000000005678
* 2
summary: 54""".splitlines()

    def test_calls_are_not_counted_twice_and_nameless_functions_are_their_librarys(self):
        self.assertEqual(instructions.costs(self.PROFILE),
                         {"send": 15, "copy": 30, "(in libuv.so.1)": 9})

    def test_without_the_standin_rdma_is_not_counted_and_nothing_is_built(self):
        ran = []

        def no_such_target(command, **_):
            ran.append(command)
            raise instructions.Problem("unknown target")
        with mock.patch.object(instructions, "output_of", no_such_target):
            self.assertIsNone(instructions.standin_of("build"))
        self.assertEqual([command[3:5] for command in ran], [["-t", "query"]])

    def test_only_growth_beyond_the_tolerance_is_an_error(self):
        self.assertEqual([instructions.verdict(count, 1000, None)[1] for count in (500, 1050, 1051)],
                         [False, False, True])
        self.assertFalse(instructions.verdict(1, None, None)[1])

    def test_what_grows_with_the_operations_under_way_is_an_error(self):
        flat = {"shm/messages_500": 1000, "shm/messages_20000": 1400, "shm/barrier": 5}
        self.assertEqual(instructions.slopes(flat), [])
        steep = {**flat, "tcp/messages_500": 1000, "tcp/messages_20000": 1600}
        self.assertEqual(instructions.slopes(steep), [("tcp/messages_20000", 1.6)])
        self.assertEqual(instructions.slopes({"tcp/messages_20000": 1600}), [])

    def test_more_than_the_goal_is_an_error_whatever_was_before(self):
        self.assertEqual([instructions.verdict(count, before, 600)[1]
                          for count, before in ((600, 590), (601, 600), (601, 900), (601, None))],
                         [False, True, True, True])


if __name__ == "__main__":
    testing.main()
