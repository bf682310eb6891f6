"""What testinfra's own modules see: a fault in our probe would blind everything else here."""

from provision.resources import apt_pins, environment, nouveau, persistence


def test_driver_package_has_the_wanted_version(site, host):
    driver = site.target.want.stack.system.driver
    package = host.package("nvidia-open")
    assert package.is_installed
    assert package.version.startswith(f"{driver.version}-")


def test_toolkits_stand_side_by_side(site, host):
    for release, toolkit in site.target.want.stack.toolkit.items():
        assert host.package(toolkit.package).version == toolkit.version
        assert f"release {release}" in host.check_output(f"/usr/local/cuda-{release}/bin/nvcc -V")


def test_nvidia_smi_answers_with_the_wanted_driver(site, host):
    said = host.run("nvidia-smi --query-gpu=driver_version --format=csv,noheader")
    assert said.rc == 0
    assert set(said.stdout.split()) == {site.target.want.stack.system.driver.version}


def test_persistence_daemon_runs_and_starts_by_itself(host):
    service = host.service(persistence.UNIT)
    assert service.is_running
    assert service.is_enabled


def test_pins_are_in_a_file_that_apt_reads(site, host):
    file = host.file(apt_pins.PATH)
    assert (file.user, file.mode) == ("root", 0o644)
    assert site.target.want.stack.system.driver.version in file.content_string


def test_nouveau_is_kept_out(host):
    assert host.file(nouveau.PATH).contains("^blacklist nouveau")
    assert not host.file("/sys/module/nouveau").exists


def test_environment_imports_what_its_lock_names(site, host):
    for name, lock in site.target.want.stack.locks.items():
        python = f"{environment.ROOT}/{name}/current/bin/python"
        version = host.check_output(
            f"{python} -c 'import platform; print(platform.python_version())'"
        )
        locked = lock.versions(version)
        for module in locked.keys() & {"numba", "numpy"}:
            said = host.check_output(f"{python} -c 'import {module}; print({module}.__version__)'")
            assert said == locked[module]
