"""Which components cannot do without each other, checked before a crawl creates anything."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy.utils.conf import build_component_list
from scrapy.utils.misc import load_object

from crawlproj.exceptions import MissingComponent

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

SCHEDULER = "crawlproj.scheduler.FrontierScheduler"
SPINE = {
    "SPIDER_MIDDLEWARES": ("middlewares.page.PageMiddleware",),
    "ITEM_PIPELINES": (
        "pipelines.classify.ClassifyPipeline",
        "pipelines.store.StorePipeline",
        "pipelines.report.ReportPipeline",
    ),
    "EXTENSIONS": ("extensions.lifecycle.LifecycleExtension",),
}  #: without one of these a leased URL would never be reported


def require_companions(settings: BaseSettings) -> None:
    """Raise MissingComponent, naming the setting, when one of the spine is not enabled.

    A subclass stands for its base.
    """
    # Not issubclass: Scrapy's schedulers answer it by what methods a class has.
    if load_object(SCHEDULER) not in load_object(settings["SCHEDULER"]).__mro__:
        raise MissingComponent(f"SCHEDULER must be {SCHEDULER}: without it no URL is leased")
    for setting, names in SPINE.items():
        listed = build_component_list(settings.get_component_priority_dict_with_base(setting))
        enabled = tuple(load_object(each) for each in listed)
        for name in names:
            if not any(issubclass(each, load_object(name)) for each in enabled):
                raise MissingComponent(f"{setting} lacks {name}: without it no page is recorded")
