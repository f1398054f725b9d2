"""Addresses and error texts without the passwords in them."""

from __future__ import annotations

import re
from urllib.parse import unquote, unquote_plus

_SECRET = re.compile(r"pass(word|wd)?$|secret|token", re.IGNORECASE)
_DSN_WORD = re.compile(r"(\w+)\s*=\s*('(?:[^'\\]|\\.)*'|(?!')(?:[^\s\\]|\\.)*)")
_DSN = re.compile(rf"(\s*{_DSN_WORD.pattern})+\s*")
_QUERY_WORD = re.compile(r"([?&])([^=&#]*)=([^&#]*)")
_NO_PORT = re.compile(r":(?!\d{1,5}(?:[,/?#]|$))[^,\[\]/?#]*(?=[,/?#]|$)")
_LOGIN = re.compile(r"(?<=//)[^/?#\s]*@")
_LONGEST = 300

# What people call their secrets, a whole word of a name: `api_key` and `loginToken` are, `keyboard` is not.
_SECRET_NAME = re.compile(
    r"(?<![a-z])(pass(word|wd|phrase)?|pwd|secret|token|api[-_]?key|access[-_]?key|private[-_]?key|auth"
    r"|authorization|credential|cookie|session[-_]?id)s?(?![a-z])",
    re.IGNORECASE,
)
_HINTS = (
    "pass",
    "pwd",
    "secret",
    "token",
    "key",
    "auth",
    "credential",
    "cookie",
    "session",
)  # one is in each
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_NAME = re.compile(r"""([\w-]+)["']?\s*[=:]\s*["']?""")
_VALUE = re.compile(r"""(?:bearer\s+|basic\s+)?[^\s&;,"'#]*""", re.IGNORECASE)


def without_login(text: str) -> str:
    """Return *text* without the `user:password@` of the URLs in it."""
    return _LOGIN.sub("", text) if "@" in text else text


def without_secrets(name: str, value: str) -> str:
    """Return an argument's *value* as it may be kept: no login, nothing that is called a secret.

    That is the whole value where *name* says so; else the `user:password@` of the URLs in it and what
    stands after names like `token=` or `Authorization:`.
    """
    if is_secret(name):
        return "***"
    text = without_login(value)
    low = text.lower()
    if not any(hint in low for hint in _HINTS):  # nearly always, and a list of seeds may be long
        return text
    kept, done = "", 0
    for found in _NAME.finditer(text):
        secret = _VALUE.match(text, found.end())
        if found.start() < done or not is_secret(found[1]) or not secret or not secret[0]:
            continue
        kept += f"{text[done : found.end()]}***"
        done = secret.end()
    return kept + text[done:]


def is_secret(name: str) -> bool:
    """Say whether something of that name is one, by what people call their secrets."""
    return _SECRET_NAME.search(_CAMEL.sub("_", name)) is not None


def redact(url: str) -> str:
    """Return *url*, or a libpq connection string, without anything secret, for people to read."""
    if _DSN.fullmatch(url):
        return _DSN_WORD.sub(lambda m: f"{m[1]}=***" if _SECRET.search(m[1]) else m[0], url)
    shown = _QUERY_WORD.sub(lambda m: f"{m[1]}{m[2]}=***" if _SECRET.search(unquote(m[2])) else m[0], url)
    scheme, separator, rest = shown.partition("://")
    place, slash, path = rest.partition("/")
    if separator and not (place and "@" in path):
        user, at, hosts = place.rpartition("@")
        name, colon, _ = user.partition(":")
        shown_hosts = _NO_PORT.sub(":***", hosts)  # a password whose "@host" has been forgotten
        return f"{scheme}://{name}{':***' if colon else ''}{at}{shown_hosts}{slash}{path}"
    # No URL, or a password with characters that should have been escaped: nobody can tell where it
    # begins, so nothing before the last "@" is shown.
    _, at, host = shown.rpartition("@")
    return f"{scheme + separator if separator else ''}***{at}{host if at else ''}"


def what_it_says(error: BaseException, url: str) -> str:
    """Return the text of *error* on one line, without the secrets of *url*."""
    text = " ".join(str(error).split()) or type(error).__name__
    for secret in sorted(_secrets(url), key=len, reverse=True):
        text = text.replace(secret, "***")
    return text.rstrip(".")[:_LONGEST]


def _secrets(url: str) -> set[str]:
    """Return every secret in *url*, as it is written and as it is meant."""
    place = url.partition("://")[2].partition("/")[0]
    found = {place.rpartition("@")[0].partition(":")[2]}
    found.update(m[3] for m in _QUERY_WORD.finditer(url) if _SECRET.search(unquote(m[2])))
    found.update(m[2].strip("'") for m in _DSN_WORD.finditer(url) if _SECRET.search(m[1]))
    return {secret for one in found for secret in (one, unquote(one), unquote_plus(one)) if secret}
