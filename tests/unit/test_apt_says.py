"""What apt and dpkg say when they fail, as a cause and what to do.

The captures were provoked on lab hosts: Debian 12 (apt 2.6, gpgv, dpkg 1.21, DKMS 3.0) and
Debian 13 (apt 3.0, sqv, dpkg 1.22, DKMS 3.2); where both say the same, one stands here.
"""

import pytest
from samples import CAPTURES, capture

from provision.remote.apt_says import diagnose
from provision.remote.source_says import AGAIN, CLOCK, DAMAGED, NETWORK, TLS

CUDA = "http://deb.example/cuda"
SECURE = "https://deb.example/cuda/InRelease"
KERNEL = "6.12.90-lab-amd64"
UNKNOWN_KEY = "if that is the right key, install it"
SPACE = "make space on its file system"
LOCK = "let that end"
FIT = "packages do not fit together"

TOLD = {
    "bad-signature.bookworm": (f"{CUDA} was changed after it was signed", "a proxy or mirror"),
    "bad-signature.trixie": (f"{CUDA} was changed after it was signed", "a proxy or mirror"),
    "no-pubkey.bookworm": (
        f"{CUDA} is signed with key 8C15ABACA1F0A65F, which the source's keyring does not hold",
        UNKNOWN_KEY,
    ),
    "no-pubkey.trixie": (
        (
            f"{CUDA} is signed with key BB0A5D5CB4305F38C23A6B2D8C15ABACA1F0A65F, "
            "which the source's keyring does not hold"
        ),
        UNKNOWN_KEY,
    ),
    "no-pubkey-old-lists.bookworm": (
        f"{CUDA} is signed with key 8C15ABACA1F0A65F, which the source's keyring does not hold",
        UNKNOWN_KEY,
    ),
    "no-pubkey-suite.trixie": (
        (
            "http://deb.example/debian trixie is signed with key "
            "4CB50190207B4758A3F73A796ED0E7B82643E131, which the source's keyring does not hold"
        ),
        UNKNOWN_KEY,
    ),
    "key-expired.bookworm": (
        f"{CUDA} is signed with key 19161BEAFB648299, which has expired",
        "install the renewed key",
    ),
    "key-expired.trixie": (
        f"{CUDA} is signed with key 9829DAC6BC9BB07AB21AE19119161BEAFB648299, which has expired",
        "install the renewed key",
    ),
    "key-revoked.bookworm": (
        f"{CUDA} is signed with key 35F9B01E6BAFCA94, which its owner has revoked",
        "trust it no more",
    ),
    "key-revoked.trixie": (
        (
            f"{CUDA} is signed with key C8B88A5B177D2C12AE87F65635F9B01E6BAFCA94, "
            "which its owner has revoked"
        ),
        "trust it no more",
    ),
    "signature-expired.bookworm": (f"{CUDA} has a signature that has expired", "its mirror"),
    "signature-expired.trixie": (f"{CUDA} has a signature that has expired", "its mirror"),
    "signature-in-the-future.trixie": (
        (
            f"{CUDA} was signed at 2026-12-03T05:45:31Z, which is still to come: "
            "the host's clock is behind"
        ),
        CLOCK,
    ),
    "keyring-unreadable.trixie": (
        (
            f"{CUDA} can't be verified with /usr/share/keyrings/cuda-archive-keyring.gpg: "
            "Permission denied"
        ),
        "the keyring must be there, and readable",
    ),
    "sha1-binding.trixie": (
        (
            f"{CUDA} is signed with key 7036588E6D21648C43D13D3F86ACF7D45BEF9C1C, "
            "which rests on SHA-1: refused since 2026-02-01"
        ),
        "the key's owner must renew it",
    ),
    "sha1-signature.bookworm": (
        (
            f"{CUDA} is signed with key 7036588E6D21648C43D13D3F86ACF7D45BEF9C1C "
            "over a digest that is no longer trusted, such as SHA-1"
        ),
        "it must be signed anew",
    ),
    "not-signed.bookworm": (f"{CUDA} is not signed", "have it signed"),
    "signed-by-conflict.bookworm": (
        (
            f"two sources for {CUDA}/ name different keys: "
            "/usr/share/keyrings/cuda-archive-keyring.gpg and "
            "/usr/share/keyrings/debian-archive-keyring.gpg"
        ),
        "keep one",
    ),
    "clock-behind.bookworm": (
        f"the host's clock is behind: {CUDA}/InRelease will be valid in 2d 23h 59min 49s",
        CLOCK,
    ),
    "release-expired.bookworm": (
        f"{CUDA}/InRelease expired 20d 0h 0min 1s ago (Valid-Until)",
        "the mirror is no longer synced",
    ),
    "hash-sum-mismatch.bookworm": (
        f"{CUDA}/Packages.gz is not what its index promises (Hash Sum mismatch)",
        DAMAGED,
    ),
    "unexpected-size.bookworm": (
        f"{CUDA}/Packages.gz has 220 bytes, its index promises 250",
        DAMAGED,
    ),
    "portal.bookworm": (
        f"{CUDA}/InRelease is no index: something else answers in its place",
        "a portal or proxy wants a login first",
    ),
    "cannot-resolve.bookworm": ("no-such-host.invalid can't be resolved", "look at the host's DNS"),
    "refused.bookworm": (
        "deb.example:9 refuses connections: http://deb.example:9/debian/InRelease can't be fetched",
        NETWORK,
    ),
    "no-answer.bookworm": (f"{CUDA}/InRelease can't be fetched: no answer", NETWORK),
    "proxy-407.bookworm": (
        f"the proxy wants a login before it gives {CUDA}/InRelease",
        "have the proxy accept this host",
    ),
    "proxy-connect-407.bookworm": (
        f"the proxy wants a login before it gives {SECURE}",
        "have the proxy accept this host",
    ),
    "tls-unknown-ca.bookworm": (
        f"the certificate of {SECURE} is not trusted: The certificate issuer is unknown",
        TLS,
    ),
    "tls-unknown-ca.trixie": (f"the certificate of {SECURE} is not trusted", TLS),
    "tls-other-name.bookworm": (
        (
            f"the certificate of {SECURE} is not trusted: "
            "The name in the certificate does not match the expected"
        ),
        TLS,
    ),
    "tls-plain.bookworm": (f"{SECURE} does not answer in TLS", "look at scheme and port"),
    "tls-plain.trixie": (f"{SECURE} does not answer in TLS", "look at scheme and port"),
    "not-found.bookworm": (f"{CUDA}: the server says 404 File not found", "its address is wrong"),
    "status-403.bookworm": (
        f"{CUDA}/InRelease: the server says 403 Forbidden",
        "its address is wrong, or the mirror no longer has it",
    ),
    "status-503.bookworm": (
        f"{CUDA}/InRelease: the server says 503 Service Unavailable",
        "the fault is the server's",
    ),
    "deb-gone.bookworm": (
        f"{CUDA}/./lab-gone_1.0_all.deb is no longer on its mirror",
        "the host's index is older than the mirror",
    ),
    "deb-torn.bookworm": ("the package /root/torn.deb is damaged or cut short", "apt-get clean"),
    "deb-no-archive.bookworm": (
        "the package /root/page.deb is damaged or cut short",
        "apt-get clean",
    ),
    "space-archives.bookworm": ("no space left for /var/cache/apt/archives", SPACE),
    "space-cache.bookworm": ("no space left for /var/cache/apt", SPACE),
    "space-lists.bookworm": ("no space left for /var/lib/apt/lists", SPACE),
    "space-unpack.bookworm": ("no space left for /usr/share/lab-big/data", SPACE),
    "readonly-dpkg.bookworm": ("/var/lib/dpkg is on a read-only file system", "a kernel that met"),
    "readonly-usr.bookworm": (
        "/usr/share/lab-big/data is on a read-only file system",
        "a kernel that met",
    ),
    "readonly-usr.trixie": (
        "/usr/share/lab-big/data is on a read-only file system",
        "a kernel that met",
    ),
    "lock-frontend.bookworm": ("/var/lib/dpkg/lock-frontend is held by python3 (pid 2246)", LOCK),
    "lock-dpkg.bookworm": ("/var/lib/dpkg/lock is held by python3 (pid 2258)", LOCK),
    "lock-lists.bookworm": ("/var/lib/apt/lists/lock is held by python3 (pid 2270)", LOCK),
    "lock-archives.bookworm": ("/var/cache/apt/archives/lock is held by python3 (pid 2284)", LOCK),
    "lock-dpkg-itself.bookworm": (
        "the dpkg frontend lock is held by another process (pid 2297)",
        LOCK,
    ),
    "lock-dpkg-itself.trixie": (
        "the dpkg frontend lock is held by /usr/bin/python3.13 (pid 2243)",
        LOCK,
    ),
    "interrupted.bookworm": ("dpkg was interrupted", f"{AGAIN}: it is repaired as a change"),
    "unmet.bookworm": (
        f"{FIT}: lab-broken Depends: lab-nowhere (>= 2) but it is not installable",
        "a hold, a pin or a source",
    ),
    "unmet.trixie": (
        f"{FIT}: lab-broken Depends: lab-nowhere (>= 2) but it is not installable",
        "a hold, a pin or a source",
    ),
    "held.trixie": (
        f"{FIT}: lab-needs-late Depends: lab-late (= 1.0) but 2.0 is to be installed",
        "a hold, a pin or a source",
    ),
    "no-archive.bookworm": (
        "lab-half is installed in part, and no source has it any more",
        "apt-get update, if its source is still there",
    ),
    "script-failed.bookworm": (
        "the post-installation script of lab-script failed (exit 3)",
        "what it says stands in the log",
    ),
    "preinst-failed.bookworm": (
        "the pre-installation script of lab-preinst failed (exit 1)",
        "what it says stands in the log",
    ),
    "dkms-build.bookworm": (
        f"DKMS can't build the module for kernel {KERNEL} (lab-module-dkms)",
        "the compiler's words are on the host in /var/lib/dkms/lab-module/1.0/build/make.log",
    ),
    "dkms-build.trixie": (
        f"DKMS can't build the module for kernel {KERNEL} (lab-module-dkms)",
        "the compiler's words are on the host in /var/lib/dkms/lab-module/1.0/build/make.log",
    ),
    "dkms-headers.bookworm": (
        f"DKMS finds no headers of kernel {KERNEL} (lab-module-dkms)",
        f"install linux-headers-{KERNEL}",
    ),
    "dkms-headers.trixie": (
        f"DKMS finds no headers of kernel {KERNEL} (lab-module-dkms)",
        f"install linux-headers-{KERNEL}",
    ),
    "file-clash.bookworm": (
        "/usr/share/lab-thing/data belongs to lab-thing, and lab-clash brings it, too",
        "remove one of the two packages",
    ),
}


def test_every_capture_stands_here():
    assert {path.stem for path in (CAPTURES / "apt").iterdir()} == TOLD.keys()


@pytest.mark.parametrize("name", TOLD)
def test_what_was_said_on_a_host(name):
    trouble = diagnose(capture(f"apt/{name}.txt"))
    reason, hint = TOLD[name]
    assert trouble
    assert trouble.reason == reason
    assert trouble.hint.startswith(hint)
    assert "\n" not in trouble.reason + trouble.hint


# --- not provoked: what apt's sources (methods/connect.cc, http.cc) and initramfs-tools print -----


def fetch(said):
    return f"E: Failed to fetch {CUDA}/Packages.gz  {said}\n"


FILE = f"{CUDA}/Packages.gz"
INITRD = """\
update-initramfs: Generating /boot/initrd.img-6.1.0-18-amd64
zstd: error 70 : Write error : cannot write block : No space left on device
E: mkinitramfs failure zstd 70
update-initramfs: failed for /boot/initrd.img-6.1.0-18-amd64 with 1.
dpkg: error processing package initramfs-tools (--configure):
 installed initramfs-tools package post-installation script subprocess returned error exit status 1
"""


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (fetch("Temporary failure resolving 'deb.example'"), "deb.example can't be resolved"),
        (
            fetch("Something wicked happened resolving 'deb.example:80' (-5 - No address)"),
            "deb.example can't be resolved",
        ),
        (
            fetch("Could not connect to deb.example:80 (192.0.2.1), connection timed out"),
            f"{FILE} can't be fetched: timed out",
        ),
        (
            fetch(
                "Cannot initiate the connection to deb.example:80 (2001:db8::1). "
                "- connect (101: Network is unreachable)"
            ),
            f"{FILE} can't be fetched: unreachable",
        ),
        (
            fetch("Error reading from server - read (104: Connection reset by peer)"),
            f"{FILE} can't be fetched: reset by peer",
        ),
        (
            fetch("Error reading from server. Remote end closed connection [IP: 192.0.2.1 80]"),
            f"{FILE} can't be fetched: closed connection",
        ),
        (
            fetch("Invalid response from proxy: HTTP/1.1 403 Forbidden by policy  Server: x"),
            f"the proxy refuses {FILE}: 403 Forbidden by policy",
        ),
        (
            fetch(
                "Certificate verification failed: The certificate is NOT trusted. "
                "The certificate chain uses expired certificate.  Could not handshake: Error"
            ),
            (
                f"the certificate of {FILE} is not trusted: "
                "The certificate chain uses expired certificate"
            ),
        ),
        (INITRD, "no space left for /boot/initrd.img-6.1.0-18-amd64"),
    ],
)
def test_what_is_known_of_the_sources(text, reason):
    trouble = diagnose(text)
    assert trouble
    assert trouble.reason == reason


# --- NVIDIA's keys ------------------------------------------------------------------------------


@pytest.mark.parametrize("suite", ["bookworm", "trixie"])
@pytest.mark.parametrize(
    ("key", "reason", "hint"),
    [
        ("F60F4B3D7FA2AF80", "NVIDIA's old key 7fa2af80, which is dead", "have it synced"),
        ("A4B469963BF863CC", "NVIDIA's key A4B469963BF863CC, which", "7fa2af80 is dead"),
        ("97A5D4CB8793F200", "NVIDIA's key 97A5D4CB8793F200, which", "7fa2af80 is dead"),
    ],
    ids=["the old one", "the one since 2022", "Debian 13's"],
)
def test_nvidia_s_keys_are_told_apart(suite, key, reason, hint):
    text = capture(f"apt/no-pubkey.{suite}.txt")
    text = text.replace("BB0A5D5CB4305F38C23A6B2D8C15ABACA1F0A65F", key)
    trouble = diagnose(text.replace("8C15ABACA1F0A65F", key))
    assert trouble
    assert reason in trouble.reason
    assert hint in trouble.hint


# --- causes and consequences --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cause", "consequence"),
    [
        ("space-unpack.bookworm", "script-failed.bookworm"),
        ("bad-signature.bookworm", "not-signed.bookworm"),
        ("status-403.bookworm", "not-signed.bookworm"),
        ("dkms-build.trixie", "script-failed.bookworm"),
        ("lock-lists.bookworm", "not-signed.bookworm"),
    ],
)
@pytest.mark.parametrize("first", [True, False])
def test_of_several_the_cause_is_told(cause, consequence, first):
    texts = [capture(f"apt/{name}.txt") for name in (cause, consequence)]
    trouble = diagnose("".join(texts if first else texts[::-1]))
    assert trouble
    assert trouble.reason == TOLD[cause][0]


def test_a_lock_that_was_waited_for_and_got_is_no_trouble():
    waited = (
        "Waiting for cache lock: Could not get lock /var/lib/dpkg/lock-frontend. "
        "It is held by process 1 (apt)...\n"
    )
    assert diagnose(waited) is None
    trouble = diagnose(waited + capture("apt/script-failed.bookworm.txt"))
    assert trouble
    assert trouble.reason == TOLD["script-failed.bookworm"][0]


@pytest.mark.parametrize(
    "text",
    ["", "E: something new\n", "sh: 1: foo: not found\n", f"Get:1 {CUDA}  InRelease [537 B]\n"],
)
def test_what_is_not_known_is_not_guessed(text):
    assert diagnose(text) is None


def test_a_signature_s_unknown_fault_is_told_in_its_own_words():
    trouble = diagnose(f"W: GPG error: {CUDA}  InRelease: something new\n")
    assert trouble
    assert trouble.reason == f"{CUDA} can't be verified: something new"
