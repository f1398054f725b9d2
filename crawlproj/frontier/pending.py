"""What a frontier holds, as people and programs read it."""

from __future__ import annotations

import json
import secrets
from contextlib import suppress
from hashlib import sha256
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from crawlproj.exceptions import Refused, UndecodableEntry
from crawlproj.redaction import without_login

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from crawlproj.frontier.codec import Codec
    from crawlproj.frontier.frontier import Frontier

_BATCH = 1000  # lines in one write
_SHOWN = 200
_LONGEST = 180  # bytes of a file name, which has 255 at most, and more to say


def shown_entry(codec: Codec, host: str, entry: bytes) -> dict[str, Any]:
    """Return `url`, `depth` and `source_tag` of a queue entry; of an unreadable one, its first line."""
    try:
        stored = codec.decode(host, entry)
    except UndecodableEntry:
        line = entry.partition(b"\n")[0].decode("utf-8", "replace")
        return {"url": without_login(line)[:_SHOWN], "depth": None, "source_tag": None}
    return {"url": stored.url, "depth": stored.depth, "source_tag": stored.tag}


async def pending_rows(
    frontier: Frontier, codec: Codec, host: str | None = None
) -> AsyncIterator[dict[str, Any]]:
    """Yield what is queued, of one host or of all, in the order of its queue, without holding it all.

    Rows have `host`, `url`, `depth`, `priority`, `attempts`, `source_tag` and `waits`: whether it is not due
    before the wait after a failed attempt is over. What is leased is not among them.
    """
    async for each in frontier.dump_pending(host):
        known = shown_entry(codec, each.host, each.entry)
        yield {
            "host": each.host,
            "url": known["url"],
            "depth": known["depth"],
            "priority": each.priority,
            "attempts": each.attempts,
            "source_tag": known["source_tag"],
            "waits": each.delayed,
        }


def pending_path(home: Path, name: str, run: int) -> Path:
    """Return the file in which what a run leaves queued is kept."""
    safe = "".join(quote(each, safe=" ") if each.isascii() else each for each in name)
    if len(safe.encode()) > _LONGEST:
        digest = sha256(name.encode()).hexdigest()[:12]
        safe = f"{safe.encode()[:_LONGEST].decode(errors='ignore')}~{digest}"
    return home / "pending" / f"{safe}-{run}.jsonl"


async def dump_to(frontier: Frontier, codec: Codec, path: Path) -> int | None:
    """Write what is queued as JSON lines, all of it or nothing; return how many there are.

    None: the frontier has gone meanwhile, and the file is left as it is.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.{secrets.token_hex(4)}.part")  # others may be at it
    count = 0
    lines: list[str] = []
    try:
        with part.open("w", encoding="utf-8") as file:
            async for row in pending_rows(frontier, codec):
                lines.append(json.dumps(row))
                count += 1
                if len(lines) == _BATCH:
                    file.write("\n".join(lines) + "\n")
                    lines.clear()
            file.writelines(f"{line}\n" for line in lines)
        if not await frontier.exists():  # lists that have gone look empty
            return None
        part.replace(path)
    except Refused:
        return None
    finally:
        with suppress(FileNotFoundError):
            part.unlink()
    return count
