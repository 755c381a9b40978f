"""The prose of certificates and READMEs is that of the golden pages, word for word."""

from pathlib import Path

from golden_pages import GOLDEN, pages


def test_certificates_and_readmes_have_the_words_of_the_golden_pages(tmp_path: Path) -> None:
    """Where this fails after a change of words: run `python tests/run/release/golden_pages.py`, and read what it changed.

    `verify` writes these texts again. Where they change for a release that exists, `certificate.FORMAT` has to change too.
    """
    found = dict(pages(tmp_path))
    assert sorted(found) == sorted(GOLDEN.glob("*.txt"))
    for place, page in found.items():
        assert place.read_text(encoding="utf-8") == page, place.name
