"""Results of a test in the Test Anything Protocol."""


def report(checks: list[tuple[str, bool]], found: list[str]) -> None:
    """[(name, is it good?)], after lines that say what was found."""
    print(f"1..{len(checks)}")
    for line in found:
        print("# " + line)
    for number, (name, good) in enumerate(checks, 1):
        print(f"{'ok' if good else 'not ok'} {number} - {name}")
