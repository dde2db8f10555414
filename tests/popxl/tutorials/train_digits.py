"""Trains four dense layers on handwritten digits, with SGD or with Adam, and tests them.

One program trains, and another one infers with the trained weights. Without arguments it uses the
1,797 scans in examples/data; --data-dir takes a folder with MNIST's files.
"""

import argparse
import sys
import time
from pathlib import Path

import numpy as np
import popxl
import popxl_addons as addons
import torch
from adam import Adam
from modules import Net
from popxl import ops

sys.path.append(str(Path(__file__).resolve().parents[3] / "examples/python"))
from digits import DIGITS, load


def loader(folder, part, batch_size):
    """Returns a loader of normalised images [n, 28, 28] and labels [n], shuffled, in full batches.

    The mean over the training set is subtracted from each pixel. Enlarged scans fill their frame,
    and without this their common part would hide their differences.
    """
    images, labels = load(folder, part, "bicubic")
    seen, _ = load(folder, "train", "bicubic")
    mean = seen.mean(0)
    data = torch.utils.data.TensorDataset((images - mean) / (seen - mean).std(), labels)
    return torch.utils.data.DataLoader(data, batch_size, shuffle=True, drop_last=True)


def update_by_sgd(variables, grads, learning_rate):
    """Adds weight -= learning_rate · gradient for each variable."""
    for t in variables.tensors:
        ops.scaled_add_(t, grads[t], b=-learning_rate)


def update_by_adam(variables, grads, learning_rate):
    """Adds a step of Adam for each variable. Variables of equal shape share a graph."""
    optimiser = Adam(cache=True)
    for var in variables.named_tensors.values():
        facts, graph = optimiser.create_graph(
            var, var.spec, lr=learning_rate, weight_decay=0.0, bias_correction=False
        )
        graph.bind(facts.init()).call(var, grads[var])


OPTIMISERS = {"sgd": (update_by_sgd, 0.05), "adam": (update_by_adam, 5e-4)}


def train_program(batch_size, optimiser):
    """Returns session, input streams, variables and loss stream of the training step."""
    update, learning_rate = OPTIMISERS[optimiser]
    ir = popxl.Ir(replication=1)
    with ir.main_graph:
        img_stream = popxl.h2d_stream((batch_size, 28, 28), popxl.float32, "image")
        img_t = ops.host_load(img_stream)
        label_stream = popxl.h2d_stream((batch_size,), popxl.int32, "labels")
        labels = ops.host_load(label_stream, "labels")

        facts, fwd_graph = Net().create_graph(img_t)
        bwd_graph = addons.autodiff(fwd_graph)
        variables = facts.init()
        fwd_info = fwd_graph.bind(variables).call_with_info(img_t)
        loss, dx = addons.ops.cross_entropy_with_grad(fwd_info.outputs[0], labels)
        loss_stream = popxl.d2h_stream(loss.shape, loss.dtype, "loss")
        ops.host_store(loss_stream, loss)

        activations = bwd_graph.grad_graph_info.inputs_dict(fwd_info)
        bwd_info = bwd_graph.call_with_info(dx, args=activations)
        grads = bwd_graph.grad_graph_info.fwd_parent_ins_to_grad_parent_outs(fwd_info, bwd_info)
        update(variables, grads, learning_rate)
    ir.num_host_transfers = 1
    return popxl.Session(ir, "ipu_hw"), [img_stream, label_stream], variables, loss_stream


def test_program(batch_size):
    """Returns session, input streams, variables and output stream of inference."""
    ir = popxl.Ir(replication=1)
    with ir.main_graph:
        in_stream = popxl.h2d_stream((batch_size, 28, 28), popxl.float32, "image")
        in_t = ops.host_load(in_stream)
        facts, graph = Net().create_graph(in_t)
        variables = facts.init()
        (outputs,) = graph.bind(variables).call(in_t)
        out_stream = popxl.d2h_stream(outputs.shape, outputs.dtype, "outputs")
        ops.host_store(out_stream, outputs)
    ir.num_host_transfers = 1
    return popxl.Session(ir, "ipu_hw"), [in_stream], variables, out_stream


def train(session, streams, loss_stream, data, epochs):
    """Runs the training program over the data."""
    with session:
        for epoch in range(1, epochs + 1):
            start = time.perf_counter()
            for images, labels in data:
                inputs = dict(zip(streams, [images.squeeze().float(), labels.int()], strict=True))
                loss = session.run(inputs)[loss_stream]
            rate = len(data) / (time.perf_counter() - start)
            print(f"epoch {epoch}: loss {loss:0.4f}, {rate:.0f} steps/s")


def accuracy(predictions, labels):
    """Returns the percentage of images whose label has the highest score."""
    return np.mean(np.argmax(predictions, axis=-1).flatten() == labels.numpy().flatten()) * 100.0


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--optimiser", choices=OPTIMISERS, default="sgd")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--data-dir", default=DIGITS, help="folder with MNIST's files")
    parser.add_argument("--seed", type=int, default=42, help="of weights and order of data")
    args = parser.parse_args()
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)

    session, streams, trained, loss_stream = train_program(8, args.optimiser)
    train(session, streams, loss_stream, loader(args.data_dir, "train", 8), args.epochs)
    weights = session.get_tensors_data(trained.tensors)

    test_batch = 80
    test_session, test_streams, variables, out_stream = test_program(test_batch)
    mapping = trained.to_mapping(variables)
    test_session.write_variables_data({new: weights[old].copy() for old, new in mapping.items()})
    test_data = loader(args.data_dir, "t10k", test_batch)
    total = 0.0
    with test_session:
        for images, labels in test_data:
            output = test_session.run({test_streams[0]: images.squeeze().float()})
            total += accuracy(output[out_stream], labels)
    print(f"Accuracy on test set: {total / len(test_data):0.2f}%")


if __name__ == "__main__":
    main()
