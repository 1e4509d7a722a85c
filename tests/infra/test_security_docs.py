"""docs/security.md names every role with the services that it may use, every secret and ServiceAccount, and only files
that exist."""

import re
from dataclasses import replace

import yaml

from nodefleet_infra import manifests
from support.iam_samples import everybody
from support.infra_mocks import DEV, ROOT, deployed_stack
from support.shipped_metrics import SITE

PAGE = (ROOT / "docs/security.md").read_text(encoding="utf-8")


def rows(header):
    after = PAGE.split(f"| {' | '.join(header)} |\n", 1)[1].splitlines()[1:]
    lines = (line for line in after[: next(index for index, line in enumerate(after) if not line.startswith("|"))])
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_every_role_is_there_with_the_services_that_it_may_use():
    told = {
        role.strip("`"): set(services.removesuffix(" (lean: ssm)").split(", ")) for role, services, *_ in rows(ROLES)
    }
    granted = {
        role: {action.split(":")[0] for each in statements if each.effect == "Allow" for action in each.actions}
        for role, statements in everybody().items()
    }
    assert told == granted


ROLES = ("role", "services", "bounded by", "cannot")


def test_every_secret_is_there():
    made = {each.inputs["name"].rpartition("/")[2] for each in deployed_stack(DEV).of("secretsmanager/secret:Secret")}
    assert made == set(re.findall(r"^\| `…/([\w-]+)`", PAGE, re.MULTILINE))


def test_every_service_account_is_there():
    written = manifests.rendered(replace(SITE, persistent_volumes=True, grafana=True)).values()
    made = {each["metadata"]["name"] for text in written for each in yaml.safe_load_all(text) if is_account(each)}
    assert made == {name.strip("`") for names, _ in rows(("ServiceAccount", "may")) for name in names.split(", ")}


def is_account(document):
    return bool(document) and document["kind"] == "ServiceAccount"


def test_files_and_pages_that_are_named_exist():
    files = re.findall(r"`([\w./-]+\.py)`", PAGE)
    pages = [link.partition("#")[0] for link in re.findall(r"\]\(([^)]+)\)", PAGE)]
    assert all((ROOT / name).exists() for name in files)
    assert all((ROOT / "docs" / name).exists() for name in pages if name)
