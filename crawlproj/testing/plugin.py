"""Pytest fixtures for people who write spiders.

Name it in the `conftest.py` beside the tests: `pytest_plugins = ["crawlproj.testing.plugin"]`.

    def test_a_saved_page(spider, saved_page, parse):
        shop = spider("shop")
        found = parse(shop.parse_item, saved_page("pages/item.html", "https://shop.example/item/1"))
        assert found.items == [{"title": "One"}]

    def test_a_whole_crawl(site, crawl):
        site.add("/list", '<a class="item" href="/item/1">One</a>')
        result = crawl("shop", start=site.url + "/list")
        assert result.page("/item/1")["fetch_status"] == "failed"

| fixture         | what it is                                                                  |
|-----------------|-----------------------------------------------------------------------------|
| `spider`        | a spider of the project, by name or class, with arguments and a crawler     |
| `saved_page`    | the response that a file beside the test would have been                    |
| `parse`         | calls a callback with a response: `.items .requests .urls`                  |
| `site`          | a web site on loopback: `add(path, body, …)`, `url`, `host(2)`, `hits`      |
| `demo_site`     | the built-in site                                                           |
| `crawl`         | runs a real `scrapy crawl` to its end: `.pages .items .status .notes .hits` |
| `scrapy`        | runs any command: `scrapy("hosts", "shop")`; `scrapy.start(…)` does not wait |
| `spider_source` | adds spiders, given as the text of a module                                 |
| `no_network`    | always on: nothing but loopback can be connected to                         |
| `redis_url`, `database_url` | an empty Valkey and an empty database, for this test alone      |

Commands are processes of their own. On Linux they are forked off one that has imported Scrapy and what else
there is of others, which is most of what a start takes; the project is imported by each of them.

A crawl's name is its spider's name unless CRAWL_NAME says otherwise, so crawling twice in one test
is run 1 and run 2. There is no interval between requests, and retries come at once.
"""

from __future__ import annotations

import ipaddress
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pytest
from scrapy.utils.conf import closest_scrapy_cfg

from crawlproj.demo import DemoSite, LoopThread
from crawlproj.testing import offline, project
from crawlproj.testing.preloaded import Preloaded
from crawlproj.testing.site import Hits, Site

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from scrapy import Spider
    from scrapy.http import HtmlResponse, Response

pytest_plugins = ["crawlproj.testing.servers"]


class NetworkRefused(ConnectionRefusedError):
    """A test tried to reach another machine."""


class Crawl(Protocol):
    """What the fixture `crawl` is."""

    def __call__(
        self, name: str, settings: Mapping[str, Any] | None = None, **spider_args: Any
    ) -> project.Crawled:
        """Crawl with the spider *name*; `timeout` is in seconds, lists are joined by spaces."""


@pytest.fixture(scope="session")
def server_thread() -> Iterator[LoopThread]:
    """The thread in which the sites of all tests are served."""
    with LoopThread() as thread:
        yield thread


@pytest.fixture
def spider() -> Callable[..., Spider]:
    """Make a spider that does not run: `spider("shop", seeds="…")`."""
    return offline.make_spider


@pytest.fixture
def saved_page(request: pytest.FixtureRequest) -> Callable[..., HtmlResponse]:
    """Make a response of a file, whose name is relative to the folder of the test."""

    def load(file: str, url: str, **given: Any) -> HtmlResponse:
        return offline.page_from(request.path.parent / file, url, **given)

    return load


@pytest.fixture
def parse(server_thread: LoopThread) -> Callable[[Callable[..., Any], Response], offline.Parsed]:
    """Call a callback and sort what it yields; it may be async, and so may the test."""

    def call(callback: Callable[..., Any], response: Response) -> offline.Parsed:
        return server_thread.run(offline.parsed(callback, response))

    return call


@pytest.fixture
def site(server_thread: LoopThread) -> Iterator[Site]:
    """A web site of this test's own."""
    with Site(server_thread) as site:
        yield site


@pytest.fixture
def demo_site(server_thread: LoopThread) -> Iterator[DemoSite]:
    """The built-in site."""
    site = DemoSite(slow_seconds=0.3)
    server_thread.run(site.__aenter__())
    try:
        yield site
    finally:
        server_thread.run(site.__aexit__())


@pytest.fixture(scope="session")
def preloaded() -> Iterator[Preloaded | None]:
    """What starts commands quickly; None where it is not possible."""
    if not Preloaded.possible():
        yield None
        return
    with Preloaded() as process:
        yield process


@pytest.fixture
def scrapy(
    pytestconfig: pytest.Config,
    tmp_path: Path,
    redis_url: str,
    database_url: str,
    preloaded: Preloaded | None,
) -> Iterator[project.Project]:
    """Run `scrapy` in the project's folder, with servers of this test's own."""
    env = {
        "REDIS_URL": redis_url,
        "DATABASE_URL": database_url,
        "CRAWLPROJ_HOME": str(tmp_path / "home"),
    }
    commands = project.Project(_folder(pytestconfig.rootpath), work=tmp_path, env=env, preloaded=preloaded)
    try:
        yield commands
    finally:
        commands.close()


@pytest.fixture
def spider_source(scrapy: project.Project) -> Callable[[str], None]:
    """Let `crawl` find the spiders in a text."""
    return scrapy.add_spiders


@pytest.fixture
def crawl(scrapy: project.Project, request: pytest.FixtureRequest) -> Crawl:
    """Run a crawl to its end."""
    hits = request.getfixturevalue("site").hits if "site" in request.fixturenames else Hits()

    def run(name: str, settings: Mapping[str, Any] | None = None, **spider_args: Any) -> project.Crawled:
        return project.crawl(scrapy, hits, name, settings or {}, **spider_args)

    return run


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse every connection of the test's own process that does not stay on this machine."""
    connect, connect_ex, look_up = socket.socket.connect, socket.socket.connect_ex, socket.getaddrinfo

    def guarded_connect(self: socket.socket, address: Any) -> None:
        _require_local(address)
        connect(self, address)

    def guarded_connect_ex(self: socket.socket, address: Any) -> int:
        _require_local(address)
        return connect_ex(self, address)

    def guarded_look_up(host: Any, *args: Any, **kwargs: Any) -> Any:
        name = host.decode() if isinstance(host, bytes) else host
        if name and _address(name) is None and name != "localhost":
            raise socket.gaierror(socket.EAI_NONAME, f"{name} is not looked up in a test")
        return look_up(host, *args, **kwargs)

    monkeypatch.setattr(socket.socket, "connect", guarded_connect)
    monkeypatch.setattr(socket.socket, "connect_ex", guarded_connect_ex)
    monkeypatch.setattr(socket, "getaddrinfo", guarded_look_up)


def _require_local(address: Any) -> None:
    if not isinstance(address, tuple) or address[0] == "localhost":  # else: a unix socket
        return
    ip = _address(address[0])
    if ip is None or not (ip.is_loopback or ip.is_unspecified):
        raise NetworkRefused(f"{address[0]} is not this machine")


def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name.partition("%")[0])
    except ValueError:
        return None


def _folder(start: Path) -> Path:
    """Return the project's folder: that of scrapy.cfg."""
    cfg = closest_scrapy_cfg(start)
    return Path(cfg).parent if cfg else start
