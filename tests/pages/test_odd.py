"""Which pages the parser is kept from."""

from __future__ import annotations

import pytest

from crawlproj.pages.odd import is_odd

PLAIN = {
    "a page": "<p>text</p>" * 100,
    "well closed formatting": "<p><b>a</b> <font color=red>b</font> <i><code>c</code></i></p>" * 1000,
    "upper case": "<P><FONT color=red>b</FONT></P>" * 1000,
    "names that begin alike": "<p><body><base><section><input><nav><tbody>" * 500,
    "formatting in comments": "<p><!-- <b> --></p>" * 1000,
    "formatting in scripts": "<script>" + '"<code>" ' * 1000 + "</script>" + "<p>text</p>" * 1000,
    "a few that are not closed": "<b><i>" + "<p>text</p>" * 5000,
    "comparisons in a script": "<p>text</p><script>" + "if(a<b){}" * 50_000 + "</script>",
    "a long data URL": '<img src="data:image/png;base64,' + "iVBORw0KGgo/+A" * 20_000 + '">',
    "long values": ('<p title="' + "word " * 2000 + '">x</p>') * 10,
}
ODD = {
    "too many tags": "<p>" * 30_001,
    "roots": "".join(f"<html a{n}=1>" for n in range(400)),
    "fonts": "".join(f"<p><font color={n}>a" for n in range(400)),
    "upper-case fonts": "".join(f"<P><FONT color={n}>a" for n in range(400)),
    "closed in comments only": "".join(f"<p><font color={n}><!--</font>-->a" for n in range(400)),
    "closed before they open": "</b>" * 500 + "<p><b class=a>a" * 500,
    "every formatting element": "<p>"
    + "<b><i><u><s><em><tt><big><code><font><small><strike><strong><nobr>" * 3
    + "<p>a" * 4000,
    "attributes": "<p " + " ".join(f"a{n}" for n in range(6000)) + ">",
    "attributes by slashes": "<p/" + "/".join(f"a{n}" for n in range(6000)) + ">",
}


@pytest.mark.parametrize("html", PLAIN.values(), ids=PLAIN)
def test_ordinary_page_is_parsed(html: str) -> None:
    """Only what costs the parser more than its length is kept from it."""
    assert not is_odd(html, html.count("<"))


@pytest.mark.parametrize("html", ODD.values(), ids=ODD)
def test_odd_page_is_not_parsed(html: str) -> None:
    """What would take the square of its length is told before it is parsed."""
    assert is_odd(html, html.count("<"))
