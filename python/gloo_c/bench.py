"""python -m gloo_c.bench: latency and bandwidth over the ranks it is run with.

    gloo run -n 2 -- python -m gloo_c.bench

Times are those of the slowest rank, medians of all calls; with several ranks on a core they say
little. `gloo bench` measures the library without Python."""

from __future__ import annotations

import argparse
import importlib
import sys
import time
from typing import Any, Callable, NamedTuple

import gloo_c

SIZES = [4 << shift for shift in range(0, 25, 3)]  # bytes: 4 to 64 MiB
UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


class Result(NamedTuple):
    collective: str
    size: int  # bytes of each rank's array
    seconds: float


def _floats(length: int) -> Any:
    return memoryview(bytearray(4 * length)).cast("f")


def prepared(context: gloo_c.Context, collective: str, length: int) -> Callable[[], Any]:
    """Prepares a call with arrays of `length` float32 at each rank."""
    ranks = context.size
    each = -(-length // ranks)
    data = _floats(length)
    if collective in ("allreduce", "reduce", "scan", "broadcast"):
        method = getattr(context, collective)
        return lambda: method(data)
    if collective == "alltoall":
        blocks = _floats(each * ranks)
        return lambda: context.alltoall(blocks)
    if collective == "allgather":
        part, whole = _floats(each), _floats(each * ranks)
        return lambda: context.allgather(part, whole)
    if collective == "reduce_scatter":
        whole, part = _floats(each * ranks), _floats(each)
        return lambda: context.reduce_scatter(whole, part)
    if collective == "barrier":
        return context.barrier
    raise SystemExit(f"{collective} cannot be measured; valid: {', '.join(COLLECTIVES)}")


COLLECTIVES = ["allreduce", "broadcast", "reduce", "allgather", "reduce_scatter", "alltoall",
               "scan", "barrier"]


def _median(times: list[float]) -> float:
    return sorted(times)[len(times) // 2]


def measure(context: gloo_c.Context, collective: str, size: int, seconds: float) -> Result:
    """Measures calls for about this many seconds; all ranks make the same number."""
    call = prepared(context, collective, max(1, size // 4))
    for _ in range(3):
        call()
    begun = time.perf_counter()
    call()
    once = memoryview(bytearray(8)).cast("d")
    once[0] = time.perf_counter() - begun
    context.allreduce(once, op="max")
    times = []
    for _ in range(max(5, min(10000, int(seconds / max(once[0], 1e-6))))):
        begun = time.perf_counter()
        call()
        times.append(time.perf_counter() - begun)
    once[0] = _median(times)
    context.allreduce(once, op="max")
    return Result(collective, size, once[0])


def bytes_of(text: str) -> int:
    unit = UNITS.get(text[-1:].upper(), 1)
    try:
        size = int(text[:-1] if unit > 1 else text) * unit
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size such as 4, 64K or 16M") from None
    if not 4 <= size <= 4 << 30:
        raise argparse.ArgumentTypeError(f"{text!r} is not from 4 bytes to 4 GiB")
    return size


def named(size: int) -> str:
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit and size % unit == 0:
            return f"{size // unit} {name}"
    return f"{size} B"


def table(results: list[Result]) -> str:
    lines = [f"{'collective':16}{'bytes':>10}{'microseconds':>14}{'MB/s':>12}"]
    for result in results:
        rate = f"{result.size / result.seconds / 1e6:12.1f}" if result.size else f"{'':12}"
        lines.append(f"{result.collective:16}{named(result.size):>10}"
                     f"{result.seconds * 1e6:14.2f}{rate}".rstrip())
    return "\n".join(lines)


def draw(results: list[Result], ranks: int, path: str) -> None:
    """Draws times by sizes."""
    try:
        importlib.import_module("matplotlib").use("Agg")
        pyplot = importlib.import_module("matplotlib.pyplot")
    except ImportError:
        raise SystemExit("drawing needs matplotlib: pip install matplotlib (or leave out --svg and "
                         "--png)") from None
    figure, axes = pyplot.subplots(figsize=(7, 4.5))
    for collective in dict.fromkeys(result.collective for result in results):
        mine = [result for result in results if result.collective == collective and result.size]
        axes.loglog([result.size for result in mine], [result.seconds * 1e6 for result in mine],
                    marker="o", label=collective)
    axes.set_xlabel("bytes")
    axes.set_ylabel("microseconds")
    axes.set_title(f"gloo_c {gloo_c.__version__} from Python, {ranks} ranks")
    axes.grid(True, alpha=0.3)
    axes.legend()
    figure.savefig(path, bbox_inches="tight")
    pyplot.close(figure)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m gloo_c.bench", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("collectives", nargs="*", metavar="COLLECTIVE",
                        help=f"of {', '.join(COLLECTIVES)} (allreduce)")
    parser.add_argument("--sizes", type=lambda text: [bytes_of(one) for one in text.split(",")],
                        default=SIZES, metavar="BYTES,...", help="such as 4,64K,16M")
    parser.add_argument("--seconds", type=float, default=0.3, help="measuring time per line (0.3)")
    parser.add_argument("--svg", metavar="FILE", help="draw it (needs matplotlib)")
    parser.add_argument("--png", metavar="FILE", help="draw it (needs matplotlib)")
    options = parser.parse_args()
    unknown = [name for name in options.collectives if name not in COLLECTIVES]
    if unknown:
        parser.error(f"{unknown[0]} cannot be measured; valid: {', '.join(COLLECTIVES)}")
    with gloo_c.init() as context:
        results = [measure(context, collective, size, options.seconds)
                   for collective in options.collectives or ["allreduce"]
                   for size in ([0] if collective == "barrier" else options.sizes)]
        if context.rank == 0:
            print(f"gloo_c {gloo_c.__version__}, {context.size} ranks, "
                  f"{gloo_c.cores()} cores, transport {context.transport}")
            print(table(results), flush=True)
            for path in (options.svg, options.png):
                if path:
                    draw(results, context.size, path)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except gloo_c.GlooError as error:
        sys.exit(f"{error.status_name}: {error.message}")
