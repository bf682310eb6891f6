"""Fingerprints of keyrings: gpg's own output, and packets as RFC 4880 draws them."""

import hashlib

import pytest
from samples import CAPTURES

from provision.remote import openpgp

BINARY = (CAPTURES / "openpgp-ed25519.gpg").read_bytes()
ARMOURED = (CAPTURES / "openpgp-ed25519.asc").read_bytes()
FINGERPRINT = "C6E79DB7394149AD1983FB7923C9F05F556556B7"
"""As gpg printed it."""

NEW, OLD = 0xC0, 0x80
PUBLIC_KEY, USER_ID, SUBKEY = 6, 13, 14


def key(size=20):
    return b"\x04" + bytes(size - 1)


def expected(body):
    return hashlib.sha1(b"\x99" + len(body).to_bytes(2, "big") + body).hexdigest().upper()  # noqa: S324


@pytest.mark.parametrize(
    "keyring",
    [
        BINARY,
        ARMOURED,
        ARMOURED.replace(b"\n", b"\r\n"),
        ARMOURED.replace(b"BLOCK-----\n\n", b"BLOCK-----\nComment: a key\n\n"),
    ],
    ids=["binary", "armoured", "armoured with CRLF", "armoured with a comment"],
)
def test_gpg_s_own_key(keyring):
    assert openpgp.fingerprints(keyring) == [FINGERPRINT]


def test_several_keys_in_the_order_of_the_file():
    other = key()
    packet = bytes([NEW | PUBLIC_KEY, len(other)]) + other
    assert openpgp.fingerprints(packet + BINARY) == [expected(other), FINGERPRINT]


HEADS = {
    "old format, one octet": bytes([OLD | PUBLIC_KEY << 2 | 0, 20]),
    "old format, two octets": bytes([OLD | PUBLIC_KEY << 2 | 1, 0, 20]),
    "old format, four octets": bytes([OLD | PUBLIC_KEY << 2 | 2, 0, 0, 0, 20]),
    "new format, one octet": bytes([NEW | PUBLIC_KEY, 20]),
    "new format, five octets": bytes([NEW | PUBLIC_KEY, 255, 0, 0, 0, 20]),
}


@pytest.mark.parametrize("case", HEADS, ids=HEADS)
def test_every_way_to_write_a_short_length(case):
    assert openpgp.fingerprints(HEADS[case] + key()) == [expected(key())]


@pytest.mark.parametrize("size", [192, 193, 447, 448, 8383])
def test_lengths_of_two_octets_in_the_new_format(size):
    head = bytes([NEW | PUBLIC_KEY, (size - 192 >> 8) + 192, size - 192 & 0xFF])
    assert openpgp.fingerprints(head + key(size)) == [expected(key(size))]


def test_subkeys_and_user_ids_are_no_primary_keys():
    packets = b"".join(bytes([NEW | tag, 20]) + key() for tag in (SUBKEY, USER_ID))
    assert openpgp.fingerprints(packets + BINARY) == [FINGERPRINT]
    with pytest.raises(ValueError, match="no key in it"):
        openpgp.fingerprints(packets)


@pytest.mark.parametrize("size", [1, 2, 10, 52, 60, 91, 100, len(BINARY) - 1])
def test_a_keyring_that_is_cut_short(size):
    with pytest.raises(ValueError, match="cut short"):
        openpgp.fingerprints(BINARY[:size])


BROKEN = {
    "nothing": (b"", "no key in it"),
    "a length that ends with its first octet": (bytes([NEW | PUBLIC_KEY, 200]), "cut short"),
    "armour that is cut short": (b"-----BEGIN PGP PUBLIC KEY BLOCK-----\nAAAA\n", "no key in it"),
    "text": (b"no keyring", "no OpenPGP packet at byte 0"),
    "a page of a web server": (b"<html>404</html>", "no OpenPGP packet at byte 0"),
    "rubbish after a key": (BINARY + b"\n", f"no OpenPGP packet at byte {len(BINARY)}"),
    "a key of version 3": (bytes([NEW | PUBLIC_KEY, 1, 3]), "version 3, expected 4"),
    "a key of version 6": (bytes([NEW | PUBLIC_KEY, 1, 6]), "version 6, expected 4"),
    "a key without a body": (bytes([NEW | PUBLIC_KEY, 0]), r"version \?, expected 4"),
    "a length that is not told": (bytes([OLD | PUBLIC_KEY << 2 | 3]) + key(), "indeterminate"),
    "a body in parts": (bytes([NEW | PUBLIC_KEY, 224]) + key(), "in parts"),
    "armour around no base64": (
        b"-----BEGIN PGP PUBLIC KEY BLOCK-----\n\n????\n-----END PGP PUBLIC KEY BLOCK-----\n",
        "base64",
    ),
}


@pytest.mark.parametrize("case", BROKEN, ids=BROKEN)
def test_what_is_no_keyring(case):
    data, message = BROKEN[case]
    with pytest.raises(ValueError, match=message):
        openpgp.fingerprints(data)
