"""Every GPU that the inventory expects is there and healthy: one row per GPU."""


def test_as_many_gpus_as_expected(site):
    for row in site.findings("gpu.count"):
        assert row.ok, f"expected {row.expected}, found {row.observed}: {row.reason}"


def test_gpu(site, gpu):
    rows = [row for row in site.rows if row.subject == f"GPU {gpu}"]
    wrong = [
        f"{r.id}: expected {r.expected}, found {r.observed} → {r.action.value}: {r.reason}"
        for r in rows
        if not r.ok
    ]
    assert rows, "no check said anything of it"
    assert wrong == []
