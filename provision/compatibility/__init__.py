"""check(want, facts) → rows: can this stack work, by itself and on this host? Pure.

Each rule stands here once; preflight makes blocked changes of what it violates.
"""

from __future__ import annotations

from provision.compatibility import host, python, repository, toolkits, torch
from provision.compatibility.row import Row, Rule, Verdict
from provision.facts import Facts
from provision.want import Want

RULES: tuple[Rule, ...] = (
    *(repository.key, repository.folder),
    *(toolkits.driver, toolkits.gcc, toolkits.glibc, toolkits.architecture),
    *(python.lock, python.series, python.numba, host.python, host.platform),
    *(torch.driver, torch.toolkit, torch.architecture, torch.wheels),
)


def check(want: Want, facts: Facts | None = None) -> list[Row]:
    """Every rule's rows; without facts, what depends on the host is unknown."""
    return [row for rule in RULES for row in rule(want, facts)]


def violated(rows: list[Row]) -> list[Row]:
    """Those that can't work."""
    return [row for row in rows if row.verdict is Verdict.VIOLATED]
