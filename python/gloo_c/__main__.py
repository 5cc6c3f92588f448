"""python -m gloo_c: versions, what is built in, how ranks are connected, and a self-test."""

from __future__ import annotations

import argparse
import os
import platform
import sys

import gloo_c
from gloo_c._check import CHECKS, LETTERS, failures


def options_for_c(cflags: bool, libs: bool) -> str:
    """Returns compiler options for a C program that uses the library of this package."""
    library = gloo_c.get_library()
    return " ".join([f"-I{gloo_c.get_include()}"] * cflags
                    + [library, f"-Wl,-rpath,{os.path.dirname(library)}"] * libs)


def features() -> None:
    print(f"gloo_c {gloo_c.__version__}, Python {platform.python_version()}, "
          f"{platform.system()} {platform.machine()}, {gloo_c.cores()} cores")
    for transport in gloo_c.transports():
        why = gloo_c.usable(transport)
        print(f"transport {transport}: {'usable' if why is None else why.message}")
    print(f"types: {', '.join(gloo_c.dtypes)}")
    print(f"operations: {', '.join(gloo_c.ops)}")


def routes(context: gloo_c.Context) -> None:
    """Gathers each rank's routes to the others; rank 0 prints them in turn."""
    lines = []
    for peer in range(context.size):
        route = context.route(peer)
        why = f" ({route.why})" if route.why else ""
        lines.append(f"rank {context.rank} to {peer}: {route.through or 'not connected'}{why}")
    text = "\n".join(lines).encode()[:4096].ljust(4096)
    told = bytearray(4096 * context.size) if context.rank == 0 else None
    context.gather(text, told)
    if told is not None:
        for rank in range(context.size):
            print(told[4096 * rank:4096 * (rank + 1)].decode("utf-8", "replace").rstrip())


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m gloo_c", description=__doc__, epilog=(
        "Alone or on several ranks: gloo run -n 4 -- python -m gloo_c. The status is 0 when the "
        "self-test has passed on this rank, and 1 when not."))
    parser.add_argument("--timeout", type=float, default=30, metavar="SECONDS",
                        help="for each operation (30)")
    parser.add_argument("--cflags", action="store_true",
                        help="only print the option with which C programs find the headers")
    parser.add_argument("--libs", action="store_true",
                        help="only print the options that link C programs with this library")
    options = parser.parse_args()
    if options.cflags or options.libs:
        print(options_for_c(options.cflags, options.libs))
        return 0
    try:
        with gloo_c.init(timeout=options.timeout) as context:
            if context.rank == 0:
                features()
            found = failures(context)
            if context.size > 1:
                routes(context)
            for line in found:
                print(f"rank {context.rank}: {line}", file=sys.stderr)
            if context.rank == 0 and not found:
                print(f"self-test passed: {len(CHECKS)} calls, {len(LETTERS)} types, "
                      f"{context.size} rank{'s' if context.size > 1 else ''}")
            return 1 if found else 0
    except gloo_c.GlooError as error:
        print(f"{error.status_name}: {error.message}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
