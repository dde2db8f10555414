"""Runs a workload's inference by ONNX Runtime, exported by torch."""

import io
import logging
import warnings

import onnxruntime
import torch

from benchmarks.workloads import Instance


def export(instance: Instance, batch: tuple) -> bytes:
    """Returns the serialised model with the shapes of `batch`."""
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(instance.model, batch, file, dynamo=True, verbose=False)
    return file.getvalue()


def make_step(model: bytes, batch: tuple, _iterations: int):
    """Returns the step with all of the runtime's optimisations, on torch's number of threads."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.add_session_config_entry("session.set_denormal_as_zero", "0")
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    names = [item.name for item in session.get_inputs()]
    inputs = {name: tensor.numpy() for name, tensor in zip(names, batch, strict=True)}
    return lambda: torch.from_numpy(session.run(None, inputs)[0])
