"""Every knob: its values, what it does for the crawl, for one host, and while the crawl runs.

`test_model.py` turns most of them at random; here is what each of them is for. Interval, requests in
flight, precedence, budget and kills have their first tests beside what they are about.
"""

from __future__ import annotations

import math

import pytest
from scrapy.settings import Settings

import crawlproj.settings
from crawlproj.config import DELAY_PRESETS, Config
from crawlproj.exceptions import BadArgument, BadSetting
from crawlproj.frontier.codec import Codec
from crawlproj.frontier.records import Outcome
from crawlproj.knobs import COST_POLICIES, KNOBS, check_knob, parse_knob
from tests.frontier.conftest import crawl, lease, lease_one, links, name_of, succeed

LONG = 600  # seconds: a lease that the test's own pace does not end
HOUR = 3_600_000


# --- values ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text", "value", "shown"),
    [
        ("interval_ms", "0", 0, "0"),
        ("interval_ms", "1e3", 1000, "1000"),
        ("interval_ms", 250, 250, "250"),
        ("interval_ms", 250.0, 250, "250"),
        ("interval_ms", str(2**53), 2**53, "9007199254740992"),
        ("in_flight", "1", 1, "1"),
        ("total_budget", "-1", -1, "-1"),
        ("precedence", "1023", 1023, "1023"),
        ("precedence_floor", "1024", 1024, "1024"),
        ("delay_factor", "2.5", 2.5, "2.5"),
        ("delay_factor", "1000", 1000, "1000"),
        ("crawl_delay_max_ms", "300000", 300_000, "300000"),
        ("hold_queues", "yes", 1, "on"),
        ("hold_queues", "False", 0, "off"),
        ("hold_queues", "", 0, "off"),
        ("hold_queues", True, 1, "on"),
        ("pause_at_finish", "ON", 1, "on"),
        ("cost_policy", "zero", 1, "zero"),
        ("cost_policy", "anti-calendar", 4, "anti-calendar"),
    ],
)
def test_values(name, text, value, shown):
    """From text or from a setting, and back; what is parsed is taken."""
    knob = KNOBS[name]
    assert knob.parse(text) == value
    assert isinstance(knob.parse(text), int) is (knob.whole or bool(knob.choices))
    assert knob.shown(value) == shown
    assert knob.parse(shown) == value
    assert knob.takes(value)
    assert parse_knob(name, text) == check_knob(name, value) == value


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("interval_ms", "-1", "interval_ms must be a whole number, at least 0, not '-1'"),
        ("interval_ms", "1.5", "interval_ms must be a whole number, at least 0, not '1.5'"),
        ("interval_ms", "fast", "interval_ms must be a whole number, at least 0, not 'fast'"),
        ("interval_ms", "", "interval_ms must be a whole number, at least 0, not ''"),
        ("interval_ms", "nan", "interval_ms must be a whole number, at least 0, not 'nan'"),
        ("interval_ms", "inf", "interval_ms must be a whole number, at least 0, not 'inf'"),
        ("interval_ms", "1e17", "interval_ms must be a whole number, at least 0, not '1e17'"),
        ("interval_ms", True, "interval_ms must be a whole number, at least 0, not True"),
        ("interval_ms", None, "interval_ms must be a whole number, at least 0, not None"),
        ("in_flight", "0", "in_flight must be a whole number, at least 1, not '0'"),
        ("total_budget", "-2", "total_budget must be a whole number, at least -1, not '-2'"),
        ("precedence", "1024", "precedence must be a whole number from 0 to 1023, not '1024'"),
        ("precedence_floor", "1025", "precedence_floor must be a whole number from 0 to 1024, not '1025'"),
        ("delay_factor", "1001", "delay_factor must be a number from 0 to 1000, not '1001'"),
        ("hold_queues", "2", "hold_queues must be one of off, on, not '2'"),
        ("cost_policy", "dear", "cost_policy must be one of zero, unit, wag, anti-calendar, not 'dear'"),
        ("cost_policy", "1", "cost_policy must be one of zero, unit, wag, anti-calendar, not '1'"),
    ],
)
def test_no_values(name, text, sentence):
    """In one sentence, which says what would be one."""
    with pytest.raises(BadArgument) as refused:
        parse_knob(name, text)
    assert str(refused.value) == sentence


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("interval_ms", -1), ("interval_ms", 0.5), ("interval_ms", math.nan), ("interval_ms", math.inf),
        ("precedence", 1024), ("in_flight", 0), ("hold_queues", 2), ("hold_queues", 0.5), ("cost_policy", 0),
        ("cost_policy", 5), ("delay_factor", -0.1), ("delay_factor", 1000.5), ("total_budget", -2),
    ],
)  # fmt: skip
def test_what_no_knob_takes(name, value):
    """Whoever turns it from a program hears so as well."""
    assert not KNOBS[name].takes(value)
    with pytest.raises(BadArgument, match=f"^{name} must be "):
        check_knob(name, value)


async def test_nothing_is_turned_when_one_value_is_wrong(frontier):
    """Neither of the crawl nor of a host, and a host has only those that can be its own."""
    before = await frontier.crawl_knobs()
    with pytest.raises(BadArgument):
        await frontier.set_crawl(interval_ms=7, in_flight=0)
    for wrong in ({"in_flight": 0}, {"max_target": 5}, {"nothing": 1}):
        with pytest.raises(BadArgument):
            await frontier.set_host("a.test", interval_ms=7, **wrong)
    assert await frontier.crawl_knobs() == before
    assert await frontier.host("a.test") is None
    with pytest.raises(
        BadArgument, match=r"^there is no knob of a host 'max_target'; there are: interval_ms, "
    ):
        parse_knob("max_target", "1", of_host=True)


def settings(**given) -> Settings:
    """Return the project's settings, changed as by `-s`."""
    made = Settings()
    made.setmodule(crawlproj.settings, priority="default")
    made.setdict(given, priority="cmdline")
    return made


def test_every_knob_begins_as_its_setting():
    """The defaults are those of the reference; what is given on the command line is turned by who joins."""
    begun = Config.from_settings(settings())
    assert set(begun.knobs) == set(KNOBS)
    assert begun.turned == frozenset()
    for knob in KNOBS.values():
        other = COST_POLICIES[3] if knob.name == "cost_policy" else 1 if knob.choices else 7
        turned = Config.from_settings(settings(**{knob.setting: other}))
        assert turned.turned == {knob.name}
        assert turned.knobs == {**begun.knobs, knob.name: knob.parse(other) * knob.scale}


@pytest.mark.parametrize("knob", KNOBS.values(), ids=KNOBS)
def test_a_setting_that_its_knob_does_not_take(knob):
    """It is refused by its own name."""
    with pytest.raises(BadSetting) as refused:
        Config.from_settings(settings(**{knob.setting: "-7"}))
    assert str(refused.value) == f"setting {knob.setting} must be {knob.want()}, not '-7'"


def test_presets_of_the_delay():
    """They are what a delay is that is not set; one on the command line turns all three."""
    assert DELAY_PRESETS["heritrix"] == {"delay_factor": 5, "min_delay_ms": 3000, "max_delay_ms": 30_000}
    plain, own = Config.from_settings(settings()), settings(FRONTIER_DELAY_PRESET="heritrix")
    assert [plain.knobs[name] for name in DELAY_PRESETS["none"]] == [0, 0, 30_000]
    found = Config.from_settings(own)
    assert [found.knobs[name] for name in DELAY_PRESETS["none"]] == [5, 3000, 30_000]
    assert found.turned == {"delay_factor", "min_delay_ms", "max_delay_ms"}
    own.set("FRONTIER_MIN_DELAY_MS", 7, priority="project")
    assert Config.from_settings(own).knobs["min_delay_ms"] == 7
    with pytest.raises(BadSetting, match="FRONTIER_DELAY_PRESET must be one of none, heritrix, not 'x'"):
        Config.from_settings(settings(FRONTIER_DELAY_PRESET="x"))


async def test_who_joins_turns_what_its_command_line_says_and_no_more(fleet):
    """An operator's knobs stay; those that are turned hold for those who were there before."""
    frontier = await fleet(session_balance=5)
    await frontier.set_crawl(interval_ms=HOUR, max_target=9)
    await fleet(error_penalty=3)
    found = await frontier.crawl_knobs()
    assert (found["session_balance"], found["interval_ms"], found["error_penalty"]) == (5, HOUR, 3)
    assert found["max_target"] == 9
    assert frontier.figures.version < (await frontier.refresh()).version
    await fleet(interval_ms=0)
    await frontier.schedule(links("a.test", 2))
    assert len(await crawl(frontier)) == 2
    assert frontier.knobs["interval_ms"] == 0


async def test_a_worker_hears_of_what_was_turned_with_its_next_leases(fleet):
    """Whoever turned it, for the crawl or for the host: what it is handed is as of now."""
    frontier, operator = await fleet(), await fleet()
    await frontier.schedule([*links("a.test", 1), *links("b.test", 1)])
    await operator.set_crawl(max_attempts=2, max_outlinks=3, embed_hops=0, in_flight=4)
    await operator.set_host("a.test", max_attempts=9)
    grants = {grant.host: grant for grant in await lease(frontier)}
    names = ("max_attempts", "max_outlinks", "embed_hops", "in_flight")
    assert [frontier.knobs[name] for name in names] == [2, 3, 0, 4]
    assert grants["a.test"].knobs == {"max_attempts": 9}
    assert grants["b.test"].knobs == {}


# --- turns ----------------------------------------------------------------------------------------


def turns(names: list[str]) -> str:
    """Return whose turn it was, a letter each."""
    return "".join(name[0] for name in names)


async def fetched(frontier, n: int) -> str:
    """Fetch so many, one by one, and return whose turn it was."""
    done = []
    for _ in range(n):
        grant = await lease_one(frontier, seconds=LONG)
        done.append(name_of(grant))
        await succeed(frontier, grant)
    return turns(done)


async def hosts(frontier, names="ab", n=9):
    await frontier.schedule([entry for name in names for entry in links(f"{name}.test", n)])


async def test_session_balance(fleet):
    """What a host may spend before another has its turn; raised, lowered and lifted at once; of one host."""
    frontier = await fleet(ready_backlog=1, session_balance=1)
    await hosts(frontier, n=30)
    assert await fetched(frontier, 4) == "aabb"
    await frontier.set_crawl(session_balance=3)
    assert await fetched(frontier, 8) == "aaaabbbb"
    await frontier.set_host("a.test", session_balance=1)
    assert await fetched(frontier, 6) == "aabbbb"
    await frontier.set_crawl(session_balance=0)
    assert await fetched(frontier, 8) == "aabbbbbb"
    await frontier.set_host("a.test", session_balance=None)
    assert await fetched(frontier, 4) == "bbbb"


async def test_ready_backlog(fleet):
    """So many hosts share the turns, the others wait; who comes back finds it as it is then."""
    frontier = await fleet(ready_backlog=2, session_balance=0)
    await hosts(frontier, "abcd", 30)
    assert await fetched(frontier, 6) == "ababab"
    await frontier.set_crawl(ready_backlog=1)
    assert sorted([view.state for view in await frontier.hosts()]) == [
        "inactive",
        "inactive",
        "ready",
        "ready",
    ]
    assert await fetched(frontier, 6) == "abbbbb"
    await frontier.set_crawl(ready_backlog=50)
    await hosts(frontier, "e", 3)
    assert await fetched(frontier, 3) == "beb"


async def test_hold_queues_off(fleet):
    """No host waits inactive: not those that did, not for a session, not for the backlog."""
    frontier = await fleet(ready_backlog=1, session_balance=1)
    await hosts(frontier, "abc", 20)
    assert await fetched(frontier, 4) == "aabb"
    await frontier.set_crawl(hold_queues=0)
    assert {view.state for view in await frontier.hosts()} == {"ready"}
    found = await fetched(frontier, 9)
    assert {found.count(name) for name in "abc"} == {3}
    await frontier.set_crawl(hold_queues=1)
    await hosts(frontier, "d", 2)
    assert (await frontier.host("d.test")).state == "inactive"
    off = await fleet("off", ready_backlog=1, session_balance=1, hold_queues=0)
    await hosts(off, "abc", 20)
    assert await fetched(off, 6) == "abcabc"


async def test_precedence_of_the_crawl(fleet):
    """It is that of hosts that have none of their own, beside those that have."""
    frontier = await fleet(precedence=5)
    await frontier.set_host("b.test", precedence=6)
    await frontier.set_host("c.test", precedence=4)
    await hosts(frontier, "abc", 2)
    assert await fetched(frontier, 6) == "ccaabb"
    await frontier.set_crawl(precedence=7)
    await hosts(frontier, "de", 1)
    await hosts(frontier, "bc", 3)
    await frontier.schedule(links("b.test", 1, start=7))
    assert await fetched(frontier, 5) == "cbbde"


async def test_precedence_floor(fleet):
    """From it on there is no turn at all, for hosts that had theirs as well; raised, they have it again."""
    frontier = await fleet(precedence=3)
    await frontier.set_host("b.test", precedence=2)
    await hosts(frontier, "ab", 3)
    await frontier.set_crawl(precedence_floor=3)
    assert await crawl(frontier) == ["b.test/0", "b.test/1", "b.test/2"]
    assert frontier.figures.idle
    assert (await frontier.refresh()).held == 3
    await frontier.set_crawl(precedence_floor=2)
    await hosts(frontier, "b", 4)
    assert await crawl(frontier) == []
    await frontier.set_crawl(precedence_floor=4)
    assert len(await crawl(frontier)) == 4


async def test_snooze_deactivate(fleet):
    """A host that has to wait this long comes back behind those that wait inactive; another goes on."""
    for limit, order in ((HOUR, "bbb"), (HOUR + 1, "aaa")):
        name = f"crawl{limit}"
        frontier = await fleet(name, ready_backlog=1, session_balance=0, retry_delay_max_ms=HOUR)
        await hosts(frontier)
        await frontier.set_host("a.test", snooze_deactivate_ms=limit)
        grant = await lease_one(frontier, seconds=10 * LONG)
        assert grant.host == "a.test"
        await frontier.finish(grant.token, Outcome.SUCCEEDED, host_incident=True, retry_after_ms=HOUR)
        await fleet.forward(HOUR)
        assert await fetched(frontier, 3) == order


# --- costs ----------------------------------------------------------------------------------------

#: What a fetch of a URL costs by zero, unit, wag and anti-calendar.
COSTS = {
    "/": (0, 1, 1, 1),
    "/a?b=1": (0, 1, 2, 1),
    "/a?b=2": (0, 1, 3, 1),  # found on /a?b=1
    "/calendar/": (0, 1, 1, 2),
    "/a?year=7": (0, 1, 2, 2),
    "/MonthView": (0, 1, 1, 2),
    "/today": (0, 1, 1, 2),
    "/updates": (0, 1, 1, 2),
    "/2031/": (0, 1, 1, 2),
    "/1931/": (0, 1, 1, 2),
    "/2031": (0, 1, 1, 1),  # nothing after it
    "/12031/": (0, 1, 1, 1),
    "/3031/": (0, 1, 1, 1),
    "/an-event": (0, 1, 1, 2),
    "/x?yr=3": (0, 1, 2, 2),
    "/au-jour": (0, 1, 1, 2),
    "/eve": (0, 1, 1, 1),
}


@pytest.mark.parametrize("policy", COST_POLICIES)
@pytest.mark.parametrize("of_host", [False, True])
async def test_cost_policies(frontier, policy, of_host):
    """By the crawl's policy or the host's own; it may be another one for each URL."""
    number = parse_knob("cost_policy", policy)
    marking = Codec(marks_paths=True)
    page = marking.decode("a.test", marking.encode_link("http://a.test/a?b=1", 0).data.encode())
    for path, costs in COSTS.items():
        on = page if path == "/a?b=2" else None
        await frontier.schedule([marking.encode_link(f"http://a.test{path}", 1, on)])
        before = view.spent if (view := await frontier.host("a.test")) else 0
        grant = await lease_one(frontier)
        await frontier.set_crawl(cost_policy=1 if of_host else number)
        await frontier.set_host("a.test", cost_policy=number if of_host else None)
        await succeed(frontier, grant)
        spent = (await frontier.host("a.test")).spent - before
        assert (path, spent) == (path, costs[number - 1])


async def test_what_else_costs(fleet):
    """A final failure its penalty besides, as the knob is then; another attempt and a refusal nothing."""
    frontier = await fleet(error_penalty=10, retry_delay_ms=0)
    await hosts(frontier, "a", 20)
    costs = []
    for outcome, knobs, own in (
        (Outcome.FAILED, {}, {}),
        (Outcome.FAILED, {"error_penalty": 3}, {}),
        (Outcome.FAILED, {}, {"error_penalty": 0}),
        (Outcome.FAILED, {"cost_policy": 1}, {"error_penalty": None}),
        (Outcome.RETRY, {}, {}),
        (Outcome.DISREGARDED, {}, {}),
        (Outcome.UNREADABLE, {}, {}),
        (Outcome.SUCCEEDED, {"cost_policy": 2}, {}),
    ):
        grant = await lease_one(frontier)
        await frontier.set_crawl(**knobs)
        await frontier.set_host("a.test", **own)
        before = (await frontier.host("a.test")).spent
        await frontier.finish(grant.token, outcome)
        costs.append((await frontier.host("a.test")).spent - before)
    assert costs == [11, 4, 1, 3, 0, 0, 0, 1]


async def test_total_budget(fleet):
    """Lowered, it retires hosts that have spent more; raised, it wakes them; a host's own goes before it."""
    frontier = await fleet()
    await hosts(frontier, "ab")
    assert await fetched(frontier, 4) == "abab"
    await frontier.set_crawl(total_budget=2)
    assert await lease(frontier) == []
    assert (await frontier.refresh())[:2] == (14, 14)
    assert frontier.figures.idle
    await frontier.set_host("b.test", total_budget=3)
    assert turns(await crawl(frontier)) == "b"
    await frontier.set_crawl(total_budget=4)
    assert turns(await crawl(frontier)) == "aa"
    await frontier.set_host("b.test", total_budget=-1)
    assert turns(await crawl(frontier)) == "bbbbbb"
    assert not frontier.figures.paused
    await frontier.set_crawl(total_budget=-1)
    assert turns(await crawl(frontier)) == "aaaaa"


# --- politeness -----------------------------------------------------------------------------------


async def rest(fleet, frontier, host="a.test", **how) -> int:
    """Fetch one page, and return for how long its host rests then, in ms."""
    grant = await lease_one(frontier, seconds=100 * LONG)
    assert grant.host == host
    outcome = how.pop("outcome", Outcome.SUCCEEDED)
    await frontier.finish(grant.token, outcome, **how)
    wait = (await frontier.host(host)).next_due_ms
    await fleet.forward(wait)
    return wait


def about(ms: int):
    """Return what is near it: the test's own pace is no rest."""
    return pytest.approx(ms - 1000, abs=1000)


async def test_interval(fleet):
    """From start to start; the crawl's, a crawl-delay that is longer, the host's own, each at once."""
    frontier = await fleet(interval_ms=HOUR)
    await hosts(frontier, "a", 20)
    assert await rest(fleet, frontier) == about(HOUR)
    await frontier.set_crawl(interval_ms=2 * HOUR)
    assert await rest(fleet, frontier) == about(2 * HOUR)
    await frontier.set_crawl_delay("a.test", 3 * HOUR)
    await frontier.set_crawl(crawl_delay_max_ms=4 * HOUR)
    assert await rest(fleet, frontier) == about(3 * HOUR)
    await frontier.set_crawl(crawl_delay_max_ms=2 * HOUR + HOUR // 2)
    assert await rest(fleet, frontier) == about(2 * HOUR + HOUR // 2)
    await frontier.set_host("a.test", crawl_delay_max_ms=HOUR)
    assert await rest(fleet, frontier) == about(2 * HOUR)
    await frontier.set_host("a.test", interval_ms=HOUR)
    assert await rest(fleet, frontier) == about(HOUR)
    await frontier.set_host("a.test", interval_ms=None, crawl_delay_max_ms=None)
    assert await rest(fleet, frontier) == about(2 * HOUR + HOUR // 2)
    await frontier.set_crawl_delay("a.test", 0)
    await frontier.set_crawl(interval_ms=0)
    assert await rest(fleet, frontier) == 0


@pytest.mark.parametrize(
    ("knobs", "took", "rests"),
    [
        ({}, HOUR, 0),
        ({"delay_factor": 2.5, "max_delay_ms": 9 * HOUR}, HOUR, 5 * HOUR // 2),
        ({"delay_factor": 2.5, "max_delay_ms": 2 * HOUR}, HOUR, 2 * HOUR),
        ({"delay_factor": 2.5, "max_delay_ms": HOUR, "min_delay_ms": HOUR // 2}, 0, HOUR // 2),
        ({"min_delay_ms": HOUR}, 10, HOUR),
        ({"min_delay_ms": HOUR}, None, 0),  # nothing was asked of the host
        ({"delay_factor": 5, "min_delay_ms": 3000, "max_delay_ms": 30_000}, 10, 3000),
        ({"delay_factor": 5, "min_delay_ms": 3000, "max_delay_ms": 30_000}, 4000, 20_000),
        ({"delay_factor": 5, "min_delay_ms": 3000, "max_delay_ms": 30_000}, HOUR, 30_000),
        ({"interval_ms": 2 * HOUR, "min_delay_ms": HOUR}, 10, 2 * HOUR),
        ({"interval_ms": HOUR, "min_delay_ms": 2 * HOUR}, 10, 2 * HOUR),
    ],
)
async def test_delay(fleet, knobs, took, rests):
    """A multiple of what the fetch took, within bounds; at the start, turned later, or for one host."""
    begun, turned, own = await fleet("begun", **knobs), await fleet("turned"), await fleet("own")
    for frontier in (begun, turned, own):
        await hosts(frontier, "a", 2)
    await turned.set_crawl(**knobs)
    await own.set_host("a.test", **knobs)
    for frontier in (begun, turned, own):
        assert await rest(fleet, frontier, duration_ms=took) == (about(rests) if rests else 0)


async def test_bandwidth_of_a_host(fleet):
    """As long as its bytes take at that rate, KB being 1024 of them; other hosts go on."""
    frontier = await fleet(host_bandwidth_kb=10)
    await hosts(frontier, "a", 9)
    kb = 1024
    assert await rest(fleet, frontier, size=600 * kb) == about(60_000)
    assert await rest(fleet, frontier, size=0) == 0
    await frontier.set_crawl(host_bandwidth_kb=100)
    assert await rest(fleet, frontier, size=6000 * kb) == about(60_000)
    await frontier.set_host("a.test", host_bandwidth_kb=1)
    assert await rest(fleet, frontier, size=600 * kb, outcome=Outcome.FAILED) == about(600_000)
    await frontier.set_host("a.test", host_bandwidth_kb=0)
    assert await rest(fleet, frontier, size=6000 * kb) == 0
    await frontier.set_host("a.test", host_bandwidth_kb=1)
    grant = await lease_one(frontier)
    await frontier.finish(grant.token, Outcome.SUCCEEDED, size=600 * kb)
    await hosts(frontier, "b", 1)
    assert await crawl(frontier) == ["b.test/0"]


async def test_bandwidth_of_all_hosts(fleet):
    """Nothing starts, on whatever host, before the bytes that came would have come at that rate."""
    frontier = await fleet(total_bandwidth_kb=10)
    await hosts(frontier, "abc", 3)
    for grant in await lease(frontier):
        await frontier.finish(grant.token, Outcome.SUCCEEDED, size=204_800)
    granted = await frontier.next("w", 9, LONG)
    assert granted.grants == []
    assert granted.wait_ms == about(60_000)
    await fleet.forward(granted.wait_ms)
    assert len(await lease(frontier, 1)) == 1
    await frontier.set_crawl(total_bandwidth_kb=0)
    await frontier.finish((await lease_one(frontier)).token, Outcome.SUCCEEDED, size=10**9)
    assert len(await lease(frontier, 1)) == 1


async def test_in_flight(fleet):
    """For the crawl and for a host that is busy, up and down, at once."""
    frontier = await fleet()
    await hosts(frontier, "ab", 30)
    grants = await lease(frontier)
    assert turns(sorted(name_of(each) for each in grants)) == "ab"
    await frontier.set_crawl(in_flight=3)
    grants += (more := await lease(frontier))
    assert turns(sorted(name_of(each) for each in more)) == "aabb"
    await frontier.set_host("a.test", in_flight=5)
    grants += (more := await lease(frontier))
    assert turns(sorted(name_of(each) for each in more)) == "aa"
    await frontier.set_crawl(in_flight=1)
    await frontier.set_host("a.test", in_flight=2)
    for left in range(7, -1, -1):
        await succeed(frontier, grants.pop())
        own = {name: (await frontier.host(f"{name}.test")).in_flight for name in "ab"}
        assert sum(own.values()) == left
        if own["a"] >= 2 and own["b"] >= 1:
            assert await lease(frontier) == []
    assert turns(sorted(name_of(each) for each in await lease(frontier))) == "aab"


# --- attempts -------------------------------------------------------------------------------------


async def test_retry_delays(fleet):
    """Exponential from the first step up to the cap, both as they are then, for one host its own."""
    frontier = await fleet(retry_delay_ms=HOUR, retry_delay_max_ms=100 * HOUR)
    await hosts(frontier, "a", 1)

    async def waits(**how) -> float:
        """Return the wait for another attempt, in hours."""
        grant = await lease_one(frontier, seconds=LONG)
        await frontier.finish(grant.token, Outcome.RETRY, **how)
        wait = (await frontier.next("w", 0, LONG)).wait_ms or 0
        await fleet.forward(wait)
        return wait / HOUR

    assert 0.74 < await waits() <= 1.25
    assert 1.49 < await waits() <= 2.5
    await frontier.set_crawl(retry_delay_ms=10 * HOUR)
    assert 29.9 < await waits() <= 50
    await frontier.set_crawl(retry_delay_max_ms=20 * HOUR)
    assert 19.9 < await waits() <= 20
    assert 19.9 < await waits(retry_after_ms=50 * HOUR) <= 20
    assert 2.9 < await waits(retry_after_ms=3 * HOUR) <= 3
    await frontier.set_host("a.test", retry_delay_ms=0)
    assert await waits() == 0
    await frontier.set_host("a.test", retry_delay_ms=HOUR, retry_delay_max_ms=2 * HOUR)
    assert 1.9 < await waits() <= 2
    assert 1.9 < await waits(host_incident=True, retry_after_ms=9 * HOUR) <= 2


async def test_max_kills(fleet):
    """As many as it is when the lease runs out; for one host its own."""
    frontier = await fleet(max_kills=10)
    await hosts(frontier, "ab", 1)

    async def kill() -> int:
        """Let workers die with all that there is; return how many dead letters there are."""
        await lease(frontier, seconds=LONG)
        await fleet.forward(LONG * 1000)
        await frontier.reclaim()
        return (await frontier.refresh()).dead

    assert [await kill() for _ in range(3)] == [0, 0, 0]
    await frontier.set_host("a.test", max_kills=9)
    await frontier.set_crawl(max_kills=5)
    assert [await kill() for _ in range(6)] == [0, 1, 1, 1, 1, 2]
    letters = [(letter.host, letter.reason) async for letter in frontier.dead_letters()]
    assert letters == [("b.test", "killed_its_worker"), ("a.test", "killed_its_worker")]


# --- beginning and end ----------------------------------------------------------------------------


async def test_max_target(fleet):
    """Raised, lowered below what was started, and lifted."""
    frontier = await fleet(max_target=2)
    await hosts(frontier, "a", 9)
    assert len(await crawl(frontier)) == 2
    await frontier.set_crawl(max_target=4)
    assert len(await crawl(frontier)) == 2
    await frontier.set_crawl(max_target=1)
    assert await crawl(frontier) == []
    await frontier.set_crawl(max_target=0)
    assert len(await crawl(frontier)) == 5


async def test_pause_at_start(fleet):
    """A new crawl hands out nothing before somebody resumes; a worker that joins does not."""
    frontier = await fleet(pause_at_start=1)
    await hosts(frontier, "a", 2)
    assert frontier.figures.paused
    assert await lease(await fleet(pause_at_start=0)) == []
    await frontier.resume()
    await fleet(pause_at_start=1)
    await frontier.set_crawl(pause_at_start=1)
    assert len(await crawl(frontier)) == 2


async def test_pause_at_finish(fleet):
    """It pauses once all is through; resumed, it goes on with what was added, and may end."""
    frontier = await fleet()
    assert await lease(frontier) == []
    await frontier.set_crawl(pause_at_finish=1)
    assert await lease(frontier) == []
    assert not frontier.figures.paused  # it has not begun
    await hosts(frontier, "ab", 1)
    grants = await lease(frontier)
    await succeed(frontier, grants[0])
    assert await lease(frontier) == []
    assert not frontier.figures.paused
    await succeed(frontier, grants[1])
    assert not await frontier.seal()
    assert await lease(frontier) == []
    assert frontier.figures.paused
    await hosts(frontier, "c", 1)
    assert await lease(frontier) == []
    await frontier.resume()
    assert await crawl(frontier) == ["c.test/0"]
    assert not frontier.figures.paused
    await hosts(frontier, "d", 1)
    assert await crawl(frontier) == ["d.test/0"]
    assert frontier.figures.paused
    await frontier.resume()
    assert await lease(frontier) == []
    assert await frontier.seal()


async def test_pause_at_finish_that_is_not_wanted_any_more(fleet):
    """Turned off before the end, the crawl ends; a stop ends it either way."""
    for name, ends in (("off", True), ("stopped", True), ("on", False)):
        frontier = await fleet(name, pause_at_finish=1)
        await hosts(frontier, "a", 1)
        await succeed(frontier, await lease_one(frontier))
        if name == "off":
            await frontier.set_crawl(pause_at_finish=0)
        elif name == "stopped":
            await frontier.stop("why")
        assert await lease(frontier) == []
        assert await frontier.seal() is ends
