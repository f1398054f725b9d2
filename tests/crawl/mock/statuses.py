"""Statuses: what each of them says, whatever the body."""

from __future__ import annotations

from tests.crawl.mock.behaviour import TEXT, behaviour, done, empty, failed, html, page, status_failed

LONG = html(" ".join([TEXT] * 20))  # an error page may be as long as it likes
CHALLENGE = html("Checking that you are no robot. " * 10, "<script>challenge()</script>")

#: Tried again while attempts are left; there are two.
RETRIED = (408, 429, 500, 502, 503, 504, 522, 524)
FINAL = (
    300,
    305,
    306,
    400,
    401,
    402,
    403,
    404,
    405,
    406,
    407,
    409,
    410,
    411,
    413,
    414,
    415,
    416,
    417,
    418,
    421,
    422,
    423,
    425,
    426,
    428,
    431,
    451,
    499,
    501,
    505,
    507,
    508,
    511,
    520,
    521,
    523,
    525,
    530,
    600,
    999,
)

STATUSES = (
    *(
        behaviour(f"status-{status}", done(status=status), page(status=f"{status} Fine"))
        for status in (200, 201, 202, 203, 206, 226, 299)
    ),
    behaviour("status-204", empty(status=204), b"HTTP/1.1 204 No Content\r\n\r\n"),
    behaviour("status-204-with-body", empty(status=204), page(status="204 No Content")),
    behaviour("status-205", empty(status=205), page("", status="205 Reset Content")),
    behaviour(
        "status-205-with-body", empty(len(TEXT), status=205, text=len(TEXT)), page(status="205 Reset Content")
    ),
    *(
        behaviour(f"status-{status}", status_failed(status), page(LONG, status=f"{status} Wrong"))
        for status in FINAL
    ),
    *(
        behaviour(f"status-{status}", status_failed(status), page(LONG, status=f"{status} Later"), requests=2)
        for status in RETRIED
    ),
    *(
        behaviour(f"no-location-{status}", status_failed(status), page(LONG, status=f"{status} Moved"))
        for status in (301, 302, 303, 307, 308)
    ),
    behaviour(
        "unasked-304", status_failed(304), b'HTTP/1.1 304 Not Modified\r\nETag: "x"\r\n\r\n', requests=2
    ),
    behaviour("unasked-304-once", done(), b"HTTP/1.1 304 Not Modified\r\n\r\n", page(), requests=2),
    behaviour("challenge-403", status_failed(403), page(CHALLENGE, status="403 Forbidden")),
    behaviour("challenge-429", status_failed(429), page(CHALLENGE, status="429 Slow"), requests=2),
    behaviour("recovers", done(), page("busy", "Retry-After: 0", status="503 Busy"), page(), requests=2),
    behaviour("continue-first", done(), b"HTTP/1.1 100 Continue\r\n\r\n" + page()),
    behaviour("early-hints-first", done(), b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" * 3 + page()),
    behaviour("many-interim", done(), b"HTTP/1.1 102 Processing\r\n\r\n" * 2000 + page()),
    behaviour("interim-only", failed("connection_lost"), b"HTTP/1.1 100 Continue\r\n\r\n", requests=2),
    behaviour(
        "part-of-a-page",
        failed("truncated", 206),
        page(None, "Content-Range: bytes 0-99/5000", status="206 Partial Content"),
        requests=2,
    ),
    behaviour(
        "all-of-a-page-as-206",
        done(100, status=206),
        page("x" * 100, "Content-Range: bytes 0-99/100", status="206 Partial Content"),
    ),
)
