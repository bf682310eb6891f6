"""The parsers of what NVIDIA's tools and the kernel say about GPUs."""

import threading
from concurrent.futures import Future

import pytest
from samples import accepted, capture

from provision import facts
from provision.remote.collectors import driver, gpus, kernel, nvidia_smi, nvml, pci, topology
from provision.remote.command import Failed, Missing, Output


def said(name, status=0):
    return Output(status, capture(name), "")


def test_two_h200():
    first, second = accepted("gpus", gpus.parse_gpus(said("nvidia-smi-h200x2.xml")))
    assert first == facts.Gpu(
        index=0,
        minor=0,
        uuid="GPU-00000000-0000-0000-0000-00000000000a",
        name="NVIDIA H200",
        slot="0000:00:06.0",
        memory_total=143771,
        memory_used=0,
        bar1_total=262144,
        power_limit=700.0,
        power_limit_default=700.0,
        temperature=38,
        persistence=True,
        ecc=True,
        ecc_uncorrectable=0,
        ecc_uncorrectable_ever=0,
        sram_threshold_exceeded=False,
        remap_uncorrectable=0,
        remap_pending=False,
        remap_failure=False,
        retired_pages=None,
        retirement_pending=None,
        slowdowns=[],
        link_gen=5,
        link_gen_max=5,
        link_gen_gpu=5,
        link_gen_host=None,
        link_width=16,
        link_width_max=16,
        replays=3,
        fabric="Completed",
        utilisation=0,
        performance_state="P0",
        recovery_action="None",
        processes=0,
    )
    assert (second.index, second.slot) == (1, "0000:00:07.0")


def test_gpus_in_trouble():
    value = gpus.parse_gpus(said("nvidia-smi-busy-and-rows-pending.xml"))
    busy, pending = accepted("gpus", value)
    assert (busy.processes, busy.utilisation, busy.memory_used) == (2, 100, 15)
    assert (busy.link_width, busy.link_width_max) == (8, 16)
    assert pending.slot == "0001:c3:00.0"
    assert (pending.remap_pending, pending.remap_failure) == (True, True)
    assert (pending.ecc, pending.ecc_uncorrectable) == (False, 6)
    assert (pending.power_limit, pending.persistence) == (450.5, False)
    assert pending.recovery_action == "Reset"


def test_values_that_the_gpu_does_not_have_are_none():
    value = gpus.parse_gpus(said("nvidia-smi-values-not-available.xml"))
    (gpu,) = accepted("gpus", value)
    known = {name for name in value[0] if getattr(gpu, name) is not None}
    assert known == {"index", "minor", "uuid", "name", "slot", "link_width_max", "processes"}


def test_tags_of_older_drivers():
    (gpu,) = accepted("gpus", gpus.parse_gpus(said("nvidia-smi-older-tags.xml")))
    assert (gpu.power_limit, gpu.power_limit_default) == (600.0, 600.0)
    assert gpu.ecc_uncorrectable == 4


@pytest.mark.parametrize(
    ("name", "status", "reason"),
    [
        ("nvidia-smi-truncated.xml", 0, "truncated"),
        ("nvidia-smi-gpu-lost.xml", 0, "^GPU 0000:c6:00.0 is lost$"),
        ("nvidia-smi-one-gpu-missing.xml", 0, "1 of 2 GPUs"),
        ("nvidia-smi-processes-hidden.xml", 0, "processes of GPU 00000000:06:00.0"),
        ("nvidia-smi-no-devices.txt", 0, "No devices were found"),
        ("nvidia-smi-mismatch.txt", 18, "exits 18: .*Driver/library version mismatch"),
        ("nvidia-smi-no-module.txt", 9, "exits 9: NVIDIA-SMI has failed"),
    ],
)
def test_gpus_that_cannot_be_told(name, status, reason):
    with pytest.raises(Failed, match=reason):
        gpus.parse_gpus(said(name, status))


def test_gpu_without_name_is_no_gpu():
    text = capture("nvidia-smi-h200x2.xml").replace("NVIDIA H200", "N/A")
    with pytest.raises(Failed, match=r"no product_name of GPU 00000000:00:06\.0"):
        gpus.parse_gpus(Output(0, text, ""))


def test_damaged_xml_is_not_called_truncated():
    text = capture("nvidia-smi-h200x2.xml").replace("<uuid>", "<uuid", 1)
    with pytest.raises(Failed, match="damaged"):
        gpus.parse_gpus(Output(0, text, ""))


@pytest.mark.parametrize(
    ("name", "status", "message", "version", "cuda"),
    [
        ("nvidia-smi-h200x2.xml", 0, "", "580.159.04", "13.0"),
        ("nvidia-smi-truncated.xml", 0, "", "580.159.04", "13.0"),
        ("nvidia-smi-renamed-610.xml", 0, "", "610.57.04", "13.3"),
        (
            "nvidia-smi-mismatch.txt",
            18,
            "Failed to initialize NVML: Driver/library version mismatch",
            None,
            None,
        ),
        ("nvidia-smi-no-devices.txt", 6, "No devices were found", None, None),
    ],
)
def test_nvml(name, status, message, version, cuda):
    value = accepted("nvml", nvml.parse_nvml(said(name, status)))
    assert value == facts.Nvml(exit=status, message=message, driver=version, cuda=cuda)


def test_nvml_message_behind_xml():
    lost = "Unable to determine the device handle for GPU0000:06:00.0: GPU is lost."
    xml = capture("nvidia-smi-truncated.xml") + "\t\t\tNone\n" + lost + "\n"
    assert nvml.parse_nvml(Output(15, xml, "")) == {
        "exit": 15,
        "message": lost,
        "driver": "580.159.04",
        "cuda": "13.0",
    }


class Watched(Future):
    """Says when somebody waits for it."""

    waiting: threading.Semaphore

    def result(self, timeout=None):
        self.waiting.release()
        return super().result(timeout=5)


@pytest.fixture
def asked(monkeypatch):
    """Counts nvidia-smi's runs; each lasts until a second collector waits for the answer."""
    runs = []
    Watched.waiting = threading.Semaphore(0)

    def run(argv, *, timeout):
        runs.append(argv)
        if len(runs) == 1:
            assert Watched.waiting.acquire(timeout=5)
        raise Failed("nvidia-smi gave no answer within 15 s")

    monkeypatch.setattr(nvidia_smi, "Future", Watched)
    monkeypatch.setattr(nvidia_smi, "run", run)
    return runs


def test_one_answer_for_all_who_ask_at_once_and_a_new_one_afterwards(asked):
    reasons = []

    def ask(collector):
        try:
            collector.collect({})
        except Failed as failed:
            reasons.append(str(failed))

    threads = [threading.Thread(target=ask, args=(one,)) for one in (nvml, gpus)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(5)
    assert reasons == ["nvidia-smi gave no answer within 15 s"] * 2
    assert len(asked) == 1
    ask(nvml)
    assert len(asked) == 2


def test_topology_of_two_gpus_with_nvlink_in_colour():
    value = topology.parse_topology(capture("topo-h200x2-nvlink-ansi.txt"))
    assert accepted("topology", value) == facts.Topology(
        links=[["X", "NV18"], ["NV18", "X"]], numa=[0, 0], cpus=["0-31", "0-31"]
    )


def test_topology_of_two_sockets():
    value = accepted("topology", topology.parse_topology(capture("topo-8-gpus-two-sockets.txt")))
    assert value.links[0] == ["X", "PIX", "NODE", "NODE", "SYS", "SYS", "SYS", "SYS"]
    assert value.numa == [0, 0, 0, 0, 1, 1, 1, 1]
    assert value.cpus[7] == "64-127,192-255"


def test_network_cards_do_not_count():
    value = accepted("topology", topology.parse_topology(capture("topo-network-card.txt")))
    assert value.links[3] == ["NV18", "NV18", "NV18", "X"]
    assert value.numa == [0, 0, 1, 1]


def test_topology_without_affinity():
    value = accepted("topology", topology.parse_topology(capture("topo-without-affinity.txt")))
    assert (value.numa, value.cpus) == ([None, None], ["", "0-15"])


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (capture("topo-cut-short.txt"), "3 rows for 4 GPUs"),
        ("\tGPU0\tGPU1\nGPU0\t X \tPIX\nGPU1\tPIX\n", "row GPU1 is cut short"),
        ("Failed to get topology\n", "no matrix"),
    ],
)
def test_topology_that_is_no_matrix(text, reason):
    with pytest.raises(Failed, match=reason):
        topology.parse_topology(text)


@pytest.mark.parametrize("flavour", ["open", "proprietary"])
def test_flavour(flavour):
    assert driver.parse_flavour(capture(f"driver-version-{flavour}.txt")) == flavour


def test_flavour_of_something_else():
    with pytest.raises(Failed, match="states no version"):
        driver.parse_flavour("")


def test_only_the_64_bit_library_counts():
    found = driver.parse_ldconfig(capture("ldconfig-with-i386.txt"))
    assert found == ["/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1"]
    assert driver.parse_ldconfig("0 libs found in cache `/etc/ld.so.cache'\n") == []


def test_library_names_its_version():
    path = "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.590.48.01"
    assert driver.parse_library(path) == "590.48.01"
    with pytest.raises(Failed, match="does not name its version"):
        driver.parse_library("/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1")


def test_library_that_the_cache_lists(tmp_path, monkeypatch):
    (tmp_path / "libnvidia-ml.so.590.48.01").touch()
    link = tmp_path / "libnvidia-ml.so.1"
    link.symlink_to("libnvidia-ml.so.590.48.01")
    cache = "".join(
        f"\tlibnvidia-ml.so.1 (libc6,x86-64) => {path}\n" for path in (tmp_path / "gone", link)
    )
    monkeypatch.setattr(driver, "output", lambda argv: cache)
    value = accepted("driver", driver.collect({}))
    assert value.library == "590.48.01"


def test_library_where_there_is_no_ldconfig(tmp_path, monkeypatch):
    def missing(argv):
        raise Missing("no ldconfig")

    (tmp_path / "libnvidia-ml.so.580.95.05").touch()
    (tmp_path / driver.LIBRARY).symlink_to("libnvidia-ml.so.580.95.05")
    monkeypatch.setattr(driver, "output", missing)
    monkeypatch.setattr(driver, "DIRECTORIES", (str(tmp_path),))
    assert driver.collect({})["library"] == "580.95.05"


def test_module_on_disk():
    value = kernel.parse_modinfo(Output(0, capture("modinfo-open.txt"), ""))
    assert value == {"version": "590.48.01", "license": "Dual MIT/GPL"}


def test_kernel_without_module():
    error = "modinfo: ERROR: Module nvidia not found.\n"
    assert kernel.parse_modinfo(Output(1, "", error)) is None


def test_modinfo_that_fails():
    with pytest.raises(Failed, match=r"modinfo exits 1: .*Permission denied"):
        kernel.parse_modinfo(Output(1, "", "modinfo: ERROR: nvidia.ko: Permission denied\n"))
    with pytest.raises(Failed, match="no license"):
        kernel.parse_modinfo(Output(0, "version:        590.48.01\n", ""))


def test_loaded_modules(tmp_path):
    for module, files in {
        "nvidia": {"initstate": "live\n", "version": "590.48.01\n"},
        "nvidia_uvm": {"initstate": "coming\n"},
        "nvidia_modeset": {"initstate": "live\n"},
        "nouveau": {},
    }.items():
        (tmp_path / module).mkdir()
        for name, text in files.items():
            (tmp_path / module / name).write_text(text)
    value = accepted("kernel", {"loaded": kernel.loaded(tmp_path), "available": {"6.1": None}})
    assert value.loaded == {
        "nvidia": "590.48.01",
        "nvidia_uvm": None,
        "nvidia_modeset": "",
        "nvidia_drm": None,
        "nvidia_peermem": None,
        "nouveau": "",
        "nova_core": None,
    }


def test_kernels(tmp_path):
    (tmp_path / "6.1.0-18-amd64").mkdir()
    (tmp_path / "README").touch()
    assert kernel.kernels(tmp_path) == ["6.1.0-18-amd64"]
    assert kernel.kernels(tmp_path / "none") == []


def device(bus, slot, driver_name="", **files):
    folder = bus / slot
    folder.mkdir()
    for name, text in files.items():
        (folder / name).write_text(text + "\n")
    if driver_name:
        (folder / "driver").symlink_to(f"../../../bus/pci/drivers/{driver_name}")


def test_pci_devices(tmp_path):
    device(
        tmp_path,
        "0000:c6:00.0",
        vendor="0x10de",
        device="0x2bb5",
        numa_node="1",
        **{"class": "0x030200"},
    )
    device(
        tmp_path,
        "0000:06:00.0",
        "nvidia",
        vendor="0x10de",
        device="0x22A3",
        numa_node="-1",
        **{"class": "0x068000"},
    )
    device(
        tmp_path,
        "0000:00:01.0",
        "pcieport",
        vendor="0x1022",
        device="0x153e",
        **{"class": "0x060400"},
    )
    (tmp_path / "0000:06:00.0/iommu_group").mkdir()
    (tmp_path / "0000:06:00.0/iommu_group/type").write_text("DMA-FQ\n")
    bridge, gpu = accepted("pci", pci.devices(tmp_path))
    assert bridge == facts.PciDevice(
        slot="0000:06:00.0",
        device="10de:22a3",
        kind="0680",
        numa=None,
        driver="nvidia",
        iommu="DMA-FQ",
    )
    assert gpu == facts.PciDevice(
        slot="0000:c6:00.0", device="10de:2bb5", kind="0302", numa=1, driver=None, iommu=None
    )


def test_pci_device_that_cannot_be_read(tmp_path):
    (tmp_path / "0000:06:00.0").mkdir()
    with pytest.raises(FileNotFoundError, match="vendor"):
        pci.devices(tmp_path)


def test_no_pci_bus(tmp_path, monkeypatch):
    monkeypatch.setattr(pci, "BUS", tmp_path / "none")
    with pytest.raises(Missing, match="no PCI bus"):
        pci.collect({})


@pytest.mark.parametrize("left", ["nvidia-uninstall", "nvidia-installer", None])
def test_a_driver_of_a_run_file(tmp_path, monkeypatch, left):
    names = [str(tmp_path / name) for name in ("nvidia-uninstall", "nvidia-installer")]
    monkeypatch.setattr(driver, "UNINSTALLERS", names)
    monkeypatch.setattr(driver, "_library", lambda: None)
    if left:
        (tmp_path / left).touch()
    value = accepted("driver", driver.collect({}))
    assert value.runfile == (str(tmp_path / left) if left else None)
