"""Names of languages, as pages and people write them."""

from __future__ import annotations

import re

_TAG = re.compile(r"([a-z]{2,3})(?:[-_][a-z0-9]{1,8})*", re.IGNORECASE | re.ASCII)
#: No languages of pages: undetermined, several, none, reserved.
_NONE = frozenset({"und", "mul", "zxx", "mis", "qaa", "xx"})
#: What is written for a language now and then: a country, or the three letters of ISO 639-2.
_MEANT = {
    "jp": "ja", "cn": "zh", "tw": "zh", "hk": "zh", "kr": "ko", "cz": "cs", "dk": "da", "gr": "el",
    "ua": "uk", "iw": "he", "in": "id", "jpn": "ja", "zho": "zh", "chi": "zh", "cmn": "zh", "yue": "zh",
    "kor": "ko", "eng": "en", "deu": "de", "ger": "de", "fra": "fr", "fre": "fr", "spa": "es",
    "ita": "it", "por": "pt", "rus": "ru", "nld": "nl", "dut": "nl", "pol": "pl", "tur": "tr", "ara": "ar",
    "nb": "no", "nn": "no", "nob": "no",
}  # fmt: skip


def primary(tag: str | None) -> str | None:
    """Return the language of a tag (BCP 47, or nearly), in small letters and without script and country."""
    found = _TAG.fullmatch(tag.strip()) if tag else None
    if found is None:
        return None
    language = found[1].lower()
    language = _MEANT.get(language, language)
    return None if language in _NONE else language
