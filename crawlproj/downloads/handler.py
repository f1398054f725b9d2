"""Scrapy's download handler over libcurl: a page costs two fifths of what it costs over Twisted.

What Scrapy promises of its own handler holds here as well: its settings and meta keys, its signals, its
exceptions. What libcurl refuses and that one lets pass is left to that one: header lines without a colon,
and TLS with servers that know no secure renegotiation.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from importlib import import_module
from ipaddress import ip_address
from typing import TYPE_CHECKING

import pycurl  # type: ignore[import-untyped]
from scrapy.core.downloader.handlers.base import BaseDownloadHandler
from scrapy.exceptions import DownloadFailedError, NotConfigured, ResponseDataLossError
from scrapy.responsetypes import responsetypes

from crawlproj.downloads import options
from crawlproj.downloads.errors import (
    CUT_SHORT,
    SCRAPYS,
    explained,
    is_of_scrapys,
    is_refusal,
    note_status,
)
from crawlproj.downloads.transfer import Transfer
from crawlproj.exceptions import WorkerCloses
from crawlproj.signals import transfers_cut

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.core.downloader.handlers.http11 import HTTP11DownloadHandler
    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from twisted.internet.ssl import Certificate

logger = logging.getLogger(__name__)

REMEMBERED = 10_000  # origins that only Twisted gets on with, and certificates of connections
IDLE_HANDLES = 256  # kept for the next requests
_PROTOCOLS = {pycurl.CURL_HTTP_VERSION_1_0: "HTTP/1.0"}


class CurlDownloadHandler(BaseDownloadHandler):
    """Downloads `http` and `https` by HTTP/1.1.

    Other than Scrapy's default it fails no answer outside of 2xx because its body is cut: where a redirect
    leads is in its head, and what an error page is in its status. It has its own DNS cache and takes IPv6
    addresses too, SOCKS proxies, and HTTPS proxies for HTTPS pages. DNS_RESOLVER, DNSCACHE_*, DNS_TIMEOUT,
    DOWNLOADER_CLIENTCONTEXTFACTORY and DOWNLOADER_CLIENT_TLS_VERBOSE_LOGGING do not reach it.

    Settings: DOWNLOAD_MAXSIZE, DOWNLOAD_WARNSIZE, DOWNLOAD_FAIL_ON_DATALOSS, DOWNLOAD_BIND_ADDRESS,
    DOWNLOAD_VERIFY_CERTIFICATES, DOWNLOAD_TLS_MIN_VERSION, DOWNLOAD_TLS_MAX_VERSION,
    DOWNLOADER_CLIENT_TLS_CIPHERS.
    Meta: download_timeout, download_maxsize, download_warnsize, download_fail_on_dataloss, proxy,
    bindaddress, download_latency.
    """

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        settings = crawler.settings
        self._sizes = settings.getint("DOWNLOAD_MAXSIZE"), settings.getint("DOWNLOAD_WARNSIZE")
        self._fail_on_dataloss = settings.getbool("DOWNLOAD_FAIL_ON_DATALOSS")
        self._bind_address = settings.get("DOWNLOAD_BIND_ADDRESS")
        self._tls = options.tls(settings)
        self._multi = pycurl.AsyncCurlMulti()
        self._idle: list[pycurl.Curl] = []
        self._certificates: OrderedDict[int, Certificate | None] = OrderedDict()
        self._twisted: HTTP11DownloadHandler | None = None
        self._only_twisted: OrderedDict[str, None] = OrderedDict()
        self._warned = False
        self._cut = False
        crawler.signals.connect(self.cut, signal=transfers_cut)

    async def download_request(self, request: Request) -> Response:
        """Return the response, or raise one of Scrapy's download exceptions."""
        if self._twisted is not None and options.origin(request.url) in self._only_twisted:
            return await self._twisted.download_request(request)
        transfer = Transfer(self.crawler, request, self._sizes)
        curl = self._idle.pop() if self._idle else pycurl.Curl()
        self._set_up(curl, transfer)
        error: pycurl.error | None = None
        try:
            await self._multi.perform(curl)
        except pycurl.error as exc:
            error = exc
            if is_of_scrapys(curl, exc):
                # A fifth of a second, the first time: neither at every start, nor on the loop.
                await asyncio.to_thread(import_module, SCRAPYS)
        except asyncio.CancelledError:
            if not self._cut:
                raise
            raise WorkerCloses from None
        try:
            if error is not None and self._twisted_gets_on(request, error):
                return await self._by_twisted(curl, request, error)
            return self._response(curl, transfer, error)
        except Exception as exc:
            if transfer.status:
                note_status(exc, transfer.status)
            raise
        finally:
            curl.reset()
            if len(self._idle) < IDLE_HANDLES:
                self._idle.append(curl)

    def cut(self) -> None:
        """End every transfer under way: its request is somebody else's."""
        self._cut = True
        for transfer in self._multi.futures():
            transfer.cancel()

    async def close(self) -> None:
        """Cut what is under way and close the connections."""
        await self._multi.aclose()
        if self._twisted is not None:
            await self._twisted.close()

    def _set_up(self, curl: pycurl.Curl, transfer: Transfer) -> None:
        request = transfer.request
        put = curl.setopt
        put(pycurl.HEADERFUNCTION, transfer.take_line)
        put(pycurl.WRITEFUNCTION, transfer.take_data)
        options.put_request(put, request)
        options.put_proxy(put, request)
        options.put_bind_address(put, request.meta.get("bindaddress") or self._bind_address)
        if transfer.is_tls:
            for option, value in self._tls:
                put(option, value)

    def _response(self, curl: pycurl.Curl, transfer: Transfer, error: pycurl.error | None) -> Response:
        request = transfer.request
        transfer.end(whole=error is None)
        if error is not None and transfer.stop is None:
            if not (transfer.begun and error.args[0] in CUT_SHORT):
                raise explained(curl, request, error) from error
            if 200 <= transfer.status < 300:  # noqa: PLR2004
                self._check_dataloss(request, error)
            transfer.flags.append("dataloss")
        address = curl.getinfo(pycurl.PRIMARY_IP)
        kind = responsetypes.from_args(headers=transfer.headers, url=request.url, body=transfer.body)
        response: Response = kind(
            url=request.url,
            status=transfer.status,
            headers=transfer.headers,
            body=transfer.body,
            flags=transfer.flags,
            certificate=self._certificate(curl) if transfer.is_tls else None,
            ip_address=ip_address(address.partition("%")[0]) if address else None,
            protocol=_PROTOCOLS.get(curl.getinfo(pycurl.INFO_HTTP_VERSION), "HTTP/1.1"),
        )
        if transfer.stop is not None and transfer.stop.fail:
            transfer.stop.response = response
            raise transfer.stop
        return response

    async def _by_twisted(self, curl: pycurl.Curl, request: Request, error: pycurl.error) -> Response:
        """Ask Scrapy's handler. What it cannot read either is what libcurl says that it is."""
        assert self._twisted is not None
        try:
            return await self._twisted.download_request(request)
        except DownloadFailedError:
            raise explained(curl, request, error) from error

    def _check_dataloss(self, request: Request, error: pycurl.error) -> None:
        if not request.meta.get("download_fail_on_dataloss", self._fail_on_dataloss):
            return
        if not self._warned:
            self._warned = True
            logger.warning(
                "The body of %s is not all there. DOWNLOAD_FAIL_ON_DATALOSS = False takes such bodies as"
                " they are. This is said once",
                request.url,
            )
        raise ResponseDataLossError(str(error)) from error

    def _certificate(self, curl: pycurl.Curl) -> Certificate | None:
        """Return the server's certificate: libcurl shows it to a connection's first request alone."""
        connection = curl.getinfo(pycurl.CONN_ID)
        if curl.getinfo(pycurl.NUM_CONNECTS):
            self._certificates[connection] = options.certificate(curl.getinfo(pycurl.INFO_CERTINFO))
            if len(self._certificates) > REMEMBERED:
                self._certificates.popitem(last=False)
        return self._certificates.get(connection)

    def _twisted_gets_on(self, request: Request, error: pycurl.error) -> bool:
        """Return whether Scrapy's handler may be asked once more; for this origin it is, from now on."""
        if not is_refusal(error) or request.method not in {"GET", "HEAD"}:
            return False
        if self._twisted is None:
            from scrapy.core.downloader.handlers.http11 import HTTP11DownloadHandler  # noqa: PLC0415

            try:
                self._twisted = HTTP11DownloadHandler.from_crawler(self.crawler)
            except NotConfigured:  # it needs a reactor
                return False
        self._only_twisted[options.origin(request.url)] = None
        if len(self._only_twisted) > REMEMBERED:
            self._only_twisted.popitem(last=False)
        return True
