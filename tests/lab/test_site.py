"""A site's own CA, proxy and package index: real TLS, a real forward proxy, on loopback."""

from __future__ import annotations

import functools
import http.server
import re
import select
import socket
import ssl
import subprocess
import sys
import threading
import urllib.request
from pathlib import Path

import pytest

from provision import engine, lab
from provision.inventory import Site
from provision.resources import site as resource
from provision.target import Target, lab_spec, target
from tests.lab.hosts import host_entry, on_host

MIRROR = "127.0.0.2"
"""Not among the hosts that are reached directly, so the way to it leads through the proxy."""
WHEELS = ("numba==0.61.2", "numpy==2.2.6", "llvmlite==0.44.0")


class Proxy(http.server.BaseHTTPRequestHandler):
    """Forwards GET and CONNECT, and remembers for whom."""

    seen: set[str]

    def do_GET(self) -> None:
        self.seen.add(f"GET {self.path.split('/')[2]}")
        request = urllib.request.Request(self.path)  # noqa: S310
        try:
            with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request) as got:
                body = got.read()
                self.send_response(got.status)
        except urllib.error.HTTPError as error:
            body = b""
            self.send_response(error.code)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_CONNECT(self) -> None:
        host, _, port = self.path.partition(":")
        self.seen.add(f"CONNECT {host}")
        with socket.create_connection((host, int(port))) as far:
            self.send_response(200)
            self.end_headers()
            near = self.connection
            while True:
                ready, _, _ = select.select([near, far], [], [], 60)
                for one, other in ((near, far), (far, near)):
                    if one in ready:
                        if not (data := one.recv(65536)):
                            return
                        other.sendall(data)
                if not ready:
                    return

    def log_message(self, *_args: object) -> None:
        pass


class Index(http.server.SimpleHTTPRequestHandler):
    """A simple index over a folder of wheels."""

    def do_GET(self) -> None:
        if not (found := re.fullmatch(r"/simple/([a-z0-9-]+)/", self.path)):
            return super().do_GET()
        names = [p.name for p in Path(self.directory).glob(f"{found[1]}-*.whl")]
        body = "".join(f'<a href="/{name}">{name}</a>' for name in names).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        return None

    def log_message(self, *_args: object) -> None:
        pass


@pytest.fixture(scope="module")
def ca(tmp_path_factory) -> Path:
    """A CA of the site's own, and a server certificate that it signed."""
    folder = tmp_path_factory.mktemp("ca")
    (folder / "san").write_text(f"subjectAltName=IP:{MIRROR}\n")
    key = ["-newkey", "rsa:2048", "-nodes", "-keyout"]
    run = functools.partial(subprocess.run, check=True, capture_output=True, cwd=folder)
    run(["openssl", "req", "-x509", *key, "ca.key", "-out", "ca.pem", "-subj", "/CN=Site CA"])
    run(["openssl", "req", *key, "key.pem", "-out", "req.pem", "-subj", "/CN=mirror"])
    sign = ["openssl", "x509", "-req", "-in", "req.pem", "-CA", "ca.pem", "-CAkey", "ca.key"]
    run([*sign, "-CAcreateserial", "-out", "cert.pem", "-extfile", "san"])
    return folder


@pytest.fixture(scope="module")
def index(ca, tmp_path_factory) -> str:
    """A package index behind TLS that only the site's CA vouches for."""
    folder = tmp_path_factory.mktemp("wheels")
    where = ["--python-version", "3.11", "--platform", "manylinux_2_28_x86_64"]
    where += ["--platform", "manylinux_2_27_x86_64", "--platform", "manylinux2014_x86_64"]
    fetch = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:"]
    subprocess.run([*fetch, *where, "-d", str(folder), *WHEELS], check=True, capture_output=True)
    server = http.server.ThreadingHTTPServer(
        (MIRROR, 0), functools.partial(Index, directory=str(folder))
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(ca / "cert.pem", ca / "key.pem")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"https://{MIRROR}:{server.server_address[1]}/simple"
    server.shutdown()


@pytest.fixture(scope="module")
def proxy():
    """Its URL, and the set of what was asked of it."""
    handler = type("SeenProxy", (Proxy,), {"seen": set()})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}", handler.seen
    server.shutdown()


@pytest.fixture(scope="module")
def there(finished):
    """A finished host of which a package and the environment are taken away."""
    host = host_entry("t-site", layer=finished)
    lab.up(lab_spec(host), fresh=True, say=lambda _: None)
    found = target(host)
    on_host(
        found,
        """
        apt-get -qq -y remove make
        rm -rf /var/lib/apt/lists/* /var/cache/apt/archives/*.deb /var/cache/firstlight
        rm -r /opt/firstlight/environments/main
        """,
    )
    yield found
    found.transport.close()
    lab.down("t-site", discard=True)


def with_site(there: Target, site: Site) -> Target:
    want = there.want.__class__(
        **{**{f: getattr(there.want, f) for f in there.want.__dataclass_fields__}, "site": site}
    )
    return Target(host=there.host, want=want, transport=there.transport)


def test_apt_and_uv_go_through_the_proxy_and_trust_the_sites_ca(there, ca, index, proxy):
    url, seen = proxy
    direct = ("localhost", "127.0.0.1", "packages.lab.test")
    site = Site(ca=ca / "ca.pem", proxy=url, direct=direct, index=index)
    done = engine.provision(with_site(there, site), lambda _: None)
    assert done.plan.empty
    assert f"CONNECT {MIRROR}" in seen
    assert any(request.startswith("GET ") for request in seen), "apt asked nothing of the proxy"
    said = there.transport.run(("/usr/bin/systemctl", "show-environment"), b"", deadline=10)
    assert f"HTTPS_PROXY={url}" in said.out


def test_what_the_inventory_no_longer_names_is_taken_away(there):
    done = engine.provision(there, lambda _: None)
    assert done.plan.empty
    files = done.facts.files
    assert [files[path] for path in (resource.CA, resource.APT, resource.UNITS)] == [None] * 3
