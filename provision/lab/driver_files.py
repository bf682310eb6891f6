"""Texts inside the lab's packages: units, maintainer scripts, small simulated programs."""

from __future__ import annotations

import json

HEADER_HOOK = """#!/bin/sh
# Simulated: builds the registered modules for a kernel that just got headers.
set -e
[ -z "$1" ] || dkms autoinstall -k "$1"
"""

PERSISTENCED = """#!/bin/sh
# Simulated nvidia-persistenced: runs while the module is loaded.
[ -e /proc/driver/nvidia/version ] || {
    echo "nvidia-persistenced failed to initialize. Check syslog for more details." >&2
    exit 1
}
mkdir -p /run/nvidia-persistenced
sleep infinity </dev/null >/dev/null 2>&1 &
echo $! >/run/nvidia-persistenced/nvidia-persistenced.pid
"""

FABRICMANAGER = """#!/bin/sh
# Simulated nv-fabricmanager: only a host with NVSwitch has work for it.
grep -q '"nvswitch": true' /etc/lab/hardware.json || {
    echo "request to query NVSwitch device information from NVSwitch driver failed:" \\
        "no devices found" >&2
    exit 1
}
[ -e /proc/driver/nvidia/version ] || { echo "NVSwitch driver is not loaded" >&2; exit 1; }
mkdir -p /run/nvidia-fabricmanager
sleep infinity </dev/null >/dev/null 2>&1 &
echo $! >/run/nvidia-fabricmanager/nvidia-fabricmanager.pid
"""

IMEX = """#!/bin/sh
# Simulated nvidia-imex: needs a nodes file, which a single host has not.
[ -s /etc/nvidia-imex/nodes_config.cfg ] || { echo "no nodes_config.cfg" >&2; exit 1; }
mkdir -p /run/nvidia-imex
sleep infinity </dev/null >/dev/null 2>&1 &
echo $! >/run/nvidia-imex/nvidia-imex.pid
"""


def launcher(tool: str) -> str:
    """A program whose code lies in the guest's simulation library."""
    return (
        "#!/usr/bin/python3 -I\n"
        f'"""Simulated by the lab host: see /usr/lib/lab/guest/{tool}.py."""\n'
        "import sys\n"
        'sys.path.insert(0, "/usr/lib/lab")\n'
        f"from guest.{tool} import main\n"
        "sys.exit(main(sys.argv))\n"
    )


def dkms_conf(version: str, module: str) -> str:
    """What DKMS reads to build a module."""
    return (
        f'PACKAGE_NAME="{module}"\nPACKAGE_VERSION="{version}"\nAUTOINSTALL="yes"\n'
        f'BUILT_MODULE_NAME[0]="{module}"\nDEST_MODULE_LOCATION[0]="/updates/dkms"\n'
    )


def dkms_scripts(version: str, module: str = "nvidia") -> dict[str, str]:
    """Register and build on installation, unregister before removal or upgrade."""
    return {
        "postinst": (
            '#!/bin/sh\nset -e\n[ "$1" = configure ] || exit 0\n'
            f"dkms add {module}/{version}\ndkms autoinstall\n"
        ),
        "prerm": f"#!/bin/sh\nset -e\ndkms remove {module}/{version} --all\n",
    }


def unit(name: str, program: str) -> str:
    """The unit of a daemon that forks and leaves a pid file."""
    return (
        f"[Unit]\nDescription={name} (simulated)\n\n[Service]\nType=forking\n"
        f"PIDFile=/run/{name}/{name}.pid\nExecStart=/usr/bin/{program}\n"
        f"ExecStopPost=/bin/rm -rf /run/{name}\n\n[Install]\nWantedBy=multi-user.target\n"
    )


def unit_scripts(name: str, *, start: bool) -> dict[str, str]:
    """Enable and start a unit as debhelper does, or leave both to the administrator."""
    begin = (
        f"systemctl enable {name}.service >/dev/null 2>&1 || :\n"
        f"[ ! -d /run/systemd/system ] || systemctl restart {name}.service || :\n"
    )
    return {
        "postinst": (
            '#!/bin/sh\nset -e\n[ "$1" = configure ] || exit 0\n'
            "[ ! -d /run/systemd/system ] || systemctl daemon-reload\n" + begin * start
        ),
        "prerm": (
            '#!/bin/sh\nset -e\n[ "$1" = remove ] || exit 0\n'
            f"systemctl disable --now {name}.service >/dev/null 2>&1 || :\n"
        ),
    }


def kernel_hooks(kernel: str, folder: str) -> str:
    """Run what packages left in /etc/kernel for a new kernel or its headers."""
    return (
        '#!/bin/sh\nset -e\n[ "$1" = configure ] || exit 0\n'
        f"[ ! -d /etc/kernel/{folder} ] || "
        f"run-parts --exit-on-error --arg={kernel} /etc/kernel/{folder}\n"
        + f"update-initramfs -c -k {kernel}\n"
        * (folder == "postinst.d")
    )


def alternatives(toolkit: str) -> dict[str, str]:
    """/usr/local/cuda points at the toolkit with the highest priority, as the real packages do."""
    priority = toolkit.replace(".", "")
    add = (
        f"update-alternatives --install /usr/local/cuda cuda /usr/local/cuda-{toolkit} {priority}\n"
    )
    major = toolkit.partition(".")[0]
    add += (
        f"update-alternatives --install /usr/local/cuda-{major} cuda-{major} "
        f"/usr/local/cuda-{toolkit} {priority}\n"
    )
    remove = (
        f"update-alternatives --remove cuda /usr/local/cuda-{toolkit}\n"
        f"update-alternatives --remove cuda-{major} /usr/local/cuda-{toolkit}\n"
    )
    return {
        "postinst": f'#!/bin/sh\nset -e\n[ "$1" = configure ] || exit 0\n{add}',
        "prerm": f'#!/bin/sh\nset -e\n[ "$1" = remove ] || exit 0\n{remove}',
    }


def version_json(version: str, compiler: str) -> str:
    """The file that names a toolkit's version."""
    return json.dumps(
        {
            "cuda": {"name": "CUDA SDK (simulated)", "version": version.rpartition("-")[0]},
            "cuda_nvcc": {"name": "CUDA NVCC", "version": compiler},
        },
        indent=3,
    )


def nvcc(toolkit: str, compiler: str) -> str:
    """A compiler that knows its version and nothing else."""
    return f"""#!/bin/sh
# Simulated nvcc: answers --version, compiles nothing.
case "$1" in
--version | -V)
    cat <<END
nvcc: NVIDIA (R) Cuda compiler driver
Copyright (c) 2005-2025 NVIDIA Corporation
Built on simulated hardware
Cuda compilation tools, release {toolkit}, V{compiler}
Build cuda_{toolkit}.r{toolkit}/compiler.00000000_0
END
    ;;
*)
    echo "nvcc fatal   : simulated by the lab host, it compiles nothing" >&2
    exit 1
    ;;
esac
"""


def pin(version: str) -> str:
    """What a vendor's pinning package ships."""
    return (
        "Package: nvidia-* libnvidia-* libcuda1 cuda-drivers firmware-nvidia-gsp\n"
        f"Pin: version {version}-*\nPin-Priority: 1000\n"
    )
