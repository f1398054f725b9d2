"""Which queue a host's URLs wait in."""

from __future__ import annotations

import subprocess
import sys

import pytest

from crawlproj.exceptions import BadSetting
from crawlproj.frontier.assignment import Assignment, is_address, is_name

GROUPS = {
    "farm": ["a.example", "*.b.example"],
    "port": ["a.example:81"],
    "x": ["x.b.example", "BÜCHER.example"],
}


@pytest.mark.parametrize(
    ("policy", "url", "queue"),
    [
        ("hostname", "http://www.example.org/", "www.example.org"),
        ("hostname", "http://www.example.org:81/", "www.example.org:81"),
        ("registered-domain", "http://a.b.example.co.uk:81/", "example.co.uk"),
        ("registered-domain", "https://somebody.github.io/", "somebody.github.io"),
        ("registered-domain", "http://github.io/", "github.io"),
        ("registered-domain", "http://127.0.0.1:8080/", "127.0.0.1:8080"),
        ("registered-domain", "http://[::1]:8080/", "[::1]:8080"),
        ("registered-domain", "http://localhost/", "localhost"),
        ("surt", "http://www.example.org/", "org,example,www,"),
        ("surt", "https://www.example.org:8443/", "org,example,www,#8443"),
        ("surt", "http://localhost/", "localhost,"),
        ("surt", "http://127.0.0.1:8080/", "127.0.0.1#8080"),
        ("surt", "http://[::1]:81/", "[::1]#81"),
        ("ip", "http://www.example.org/", "www.example.org"),
        ("bucket:1", "http://www.example.org/", "bucket-0"),
    ],
)
def test_policies(policy, url, queue):
    """One URL, one queue."""
    assert Assignment(policy).queue(url) == queue


def test_buckets():
    """Hosts are shared out evenly, all ports of one together, and every process does it the same way."""
    queue = Assignment("bucket:16").queue
    found = [queue(f"http://h{n}.example/") for n in range(1600)]
    assert {found.count(f"bucket-{n}") > 60 for n in range(16)} == {True}
    assert queue("http://h1.example:81/") == found[1]
    code = (
        "from crawlproj.frontier.assignment import Assignment;"
        "print(*(Assignment('bucket:16').queue(f'http://h{n}.example/') for n in range(20)))"
    )
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": "."},
            stdout=-1,
            check=True,
        )
        assert done.stdout.decode().split() == found[:20]


@pytest.mark.parametrize(
    ("host", "group"),
    [
        ("a.example", "farm"),
        ("a.example:82", "farm"),
        ("a.example:81", "port"),
        ("y.b.example", "farm"),
        ("y.y.b.example:81", "farm"),
        ("x.b.example", "x"),
        ("z.x.b.example", "farm"),
        ("xn--bcher-kva.example", "x"),
        ("b.example", None),
        ("xb.example", None),
        ("sub.a.example", None),
    ],
)
def test_groups(host, group):
    """A whole name goes before an end of one, a port before none; `*.` means what is below."""
    for policy, otherwise in (("hostname", host), ("registered-domain", None)):
        assignment = Assignment(policy, GROUPS)
        assert assignment.group(host) == group
        queue = assignment.queue(f"http://{host}/")
        assert queue == (group or otherwise or {"b.example": "b.example"}.get(host, queue))


def test_a_forced_queue_takes_everything():
    """Whatever policy and groups say."""
    assignment = Assignment("ip", GROUPS, "all of it")
    assert {assignment.queue(url) for url in ("http://a.example/", "https://other.example:1/")} == {
        "all of it"
    }
    assert not assignment.by_address


def test_what_is_fixed_is_told_in_short():
    """Setting by setting; many groups as their number and a digest that changes with them."""
    assert Assignment().fixed() == {
        "FRONTIER_QUEUE_ASSIGNMENT": "hostname",
        "FRONTIER_FORCED_QUEUE": "unset",
        "FRONTIER_HOST_GROUPS": "unset",
    }
    small = Assignment("surt", {"g": ["a.example"]}, "q").fixed()
    assert tuple(small.values()) == ("surt", "q", '{"g": ["a.example"]}')
    large = {f"g{n}": [f"h{n}.example"] for n in range(50)}
    one = Assignment(groups=large).fixed()["FRONTIER_HOST_GROUPS"]
    assert one.startswith("50 groups (")
    assert one == Assignment(groups=dict(reversed(large.items()))).fixed()["FRONTIER_HOST_GROUPS"]
    large["g0"] = ["other.example"]
    assert one != Assignment(groups=large).fixed()["FRONTIER_HOST_GROUPS"]


@pytest.mark.parametrize(
    ("setting", "given"),
    [
        ("FRONTIER_QUEUE_ASSIGNMENT", {"policy": name})
        for name in ("", "host", "bucket", "bucket:", "bucket:0", "bucket:x", "bucket:-1", "bucket:9999999")
    ]
    + [("FRONTIER_FORCED_QUEUE", {"forced": name}) for name in ("", " a", "a\n", "\x00", "x" * 256, 5)]
    + [
        ("FRONTIER_HOST_GROUPS", {"groups": groups})
        for groups in (
            {"g": "a.example"},
            {"g\n": ["a.example"]},
            {"": ["a.example"]},
            {"g": [5]},
            {"g": [""]},
            {"g": ["*."]},
            {"g": ["*"]},
            {"g": ["a.example/x"]},
            {"g": ["u@a.example"]},
            {"g": ["a.example"], "h": ["A.example"]},
        )
    ],
)
def test_what_makes_no_sense_is_refused(setting, given):
    """In one sentence that names the setting."""
    with pytest.raises(BadSetting, match=f"^setting {setting} must be [^\n]+$"):
        Assignment(**given)


def test_names():
    """A queue's name can be shown in a line, a host's address is spelt in one way."""
    assert [is_name(name) for name in ("a", "é ü", "x" * 255)] == [True] * 3
    assert [is_name(name) for name in ("", "a\t", "\u2028", "a\ud800", "x" * 256, None, b"a")] == [False] * 7
    assert [is_address(name) for name in ("1.2.3.4", "::1", "2001:db8::1")] == [True] * 3
    assert [is_address(name) for name in ("a.example", "[::1]", "0:0::1", "1.2.3.4:80", "")] == [False] * 5
