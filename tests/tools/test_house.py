"""`make house` counts what it says."""

import ast
from pathlib import Path

import pytest

from nodefleet_tools.house import (
    Module,
    english_asserts,
    import_graph,
    is_participle,
    longest_chain,
    participle_functions,
    repeated_classes,
    single_importers,
)


def module(name: str, source: str) -> Module:
    return Module(name=name, path=Path(f"{name}.py"), lines=len(source.splitlines()), tree=ast.parse(source))


def named(*modules: Module) -> dict[str, Module]:
    return {each.name: each for each in modules}


@pytest.mark.parametrize("name", ["judged", "_told", "kept", "_found", "granted"])
def test_a_participle_alone_is_no_name_of_a_function(name):
    assert is_participle(name)


@pytest.mark.parametrize("name", ["read", "seed", "is_read", "evaluate", "_with_shortage", "let_go"])
def test_verbs_and_names_of_several_words_are(name):
    assert not is_participle(name)


def test_properties_are_values_and_do_not_count():
    code = "class A:\n    @property\n    def kept(self): ...\n    def told(self): ...\ndef _judged(): ...\n"
    assert participle_functions([module("a", code)]) == ("a._judged:5", "a.told:4")


def test_an_import_inside_a_function_is_one_too():
    modules = named(
        module("a", "def f():\n    from b import x\n"), module("b", "x = 1"), module("c", "import b\nimport a")
    )
    imports = import_graph(modules)
    assert imports == {"a": {"b"}, "b": set(), "c": {"a", "b"}}
    assert longest_chain(imports) == ["c", "a", "b"]
    assert single_importers(modules, imports) == ("a (2 lines) ← c",)


@pytest.mark.parametrize(("most", "mergeable"), [(3, ()), (4, ("b (2 lines) ← a",))])
def test_a_module_fits_into_its_only_importer_if_both_together_are_short_enough(most, mergeable):
    modules = named(module("a", "import b\nx = 1\n"), module("b", "x = 1\ny = 2\n"))
    assert single_importers(modules, import_graph(modules), most=most) == mergeable


def test_a_class_name_of_two_modules_is_told_with_both():
    one, other = module("a", "class Limits: ..."), module("b", "class Limits: ...\nclass Only: ...")
    assert repeated_classes([one, other]) == ("Limits: a, b",)


def test_an_assert_on_a_sentence_is_told_from_one_on_a_value(tmp_path):
    (tmp_path / "test_it.py").write_text(
        "assert x == 'the node leaves'\n"
        "assert 'is at max' in f'{y}'\n"
        "assert x == 'us-east-1a'\n"
        "assert x.nodes == 3\n"
        "raises(E, match='cannot be read')\n"
    )
    assert [each.split(":")[1] for each in english_asserts(tmp_path)] == ["1", "2", "5"]
