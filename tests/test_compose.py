"""The servers of docker-compose.yml are those that the README tells of."""

from pathlib import Path

import yaml

ROOT = Path(__file__).parents[1]
SERVICES = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
README = (ROOT / "README.md").read_text()


def test_readme_names_every_image():
    assert {service["image"] for service in SERVICES.values()} == {
        "redis:7.4",
        "couchbase:community-7.6.2",
        "apache/spark:4.0.1",
    }
    for service in SERVICES.values():
        assert f"`{service['image']}`" in README


def test_readme_names_every_port():
    rows = {line for line in README.splitlines() if line.startswith("|")}
    for service in SERVICES.values():
        (row,) = (row for row in rows if f"`{service['image']}`" in row)
        for mapping in service.get("ports", ()):
            host, container = mapping.split(":")
            assert host == container
            assert host.replace("-", "\N{EN DASH}") in row


def test_redis_keeps_what_it_is_given():
    command = SERVICES["redis"]["command"]
    assert command[command.index("--appendonly") + 1] == "yes"
    assert command[command.index("--maxmemory-policy") + 1] == "noeviction"


def test_the_couchbase_url_is_what_the_init_step_makes():
    (script,) = SERVICES["couchbase-init"]["command"]
    assert "couchbase://mta:windows@localhost/windows" in README
    for made in ("--bucket windows", "--rbac-username mta", "--rbac-password windows"):
        assert made in " ".join(script.replace("\\\n", " ").split())


def test_services_wait_for_services_that_there_are():
    for service in SERVICES.values():
        assert set(service.get("depends_on", ())) <= set(SERVICES)
