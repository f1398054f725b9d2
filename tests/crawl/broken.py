"""A store whose writing task dies after a few pages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crawlproj.items import PageObject
from pipelines.store import StorePipeline

if TYPE_CHECKING:
    from crawlproj.worker import Worker


class BrokenStore(StorePipeline):
    """Works for three pages; then the task is gone."""

    def __init__(self, worker: Worker) -> None:
        super().__init__(worker)
        self._left = 3

    async def process_item(self, item: Any) -> Any:
        """Break the store when its time has come."""
        if isinstance(item, PageObject):
            self._left -= 1
            if self._left == 0:
                self._worker.store._task.cancel()  # type: ignore[union-attr]
        return await super().process_item(item)
