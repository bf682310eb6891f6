"""What may be printed: no control characters, no forged lines, no passwords of URLs."""

import json

import pytest

from provision.remote.masked import masked
from provision.report.plain import plain, plain_json


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2Jgone", "␛[2Jgone"),
        ("\x9b31mred", "\N{REPLACEMENT CHARACTER}31mred"),
        ("one\nh  nothing to do", "one␊h  nothing to do"),
        ("back\rto the start", "back␍to the start"),
        ("\x07\x08\x7f", "␇␈\N{REPLACEMENT CHARACTER}"),
        ("\u202egnp.exe", "\N{REPLACEMENT CHARACTER}gnp.exe"),
        ("one\u2028two", "one\N{REPLACEMENT CHARACTER}two"),
        ("\ud800", "\N{REPLACEMENT CHARACTER}"),
        ("a\ttab, größer → é", "a tab, größer → é"),
        ("zero\u200bwidth\ufeff", "zero\N{REPLACEMENT CHARACTER}width\N{REPLACEMENT CHARACTER}"),
    ],
)
def test_control_characters_are_shown_instead_of_obeyed(text, shown):
    assert plain(text) == shown


@pytest.mark.parametrize(
    "text", ["\x9b31m", "\x7f", "\u202e", "\u2028", "\ud800", "a\nb\x1b", "é→", "\U000e0001"]
)
def test_json_stays_the_same_json(text):
    printed = plain_json(json.dumps({text: text}, indent=2, ensure_ascii=False))
    assert json.loads(printed) == {text: text}
    assert [c for c in printed if not c.isprintable() and c != "\n"] == []


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("E: https://user:secret@deb.example/x 401", "E: https://…@deb.example/x 401"),
        ("https://token@deb.example", "https://…@deb.example"),
        ("http://user:p@ss:w%40rd@deb.example:8080/", "http://…@deb.example:8080/"),
        ("http://:secret@h and http://u:other@i", "http://…@h and http://…@i"),
        ("https://deb.example/~me@here", "https://deb.example/~me@here"),
        ("me@here // a note", "me@here // a note"),
        ('["https://a/", "me@here"]', '["https://a/", "me@here"]'),
    ],
)
def test_passwords_of_urls_are_left_out(text, shown):
    assert masked(text) == shown
    assert masked(shown) == shown
    assert plain(text) == shown
