"""What checks say of the finished host, with what differs."""

import samples
from samples import WANT

from provision import checks, facts
from provision.plan import Plan

EMPTY = Plan(host="h", stack="lab", rounds=())


def seen(*promises, cards=(), **answers):
    """The finished host's facts; with what differs, also of single GPUs."""
    found = samples.raw(*promises, **answers)
    for index, fields in cards:
        found["facts"]["gpus"]["value"][index].update(fields)
    return facts.parse(found)


def rows(*promises, want=WANT, plan=EMPTY, **more):
    return {(r.id, r.subject): r for r in checks.check(want, seen(*promises, **more), plan)}


def said(row):
    return (row.expected, row.observed, row.action)
