"""Shows PopXL's modules, which are graphs with named state, and collections of named tensors."""

from functools import partial

import numpy as np
import popxl
import popxl_addons as addons
from popxl import ops


class Linear(addons.Module):
    """x @ weight + bias."""

    def __init__(self, out_features: int, bias: bool = True):
        super().__init__()
        self.out_features = out_features
        self.bias = bias

    def build(self, x: popxl.Tensor) -> popxl.Tensor:
        w = self.add_variable_input(
            "weight",
            partial(np.random.normal, 0, 0.02, (x.shape[-1], self.out_features)),
            x.dtype,
        )
        y = x @ w
        if self.bias:
            b = self.add_variable_input("bias", partial(np.zeros, y.shape[-1]), x.dtype)
            y = y + b
        return y


class Net(addons.Module):
    """Four dense layers. Each layer adds its ops where it is called."""

    def __init__(self, cache: "addons.GraphCache | None" = None):
        super().__init__(cache=cache)
        self.fc1 = Linear(512)
        self.fc2 = Linear(512)
        self.fc3 = Linear(512)
        self.fc4 = Linear(10)

    def build(self, x: popxl.Tensor) -> popxl.Tensor:
        x = x.reshape((-1, 28 * 28))
        x = ops.gelu(self.fc1(x))
        x = ops.gelu(self.fc2(x))
        x = ops.gelu(self.fc3(x))
        return self.fc4(x)


class NetOutlined(addons.Module):
    """The same layers, but the two in the middle call one graph."""

    def __init__(self, cache: "addons.GraphCache | None" = None):
        super().__init__(cache=cache)
        self.fc1 = Linear(512)
        self.fc4 = Linear(10)

    def build(self, x: popxl.Tensor) -> popxl.Tensor:
        x = x.reshape((-1, 28 * 28))
        x = ops.gelu(self.fc1(x))
        facts, subgraph = Linear(512).create_graph(x)
        fc2 = subgraph.bind(self.add_variable_inputs("fc2", facts))
        fc3 = subgraph.bind(self.add_variable_inputs("fc3", facts))
        (x,) = fc2.call(x)
        x = ops.gelu(x)
        (x,) = fc3.call(x)
        x = ops.gelu(x)
        return self.fc4(x)


def one_layer():
    """Shows a graph and its variables, and runs it."""
    ir = popxl.Ir(replication=1)
    with ir.main_graph:
        facts, linear_graph = Linear(32).create_graph(popxl.TensorSpec((2, 4), popxl.float32))
        print("factories:\n", facts)
        print("\ngraph:\n", linear_graph.print_schedule())
        variables = facts.init()
        print("\nvariables:\n", variables)
        bound_graph = linear_graph.bind(variables)
        x = np.random.rand(2, 4).astype(np.float32)
        (y,) = bound_graph.call(popxl.variable(x, name="x"))
        stream = addons.ops.host_store(y)
    with popxl.Session(ir, "ipu_hw") as session:
        result = session.run()[stream]
    weight = session.get_tensor_data(variables.weight)
    print("\nlargest difference from NumPy:", np.abs(result - x @ weight).max())


def two_bound_graphs():
    """Uses one graph with two sets of variables."""
    ir = popxl.Ir()
    with ir.main_graph:
        facts, linear_graph = Linear(32).create_graph(popxl.TensorSpec((2, 4), popxl.float32))
        bound = [linear_graph.bind(facts.init()) for _ in range(2)]
        x = popxl.variable(np.random.rand(2, 4).astype(np.float32), name="x")
        (y,) = bound[0].call(x)
        (z,) = bound[1].call(x)
        streams = [addons.ops.host_store(t) for t in (y, z)]
    with popxl.Session(ir, "ipu_hw") as session:
        results = session.run()
    print("\ndifferent variables:", not np.allclose(results[streams[0]], results[streams[1]]))


def schedules():
    """Prints the graphs that nested modules and calls make."""
    for net in (Net, NetOutlined):
        ir = popxl.Ir()
        with ir.main_graph:
            facts, graph = net().create_graph(popxl.TensorSpec((28, 28), popxl.float32))
            print(facts.to_dict().keys())
            print("\n", graph.print_schedule())


def collections():
    """Shows named tensors in nested collections."""
    ir = popxl.Ir(replication=1)
    with ir.main_graph:
        facts, _ = Linear(32).create_graph(popxl.TensorSpec((2, 4), popxl.float32))
        variables, variables2 = facts.init(), facts.init()
        collection = addons.NamedTensors()
        collection.insert("layer1", variables)
        collection.insert("layer2", variables2)
        print(collection, "\n")
        print(collection.layer1)
        nt = addons.NamedTensors.from_dict({"x": variables2.weight})
        nt.update(addons.NamedTensors.from_dict({"b": variables.bias}))
        packed = addons.NamedTensors.pack(["new_bias", "new_weight"], variables.tensors)
        print(packed.unpack())
        print(collection.named_tensors, "\n")
        print(collection.tensors)


def main():
    np.random.seed(42)
    one_layer()
    two_bound_graphs()
    schedules()
    collections()


if __name__ == "__main__":
    main()
