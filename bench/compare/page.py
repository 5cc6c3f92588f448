"""The part of a page that a program writes."""

BEGIN, END = "<!-- scripts/compare: begin -->", "<!-- scripts/compare: end -->"


def split(path):
    """What stands before and after that part."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"compare: {path} lacks the lines {BEGIN} and {END}")
    return before, after


def write(path, text):
    before, after = split(path)
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"{before}{BEGIN}\n\n{text}\n{END}{after}")
