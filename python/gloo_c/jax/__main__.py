"""python -m gloo_c.jax: the variables by which JAX uses gloo_c for its collectives.

    eval "$(python -m gloo_c.jax)"
    env $(python -m gloo_c.jax --env) python train.py"""

from __future__ import annotations

import argparse
import shlex
import sys

from gloo_c.jax import environment


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m gloo_c.jax", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env", action="store_true",
                        help="NAME=VALUE, for env, instead of what a shell evaluates")
    options = parser.parse_args()
    try:
        variables = environment()
    except FileNotFoundError as error:
        print(error, file=sys.stderr)
        return 1
    for name, value in variables.items():
        print(f"{name}={value}" if options.env else f"export {name}={shlex.quote(value)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
