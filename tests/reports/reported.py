"""Makes small models of every strategy, and checks that the data of their reports is consistent."""

import contextlib

import poptorch
import popxl
import torch
from poptorch._impl.wrapper.state import wrapper_state
from poptorch_core import _core
from popxl import ops

WIDTH, BATCH = 8, 4
OFF_CHIP = poptorch.TensorLocationSettings().useOnChipStorage(False)


class Chain(torch.nn.Module):
    """Layers, one a block, with a loss."""

    def __init__(self, count=4, blocks=True):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(WIDTH, WIDTH) for _ in range(count))
        self.blocks = blocks

    def forward(self, x):
        for number, layer in enumerate(self.layers):
            block = poptorch.Block(f"b{number}", ipu_id=number // 2)
            with block if self.blocks else contextlib.nullcontext():
                if number == 0:
                    x = self.take(x)
                x = torch.tanh(layer(x))
                if number == len(self.layers) - 1:
                    return self.give(x, poptorch.identity_loss(x.square(), reduction="mean"))

    def take(self, x):
        return x

    def give(self, *outputs):
        return outputs


class Overlapped(Chain):
    """Its transfers of input and outputs overlap with the computation."""

    mode = poptorch.OverlapMode.OverlapDeviceIterationLoop

    def take(self, x):
        return poptorch.set_overlap_for_input(x, self.mode)

    def give(self, *outputs):
        return poptorch.set_overlap_for_output(outputs, self.mode)


class Branches(torch.nn.Module):
    """A branch of two lengths in a loop."""

    def forward(self, x):
        def body(x):
            return poptorch.cond(
                x.sum() > 0, lambda y: y.sin().cos().exp(), [x], lambda y: y.tanh(), [x]
            )

        return poptorch.for_loop(5, body, [x])[0]


def options(strategy=None, accumulation=1, iterations=1, replicas=1):
    made = poptorch.Options().showCompilationProgressBar(False).deviceIterations(iterations)
    made.outputMode(poptorch.OutputMode.All).replicationFactor(replicas)
    made.Training.gradientAccumulation(accumulation)
    if strategy:
        made.setExecutionStrategy(strategy)
    return made


def phased(kind):
    phases = [poptorch.Phase(poptorch.Stage(f"b{2 * i}", f"b{2 * i + 1}")) for i in range(2)]
    return kind(*phases)


def trained(made, model=None, optimiser=torch.optim.Adam):
    model = model or Chain()
    wrapped = poptorch.trainingModel(model, made, optimiser(model.parameters(), lr=0.1))
    batches = made.Training.gradient_accumulation * made.device_iterations * made.replication_factor
    wrapped.compile(torch.randn(BATCH * batches, WIDTH))
    return wrapped


def inferred(made, model=None):
    wrapped = poptorch.inferenceModel(model or Chain(), made)
    wrapped.compile(torch.randn(BATCH * made.device_iterations * made.replication_factor, WIDTH))
    return wrapped


def single():
    return trained(options(accumulation=2, iterations=2), Chain(blocks=False))


def pipelined():
    return trained(options(accumulation=6, iterations=2))


def pipelined_inference():
    return inferred(options(iterations=7))


def sharded():
    return trained(options(poptorch.ShardedExecution(), accumulation=3))


def serially_phased():
    return trained(options(phased(poptorch.SerialPhasedExecution), accumulation=2))


def in_parallel_phases():
    return trained(options(phased(poptorch.ParallelPhasedExecution)))


def replicated():
    return trained(options(accumulation=4, replicas=2))


def off_chip():
    made = options(accumulation=3)
    made.TensorLocations.setOptimizerLocation(OFF_CHIP).setWeightLocation(OFF_CHIP)
    return trained(made)


def sharded_state():
    made = options(accumulation=4, replicas=2)
    settings = poptorch.TensorLocationSettings().useReplicatedTensorSharding(True)
    made.TensorLocations.setOptimizerLocation(settings.minElementsForReplicatedTensorSharding(2))
    return trained(made)


def io_tiles():
    made = options(poptorch.ShardedExecution(), iterations=9)
    made.TensorLocations.numIOTiles(32)
    return inferred(made, Overlapped())


def io_tiles_in_training():
    made = options(poptorch.ShardedExecution(), accumulation=5, iterations=2)
    made.TensorLocations.numIOTiles(32)
    return trained(made, Overlapped())


def io_tiles_between_phases():
    made = options(phased(poptorch.ParallelPhasedExecution).sendTensorsOffChipAfterFwd())
    settings = poptorch.TensorLocationSettings().useIOTilesToLoad(True).useIOTilesToStore(True)
    made.TensorLocations.setActivationLocation(settings.useOnChipStorage(False)).numIOTiles(32)
    return trained(made)


def branches():
    return inferred(options(iterations=2), Branches())


def many_rounds():
    """Has more events than are shown individually."""
    return trained(options(accumulation=4, iterations=50_000), optimiser=torch.optim.SGD)


TORCH = [
    single,
    pipelined,
    pipelined_inference,
    sharded,
    serially_phased,
    in_parallel_phases,
    replicated,
    off_chip,
    sharded_state,
    io_tiles,
    io_tiles_in_training,
    io_tiles_between_phases,
    branches,
    many_rounds,
]


def popxl_loops():
    """A loop of 3 rounds with another of 1,000,000 in it, in a program of 2 iterations."""
    ir = popxl.Ir()
    ir.num_host_transfers = 2
    with ir.main_graph:
        feed = popxl.h2d_stream((WIDTH, WIDTH), popxl.float32, name="x")

        def inner(x):
            return ops.matmul(x, x)

        def outer(x):
            graph = ir.create_graph(inner, x)
            (x,) = ops.repeat(graph, 1_000_000, x)
            return ops.tanh(x)

        x = ops.host_load(feed)
        (x,) = ops.repeat(ir.create_graph(outer, x), 3, x)
        out = popxl.d2h_stream(x.shape, x.dtype, name="y")
        ops.host_store(out, x)
    return popxl.Session(ir, "ipu_model")


def executable_of(model):
    """Returns the executable of a wrapper of torch, a session of PopXL, or the model."""
    if isinstance(model, popxl.Session):
        return model._executable
    if isinstance(model, poptorch.PoplarExecutor):
        return wrapper_state(model).compiled.executable
    return model


def from_text():
    return _core.load(executable_of(pipelined()).text("program", True))


OTHERS = [popxl_loops, from_text]
