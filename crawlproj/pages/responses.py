"""Copies of responses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from scrapy.http import Response

R = TypeVar("R", bound="Response")


def changed(response: Response, kind: type[R], **given: Any) -> R:
    """Return a response of a *kind* that differs in what is *given*; without an `encoding` it finds its own.

    `Response.replace` guesses the encoding of the old body even where the new one is given: seconds, of a
    large one.
    """
    for name in response.attributes:
        if name != "encoding" and name not in given:
            given[name] = getattr(response, name)
    return kind(**given)
