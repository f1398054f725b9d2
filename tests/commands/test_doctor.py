"""`scrapy doctor`."""

import pytest

from crawlproj.commands.doctor import find_browser
from crawlproj.connections import open_redis_sync


def verdicts(done):
    (report,) = done.json
    return report, {check["check"]: check["verdict"] for check in report["checks"]}


def test_everything_in_order(scrapy):
    """Servers that answer with the right schema and settings: exit code 0, versions named."""
    done = scrapy("doctor", "--json")
    report, found = verdicts(done)
    assert done.code == 0, done.err
    assert report["ok"] is True
    assert found["versions"] == found["settings"] == found["PostgreSQL"] == found["schema"] == "ok"
    assert found["spiders"] == "ok"
    piped = scrapy("doctor")
    assert piped.code == 0
    assert all(len(line.split("\t")) == 4 for line in piped.lines)


def test_redis_that_evicts(scrapy, redis_url):
    """A Redis that may throw away URLs is a FAIL, with the command that helps, and exit code 6."""
    client = open_redis_sync(redis_url)
    client.config_set("maxmemory-policy", "allkeys-lru")
    try:
        done = scrapy("doctor", "--json")
    finally:
        client.config_set("maxmemory-policy", "noeviction")
        client.close()
    report, _ = verdicts(done)
    (check,) = [check for check in report["checks"] if check["check"].endswith("eviction")]
    assert done.code == 6
    assert (check["verdict"], check["fix"]) == ("FAIL", "CONFIG SET maxmemory-policy noeviction")


def test_schema_that_is_missing(scrapy, database):
    """A given database without the schema is a FAIL, with the command that helps."""
    database.execute("UPDATE schema_version SET number = 0")
    done = scrapy("doctor")
    assert done.code == 6
    assert "FAIL\tschema" in done.out
    assert "scrapy migrate" in done.out


def test_server_that_is_away(scrapy):
    """A server that does not answer is a FAIL without its password, and the other checks go on."""
    done = scrapy("doctor", "--json", REDIS_URL="redis://:s3cret@127.0.0.1:1/0")
    _, found = verdicts(done)
    assert done.code == 6
    assert found["servers"] == "FAIL"
    assert "Chromium" in found
    assert "s3cret" not in done.out + done.err


def test_setting_that_cannot_be(scrapy):
    """A setting with an impossible value is named."""
    done = scrapy("doctor", "-s", "MAX_TARGET=abc")
    assert done.code == 6
    assert "FAIL\tsettings\tsetting MAX_TARGET" in done.out


def test_spider_that_does_not_load(scrapy, tmp_path):
    """A spider file that raises when it is imported is a FAIL, not a traceback."""
    (tmp_path / "broken_spiders.py").write_text("raise RuntimeError('boom')")
    done = scrapy("doctor", "-s", "SPIDER_MODULES=broken_spiders", PYTHONPATH=f"{tmp_path}")
    assert done.code == 6
    assert "RuntimeError: boom" in done.out
    assert "Traceback" not in done.out + done.err


@pytest.mark.parametrize("name", ["chromium-headless-shell", "chromium", "google-chrome"])
def test_browser_on_path(tmp_path, name):
    """A browser is found on PATH under its usual names, and a given path goes before it."""
    program = tmp_path / name
    program.write_text("")
    program.chmod(0o755)
    assert find_browser(None, {"PATH": str(tmp_path)}) == program
    assert find_browser(str(program), {"PATH": ""}) == program
    assert find_browser(str(tmp_path / "nothing"), {"PATH": str(tmp_path)}) is None


def test_browser_of_playwright(tmp_path):
    """Playwright's own browser is found last, the newest of several."""
    for build in ("1100", "1200"):
        folder = tmp_path / f"chromium_headless_shell-{build}" / "chrome-linux"
        folder.mkdir(parents=True)
        (folder / "headless_shell").write_text("")
    environment = {"PATH": "", "PLAYWRIGHT_BROWSERS_PATH": str(tmp_path)}
    assert "1200" in str(find_browser(None, environment))
