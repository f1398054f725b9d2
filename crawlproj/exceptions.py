"""Every error this project raises, one sentence each.

CrawlError                  the base; `exit_code` is what a command ends with
├── WrongUsage              wrong input from a person (2)
│   ├── BadSetting          a setting has a value it cannot have
│   ├── BadArgument         a spider or command argument has a value it cannot have
│   └── BadUrl              a URL that cannot be crawled
├── NotFound                there is no crawl, page, host or spider of that name (3)
├── Refused                 the state of a crawl does not allow it (4)
│   └── SchemaMismatch      the database has another schema than this code
├── ServerUnreachable       Redis or PostgreSQL does not answer (5)
├── BodyStoreFailed         the place where bodies are kept does not take or give one (5)
├── BodyDamaged             a body in such a place is not what it was (1)
├── UnserialisableRequest   a request that cannot be kept as data (1)
├── UndecodableEntry        a queue entry that is no request of ours (1)
└── MissingComponent        a component is enabled without one it needs (2)

RetryLater, Disregarded and NotModified are no errors: they tell Scrapy's engine that a request ends here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy.exceptions import IgnoreRequest

if TYPE_CHECKING:
    from scrapy.http import Response


INTERRUPTED = 11  #: exit code of a worker whose run goes on without it: what it leaves is due again


class CrawlError(Exception):
    """Something the project reports in one sentence."""

    exit_code = 1


class WrongUsage(CrawlError):
    """Somebody asked for something that makes no sense."""

    exit_code = 2


class BadSetting(WrongUsage):
    """A setting has a value it cannot have."""

    def __init__(self, name: str, value: object, want: str) -> None:
        super().__init__(f"setting {name} must be {want}, not {str(value)[:80]!r}")
        self.name = name
        self.value = value


class BadArgument(WrongUsage):
    """An argument has a value it cannot have."""


class BadUrl(WrongUsage):
    """A URL that cannot be crawled."""

    def __init__(self, url: str, why: str = "is no http or https URL") -> None:
        super().__init__(f"{url[:120]!r} {why}")
        self.url = url


class NotFound(CrawlError):
    """There is nothing of that name."""

    exit_code = 3


class Refused(CrawlError):
    """The state of the crawl does not allow it."""

    exit_code = 4


class SchemaMismatch(Refused):
    """The database has another schema than this code works with."""


class ServerUnreachable(CrawlError):
    """A server does not answer."""

    exit_code = 5

    def __init__(self, server: str, where: str, why: str) -> None:
        super().__init__(f"{server} at {where} cannot be reached: {why}")
        self.server = server


class BodyStoreFailed(CrawlError):
    """The place where bodies are kept does not take one, or does not give it back."""

    exit_code = 5

    def __init__(self, where: str, why: str) -> None:
        super().__init__(f"BODY_STORE {where}: {why}")


class BodyDamaged(CrawlError):
    """The file of a body is there and does not hold it any more."""

    def __init__(self, where: str, name: str, why: str) -> None:
        super().__init__(f"the body {name} in {where} is damaged: {why}")


class MissingComponent(CrawlError):
    """A component is enabled without one it needs."""

    exit_code = 2


class UnserialisableRequest(CrawlError):
    """A request that cannot be kept as data."""


class UndecodableEntry(CrawlError):
    """A queue entry that is no request of ours."""


class Disregarded(IgnoreRequest):
    """The URL is not to be fetched: robots, scope or an operator said no."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class RetryLater(IgnoreRequest):
    """This attempt failed and another one follows later.

    *retry_after_ms* is what the server asked for, if it did; *host_incident* says whether the
    whole host waits or only this URL.
    """

    def __init__(
        self, reason: str, *, retry_after_ms: int | None = None, host_incident: bool = False
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.retry_after_ms = retry_after_ms
        self.host_incident = host_incident


class WorkerCloses(RetryLater):
    """The worker closes before the request went out, so it waits for another one."""

    def __init__(self) -> None:
        super().__init__("worker_closes")


class HostRests(WorkerCloses):
    """The host asked to be left alone, whoever it was that it told; the request did not go out.

    Its lease is given back, and counts for nothing.
    """

    def __init__(self, retry_after_ms: int) -> None:
        RetryLater.__init__(self, "host_rests", retry_after_ms=retry_after_ms, host_incident=True)


class NotModified(IgnoreRequest):
    """The server answered 304 to our validators: the stored content stands, and no callback is called.

    *response* is the 304; the validators it carries are newer than those that were sent.
    """

    def __init__(self, response: Response) -> None:
        super().__init__("not modified")
        self.response = response


class TooSoon(IgnoreRequest):
    """The host cannot be asked as soon as the request wants; *retry_after_ms* says when to try again."""

    def __init__(self, retry_after_ms: int) -> None:
        super().__init__(f"the host's turn is {retry_after_ms} ms away")
        self.retry_after_ms = retry_after_ms
