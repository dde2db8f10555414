"""Tests collections of popxl_addons with dotted names: values, tensors, groupings of replicas."""

import numpy as np
import popxl
import popxl_addons as addons
import pytest
from popxl_addons import DotTree, named_replica_grouping as groupings
from program import run_graph


def numbered(*keys):
    return DotTree.from_dict({key: key for key in keys})


def test_trees_are_made_of_keywords():
    inner = DotTree(x=3)
    tree = DotTree(a=2, b=inner, **{"0": 1})
    assert tree.to_dict() == {"a": 2, "b.x": 3, "0": 1} and tree.b is inner
    assert repr(tree) == "{'a': 2, 'b.x': 3, '0': 1}"
    inner.insert("y", 4)
    assert tree["b.y"] == 4


@pytest.mark.parametrize("key", ["no name", ".a", "a.", "a..b", "", "a-b", -1])
def test_keys_are_identifiers_or_numbers(key):
    tree = DotTree()
    with pytest.raises(ValueError, match="is not a valid python identifier"):
        tree.insert(key, 1)
    assert tree.keys() == []


def test_inserting_checks_every_level():
    tree = DotTree()
    tree.insert("foo.bar.hee", 1)
    for key in ("foo", "foo.bar", "foo.goo", "foo.bar.goo"):
        with pytest.raises(ValueError, match="already exists"):
            tree.insert(key, 2)
    assert tree.to_dict() == {"foo.bar.hee": 1}
    tree.insert("foo.bar.goo", 2, overwrite=True)
    assert tree.to_dict() == {"foo.bar.hee": 1, "foo.bar.goo": 2}
    tree.insert("foo.bar.hee.low", 3, overwrite=True)  # a value in the way
    assert tree.to_dict() == {"foo.bar.hee.low": 3, "foo.bar.goo": 2}
    with pytest.raises(ValueError):
        tree.insert("new.no name", 1)
    assert "new" not in tree


def test_getting():
    tree = numbered("a.x", "a.y", "list.0", "list.10")
    assert tree.a.x == tree["a.x"] == tree.get("a")["x"] == "a.x"
    assert tree.list[0] == tree.list["0"] == getattr(tree.list, "0") == "list.0"
    assert "a.x" in tree and "a" in tree and "a.z" not in tree and "a.x.y" not in tree
    for key in ("b", "a.z", "a.x.y", 0):
        with pytest.raises(KeyError):
            tree.get(key)
    with pytest.raises(TypeError):
        tree.get("b", None)
    with pytest.raises(AttributeError, match="has no 'b'; it has a, list"):
        _ = tree.b


def test_negative_numbers_count_from_behind_the_largest():
    tree = numbered(0, 1, 3)
    assert (tree[-1], tree[-3], tree[-4]) == (3, 1, 0)
    for key in (-2, -5):
        with pytest.raises(KeyError):
            tree.get(key)
    with pytest.raises(KeyError):
        DotTree(a=1).get(-1)


def test_trees_are_true_and_count_themselves():
    tree, empty = numbered("a.x", "a.y", "b"), DotTree()
    assert empty and (empty.len(), empty.len_flat(), empty.unpack()) == (0, 0, ([], []))
    assert (tree.len(), tree.len_flat()) == (2, 3)
    assert tree.keys() == ["a", "b"] and tree.values() == [tree.a, "b"]
    assert tree.keys_flat() == tree.values_flat() == ["a.x", "a.y", "b"]
    for name in ("__len__", "__iter__", "items"):
        assert not hasattr(DotTree, name)


def test_updating_takes_a_copy_of_the_top():
    tree, other = numbered("a.x"), numbered("a.y", "b.z")
    with pytest.raises(ValueError, match="already exists"):
        tree.update(other)
    tree.update(other, overwrite=True)
    assert tree.keys_flat() == ["a.y", "b.z"]
    other.insert("b.new", 1, overwrite=True)
    assert "b.new" not in tree


def test_parts_of_trees():
    tree = addons.NamedTensorData.from_dict({"a.x": 1, "a.y": 2, "b": 3, "c.d.e": 4})
    copy = tree.copy()
    assert type(copy) is type(copy.a) is addons.NamedTensorData and copy.a is not tree.a
    assert copy.pop("a.x") == 1 and "a.x" not in copy and tree.a.x == 1
    assert tree.filter_keys(["b", "a", "c.d"]).to_dict() == {"b": 3, "a.x": 1, "a.y": 2, "c.d.e": 4}
    assert tree.filter_keys([]).keys() == []
    with pytest.raises(ValueError):
        tree.filter_keys(["a", "a"])
    for keys in (["z"], ["a.z"]):
        with pytest.raises(KeyError):
            tree.filter_keys(keys)
    assert tree.map(lambda v: -v).to_dict() == {"a.x": -1, "a.y": -2, "b": -3, "c.d.e": -4}
    nested = tree.c.d
    tree._clear()
    assert tree.to_dict() == {} and tree.c.d is nested and tree.keys() == ["a", "c"]


def test_trees_are_dictionaries_and_lists():
    tree = DotTree.from_dict({1: "one", "b.x": 2, "b.y": 3})
    assert tree.to_dict() == {"1": "one", "b.x": 2, "b.y": 3}
    with pytest.raises(ValueError, match="is a value"):
        DotTree.from_dict({"b": 1, "b.x": 2})
    packed = DotTree.pack(["b", "a", "left"], [1, 2])
    assert packed.to_dict() == {"b": 1, "a": 2} and packed.unpack() == (("a", "b"), (2, 1))
    other = DotTree(a="A", c="C")
    assert packed.to_mapping(other) == addons.to_mapping(packed, other) == {2: "A"}


@pytest.mark.parametrize(
    ("name", "key"), [("a.b/c", "a_b_c"), ("0x", "_0x"), ("fine_1", "fine_1"), ("é-", "é_")]
)
def test_names_are_made_keys(name, key):
    assert addons.sanitise(name) == key


def test_tensors_by_name(capfd):
    def program(x, y):
        named = addons.NamedTensors(first=addons.NamedTensors(b=x), a=y)
        assert named.named_tensors == {"first.b": x, "a": y}
        assert named.tensors == tuple(sorted([x, y], key=lambda t: t.name))
        swapped = named.remap({x: y, y: x})
        assert swapped.to_dict() == {"first.b": y, "a": x} and type(swapped.first) is type(named)
        with pytest.raises(KeyError):
            named.remap({x: y})
        printed = addons.print_named_tensors(named)
        assert printed.keys_flat() == ["first.b", "a"] and printed.a is not y
        return printed.first.b, printed.a

    a, b = run_graph(program, np.float32(1.5), np.float32(2.5))
    assert (a, b) == (1.5, 2.5)
    told = capfd.readouterr().err
    assert "first.b" in told and "1.5" in told and "a" in told and "2.5" in told


@pytest.fixture(params=["instance", "ild"])
def cut(request, monkeypatch):
    """Returns groupings cut for blocks of 4 replicas, and whether they reach across blocks."""
    if request.param == "instance":
        each = property(lambda ir: 4)
        monkeypatch.setattr(popxl.Ir, "instance_replication_factor", each)
        return groupings.get_instance_replica_grouping, groupings.is_cross_instance
    monkeypatch.setenv("POPLAR_TARGET_OPTIONS", '{"ipuLinkDomainSize": 4}')
    assert groupings.get_ild_size_from_popdist() == 4
    return groupings.get_ild_replica_grouping, groupings.is_cross_ild


@pytest.mark.parametrize(
    ("given", "result"),
    [
        ((1, 8), (1, 4)),
        ((1, 4), (1, 4)),
        ((2, 4), (2, 2)),
        ((4, 2), (1, 1)),
        ((2, 2), (2, 2)),
        ((1, 1), (1, 1)),
    ],
)
def test_groupings_are_cut_where_links_end(cut, given, result):
    ir = popxl.Ir(replication=8)
    with ir.main_graph:
        rg = ir.replica_grouping(*given)
        assert cut[0](rg) == ir.replica_grouping(*result)
        assert cut[1](rg) == (given[0] * given[1] > 4)
        assert cut[0]() == ir.replica_grouping(group_size=4)


def test_groupings_that_cannot_be_cut(cut):
    ir = popxl.Ir(replication=16)
    with ir.main_graph:
        with pytest.raises(ValueError, match="stride beyond"):
            cut[0](ir.replica_grouping(8, 2))
        with pytest.raises(ValueError, match="equally"):
            cut[0](
                ir.replica_grouping_from_assignments(
                    [0, 0, 1, 1, 0, 1, 0, 1] + [2, 2, 2, 2, 3, 3, 3, 3]
                )
            )
    ir = popxl.Ir(replication=12)
    with ir.main_graph, pytest.raises(ValueError, match="equally"):
        cut[0](ir.replica_grouping(group_size=3))


def test_groupings_stay_where_all_replicas_are_linked(monkeypatch):
    monkeypatch.delenv("POPLAR_TARGET_OPTIONS", raising=False)
    ir = popxl.Ir(replication=8)
    with ir.main_graph:
        rg = ir.replica_grouping_from_assignments([0, 0, 1, 1, 1, 0, 0, 1])
        assert groupings.get_instance_replica_grouping(rg) is rg
        assert groupings.get_ild_replica_grouping(rg) is rg
        assert groupings.get_ild_size_from_popdist() == 8
        assert not groupings.is_cross_ild(ir.replica_grouping())
        assert groupings.fill_none_group(None) == ir.replica_grouping()
        named = groupings.NamedReplicaGrouping.build_groups(["a.w", "b"], value=rg)
    assert named.to_dict() == {"a.w": rg, "b": rg}
    with popxl.Ir(replication=100).main_graph:
        assert groupings.get_ild_size_from_popdist() == 64
