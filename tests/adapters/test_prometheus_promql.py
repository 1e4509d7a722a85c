import pytest

from nodefleet.adapters.prometheus import for_pool
from nodefleet.model.snapshot import Missing


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ('count(up{pool="$pool"})', 'count(up{pool="web-1"})'),
        ('a{p="$pool"} / b{p=~"$pool|x"}', 'a{p="web-1"} / b{p=~"web-1|x"}'),
        ("sum(queue)", "sum(queue)"),
        ('a{p="$pools", q="$pool_2"}', 'a{p="$pools", q="$pool_2"}'),
    ],
)
def test_the_pools_name_stands_where_the_query_says(query, expected):
    assert for_pool(query, "web-1") == expected


@pytest.mark.parametrize("name", ['x"} or vector(0) #', "a`b", "a\\b", "a\nb", "a.b", "", "ü"])
def test_a_name_that_could_change_the_query_is_refused(name):
    assert isinstance(for_pool('up{pool="$pool"}', name), Missing)


def test_a_strange_name_does_not_matter_to_a_query_without_it():
    assert for_pool("sum(queue)", 'x"') == "sum(queue)"
