"""`scrapy add`: what it keeps, what it says, what it refuses."""

import re
from datetime import timedelta

import pytest

URL = "https://a.example/"


@pytest.fixture
def own_spiders(tmp_path, monkeypatch):
    """Return a function that makes a module of spiders, and the option that names it."""
    monkeypatch.syspath_prepend(tmp_path)

    def make(name, source):
        (tmp_path / f"{name}.py").write_text(source)
        return ["--set", f"SPIDER_MODULES={name}"]

    return make


def rows(database):
    columns = "name, run, spider, status, config, label, tags, repeat_seconds"
    return database.execute(f"SELECT {columns} FROM crawl ORDER BY id").fetchall()


def test_added(scrapy_here, site, database, tmp_path):
    """A queued run with all that it was asked for; nothing is fetched, and no frontier is made."""
    seeds = tmp_path / "seeds.txt"
    seeds.write_text(f"{site.url}/1\n# no seed\n{site.url}/2\n")
    done = scrapy_here(
        "add", "news", f"{site.url}/", f"@{seeds}", f"{site.url}/2", "--depth", "3", "--max-urls", "50",
        "--allow", "127.0.0.1", "--allow", "/a,b/", "--deny", "(print)", "--tag", "News", "--tag", "tw",
        "--tag", "NEWS", "--label", "The news", "--set", "MIN_INTERVAL_MS=300", "-a", "scope=any",
        "--every", "1d",
    )  # fmt: skip
    assert (done.code, done.err) == (0, "")
    assert done.out == (
        "added news, run 1 · spider site · 3 seeds · every 1d · starts with the next scrapy run\n"
    )
    config = {
        "arguments": {
            "seeds": f"{site.url}/\n{site.url}/1\n{site.url}/2",
            "scope": "any",
            "depth": "3",
        },
        "settings": {"MAX_URLS": 50, "MIN_INTERVAL_MS": "300"},
        "allow": ["127.0.0.1", "/a,b/"],
        "deny": ["(print)"],
        "max_depth": 3,
        "redacted": [],
        "recovery_log": True,
    }
    (row,) = rows(database)
    assert row == ("news", 1, "site", "queued", config, "The news", ["news", "tw"], 86_400)
    assert database.execute("SELECT retry_at <= now() FROM crawl").fetchone() == (True,)
    assert not site.hits


def test_json(scrapy_here, database):
    """One object; the times are in UTC."""
    (row,) = scrapy_here("add", "news", URL, "--tag", "B", "--tag", "a", "--json").json
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+Z", row.pop("retry_at"))
    assert row == {
        "id": database.execute("SELECT id FROM crawl").fetchone()[0],
        "name": "news", "run": 1, "spider": "site", "status": "queued", "seeds": 1, "tags": ["a", "b"],
        "label": None,
    }  # fmt: skip


def test_paused_and_piped(scrapy_here, database):
    """A run can wait for a person; the line says what lets it go on."""
    done = scrapy_here("add", "the news", URL, "--paused")
    assert "paused, let it go on with: scrapy resume 'the news'" in done.out
    assert [row[3] for row in rows(database)] == ["paused"]


def test_spider_without_seeds(scrapy_here, own_spiders, database):
    """Of a spider that takes no `seeds` URLs are kept beside its arguments; without any it starts as ever."""
    module = own_spiders(
        "add_plain",
        "from scrapy import Spider\n"
        "class Plain(Spider):\n"
        "    name = 'plain'\n"
        "    start_urls = ['https://own.example/']\n",
    )
    done = scrapy_here("add", "a", URL, "--spider", "plain", "-a", "x=1", *module)
    assert (done.code, "1 seed ·" in done.out) == (0, True), done.err
    done = scrapy_here("add", "b", "--spider", "plain", "--depth", "2", *module)
    assert (done.code, "seed" in done.out) == (0, False), done.err
    first, second = (row[4] for row in rows(database))
    assert (first["seeds"], first["arguments"]) == ([URL], {"x": "1"})
    assert ("seeds" in second, second["arguments"], second["max_depth"]) == (False, {}, 2)


def test_arguments_that_a_spider_does_not_take(scrapy_here, own_spiders, database):
    """Nor one that it needs and does not get: a worker would break on it."""
    module = own_spiders(
        "add_strict",
        "from scrapy import Spider\n"
        "class Strict(Spider):\n"
        "    name = 'strict'\n"
        "    def __init__(self, category):\n"
        "        super().__init__()\n",
    )
    for words, what in (((), "missing a required argument: 'category'"), (("-a", "x=1"), "")):
        done = scrapy_here("add", "a", "--spider", "strict", *words, *module)
        assert (done.code, done.err.startswith(f"scrapy add: spider 'strict': {what}")) == (2, True), done.err
    assert rows(database) == []
    assert scrapy_here("add", "a", "--spider", "strict", "-a", "category=x", *module).code == 0


def test_misspelt_setting(scrapy_here):
    """A setting that looks like a known one is pointed at when it is given, not first when the crawl runs."""
    done = scrapy_here("add", "news", URL, "--set", "MAX_TARGETS=1", "--set", "OF_A_SPIDER=1")
    assert (done.code, done.err) == (
        0, "scrapy add: nothing reads the setting MAX_TARGETS; is MAX_TARGET meant?\n"
    )  # fmt: skip


def test_open_run(scrapy_here, database):
    """A name has one open run."""
    assert scrapy_here("add", "news", URL).code == 0
    done = scrapy_here("add", "news", URL)
    assert done.code == 4
    assert done.err == (
        "scrapy add: crawl 'news' has an open run: `scrapy run news` works it, `scrapy cancel news` ends it\n"
    )
    database.execute("UPDATE crawl SET status = 'sealed', retry_at = NULL")
    assert "added news, run 2" in scrapy_here("add", "news", URL).out


@pytest.mark.parametrize(
    ("args", "code", "sentence"),
    [
        ((), 2, "an argument is missing"),
        (("news",), 2, "no seeds: put URLs or @FILE after the name"),
        (("news", "a.example"), 2, "has no scheme; write https://a.example"),
        (("news", "ftp://a.example/"), 2, "is no http or https URL"),
        (("news", "@/nowhere"), 2, "cannot be read"),
        (("n\x07", URL), 2, "CRAWL_NAME must be"),
        (("", URL), 2, "a crawl needs a name to be found by"),
        (("news", URL, "--set", "RETRY_HTTP_CODES=[500]"), 2, "RETRY_HTTP_CODES must be numbers"),
        (("news", URL, "--set", 'EXTENSIONS={"no.such.One": 1}'), 2, "cannot be loaded: ModuleNotFoundError"),
        (("news", URL, "--spider", "nobody"), 3, "there is no spider 'nobody'"),
        (("news", URL, "--depth", "-1"), 2, "must be 0 or more"),
        (("news", URL, "--depth", "x"), 2, "must be a whole number"),
        (("news", URL, "--depth", "2", "-a", "depth=3"), 2, "depth is given twice"),
        (("news", URL, "-a", f"seeds={URL}"), 2, "seeds is given twice"),
        (("news", URL, "--max-urls", "many"), 2, "must be a whole number"),
        (("news", URL, "--set", "MAX_TARGET=none"), 2, "MAX_TARGET must be"),
        (("news", URL, "--set", "LOG_LEVEL=DEBUG"), 2, "use `scrapy run … -s LOG_LEVEL=…`"),
        (("news", URL, "-s", 'FEEDS={"/x":{"format":"csv"}}'), 2, "use `scrapy run … -s FEEDS=…`"),
        (("news", URL, "--set", "CRAWL_NAME=other"), 2, "use `scrapy crawl … -s CRAWL_NAME=…`"),
        (("news", URL, "--set", "MAX_TARGET"), 2, "Invalid -s value"),
        (("news", URL, "--allow", "("), 2, "CRAWL_ALLOW must be"),
        (("news", URL, "--deny", ".*x"), 2, "rule '.*x' is no domain"),
        (("news", URL, "-a", "scope=moon"), 2, "scope must be one of"),
        (("news", URL, "-a", "flavour=x"), 2, "there is no argument 'flavour'"),
        (("news", URL, "-a", "scope"), 2, "-a takes NAME=VALUE, not 'scope'"),
        (("news", URL, "--tag", " "), 2, "--tag must be"),
        (("news", URL, "--tag", "a,b"), 2, "--tag is one tag, without commas"),
        (("news", URL, "--label", "a\nb"), 2, "--label must be"),
        (("news", URL, "--every", "0s"), 2, "must be a time like"),
        (("news", URL, "--every", "1y"), 2, "must be a time like"),
        (("news", URL, "--every", "999999w"), 2, "must be a time like"),
        (("news", "https://me:hunter2@a.example/"), 2, "a login or a secret is in 'https://a.example/'"),
        (("news", f"{URL}?token=hunter2"), 2, "token=***"),
        (("news", URL, "--set", "FTP_PASSWORD=hunter2"), 2, "FTP_PASSWORD: a secret"),
        (("news", URL, "--set", "HTTP_PROXY=http://me:hunter2@p.example"), 2, "HTTP_PROXY: a secret"),
    ],
)  # fmt: skip
def test_refused(scrapy_here, database, args, code, sentence):
    """Whatever is wrong: one sentence, its exit code, and nothing is written."""
    done = scrapy_here("add", *args)
    assert (done.code, done.out, done.err.count("\n")) == (code, "", 1), done.err
    assert sentence in done.err
    assert "hunter2" not in done.err
    assert rows(database) == []


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        (
            "import scrapy\n\nfoo(1)\n",
            r"\(.*add_broken_0\.py, line 3\): NameError: name 'foo' is not defined",
        ),
        ("x = = 1\n", r"\(.*add_broken_1\.py, line 1\): SyntaxError: invalid syntax"),
        ("import nothing_of_that_name\n", r"\(.*add_broken_2\.py, line 1\): ModuleNotFoundError: No module"),
    ],
    ids=["name", "syntax", "module"],
)
@pytest.mark.parametrize("command", [("add", "news", URL), ("crawl", "site", "-a", f"seeds={URL}")])
def test_spiders_that_cannot_be_imported(scrapy_here, own_spiders, database, command, source, sentence):
    """One sentence says in which line of which file, also for `scrapy crawl`."""
    name = re.search(r"add_broken_\d", sentence)[0]
    done = scrapy_here(*command, *own_spiders(name, source))
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1), done.err
    assert re.search(f"the spiders cannot be imported {sentence}", done.err)
    assert rows(database) == []


def test_secret_argument(scrapy_here, own_spiders, database):
    """A spider's password is refused, with a word on where it belongs."""
    module = own_spiders("add_key", "from scrapy import Spider\nclass Key(Spider):\n    name = 'key'\n")
    done = scrapy_here("add", "a", "--spider", "key", "-a", "api_key=hunter2", *module)
    assert (done.code, done.out) == (2, "")
    assert "api_key: a secret, and what is added is stored; put it into the environment" in done.err
    assert rows(database) == []


def test_due_when_its_time_comes(scrapy_here, database):
    """`--every` repeats from start to start: the first run is due at once."""
    assert scrapy_here("add", "news", URL, "--every", "12h").code == 0
    row = database.execute(
        "SELECT repeat_seconds, scheduled_at = retry_at, now() - retry_at FROM crawl"
    ).fetchone()
    assert row[:2] == (43_200, True)
    assert timedelta(0) <= row[2] < timedelta(minutes=5)
