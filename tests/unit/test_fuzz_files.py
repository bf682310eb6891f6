"""No file of the user's makes a traceback: inventories, stacks, locks, saved plans.

Whatever is wrong in them ends in one error of ours that names file and place.
"""

import json

import pytest
import yaml
from harmless import Host, printing, refused, words_are_ours
from hypothesis import given
from hypothesis import strategies as st
from samples import WANT, WHOLE_RUN, events, probed, raw
from spoilt import spoilt, spoilt_text, values

from provision import inventory, planner, stack
from provision.commands import hosts as commands
from provision.errors import UsageError
from provision.resources import nouveau
from provision.target import Target
from provision.want import Want
from tests.scenarios import scenario
from tests.steady import steady

INVENTORY = (inventory.FILE).read_text()
HOST_TREE = {
    "address": "gpu01",
    "user": "root",
    "port": 22,
    "host_key": "SHA256:" + "A" * 43,
    "ssh_config": "config",
    "stack": "lab",
    "gpus": {"count": 8, "model": "x"},
    "repository": {"url": "http://h/x", "fingerprint": "A" * 40, "keyring_sha256": "a" * 64},
    "site": {"proxy": "http://p:1", "direct": ["a"], "index": "https://i/simple"},
}
TREE = {
    "default": "a",
    "defaults": {"user": "root", "site": {"direct": ["b"]}},
    "hosts": {"a": HOST_TREE, "b": {"connection": "local", "stack": "lab"}},
    "groups": {"all": ["a", "b"]},
}
"""Every field of an inventory but those whose files are read."""


def parsed(text):
    try:
        found = inventory.parse(text, "inventory.yaml")
    except UsageError as error:
        refused(error, tuple(f"inventory.yaml:{digit}" for digit in "123456789"))
    else:
        assert found.select()[0].name == found.default


@steady(300)
@given(spoilt_text(INVENTORY))
def test_an_inventory_s_text_is_read_or_its_line_is_named(text):
    parsed(text)


@steady(250)
@given(spoilt(TREE).map(lambda tree: yaml.safe_dump(tree, allow_unicode=True)))
def test_an_inventory_of_any_tree_is_read_or_its_line_is_named(text):
    parsed(text)


FILES = {
    path.relative_to(stack.FOLDER).as_posix(): path.read_text()
    for path in sorted(stack.FOLDER.rglob("*.[t][ox][mt]*"))
    if not path.name.startswith("torch29")  # much like the others, and long
}
TOML = (
    *(
        '""',
        '"-"',
        '"../x"',
        '"a\\nb"',
        '"\\u0000"',
        "'$(x)'",
        '"~"',
        '"1.2"',
        "5",
        "-1",
        "1e400",
        "nan",
    ),
    *(
        "true",
        "[]",
        "[1]",
        '["--force"]',
        "{}",
        "{a = 1}",
        "1979-05-27",
        "0x" + "f" * 5000,
        "[[",
        "",
    ),
)
"""Behind a key; for a lock's text, as good as anything else."""
BARE = scenario.load("debian12-bare").facts


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A copy of the shipped stacks, of which each example spoils one file."""
    folder = tmp_path_factory.mktemp("stacks")
    (folder / "locks").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stack, "FOLDER", folder)
        yield folder


@steady(250)
@given(
    st.sampled_from(sorted(FILES)).flatmap(
        lambda f: st.tuples(st.just(f), spoilt_text(FILES[f], TOML))
    )
)
def test_a_stack_is_read_or_its_file_is_named_and_what_is_read_can_be_planned(folder, case):
    for name, text in (FILES | dict([case])).items():
        (folder / name).write_text(text)
    file = case[0].rpartition("/")[2]
    name = "lab-cuda131" if file.startswith("lab-cuda131") else "lab"
    try:
        want = Want(stack=stack.load(name), uv=stack.load_uv())
        plan = planner.plan("h", want, BARE)
    except UsageError as error:
        refused(error, (file, f"{name}.", f"stack {name}: ", "there is no stack"))
    else:
        words_are_ours(plan)


# --- saved plans -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def apply(tmp_path_factory):
    """Applies a plan's text to host h of an inventory: the exit code, and what h was asked."""
    tmp = tmp_path_factory.mktemp("plans")
    (tmp / "inventory.yaml").write_text("default: h\nhosts:\n  h: {stack: lab}\n")
    hosts = []

    def ready(host, **_options):
        hosts.append(Host([probed(LACKS), probed()], lines=events(*WHOLE_RUN)))
        return Target(host=host, want=WANT, transport=hosts[-1])

    def apply(text):
        hosts.clear()
        (tmp / "plan.json").write_bytes(text)
        with printing():
            code = commands.apply(tmp / "plan.json", json=False, verbose=True, wait=False)
        return code, [asked for host in hosts for asked in host.asked]

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(inventory.VARIABLE, str(tmp / "inventory.yaml"))
        patch.setattr(commands, "target", ready)
        yield apply


LACKS = {"files": {nouveau.PATH: None}}
PLAN = planner.plan("h", WANT, raw(LACKS))
SAVED = PLAN.to_data()
ORDERED = [{"id": c["id"], "actions": c["actions"]} for c in SAVED["rounds"][0]]


@steady(150)
@given(
    st.one_of(
        spoilt(SAVED).map(lambda plan: json.dumps(plan).encode()),
        spoilt_text(json.dumps(SAVED)).map(lambda text: text.encode("utf-8", "surrogatepass")),
        values.map(lambda value: json.dumps(value).encode()),
        st.binary(max_size=30),
        st.just(b"[" * 100_000),
    )
)
def test_a_file_of_any_content_is_a_plan_or_none_and_is_compared_alone(apply, text):
    code, asked = apply(text)
    assert code in (0, 2, 3)
    if code != 0:
        assert [one for one in asked if one["do"] != "probe"] == []


@steady(50)
@given(spoilt({"rounds": SAVED["rounds"]}).filter(lambda data: "rounds" in data))
def test_what_is_done_is_planned_afresh_whatever_a_saved_plan_says_beside_its_fingerprint(
    apply, evil
):
    code, asked = apply(json.dumps(SAVED | evil).encode())
    sent = [one["round"]["changes"] for one in asked if one["do"] == "apply"]
    assert (code, sent) in ((0, [ORDERED]), (2, []))
