"""Recipes: what they say, how they tell a build, and the one message about each mistake."""

import re
import tempfile
import tomllib
from pathlib import Path

import pytest
from harmless import refused
from hypothesis import given
from spoilt import spoilt_text

from provision.errors import UsageError
from tests.steady import steady
from wheels import lock, recipe
from wheels.recipe import Archs, label, load

WHOLE = (recipe.FOLDER / "lab-kernels.toml").read_text()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder of recipes with `whole` in it."""
    monkeypatch.setattr(recipe, "FOLDER", tmp_path)
    (tmp_path / "whole.toml").write_text(WHOLE)
    return tmp_path


# --- recipes there are -------------------------------------------------------------------------


@pytest.mark.parametrize("name", recipe.names())
def test_every_recipe_is_whole_and_its_lock_is_its_own(name):
    one = load(name)
    assert one.name == name
    if not one.build.interpreter:
        assert lock.check(one) == ()


def test_a_recipe_is_named_by_its_file(folder):
    (folder / "mine.toml").write_text('like = "whole"\nname = "yours"\n')
    with pytest.raises(UsageError, match=r"mine\.toml: name: not for the file to say"):
        load("mine")


def test_one_like_another_states_only_what_differs(folder):
    text = 'like = "whole"\nversion = "2.0"\n[toolkit]\nrelease = "12.8"\n'
    (folder / "mine.toml").write_text(text)
    mine, whole = load("mine"), load("whole")
    differs = {
        "name": "mine",
        "version": "2.0",
        "toolkit": whole.toolkit.model_copy(update={"release": "12.8"}),
    }
    assert mine == whole.model_copy(update=differs)


def test_the_label_names_cuda_and_what_it_is_built_against():
    one = load("flash-attn")
    assert label(one, {"torch": "2.9.1+cu128"}) == "cu128torch2.9.1"
    assert label(one.model_copy(update={"against": ()}), {}) == "cu128"


@pytest.mark.parametrize(
    ("archs", "text"),
    [
        (Archs(variable="A"), "9.0;12.0"),
        (Archs(variable="A", form="120"), "90;120"),
        (Archs(variable="A", form="120", separator=","), "90,120"),
    ],
)
def test_archs_as_a_build_wants_to_hear_them(archs, text):
    assert archs.text(("9.0", "12.0")) == text


# --- mistakes ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("was", "then", "says"),
    [
        ('wheel = "lab-kernels"', 'wheel = "Lab_Kernels"', "wheel: .*'Lab_Kernels'"),
        ('wheel = "lab-kernels"', "", "wheel: Field required"),
        ('version = "1.0"', "version = 1.0", "version: .*1.0"),
        ('version = "1.0"', 'version = "one"', "version: .*'one'"),
        ('version = "1.0"', 'versions = "1.0"', "version: Field required$"),
        ('version = "1.0"', 'verson = "1.0"', r"verson: unknown field; did you mean version\?$"),
        ('environment = "main"', 'environment = "../main"', "environment: .*'../main'"),
        (
            'archs = ["9.0"]',
            'archs = ["sm_90"]',
            "archs.0: expected .* such as '12.0', got 'sm_90'$",
        ),
        ('archs = ["9.0"]', 'archs = ["٩.0"]', "archs.0: expected a compute capability"),
        ('archs = ["9.0"]', 'archs = "9.0"', "archs: .*'9.0'"),
        ('archs = ["9.0"]', "threads = 0", "threads: .*greater than or equal to 1, got 0"),
        ('archs = ["9.0"]', 'colour = "red"', "colour: unknown field$"),
        ("[build]", "[bild]", r"bild: unknown field; did you mean build\?$"),
        ("requirements = [", "requirments = [", r"build.requirments: .* mean requirements\?$"),
        (
            '{variable = "MAX_JOBS", threads = "NVCC_THREADS"}',
            "3",
            "build.jobs: expected a table, got 3$",
        ),
        ('jobs = {variable = "MAX_JOBS"', "jobs = {varable = 1", "build.jobs.varable: unknown"),
        ('folder = "lab-kernels"', "", "source: expected either `sdist` .* or `folder`"),
        ('folder = "lab-kernels"', f'folder = "a"\nsdist = "{"0" * 64}"', "source: .*either"),
        ('folder = "lab-kernels"', 'sdist = "123"', "source.sdist: .*'123'"),
        ('folder = "lab-kernels"', 'folder = "../etc"', "source.folder: .*'../etc'"),
        ('units = ["csrc/*.cu"]', "units = []", "source.units: .*at least 1"),
        ('release = "13.1"', 'release = "13"', "toolkit.release: .*'13'"),
        ('home = "{environment}/nvidia/cu13"', 'home = "cuda"', "toolkit.home: .*'cuda'"),
        ('home = "{environment}/nvidia/cu13"', 'home = "/a b"', "toolkit.home: .*'/a b'"),
        ('"ninja>=1.13"', '"ninja>="', "build.requirements.1: .*'ninja>='"),
        ('backend = "backend"', 'backend = "a b"', "build.backend: .*'a b'"),
        ('variable = "LAB_KERNELS_ARCHS"', 'variable = "a-b"', "build.archs.variable: .*'a-b'"),
        ('variable = "LAB_KERNELS_ARCHS"', 'form = "sm"', "build.archs.variable: Field required"),
        ('threads = "NVCC_THREADS"', 'means = "cores"', "build.jobs.means: .*'cores'"),
        ('backend = "backend"', "env = {path = '/bin'}", "build.env.path: .*'path'"),
        ('imports = ["lab_kernels"]', "imports = []", "checks.imports: .*at least 1"),
        ('imports = ["lab_kernels"]', "", "checks.imports: Field required"),
        ('backend = "backend"', 'python = "three"', "build.python: .*a version range"),
        ('backend = "backend"', 'python = ">=4"', "build.python: .*none of Python"),
        ('lib64 = "lib"', '"../x" = "lib"', r"toolkit.links.*'../x'"),
        ('lib64 = "lib"', 'lib64 = "/lib"', "toolkit.links.lib64: .*'/lib'"),
        ('version = "1.0"', 'version = "1.0+mine"', "version: .*without a local label"),
        ('archs = ["9.0"]', 'versions = {nunpy = "1"}', "versions: nunpy is not in `against`"),
        ('backend = "backend"', 'env = {MAX_JOBS = "9"}', "build: .*MAX_JOBS is set for another"),
        ('backend = "backend"', 'env = {PYTORCH_NVCC = "/x"}', "build: .*PYTORCH_NVCC is set"),
        ('"LAB_KERNELS_ARCHS"', '"MAX_JOBS"', "build: .*MAX_JOBS is set for another"),
        ("[checks]", "[checks", ".*line 2[0-9]"),
    ],
    ids=lambda text: re.sub(r"\W+", "-", text)[:30],
)
def test_a_mistake_is_one_message_with_file_and_field(folder, was, then, says):
    assert WHOLE.count(was) == 1
    (folder / "wrong.toml").write_text(WHOLE.replace(was, then))
    with pytest.raises(UsageError, match=rf"^wrong\.toml: {says}") as caught:
        load("wrong")
    assert "\n" not in caught.value.what
    assert len(caught.value.what) < 400


def test_what_fields_there_are_is_told_without_those_that_the_file_does_not_say(folder):
    (folder / "wrong.toml").write_text(f'colour = "red"\n{WHOLE}')
    with pytest.raises(UsageError) as caught:
        load("wrong")
    assert caught.value.hint.startswith("fields there: wheel, version, stack, ")


def test_a_profile_that_there_is_not_comes_with_those_that_there_are(folder):
    (folder / "wrong.toml").write_text(WHOLE.replace('profile = "lab-kernels"', 'profile = "lab"'))
    with pytest.raises(UsageError, match=r"^wrong\.toml: profile: there is no 'lab' in ") as caught:
        load("wrong")
    assert caught.value.hint.startswith("profiles there: flash-attn, lab-kernels; ")


def test_what_nobody_has_measured_yet_names_the_profile_that_its_first_build_writes(folder):
    (folder / "mine.toml").write_text(WHOLE.replace('profile = "lab-kernels"', 'profile = "mine"'))
    assert load("mine").profile == "mine"


def test_what_is_wrong_in_the_table_is_only_that(folder):
    """Without the mistake the same text is a recipe."""
    (folder / "right.toml").write_text(WHOLE)
    assert load("right").wheel == tomllib.loads(WHOLE)["wheel"]


@pytest.mark.parametrize(
    ("was", "then", "says"),
    [
        ('stack = "lab"', 'stack = "lob"', "stack: there is no stack 'lob'"),
        ('environment = "main"', 'environment = "other"', "environment: stack lab has no 'other'"),
        ('archs = ["9.0"]', 'against = ["torch"]', "against: the lock of lab.main has no torch"),
    ],
)
def test_what_its_stack_has_not_is_one_message_too(folder, was, then, says):
    (folder / "wrong.toml").write_text(WHOLE.replace(was, then))
    one = load("wrong")
    with pytest.raises(UsageError, match=rf"^wrong\.toml: {says}"):
        lock.versions(one, lock.stack_of(one))


def test_a_misspelt_environment_s_message_has_those_there_are(folder):
    (folder / "wrong.toml").write_text(WHOLE.replace('"main"', '"mian"'))
    one = load("wrong")
    with pytest.raises(UsageError) as caught:
        lock.versions(one, lock.stack_of(one))
    assert caught.value.hint == "environments there: main"


@pytest.mark.parametrize("base", ["none", "mine", "other"])
def test_a_recipe_is_like_a_whole_one_or_it_is_refused(folder, base):
    (folder / "mine.toml").write_text(f'like = "{base}"\n')
    (folder / "other.toml").write_text('like = "whole"\n')
    with pytest.raises(UsageError, match=rf"^mine\.toml: like: .*a whole recipe, got '{base}'"):
        load("mine")


@pytest.mark.parametrize(
    ("name", "hint"),
    [("whle", "did you mean whole?"), ("x", "recipes there: whole"), ("", "whole")],
)
def test_a_recipe_that_is_not_there(folder, name, hint):
    with pytest.raises(UsageError, match=f"there is no recipe {name!r}") as caught:
        load(name)
    assert hint in caught.value.hint


@steady(200)
@given(text=spoilt_text(WHOLE))
def test_any_text_is_a_recipe_or_one_message_about_its_file(text):
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        patch.setattr(recipe, "FOLDER", Path(name))
        (Path(name) / "any.toml").write_bytes(text.encode("utf-8", "surrogatepass"))
        try:
            one = load("any")
        except UsageError as error:
            refused(error, ("any.toml: ",))
        else:
            assert one.name == "any"
