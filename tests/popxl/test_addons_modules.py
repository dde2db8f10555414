"""Tests modules of popxl_addons: collected state, their graphs, and graphs that are made once."""

import functools
import gc
import weakref

import numpy as np
import popxl
import popxl_addons as addons
import pytest
from popxl import ops
from popxl._impl.records import of
from program import run_graph

F32 = popxl.float32
SPEC = popxl.TensorSpec((2,), F32)


class Scale(addons.Module):
    def build(self, x: popxl.Tensor):
        y = x * self.add_variable_input("scale", functools.partial(np.full, x.shape, 3.0), x.dtype)
        self.named = y.name
        return y


@pytest.fixture
def main():
    ir = popxl.Ir()
    with ir.main_graph:
        yield ir


def test_attributes_name_modules_and_their_tensors(main):
    class Outer(addons.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.other = Scale(), Scale()

        def build(self, x: popxl.Tensor):
            self.other.set_name_scope("renamed")
            return self.inner(x) + self.other(x)

    outer = Outer()
    facts, graph = outer.create_graph(SPEC)
    assert facts.keys_flat() == ["inner.scale", "other.scale"]
    assert (outer.inner.named, outer.other.named) == ("inner/mul_out", "renamed/mul_out")
    assert [t.name for t in graph.graph.inputs] == ["x", "inner/scale", "renamed/scale"]
    with pytest.raises(ValueError, match="already exists"):
        outer.inner = Scale()
    for name in ("set_name_scope", "get"):  # methods stay
        assert callable(getattr(outer, name))


def test_collected_state_is_handed_over(main):
    class Outer(addons.Module):
        def __init__(self):
            super().__init__()
            self.inner = Scale()

        def build(self, x: popxl.Tensor):
            facts, graph = Scale().create_graph(x)
            bound = [graph.bind(self.add_variable_inputs(n, facts)) for n in ("a.b", 0)]
            self.add_variable_input("own.w", lambda: 1.0, F32)
            with pytest.raises(ValueError, match="already exists"):
                self.add_variable_input("own.v", lambda: 1.0, F32)
            self.add_variable_input("own.v", lambda: 1.0, F32, overwrite=True)
            with pytest.raises(ValueError):
                self.add_variable_inputs(-1, facts)
            for one in bound:
                (x,) = one.call(x)
            return self.inner(x)

    outer = Outer()
    keys = ["inner.scale", "a.b.scale", "0.scale", "own.w", "own.v"]
    for _ in range(2):  # names collected by the first graph do not affect the second
        facts, graph = outer.create_graph(SPEC)
        assert facts.keys_flat() == graph.args.keys_flat() == keys
        assert list(graph.graph.inputs[1:]) == [
            graph.args[key] for key in ("a.b.scale", "0.scale", "own.w", "own.v", "inner.scale")
        ]
    facts, _ = outer.inner.create_graph(SPEC)
    assert facts.keys_flat() == ["scale"]


def test_modules_in_lists(main):
    class Two(addons.Module):
        def __init__(self):
            super().__init__()
            self.layers = addons.Module.from_list([Scale(), Scale()])

        def build(self, x: popxl.Tensor):
            for layer in self.layers:
                x = layer(x)
            return x

    two = Two()
    layers = two.layers
    assert layers[0] is layers["0"] is layers.get(0) is getattr(layers, "0") is two["layers.0"]
    assert layers[-1] is layers[1] is two.get("layers")[1] and list(layers) == [
        layers[0],
        layers[1],
    ]
    with pytest.raises(KeyError):
        layers.get(2)
    with pytest.raises(AttributeError):
        iter(two)
    assert bool(two) and bool(addons.Module.from_list([]))
    facts, _ = two.create_graph(SPEC)
    assert facts.keys_flat() == ["layers.0.scale", "layers.1.scale"]


def test_factories_in_lists():
    drawn = iter([5.0, 7.0, 11.0, 13.0])

    class Sum(addons.Module):
        def build(self, x: popxl.Tensor):
            shared = addons.VariableFactory(drawn, F32, "shared")
            single = addons.VariableFactory(lambda: 100.0, F32)
            self.terms = addons.Module.from_variable_factories([shared, shared, single])
            assert self.terms[0] is not self.terms[1]
            return x + self.terms[0] + self.terms[1] * 10.0 + self.terms[2]

    def program(x):
        facts, graph = Sum().create_graph(x)
        assert graph.args.keys_flat() == ["terms.0", "terms.1", "terms.2"]
        assert graph.args.terms[1] is graph.graph.inputs[2]
        return graph.bind(facts.init()).call(x)

    (y,) = run_graph(program, np.float32(0))
    assert y == 5 + 70 + 100


def test_factories_are_inputs(main):
    class Given(addons.Module):
        def build(self, factory):
            self.add_variable_factory(factory)
            self.add_variable_factory(factory, "other")
            return self.add_variable_factory(variable_f=factory, name="third")

    facts, graph = Given().create_graph(addons.VariableFactory(lambda: np.zeros(3), F32, "own"))
    assert facts.keys_flat() == graph.args.keys_flat() == ["own", "other", "third"]
    with pytest.raises(ValueError, match="has no name"):
        Given().create_graph(addons.VariableFactory(lambda: 0.0))


class Bare(addons.Module):
    """A module that does not call its base class."""

    def __init__(self, factor):
        self.factor = factor

    def build(self, x: popxl.Tensor):
        if self.factor is None:
            return self.add_variable_input("w", lambda: 1.0)
        return x * self.factor


def test_modules_without_state_are_functions(main):
    bare, cache = Bare(2.0), addons.GraphCache()
    graph = main.create_graph(bare, SPEC)
    assert graph.name == "Bare_subgraph(0)" and len(graph.inputs) == 1
    assert cache.create_graph(bare, SPEC) is cache.create_graph(bare, SPEC)
    with pytest.raises(RuntimeError, match=r"Call super\(\).__init__"):
        main.create_graph(Bare(None), SPEC)


class Alike(Scale):
    """Modules of one size are equal."""

    def __init__(self, size, cache=None):
        super().__init__(cache=cache)
        self.size = size

    def __hash__(self):
        return hash(("Alike", self.size))


def test_equal_hashes_share_graphs(main):
    cache = addons.GraphCache()
    first = cache.create_graph(Alike(1), SPEC)
    assert cache.create_graph(Alike(1), SPEC) is first
    assert cache.create_graph(Alike(2), SPEC) is not first
    facts, named = Alike(3, cache).create_graph(SPEC)
    again, other = Alike(3, cache).create_graph(SPEC)
    assert named.graph is other.graph and named is not other and facts is not again
    facts.pop("scale")
    assert again.keys_flat() == ["scale"] == named.args.keys_flat()
    assert Alike(1, cache).create_graph(SPEC)[1].args.keys_flat() == ["scale"]


def test_modules_are_told_apart_though_they_lived_in_one_place(main):
    cache, names = addons.GraphCache(), set()
    for factor in range(20):
        names.add(cache.create_graph(Bare(float(factor)), SPEC).name)
    assert len(names) == 20


def power(x, n=1, more=(), named=None, graph=None):
    return x * float(n)


def test_arguments_of_caches(main):
    cache, x = addons.GraphCache(), popxl.constant([1.0, 2.0])
    make = functools.partial(cache.create_graph, power)
    plain = addons.GraphWithNamedArgs(main.create_graph(lambda t: t + 1.0, x))
    other = addons.GraphWithNamedArgs(main.create_graph(lambda t: t + 1.0, x))
    inner, y = plain.graph.inputs[0], popxl.constant([3.0, 4.0])

    def bound(graph, t):
        return addons.BoundGraph(graph.graph, {graph.graph.inputs[0]: t})

    same = [
        (lambda: make(x), lambda: make(SPEC)),
        (lambda: make(x), lambda: make(x=y, n=1)),
        (lambda: make(x, 1, [1, 2]), lambda: make(x, more=(1, 2))),
        (lambda: make(x, named={"a": SPEC}), lambda: make(x, named={"a": SPEC})),
        (lambda: make(x, graph=plain), lambda: make(x, graph=plain.copy())),
        (lambda: make(x, graph=bound(plain, y)), lambda: make(x, graph=bound(plain, y))),
    ]
    for one, two in same:
        assert one() is two()
    differing = [
        lambda: make(x),
        lambda: make(x, 2),
        lambda: make(x, -1),
        lambda: make(x, -2),
        lambda: make(x, 1, [1]),
        lambda: make(popxl.TensorSpec((3,), F32)),
        lambda: make(popxl.TensorSpec((2,), popxl.float16)),
        lambda: make(popxl.TensorSpec((2,), F32, (4,))),
        lambda: make(x, graph=plain),
        lambda: make(x, graph=other),
        lambda: make(x, graph=bound(plain, x)),
        lambda: make(x, graph=bound(plain, y)),
        lambda: make(x, graph=bound(other, y)),
        lambda: addons.GraphCache().create_graph(power, x),
    ]
    assert len({graph().name for graph in differing}) == len(differing)
    here = make(SPEC)
    with popxl.ipu(1):
        there = make(SPEC)
    with popxl.io_tiles():
        assert len({make(SPEC).name, here.name, there.name}) == 3
    with pytest.raises(TypeError, match="unhashable"):
        make(x, np.ones(2))
    assert inner in plain.graph


def test_caches_do_not_keep_programs():
    cache = addons.GraphCache()

    def program():
        ir = popxl.Ir()
        with ir.main_graph:
            graph = cache.create_graph(power, SPEC)
            assert cache.create_graph(power, SPEC) is graph
        return weakref.ref(ir)

    made = [program() for _ in range(2)]
    gc.collect()
    assert [ref() for ref in made] == [None, None]


def test_functions_give_tuples():
    @addons.function
    def difference(a, b):
        return a - b

    @addons.function
    def nothing(a):
        ops.print_tensor(a)

    @addons.function
    def several(*, first, rest):
        return first, rest[1]

    def program(x, y):
        made = difference(b=y, a=x)
        assert isinstance(made, tuple) and nothing(x) == ()
        return *made, *several(rest=[x, y], first=x)

    got = run_graph(program, np.float32(5), np.float32(3))
    assert got == [2, 5, 3]


def test_bound_graphs_map_what_goes_in_and_out(main):
    graph = main.create_graph(
        lambda a, b, c: (a + b, c + 1.0), SPEC, SPEC, popxl.TensorSpec((), F32)
    )
    a, b, c = graph.inputs
    x, y, z = (popxl.constant([float(i), 0.0]) for i in range(3))
    bound = addons.BoundGraph(graph, {b: x})
    assert bound.graph is graph and bound.args == {b: x}
    assert bound.bind({b: y}).args == {b: y} and bound.args == {b: x}
    found = bound.subgraph_io_map(z, args={c: x}, outs=[y, z])
    assert found == {a: z, b: x, c: x, graph.outputs[0]: y, graph.outputs[1]: z}
    found = addons.BoundGraph(graph).subgraph_io_map([x, y], 2.5, outs=[y, z])
    assert found[a] is x and found[b] is y
    assert of(found[c]).data == 2.5 and found[c].dtype is F32
    outputs = bound.call(z, args={c: popxl.constant(4.0)})
    assert isinstance(outputs, tuple) and len(outputs) == 2


def test_graphs_carry_what_made_them(main):
    class Keeping(Scale):
        def build(self, x: popxl.Tensor):
            self.aux["x"] = x
            return super().build(x)

    module = Keeping()
    _, graph = module.create_graph(SPEC)
    assert graph.from_module is module and graph.aux == {"x": graph.graph.inputs[0]}
    copy = graph.copy()
    assert copy.graph is graph.graph and copy.args is not graph.args
    assert (copy.from_module, copy.aux) == (module, graph.aux)
    graph.called_graphs_grad_info = {}
    made = addons.GraphWithNamedArgs(graph.graph, graph.args, None, module, {"a": 1}, {})
    assert made.aux == {"a": 1} and not made.autodiff_applied
    assert made.print_schedule().startswith("Graph : ")


def test_calls_of_modules_choose_how():
    outer = addons.Module()
    with pytest.raises(ValueError, match="'some'"):
        outer.call_module(Scale(), autodiff="some")

    class Calling(addons.Module):
        def build(self, x: popxl.Tensor):
            for name, mode in (("none", "none"), ("auto", "auto"), ("made", "autodiff")):
                (x,) = self.call_module(Scale(), name, autodiff=mode)(x=x)
            return x

    def program(x):
        facts, graph = Calling().create_graph(x)
        assert facts.keys_flat() == ["none.scale", "auto.scale", "made.scale"]
        assert len(graph.called_graphs_grad_info) == 1
        return graph.bind(facts.init()).call(x)

    (y,) = run_graph(program, np.float32([1, 2]))
    assert y.tolist() == [27, 54]
