"""A CUDA_HOME out of the files that Python packages bring."""

import pytest

from wheels.remote.toolkit import cuda_home


@pytest.fixture
def environment(tmp_path):
    home = tmp_path / "lib/python3.11/site-packages/nvidia/cu13"
    for file in ("bin/nvcc", "lib/libcudart.so.13"):
        (home / file).parent.mkdir(parents=True)
        (home / file).write_text(file)
    return tmp_path


def test_the_links_that_linking_needs(environment):
    home = cuda_home(environment)
    assert (home / "lib64/libcudart.so").read_text() == "lib/libcudart.so.13"
    assert cuda_home(environment) == home


@pytest.mark.parametrize("file", ["bin/nvcc", "lib/libcudart.so.13"])
def test_an_environment_without_a_part(environment, file):
    (environment / "lib/python3.11/site-packages/nvidia/cu13" / file).unlink()
    with pytest.raises(FileNotFoundError, match="no CUDA toolkit in it: install cuda-toolkit"):
        cuda_home(environment)
