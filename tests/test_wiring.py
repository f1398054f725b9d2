"""What cannot do without each other is missed before a crawl begins."""

from __future__ import annotations

import pytest
from scrapy.settings import Settings
from scrapy.utils.misc import load_object

from crawlproj.exceptions import MissingComponent
from crawlproj.wiring import SCHEDULER, SPINE, require_companions

REQUIRED = [(setting, name) for setting, names in SPINE.items() for name in names]


@pytest.fixture
def settings() -> Settings:
    settings = Settings()
    settings.setmodule("crawlproj.settings")
    return settings


def test_the_project_is_complete(settings: Settings) -> None:
    """The project's own settings have everything."""
    require_companions(settings)


@pytest.mark.parametrize(("setting", "name"), REQUIRED)
def test_each_required_component_is_missed(settings: Settings, setting: str, name: str) -> None:
    """The sentence names the setting and the component; the exit code is that of wrong usage."""
    settings.set(setting, {name: None}, "cmdline")
    with pytest.raises(MissingComponent, match=f"^{setting} lacks {name}: ") as caught:
        require_companions(settings)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(("setting", "name"), REQUIRED)
def test_one_alone_is_not_enough(settings: Settings, setting: str, name: str) -> None:
    """A component without the others is refused, with the first one that it misses."""
    for each in SPINE:
        settings.set(f"{each}_BASE", {name: 1} if each == setting else {}, "cmdline")
    with pytest.raises(MissingComponent, match=" lacks "):
        require_companions(settings)


@pytest.mark.parametrize("scheduler", ["scrapy.core.scheduler.Scheduler", "scrapy_redis.scheduler.Scheduler"])
def test_another_scheduler_is_refused(settings: Settings, scheduler: str) -> None:
    """Only our scheduler leases; one that has the same methods is not taken for it."""
    settings.set("SCHEDULER", scheduler, "cmdline")
    with pytest.raises(MissingComponent, match=r"^SCHEDULER must be crawlproj\."):
        require_companions(settings)


def test_a_subclass_stands_for_its_base(settings: Settings) -> None:
    """Somebody who extends a component may put it in the place of ours, by class or by name."""
    for setting, name in REQUIRED:
        base = load_object(name)
        settings.set(setting, {name: None, type(base.__name__, (base,), {}): 7}, "cmdline")
        require_companions(settings)
        settings.set(setting, {}, "cmdline")
    base = load_object(SCHEDULER)
    settings.set("SCHEDULER", type(base)(base.__name__, (base,), {}), "cmdline")
    require_companions(settings)
