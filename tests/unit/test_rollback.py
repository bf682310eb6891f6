"""Going back: to which driver, to which releases, and what is said where there is none."""

import pytest
from samples import DRIVER, TIMEOUT, WANT, raw, seen

from provision import planner, rollback
from provision.errors import ProvisionError
from provision.plan import Intact, Switch
from provision.promises import merge
from provision.resources import apt_pins, driver

NOW = f"{DRIVER}-1"


def kept(*versions):
    files = {version: f"/kept/{version}/nvidia-open_{version}_amd64.deb" for version in versions}
    return {"kept": {"nvidia-open": files}}


def back(*promises, want=WANT, **answers):
    return rollback.driver("h", want, seen(*promises, **answers))


# --- the driver --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("there", "version", "revision"),
    [
        (["580.159.04-1"], "580.159.04", "-1"),
        ([NOW, "595.58.03-1"], "595.58.03", "-1"),
        (["580.159.04-0ubuntu1"], "580.159.04", "-0ubuntu1"),
        (["580.159.04-1", "575.51.03-1"], "580.159.04", "-1"),
    ],
    ids=["the one before", "the one after", "another revision", "of two the newest"],
)
def test_the_driver_whose_packages_were_kept(there, version, revision):
    want = back(kept(*there))
    wanted = want.stack.system.driver
    assert wanted.version == version
    assert wanted.debian.revision == revision
    assert wanted.ubuntu == WANT.stack.system.driver.ubuntu
    assert want.stack.name == f"lab with driver {version}"
    assert want.stack.locks == WANT.stack.locks


def test_pins_and_packages_follow_the_driver_that_is_gone_back_to():
    facts = seen(kept("580.159.04-1"))
    want = back(kept("580.159.04-1"))
    assert "Pin: version 580.159.04-1" in apt_pins.content(want, facts)
    assert set(driver.expected(want, facts).values()) == {"580.159.04-1"}


def test_with_the_driver_before_all_of_the_way_can_be_planned():
    """From the kept files, although no source knows that version."""
    names = [name for name, p in seen().dpkg.packages.items() if p and p.version == NOW]
    older = "580.159.04-1"
    files = {"kept": {name: {older: f"/kept/{older}/{name}.deb"} for name in names}}
    want = back(files)
    asked = planner.plan("h", want, raw(files))
    assert [[change.resource for change in one.changes] for one in asked.rounds] == [
        ["apt_pins"],
        ["driver"],
        ["reload"],
    ]
    after = merge(raw(files), *(c.makes for one in asked.rounds for c in one.changes))
    assert planner.plan("h", want, after).empty


@pytest.mark.parametrize(
    ("promises", "now"),
    [
        ([], NOW),
        ([kept(NOW)], NOW),
        ([{"kept": {"libcuda1": {"580.159.04-1": "/kept/x.deb"}}}], NOW),
        ([{"dpkg": {"packages": {"nvidia-open": None}}}], "none"),
    ],
    ids=["nothing", "the one that is there", "a part without the driver", "no driver"],
)
def test_a_host_that_has_kept_no_other_driver(promises, now):
    with pytest.raises(ProvisionError) as caught:
        back(*promises)
    assert caught.value.what == f"h: no other driver than {now} was kept here"
    assert "give the host a stack that names it" in caught.value.hint


@pytest.mark.parametrize("name", ["os", "dpkg"])
def test_a_host_of_which_too_little_is_known(name):
    with pytest.raises(ProvisionError, match="h: its distribution or packages are not known"):
        back(kept("580.159.04-1"), **{name: TIMEOUT})


def test_a_distribution_whose_packages_the_stack_does_not_know():
    with pytest.raises(ProvisionError, match="its distribution or packages are not known"):
        back(kept("580.159.04-1"), {"os": {"id": "fedora"}})


# --- environments ------------------------------------------------------------------------------

ROOT = "/opt/firstlight/environments/main"


def at(minute):
    return f"2026-11-30T06:{minute:02}:00.000Z"


def switched(current, *changed, **sealed):
    """What going back is, where these were sealed and those were changed since."""
    found = raw()["facts"]["environments"]["value"]["main"]
    older = {
        name: {"lock": "", "wheels": {}, "python": "", "intact": name not in changed}
        for name, at in sealed.items()
        if at and name != current
    }
    main = {**found, "release": current, "releases": sealed, "older": older}
    facts = seen(environments={"status": "ok", "value": {"main": main}})
    return rollback.environments("h", WANT, facts)


@pytest.mark.parametrize(
    ("current", "sealed", "before"),
    [
        ("b", {"a": at(1), "b": at(2), "c": at(3)}, "a"),
        ("c", {"a": at(1), "b": at(2), "c": at(3)}, "b"),
        ("z", {"a": at(1), "b": None, "z": at(3), "y": at(2)}, "y"),
        ("b", {"a": at(1), "b": None, "c": at(3)}, "c"),
        (None, {"a": at(1), "b": at(2)}, "b"),
    ],
    ids=[
        *("of three the first", "of three the second", "one that was never finished"),
        *("the current one's seal is gone", "none is current"),
    ],
)
def test_the_release_that_was_sealed_last_before_the_current_one(current, sealed, before):
    (change,) = switched(current, **sealed)
    assert (change.before, change.after) == (current or "no release", before)
    assert change.actions == (
        Intact(release=f"{ROOT}/releases/{before}"),
        Switch(link=f"{ROOT}/current", target=f"releases/{before}"),
    )
    assert change.makes == {"environments": {"main": {"release": before}}}


THREE = {"a": at(1), "b": at(2), "c": at(3)}


def test_a_release_that_was_changed_since_it_was_sealed_is_passed_over_and_named():
    (change,) = switched("c", "b", **THREE)
    assert change.after == "a"
    assert change.why == "a rollback was asked for; changed since sealed, and passed over: b"


def test_where_all_before_were_changed_they_are_named():
    with pytest.raises(ProvisionError) as caught:
        switched("c", "a", "b", **THREE)
    assert caught.value.what == (
        "h: no environment has an older release to go back to; "
        "changed since sealed, and passed over: b, a"
    )


@pytest.mark.parametrize(
    ("current", "sealed"),
    [
        ("a", {"a": at(1)}),
        ("a", {"a": at(1), "b": at(2)}),
        ("b", {"a": None, "b": at(2)}),
        (None, {}),
    ],
    ids=["it is the only one", "it is the first", "the other is unfinished", "there is none"],
)
def test_where_there_is_no_release_to_go_back_to(current, sealed):
    with pytest.raises(ProvisionError) as caught:
        switched(current, **sealed)
    assert caught.value.what == "h: no environment has an older release to go back to"
    assert "invoke facts" in caught.value.hint


@pytest.mark.parametrize(
    "answer",
    [TIMEOUT, {"status": "ok", "value": {"main": None}}, {"status": "ok", "value": {}}],
    ids=["unknown", "not there", "not asked for"],
)
def test_environments_that_are_not_known_or_not_there(answer):
    with pytest.raises(ProvisionError, match="no environment has an older release"):
        rollback.environments("h", WANT, seen(environments=answer))
