"""What a site sets between its hosts and the world: its CA, proxy and index."""

import dataclasses

import pytest
from samples import WANT, planned

from provision.inventory import Site
from provision.plan import Remove, Run
from provision.resources import environment, site

PEM = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"


@pytest.fixture
def whole_site(tmp_path):
    """A site with everything that one can have."""
    (tmp_path / "ca.pem").write_text(PEM)
    return Site(
        ca=tmp_path / "ca.pem",
        proxy="http://proxy.example:3128",
        direct=("localhost", "deb.example"),
        index="https://pypi.example/simple",
    )


def site_changes(of, *promises):
    return planned(site, *promises, want=dataclasses.replace(WANT, site=of))


CONTENT = {
    site.CA: PEM,
    site.APT: """\
// firstlight
Acquire::http::Proxy "http://proxy.example:3128";
Acquire::https::Proxy "http://proxy.example:3128";
Acquire::http::Proxy::localhost "DIRECT";
Acquire::https::Proxy::localhost "DIRECT";
Acquire::http::Proxy::deb.example "DIRECT";
Acquire::https::Proxy::deb.example "DIRECT";
""",
    site.UNITS: """\
# firstlight
[Manager]
DefaultEnvironment="HTTP_PROXY=http://proxy.example:3128" \
"HTTPS_PROXY=http://proxy.example:3128" "http_proxy=http://proxy.example:3128" \
"https_proxy=http://proxy.example:3128" "NO_PROXY=localhost,deb.example" \
"no_proxy=localhost,deb.example"
""".replace(" \\\n", " "),
    site.UV: """\
# firstlight
system-certs = true

[[index]]
url = "https://pypi.example/simple"
default = true
""",
}


def test_a_site_s_files(whole_site):
    changes = site_changes(whole_site)
    written = {change.actions[0].path: change.actions[0].content for change in changes}
    assert written == CONTENT
    assert site_changes(whole_site, *(change.makes for change in changes)) == []


def test_certificates_and_units_are_read_anew(whole_site):
    then = {c.subject: [a.argv[0] for a in c.actions[1:]] for c in site_changes(whole_site)}
    assert then == {
        site.CA: ["update-ca-certificates"],
        site.APT: [],
        site.UNITS: ["systemctl"],
        site.UV: [],
    }


@pytest.mark.parametrize(
    ("field", "files"),
    [("ca", {site.CA, site.UV}), ("proxy", {site.APT, site.UNITS}), ("index", {site.UV})],
)
def test_each_setting_has_its_own_files(whole_site, field, files):
    one = Site(**{field: getattr(whole_site, field)})
    assert {change.subject for change in site_changes(one)} == files


def test_a_ca_of_the_site_is_trusted_by_uv_without_an_index(whole_site):
    (uv,) = (c for c in site_changes(Site(ca=whole_site.ca)) if c.subject == site.UV)
    assert uv.actions[0].content == "# firstlight\nsystem-certs = true\n"


def test_what_the_inventory_no_longer_names_is_taken_away(whole_site):
    there = [change.makes for change in site_changes(whole_site)]
    changes = site_changes(Site(), *there)
    assert {change.subject for change in changes} == {site.CA, site.APT, site.UNITS}
    assert all(isinstance(change.actions[0], Remove) for change in changes)


def test_uv_s_configuration_stays_where_nothing_is_set_since_it_may_be_somebody_else_s():
    assert site_changes(Site(), {"files": {site.UV: {"sha256": "0" * 64, "mode": 0o644}}}) == []


def test_environments_are_made_through_the_proxy(whole_site):
    want = dataclasses.replace(WANT, site=whole_site)
    (change,) = planned(environment, {"environments": {"main": None}}, want=want)
    for action in change.actions:
        if isinstance(action, Run):
            assert action.env["https_proxy"] == "http://proxy.example:3128"
            assert action.env["NO_PROXY"] == "localhost,deb.example"


def test_without_a_proxy_no_variable_is_set():
    assert site.environment(Site()) == {}


def test_a_proxy_with_a_password_is_refused():
    with pytest.raises(ValueError, match="proxy"):
        Site(proxy="http://me:secret@proxy:1")
