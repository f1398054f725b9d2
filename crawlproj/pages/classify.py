"""What the outcome of one fetch means: its fetch status, its schedule status, and what is kept.

| outcome                                         | fetch_status | schedule_status | stored | health |
|-------------------------------------------------|--------------|-----------------|--------|--------|
| robots, offsite, blocked, filtered              | none         | disregarded     | no     | null   |
| followed redirect                               | none         | succeeded       | no     | null   |
| no usable answer, attempts left                 | failed       | retry           | no     | null   |
| no usable answer                                | failed       | failed          | no     | null   |
| 304 to our validators, content is stored        | not_modified | succeeded       | no     | null   |
| 304 to them, no content; unasked 304 at first   | none         | retry           | no     | null   |
| 2xx with enough main text, or a binary body     | done         | succeeded       | yes    | filled |
| 2xx without (204, 205, no bytes, a shell)       | empty        | succeeded       | yes    | filled |
| any other status                                | failed       | failed          | no     | null   |

The first row that applies counts. How much text is enough the setting EMPTY_BELOW_CHARACTERS says. How long
the text of an error page is, is never asked.
"""

from __future__ import annotations

from dataclasses import dataclass

from crawlproj.items import FetchStatus, ScheduleStatus

NOT_MODIFIED = 304
NO_CONTENT = frozenset({204, 205})
UNASKED = "unasked_304"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """The facts of one fetch that its verdict depends on."""

    http_status: int | None = None
    failure: str | None = None  #: why there is no usable answer, in one word
    disregarded: str | None = None  #: why it is not fetched at all
    redirected: bool = False  #: a redirect that is followed
    main_text_length: int | None = None  #: None: a binary body
    empty_below: int = 1  #: characters of main text that make content
    body_size: int = 0
    is_shell: bool = False  #: an app's page that only a browser fills
    sent_validators: bool = False
    has_stored_content: bool = False
    attempts: int = 0  #: fetches before this one
    max_attempts: int = 1
    final: bool = True  #: False: another attempt was asked for


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What becomes of the URL."""

    fetch_status: FetchStatus | None
    schedule_status: ScheduleStatus
    reason: str | None = None  #: one lower-case word; None: there is nothing to explain
    stores: bool = False


def classify(attempt: Attempt) -> Verdict:
    """Return the verdict of the first row of the table that applies."""
    if attempt.disregarded is not None:
        return Verdict(
            fetch_status=None, schedule_status=ScheduleStatus.DISREGARDED, reason=attempt.disregarded
        )
    if attempt.redirected:
        return Verdict(fetch_status=None, schedule_status=ScheduleStatus.SUCCEEDED, reason="redirected")
    if attempt.failure is not None:
        return _failed(attempt, attempt.failure)
    status = attempt.http_status
    if status is None:
        return _failed(attempt, "no_response")
    if status == NOT_MODIFIED:
        return _not_modified(attempt)
    if 200 <= status < 300:  # noqa: PLR2004
        return _answered(attempt, status)
    return _failed(attempt, f"http_{status}")


def _answered(attempt: Attempt, status: int) -> Verdict:
    length = attempt.main_text_length
    nothing = (
        status in NO_CONTENT
        or attempt.body_size == 0
        or (length is not None and length < attempt.empty_below)
    )
    return Verdict(
        fetch_status=FetchStatus.EMPTY if nothing else FetchStatus.DONE,
        schedule_status=ScheduleStatus.SUCCEEDED,
        reason="unrendered_shell" if nothing and attempt.is_shell else None,
        stores=True,
    )


def _not_modified(attempt: Attempt) -> Verdict:
    if attempt.sent_validators and attempt.has_stored_content:
        return Verdict(fetch_status=FetchStatus.NOT_MODIFIED, schedule_status=ScheduleStatus.SUCCEEDED)
    # Only a first fetch may be the one that is repeated without validators; this keeps it at once.
    if (attempt.sent_validators or attempt.attempts == 0) and _left(attempt):
        return _refetch(UNASKED)
    return _failed(attempt, "http_304")


def _failed(attempt: Attempt, reason: str) -> Verdict:
    again = not attempt.final and _left(attempt)
    if again and reason == UNASKED:
        return _refetch(reason)
    return Verdict(
        fetch_status=FetchStatus.FAILED,
        schedule_status=ScheduleStatus.RETRY if again else ScheduleStatus.FAILED,
        reason=reason,
    )


def _refetch(reason: str) -> Verdict:
    return Verdict(
        fetch_status=None,
        schedule_status=ScheduleStatus.RETRY,
        reason=reason,
    )


def _left(attempt: Attempt) -> bool:
    return attempt.attempts + 1 < attempt.max_attempts
