"""The parts of a page that a program writes."""

from machine import short


def tables_on(cpu):
    """Returns the section with the tables of a processor."""
    return f"scripts/compare, {short(cpu)}"


def marks(section):
    return f"<!-- {section}: begin -->", f"<!-- {section}: end -->"


def split(path, section):
    """Returns the text before and after that part."""
    begin_mark, end_mark = marks(section)
    with open(path, encoding="utf-8") as file:
        text = file.read()
    before, begin, rest = text.partition(begin_mark)
    _, end, after = rest.partition(end_mark)
    if not begin or not end:
        raise SystemExit(f"compare: {path} lacks the lines {begin_mark} and {end_mark}")
    return before, after


def write(path, text, section):
    before, after = split(path, section)
    with open(path, "w", encoding="utf-8") as file:
        file.write(before + part(text, section) + after)


def part(text, section):
    begin_mark, end_mark = marks(section)
    return f"{begin_mark}\n\n{text}\n{end_mark}"


def source(path):
    """Returns the sentence that names the source of a part."""
    return f"From [{path}](../{path}):"
