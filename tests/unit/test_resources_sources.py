"""Where packages come from, what apt may not move, and files of ours."""

import dataclasses

import pytest
from samples import DRIVER, REPOSITORY, WANT, apt_answer, installed, planned, raw, refused, seen

from provision import facts, planner
from provision.inventory import Site
from provision.plan import Apt, Disable, Index, Keyring, Remove, Run, Stage, Write
from provision.resources import (
    apt_index,
    apt_pins,
    apt_source,
    driver,
    managed_file,
    nouveau,
    unattended,
)
from provision.resources.known import NotKnown
from provision.want import Want

# --- the repository ----------------------------------------------------------------------------

KEY, OTHER = REPOSITORY.fingerprint, "B" * 40
OURS = "/etc/apt/sources.list.d/cuda-debian12-x86_64.list"
BY_HAND = "/etc/apt/sources.list.d/by-hand.list"
MAIN = "/etc/apt/sources.list"


def source(*fingerprints, file=BY_HAND, trusted=False):
    return {
        "file": file,
        "suite": "/",
        "signed_by": "/k.gpg",
        "fingerprints": list(fingerprints),
        "trusted": trusted,
    }


def sources(*there):
    """The promise that these sources name the repository."""
    return {"apt": {"sources": {REPOSITORY.url: list(there)}}}


def steps(changes):
    """Every action in a few words."""
    return [
        f"off {action.path}" if isinstance(action, Disable) else f"fetch {action.url}"
        for change in changes
        for action in change.actions
    ]


FETCH = f"fetch {REPOSITORY.url}/cuda-keyring_1.1-1_all.deb"
SOURCES = {
    "none": ([], [FETCH]),
    "ours": ([source(KEY, file=OURS)], []),
    "one by hand with the right key": ([source(KEY)], []),
    "ours with another key": ([source(OTHER, file=OURS)], [FETCH]),
    "another key": ([source(OTHER)], [f"off {BY_HAND}", FETCH]),
    "no key": ([source()], [f"off {BY_HAND}", FETCH]),
    "two keys": ([source(KEY, OTHER)], [f"off {BY_HAND}", FETCH]),
    "ours and a duplicate": ([source(KEY, file=OURS), source(KEY)], [f"off {BY_HAND}"]),
    "a duplicate and ours": ([source(KEY), source(KEY, file=OURS)], [f"off {BY_HAND}"]),
    "ours and another key": ([source(KEY, file=OURS), source(OTHER)], [f"off {BY_HAND}"]),
    "ours with another key and a duplicate": (
        [source(OTHER, file=OURS), source(KEY)],
        [f"off {BY_HAND}", FETCH],
    ),
    "two by hand": (
        [source(KEY), source(KEY, file=MAIN)],
        [f"off {BY_HAND}", f"off {MAIN}", FETCH],
    ),
    "ours and two by hand": (
        [source(KEY, file=OURS), source(KEY), source(OTHER, file=MAIN)],
        [f"off {BY_HAND}", f"off {MAIN}"],
    ),
}


@pytest.mark.parametrize("case", SOURCES, ids=SOURCES)
def test_the_repository_has_one_source_with_one_key(case):
    there, expected = SOURCES[case]
    changes = planned(apt_source, sources(*there))
    assert steps(changes) == expected
    assert len({change.id for change in changes}) == len(changes)
    promises = [change.makes for change in changes]
    assert planned(apt_source, sources(*there), *promises) == []


def test_two_lines_of_one_file_are_switched_off_by_one_change():
    changes = planned(apt_source, sources(source(KEY, file=OURS), source(KEY), source(KEY)))
    assert steps(changes) == [f"off {BY_HAND}"]


def test_a_source_that_needs_no_signature_is_not_ours():
    (change,) = planned(apt_source, sources(source(KEY, file=OURS, trusted=True)))
    assert steps([change]) == steps(planned(apt_source, sources()))
    (off, _) = planned(apt_source, sources(source(KEY, trusted=True)))
    assert "without a signature" in off.before


def test_only_the_wanted_repository_is_edited():
    other = {"http://deb.example/other": [source(OTHER), source()]}
    assert planned(apt_source, {"apt": {"sources": other}}) == []


def test_the_key_package_is_held_to_the_stack_s_hash_and_key():
    hashed = REPOSITORY.model_copy(update={"keyring_sha256": "0" * 64})
    want = dataclasses.replace(WANT, repository=hashed)
    (change,) = planned(apt_source, sources(), want=want)
    (action,) = change.actions
    assert isinstance(action, Keyring)
    assert (action.sha256, action.fingerprint, action.proxy) == ("0" * 64, KEY, None)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, None),
        ({"proxy": "http://proxy:3128"}, "http://proxy:3128"),
        ({"proxy": "http://proxy:3128", "direct": ("deb.example",)}, None),
    ],
)
def test_the_key_package_is_fetched_through_the_site_s_proxy(fields, expected):
    want = dataclasses.replace(WANT, site=Site(**fields))
    (change,) = planned(apt_source, sources(), want=want)
    assert change.actions[0].proxy == expected


def test_what_was_there_before_is_told():
    off, added = planned(apt_source, sources(source(OTHER)))
    assert off.before == f"{REPOSITORY.url} signed by /k.gpg"
    assert added.before == f"signed by {OTHER}"
    assert added.after == f"signed by {KEY}"


CONFLICT = {"apt": {"error": "Conflicting values set for option Signed-By"}}


def test_sources_that_contradict_each_other_are_mended_before_apt_is_asked_anything():
    found = raw(sources(source(KEY, file=OURS), source(OTHER)), CONFLICT)
    found["facts"]["apt"]["value"]["policy"] = {}
    plan = planner.plan("h", WANT, found)
    assert steps([c for c in plan.now.changes if c.resource == "apt_source"]) == [f"off {BY_HAND}"]
    assert plan.now.actionable


def test_what_apt_can_t_read_and_we_can_t_mend_is_told_in_its_words():
    for resource in (apt_index, driver):
        promise = {"dpkg": {"packages": {"nvidia-open": None}}}
        assert "Conflicting values" in str(refused(resource, CONFLICT, promise))


def test_a_trailing_slash_is_no_other_repository():
    slashed = REPOSITORY.model_copy(update={"url": REPOSITORY.url + "/"})
    want = Want(stack=WANT.stack, uv=WANT.uv, repository=slashed)
    assert apt_source.plan(want, seen()) == []


def test_a_distribution_that_the_stack_does_not_know():
    want = Want(stack=WANT.stack, uv=WANT.uv)
    with pytest.raises(NotKnown, match=r"knows no repository for .* \(debian9\)") as caught:
        apt_source.plan(want, seen({"os": {"version_id": "9"}}))
    assert "debian12" in caught.value.hint
    with pytest.raises(NotKnown, match="knows no driver packages"):
        driver.plan(want, seen({"os": {"id": "plan9"}}))


def test_ubuntu_s_versions_are_spelled_without_the_dot():
    want = Want(stack=WANT.stack, uv=WANT.uv)
    os = seen({"os": {"id": "ubuntu", "version_id": "24.04"}}).os
    assert want.repository_for(os) == WANT.stack.system.repository["ubuntu2404"]


def stanzas(text):
    return [
        dict(line.split(": ", 1) for line in stanza.splitlines() if not line.startswith("#"))
        for stanza in text.split("\n\n")
    ]


@pytest.mark.parametrize(("distribution", "archive"), [("debian", "Debian"), ("ubuntu", "Ubuntu")])
def test_pins_hold_every_package_of_the_driver_and_keep_the_distribution_s_out(
    distribution, archive
):
    text = apt_pins.content(WANT, seen({"os": {"id": distribution}}))
    packages = WANT.stack.system.driver.packages(distribution)
    pins = [stanza for stanza in stanzas(text) if stanza]
    held = next(pin for pin in pins if "nvidia-open" in pin["Package"].split())
    assert set(packages.packages) <= set(held["Package"].split())
    assert held["Pin"] == f"version {DRIVER}{packages.revision}"
    assert held["Pin-Priority"] == "1001"
    toolkits = {pin["Package"]: pin["Pin"] for pin in pins if pin["Package"].startswith("cuda-")}
    assert toolkits == {
        t.package: f"version {t.version}" for t in WANT.stack.system.toolkit.values()
    }
    out = [pin for pin in pins if pin["Pin"] == f"release o={archive}"]
    assert [pin["Pin-Priority"] for pin in out] == ["-1"]


@pytest.mark.parametrize(
    ("file", "before"),
    [(None, "no file"), ({"sha256": "0" * 64, "mode": 0o644}, "000000000000 0644")],
)
@pytest.mark.parametrize("resource", [apt_pins, unattended, nouveau], ids=lambda r: r.NAME)
def test_a_file_of_ours_that_is_gone_or_edited_is_put_back(resource, file, before):
    (change,) = planned(resource, {"files": {resource.PATH: file}})
    assert (change.before, change.actions[0].path) == (before, resource.PATH)


def test_a_file_of_ours_with_another_mode_is_put_back():
    (change,) = planned(nouveau, {"files": {nouveau.PATH: {"mode": 0o600}}})
    assert change.before.endswith(" 0600")
    assert change.after.endswith(" 0644")


@pytest.mark.parametrize(("initramfs", "commands"), [(True, 1), (False, 0)])
def test_the_initramfs_is_made_anew_where_there_is_one(initramfs, commands):
    tools = installed("initramfs-tools", "0.142")
    there = tools if initramfs else {"dpkg": {"packages": {"initramfs-tools": None}}}
    (change,) = planned(nouveau, {"files": {nouveau.PATH: None}}, there)
    assert len(change.actions) == 1 + commands


# --- the index ---------------------------------------------------------------------------------


def without(*names, fresh=True):
    """Packages that are neither installed nor in any index that was read."""
    found = raw({"dpkg": {"packages": dict.fromkeys(names)}})
    apt = found["facts"]["apt"]["value"]
    for name in names:
        del apt["policy"][name]
    apt["fresh"] = dict.fromkeys(apt["sources"], fresh)
    return facts.parse(found)


def test_the_index_is_fetched_when_what_is_missing_is_not_in_it():
    (change,) = apt_index.plan(WANT, without("nvidia-open", fresh=False))
    assert change.before == "lacks nvidia-open"
    assert change.actions == (Index(argv=apt_index.UPDATE),)
    policy = change.makes["apt"]["policy"]
    assert policy == {
        "nvidia-open": {
            "candidate": f"{DRIVER}-1",
            "versions": {f"{DRIVER}-1": REPOSITORY.url},
        }
    }


def test_an_index_that_was_just_read_is_believed():
    assert apt_index.plan(WANT, without("nvidia-open", fresh=True)) == []


def test_an_index_that_was_just_read_is_believed_though_it_offers_nothing_that_was_asked_for():
    """Of the headers alone, whose policy the probe isn't asked for."""
    there = raw()["facts"]["dpkg"]["value"]["packages"]
    gone = {"packages": {name: None for name in there if name.startswith("linux-headers-")}}
    apt = raw()["facts"]["apt"]["value"]
    stale = {**apt, "policy": {}, "fresh": dict.fromkeys(apt["sources"], False)}
    answer = {"apt": {"status": "ok", "value": stale}}
    (change,) = planned(apt_index, {"dpkg": gone}, **answer)
    assert "linux-headers-" in change.before
    answer["apt"]["value"] = {**stale, **change.makes["apt"]}
    assert planned(apt_index, {"dpkg": gone}, **answer) == []


def test_the_index_is_not_fetched_for_what_is_there():
    fresh = {"apt": {"fresh": dict.fromkeys(raw()["facts"]["apt"]["value"]["sources"], False)}}
    assert planned(apt_index, fresh) == []


# --- NVIDIA's own pins -------------------------------------------------------------------------

PINNING = installed("nvidia-driver-pinning-580", "580-1")


def test_nvidia_s_own_pins_go_with_their_configuration():
    (change,) = planned(apt_pins, PINNING)
    (apt,) = change.actions
    assert isinstance(apt, Apt)
    assert apt.argv == (*apt_pins.PURGE, "nvidia-driver-pinning-580")
    assert "purge" in apt.argv
    assert planned(apt_pins, PINNING, change.makes) == []


def answer(apt, **said):
    return {"simulations": {apt.key: apt_answer(**said)}}


def test_what_purging_them_would_remove_is_shown():
    ((apt,),) = (change.actions for change in planned(apt_pins, PINNING))
    said = answer(apt, remove={"nvidia-driver-pinning-580": "580-1"})
    (change,) = planned(apt_pins, PINNING, said)
    assert change.actions[0].remove == {"nvidia-driver-pinning-580": "580-1"}


def test_apt_s_refusal_to_purge_them_is_told():
    ((apt,),) = (change.actions for change in planned(apt_pins, PINNING))
    refusal = refused(apt_pins, PINNING, answer(apt, error="held broken packages"))
    assert "held broken packages" in str(refusal)


# --- a file of ours ----------------------------------------------------------------------------

THERE = {"sha256": "0" * 64, "mode": 0o644}


def file_change(content, file):
    return managed_file.file_change(
        "r",
        Stage.SOURCES,
        seen({"files": {"/f": file}}),
        path="/f",
        content=content,
        why="it is wanted",
        then=(Run(argv=("reread",)),),
    )


def test_a_file_that_is_wanted_no_more_is_taken_away_and_its_readers_told():
    (change,) = file_change(None, THERE)
    assert change.actions == (Remove(path="/f"), Run(argv=("reread",)))
    assert (change.before, change.after) == ("000000000000 0644", "no file")
    assert change.why == "the inventory no longer asks for it"
    assert change.makes == {"files": {"/f": None}}


def test_a_file_that_nobody_wants_and_nobody_has_is_left_alone():
    assert file_change(None, None) == []


def test_a_folder_where_a_file_of_ours_belongs_is_refused():
    with pytest.raises(NotKnown, match="/f is a directory") as caught:
        file_change("one\n", {"sha256": facts.DIRECTORY, "mode": 0o755})
    assert "move it away" in caught.value.hint


def test_a_file_that_is_wanted_is_written_and_its_readers_told():
    (change,) = file_change("one\n", None)
    assert change.actions == (
        Write(path="/f", content="one\n", mode=0o644),
        Run(argv=("reread",)),
    )
    assert file_change("one\n", change.makes["files"]["/f"]) == []
