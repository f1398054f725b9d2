"""The cookies of a crawl's sessions in Redis, so that whoever logs in does so for all workers."""

from __future__ import annotations

import json
from collections import Counter
from functools import lru_cache
from http.cookiejar import Cookie
from typing import TYPE_CHECKING, Any, TypeAlias

from crawlproj.cookies.jar import MOST_OF_ONE, owner
from crawlproj.scripts import script

if TYPE_CHECKING:
    from collections.abc import Mapping

    from crawlproj.cookies.jar import BoundedCookieJar, Name
    from crawlproj.scripts import Script, Scripts

#: What a jar's cookies are told by: a value of the meta key `cookiejar`.
Session: TypeAlias = str | int | float | bool | None

_SESSIONS = (str, int, float, bool, type(None))


class SharedCookies:
    """Hands what one worker's jars have learnt to the others, for as long as the run's frontier is there.

    Written at once, so that it is there before a link of the page is; whose cookies have changed is asked
    for with every batch of leases, and the cookies themselves when a request to their domain goes out.
    """

    def __init__(self, scripts: Scripts, prefix: str, *, most: int) -> None:
        self._scripts = scripts
        self._keys = (f"{prefix}cookies", f"{prefix}cookie_turns", f"{prefix}cookie_turn")
        self._most = most
        self._turn = 0
        self._changed: set[str] = set()  #: what others have changed, and this worker has not read
        self._own: dict[str, int] = {}  #: turns of what this worker changed itself
        self._writing: Counter[str] = Counter()

    async def look(self) -> None:
        """Ask whose cookies have changed."""
        turn, *changed = await self._scripts.call(_operation("news"), self._keys, self._turn)
        for name, at in zip(changed[::2], changed[1::2], strict=True):
            if self._own.get(name.decode()) != int(at):
                self._changed.add(name.decode())
        self._turn = int(turn)
        self._own = {name: at for name, at in self._own.items() if at > self._turn}

    def has_news(self, session: Session, host: str) -> bool:
        """Return whether others have changed the cookies that a request to *host* is sent with."""
        return bool(self._changed) and not self._changed.isdisjoint(_names(session, host))

    async def read(self, session: Session, host: str, jar: BoundedCookieJar) -> None:
        """Bring a jar's cookies for a host up to date."""
        for name, whose in _names(session, host).items():
            if name not in self._changed:
                continue
            self._changed.discard(name)
            found = await self._scripts.call(_operation("cookies_of"), self._keys, name)
            # What is on its way there is not missing there.
            jar.replace(whose, [_cookie(each) for each in found], keep=self._writing[name] > 0)

    async def write(self, session: Session, changes: Mapping[Name, Cookie | None]) -> None:
        """Tell the others what has changed in a jar; None: a cookie is gone."""
        by_name: dict[str, list[str]] = {}
        for key, cookie in changes.items():
            said = by_name.setdefault(_name(session, owner(key[0])), [])
            said += (json.dumps(key), "" if cookie is None else _packed(cookie))
        for name, said in by_name.items():
            self._writing[name] += 1
            try:
                turn = await self._scripts.call(
                    _operation("share"), self._keys, self._most, MOST_OF_ONE, name, *said
                )
                self._own[name] = int(turn)
            finally:
                self._writing[name] -= 1
                if not self._writing[name]:
                    del self._writing[name]


def _operation(name: str) -> Script:
    # A page must not wait for a full server to become less so: its end is what frees memory.
    return script(__package__, name, allow_oom=True)


def is_session(value: object) -> bool:
    """Return whether a value of the meta key `cookiejar` means the same in every process."""
    return isinstance(value, _SESSIONS)


def _name(session: Session, whose: str) -> str:
    return json.dumps([session, whose])


def _names(session: Session, host: str) -> dict[str, str]:
    """Return by their names whose cookies may be for a host."""
    return {_name(session, whose): whose for whose in _owners(host)}


@lru_cache(maxsize=1024)
def _owners(host: str) -> tuple[str, ...]:
    """Return the registered domain of a host; where nobody registers any, its parents are others than it."""
    labels = host.split(".")
    parents = (".".join(labels[start:]) for start in range(max(len(labels) - 1, 1)))
    return tuple(dict.fromkeys(map(owner, parents)))


def _packed(cookie: Cookie) -> str:
    fields = dict(vars(cookie))
    fields["rest"] = fields.pop("_rest")
    return json.dumps(fields)


def _cookie(packed: bytes) -> Cookie:
    fields: dict[str, Any] = json.loads(packed)
    return Cookie(**fields)
