"""The parts of docs/performance.md that are made from measurements, between `<!-- NAME -->` and `<!-- /NAME -->`."""
import pathlib
import re

PAGE = pathlib.Path(__file__).resolve().parents[1] / "docs" / "performance.md"


def between(name):
    """The pattern of a part, with its marks."""
    return re.compile(r"(<!-- %s -->\n).*?(<!-- /%s -->\n)" % (name, name), re.S)


def part(name, page=PAGE):
    """The part as it stands."""
    return between(name).search(page.read_text())[0].split("\n", 1)[1].rsplit("<!--", 1)[0]


def write(name, text, page=PAGE):
    """Puts `text` there in its place."""
    page.write_text(between(name).sub(lambda marks: marks[1] + text + marks[2], page.read_text()))
