"""The download handler over libcurl does what Scrapy's own does, on real servers."""

from __future__ import annotations

import json
import socket
import ssl
from typing import TYPE_CHECKING, Any

import pytest

from tests import processes
from tests.downloads.certificate import write_certificate
from tests.downloads.raw_server import TunnelProxy, raw_server

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.downloads.raw_server import RawServer

OK = "HTTP/1.1 200 OK\r\n"
HTML = "Content-Type: text/html; charset=utf-8\r\n"

#: What a server may say; both handlers hand on the same.
ANSWERS = {
    "/plain": OK + HTML + "Content-Length: 4\r\n\r\npage",
    "/no-type": OK + "Content-Length: 12\r\n\r\n<html></html",
    "/binary": OK + "Content-Type: image/png\r\nContent-Length: 3\r\n\r\n\x00\x01\x02",
    "/cookies": OK + "Set-Cookie: a=1\r\nset-cookie: b=2\r\nSET-COOKIE: c=3\r\nContent-Length: 1\r\n\r\nx",
    "/latin": OK + "X-Name: \xe9t\xe9\r\nContent-Length: 1\r\n\r\nx",
    "/empty-value": OK + "X-Empty:\r\nX-Blank:   \r\nContent-Length: 1\r\n\r\nx",
    "/spaces": OK + "X-Space:   a  b \t\r\nContent-Length: 1\r\n\r\nx",
    "/folded": OK + "X-Long: one\r\n two\r\nContent-Length: 1\r\n\r\nx",
    "/no-words": "HTTP/1.1 200\r\nContent-Length: 1\r\n\r\nx",
    "/odd-status": "HTTP/1.1 299 Odd\r\nContent-Length: 1\r\n\r\nx",
    "/missing": "HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nnone",
    "/error": "HTTP/1.1 503 Busy\r\nRetry-After: 7\r\nContent-Length: 4\r\n\r\nbusy",
    "/moved": "HTTP/1.1 302 Found\r\nLocation: /plain\r\nContent-Length: 0\r\n\r\n",
    "/nothing": OK + "Content-Length: 0\r\n\r\n",
    "/204": "HTTP/1.1 204 No Content\r\n\r\n",
    "/304": 'HTTP/1.1 304 Not Modified\r\nETag: "x"\r\nContent-Length: 99\r\n\r\n',
    "/chunked": OK + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n",
    "/chunk-extension": OK + "Transfer-Encoding: chunked\r\n\r\n3;a=b\r\nabc\r\n0\r\n\r\n",
    "/gzip": OK + "Content-Encoding: gzip\r\nContent-Length: 4\r\n\r\n\x1f\x8b\x08\x00",
    "/to-the-end": OK + HTML + "\r\nall that comes",
    "/1.0": "HTTP/1.0 200 OK\r\n" + HTML + "\r\nold",
    "/early": "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + OK + "Content-Length: 1\r\n\r\nx",
    "/continue": "HTTP/1.1 100 Continue\r\n\r\n" + OK + "Content-Length: 1\r\n\r\nx",
    "/short": OK + "Content-Length: 500\r\n\r\nsome",
    "/broken-chunk": OK + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
    "/no-chunk": OK + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nnot a number\r\n",
    "/no-http": "what is this\r\n\r\n",
    "/closes": "",
    "/large": OK + "Content-Length: 200000\r\n\r\n" + "x" * 200_000,
    "/grows": OK + "\r\n" + "x" * 200_000,
}  # fmt: skip
#: What is asked for besides each path by GET.
WISHES: dict[str, dict[str, Any]] = {
    "head": {"path": "/plain", "method": "HEAD"},
    "head of a large one": {"path": "/large", "method": "HEAD"},
    "cut and wanted": {"path": "/short", "meta": {"download_fail_on_dataloss": False}},
    "cut chunks and wanted": {"path": "/broken-chunk", "meta": {"download_fail_on_dataloss": False}},
    "bad chunks and wanted": {"path": "/no-chunk", "meta": {"download_fail_on_dataloss": False}},
    "more may come": {"path": "/large", "meta": {"download_maxsize": 0}},
    "less may come": {"path": "/plain", "meta": {"download_maxsize": 3}},
    "stopped at the headers": {"path": "/plain", "stop": "headers", "fail": False},
    "failed at the headers": {"path": "/plain", "stop": "headers", "fail": True},
    "stopped in the body": {"path": "/plain", "stop": "bytes", "fail": False},
    "failed in the body": {"path": "/plain", "stop": "bytes", "fail": True},
}


def fetched(
    handler: str,
    wishes: list[dict[str, Any]],
    environment: Mapping[str, str] | None = None,
    **settings: Any,
) -> list[dict[str, Any]]:
    """Return what came of *wishes* in a Scrapy process of its own."""
    stdout, stderr = processes.run(
        "tests.downloads.fetching",
        handler,
        json.dumps(settings),
        stdin=json.dumps(wishes),
        env=dict(environment or {}),
        timeout=50,
    )
    assert "Traceback" not in stderr, stderr
    results: list[dict[str, Any]] = json.loads(stdout)
    assert len(results) == len(wishes), stderr
    return results


@pytest.fixture(scope="module")
def server() -> Iterator[RawServer]:
    with raw_server({path: answer.encode("latin-1") for path, answer in ANSWERS.items()}) as server:
        yield server


@pytest.fixture(scope="module")
def both(server: RawServer) -> dict[str, tuple[dict[str, Any], dict[str, Any]]]:
    """What came of every answer and every wish, by Twisted and by curl."""
    wishes = {path: {"path": path} for path in ANSWERS} | WISHES
    told = [{**wish, "url": f"http://127.0.0.1:{server.port}{wish['path']}"} for wish in wishes.values()]
    return dict(zip(wishes, zip(fetched("twisted", told), fetched("curl", told), strict=True), strict=True))


#: Scrapy's own handler says that what has no body has a length of 0, whatever the server says.
NO_BODY = frozenset({"/204", "/304"})


@pytest.mark.parametrize("name", [*ANSWERS, *WISHES])
def test_an_answer_is_what_scrapy_makes_of_it(
    name: str, both: dict[str, tuple[dict[str, Any], dict[str, Any]]]
) -> None:
    """Status, headers, body, flags, class, address, protocol, signals, or the exception: all are the same."""
    twisted, curl = both[name]
    for each in (twisted, curl):
        # In how many pieces a body comes nobody promises.
        each["signals"] = [what for i, what in enumerate(each["signals"]) if what not in each["signals"][:i]]
        if name in NO_BODY:
            each["headers"].pop("Content-Length", None)
            del each["signals"]
        if "headers" in WISHES.get(name, {}).get("stop", ""):
            del each["ip_address"]  # Scrapy's does not know it yet
    assert curl == twisted


def test_a_line_that_is_no_header_spoils_no_page() -> None:
    """libcurl refuses the whole answer; Scrapy's handler, asked in its place from then on, skips the line."""
    answer = OK + "this line is no header\r\n" + HTML + "Content-Length: 4\r\nX-Keep: 1\r\n\r\npage"
    with raw_server({"/": answer.encode()}) as server:
        wish = {"url": f"http://127.0.0.1:{server.port}/"}
        first, second = fetched("curl", [wish, wish])
        assert (first["status"], first["body"]) == (200, "page")
        assert second["body"] == "page"
        assert len(server.heads) == 3  # by libcurl, and twice by the other


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (OK + HTML, "truncated"),  # libcurl takes it for a page without a body
        ("HTTP/1.1 2000 OK\r\nContent-Length: 1\r\n\r\nx", "bad_http"),
        (OK + "X-Long: " + "x" * 200_000 + "\r\n\r\n", "too_large"),
        (OK + "X: 1\r\n" * 6000 + "\r\n", "too_large"),
        (OK + "Content-Length: 1\r\nContent-Length: 2\r\n\r\nxy", "bad_http"),
    ],
    ids=["head without its end", "status", "header", "headers", "lengths"],
)
def test_what_is_no_answer_says_why(answer: str, reason: str) -> None:
    """None of it is said of the host, and nobody asks twice."""
    with raw_server({"/": answer.encode()}) as server:
        assert fetched("curl", [{"url": f"http://127.0.0.1:{server.port}/"}])[0]["reason"] == reason
        assert len(server.heads) == 1


def test_a_cut_body_spoils_no_answer_that_is_no_page() -> None:
    """What such an answer says is in its head."""
    with raw_server(
        {"/": b"HTTP/1.1 302 Found\r\nLocation: /x\r\nContent-Length: 99\r\n\r\nmoved"}
    ) as server:
        came = fetched("curl", [{"url": f"http://127.0.0.1:{server.port}/"}])[0]
    assert (came["status"], came["headers"]["Location"], came["flags"]) == (302, ["/x"], ["dataloss"])


def test_a_post_goes_out_once() -> None:
    """It may have done its work, though its answer cannot be read."""
    with raw_server({"/": b"HTTP/1.1 200 OK\r\nno header\r\n\r\n"}) as server:
        wish = {"url": f"http://127.0.0.1:{server.port}/", "method": "POST", "body": "x"}
        assert fetched("curl", [wish])[0]["reason"] == "bad_http"
        assert len(server.heads) == 1


REQUESTS: dict[str, dict[str, Any]] = {
    "plain": {"path": "/echo"},
    "query alone": {"path": "?/echo"},
    "dots": {"path": "/a/../echo/./b"},
    "odd characters": {"path": "/echo/a|b{c}[d]'(e)*!$&+,;=:@~%20%7E?x={1}&y=[2]|3"},
    "fragment": {"path": "/echo#part"},
    "headers in order": {
        "path": "/echo",
        "headers": [["User-Agent", "me"], ["Accept", "text/html"], ["X-B", "2"], ["X-A", "1"], ["Referer", "http://r/"]],
    },
    "headers twice": {"path": "/echo", "headers": [["X-Twice", "1"], ["X-Twice", "2"]]},
    "empty header": {"path": "/echo", "headers": [["X-Empty", ""]]},
    "header in latin": {"path": "/echo", "headers": [["X-Name", "\xe9"]]},
    "header of its own": {"path": "/echo", "headers": [["X-One", "a\r\nX-Two: b"]]},
    "other host": {"path": "/echo", "headers": [["Host", "other.example"]]},
    "post": {"path": "/echo", "method": "POST", "body": "a=1", "headers": [["Content-Type", "text/x"]]},
    "empty post": {"path": "/echo", "method": "POST"},
    "put": {"path": "/echo", "method": "PUT", "body": "x" * 3000},
    "delete": {"path": "/echo", "method": "DELETE"},
    "options": {"path": "/echo", "method": "OPTIONS"},
    "method of its own": {"path": "/echo", "method": "PROPFIND", "body": "<x/>"},
    "get with a body": {"path": "/echo", "body": "x"},
    "large post": {
        "path": "/echo", "method": "POST", "body": "x" * 2_000_000, "meta": {"download_maxsize": 0}
    },
    "bound": {"path": "/echo", "meta": {"bindaddress": "127.0.0.9"}},
}  # fmt: skip


@pytest.fixture(scope="module")
def asked(server: RawServer) -> dict[str, tuple[dict[str, Any], dict[str, Any]]]:
    """What the server got of every request, from Twisted and from curl."""
    told = [{**wish, "url": f"http://127.0.0.1:{server.port}{wish['path']}"} for wish in REQUESTS.values()]
    twisted, curl = (
        [json.loads(came["body"]) for came in fetched(each, told)] for each in ("twisted", "curl")
    )
    return dict(zip(REQUESTS, zip(twisted, curl, strict=True), strict=True))


@pytest.mark.parametrize("name", REQUESTS)
def test_a_request_goes_out_as_scrapy_sends_it(
    name: str, asked: dict[str, tuple[dict[str, Any], dict[str, Any]]]
) -> None:
    """Request line, headers, body and the address it comes from are the same, and nothing is added."""
    twisted, curl = asked[name]
    assert curl["head"][0] == twisted["head"][0]
    assert sorted(line.rstrip() for line in curl["head"][1:]) == sorted(
        line.rstrip() for line in twisted["head"][1:]
    )
    assert (curl["body"], curl["peer"]) == (twisted["body"], twisted["peer"])


def test_headers_keep_their_order(asked: dict[str, tuple[dict[str, Any], dict[str, Any]]]) -> None:
    """Some servers look at it."""
    names = [line.partition(":")[0] for line in asked["headers in order"][1]["head"][1:]]
    assert names == ["Host", "User-Agent", "Accept", "X-B", "X-A", "Referer"]


# --- connections ----------------------------------------------------------------------------------


def test_a_connection_serves_many_requests(server: RawServer) -> None:
    """Pages of one host come over one connection, as long as both sides keep it."""
    wish = {"url": f"http://127.0.0.1:{server.port}/echo"}
    before = server.connections
    fetched("curl", [wish] * 5)
    assert server.connections == before + 1


def test_a_connection_that_was_closed_meanwhile_is_no_failure() -> None:
    """A server may close an idle connection in the very moment in which the next request goes out."""
    answer = OK + "X-Keep: never\r\nContent-Length: 1\r\n\r\nx"
    with raw_server({"/": answer.encode()}) as server:
        wish = {"url": f"http://127.0.0.1:{server.port}/"}
        assert [came["status"] for came in fetched("curl", [wish] * 3)] == [200, 200, 200]


def test_no_connection_is_refused_or_has_no_name(server: RawServer) -> None:
    """Whether nobody listens or nobody is there, Scrapy's exception says which."""
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    urls = [f"http://127.0.0.1:{port}/", "http://no-such-host.invalid/"]
    refused, unresolved = fetched("curl", [{"url": url} for url in urls])
    assert refused["raised"] == "DownloadConnectionRefusedError"
    assert unresolved["raised"] == "CannotResolveHostError"


def test_an_unbindable_address_fails_the_request(server: RawServer) -> None:
    """One that is not this machine's is an error of its own, and the next request is none."""
    wish = {"url": f"http://127.0.0.1:{server.port}/plain"}
    bad, good = fetched("curl", [{**wish, "meta": {"bindaddress": "192.0.2.1"}}, wish])
    assert bad["raised"] == "DownloadFailedError"
    assert good["body"] == "page"


# --- proxies --------------------------------------------------------------------------------------


@pytest.mark.parametrize("handler", ["twisted", "curl"])
def test_a_proxy_is_asked_for_the_whole_url(handler: str) -> None:
    """With its own login, which the server behind it never sees."""
    with raw_server({}) as proxy:
        wish = {
            "url": "http://site.invalid/echo?a=1",
            "meta": {"proxy": f"http://127.0.0.1:{proxy.port}"},
            "headers": [["Proxy-Authorization", "Basic dTpw"], ["X-A", "1"]],
        }
        head = json.loads(fetched(handler, [wish])[0]["body"])["head"]
    assert head[0] == "GET http://site.invalid/echo?a=1 HTTP/1.1"
    assert "Proxy-Authorization: Basic dTpw" in head
    assert "Host: site.invalid" in head


@pytest.mark.parametrize("handler", ["twisted", "curl"])
def test_a_proxy_that_opens_no_tunnel(handler: str) -> None:
    """It is the proxy's failure, and the page's headers do not reach it."""
    with raw_server({"site.invalid:443": b"HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n"}) as proxy:
        wish = {
            "url": "https://site.invalid/",
            "meta": {"proxy": f"127.0.0.1:{proxy.port}"},
            "headers": [["Proxy-Authorization", "Basic dTpw"], ["Cookie", "secret=1"]],
        }
        came = fetched(handler, [wish])[0]
        head = proxy.heads[0]
    assert (came["raised"], came["reason"]) == ("TunnelError", "proxy")
    assert head.startswith(b"CONNECT site.invalid:443 HTTP/1.1\r\n")
    assert b"Proxy-Authorization: Basic dTpw" in head
    assert b"secret" not in head


def test_the_environment_names_no_proxy(server: RawServer) -> None:
    """Scrapy's own middleware reads it, and has its settings for that."""
    wish = {"url": f"http://127.0.0.1:{server.port}/plain"}
    environment = {"http_proxy": "http://127.0.0.1:9", "all_proxy": "http://127.0.0.1:9"}
    assert fetched("curl", [wish], environment)[0]["body"] == "page"


# --- TLS ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RawServer]:
    """A server whose certificate nobody knows."""
    folder = tmp_path_factory.mktemp("tls")
    write_certificate(folder / "key.pem", folder / "certificate.pem")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "certificate.pem", folder / "key.pem")
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with raw_server({"/plain": ANSWERS["/plain"].encode()}, context) as server:
        yield server


@pytest.mark.parametrize("handler", ["twisted", "curl"])
def test_certificates_are_shown(handler: str, secure: RawServer) -> None:
    """By every response of a connection, though it has been shown once only; nobody checks it by default."""
    before = secure.connections
    wishes = [{"url": f"https://127.0.0.1:{secure.port}/{path}"} for path in ("echo", "echo", "plain")]
    came = fetched(handler, wishes)
    assert [each["certificate"] for each in came] == ["site.example"] * 3
    assert came[2]["body"] == "page"
    assert secure.connections == before + 1


@pytest.mark.parametrize("handler", ["twisted", "curl"])
def test_a_tunnel_leads_to_the_server(handler: str, secure: RawServer) -> None:
    """What the proxy says while it opens one is no part of the page, of a second page on it neither."""
    with TunnelProxy(secure.port) as proxy:
        wish = {
            "url": "https://site.example/plain",
            "meta": {"proxy": f"http://127.0.0.1:{proxy.port}"},
            "headers": [["Proxy-Authorization", "Basic dTpw"]],
        }
        came = fetched(handler, [{**wish, "url": "https://site.example/echo"}, wish])
        assert b"Proxy-Authorization: Basic dTpw" in proxy.heads[0]
    assert "dTpw" not in came[0]["body"]
    assert came[1]["body"] == "page"
    assert [each["certificate"] for each in came] == ["site.example"] * 2
    assert came[1]["signals"] == [["headers", ["Content-Length", "Content-Type"]], ["bytes"]]


@pytest.mark.parametrize("handler", ["twisted", "curl"])
def test_certificates_are_checked_if_wished(handler: str, secure: RawServer) -> None:
    """DOWNLOAD_VERIFY_CERTIFICATES keeps what nobody has vouched for away."""
    wish = {"url": f"https://127.0.0.1:{secure.port}/echo"}
    came = fetched(handler, [wish], DOWNLOAD_VERIFY_CERTIFICATES=True)[0]
    assert (came["raised"], came["reason"]) == ("DownloadFailedError", "tls")


@pytest.mark.parametrize("handler", ["twisted", "curl"])
@pytest.mark.parametrize(
    "settings",
    [
        {"DOWNLOAD_TLS_MIN_VERSION": "TLSv1.3"},
        {"DOWNLOADER_CLIENT_TLS_CIPHERS": "ECDHE-RSA-AES128-SHA256", "DOWNLOAD_TLS_MAX_VERSION": "TLSv1.2"},
    ],
)
def test_tls_is_as_it_was_set(handler: str, settings: dict[str, Any], secure: RawServer) -> None:
    """A server that has neither the version nor the cipher is not talked to."""
    came = fetched(handler, [{"url": f"https://127.0.0.1:{secure.port}/echo"}], **settings)[0]
    assert came["reason"] == "tls"
