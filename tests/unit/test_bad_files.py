"""Files that are wrong: stacks, locks and saved plans. Each is told with its name and its place."""

import json

import pytest
from layers import told

SPOILT = {
    "an environment elsewhere": (
        ("lab.toml", "[environment.main]", '[environment."../../etc"]'),
        "lab.toml: environment.../../etc: String should match pattern",
    ),
    "no packages of a driver": (
        (
            "r590-cuda131-cuda128.toml",
            'packages = ["nvidia-open", "nvidia-persistenced"]',
            "packages = []",
        ),
        "r590-cuda131-cuda128.toml: driver.debian.packages: Tuple should have at least 1 item",
    ),
    "a package that is an option": (
        ("r590-cuda131-cuda128.toml", '"make"', '"--reinstall"'),
        "r590-cuda131-cuda128.toml: compilers.packages.2: String should match pattern",
    ),
    "a login in a stack's repository": (
        ("r590-cuda131-cuda128.toml", "https://", "https://user:secret@"),
        "r590-cuda131-cuda128.toml: repository.ubuntu2204.url: has a login in it",
    ),
    "a toolkit that is no release": (
        ("lab.toml", '"12.8"', '"12"'),
        "lab.toml: toolkits.1: String should match pattern",
    ),
    "a driver's version that has no order": (
        ("r590-cuda131-cuda128.toml", 'version = "590.48.01"', 'version = "-"'),
        "r590-cuda131-cuda128.toml: driver.version: not a version such as",
    ),
    "a least driver that has no order": (
        ("r590-cuda131-cuda128.toml", 'driver = "570.124.06"', 'driver = "r570"'),
        "r590-cuda131-cuda128.toml: toolkit.12.8.driver: not a version such as",
    ),
    "a system elsewhere": (
        ("lab.toml", '"r590-cuda131-cuda128"', '"../stacks/lab"'),
        "lab.toml: system: there is no file ../stacks/lab.toml beside it",
    ),
    "a system that is a number": (
        ("lab.toml", '"r590-cuda131-cuda128"', "590"),
        "lab.toml: system: there is no file 590.toml beside it",
    ),
    "a date that is none": (
        ("lab.toml", "2026-02-15", '"soon"'),
        "lab.toml: date: Input should be a valid date",
    ),
    "TOML without a bottom": (
        ("lab.toml", "date =", f"x = {'[' * 100_000}\ndate ="),
        "lab.toml: it is nested too deeply",
    ),
    "a number without an end": (
        ("lab.toml", "date =", f"x = 1{'0' * 5000}\ndate ="),
        "lab.toml: Exceeds the limit",
    ),
}
"""A piece of a shipped stack that is exchanged → what is said."""


@pytest.mark.parametrize("case", SPOILT, ids=SPOILT)
def test_a_bad_stack_is_told_with_file_and_field(meet, case):
    piece, words = SPOILT[case]
    told(meet, ("stack", *piece), (2, [words], ""))


GOOD = "--hash=sha256:" + "0" * 64
LOCKS = {
    "a pin that is an option": f"--pre==1 {GOOD}\n",
    "a pin of any version": f"numpy {GOOD}\n",
    "a pin of two words": f"numpy==2.2.6 pandas==1 {GOOD}\n",
    "a version that may move": f"numpy>=2 {GOOD}\n",
    "a wheel from an address": f"numpy @ https://user:secret@h/numpy.whl {GOOD}\n",
    "an index of its own": f"--index-url https://user:secret@h/ {GOOD}\n",
    "a shell's words": f"numpy==2.2.6; reboot {GOOD}\n",
    "bytes that are no text": b"\xff\n",
}


@pytest.mark.parametrize("case", LOCKS, ids=LOCKS)
def test_a_bad_lock_is_told_with_its_file(meet, case):
    told(meet, ("lock", LOCKS[case]), (2, ["lab.main.txt"], "invoke lock --stack lab"))


PLAN = {"schema": 1, "host": "a", "fingerprint": "f", "rounds": []}
PLANS = {
    "an empty plan file": ("", "Expecting value"),
    "a plan that is cut short": (json.dumps(PLAN)[:-1], "Expecting"),
    "a plan that is a list": ("[]", "it holds no plan"),
    "a plan of another version": (json.dumps(PLAN | {"schema": 2}), "it is a plan of schema 2"),
    "a plan without a host": (json.dumps(PLAN | {"host": None}), "it holds no plan"),
    "a plan whose rounds are words": (json.dumps(PLAN | {"rounds": ["x"]}), "it holds no plan"),
    "a plan whose changes have lists for names": (
        json.dumps(PLAN | {"rounds": [[{"id": ["x"], "actions": []}]]}),
        "it holds no plan",
    ),
    "a plan without a bottom": ("[" * 100_000, "maximum recursion depth"),
    "a plan that is no text": (b"\xff", "codec can't decode"),
}


@pytest.mark.parametrize("case", PLANS, ids=PLANS)
def test_a_bad_plan_file_is_told_with_what_makes_one(meet, case):
    content, words = PLANS[case]
    what = ["plan.json: can't be read as a plan: ", words]
    told(meet, ("plan", content), (2, what, "invoke plan --output"))
