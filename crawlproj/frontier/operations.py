"""What operators do with a frontier while it runs: look, turn knobs, take away, bring back."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from crawlproj.frontier.partition import CHUNK, PAGE, Partition
from crawlproj.frontier.parts import Parts
from crawlproj.frontier.records import Pending
from crawlproj.knobs import KNOBS, check_knob

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence

    from crawlproj.frontier.records import DeadLetter, HostView
    from crawlproj.knobs import Value


class Operations(Parts):
    """The operator's side of a frontier."""

    async def crawl_knobs(self) -> dict[str, Value]:
        """Return the crawl's knobs as they are now."""
        found = await self.parts[0].tune({})
        self.knobs = {name: found[name] for name in (*KNOBS, "version")}
        return {name: found[name] for name in KNOBS}

    async def set_crawl(self, **knobs: Value) -> None:
        """Turn knobs of the whole crawl; every worker obeys from its next lease on. Raises BadArgument."""
        checked = {name: check_knob(name, value) for name, value in knobs.items()}
        for part in self.parts:
            await part.tune(checked)
        await self.crawl_knobs()
        await self._look_again()

    async def host_knobs(self, host: str) -> dict[str, Value]:
        """Return what a host has of its own."""
        view = await self.host(host)
        return dict(view.knobs) if view is not None else {}

    async def set_host(self, host: str, *, blocked: bool | None = None, **knobs: Value | None) -> None:
        """Turn a host's own knobs, at once; None takes one away. A host that is not known yet is made.

        Raises BadArgument for what no host can have.
        """
        own: dict[str, Value | bool] = {
            name: check_knob(name, value, of_host=True) if value is not None else False
            for name, value in knobs.items()
        }
        if blocked is not None:
            own["blocked"] = 1 if blocked else False
        await self._part(host).set_host(host, own)

    async def set_crawl_delay(self, host: str, milliseconds: int, *, shared: bool = False) -> None:
        """Take what a robots.txt asks for as a queue's interval; 0: it asks for none.

        One that hosts share keeps what it has, if that is more.
        """
        name = "least_crawl_delay" if shared else "crawl_delay"
        await self._part(host).set_host(host, {name: milliseconds})

    async def set_language_interval(
        self, host: str, milliseconds: int | None, *, shared: bool = False
    ) -> None:
        """Put an interval in the place of the crawl's, for the language of a host; None takes it away.

        A queue that hosts share has the longest of theirs, and is never faster than the crawl.
        """
        if not shared:
            value: Value | bool = False if milliseconds is None else milliseconds
            await self._part(host).set_host(host, {"language_interval": value})
        elif milliseconds is not None:
            await self._part(host).set_host(host, {"least_language_interval": milliseconds})

    async def rest(self, host: str, milliseconds: int) -> None:
        """Leave a host alone for so long: it has asked for that, though of another crawl."""
        await self._part(host).set_host(host, {"rest": milliseconds})

    async def block(self, host: str) -> None:
        """Hand out nothing of a host; what it has queued stays."""
        await self.set_host(host, blocked=True)

    async def unblock(self, host: str) -> None:
        """Let a host have its turns again."""
        await self.set_host(host, blocked=False)

    async def delete_host(self, host: str) -> int:
        """Forget a host: its queue, its leases, its knobs. Returns how many URLs were queued.

        They stay seen. A new URL of it makes it anew: block it to have none.
        """
        part = self._part(host)
        await part.set_host(host, {"blocked": 1})
        taken = 0
        while True:
            more = await part.take_host(host)
            taken += more
            if more < PAGE:
                return taken

    async def reprioritise(self, host: str, priority: int, chosen: Callable[[bytes], bool] = bool) -> int:
        """Give queued entries of a host another priority. Returns how many.

        They keep their order. *chosen* says which, by the entry; all of them, if it is not given. What
        workers take meanwhile is left alone.
        """
        part = self._part(host)
        levels: list[Any] = await self._redis.zrange(f"{part.prefix}p:{host}", 0, -1)
        moved = 0
        for old in sorted({0, *map(int, levels)}, reverse=True):  # as they would have come out
            if old == priority:
                continue
            key = f"{part.prefix}q:{host}" if old == 0 else f"{part.prefix}l:{old}:{host}"
            left: int = await self._redis.llen(key)
            while left > 0:
                items: list[Any] = await self._redis.lrange(key, 0, min(left, CHUNK) - 1)
                if not items:
                    break
                marked = [(item, chosen(entry_of(item)[0])) for item in items]
                stood = await part.reprioritise(host, old, priority, marked)
                moved += sum(moves for _, moves in marked[:stood])
                left -= max(stood, 1)
        return moved

    async def dump_pending(self, host: str | None = None) -> AsyncIterator[Pending]:
        """Yield what is queued, of one host or all, in the order of its queue. No snapshot."""
        for part in self.parts:
            names = [host.encode()] if host is not None else await part.names()
            for name in names:
                if host is None or self._part(host) is part:
                    async for pending in self._pending(part, name.decode()):
                        yield pending
        async for pending in self._delayed(host):
            yield pending

    async def dead_letters(self) -> AsyncIterator[DeadLetter]:
        """Yield what will not be tried again, and why."""
        for number, part in enumerate(self.parts):
            async for letter in part.dead_letters():
                yield letter if number == 0 else _renamed(letter, number)

    async def requeue(self, ids: Sequence[str]) -> int:
        """Queue dead letters again, as if they had never been tried. Returns how many there were."""
        moved = 0
        for number, part in enumerate(self.parts):
            own = [
                each.partition("@")[0]
                for each in ids
                if each.partition("@")[2] == (str(number) if number else "")
            ]
            moved += await part.requeue(own)
        return moved

    async def mark_seen(
        self,
        seen: Mapping[str, Sequence[int]],
        *,
        results: Sequence[int] = (),
        started: int = 0,
        size: int = 0,
    ) -> None:
        """Restore what a lost frontier knew, queuing nothing. *seen* has fingerprints by host.

        What was *started* counts as let in, too. *size* is what bodies were reported, in bytes.
        """
        shares: dict[int, list[int]] = {number: [] for number in range(len(self.parts))}
        for host, fingerprints in seen.items():
            shares[self._number(host)] += fingerprints
        for number, share in shares.items():
            for start in range(0, len(share), PAGE):
                await self.parts[number].mark(seen=share[start : start + PAGE])
        for start in range(0, len(results), PAGE):
            await self.parts[0].mark(results=results[start : start + PAGE])
        many = len(self.parts) if started or size else 0
        for number, part in enumerate(self.parts[:many]):  # shared out as the limit on URLs is
            await part.mark(started=(started + many - 1 - number) // many, size=0 if number else size)

    async def hosts(self) -> list[HostView]:
        """Return every host there is, in alphabetical order: an operator's view, no snapshot."""
        views: list[HostView] = []
        for part in self.parts:
            names = [name.decode() for name in await part.names()]
            for start in range(0, len(names), CHUNK):
                views += await part.hosts(names[start : start + CHUNK])
        return sorted(views, key=lambda view: view.host)

    async def host(self, host: str) -> HostView | None:
        """Return one host, or None if the frontier does not know it."""
        return next(iter(await self._part(host).hosts([host])), None)

    async def look(self, hosts: Sequence[str]) -> list[HostView]:
        """Return some hosts, no more than CHUNK; those that the frontier does not know are left out."""
        shares: dict[int, list[str]] = {}
        for host in hosts:
            shares.setdefault(self._number(host), []).append(host)
        return [view for number, share in shares.items() for view in await self.parts[number].hosts(share)]

    async def _pending(self, part: Partition, host: str) -> AsyncIterator[Pending]:
        levels: list[Any] = await self._redis.zrevrange(f"{part.prefix}p:{host}", 0, -1)
        ordered = sorted({0, *map(int, levels)}, reverse=True)
        for level in ordered:
            key = f"{part.prefix}q:{host}" if level == 0 else f"{part.prefix}l:{level}:{host}"
            start = 0
            while True:
                items: list[Any] = await self._redis.lrange(key, start, start + PAGE - 1)
                for item in items:
                    entry, attempts = entry_of(item)
                    yield Pending(host=host, entry=entry, priority=level, attempts=attempts)
                start += len(items)
                if not items:
                    break

    async def _delayed(self, host: str | None) -> AsyncIterator[Pending]:
        for part in self.parts:
            async for pending in part.delayed():
                if host is None or pending.host == host:
                    yield pending


def entry_of(item: bytes) -> tuple[bytes, int]:
    """Return the entry that an item of a queue holds, and the attempts made."""
    if item[:1] != b"!":
        return item, 0
    head, mark, entry = item[1:].partition(b"!")
    return (entry, int(head.partition(b",")[0])) if mark else (item, 0)


def _renamed(letter: DeadLetter, number: int) -> DeadLetter:
    return replace(letter, id=f"{letter.id}@{number}")
