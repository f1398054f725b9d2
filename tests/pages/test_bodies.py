from __future__ import annotations

import pytest

from crawlproj.exceptions import BadSetting
from crawlproj.pages.bodies import Body, DatabaseBodies, body_hash, body_store


async def test_database_keeps_every_body():
    """Without a setting every body goes into the database, with its page."""
    store = body_store(None)
    assert isinstance(store, DatabaseBodies)
    bodies = [Body(hash=body_hash(b"x"), size=1, data=b"z")]
    assert await store.keep(bodies) == bodies


def test_unknown_body_store_is_refused():
    """A setting that nobody obeys is refused, not ignored."""
    with pytest.raises(BadSetting, match="BODY_STORE"):
        body_store("s3://bucket/")
