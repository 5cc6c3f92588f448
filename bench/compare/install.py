"""Installs what scripts/compare was asked to measure and can come by itself: wheels of MPIs.
Prints the Debian packages that are needed besides; scripts/compare installs those."""

import argparse
import sys

import libraries
import wheels


def parse(argv):
    """Parses the options that decide which libraries are needed; the others are ignored."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--libraries", type=lambda text: text.split(","))
    parser.add_argument("--build", required=True)
    parser.add_argument("--hosts", action="store_true")
    return parser.parse_known_args(argv)[0]


def install(build, wanted):
    """Installs the wheels among `wanted`, and reports why one is not available."""
    for library in wanted:
        if not library.wheels:
            continue
        try:
            wheels.install(build, library.name, library.title, library.wheels)
        except wheels.Missing as problem:
            print(f"{library.title} is not measured: {problem}", file=sys.stderr, flush=True)


def main(argv):
    options = parse(argv)
    asked = libraries.BETWEEN_HOSTS if options.hosts else options.libraries
    install(options.build, [l for l in libraries.LIBRARIES if asked is None or l.name in asked])
    asked = asked or libraries.default(options.build)
    print(*(package for l in libraries.LIBRARIES if l.name in asked for package in l.packages))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
