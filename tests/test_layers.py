"""What ships to Lambda: trimmed as the rules say, the same for the same input, within its budget.

The real layer is looked at where it was built (`make layers`); the rules are tried on small ones.
"""

import base64
import hashlib
import json
import os
import re
import shutil
import sys
import zipfile
from itertools import product

import pytest
from botocore import xform_name
from botocore.loaders import Loader
from botocore.regions import EndpointResolver
from layers import build, models, pack, trim

from nodefleet.model.serialization import ValidationError
from nodefleet_infra import artefacts
from support.packaged import lacking
from support.wording import assert_wording

AARCH64 = 183  # e_machine of ELF


def botocore_calls(service):
    return Loader().load_service_model(service, "service-2")["operations"]


def fill(folder, files):
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return folder


def tree(folder, names):
    return fill(folder, {name: name for name in names})


# ── packing ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_same_content_is_the_same_archive_whenever_and_in_whatever_order_it_was_written(tmp_path):
    names = ["b/two.py", "a.py", "b/one.py", "B.py"]
    first, second = tree(tmp_path / "first", names), tree(tmp_path / "second", reversed(names))
    os.utime(second / "a.py", (0, 0))
    (second / "b/one.py").chmod(0o700)
    one, other = pack.pack(first, tmp_path / "first.zip"), pack.pack(second, tmp_path / "second.zip")
    assert one.path.read_bytes() == other.path.read_bytes()
    assert one.content == other.content
    with zipfile.ZipFile(one.path) as archive:
        assert archive.namelist() == ["B.py", "a.py", "b/one.py", "b/two.py"]
        assert {entry.date_time for entry in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        assert {entry.external_attr >> 16 for entry in archive.infolist()} == {0o100644}


@pytest.mark.parametrize("change", [{"a.py": "x = 2"}, {"a.pyx": "x = 1"}, {"a.py": "x = 1", "b.py": ""}])
def test_other_content_has_another_digest(tmp_path, change):
    before = fill(tmp_path / "before", {"a.py": "x = 1"})
    assert pack.digest_of(before) != pack.digest_of(fill(tmp_path / "after", change))


def test_names_and_contents_cannot_be_shifted_into_each_other(tmp_path):
    first, second = fill(tmp_path / "1", {"a": "bc", "d": ""}), fill(tmp_path / "2", {"a": "b", "cd": ""})
    assert pack.digest_of(first) != pack.digest_of(second)


def test_what_python_and_editors_leave_beside_sources_is_not_packed(tmp_path):
    folder = tree(tmp_path / "code", ["a.py", "__pycache__/a.pyc", "x.egg-info/PKG-INFO", ".cache/a", "b/.hidden"])
    made = pack.pack(folder, tmp_path / "code.zip")
    assert (made.files, made.unpacked) == (1, 4)
    with zipfile.ZipFile(made.path) as archive:
        assert archive.namelist() == ["a.py"]


def test_an_interrupted_packing_leaves_the_old_archive(tmp_path, monkeypatch):
    folder = tree(tmp_path / "code", ["a.py"])
    before = pack.pack(folder, tmp_path / "code.zip").path.read_bytes()
    tree(folder, ["b.py"])
    monkeypatch.setattr(zipfile.ZipFile, "writestr", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        pack.pack(folder, tmp_path / "code.zip")
    assert (tmp_path / "code.zip").read_bytes() == before


# ── trimming ─────────────────────────────────────────────────────────────────────────────────────────────────────

SHIPS = [
    "kubernetes/client/rest.py",
    "kubernetes/client/models/__init__.py",
    "kubernetes-37.dist-info/METADATA",
    "kubernetes-37.dist-info/licenses/LICENSE",
    "six-1.dist-info/LICENSE.txt",
    "yaml-6.dist-info/COPYING",
    "six.py",
    "tzdata/zoneinfo/Europe/Berlin",
    "yaml/_yaml.so",
]
STAYS = [
    "kubernetes/aio/client/rest.py",
    "kubernetes/client/api/core_v1_api.py",
    "kubernetes/client/apis/__init__.py",
    "kubernetes/client/models/v1_pod.py",
    "kubernetes/client/rest.pyi",
    "kubernetes/py.typed",
    "kubernetes-37.dist-info/RECORD",
    "kubernetes-37.dist-info/INSTALLER",
    "kubernetes-37.dist-info/direct_url.json",
    "websocket/tests/test_app.py",
    "yaml/_yaml.pyx",
    "yaml/__pycache__/loader.cpython-311.pyc",
    "aws_lambda_powertools/event_handler/api.py",
    "pydantic/v1/main.py",
    "bin/normalizer",
]


def test_the_rules_take_what_they_name_and_leave_the_rest_with_its_licences(tmp_path):
    folder = tree(tmp_path, [*SHIPS, *STAYS])
    trim.trim(folder)
    assert sorted(pack.files_in(folder)) == sorted(SHIPS)


def test_a_rule_that_matches_nothing_any_more_is_an_error(tmp_path):
    folder = tree(tmp_path, [name for name in (*SHIPS, *STAYS) if not name.startswith("pydantic")])
    with pytest.raises(ValueError, match="pydantic/v1") as refused:
        trim.trim(folder)
    assert_wording(str(refused.value))


def test_packages_that_nothing_imports_are_not_even_downloaded():
    shipped = trim.without_unused(build.REQUIREMENTS.read_text())
    names = {trim.canonical(name) for name in re.findall(r"^([A-Za-z0-9._-]+)==", shipped, re.MULTILINE)}
    assert not names & set(trim.UNUSED_PACKAGES)
    assert {"kubernetes", "msgspec", "requests", "aws-lambda-powertools", "cronsim", "tzdata"} <= names
    assert shipped.count("==") == len(names)
    assert all("--hash=sha256:" in block for block in re.split(r"\n(?=[a-z])", shipped) if "==" in block)


def test_a_package_that_is_left_out_but_not_required_is_an_error():
    text = re.sub(r"^yarl==.*?(?=^\S)", "", build.REQUIREMENTS.read_text() + "\n#\n", flags=re.MULTILINE | re.DOTALL)
    with pytest.raises(ValueError, match="yarl") as refused:
        trim.without_unused(text)
    assert_wording(str(refused.value))


def test_no_requirement_depends_on_who_builds_the_layer():
    """pip reads markers for the Python that runs it, not for the one that it is to choose wheels for."""
    assert not [line for line in build.REQUIREMENTS.read_text().splitlines() if ";" in line and "==" in line]


# ── building ─────────────────────────────────────────────────────────────────────────────────────────────────────


def wheel(folder, name="tiny", code="VALUE = 1\n"):
    """A wheel, and the line that requires it."""
    record = f"{name}-1.dist-info/RECORD"
    content = {
        f"{name}/__init__.py": code,
        f"{name}/tests/test_it.py": "",
        f"{name}-1.dist-info/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n",
        f"{name}-1.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    digests = {
        path: base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        for path, text in content.items()
    }
    lines = [f"{path},sha256={digests[path]},{len(text)}" for path, text in content.items()]
    content[record] = "\n".join([*lines, f"{record},,"]) + "\n"
    path = folder / f"{name}-1-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as made:
        for entry, text in content.items():
            made.writestr(entry, text)
    return f"{name}==1 \\\n    --hash=sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}\n"


@pytest.fixture
def small(tmp_path, monkeypatch):
    """A build of one small package, from wheels that are there already, and one small module. Gives its folder and
    what pip was asked."""
    target = build.Target(name="small", python=sys.version_info[:2])
    monkeypatch.setattr(trim, "UNUSED_PACKAGES", {})
    monkeypatch.setattr(trim, "UNUSED_PARTS", {})
    monkeypatch.setattr(build, "REQUIREMENTS", tmp_path / "requirements.txt")
    monkeypatch.setattr(build, "SOURCES", tree(tmp_path / "code", ["nodefleet/run.py"]))
    wheels = tmp_path / "build/wheels/small"
    wheels.mkdir(parents=True)
    asked, real = [], build._pip

    def pip(command, *arguments):
        asked.append(command)
        if command != "download":
            real(command, *arguments)

    monkeypatch.setattr(build, "_pip", pip)
    (tmp_path / "requirements.txt").write_text(wheel(wheels))
    return tmp_path / "build", target, asked


@pytest.fixture
def built(small, tmp_path, tmp_path_factory):
    """The same, built: for tests that only look at it, once for all of them."""
    folder, target, _ = small
    kept = tmp_path_factory.getbasetemp() / "small-layer"
    if kept.exists():
        shutil.copytree(kept, tmp_path, dirs_exist_ok=True)
    made = build.build(target, folder)
    if not kept.exists():
        shutil.copytree(tmp_path, kept)
    return folder, target, made


def test_a_layer_is_built_once_and_again_when_something_changed(small, tmp_path):
    folder, target, asked = small
    first = build.build(target, folder)
    assert asked == ["download", "install"]
    with zipfile.ZipFile(first.layer.path) as archive:
        assert archive.namelist() == [
            "python/tiny-1.dist-info/METADATA",
            "python/tiny/__init__.py",
            f"python/tiny/__pycache__/__init__.{target.bytecode}.pyc",
        ]
    assert build.build(target, folder) == first
    assert asked == ["download", "install"]
    (tmp_path / "requirements.txt").write_text(wheel(folder / "wheels/small", code="VALUE = 2\n"))
    assert build.current_layer(target, folder) is None
    second = build.build(target, folder)
    assert asked == ["download", "install"] * 2
    assert second.layer.content != first.layer.content
    first.layer.path.write_bytes(b"cut off")
    assert build.build(target, folder).layer.path.read_bytes() != b"cut off"
    assert asked[4:] == ["install"]  # what was downloaded is still there


def test_the_same_requirements_make_the_same_layer(built):
    folder, target, one = built
    bytes_of_one = one.layer.path.read_bytes()
    one.layer.path.unlink()
    assert build.build(target, folder).layer == one.layer
    assert one.layer.path.read_bytes() == bytes_of_one


def test_a_wheel_with_another_hash_is_refused(small, tmp_path):
    folder, target, _ = small
    required = (tmp_path / "requirements.txt").read_text()
    wheel(folder / "wheels/small", code="import os\n")
    (tmp_path / "requirements.txt").write_text(required)
    with pytest.raises(build.BuildError, match="pip install failed"):
        build.build(target, folder)


def test_a_layer_above_its_budget_fails_the_build_and_says_so(built, monkeypatch, capsys):
    folder, target, made = built
    monkeypatch.setattr(build, "LAMBDA", target)
    monkeypatch.setattr(build, "BUILD", folder)
    monkeypatch.setattr(build, "ROOT", folder.parent)
    monkeypatch.setattr(build, "build", lambda _: made)
    assert build.main([]) == 0
    monkeypatch.setattr(build, "BUDGET_MB", {build.LAYER: 0.0, build.FUNCTIONS: 5.0})
    assert build.main([]) == 1
    assert_wording([line for line in capsys.readouterr().out.splitlines() if line.startswith("error")])


def test_the_stack_looks_where_the_builder_puts_it():
    assert build.BUILD / build.LAMBDA.name == artefacts.FOLDER


def test_the_stack_reads_what_the_builder_writes(built):
    folder, target, made = built
    read = artefacts.found(folder / target.name, target)
    assert (read.layer.path, read.layer.digest) == (made.layer.path, made.layer.content)
    assert (read.functions.path, read.functions.digest) == (made.functions.path, made.functions.content)


def test_the_stack_does_not_take_what_was_built_from_something_else(small, tmp_path):
    folder, target, _ = small
    build.build(target, folder)

    def refused():
        with pytest.raises(ValidationError) as problems:
            artefacts.found(folder / target.name, target)
        return [problem.value for problem in problems.value.problems]

    tree(tmp_path / "code", ["nodefleet/__pycache__/run.pyc"])
    assert artefacts.found(folder / target.name, target)
    tree(tmp_path / "code", ["nodefleet/walk.py"])
    assert refused() == ["functions.zip"]
    (tmp_path / "requirements.txt").write_text(wheel(folder / "wheels/small", code="VALUE = 2\n"))
    assert refused() == ["layer.zip", "functions.zip"]
    build.build(target, folder)
    assert artefacts.found(folder / target.name, target)


# ── the real ones ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module", params=[build.LAMBDA, build.here()], ids=lambda target: target.name)
def layer(request):
    made = build.current_layer(request.param)
    if made is None:
        here = "layers" if request.param == build.LAMBDA else "layers-here"
        lacking(f"the layer {request.param.name} is not built, or not from these requirements: make {here}")
    return request.param, made


def test_the_layer_is_within_its_budget_and_that_far_below_lambda_s_limit(layer):
    _, made = layer
    assert made.unpacked / 1e6 <= build.BUDGET_MB[build.LAYER] < build.LIMIT_MB / 10


def test_the_layer_has_the_libraries_where_lambda_looks_and_every_licence(layer):
    with zipfile.ZipFile(layer[1].path) as archive:
        names = archive.namelist()
    assert {name.split("/")[0] for name in names} == {"python"}
    packages = {name.split("/")[1] for name in names if ".dist-info/" in name}
    licensed = {
        name.split("/")[1]
        for name in names
        if ".dist-info/" in name and re.search(r"licen[cs]e|copying|notice", name, re.IGNORECASE)
    }
    assert packages == licensed
    assert not [name for name in names if "boto" in name]


def test_what_is_compiled_is_compiled_for_its_target(layer):
    target, made = layer
    python = "313" if target == build.LAMBDA else "".join(map(str, sys.version_info[:2]))
    with zipfile.ZipFile(made.path) as archive:
        compiled = [name for name in archive.namelist() if name.endswith(".so")]
        machines = {int.from_bytes(archive.read(name)[18:20], "little") for name in compiled}
    assert all(f"cpython-{python}-" in name or "abi3" in name for name in compiled)
    assert target != build.LAMBDA or machines == {AARCH64}


def test_the_functions_are_within_their_budget(tmp_path):
    made = build.pack_functions(tmp_path / build.FUNCTIONS, build.here())
    assert made.unpacked / 1e6 <= build.BUDGET_MB[build.FUNCTIONS]
    with zipfile.ZipFile(made.path) as archive:
        names = archive.namelist()
    assert "nodefleet/handlers/reconcile.py" in names
    ours = [name for name in names if name.startswith("nodefleet/")]
    sources = [name for name in ours if name.endswith(".py")]
    assert all(name.endswith((".py", "py.typed", f".{build.here().bytecode}.pyc")) for name in ours)
    assert len([name for name in ours if name.endswith(".pyc")]) == len(sources)
    assert {name.split("/")[0] for name in names} == {"nodefleet", models.FOLDER}


def test_bytecode_is_taken_as_it_is_wherever_it_lies(tmp_path):
    source = fill(tmp_path / "code", {"tiny.py": "VALUE = 1\n"})
    assert build.compile_modules(source, build.here()) == build.here().bytecode
    (compiled,) = source.rglob("*.pyc")
    assert str(tmp_path).encode() not in compiled.read_bytes()
    assert compiled.read_bytes()[4:8] == (0b01).to_bytes(4, "little")  # by hash, which nobody checks


def test_without_a_python_of_its_version_an_archive_has_no_bytecode_and_the_builder_says_so(tmp_path, capsys):
    target = build.Target(name="future", python=(3, 99))
    assert build.compile_modules(fill(tmp_path, {"tiny.py": ""}), target) == ""
    assert_wording(capsys.readouterr().out)


def test_an_archive_with_bytecode_is_another_one(tmp_path):
    folder = tree(tmp_path / "code", ["a.py", "__pycache__/a.cpython-313.pyc"])
    bare, compiled = (pack.pack(folder, tmp_path / "a.zip", bytecode=tag) for tag in ("", "cpython-313"))
    assert (bare.files, compiled.files) == (1, 2)
    assert bare.content != compiled.content


# ── descriptions of AWS services ─────────────────────────────────────────────────────────────────────────────────

MODEL = {
    "metadata": {"serviceId": "Toy"},
    "clientContextParams": {"Fast": {"documentation": "kept: botocore reads it", "type": "boolean"}},
    "operations": {
        "GetToy": {"input": {"shape": "Ask"}, "errors": [{"shape": "Broken"}], "documentation": "long"},
        "SellToy": {"input": {"shape": "Price"}},
    },
    "shapes": {
        "Ask": {"type": "structure", "members": {"documentation": {"shape": "Text"}, "In": {"shape": "Ask"}}},
        "Text": {"type": "string", "documentation": "long"},
        "Broken": {"type": "structure", "members": {}},
        "Price": {"type": "integer"},
    },
}


def test_a_description_keeps_the_calls_that_are_made_and_the_shapes_that_they_lead_to():
    small = models.cut_down(MODEL, ["GetToy"])
    assert small["operations"] == {"GetToy": {"input": {"shape": "Ask"}, "errors": [{"shape": "Broken"}]}}
    assert small["shapes"].keys() == {"Ask", "Text", "Broken"}
    assert small["shapes"]["Ask"]["members"].keys() == {"documentation", "In"}  # a member of that name is no text
    assert small["clientContextParams"] == MODEL["clientContextParams"]


def test_a_call_that_the_service_does_not_know_is_an_error():
    with pytest.raises(KeyError):
        models.cut_down(MODEL, ["BreakToy"])


def test_the_list_of_endpoints_keeps_our_services_in_every_region():
    whole = Loader().load_data("endpoints")
    small = models.cut_endpoints(whole, ["ec2", "monitoring"])
    resolvers = [EndpointResolver(each, uses_builtin_data=True) for each in (whole, small)]
    regions = [region for partition in whole["partitions"] for region in partition["regions"]]
    assert len(regions) > 30
    for prefix, region in product(("ec2", "monitoring"), regions):
        found = [each.construct_endpoint(prefix, region) for each in resolvers]
        assert found[0] == found[1]
    assert len(json.dumps(small)) < len(json.dumps(whole)) / 10


def test_every_call_that_an_adapter_makes_is_in_the_descriptions():
    known = {xform_name(call) for calls in models.CALLS.values() for call in calls}
    every = {xform_name(call) for service in models.CALLS for call in botocore_calls(service)}
    sources = [path.read_text() for path in (build.SOURCES / "nodefleet/adapters").rglob("*.py")]
    made = {name for text in sources for name in re.findall(r'[.("](\w+)[("]', text)} & every
    assert {"create_fleet", "describe_instances", "transact_write_items", "put_object"} <= made
    assert made - known == set()
