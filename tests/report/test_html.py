import re
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser

import pytest

from acctax.report import html
from acctax.report.sections import sections
from tests.report.sweeps import FAILURE, over_K, over_schemes, read, scored

EMPTY = {"meta", "p", "li", "th", "td", "tr", "tbody", "thead", "html", "br"}  # HTML lets their ends be left out


def render(findings) -> str:
    return html.render(findings, sections(findings))


@pytest.fixture(scope="module")
def page() -> str:
    return render(read([scored(r, 0.01 * i) for i, r in enumerate(over_schemes() + over_K(), 1)], FAILURE))


def test_it_needs_nothing_else(page):
    loads = re.findall(r"""(?:src|href|url|@import|action)\s*[=(]\s*["']?([^"')\s>]*)""", page)
    assert loads and all(load.startswith("#") for load in loads)  # glyphs, markers, clips and hatches of its own
    assert not re.search(r"<(script|link|iframe|object|img)\b", page)
    addresses = set(re.findall(r"https?://[^\s\"'<)]+", page))
    assert all(address.startswith("http://www.w3.org/") for address in addresses)  # names, nothing is fetched


def test_what_stands_in_it_is_escaped():
    record = over_K()[0]
    record = record.__class__(**{**vars(record), "choices": record.choices | {"target": "<b>&'\""}})
    page = render(read([record]))
    assert "<b>&'" not in page and "&lt;b&gt;&amp;" in page


def test_tags_are_closed_and_references_resolve(page):
    class Balance(HTMLParser):
        open: list[str] = []

        def handle_starttag(self, tag, attributes):
            if tag not in EMPTY:
                self.open.append(tag)

        def handle_endtag(self, tag):
            if tag not in EMPTY:
                assert self.open.pop() == tag

    parser = Balance()
    parser.feed(page)
    assert not parser.open
    ids = set(re.findall(r'\bid="?([^"\s>]+)', page))
    assert set(re.findall(r'(?:href="|url\()#([^")]+)', page)) <= ids


def test_pictures_take_the_pages_colours_and_have_a_name(page):
    for svg in re.findall(r"<svg.*?</svg>", page, re.S):
        ElementTree.fromstring(svg.replace("role=img", 'role="img"'))  # well-formed but for that
        assert "var(--ink)" in svg and "#1b1b1f" not in svg and "aria-label=" in svg[:200]
    assert len(re.findall("<figure>", page)) == 6


def test_verdicts_and_failures_come_first(page):
    words = [page.index(word) for word in ("REJECT</b>", "FAILED</b>", "<figure>")]
    assert words == sorted(words)
    assert "MemoryError: no room for it" in page and "tracking.reuse=false" in page and "Noise floor" in page
