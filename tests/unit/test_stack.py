"""Stacks as they are read from a folder: right ones, and wrong ones that say what is wrong."""

import re

import pytest

from provision import stack
from provision.errors import UsageError

SHIPPED = stack.names()


SYSTEM = """\
[driver]
version = "1.2"
open = true
unwanted = ["drivers-*"]
[driver.debian]
revision = "-1"
packages = ["driver"]
module = "driver"
tools = "driver"
pinned = ["driver"]
archive = "Debian"
[driver.ubuntu]
revision = "-1"
packages = ["driver"]
module = "driver"
tools = "driver"
pinned = ["driver"]
archive = "Ubuntu"
[toolkit."13.1"]
package = "toolkit-13-1"
version = "13.1-1"
driver = "1.2"
[space]
"/" = 1
[compilers]
packages = ["gcc"]
[repository.debian12]
url = "http://deb.example/cuda"
fingerprint = "0123456789ABCDEF0123456789ABCDEF01234567"
"""
STACK = """\
system = "base"
toolkits = ["13.1"]
date = 2026-02-15
[environment.main]
python = ">=3.11"
requirements = ["numpy<2.3"]
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder of stacks that is right."""
    (tmp_path / "base.toml").write_text(SYSTEM)
    (tmp_path / "small.toml").write_text(STACK)
    (tmp_path / "locks").mkdir()
    (tmp_path / "locks" / "small.main.txt").write_text("numpy==2.2.6 --hash=sha256:" + "0" * 64)
    monkeypatch.setattr(stack, "FOLDER", tmp_path)
    return tmp_path


def replace(file, old, new):
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, new))


def test_a_small_stack_is_right(folder):
    loaded = stack.load("small")
    assert stack.names() == ["small"]
    assert loaded.system.driver.version == "1.2"
    assert loaded.locks["main"].versions("3.11.2") == {"numpy": "2.2.6"}


def test_stacks_that_are_broken_are_listed_and_loading_them_says_why(folder):
    (folder / "broken.toml").write_text('system = "base"\n[x\n')
    assert stack.names() == ["broken", "small"]
    with pytest.raises(UsageError, match=r"^broken\.toml: .*line 2"):
        stack.load("broken")
    assert stack.load("small").name == "small"


def like(folder, text, name="mine"):
    """A system file beside the right one, and a stack on it."""
    (folder / f"{name}.toml").write_text(text)
    (folder / "small.toml").write_text(STACK.replace('"base"', f'"{name}"'))


def test_a_system_like_another_states_only_what_differs(folder):
    base = stack.load("small").system
    like(folder, 'like = "base"\n[driver]\nversion = "2.0"\n[driver.ubuntu]\nrevision = "-2"\n')
    ubuntu = base.driver.ubuntu.model_copy(update={"revision": "-2"})
    driver = base.driver.model_copy(update={"version": "2.0", "ubuntu": ubuntu})
    assert stack.load("small").system == base.model_copy(update={"driver": driver})


@pytest.mark.parametrize(
    "other", ['"none"', '"mine"', '"small"', '"uv"', '"../base"', '["base"]', "1"]
)
def test_a_system_is_like_a_whole_one_or_it_is_refused(folder, other):
    like(folder, f"like = {other}\n")
    (folder / "uv.toml").write_text('version = "1"\n')
    shown = re.escape(other.replace('"', "'"))
    said = rf"^mine\.toml: like: expected the name of a whole system file, got {shown}$"
    with pytest.raises(UsageError, match=said) as caught:
        stack.load("small")
    assert caught.value.hint == "beside it: base"


def test_what_is_like_another_is_no_example_itself(folder):
    (folder / "second.toml").write_text('like = "base"\n')
    like(folder, 'like = "second"\n')
    with pytest.raises(UsageError, match=r"^mine\.toml: like: .*whole system file, got 'second'$"):
        stack.load("small")


def test_a_wrong_field_of_one_like_another_is_told_by_its_own_file(folder):
    like(folder, 'like = "base"\n[driver]\nopen = "maybe"\n')
    with pytest.raises(UsageError, match=r"^mine\.toml: driver\.open: .*boolean"):
        stack.load("small")


def test_a_stack_may_have_no_environment(folder):
    (folder / "small.toml").write_text(STACK.partition("[environment")[0])
    loaded = stack.load("small")
    assert loaded.environment == loaded.locks == {}


WRONG = {
    "TOML that is cut short": ("base.toml", "open = true", "open =", r"^base\.toml: .*line 3"),
    "a toolkit that the system lacks": (
        "small.toml",
        '["13.1"]',
        '["12.8"]',
        r"^small\.toml: toolkits: base\.toml has 13\.1, not '12\.8'$",
    ),
    "room that is a word": (
        "base.toml",
        '"/" = 1',
        '"/" = "much"',
        r"^base\.toml: space\./: .*number.*'much'",
    ),
    "an unknown key": (
        "small.toml",
        "date =",
        "dat =",
        r"^small\.toml: dat: unknown field; did you mean date\?$",
    ),
    "no date": ("small.toml", "date = 2026-02-15\n", "", "small.toml: date: Field required"),
    "a bad requirement": (
        "small.toml",
        "numpy<2.3",
        "numpy<<2.3",
        r"small.toml: environment.main.requirements.0: .*not a requirement",
    ),
    "a bad range of Python": (
        "small.toml",
        ">=3.11",
        "3.11 or so",
        r"small.toml: environment.main.python: .*not a version range",
    ),
    "a Python that locks are not made for": (
        "small.toml",
        ">=3.11",
        ">=3.15",
        r"small.toml: environment.main.python: .*none of Python 3\.10 to 3\.14.*'>=3\.15'",
    ),
    "a platform that uv can't resolve for": (
        "small.toml",
        "python =",
        'platform = "manylinux_2_30"\npython =',
        r"small.toml: environment.main.platform: .*pattern.*2_30",
    ),
    "an unknown key of an environment": (
        "small.toml",
        "python =",
        "pyhton = 1\npython =",
        r"small.toml: environment.main.pyhton: unknown field; did you mean python\?$",
    ),
    "a system that is not there": (
        "small.toml",
        '"base"',
        '"bass"',
        r"small.toml: system: there is no file bass.toml",
    ),
    "a fingerprint in lower case": (
        "base.toml",
        "89ABCDEF",
        "89abcdef",
        r"base.toml: repository.debian12.fingerprint: .*pattern",
    ),
    "a fingerprint that is too short": (
        "base.toml",
        "89ABCDEF0123456789",
        "",
        r"base.toml: repository.debian12.fingerprint: .*pattern",
    ),
    "an address with a space": (
        "base.toml",
        "deb.example/cuda",
        "deb.example/cu da",
        r"base.toml: repository.debian12.url: .*pattern",
    ),
    "an address of another scheme": (
        "base.toml",
        "http://",
        "ftp://",
        r"base.toml: repository.debian12.url: .*pattern",
    ),
    "a version with a shell's words": (
        "base.toml",
        '"13.1-1"',
        '"13.1-1; reboot"',
        r"base.toml: toolkit.13.1.version: .*pattern.*reboot",
    ),
    "a package that is an option": (
        "base.toml",
        '["gcc"]',
        '["--force"]',
        r"base.toml: compilers.packages.0: .*pattern.*--force",
    ),
    "no packages of a driver": (
        "base.toml",
        'packages = ["driver"]',
        "packages = []",
        r"base.toml: driver.debian.packages: .*at least 1",
    ),
    "an environment that would lie elsewhere": (
        "small.toml",
        "[environment.main]",
        '[environment."../../etc"]',
        r"small.toml: environment.\.\./\.\./etc: .*pattern",
    ),
    "a login in an address": (
        "base.toml",
        "http://",
        "http://user:secret@",
        r"base.toml: repository.debian12.url: .*has a login in it.*'http://…@deb",
    ),
    "a flag that is a word": (
        "base.toml",
        "open = true",
        'open = "maybe"',
        r"base.toml: driver.open: .*boolean",
    ),
}


@pytest.mark.parametrize("case", WRONG, ids=WRONG)
def test_a_wrong_stack_names_file_and_field(folder, case):
    file, old, new, message = WRONG[case]
    replace(folder / file, old, new)
    with pytest.raises(UsageError, match=message):
        stack.load("small")


@pytest.mark.parametrize("name", ["none", "base", "../small", ""])
def test_a_stack_that_there_is_not(folder, name):
    with pytest.raises(UsageError, match=f"there is no stack '{name}'") as caught:
        stack.load(name)
    assert caught.value.hint == "stacks there: small"


LOCKED = "--hash=sha256:" + "0" * 64


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (f"# a note\nnumpy>=2 {LOCKED}\n", 2),
        (f"a==1 \\\n    {LOCKED} \\\n    {LOCKED}\n\nb @ https://h/b.whl {LOCKED}\n", 5),
        (f"--index-url https://h/\na==1 {LOCKED}\n", 1),
        (f"a==1 \\\n    {LOCKED}\nb==1; reboot {LOCKED}\n", 3),
    ],
)
def test_a_lock_that_is_not_pinned_names_its_line(folder, text, line):
    (folder / "locks" / "small.main.txt").write_text(text)
    loaded = stack.load("small")
    with pytest.raises(UsageError, match=rf"^small\.main\.txt: line {line}: "):
        loaded.locks  # noqa: B018 - it is read when it is asked for


@pytest.mark.parametrize("file", ["small.toml", "base.toml", "locks/small.main.txt"])
def test_a_file_that_is_no_text(folder, file):
    (folder / file).write_bytes(b'system = "base"\n\xff\n')
    with pytest.raises(UsageError, match=rf"^{file.rpartition('/')[2]}: can't be read: 'utf-8'"):
        stack.load("small").locks  # noqa: B018


@pytest.mark.parametrize(
    "text", ["x = " + "[" * 100_000, "x = 1" + "0" * 5000], ids=["deep", "endless"]
)
def test_toml_that_python_stumbles_over(folder, text):
    (folder / "small.toml").write_text(f'system = "base"\n{text}\n')
    with pytest.raises(UsageError, match=r"^small\.toml: "):
        stack.load("small")


@pytest.mark.parametrize("system", ['"../stacks/base"', '"base\\u0000"', "['base']", "5"])
def test_a_system_is_a_file_beside_the_stack(folder, system):
    replace(folder / "small.toml", '"base"', system)
    with pytest.raises(UsageError, match=r"^small\.toml: system: there is no file .*beside it"):
        stack.load("small")


def test_an_environment_without_a_lock(folder):
    (folder / "locks" / "small.main.txt").unlink()
    loaded = stack.load("small")
    with pytest.raises(UsageError, match=r"environment main has no lock small\.main\.txt"):
        _ = loaded.locks


def test_a_lock_that_can_t_be_read(folder):
    (folder / "locks" / "small.main.txt").write_text("# a\nnumpy\n")
    with pytest.raises(UsageError, match=r"^small\.main\.txt: line 2: .*'numpy'$") as caught:
        _ = stack.load("small").locks
    assert caught.value.hint == "make it: invoke lock --stack small --environment main"


@pytest.mark.parametrize(
    ("taken", "pythons"),
    [
        (">=3.11,<3.14", ("3.11.0", "3.12.0", "3.13.0")),
        (">=3.11.4,!=3.12.*,<3.14", ("3.11.4", "3.13.0")),
        ("==3.10.*", ("3.10.0",)),
        (">=3.13", ("3.13.0", "3.14.0")),
    ],
)
def test_a_lock_is_for_each_python_of_the_range(taken, pythons):
    assert stack.Environment(python=taken, requirements=()).pythons == pythons


@pytest.mark.parametrize(
    ("python", "takes"), [("3.11.3", False), ("3.11.4", True), ("3.14.9", True), ("3.15.0", False)]
)
def test_an_environment_takes_the_pythons_that_it_is_locked_for(python, takes):
    assert stack.Environment(python=">=3.11.4", requirements=()).takes(python) is takes


def test_the_lock_s_hash_follows_every_byte_of_it():
    assert stack.Lock(text="a==1\n").sha256 != stack.Lock(text="a==1").sha256
