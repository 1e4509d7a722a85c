"""Of the AWS provider mypy reads only the services that the deployment uses: it must read all of those."""

import ast
import tomllib
from collections.abc import Iterator
from types import ModuleType

import pulumi_aws
import pytest

from support.infra_mocks import ROOT  # which loads what is used, without the provider's warnings

PROGRAM = sorted((ROOT / "infra").rglob("*.py"))


def read_by_mypy() -> set[str]:
    overrides = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mypy"]["overrides"]
    (read,) = [each["module"] for each in overrides if each["follow_imports"] == "normal"]
    return {module.removesuffix(".*") for module in read}


def used(code: str) -> Iterator[str]:
    """The provider's module behind every `aws.something`."""
    for node in ast.walk(ast.parse(code)):
        match node:
            case ast.Attribute(value=ast.Name(id="aws"), attr=name):
                found = getattr(pulumi_aws, name)
                yield found.__name__ if isinstance(found, ModuleType) else found.__module__


def ways_in(code: str) -> set[str]:
    """How the provider is imported."""
    found = (node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Import | ast.ImportFrom))
    return {line for line in map(ast.unparse, found) if "pulumi_aws" in line}


@pytest.mark.parametrize("path", PROGRAM, ids=lambda path: path.stem)
def test_what_the_deployment_uses_is_read_by_mypy(path):
    code = path.read_text(encoding="utf-8")
    assert set(used(code)) <= read_by_mypy()
    assert ways_in(code) <= {"import pulumi_aws as aws"}  # the name by which `used` finds it


def test_what_is_used_is_found():
    assert set(used("aws.ec2.Instance('a')\nx: aws.get_partition")) == {"pulumi_aws.ec2", "pulumi_aws.get_partition"}
    assert ways_in("from pulumi_aws.sns import Topic\nimport pulumi") == {"from pulumi_aws.sns import Topic"}


def test_nothing_is_read_in_vain():
    everything = {module for path in PROGRAM for module in used(path.read_text(encoding="utf-8"))}
    parts = {f"pulumi_aws.{name}" for name in ("_inputs", "_utilities", "outputs")}  # of those that are used
    assert read_by_mypy() == everything | parts | {"pulumi_aws"}
