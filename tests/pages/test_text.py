"""What a person can read on a page."""

from __future__ import annotations

import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from crawlproj.pages import text as module
from crawlproj.pages.text import characters, extract, read_html
from tests.pages.samples import KNOWN_WRONG, SAMPLES, Sample

HTML = "text/html; charset=utf-8"


def read(body: str) -> tuple[str | None, int]:
    found = extract(body.encode(), HTML)
    return found.main, found.visible_length


NOTHING = {
    "zero bytes": "",
    "white space": " \n\t ",
    "bare document": "<html></html>",
    "a comment only": "<!-- nothing to read here -->",
    "an image only": '<body><img src="cat.png" alt="a cat on a mat"></body>',
    "a zero-width space": "<p>\u200b\ufeff</p>",
    "a non-breaking space": "<p>&nbsp;</p>",
    "a title only": "<title>Only a title</title><body></body>",
    "a menu": '<body><nav><ul><li><a href="/">Home</a></li></ul></nav><footer>(c) 2020 us</footer></body>',
    "a header": "<body><header><h1>The site</h1></header><div id=content></div></body>",
    "landmarks by role": "<div role=navigation>Home About</div><div role=Banner>The site</div>",
    "a frameset": "<html><frameset><frame src=a></frameset></html>",
    "a form without labels": "<form><input value=x><select><option>one</select><button>Go</button></form>",
    "hidden text": '<p hidden>one</p><p style="color:red; DISPLAY:none">two</p>',
    "a shell": '<noscript>You need to enable JavaScript.</noscript><div id="root"></div><script>1</script>',
}

SOMETHING = {
    "one word": ("<html><body><p>Simplest.</p></body></html>", "Simplest."),
    "no tags at all": ("Simplest.", "Simplest."),
    "twelve words": ("<body><div>" + " ".join(["word"] * 12) + "</div>", " ".join(["word"] * 12)),
    "a heading": ("<body><h1>It works!</h1>", "It works!"),
    "a list of links": ("<body><ul><li><a href=a>One</a><li><a href=b>Two</a></ul>", "One Two"),
    "a table": ("<table><tr><td>a</td><td>b</td></tr></table>", "a b"),
    "a side bar": ("<div class=sidebar><p>All there is.</p></div>", "All there is."),
    "an aside": ("<body><aside>All there is.</aside>", "All there is."),
    "a page called footer": ("<div id=footer>All there is.</div>", "All there is."),
    "a form's labels": ("<form><label>Your name</label><input></form>", "Your name"),
    "text in a form": ("<form><p>Some text.</p></form>", "Some text."),
    "a heading in an article's header": (
        "<article><header><h1>Title</h1></header><p>Text.</p></article>",
        "Title Text.",
    ),
    "preformatted": ("<pre>a\n  b</pre>", "a b"),
}


@pytest.mark.parametrize("body", NOTHING.values(), ids=NOTHING)
def test_page_without_content_has_no_main_text(body: str) -> None:
    """Menus, images, comments and shells are nothing to read; and none of them is an error."""
    found = extract(body.encode(), HTML)
    assert found.main == ""
    assert found.main_length == 0


@pytest.mark.parametrize(("body", "want"), SOMETHING.values(), ids=SOMETHING)
def test_short_page_has_main_text(body: str, want: str) -> None:
    """However short, what stands outside of nav, header and footer is main text."""
    main, visible = read(body)
    assert main is not None
    assert " ".join(main.split()) == want
    assert visible >= len(want)


def test_scripts_and_styles_are_no_text() -> None:
    """Code counts neither as main text nor as visible text, whatever stands in its strings."""
    code = 'var a = "</p><p>not a word</p>"; ' * 800
    body = f"""<html><head><style>{"p { color: red } " * 800}</style></head><body>
        <template><p>not this</p></template><noscript><p>nor this</p></noscript>
        <p title="a > b &quot;and' so on">three visible words</p><script>{code}</script></body></html>"""
    assert read(body) == ("three visible words", 19)


def test_noscript_in_the_head_ends_no_head() -> None:
    """What a browser with scripts never shows does not spill into the body, and the title stays a title."""
    found = read_html(
        "<head><noscript><img src=pixel><p>Please enable it</p></noscript><title>T</title></head>"
        "<body><p>text</p></body>"
    )
    assert (found.main, found.title, found.visible_length) == ("text", "T", 4)


def test_noscript_in_a_string_of_a_script_removes_nothing() -> None:
    """A script that writes a noscript does not take the page with it."""
    found = read_html("<script>document.write('<noscript>')</script><p>text</p><noscript>no</noscript>")
    assert found.main == "text"


@pytest.mark.parametrize("text", ["  a \n\n b\t c  ", "a b c"])
def test_white_space_counts_once(text: str) -> None:
    """A run of white space is one character, and none at the ends."""
    assert characters(text) == 5


def test_bullets_are_not_counted() -> None:
    """What the page does not hold is not counted, such as the bullets of a list."""
    assert read("<p>text</p><ol><li>first</li></ol>") == ("text\n\n  first", 10)


@pytest.mark.parametrize(
    ("body", "shell"),
    [
        ('<div id="root"></div><script src=a.js></script>', True),
        ("<app-root></app-root><script src=a.js></script>", True),
        ("<noscript>This site needs JavaScript.</noscript><div id=x></div>", True),
        ('<header>Site</header><div id="app"></div><script>1</script>', True),
        ('<div id="root"></div>', False),
        ("<noscript><img src=pixel.gif></noscript>", False),
        ('<div id="root"></div><div class="Cookies">We use them.</div><script>1</script>', True),
        ("<div id=app>Chargement en cours…</div><script src=a.js></script>", True),
        ('<div id="root"><p>' + "Rendered on the server. " * 9 + "</p></div><script>1</script>", False),
    ],
)
def test_unrendered_shell_is_told(body: str, shell: bool) -> None:
    """A page without text is a shell when it has a place for an app and a script, or asks for JavaScript."""
    found = read_html(body)
    assert found.is_shell is shell
    assert (found.main == "") is (shell or "server" not in body)


@pytest.mark.parametrize(
    "body",
    [
        '<div id="root"><p>Rendered on the server.</p></div><script>1</script>',
        '<div id="root"><p>To be continued…</p><p>By Ann, who says so.</p></div><script>1</script>',
        '<div class="cookie-recipes">Flour, butter and sugar.</div>',
        '<div id="app"></div><div class="note">Closed on Friday.</div><script>1</script>',
        '<div class="menu">Soup of the day: 5 EUR</div>',
        '<div class="menu"><a href="/soup">Soup of the day</a> 5 EUR</div>',
        "<ul><li><a href=1>One</a></li></ul>",
    ],
)
def test_what_only_looks_like_nothing_is_text(body: str) -> None:
    """An app's page of few words, a restaurant's menu, a recipe of cookies: there is something to read."""
    assert read_html(body).main_length


def test_captions_are_text_and_descriptions_are_not() -> None:
    """What stands below a picture is read, what stands for it is not."""
    body = (
        "<figure><img src=a.png alt='a boat'><figcaption>The harbour in ice.</figcaption></figure>"
        "<svg><title>logo</title><text>axis</text></svg><map><area alt='north'></map>"
        "<object>a plug-in</object>"
    )
    found = read_html(body)
    assert (found.main, found.visible_length) == ("The harbour in ice.", 19)


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
def test_hand_made_page(sample: Sample) -> None:
    """Whether there is something to read, and what of it is the main text, is what a person says."""
    found = extract(sample.html.encode(), HTML)
    main = " ".join((found.main or "").split())
    right = bool(found.main_length) is sample.done
    assert right is (sample.name not in KNOWN_WRONG), main
    assert [piece for piece in sample.keeps if piece not in main] == []
    assert [piece for piece in sample.drops if piece in main] == []


def test_title_and_language() -> None:
    """They come from the document, with white space collapsed."""
    found = read_html("<html lang='de-AT'><title> Zwei\n  Wörter </title><p>x")
    assert (found.title, found.language) == ("Zwei Wörter", "de-AT")
    found = read_html("<p>x")
    assert (found.title, found.language) == (None, None)


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("application/json", b'{"a": "<p>b</p>"}'),
        ("application/ld+json; charset=utf-8", b'{"a": 1}'),
        ("text/plain", b"<html> is a tag"),
        ("text/xml", b"<?xml version='1.0'?><feed><title>t</title></feed>"),
        ("application/rss+xml", b"<rss><channel/></rss>"),
        ("text/css", b"p { color: red }"),
        (None, b"just words"),
    ],
)
def test_text_that_is_no_html_is_its_own_text(content_type: str | None, body: bytes) -> None:
    """JSON, XML and plain text are kept as they are."""
    found = extract(body, content_type)
    assert found.main == body.decode()
    assert found.main_length == found.visible_length == len(body)


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("application/pdf", b"%PDF-1.7\n%\xe2\xe3"),
        ("text/html", b"%PDF-1.7\n1 0 obj"),
        ("text/html", b"\x89PNG\r\n\x1a\n" + b"word " * 50),
        ("application/octet-stream", bytes(range(256)) * 4),
        ("image/jpeg", b"anything"),
    ],
)
def test_binary_body_has_no_text(content_type: str, body: bytes) -> None:
    """None is not the empty text: nobody has looked for words in it."""
    found = extract(body, content_type)
    assert (found.main, found.main_length, found.visible_length) == (None, None, 0)


def test_html_in_disguise_is_read() -> None:
    """A page that a server calls a stream of octets is a page."""
    assert extract(b"<!DOCTYPE html><p>text", "application/octet-stream").main == "text"


def test_encoding_that_was_used_is_told() -> None:
    """The record says how the bytes were read."""
    found = extract("<p>größer".encode("cp1252"), "text/html; charset=ISO-8859-1")
    assert (found.main, found.encoding) == ("größer", "cp1252")


def test_declared_encoding_wins_over_the_header() -> None:
    """A rendered document is UTF-8, whatever charset its answer was sent in."""
    found = extract("<p>Größe 5 €".encode(), "text/html; charset=iso-8859-15", "utf-8")
    assert found.main == "Größe 5 €"


HEAVY = {
    "20,000 rows": "<table>" + "<tr><td>cell a</td><td>cell b</td><td>1</td></tr>" * 20_000 + "</table>",
    "200,000 divs": "<div>" * 200_000 + "x",
    "80,000 lists": "<ul><li>a" * 80_000,
    "fonts never closed": "".join(f"<p><font color={n}>a" for n in range(10_000)),
    "fonts, then paragraphs": "<p>" + "".join(f"<font color={n}>a" for n in range(255)) + "<p>a" * 9_000,
    "100,000 attributes": "<p " + " ".join(f"a{n}=1" for n in range(100_000)) + ">x</p>",
    "80 tags of 2,500 attributes": ("<p " + " ".join(f"a{n}=1" for n in range(2500)) + ">x</p>") * 80,
    "noscript never closed": "<noscript>x" * 29_000,
    "comments never closed": "<!--" * 250_000,
    "tags never closed": "<" * 1_000_000,
    "one long text": "word " * 400_000,
    "options": "<p>x<select>" + "<option>a</option>\n" * 9_000 + "</select>",
    "options without end": "<p>x<select>" + "<OPTION value=1>a" * 9_000,
    "roots": "<p>x" + "".join(f"<html a{n}=1>" for n in range(9_000)),
    "a script": "<p>x<script>" + "for(a=0;a<b;a++){}" * 100_000 + "</script>",
    "deep": ("<div class=a>" * 200 + "word" + "</div>" * 200) * 70,
    "less-than signs": "a < b " * 330_000,
}


@pytest.mark.parametrize("body", HEAVY.values(), ids=HEAVY)
def test_huge_and_odd_pages_take_no_time(body: str) -> None:
    """No page holds the loop up: each of these took a parser many seconds, or the machine's stack."""
    start = time.thread_time()
    found = extract(body.encode(), HTML)
    assert time.thread_time() - start < 0.3  # 0.06 s on an idle machine
    assert found.main_length is not None
    assert found.main_length <= found.visible_length


def test_page_read_without_a_parser_keeps_its_words() -> None:
    """What is too large for the parser still has its text, title and language."""
    body = (
        "<html lang=en><title>A &amp; B</title><style>p{}</style><script>no()</script><!-- no -->"
        + "<p>word</p>" * 20_000
    )
    found = read_html(body)
    assert found.main == " ".join(["word"] * 20_000)
    assert (found.title, found.language) == ("A & B", "en")


def test_long_list_of_options_costs_a_page_nothing() -> None:
    """What a form offers is no text; without it the page is read as any other, its links without a parser."""
    options = "<option value=1>Town</option>\n" * 600
    found = read_html(f"<nav>Home</nav><p>Where do you live?</p><select>{options}</select><p>Choose.</p>")
    assert (" ".join((found.main or "").split()), found.flat) == ("Where do you live? Choose.", True)
    assert not read_html(f"<p>x</p><select>{options[:9_000]}</select>").flat


def test_text_is_cut_where_it_says() -> None:
    """More than MAX_TEXT characters of a body that is its own text are not looked at."""
    found = extract(b"x" * (module.MAX_TEXT + 5), "text/plain")
    assert found.main_length == module.MAX_TEXT


_BITS = st.sampled_from(
    [
        "<p>", "</p>", "<nav>", "<header>", "</header>", "<script>", "</script>", "<noscript>", "</noscript>",
        "<!--", "-->", "<table>", "<tr>", "<td>", "<template>", "<svg>", "<title>", "<b>", "<a>", "<select>",
        "<form>", "<frameset>", "<plaintext>", "<![CDATA[", "<?xml?>", "</", "<body>", "<div id=root>",
        "<html lang='", "<x y=z ", "&amp;", "&#0;", "&#xD800;", "<", ">", '"', "word", "é", "\0", "\u200b",
    ]
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(body=st.binary(max_size=300), label=st.sampled_from([None, "text/html", "text/xml", "image/png", "?"]))
@example(body=b"\xff\xfe", label=None)
@example(body=b"\xff\xfe\0", label="text/html")
@example(body=b'<meta charset="punycode">\xff', label="text/html")
@example(body=b'<meta charset="undefined">x', label="text/html")
@example(body=b'<meta charset="base64">x', label="text/html")
@example(body=b'<?xml version="1.0" encoding="utf-16"?><a>x</a>', label="text/xml")
def test_any_bytes_are_read(body: bytes, label: str | None) -> None:
    """Nothing raises, and the main text is never longer than what is visible."""
    found = extract(body, label)
    assert (found.main is None) == (found.main_length is None)
    assert (found.main_length or 0) <= found.visible_length


@settings(max_examples=300, deadline=None)
@given(bits=st.lists(_BITS, max_size=40))
def test_any_markup_is_read(bits: list[str]) -> None:
    """Nothing raises, the main text is no longer than the visible text, and no length counts code."""
    found = read_html("".join(bits))
    assert found.main is not None
    assert found.main_length == characters(found.main)
    assert found.main_length <= found.visible_length


@settings(max_examples=50, deadline=None)
@given(label=st.text(max_size=60), declared=st.one_of(st.none(), st.text(max_size=20)))
def test_any_label_is_taken(label: str, declared: str | None) -> None:
    """A header may hold anything."""
    assert extract(b"<p>caf\xe9</p>", label, declared).visible_length >= 0


@given(st.text(alphabet="a \n\t\r\x0b\x1c\x85\xa0é\u200b", max_size=30))
def test_counting_is_splitting(text: str) -> None:
    """However they are counted: the characters are those of the words and one between each two."""
    words = text.split()
    whole = " ".join(words)
    assert characters(text) == (len(whole) if whole.replace("\u200b", "").strip() else 0)
