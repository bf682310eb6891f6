"""The actions of a round, each in a folder of its own."""

import hashlib
import io
import os
import shutil
import tarfile
import zipfile

import pytest
from samples import CAPTURES

from provision.remote import actions
from provision.remote.actions import ActionFailed

KEY = (CAPTURES / "openpgp-ed25519.gpg").read_bytes()
FINGERPRINT = "C6E79DB7394149AD1983FB7923C9F05F556556B7"
"""Of KEY, as gpg printed it."""


def mode(path):
    return path.stat().st_mode & 0o777


def test_a_file_is_put_with_its_mode_whatever_the_umask(host, do):
    before = os.umask(0o077)
    try:
        do(do="write", path=str(host.root / "new" / "file"), content="é\n", mode=0o644)
    finally:
        os.umask(before)
    file = host.root / "new" / "file"
    assert (file.read_text(), mode(file)) == ("é\n", 0o644)


def test_a_file_is_replaced_by_a_rename_and_nothing_is_left_beside_it(host, do):
    file = host.root / "folder" / "file"
    file.write_text("old")
    held = file.open()
    do(do="write", path=str(file), content="new", mode=0o600)
    with held:
        assert held.read() == "old"
    assert (file.read_text(), mode(file)) == ("new", 0o600)
    assert list(file.parent.iterdir()) == [file]


def test_a_file_is_taken_away_and_one_that_is_gone_is_no_fault(host, do):
    file = host.root / "folder" / "file"
    file.write_text("old")
    for _ in range(2):
        log = do(do="remove", path=str(file))
        assert not file.exists()
    assert log.splitlines() == [f"remove {file}"] * 2


URI = "http://deb.example/cuda"
SOURCES = {
    "one.list": (f"deb {URI} /\n", f"# switched off by firstlight: deb {URI} /\n"),
    "two.sources": (
        f"Types: deb\nURIs: {URI}\nSuites: /\n",
        f"Enabled: no\nTypes: deb\nURIs: {URI}\nSuites: /\n",
    ),
}


@pytest.mark.parametrize("name", SOURCES)
def test_a_source_is_switched_off_in_either_kind_of_file(host, do, name):
    before, after = SOURCES[name]
    file = host.root / "folder" / name
    file.write_text(before)
    file.chmod(0o640)
    do(do="disable", path=str(file), uri=URI)
    assert (file.read_text(), mode(file)) == (after, 0o640)
    do(do="disable", path=str(file), uri=URI)
    assert file.read_text() == after


def test_a_source_with_several_uris_is_left_as_it_is(host, do):
    file = host.root / "folder" / "a.sources"
    before = f"Types: deb\nURIs: {URI} http://deb.example/other\nSuites: /\n"
    file.write_text(before)
    with pytest.raises(ValueError, match="beside other URIs"):
        do(do="disable", path=str(file), uri=URI)
    assert file.read_text() == before


def test_a_link_is_switched_by_a_rename(host, do):
    link = host.root / "folder" / "current"
    for target in ("releases/1", "releases/2", "releases/2"):
        do(do="switch", link=str(link), target=target)
        assert str(link.readlink()) == target
    assert list(link.parent.iterdir()) == [link]


def test_a_switch_that_was_interrupted_can_be_done_again(host, do):
    link = host.root / "folder" / "current"
    (host.root / "folder" / ".current.new").symlink_to("half done")
    do(do="switch", link=str(link), target="releases/1")
    assert str(link.readlink()) == "releases/1"


def test_a_command_s_words_and_output_go_to_the_log(do):
    log = do(
        do="run",
        argv=["sh", "-c", "echo $GREETING; echo oops >&2"],
        timeout=10,
        env={"GREETING": "hi"},
        accepts=[0],
    )
    assert log == "$ sh -c echo $GREETING; echo oops >&2\nhi\noops\n"


ARCHIVE = "https://downloads.example/cpython-3.13.18.tar.gz"
UNKNOWN = "failed to lookup address information: Name or service not known"
UNREACHED = f"""\
error: Failed to install cpython-3.13.18-linux-x86_64-gnu
  cause: Request failed after 3 retries in 6.0s
  cause: Failed to download `{ARCHIVE}`
  cause: dns error
  cause: {UNKNOWN}
"""
"""As uv 0.13.9 says it; the address is another."""


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (UNREACHED, f"Failed to download `{ARCHIVE}`: {UNKNOWN}"),
        ("error: no such thing\n", "sh exits 2"),
    ],
)
def test_a_python_that_uv_can_t_fetch_is_told_with_the_address_and_what_to_do(do, said, reason):
    script = f"cat >&2 <<'END'\n{said}END\nexit 2"
    with pytest.raises(ActionFailed) as caught:
        do(do="python", argv=["sh", "-c", script], env={})
    assert str(caught.value) == f"uv can't fetch a Python: {reason}"
    assert 'interpreter = "system"' in caught.value.hint


def test_a_python_that_is_there_is_not_fetched_again(do):
    assert do(do="python", argv=["sh", "-c", "echo $WHERE"], env={"WHERE": "there"}).endswith(
        "\nthere\n"
    )


@pytest.mark.parametrize(
    ("argv", "timeout", "reason"),
    [
        (["sh", "-c", "exit 7"], 10, "sh exits 7"),
        (["no-such-program"], 10, "there is no no-such-program on this host"),
        (["sleep", "60"], 0.05, "sleep took more than 0.05 s"),
    ],
)
def test_a_command_that_fails(do, argv, timeout, reason):
    with pytest.raises(ActionFailed, match=f"^{reason}$"):
        do(do="run", argv=argv, timeout=timeout, env={}, accepts=[0])


LISTS = CAPTURES / "apt" / "lock-lists.bookworm.txt"


def test_an_exit_status_that_is_accepted_is_no_failure(do):
    log = do(do="run", argv=["sh", "-c", "exit 2"], timeout=10, env={}, accepts=[0, 2])
    assert log == "$ sh -c exit 2\n"


def test_a_command_that_fails_tells_the_cause_and_what_can_be_done(do):
    with pytest.raises(ActionFailed, match=r"^/var/lib/apt/lists/lock is held by") as caught:
        do(do="run", argv=["sh", "-c", f"cat {LISTS}; exit 100"], timeout=10, env={}, accepts=[0])
    assert "let that end" in caught.value.hint


def test_what_a_command_before_it_said_is_no_cause(do):
    do(do="run", argv=["cat", str(LISTS)], timeout=10, env={}, accepts=[0])
    with pytest.raises(ActionFailed, match=r"^sh exits 7$") as caught:
        do(do="run", argv=["sh", "-c", "exit 7"], timeout=10, env={}, accepts=[0])
    assert caught.value.hint == ""


def test_nothing_that_is_run_can_ask_a_question(do):
    log = do(do="run", argv=["sh", "-c", "cat; env"], timeout=10, env={}, accepts=[0])
    assert {
        "DEBIAN_FRONTEND=noninteractive",
        "DEBCONF_NONINTERACTIVE_SEEN=true",
        "UCF_FORCE_CONFFOLD=1",
        "APT_LISTBUGS_FRONTEND=none",
        "APT_LISTCHANGES_FRONTEND=none",
        "NEEDRESTART_SUSPEND=1",
        "NEEDRESTART_MODE=l",
        "LC_ALL=C.UTF-8",
    } <= set(log.splitlines())


def wheel(members):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def test_an_executable_out_of_an_uploaded_wheel(host, do):
    content = wheel({"uv.data/scripts/uv": "#!/bin/sh\n"})
    sha256 = hashlib.sha256(content).hexdigest()
    host.BLOBS.mkdir()
    (host.BLOBS / sha256).write_bytes(content)
    file = host.root / "opt" / "uv"
    do(do="unpack", wheel=sha256, member="uv.data/scripts/uv", path=str(file))
    assert (file.read_text(), mode(file)) == ("#!/bin/sh\n", 0o755)


@pytest.mark.parametrize("content", [None, b"", b"another file"])
def test_an_upload_that_is_missing_or_damaged(host, do, content):
    sha256 = hashlib.sha256(wheel({"uv": "x"})).hexdigest()
    if content is not None:
        host.BLOBS.mkdir()
        (host.BLOBS / sha256).write_bytes(content)
    with pytest.raises(ActionFailed, match="is missing or damaged"):
        do(do="unpack", wheel=sha256, member="uv", path=str(host.root / "uv"))
    assert not (host.root / "uv").exists()


# --- the key package ---------------------------------------------------------------------------


def tar(files):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def deb(files):
    """A Debian package: an ar archive of three members, deb(5)."""
    control = b"Package: keyring\nVersion: 1\nArchitecture: all\nMaintainer: x\nDescription: x\n"
    members = {
        "debian-binary": b"2.0\n",
        "control.tar.gz": tar({"./control": control}),
        "data.tar.gz": tar(files),
    }
    parts = [b"!<arch>\n"]
    for name, content in members.items():
        head = f"{name:<16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(content):<10}`\n".encode()
        parts += [head, content, b"\n" if len(content) % 2 else b""]
    return b"".join(parts)


needs_dpkg = pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="needs dpkg-deb")
KEY_FILE = "./usr/share/keyrings/archive.gpg"


def keyring(host, do, content, **fields):
    file = host.root / "keyring.deb"
    file.write_bytes(content)
    action = {
        "url": file.as_uri(),
        "sha256": None,
        "fingerprint": FINGERPRINT,
        "proxy": None,
        **fields,
    }
    return do(do="keyring", **action)


@pytest.fixture
def installed(monkeypatch):
    """The commands that would have been run."""
    commands = []
    monkeypatch.setattr(
        actions.Context, "run", lambda self, argv, *, timeout, env: commands.append(argv)
    )
    return commands


@needs_dpkg
def test_a_key_package_with_the_one_key_is_installed(host, do, installed):
    content = deb({KEY_FILE: KEY, "./etc/apt/sources.list.d/x.list": b""})
    keyring(host, do, content, sha256=hashlib.sha256(content).hexdigest())
    file = host.root / "folder" / "keyring.deb"
    assert installed == [["dpkg", "--force-confnew", "--force-confmiss", "--install", str(file)]]
    assert file.read_bytes() == content


OTHER_KEY = b"\xc6\x14\x04" + bytes(19)


@needs_dpkg
@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({}, "brings keys none, the stack trusts"),
        ({KEY_FILE: OTHER_KEY}, "brings keys [0-9A-F]{40}, the stack trusts"),
        ({KEY_FILE: KEY + OTHER_KEY}, f"brings keys {FINGERPRINT}, [0-9A-F]{{40}}, the stack"),
        ({KEY_FILE: KEY, KEY_FILE + ".old": OTHER_KEY}, f"brings keys {FINGERPRINT}, "),
        ({KEY_FILE: KEY[:-1]}, "archive.gpg: keyring is cut short"),
        ({KEY_FILE: b"<html>"}, "archive.gpg: no OpenPGP packet"),
    ],
    ids=["no key", "another key", "two keys", "two files", "cut short", "no keyring"],
)
def test_a_key_package_with_other_keys_is_not_installed(host, do, installed, files, reason):
    with pytest.raises(ActionFailed, match=reason):
        keyring(host, do, deb(files))
    assert installed == []


@needs_dpkg
def test_a_key_package_with_another_hash_is_not_even_looked_into(host, do, installed):
    with pytest.raises(ActionFailed, match="the stack says " + "0" * 64):
        keyring(host, do, b"rubbish", sha256="0" * 64)
    assert installed == []


@needs_dpkg
def test_a_page_of_a_web_server_is_no_package(host, do, installed):
    with pytest.raises(ActionFailed, match="is no Debian package"):
        keyring(host, do, b"<html>404</html>")
    assert installed == []


def test_a_key_package_that_can_t_be_fetched(host, do, installed):
    url = (host.root / "none.deb").as_uri()
    with pytest.raises(ActionFailed, match=r"none\.deb can't be fetched"):
        do(do="keyring", url=url, sha256=None, fingerprint=FINGERPRINT, proxy=None)
    assert installed == []


@pytest.mark.parametrize(
    ("proxy", "expected"),
    [(None, {}), ("http://proxy:1", {"http": "http://proxy:1", "https": "http://proxy:1"})],
)
def test_a_key_is_fetched_through_the_proxy_named_and_no_other(monkeypatch, proxy, expected):
    monkeypatch.setenv("http_proxy", "http://environment:1")
    opener = actions._opener(proxy)
    (handler,) = (
        (h for h in opener.handlers if isinstance(h, actions.urllib.request.ProxyHandler))
        if proxy
        else [None]
    )
    assert (handler.proxies if handler else {}) == expected
