"""Results of a test in the Test Anything Protocol."""

import time
from typing import Callable


def report(checks: list[tuple[str, bool]], found: list[str]) -> None:
    """[(name, is it good?)], after lines that say what was found."""
    print(f"1..{len(checks)}")
    for line in found:
        print("# " + line)
    for number, (name, good) in enumerate(checks, 1):
        print(f"{'ok' if good else 'not ok'} {number} - {name}")


number = 0
good = True


def case(name: str, passed: bool, *about: object) -> None:
    """Reports a check at once; if it failed, after what it was about."""
    global number, good
    number += 1
    good = good and passed
    for thing in about if not passed else ():
        print("\n".join(f"# {line}" for line in str(thing)[:4000].splitlines()))
    print(f"{'ok' if passed else 'not ok'} {number} - {name}", flush=True)


def finish() -> bool:
    """Ends a test of cases. Returns true if all passed."""
    print(f"1..{number}")
    return good


def wait_until(condition: Callable[[], bool], seconds: float = 90, pause: float = 0.1) -> bool:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(pause)
    return True
