"""The parsers of what the firmware and mokutil say about Secure Boot."""

import pytest
from samples import accepted

from provision import facts
from provision.remote.collectors import secure_boot
from provision.remote.command import Failed, Missing, Output


@pytest.mark.parametrize("enabled", [True, False])
def test_secure_boot_variable(tmp_path, enabled):
    (tmp_path / secure_boot.VARIABLE).write_bytes(bytes([6, 0, 0, 0, enabled]))
    assert secure_boot.from_variables(tmp_path) is enabled


def test_secure_boot_that_cannot_be_told(tmp_path):
    with pytest.raises(Failed, match="not mounted"):
        secure_boot.from_variables(tmp_path)
    (tmp_path / "BootOrder").touch()
    with pytest.raises(Missing, match="without Secure Boot"):
        secure_boot.from_variables(tmp_path)
    with pytest.raises(Failed, match="4 bytes"):
        secure_boot.parse_variable(b"\6\0\0\0")


@pytest.mark.parametrize("state", ["enabled", "disabled"])
def test_mokutil_where_sysfs_is_hidden(tmp_path, monkeypatch, state):
    said = Output(0, f"SecureBoot {state}\nPlatform is in Setup Mode\n", "")
    monkeypatch.setattr(secure_boot, "EFI", tmp_path / "none")
    monkeypatch.setattr(secure_boot, "KEYS", ())
    monkeypatch.setattr(secure_boot, "run", lambda argv: said)
    value = accepted("secure_boot", secure_boot.collect({}))
    assert value == facts.SecureBoot(enabled=state == "enabled", enrolled=None)


@pytest.fixture
def firmware(tmp_path, monkeypatch):
    """A host with Secure Boot switched on, and the key that DKMS signs with."""
    (tmp_path / "efivars").mkdir()
    (tmp_path / "efivars" / secure_boot.VARIABLE).write_bytes(bytes([6, 0, 0, 0, 1]))
    (tmp_path / "mok.pub").touch()
    monkeypatch.setattr(secure_boot, "EFI", tmp_path)
    monkeypatch.setattr(secure_boot, "KEYS", (tmp_path / "none", str(tmp_path / "mok.pub")))
    return tmp_path


@pytest.mark.parametrize(
    ("text", "expected"), [("is already enrolled\n", True), ("is not enrolled\n", False)]
)
def test_the_key_that_modules_are_signed_with(firmware, monkeypatch, text, expected):
    asked = []
    monkeypatch.setattr(
        secure_boot, "run", lambda argv: asked.append(argv) or Output(1, f"{argv[2]} {text}", "")
    )
    value = accepted("secure_boot", secure_boot.collect({}))
    assert value == facts.SecureBoot(enabled=True, enrolled=expected)
    assert asked == [["mokutil", "--test-key", str(firmware / "mok.pub")]]


def test_a_host_that_has_no_key_yet_is_asked_nothing(firmware, monkeypatch):
    (firmware / "mok.pub").unlink()
    monkeypatch.setattr(secure_boot, "run", None)
    assert secure_boot.collect({}) == {"enabled": True, "enrolled": None}


def test_a_host_without_mokutil_still_has_secure_boot(firmware, monkeypatch):
    def missing(argv):
        raise Missing("no mokutil")

    monkeypatch.setattr(secure_boot, "run", missing)
    assert secure_boot.collect({})["enabled"] is True


def test_no_efi(tmp_path, monkeypatch):
    monkeypatch.setattr(secure_boot, "EFI", tmp_path / "none")
    said = Output(255, "", "EFI variables are not supported on this system\n")
    monkeypatch.setattr(secure_boot, "run", lambda argv: said)
    with pytest.raises(Missing, match="no EFI"):
        secure_boot.collect({})
