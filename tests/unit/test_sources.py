"""Switching off apt sources in somebody else's files: that source, and not a byte more."""

import pytest
from samples import capture

from provision.remote import sources
from provision.remote.collectors import apt

URI = "http://deb.example/cuda"
OFF = sources.MARK


@pytest.mark.parametrize(
    "line",
    [
        f"deb {URI} /",
        f"deb {URI}/ /",
        f"deb [signed-by=/k.gpg] {URI} /",
        f"deb [ arch=amd64 signed-by=/k.gpg ] {URI}/ ./",
        f"deb-src {URI} stable main",
        f"  deb\t{URI} / # by hand",
    ],
)
def test_a_line_that_names_the_repository_becomes_a_comment(line):
    assert sources.disable_lines(f"{line}\n", URI) == f"{OFF}{line}\n"
    assert sources.disable_lines(line, URI) == OFF + line


@pytest.mark.parametrize(
    "line",
    [
        "",
        f"# deb {URI} /",
        f"#deb {URI} /",
        f"deb {URI}/debian12 /",
        "deb http://deb.example/cud /",
        f"deb [signed-by={URI}] http://deb.example/debian stable main",
        f"deb http://deb.example/debian {URI} main",
        f"debug {URI} /",
        "deb cdrom:[Debian 12]/ stable main",
    ],
)
def test_a_line_that_does_not_name_it_is_untouched(line):
    text = f"{line}\ndeb {URI} /\n"
    assert sources.disable_lines(text, URI) == f"{line}\n{OFF}deb {URI} /\n"


def test_lines_around_it_keep_every_byte():
    text = f"# one\r\n\n  deb http://deb.example/debian stable main\t\ndeb {URI} /\n#end"
    assert sources.disable_lines(text, URI) == text.replace("deb " + URI, f"{OFF}deb {URI}")


STANZA = f"""\
# NVIDIA's
Types: deb
URIs: {URI}/
Suites: /
Signed-By: /k.gpg
"""
DEBIAN = """\
Types: deb deb-src
URIs: http://deb.example/debian http://mirror.example/debian
Suites: stable
Components: main
"""


@pytest.mark.parametrize(
    "stanza",
    [
        STANZA,
        STANZA.replace("URIs: ", "uris:\t"),
        STANZA.replace("URIs: ", "URIs:\n  "),
        STANZA + "Enabled: yes\n",
        "Enabled: yes\n" + STANZA,
        STANZA.rstrip(),
    ],
    ids=["plain", "lower case", "folded", "enabled", "enabled first", "no newline"],
)
def test_a_stanza_that_names_the_repository_is_switched_off(stanza):
    text = sources.disable_deb822(f"{DEBIAN}\n{stanza}", URI)
    assert text.startswith(f"{DEBIAN}\n")
    kept = [line for line in stanza.splitlines() if not line.startswith("Enabled:")]
    assert text.removeprefix(f"{DEBIAN}\n").splitlines() == ["Enabled: no", *kept]
    assert URI not in {entry.uri.rstrip("/") for entry in apt.parse_deb822(text, "f")}


@pytest.mark.parametrize(
    "stanza",
    [
        DEBIAN,
        f"# URIs: {URI}\n{DEBIAN}",
        STANZA.replace(f"{URI}/", f"{URI}/debian12"),
        STANZA.replace("URIs", "X-URIs"),
        f"Types: deb\nURIs: http://deb.example/other\nSuites: {URI}\n",
    ],
    ids=["another", "in a comment", "longer", "another field", "another field's value"],
)
def test_a_stanza_that_does_not_name_it_is_untouched(stanza):
    text = f"{stanza}\n \n{STANZA}"
    assert sources.disable_deb822(text, URI) == f"{stanza}\n \nEnabled: no\n{STANZA}"


def test_a_stanza_with_other_uris_beside_it_is_refused():
    with pytest.raises(ValueError, match=f"names {URI} beside other URIs: split it by hand"):
        sources.disable_deb822(STANZA.replace(URI, f"{URI} http://deb.example/other"), URI)


@pytest.mark.parametrize(
    ("switch", "text", "uri"),
    [
        (sources.disable_lines, f"deb {URI} /\ndeb-src {URI} /\n", URI),
        (sources.disable_deb822, f"{DEBIAN}\n{STANZA}", URI),
        (
            sources.disable_lines,
            capture("sources-one-line.txt"),
            "http://127.0.0.1:8080/debian12/x86_64",
        ),
        (
            sources.disable_deb822,
            capture("sources-deb822.txt"),
            "http://127.0.0.1:8080/debian12/x86_64",
        ),
    ],
)
def test_switching_off_twice_is_switching_off_once(switch, text, uri):
    once = switch(text, uri)
    assert once != text
    assert switch(once, uri) == once


@pytest.mark.parametrize(
    ("switch", "text"), [(sources.disable_lines, ""), (sources.disable_deb822, "")]
)
def test_an_empty_file_stays_empty(switch, text):
    assert switch(text, URI) == ""
