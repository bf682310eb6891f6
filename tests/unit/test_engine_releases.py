"""What is uploaded for releases before their round, and how hosts are switched back."""

import dataclasses
import hashlib
import json

import pytest
from samples import WANT, WHOLE_RUN, events, probed, raw, seen
from scripted import APPLY, PROBE, Outcome

from provision import engine, planner, wheelhouse
from provision import rollback as back
from provision.commands import runs
from provision.errors import ProvisionError
from provision.follow import NotConverged
from provision.inventory import Site
from provision.wheelhouse import Manifest

pytestmark = pytest.mark.usefixtures("clock", "an_inventory")

NONE = {"environments": {"main": None}}
FINISHED = probed()
LOCK = WANT.stack.locks["main"]
STORED = json.dumps({"event": "stored"})
LACKING = '"do": "lacking"'


def sha256(content):
    return hashlib.sha256(content).hexdigest()


# --- wheels ------------------------------------------------------------------------------------


@pytest.fixture
def fetched(tmp_path, monkeypatch):
    """The lock's wheels, as they were fetched here: file → sha256."""
    files = {}
    for name in ("a", "b"):
        path = tmp_path / f"{name}-1-py3-none-any.whl"
        path.write_bytes(f"wheel {name}".encode())
        files[path] = sha256(path.read_bytes())
    asked = []
    monkeypatch.setattr(engine, "locked_wheels", lambda *which: asked.append(which) or files)
    yield files
    assert asked == [(LOCK, "3.11.2")]


def fed(*script):
    outcome = Outcome(*script)
    want = dataclasses.replace(WANT, site=Site(feed=True))
    outcome.target = dataclasses.replace(outcome.target, want=want)
    return outcome.provision()


def test_a_host_without_an_index_is_fed_what_it_lacks_and_told_which_files_they_are(fetched):
    (_, second) = fetched.values()
    names = {path.name: digest for path, digest in fetched.items()}
    outcome = fed(
        (PROBE, probed(NONE)),
        (LACKING, json.dumps({"lacking": [second]})),
        ("wheel b", STORED),
        (f'"feeds": {json.dumps({LOCK.sha256: names})}', events(*WHOLE_RUN)),
        (PROBE, FINISHED),
    )
    told = [event for event in outcome.told if event["event"] in ("fetching", "uploading")]
    assert told == [
        {"event": "fetching", "what": f"the wheels of lock {LOCK.sha256[:12]}"},
        {"event": "uploading", "bytes": len("wheel b")},
    ]


def test_a_host_that_has_all_of_them_is_sent_none(fetched):
    outcome = fed(
        (PROBE, probed(NONE)),
        (LACKING, json.dumps({"lacking": []})),
        (APPLY, events(*WHOLE_RUN)),
        (PROBE, FINISHED),
    )
    assert "uploading" not in outcome.words


def test_a_host_with_an_index_is_fed_nothing():
    outcome = Outcome(
        (PROBE, probed(NONE)), ('"feeds": {}', events(*WHOLE_RUN)), (PROBE, FINISHED)
    ).provision()
    assert "uploading" not in outcome.words


WHEEL = b"our own wheel"
EXTENSION = Manifest(
    file="extension-1.0-cp311-cp311-linux_x86_64.whl",
    sha256=sha256(WHEEL),
    size=len(WHEEL),
    requires=(),
    archs=("12.0",),
    glibc="2.34",
)


def wanting_a_wheel(outcome):
    main = WANT.stack.environment["main"].model_copy(update={"wheels": ("extension",)})
    stack = WANT.stack.model_copy(update={"environment": {"main": main}})
    want = dataclasses.replace(WANT, stack=stack, wheelhouse=(EXTENSION,))
    outcome.target = dataclasses.replace(outcome.target, want=want)
    return outcome


def test_a_wheel_of_our_own_is_uploaded_before_the_round_that_joins_it(tmp_path, monkeypatch):
    (tmp_path / EXTENSION.file).write_bytes(WHEEL)
    content = wheelhouse.content
    monkeypatch.setattr(
        wheelhouse, "content", lambda wheels, sha256: content(wheels, sha256, tmp_path)
    )
    found = raw()["facts"]["environments"]["value"]["main"]
    joined = {
        "wheels": {"extension": EXTENSION.sha256},
        "distributions": {**found["distributions"], "extension": "1.0"},
    }
    outcome = wanting_a_wheel(
        Outcome(
            (PROBE, FINISHED),
            (WHEEL.decode(), STORED),
            (APPLY, events(*WHOLE_RUN)),
            (PROBE, probed({"environments": {"main": joined}})),
        )
    ).provision()
    assert {"event": "uploading", "bytes": len(WHEEL)} in outcome.told


def test_a_wheel_that_is_gone_from_the_wheelhouse_stops_before_anything_is_done(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(wheelhouse.content, "__defaults__", (tmp_path,))
    error = wanting_a_wheel(Outcome((PROBE, FINISHED))).fail(ProvisionError)
    assert "is gone or damaged" in error.what


# --- going back --------------------------------------------------------------------------------

SEALED = {"old-1": "2026-11-30T06:01:00.000Z", "cab0508cf67a-1": "2026-11-30T06:02:00.000Z"}


def host(current="cab0508cf67a-1", **fields):
    return probed({"environments": {"main": {"release": current, "releases": SEALED, **fields}}})


BEFORE, AFTER = host(), host("old-1")
UNLIKE = host("old-1", lock="0" * 64)
CLOSELY = ('"wanted": []', BEFORE)
"""Going back begins with a look at the older releases' files."""


def switch_back(*script):
    outcome = Outcome(*script)
    before = engine.look(outcome.target)
    outcome.look = engine.switch_back(outcome.target, before, outcome.told.append)
    assert outcome.host.script == []
    return outcome


def test_a_host_is_switched_back_and_looked_at_again():
    outcome = switch_back(
        (PROBE, BEFORE), CLOSELY, ('"do": "intact"', events(*WHOLE_RUN)), (PROBE, AFTER)
    )
    assert outcome.look.facts.environments["main"].release == "old-1"
    assert outcome.cost == (1, 4)
    (change,) = outcome.told[0]["plan"].now.changes
    assert (change.before, change.after) == ("cab0508cf67a-1", "old-1")


def test_a_switch_that_did_not_happen_is_an_error_whatever_the_run_said():
    with pytest.raises(NotConverged) as caught:
        switch_back((PROBE, BEFORE), CLOSELY, (APPLY, events(*WHOLE_RUN)), (PROBE, BEFORE))
    assert caught.value.what == (
        "h: environment:main: environments.main.release: promised 'old-1', found 'cab0508cf67a-1'"
    )


def rollback(*names, driver=False, plan=False, json=False, wait=False):
    options = {"driver": driver, "plan": plan, "json": json, "wait": wait}
    return runs.rollback(names, (), verbose=False, **options)


WANTS_MORE = "it is not as stack lab wants: `invoke provision` mends that"


@pytest.mark.parametrize(("after", "said"), [(AFTER, False), (UNLIKE, True)])
def test_what_is_left_to_do_after_a_rollback_is_told_only_where_something_is(
    hosts, capsys, after, said
):
    hosts(a=[BEFORE, BEFORE, events(*WHOLE_RUN), after])
    assert rollback("a") == 0
    assert (WANTS_MORE in capsys.readouterr().out) is said


def test_a_rollback_is_shown_before_it_is_done(hosts, capsys):
    hosts(a=[BEFORE, BEFORE])
    assert rollback("a", plan=True) == 0
    out = capsys.readouterr().out
    assert "cab0508cf67a-1 → old-1" in out
    assert "hold /opt/firstlight/environments/main/releases/old-1 to what it was" in out


@pytest.mark.parametrize("done", [False, True])
def test_a_rollback_as_json(hosts, capsys, done):
    hosts(a=[BEFORE, BEFORE, *([events(*WHOLE_RUN), UNLIKE] if done else [])])
    assert rollback("a", plan=not done, json=True) == 0
    data = json.loads(capsys.readouterr().out)["a"]
    ((change, *_), *_) = data["plan"]["rounds"]
    assert (change["before"], len(data["runs"])) == (
        ("old-1", 1) if done else ("cab0508cf67a-1", 0)
    )


def test_a_host_without_a_release_to_go_back_to_ends_1(hosts, capsys):
    hosts(a=[FINISHED, FINISHED])
    assert rollback("a") == 1
    assert "a: no environment has an older release to go back to" in capsys.readouterr().err


def driver_kept(version):
    names = [n for n, p in seen().dpkg.packages.items() if p and p.version == "590.48.01-1"]
    return {"kept": {name: {f"{version}-1": f"/kept/{name}.deb"} for name in names}}


def test_the_driver_before_is_planned_from_what_was_kept(hosts, capsys):
    kept = probed(driver_kept("580.159.04"))
    hosts(a=[kept, kept])
    assert rollback("a", driver=True, plan=True) == 0
    out = capsys.readouterr().out
    assert "back to driver 580.159.04" in out
    assert "CUDA 13.1 wants driver 590.48.01, at the least 580: by minor-version" in out
    assert "preferences.d/firstlight.pref" in out


def test_who_went_back_is_told_that_the_stack_wants_the_other_driver(hosts, capsys):
    there = driver_kept("580.159.04")
    want = back.driver("a", WANT, seen(there))
    way = planner.plan("a", want, raw(there))
    done = probed(there, *(change.makes for one in way.rounds for change in one.changes))
    hosts(a=[probed(there), done])
    assert rollback("a", driver=True) == 0
    assert (
        "stack lab wants driver 590.48.01: `invoke provision` goes there again; "
        "to stay, give the host a stack with 580.159.04"
    ) in capsys.readouterr().out


def test_a_rollback_that_changes_nothing_is_an_error(hosts, capsys):
    kept = probed(driver_kept("580.159.04"))
    hosts(a=[kept, kept, events(*WHOLE_RUN), kept])
    assert rollback("a", driver=True) == 1
    assert "was applied without an error, but the host is still" in capsys.readouterr().err


def test_a_host_that_kept_no_driver_ends_1(hosts, capsys):
    hosts(a=[FINISHED])
    assert rollback("a", driver=True) == 1
    assert "a: no other driver than 590.48.01-1 was kept here" in capsys.readouterr().err


def test_a_host_on_which_a_run_goes_on_is_left_alone(hosts, capsys):
    hosts(a=[probed(run="theirs")])
    assert rollback("a") == 1
    assert "a: run theirs of them@there is going on since" in capsys.readouterr().err
