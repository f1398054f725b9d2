"""Scrapy's process, which ends in time, and with the first signal only when all has been said."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
import sysconfig
import threading
import time
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from scrapy.crawler import AsyncCrawlerProcess
from scrapy.utils.log import get_scrapy_root_handler
from scrapy.utils.ossignal import install_shutdown_handlers

from crawlproj.cli import fail
from crawlproj.crawls.grace import STEP_SECONDS
from crawlproj.exceptions import INTERRUPTED
from crawlproj.output import is_terminal

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy.settings import Settings

logger = logging.getLogger(__name__)

AT_ONCE_SECONDS = 3.0  # what a process has left after a second signal
LOOK_SECONDS = 0.25


def say(sentence: str) -> None:
    """Tell whoever started the crawl, in one line: on stderr, and in the log if that is a file."""
    if is_terminal(sys.stderr):
        print("\r\x1b[2K", end="", file=sys.stderr)  # noqa: T201  # where the live line was
    fail("crawl", sentence)
    if isinstance(get_scrapy_root_handler(), logging.FileHandler):
        logger.error("%s", sentence)


class CrawlProcess(AsyncCrawlerProcess):
    """Waits at a signal for crawls that are being set up, and for those that have closed already.

    Scrapy's own asks the engine, which does not run yet or any more, and stops the event loop: under a worker
    that has joined a run and would leave it, or that is about to say how its part ended. A second signal
    ends it at once. Both do so whatever the spiders' code is at, see LastResort; Scrapy's own would wait.
    """

    _asked = False  #: to stop, before

    def __init__(self, settings: Settings, *, grace_seconds: float) -> None:
        super().__init__(settings)
        self.last_resort = LastResort(asyncio.get_event_loop(), grace_seconds + STEP_SECONDS)

    def start(self, stop_after_crawl: bool = True, install_signal_handlers: bool = True) -> None:
        """Run until the crawls are over; a signal counts from here on."""
        if install_signal_handlers and self.settings.getbool("TWISTED_REACTOR_ENABLED"):
            # Scrapy's own come last of all that a reactor does to start, and it logs a Ctrl-C and goes on.
            install_shutdown_handlers(self._signal_shutdown)
        self.last_resort.start()
        try:
            super().start(stop_after_crawl, install_signal_handlers)
        finally:
            self.last_resort.loop_is_over()

    async def stop(self) -> None:
        """Stop all crawls and return when they have ended; when asked again, at once."""
        again, self._asked = self._asked, True
        await super().stop()
        if not again:
            await self.join()

    def _signal_shutdown(self, signum: int, frame: Any) -> None:
        super()._signal_shutdown(signum, frame)
        self.last_resort.watch()

    def _signal_kill(self, signum: int, frame: Any) -> None:
        super()._signal_kill(signum, frame)
        self.last_resort.watch(AT_ONCE_SECONDS)

    # The same without a reactor.

    def _signal_shutdown_reactorless(self, signum: int, frame: Any) -> None:
        super()._signal_shutdown_reactorless(signum, frame)
        self.last_resort.watch()

    def _signal_kill_reactorless(self, signum: int, frame: Any) -> None:
        super()._signal_kill_reactorless(signum, frame)
        self.last_resort.watch(AT_ONCE_SECONDS)


class LastResort:
    """Ends a process that is to end and cannot: a spider's code holds its loop, or a thread does not end.

    All else that takes too long is seen to on the loop, by the lifecycle. Here the loop only has to go on,
    and the process to end when it is over, within *patience* seconds each. It ends as in a crash, which
    loses nothing: leases run out.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, patience: float) -> None:
        self._loop = loop
        self._patience = patience
        self._wanted: SimpleQueue[None] = SimpleQueue()  # the one kind that handlers may put into
        self._went_on = time.monotonic()  #: when the loop, or what comes after it, did so last
        self._latest: float | None = None  #: when it is over, come what may
        self.done: Callable[[], int | None] = lambda: None  #: the exit code, once the crawl needs no loop
        self._looping = True
        self._code: int | None = None

    def start(self) -> None:
        """Be there when it is wanted."""
        threading.Thread(target=self._look, name="last resort", daemon=True).start()

    def watch(self, seconds: float | None = None) -> None:
        """Begin to look; with *seconds* it is over then, however well it goes on.

        For signal handlers: whatever they have interrupted.
        """
        if seconds is not None and self._latest is None:
            self._latest = time.monotonic() + seconds
        self._wanted.put(None)

    def loop_is_over(self) -> None:
        """Expect no answers from the loop any more."""
        self._looping = False
        self._answer()

    def end(self, code: int, *, in_time: bool) -> None:
        """Expect the process to end with *code* now; *in_time* whether or not somebody watches already."""
        self._code = code
        self._answer()
        if in_time:
            self.watch()

    def _answer(self) -> None:
        self._went_on = time.monotonic()

    def _look(self) -> None:
        self._wanted.get()
        self._answer()
        while not self._is_over(time.monotonic()):
            if self._looping and self._exit_code() is None:
                with contextlib.suppress(RuntimeError):  # closed in this very moment
                    self._loop.call_soon_threadsafe(self._answer)
            with contextlib.suppress(Empty):
                self._wanted.get(timeout=LOOK_SECONDS)
        # Whoever holds the loop may hold a lock of the log as well.
        last_words = threading.Thread(target=say, args=(self._last_words(),), daemon=True)
        last_words.start()
        last_words.join(1)
        code = self._exit_code()
        os._exit(INTERRUPTED if code is None else code)

    def _exit_code(self) -> int | None:
        return self.done() if self._code is None else self._code

    def _is_over(self, now: float) -> bool:
        return now > self._went_on + self._patience or (self._latest is not None and now > self._latest)

    def _last_words(self) -> str:
        if self._looping and self._exit_code() is not None:
            return "the crawl is over, and who listens to its end is not waited for any longer"
        if self._code is not None:
            others = {thread.name for thread in threading.enumerate() if not thread.daemon}
            names = ", ".join(sorted(others - {threading.main_thread().name}))
            return f"threads that do not end are left to themselves: {names or 'of extension modules'}"
        words = "stopped at once; what was under way is due again when its leases run out"
        return f"{words} (it was held up {_where()})" if self._looping else words


def _where() -> str:
    """Return in what function, of the project's own if possible, the main thread is."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    places = []
    while frame is not None:
        code = frame.f_code
        places.append((code.co_filename, f"in {code.co_qualname}, {code.co_filename}:{frame.f_lineno}"))
        frame = frame.f_back
    libraries = tuple(sysconfig.get_paths()[each] for each in ("stdlib", "purelib", "platlib"))
    own = (place for file, place in places if not file.startswith(libraries))
    return next(own, places[0][1] if places else "in code that is gone")
