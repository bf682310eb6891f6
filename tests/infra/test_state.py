"""The host is what its stack wants: planning afresh finds nothing to do."""

import pytest

from provision import resources
from provision.report import Report


def test_nothing_is_left_to_do(site):
    Report().plan(site.look.plan)  # shown by pytest when this fails
    assert [change.id for change in site.look.plan.now.changes] == []


@pytest.mark.parametrize("resource", [resource.NAME for resource in resources.ORDER])
def test_resource_is_as_wanted(site, resource, record_property):
    differs = [c for c in site.look.plan.now.changes if c.resource == resource]
    record_property(f"state.{resource}", f"{len(differs)} changes due")
    assert [(c.subject, c.before, c.after, c.blocked) for c in differs] == []


def test_nothing_is_awaited(site):
    assert [f"{c.after}: {c.awaited}" for c in site.look.plan.awaited] == []
