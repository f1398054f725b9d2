"""What an operator does to a crawl that runs: `host`, `tune`, `pending`, `dead`, `pause`, `resume`."""

import asyncio
import contextlib
import json

import pytest

from crawlproj import cli
from crawlproj.crawls import control
from crawlproj.frontier.codec import Codec
from crawlproj.frontier.pending import dump_to, pending_path
from crawlproj.frontier.records import Outcome
from crawlproj.knobs import KNOBS, LIMITS

CODEC = Codec()


@pytest.fixture
async def frontier(made_frontier):
    """Yield the frontier of a started crawl `a`, with links on two hosts and a limit on kills of 1."""
    frontier = await made_frontier(MIN_INTERVAL_MS=0)
    urls = [*(f"http://a.test/{n}" for n in range(7)), "http://b.test/x"]
    await frontier.schedule([CODEC.encode_link(url, 1) for url in urls])
    return frontier


@pytest.fixture
def run(scrapy_here):
    """Return a function that runs a command beside the test's event loop."""

    async def command(*args, code=0):
        done = await asyncio.to_thread(scrapy_here, *args)
        assert done.code == code, done.err
        return done

    return command


# --- host -------------------------------------------------------------------------------------------


async def test_host_shows_everything(run, frontier):
    """Its fields, its own knobs, whether it is blocked, and what comes next; piped, a value a line."""
    await frontier.set_host("a.test", interval_ms=2000, cost_policy=1)
    (row,) = (await run("host", "a", "a.test", "--json")).json
    assert (row["state"], row["queued"], row["min_interval_ms"], row["interval_source"]) == (
        "ready", 7, 2000, "host",
    )  # fmt: skip
    assert row["knobs"] == {"interval_ms": 2000, "cost_policy": "zero"}
    assert row["blocked"] is False
    assert row["next_urls"] == [f"http://a.test/{n}" for n in range(5)]
    piped = dict(line.split("\t") for line in (await run("host", "a", "a.test")).lines)
    assert (piped["queued"], piped["knobs.interval_ms"], piped["blocked"]) == ("7", "2000", "false")


async def test_host_is_changed_live(run, frontier):
    """Block, interval, budget, precedence and any other knob of a host, and back again."""
    (row,) = (await run(
        "host", "a", "a.test", "--block", "--interval", "3000", "--budget", "50", "--precedence", "7",
        "--set", "max_attempts=2", "--set", "retry_delay_ms=9", "--json",
    )).json  # fmt: skip
    assert (row["state"], row["blocked"]) == ("retired", True)
    assert await frontier.host_knobs("a.test") == {
        "blocked": 1, "interval_ms": 3000, "total_budget": 50, "precedence": 7, "max_attempts": 2,
        "retry_delay_ms": 9,
    }  # fmt: skip
    granted = await frontier.next("w", 10, 60)
    assert {grant.host for grant in granted.grants} == {"b.test"}
    knobs = ["--unset", "interval_ms", "--unset", "total_budget", "--unset", "precedence"]
    (row,) = (await run("host", "a", "a.test", "--unblock", *knobs, "--json")).json
    assert (row["state"], row["knobs"]) == ("ready", {"max_attempts": 2, "retry_delay_ms": 9})


async def test_host_that_was_not_met_yet(run, frontier):
    """It can be blocked before its first link comes."""
    await run("host", "a", "new.test", "--block")
    await frontier.schedule([CODEC.encode_link("http://new.test/", 1)])
    view = await frontier.host("new.test")
    assert (view.state, view.queued) == ("retired", 1)


async def test_host_is_deleted(run, frontier):
    """Its queue is forgotten, and how much that was is said."""
    (row,) = (await run("host", "a", "a.test", "--delete", "--json")).json
    assert row == {"host": "a.test", "deleted": 7}
    assert await frontier.host("a.test") is None
    assert (await frontier.refresh()).queued == 1
    assert "no host 'a.test'" in (await run("host", "a", "a.test", "--delete", code=3)).err


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (["a.tst"], 3, "crawl 'a' has no host 'a.tst'; the nearest name is 'a.test'"),
        (["a.test", "--interval", "fast"], 2, "interval_ms must be a whole number, at least 0, not 'fast'"),
        (["a.test", "--budget", "-2"], 2, "total_budget must be a whole number, at least -1"),
        (["a.test", "--set", "interval_ms"], 2, "a knob is turned with KNOB=VALUE, not 'interval_ms'"),
        (["a.test", "--set", "max_target=1"], 2, "there is no knob of a host 'max_target'"),
        (["a.test", "--unset", "nothing"], 2, "there is no knob of a host 'nothing'"),
        (["a.test", "--interval", "1", "--set", "interval_ms=2"], 2, "given twice, with different values"),
        (["a.test", "--interval", "1", "--unset", "interval_ms"], 2, "cannot be set and unset at once"),
        (["a.test", "--block", "--unblock"], 2, "contradict each other"),
        (["a.test", "--delete", "--interval", "1"], 2, "--delete forgets the host with all its knobs"),
        (["http://a.test/"], 2, "'http://a.test/' is no host"),
        (["a\nb", "--block"], 2, r"'a\nb' is no host"),
        (["a\x1b[31mb", "--interval", "5"], 2, "is no host"),
        (["", "--block"], 2, "'' is no host"),
        (
            ["a.test", "--precedence", "1024"],
            2,
            "precedence must be a whole number from 0 to 1023, not '1024'",
        ),
        (["a.test", "--precedence", "-1"], 2, "precedence must be a whole number from 0 to 1023, not '-1'"),
        (["a.test", "--set", "cost_policy=dear"], 2, "cost_policy must be one of zero, unit, wag"),
    ],
)
async def test_host_refuses(run, frontier, words, code, sentence):
    """One sentence, and nothing is changed."""
    done = await run("host", "a", *words, code=code)
    assert sentence in done.err
    assert len(done.err.splitlines()) == 1
    assert done.err.rstrip("\n").isprintable()
    assert await frontier.host_knobs("a.test") == {}


# --- tune -------------------------------------------------------------------------------------------


async def test_tune_lists_every_knob(run, frontier):
    """Value, setting and meaning of each."""
    rows = (await run("tune", "a", "--json")).json
    assert [row["knob"] for row in rows] == list(KNOBS)
    by_name = {row["knob"]: row for row in rows}
    assert by_name["max_attempts"]["value"] == 5
    assert by_name["cost_policy"]["value"] == "unit"
    assert by_name["pause_at_finish"]["value"] == "off"
    assert by_name["interval_ms"]["setting"] == "MIN_INTERVAL_MS"
    assert all(len(line.split("\t")) == 4 for line in (await run("tune", "a")).lines)


async def test_tune_turns_live(run, frontier):
    """What is given is turned, and shown as it is then."""
    rows = (await run("tune", "a", "interval_ms=700", "cost_policy=wag", "--json")).json
    assert [(row["knob"], row["value"]) for row in rows] == [("interval_ms", 700), ("cost_policy", "wag")]
    assert (await frontier.crawl_knobs())["interval_ms"] == 700


@pytest.mark.parametrize(
    ("word", "sentence"),
    [
        ("speed=1", "there is no knob 'speed'; there are: interval_ms"),
        ("interval_ms=-1", "interval_ms must be a whole number, at least 0, not '-1'"),
        ("hold_queues=perhaps", "hold_queues must be one of off, on, not 'perhaps'"),
        ("interval_ms", "a knob is turned with KNOB=VALUE, not 'interval_ms'"),
        ("total_budget=-2", "total_budget must be a whole number, at least -1, not '-2'"),
        ("precedence=1024", "precedence must be a whole number from 0 to 1023, not '1024'"),
        ("cost_policy=dear", "cost_policy must be one of zero, unit, wag, anti-calendar, not 'dear'"),
    ],
)
async def test_tune_refuses(run, frontier, word, sentence):
    """One wrong value, and none is turned."""
    before = await frontier.crawl_knobs()
    done = await run("tune", "a", "max_kills=3", word, code=2)
    assert sentence in done.err
    assert await frontier.crawl_knobs() == before


async def test_a_stop_is_final(run, frontier):
    """While a run stops its limits are refused, with the reason; other knobs are for what comes after it."""
    await frontier.set_crawl(max_target=1)
    await frontier.stop("ExceedTargetsCountLimit")
    before = await frontier.crawl_knobs()
    done = await run("tune", "a", "max_target=10", "interval_ms=9", code=4)
    assert (
        "run 1, stops already (ExceedTargetsCountLimit), and a stop is final: max_target cannot" in done.err
    )
    assert await frontier.crawl_knobs() == before
    done = await run("tune", "a", "interval_ms=9", "max_urls=7")
    assert "counts for a run that goes on with its queue" in done.err
    assert (await run("tune", "a")).err == ""


async def test_tune_of_a_kept_queue(run, frontier, database):
    """Of a sealed run whose queue is kept, knobs reach the run that goes on with it; limits never do."""
    await frontier.stop("ExceedTargetsCountLimit")
    assert await frontier.seal()
    database.execute("UPDATE crawl SET status = 'sealed', retry_at = NULL, kept = true")
    before = await frontier.crawl_knobs()
    assert "is sealed: max_urls cannot change it" in (await run("tune", "a", "max_urls=9", code=4)).err
    assert await frontier.crawl_knobs() == before
    assert "is sealed; what is turned now counts" in (await run("tune", "a", "interval_ms=9")).err
    assert await frontier.reopen(2, dict.fromkeys(LIMITS, 0))
    assert (await frontier.crawl_knobs())["interval_ms"] == 9


# --- pending and dead -------------------------------------------------------------------------------


async def test_pending_lists_the_queues_in_order(run, frontier):
    """Every URL once, with its depth and attempts; --host and --limit cut; leased ones are not there."""
    (grant,) = (await frontier.next("w", 1, 60)).grants
    rows = (await run("pending", "a", "--json")).json
    leased = CODEC.decode(grant.host, grant.entry).url
    assert leased not in {row["url"] for row in rows}
    assert len(rows) == 7
    assert list(rows[0]) == ["host", "url", "depth", "priority", "attempts", "source_tag", "waits"]
    await frontier.finish(grant.token, Outcome.RETRY)
    waiting = [row for row in (await run("pending", "a", "--json")).json if row["waits"]]
    assert [(row["url"], row["attempts"], row["depth"]) for row in waiting] == [(leased, 1, 1)]
    lines = (await run("pending", "a", "--host", "a.test", "--limit", "2")).lines
    assert [line.split("\t")[0] for line in lines] == ["a.test", "a.test"]
    assert "nothing queued there" in (await run("pending", "a", "--host", "c.test")).err


async def test_pending_is_dumped(frontier, tmp_path):
    """A file of JSON lines, which is there as a whole or not at all."""
    path = pending_path(tmp_path, "a/b", 3)
    assert path.parent.parent == tmp_path
    long = [pending_path(tmp_path, name, 3).name for name in ("日" * 200, "日" * 199, "news", "日")]
    assert len(set(long)) == 4
    assert max(len(each.encode()) for each in long) < 240
    assert long[2:] == ["news-3.jsonl", "日-3.jsonl"]
    assert await dump_to(frontier, CODEC, path) == 8
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert {row["url"] for row in rows} >= {"http://b.test/x", "http://a.test/6"}
    assert [each.name for each in path.parent.iterdir()] == [path.name]

    class Broken:
        async def dump_pending(self, host=None):
            async for each in frontier.dump_pending(host):
                yield each
                raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        await dump_to(Broken(), CODEC, path)
    assert [each.name for each in path.parent.iterdir()] == [path.name]
    assert len(path.read_text().splitlines()) == 8
    await frontier.drop()
    assert await dump_to(frontier, CODEC, path) is None
    assert [each.name for each in path.parent.iterdir()] == [path.name]
    assert len(path.read_text().splitlines()) == 8


async def test_dead_letters_are_listed_and_queued_again(run, frontier):
    """With their reasons; those that --reason and --host leave are queued as if they were new."""
    for host, reason in (("a.test", Outcome.UNREADABLE), ("b.test", Outcome.UNREADABLE)):
        grants = (await frontier.next("w", 9, 60)).grants
        (token,) = [grant.token for grant in grants if grant.host == host]
        await frontier.finish(token, reason)
        await frontier.release("w", [grant.token for grant in grants])
    rows = (await run("dead", "a", "--json")).json
    assert list(rows[0]) == ["id", "host", "url", "reason", "attempts", "at"]
    assert [(row["host"], row["reason"]) for row in rows] == [
        ("a.test", "unreadable"), ("b.test", "unreadable"),
    ]  # fmt: skip
    assert rows[0]["url"].startswith("http://a.test/")
    assert (await run("dead", "a", "--reason", "killed_its_worker")).out == ""
    (done,) = (await run("dead", "a", "--host", "b.test", "--requeue", "--json")).json
    assert done == {"requeued": 1}
    assert [row["host"] for row in (await run("dead", "a", "--json")).json] == ["a.test"]
    assert (await frontier.refresh()).dead == 1
    assert "1 queued again" in (await run("dead", "a", "--requeue")).out
    assert "has no dead letter" in (await run("dead", "a")).err


@pytest.mark.parametrize("command", ["tune", "pending", "dead"])
async def test_without_a_frontier(run, add_crawl, command):
    """Unknown, over, not begun and lost are four different sentences."""
    add_crawl("over", status="sealed")
    add_crawl("lost")
    assert "there is no crawl 'nobody'" in (await run(command, "nobody", code=3)).err
    assert "is sealed" in (await run(command, "over", code=4)).err
    assert "`scrapy rebuild lost`" in (await run(command, "lost", code=4)).err


# --- pause and resume -------------------------------------------------------------------------------


async def test_pause_and_resume(run, frontier, database):
    """Row and frontier together; nothing is leased meanwhile; both may be said twice."""
    (grant,) = (await frontier.next("w", 1, 60)).grants
    for _ in range(2):
        done = await run("pause", "a")
        assert done.out == "paused · 1 in flight finish · resume with: scrapy resume a\n"
    assert database.execute("SELECT status FROM crawl").fetchone() == ("paused",)
    await frontier.finish(grant.token, Outcome.SUCCEEDED)
    assert (await frontier.next("w", 9, 60)).grants == []
    assert not await frontier.seal()
    for _ in range(2):
        assert (await run("resume", "a")).out.startswith("resumed · 7 queued · no worker is on it")
    assert database.execute("SELECT status FROM crawl").fetchone() == ("queued",)
    assert len((await frontier.next("w", 9, 60)).grants) == 2


async def test_resume_of_a_crawl_that_paused_itself(run, frontier, database):
    """A frontier that pauses at its start or its finish is resumed as well, whatever its row says."""
    await frontier.pause()
    await run("resume", "a")
    assert not (await frontier.refresh()).paused
    assert database.execute("SELECT status FROM crawl").fetchone() == ("started",)


@pytest.mark.parametrize(
    ("before", "command", "other", "status"),
    [("resume", "pause", "resume", "queued"), ("pause", "resume", "pause", "paused")],
)
async def test_somebody_else_between_the_two_steps(
    run, frontier, database, monkeypatch, before, command, other, status
):
    """Whoever changes the row last decides: the frontier follows it, and the command says how it is."""
    (crawl_id,) = database.execute("SELECT id FROM crawl").fetchone()
    opened = cli.open_frontier

    @contextlib.asynccontextmanager
    async def late(addresses, frontier_id):
        monkeypatch.setattr(cli, "open_frontier", opened)
        getattr(control, other)(database, crawl_id)
        async with opened(addresses, frontier_id) as theirs:
            await getattr(theirs, other)()
        async with opened(addresses, frontier_id) as found:
            yield found

    await run(before, "a")
    monkeypatch.setattr(cli, "open_frontier", late)
    done = await run(command, "a")
    assert done.out == f"{command}d, and {status} again: somebody else has been at it, too\n"
    assert database.execute("SELECT status FROM crawl").fetchone() == (status,)
    assert (await frontier.refresh()).paused == (status == "paused")


@pytest.mark.parametrize("command", ["pause", "resume"])
async def test_pause_and_resume_refuse(run, add_crawl, command):
    """What is over stays over, what is unknown is not found."""
    add_crawl("over", status="sealed")
    assert f"is sealed and cannot be {command}d" in (await run(command, "over", code=4)).err
    assert (await run(command, "nobody", code=3)).out == ""
    assert "an argument is missing" in (await run(command, code=2)).err
