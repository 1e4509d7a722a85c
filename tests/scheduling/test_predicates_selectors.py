"""Selectors, with the scheduler's own table of node affinity in our words.

Left out of that table: affinity that is added by the scheduler's configuration, which we cannot see.
"""

import pytest

from nodefleet.model.workload import NodeTerm, Operator, Requirement, Rules, Selector
from nodefleet.scheduling.predicates import admits, matches

GPU = {"GPU": "NVIDIA-GRID-K1"}
FOO = {"foo": "bar"}


def want(text):
    """ "foo In bar,value2" → the requirement."""
    key, operator, *values = text.split(" ", 2)
    return Requirement(key=key, operator=Operator(operator), values=tuple(values[0].split(",")) if values else ())


def term(*labels, fields=()):
    return NodeTerm(labels=tuple(map(want, labels)), fields=tuple(map(want, fields)))


NODE_1, NODE_2 = "metadata.name In node1", "metadata.name In node2"


@pytest.mark.parametrize(
    ("selector", "terms", "name", "labels", "admitted"),
    [
        (FOO, None, "", {}, False),
        (FOO, None, "", FOO, True),
        (FOO, None, "", {**FOO, "baz": "blah"}, True),
        ({**FOO, "baz": "blah"}, None, "", FOO, False),
        ({}, [term("foo In bar,value2")], "", FOO, True),
        ({}, [term("kernel Gt 0204")], "", {"kernel": "0206"}, True),
        ({}, [term("kernel Gt 0204")], "", {"kernel": "0204"}, False),
        ({}, [term("kernel Lt 0204")], "", {"kernel": "0203"}, True),
        ({}, [term("kernel Lt 0204")], "", {"kernel": "0204"}, False),
        ({}, [term("kernel Gt -5")], "", {"kernel": "-4"}, True),
        ({}, [term("kernel Gt 1")], "", {"kernel": "two"}, False),
        ({}, [term("kernel Gt one")], "", {"kernel": "2"}, False),
        ({}, [term("kernel Gt 1,2")], "", {"kernel": "3"}, False),
        ({}, [term("kernel Lt 1")], "", {}, False),
        ({}, [term("mem NotIn DDR,DDR2")], "", {"mem": "DDR3"}, True),
        ({}, [term("mem NotIn DDR,DDR2")], "", {"mem": "DDR2"}, False),
        ({}, [term("mem NotIn DDR,DDR2")], "", {}, True),
        ({}, [term("GPU Exists")], "", GPU, True),
        ({}, [term("GPU Exists")], "", FOO, False),
        ({}, [term("GPU DoesNotExist")], "", FOO, True),
        ({}, [term("GPU DoesNotExist")], "", GPU, False),
        ({}, [term("foo In value1,value2")], "", FOO, False),
        ({}, [], "", FOO, False),
        ({}, [term()], "", FOO, False),
        ({}, None, "", FOO, True),
        ({}, [term("GPU Exists", "GPU NotIn AMD,INTER")], "", GPU, True),
        ({}, [term("GPU Exists", "GPU In AMD,INTER")], "", GPU, False),
        ({}, [term("foo In bar,value2"), term("diffkey In wrong,value2")], "", FOO, True),
        (FOO, [term("foo Exists")], "", FOO, True),
        (FOO, [term("foo Exists")], "", {"foo": "barrrrrr"}, False),
        ({}, [term("foo NotIn invalid value: ___@#$%^")], "", FOO, False),
        ({}, [term("foo NotIn " + 63 * "x")], "", FOO, True),
        ({}, [term("foo NotIn " + 64 * "x")], "", FOO, False),
        ({}, [term("foo NotIn ")], "", FOO, True),
        ({}, [term(fields=[NODE_1])], "node1", {}, True),
        ({}, [term(fields=[NODE_1])], "node2", {}, False),
        ({}, [term(fields=[NODE_1, NODE_2]), term("foo In bar")], "node2", FOO, True),
        ({}, [term("foo In bar", fields=[NODE_1])], "node2", FOO, False),
        ({}, [term("foo In bar", fields=[NODE_1])], "node1", FOO, True),
        ({}, [term("foo In other", fields=[NODE_1])], "node1", FOO, False),
        ({}, [term(fields=[NODE_1]), term("foo In not-bar")], "node2", FOO, False),
        ({}, [term(fields=[NODE_1]), term(fields=[NODE_2])], "node2", {}, True),
        ({}, [term(fields=[NODE_1, NODE_2])], "node2", FOO, False),
        ({}, [term(fields=["metadata.name NotIn node1"])], "node2", {}, True),
    ],
)
def test_a_pod_is_admitted_where_its_selector_and_one_of_its_terms_match(selector, terms, name, labels, admitted):
    rules = Rules(node_selector=selector, node_terms=None if terms is None else tuple(terms))
    assert admits(rules, name, labels) is admitted


@pytest.mark.parametrize(
    ("labels", "expressions", "matched"),
    [
        ({}, [], True),
        ({"foo": "bar"}, [], True),
        ({"foo": "baz"}, [], False),
        ({"foo": "bar", "tier": "web"}, [], False),
        ({}, ["foo In bar,baz"], True),
        ({}, ["foo In baz"], False),
        ({}, ["foo NotIn baz", "tier DoesNotExist"], True),
        ({}, ["foo NotIn bar"], False),
        ({}, ["foo Exists", "tier Exists"], False),
        ({"foo": "bar"}, ["foo DoesNotExist"], False),
        ({}, ["count Gt 1"], False),
        ({}, ["count Lt 9"], False),
    ],
)
def test_everything_in_a_label_selector_must_hold_and_none_can_compare(labels, expressions, matched):
    selector = Selector(labels=labels, expressions=tuple(map(want, expressions)))
    assert matches(selector, {"foo": "bar", "count": "5"}) is matched
