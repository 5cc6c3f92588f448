"""What a call costs from Python: a blocking allreduce of one float32 on one rank.

usage: call_cost.py FOLDER      which has the module that direct.c is compiled to

Needs gloo_c and numpy. Ways of calling are measured in turns; the least of them counts, for what
else runs on the machine only adds."""

import sys
import time

import numpy

import gloo_c
from gloo_c._binding import ffi, lib

sys.path.insert(0, sys.argv[1])
import direct  # noqa: E402  (the folder that was just named)

TURNS, CALLS = 15, 20000

array = numpy.ones(1, "f4")
error = ffi.new("gloo_error *")
place = ffi.new("gloo_context **")
assert lib.gloo_init(ffi.NULL, place, error) == 0, ffi.string(error.message)
pointer = place[0]
memory, dtype, CHARS = ffi.from_buffer(array), array.dtype, ffi.typeof("char[]")
NULL, IN_PLACE, FLOAT32, SUM = ffi.NULL, lib.GLOO_IN_PLACE, lib.GLOO_FLOAT32, lib.GLOO_SUM
allreduce, from_buffer = lib.gloo_allreduce, ffi.from_buffer


def address_known():
    allreduce(pointer, IN_PLACE, memory, 1, FLOAT32, SUM, NULL, error)


def buffer_taken():
    if array.dtype != dtype:
        raise TypeError
    allreduce(pointer, IN_PLACE, from_buffer(CHARS, array, True), array.size, FLOAT32, SUM, NULL,
              error)


def limited_api():
    direct.allreduce(array)


def nothing():
    pass


def measure(function):
    begun = time.perf_counter_ns()
    for _ in range(CALLS):
        function()
    return (time.perf_counter_ns() - begun) / CALLS


def main():
    direct.init()
    context = gloo_c.init()
    request = context.allreduce_init(array)
    ways = {"an empty function": nothing, "limited C API, buffer taken and checked": limited_api,
            "cffi, address known": address_known,
            "cffi, buffer taken and checked": buffer_taken,
            "`Context.allreduce`": lambda: context.allreduce(array),
            "`allreduce_start`, and `wait`": lambda: context.allreduce_start(array).wait(),
            "a persistent request: `start`, and `wait`": lambda: request.start().wait()}
    taken = {name: [] for name in ways}
    for _ in range(TURNS):
        for name, function in ways.items():
            taken[name].append(measure(function))
    for name, times in taken.items():
        print(f"| {name} | {min(times):.0f} | {sorted(times)[TURNS // 2]:.0f} |")


main()
