"""The conversations under tests/cases, byte for byte."""
import pytest

import cases


def _params():
    later, params = cases.later(), []
    for file, title, lines in cases.load():
        marks = [pytest.mark.xfail(strict=True, reason="later work: " + later[title])] if title in later else []
        params.append(pytest.param(lines, id="%s: %s" % (file, title), marks=marks))
    return params


@pytest.mark.parametrize("case", _params())
def test_case(server, case):
    wrong = cases.play(case, server.host, server.port)
    assert not wrong, "\n   ".join([""] + wrong)


def test_every_listed_later_case_exists():
    titles = {title for _, title, _ in cases.load()}
    assert set(cases.later()) <= titles
