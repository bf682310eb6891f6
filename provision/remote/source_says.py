"""What apt says of one source or download that failed, as (reason, hint). Pure.

Known are the texts of apt 2.6, which verifies with gpgv, and of apt 3.0, which does with sqv.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

AGAIN = "run the same command again"
CLOCK = f"set the host's clock (timedatectl set-ntp true, or timedatectl set-time), then {AGAIN}"
NETWORK = (
    "look at the host's way to it (route, firewall, DNS); where a proxy stands between, "
    "name it in the inventory (site.proxy)"
)
TLS = (
    "where the site's proxy or mirror has a CA of its own, name it in the inventory (site.ca, "
    "see README); otherwise look at the host's clock, and at who answers at that address"
)
DAMAGED = f"{AGAIN}; if it stays, the mirror is being synced or a proxy keeps a damaged copy"


class Rule(NamedTuple):
    """What apt says, and what that means."""

    pattern: str
    reason: str
    """With {what} for the source or file, and the pattern's groups in their order."""
    hint: str


SIGNATURES: tuple[Rule, ...] = (
    Rule(
        r"BADSIG|has been manipulated",
        "{what} was changed after it was signed",
        "a proxy or mirror in between damages or forges it: find out which; nothing of it is "
        "installed",
    ),
    Rule(
        r"Not live until (\S+)",
        "{what} was signed at {0}, which is still to come: the host's clock is behind",
        CLOCK,
    ),
    Rule(
        r'Failed to parse keyring "([^"]+)".*: ([^:]+) \(os error',
        "{what} can't be verified with {0}: {1}",
        "the keyring must be there, and readable for everybody (chmod 0644); or the source must go",
    ),
    Rule(
        r"(\b[0-9A-F]{16,40}\b) is not bound.*SHA1 is not considered secure since ([\d-]+)",
        "{what} is signed with key {0}, which rests on SHA-1: refused since {1}",
        "the key's owner must renew it; until then take a mirror that signs with another key "
        "(repository in the inventory), or switch the source off",
    ),
    Rule(
        r"(?:REVKEYSIG ([0-9A-F]+)|(\b[0-9A-F]{16,40}\b) is bad:.*revoked)",
        "{what} is signed with key {0}, which its owner has revoked",
        "trust it no more: install the owner's new key, or switch the source off",
    ),
    Rule(
        r"(?:EXPKEYSIG ([0-9A-F]+)|(\b[0-9A-F]{16,40}\b) is bad:.*Expired on)",
        "{what} is signed with key {0}, which has expired",
        "install the renewed key from its owner; if it is still valid, the host's clock is ahead "
        "(timedatectl)",
    ),
    Rule(
        r"EXPSIG|Expired on",
        "{what} has a signature that has expired",
        "its mirror is no longer updated, or the host's clock is ahead (timedatectl)",
    ),
    Rule(
        # Replaced on 2022-04-27: "Updating the CUDA Linux GPG Repository Key" in NVIDIA's blog.
        r"(?:NO_PUBKEY|Missing key) [0-9A-F]*7FA2AF80\b",
        "{what} is signed with NVIDIA's old key 7fa2af80, which is dead since April 2022",
        "the mirror is older than that: have it synced, or take NVIDIA's own repository",
    ),
    Rule(
        r"(?:NO_PUBKEY|Missing key) ([0-9A-F]*(?:3BF863CC|8793F200))\b",
        "{what} is signed with NVIDIA's key {0}, which the source's keyring does not hold",
        "the source still trusts another key (7fa2af80 is dead): take it away on the host, and "
        f"{AGAIN}: it adds NVIDIA's own source with the right key",
    ),
    Rule(
        r"(?:NO_PUBKEY|Missing key) ([0-9A-F]+)",
        "{what} is signed with key {0}, which the source's keyring does not hold",
        "if that is the right key, install it for this source, or name its fingerprint in the "
        "inventory (repository); if not, somebody else answers at that address",
    ),
    Rule(
        r"invalid: ([0-9A-F]{16,40})$",
        "{what} is signed with key {0} over a digest that is no longer trusted, such as SHA-1",
        "it must be signed anew, with SHA-256 or better",
    ),
)

DOWNLOADS: tuple[Rule, ...] = (
    Rule(
        r"Hash Sum mismatch", "{what} is not what its index promises (Hash Sum mismatch)", DAMAGED
    ),
    Rule(
        r"unexpected size \((\d+) != (\d+)\)",
        "{what} has {0} bytes, its index promises {1}",
        DAMAGED,
    ),
    Rule(
        r"NOSPLIT|require authentication",
        "{what} is no index: something else answers in its place",
        "a portal or proxy wants a login first, or the address is wrong: see what curl gets there",
    ),
    Rule(
        r"(?:Could not resolve|resolving) '([^':]+)",
        "{0} can't be resolved",
        "look at the host's DNS (resolvectl status, /etc/resolv.conf), or name the site's proxy "
        "in the inventory (site.proxy)",
    ),
    Rule(
        r"^407|from proxy: HTTP/\S+ 407",
        "the proxy wants a login before it gives {what}",
        "have the proxy accept this host without one: site.proxy takes no password",
    ),
    Rule(
        r"from proxy: HTTP/\S+ (\d{3} \S+(?: \S+)*)",
        "the proxy refuses {what}: {0}",
        "have the proxy allow it, or name its host in the inventory (site.direct)",
    ),
    Rule(r"NOT trusted\. +(.+?)\. ", "the certificate of {what} is not trusted: {0}", TLS),
    Rule(r"certificate verif", "the certificate of {what} is not trusted", TLS),
    Rule(
        r"handshake|SSL connection failed",
        "{what} does not answer in TLS",
        "look at scheme and port of its address, and at a proxy in between",
    ),
    Rule(
        r"connect to (\S+) .*refused", "{0} refuses connections: {what} can't be fetched", NETWORK
    ),
    Rule(
        r"(timed out|unreachable|reset by peer|closed connection|Undetermined Error)",
        "{what} can't be fetched: {0}",
        NETWORK,
    ),
    Rule(r"Connection failed", "{what} can't be fetched: no answer", NETWORK),
    Rule(
        r"^(5\d\d +\S.*?)(?: \[|$)",
        "{what}: the server says {0}",
        f"the fault is the server's: {AGAIN} later, or take another mirror",
    ),
    Rule(
        r"^(4\d\d +\S.*?)(?: \[|$)",
        "{what}: the server says {0}",
        "its address is wrong, or the mirror no longer has it or does not let this host in",
    ),
)
GONE = Rule(
    r"^404 ",
    "{what} is no longer on its mirror",
    f"the host's index is older than the mirror: apt-get update there, then {AGAIN}",
)
"""Of a package, in place of the last: whoever names it is an index that was fetched before."""


def signature(source: str, said: str) -> tuple[str, str]:
    """Why a source's signature does not hold."""
    unknown = f"{source} can't be verified: {said}", "compare its key with the one of its owner"
    return _first(SIGNATURES, source, said) or unknown


def download(url: str, said: str) -> tuple[str, str] | None:
    """Why a file could not be fetched, None where apt's words are not known."""
    rules = (GONE, *DOWNLOADS) if url.endswith(".deb") else DOWNLOADS
    return _first(rules, url, said)


def _first(rules: Iterable[Rule], what: str, said: str) -> tuple[str, str] | None:
    for rule in rules:
        if found := re.search(rule.pattern, said):
            named = [" ".join(group.split()) for group in found.groups() if group]
            return rule.reason.format(*named, what=what), rule.hint
    return None
