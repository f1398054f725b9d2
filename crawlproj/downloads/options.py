"""A request as libcurl's options."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Any, TypeAlias

import certifi
import pycurl  # type: ignore[import-untyped]
from twisted.internet.ssl import Certificate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from scrapy import Request
    from scrapy.settings import BaseSettings

    Put: TypeAlias = Callable[[int, Any], Any]

DEFAULT_TIMEOUT = 10.0  # seconds; Scrapy's, where nothing else is said

#: What libcurl adds by itself where a request has no such header.
_UNASKED = (b"Accept", b"Content-Type", b"Expect", b"User-Agent")
_PROXY_LOGIN = b"Proxy-Authorization"
_SUPPRESS_CONNECT_HEADERS = 265  # libcurl's number, which never changes; pycurl has no name for it
_VERSIONS = {
    "TLSv1.0": (pycurl.SSLVERSION_TLSv1_0, pycurl.SSLVERSION_MAX_TLSv1_0),
    "TLSv1.1": (pycurl.SSLVERSION_TLSv1_1, pycurl.SSLVERSION_MAX_TLSv1_1),
    "TLSv1.2": (pycurl.SSLVERSION_TLSv1_2, pycurl.SSLVERSION_MAX_TLSv1_2),
    "TLSv1.3": (pycurl.SSLVERSION_TLSv1_3, pycurl.SSLVERSION_MAX_TLSv1_3),
}


def put_request(put: Put, request: Request) -> None:
    """Say what is asked for: URL, method, headers, body and time."""
    put(pycurl.URL, request.url)
    put(pycurl.PATH_AS_IS, 1)
    put(pycurl.HTTP_VERSION, pycurl.CURL_HTTP_VERSION_1_1)
    put(pycurl.NOSIGNAL, 1)
    timeout = request.meta.get("download_timeout") or DEFAULT_TIMEOUT
    put(pycurl.TIMEOUT_MS, max(round(timeout * 1000), 1))
    put(pycurl.HTTPHEADER, list(header_lines(request)))
    method, body = request.method, request.body
    if method == "HEAD":
        put(pycurl.NOBODY, 1)
    elif body or method in {"POST", "PUT", "PATCH"}:
        put(pycurl.POSTFIELDS, body)
    if method not in {"GET", "HEAD"} or body:
        put(pycurl.CUSTOMREQUEST, method)


def header_lines(request: Request) -> Iterable[bytes]:
    """Yield a request's headers, in their order, and what keeps libcurl from adding its own."""
    headers = request.headers
    for name, values in headers.items():
        if name == _PROXY_LOGIN:
            continue  # the proxy's affair
        for value in values:
            if b"\n" in value or b"\r" in value:
                value = b" ".join(value.split())  # noqa: PLW2901  # else it would be a header of its own
            yield name + b": " + value if value else name + b";"
    for name in _UNASKED:
        if name not in headers:
            yield name + b":"


def put_proxy(put: Put, request: Request) -> None:
    """Say by which proxy, if any.

    What the environment says is Scrapy's own middleware's to read, not libcurl's.
    """
    proxy = request.meta.get("proxy")
    put(pycurl.NOPROXY, "")
    if not proxy:
        put(pycurl.PROXY, "")
        return
    put(pycurl.PROXY, proxy if "://" in proxy else f"http://{proxy}")
    put(_SUPPRESS_CONNECT_HEADERS, 1)  # else they look like the page's
    put(pycurl.HEADEROPT, pycurl.HEADER_SEPARATE)
    login = request.headers.get(_PROXY_LOGIN)
    put(pycurl.PROXYHEADER, [_PROXY_LOGIN + b": " + login] if login else [])


def put_bind_address(put: Put, address: str | tuple[str, int] | None) -> None:
    """Say from which address, and port if one is given."""
    if not address:
        return
    host, port = (address, 0) if isinstance(address, str) else address
    put(pycurl.INTERFACE, f"host!{host}")
    put(pycurl.LOCALPORT, port)


def tls(settings: BaseSettings) -> tuple[tuple[int, Any], ...]:
    """Return the options of every HTTPS request."""
    least, most = settings.get("DOWNLOAD_TLS_MIN_VERSION"), settings.get("DOWNLOAD_TLS_MAX_VERSION")
    version = (_VERSIONS[least][0] if least else pycurl.SSLVERSION_DEFAULT) | (
        _VERSIONS[most][1] if most else 0
    )
    verifies = settings.getbool("DOWNLOAD_VERIFY_CERTIFICATES")
    found: list[tuple[int, Any]] = [
        (pycurl.OPT_CERTINFO, 1),
        (pycurl.SSLVERSION, version),
        (pycurl.SSL_VERIFYPEER, int(verifies)),
        (pycurl.SSL_VERIFYHOST, 2 if verifies else 0),
    ]
    if ciphers := settings.get("DOWNLOADER_CLIENT_TLS_CIPHERS"):
        found.append((pycurl.SSL_CIPHER_LIST, ciphers))
    if verifies:
        paths = ssl.get_default_verify_paths()
        found.append((pycurl.CAINFO, paths.cafile or certifi.where()))
        if paths.capath:
            found.append((pycurl.CAPATH, paths.capath))
    return tuple(found)


def certificate(shown: Sequence[Sequence[tuple[str, str]]]) -> Certificate | None:
    """Return the server's own certificate of the chain that libcurl shows, in Scrapy's usual class."""
    for name, value in shown[0] if shown else ():
        if name == "Cert":
            found: Certificate = Certificate.load(ssl.PEM_cert_to_DER_cert(value))
            return found
    return None


def origin(url: str) -> str:
    """Return scheme, host and port as they stand in *url*."""
    return "/".join(url.split("/", 3)[:3])
