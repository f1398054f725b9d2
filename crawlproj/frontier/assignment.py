"""Which queue a URL waits in: what shares a queue shares one clock, one cap and one budget.

    hostname            the host, with the port where it is not the scheme's
    registered-domain   the domain that somebody registered; hosts without one as by hostname
    surt                the host backwards, as Heritrix does it: `org,example,www,`, `#8080` after it
    ip                  the address that the host has; a name that has none as by hostname
    bucket:N            one of N queues, by a hash of the host that is the same in every process

A forced queue takes all of them, a group the hosts it lists; only then comes the policy. How fast a single
host is asked is the throttle's affair and always goes by its real name.
"""

from __future__ import annotations

import ipaddress
import json
import re
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from crawlproj.domains import registered_domain
from crawlproj.exceptions import BadSetting, BadUrl
from crawlproj.frontier.canonical import host_key, normalise

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Policy = Callable[[str], str]

POLICIES = ("hostname", "registered-domain", "surt", "ip", "bucket:N")
MAX_NAME = 255  # of a queue; no host name is longer
REMEMBERED = 20_000  # hosts whose queue is kept in memory
SHOWN = 100  # characters of the groups that a person is told
_BUCKETS = re.compile(r"bucket:([1-9]\d{0,5})", re.ASCII)
_WANTS_GROUPS = 'groups of hosts, like {"name": ["a.example", "*.b.example"]}'


def is_name(name: object) -> bool:
    """Say whether a queue can be called *name*: 1 to 255 printable characters, none at its ends a space."""
    return isinstance(name, str) and 0 < len(name) <= MAX_NAME and name.isprintable() and name == name.strip()


def name_only(host: str) -> str:
    """Return a host key without its port."""
    name, colon, port = host.rpartition(":")
    return name if colon and port.isdigit() else host


def is_address(name: str) -> bool:
    """Say whether *name* is an IP address in its usual spelling, as queues are called by `ip`."""
    try:
        return str(ipaddress.ip_address(name)) == name
    except ValueError:
        return False


def by_domain(host: str) -> str:
    """Return the registered domain of a host key; itself where there is none."""
    return registered_domain(name_only(host), private=True) or host


def by_surt(host: str) -> str:
    """Return a host key backwards; addresses stay as they are, but for the sign before the port."""
    name = name_only(host)
    port = host[len(name) + 1 :]
    if not name.startswith("[") and not is_address(name):
        name = "".join(f"{label}," for label in reversed(name.split(".")))
    return f"{name}#{port}" if port else name


def by_bucket(count: int) -> Policy:
    """Return the policy that shares hosts out to *count* queues."""

    def bucket(host: str) -> str:
        digest = blake2b(name_only(host).encode(), digest_size=8).digest()
        return f"bucket-{int.from_bytes(digest, 'big') % count}"

    return bucket


class Assignment:
    """The queue of every host of a crawl. Raises BadSetting, naming the setting that cannot be."""

    def __init__(
        self,
        policy: str = "hostname",
        groups: Mapping[str, Any] | None = None,
        forced: str | None = None,
    ) -> None:
        if forced is not None and not is_name(forced):
            raise BadSetting("FRONTIER_FORCED_QUEUE", forced, f"1 to {MAX_NAME} printable characters")
        self._policy, self._forced, self._groups = policy, forced, groups or {}
        by_host = _policy(policy)
        self._members = _members(self._groups)
        self._wild = any(member.startswith("*.") for member in self._members)
        #: whether queues of hosts that are in no group are called by addresses
        self.by_address = policy == "ip" and forced is None
        #: host key -> queue; by address, the host key until its address is known
        self.by_host: Policy = by_host if forced is None else lambda _: forced
        if forced is None and self._members:
            self.by_host = lambda host: self.group(host) or by_host(host)
        if self.by_host is not _itself:
            self.by_host = lru_cache(REMEMBERED)(self.by_host)
        #: wire URL -> queue
        self.queue: Policy = host_key if self.by_host is _itself else self._queue

    def _queue(self, wire: str) -> str:
        return self.by_host(host_key(wire))

    def group(self, host: str) -> str | None:
        """Return the group of a host key; its whole name goes before `*.` and an end of it."""
        name = name_only(host)
        found = self._members.get(host) or self._members.get(name)
        while found is None and self._wild and "." in name:
            name = name.partition(".")[2]
            found = self._members.get(f"*.{name}")
        return found

    def fixed(self) -> dict[str, str]:
        """Return what a crawl keeps for good: setting -> value, as a short text."""
        groups = json.dumps(self._groups, sort_keys=True) if self._groups else "unset"
        if len(groups) > SHOWN:
            digest = blake2b(groups.encode(), digest_size=4).hexdigest()
            groups = f"{len(self._groups)} groups ({digest})"
        return {
            "FRONTIER_QUEUE_ASSIGNMENT": self._policy,
            "FRONTIER_FORCED_QUEUE": self._forced or "unset",
            "FRONTIER_HOST_GROUPS": groups,
        }


def _itself(host: str) -> str:
    return host


def _policy(name: str) -> Policy:
    buckets = _BUCKETS.fullmatch(name)
    if buckets:
        return by_bucket(int(buckets[1]))
    known = {"hostname": _itself, "registered-domain": by_domain, "surt": by_surt, "ip": _itself}
    if name not in known:
        raise BadSetting("FRONTIER_QUEUE_ASSIGNMENT", name, "one of " + ", ".join(POLICIES))
    return known[name]


def _members(groups: Mapping[str, Any]) -> dict[str, str]:
    """Return host or `*.` and the end of hosts -> group."""
    members: dict[str, str] = {}
    for group, hosts in groups.items():
        if not is_name(group) or not isinstance(hosts, list | tuple):
            raise BadSetting("FRONTIER_HOST_GROUPS", f"{group}: {hosts}", _WANTS_GROUPS)
        for host in hosts:
            member = _member(host)
            if members.setdefault(member, group) != group:
                raise BadSetting("FRONTIER_HOST_GROUPS", host, "groups that share no host")
    return members


def _member(pattern: object) -> str:
    """Return a host as it is in host keys, behind `*.` if it was. Raises BadSetting."""
    text = str(pattern).strip()
    wild = "*." if text.startswith("*.") else ""
    host = text.removeprefix("*.")
    try:
        found = host_key(normalise(f"http://{host}/"))
        if not isinstance(pattern, str) or not host or set(host) & set("/@?#*\\"):
            raise BadUrl(host)
    except BadUrl:
        raise BadSetting("FRONTIER_HOST_GROUPS", pattern, _WANTS_GROUPS) from None
    return wild + found
