"""Bodies: what is a page, and what is none."""

from __future__ import annotations

from tests.crawl.mock.behaviour import TEXT, behaviour, done, empty, html, links, page

PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + bytes(range(256)) * 4
PDF = (
    b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n"
    + b"1 0 obj << /Length 44 >> stream BT (Hello) Tj ET endstream endobj\n" * 20
)
LONG_URL = "/?" + "".join(f"{n * n * 7919 % 99991:05}" for n in range(1800))

TWELVE = "The ferry leaves at nine and comes back when everybody is aboard."
AMONG_SCRIPTS = (
    "<html><head><style>" + "a > b { color: red } " * 2000 + "</style></head>"
    '<body><p title="x > y" data-q=\'a "quoted" > b\'>Three words only</p>'
    "<script>" + "if (a > b) { document.write('<p>no</p>') } " * 500 + "</script>"
    "<template><p>Not before a script takes it.</p></template><noscript><p>Turn scripts on.</p></noscript>"
    "</body></html>"
)

SORRY = "We are sorry: the page that you are looking for could not be found."

BODIES = (
    behaviour("zero-bytes", empty(), page(b"")),
    behaviour("zero-bytes-no-type", empty(), page(b"", kind=None)),
    behaviour("spaces", empty(), page(" \r\n\t " * 50)),
    behaviour("comment-only", empty(), page("<!-- " + TEXT + " -->")),
    behaviour("tags-only", empty(), page("<html></html>")),
    behaviour(
        "script-and-style-only",
        empty(),
        page(html("", f"<style>/* {TEXT} */</style>", f"<script>'{TEXT}'</script>")),
    ),
    behaviour("image-only", empty(), page(html('<img src="x.png" alt="a picture">'))),
    behaviour(
        "app-shell",
        empty(reason="unrendered_shell"),
        page('<html><body><div id="root"></div><script src="app.js"></script></body></html>'),
    ),
    behaviour("no-type", done(), page(kind=None)),
    behaviour("empty-type", done(), page(kind="")),
    behaviour("odd-type", done(), page(kind='text/html; charset="utf-8"; charset=x; =;;')),
    behaviour("capital-type", done(), page(kind="TEXT/HTML;CHARSET=UTF-8")),
    behaviour("html-as-octet-stream", done(), page(kind="application/octet-stream")),
    behaviour("html-as-text", done(len(html())), page(kind="text/plain")),
    behaviour(
        "nul-characters", done((len(TEXT), len(TEXT) + 9)), page(html(TEXT[:50] + "\0\0\0" + TEXT[50:]))
    ),
    behaviour(
        "surrogates", done((len(TEXT), len(TEXT) + 9)), page(html(TEXT + "&#xD800;&#xDFFF;&#0;&#x110000;"))
    ),
    behaviour("pdf", done(None, raw=0), page(PDF, kind="application/pdf")),
    behaviour("pdf-as-html", done(None, raw=0), page(PDF)),
    behaviour("pdf-as-html-file", done(None, raw=0), page(PDF, kind="application/pdf"), path="/x.html"),
    behaviour("png-as-html", done(None, raw=0), page(PNG)),
    behaviour("png-without-type", done(None, raw=0), page(PNG, kind=None)),
    behaviour("json", done(17), page('{"a": [1, "two"]}', kind="application/json")),
    behaviour(
        "xml",
        done((10, 80)),
        page("<?xml version='1.0'?><list><entry>one</entry></list>", kind="application/xml"),
    ),
    behaviour(
        "rss",
        done((10, 200)),
        page(
            "<?xml version='1.0'?><rss><channel><title>News</title></channel></rss>",
            kind="application/rss+xml",
        ),
    ),
    behaviour("plain-text", done(), page(TEXT, kind="text/plain")),
    behaviour("css", done(len("p { color: red }")), page("p { color: red }", kind="text/css")),
    behaviour("a-url-of-9000-characters", done(), links(LONG_URL), others={LONG_URL: (page(), done())}),
    behaviour("one-word", done(9), page("<html><body><p>Simplest.</p></body></html>")),
    behaviour("twelve-words", done(len(TWELVE)), page(html(TWELVE))),
    behaviour("three-words-among-scripts", done(16), page(AMONG_SCRIPTS)),
    behaviour("nul-in-title", done(), page(html().replace("A page", "A \0page\x01\x1f"))),
    # It says so with 200: nobody can tell.
    behaviour("soft-404", done(len(SORRY)), page(html(SORRY))),
    behaviour("frames-only", empty((0, 10)), page("<frameset><frame src='/a'><frame src='/b'></frameset>")),
)
