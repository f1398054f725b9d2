"""What is kept of what people type."""

from __future__ import annotations

import pytest

from crawlproj.redaction import without_secrets

SECRETS = [
    "password",
    "db_password",
    "api_key",
    "apiKey",
    "API-KEY",
    "token",
    "loginToken",
    "access_tokens",
    "secret",
    "Authorization",
    "auth",
    "passwd",
    "pwd",
    "cookie",
    "session_id",
    "client_secret",
]
HARMLESS = [
    "keyboard",
    "author",
    "authors",
    "compass",
    "passage",
    "tokenizer",
    "seeds",
    "key",
    "name",
    "monkey",
]


@pytest.mark.parametrize("name", SECRETS)
def test_an_argument_that_is_called_a_secret_is_not_kept(name: str) -> None:
    """Whatever it holds."""
    assert without_secrets(name, "hunter2") == "***"


@pytest.mark.parametrize("name", HARMLESS)
def test_a_name_that_only_looks_like_one_is_kept(name: str) -> None:
    """A part of a word says nothing."""
    assert without_secrets(name, "plain words") == "plain words"


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        ("https://u:hunter2@a.test/ http://b.test/", "https://a.test/ http://b.test/"),
        ("https://a.test/?page=1&token=hunter2&x=2", "https://a.test/?page=1&token=***&x=2"),
        ("https://a.test/?api_key=hunter2#top", "https://a.test/?api_key=***#top"),
        ("Accept: text/html, Authorization: Bearer hunter2", "Accept: text/html, Authorization: ***"),
        ('{"password": "hunter2", "user": "me"}', '{"password": "***", "user": "me"}'),
        ("user=me password=hunter2", "user=me password=***"),
        ("https://a.test/?token=&x=2", "https://a.test/?token=&x=2"),
        ("https://a.test/?author=me&key=1", "https://a.test/?author=me&key=1"),
        ("https://a.test:8080/token/x", "https://a.test:8080/token/x"),
    ],
)
def test_a_secret_inside_of_a_value_is_not_kept(value: str, kept: str) -> None:
    """Logins of URLs and what stands after a secret's name go; everything else stays."""
    assert without_secrets("seeds", value) == kept
