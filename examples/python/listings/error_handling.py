"""Listing 4.6: how to handle recoverable and unrecoverable errors, with injected faults."""

import poptorch
import poptorch.testing
import torch


class PytorchModel(torch.nn.Module):
    def __init__(self, param):
        super().__init__()
        self.param = param

    def forward(self, x, y):
        return self.param * x + y


def reboot_server():
    print("Rebooting")


def shutdown_system():
    print("Shutting down")


def infer(model_param):
    try:
        m = PytorchModel(model_param)
        inference_model = poptorch.inferenceModel(m)
        t1 = torch.tensor([1.0])
        t2 = torch.tensor([2.0])
        assert inference_model(t1, t2) == 3.0
    except poptorch.RecoverableError as e:
        print(e)
        if e.recovery_action == "FULL_RESET":
            reboot_server()
        elif e.recovery_action == "IPU_RESET":
            print("Need to reset the IPU")
        elif e.recovery_action == "PARTITION_RESET":
            print("Need to reset the partition")
    except poptorch.UnrecoverableError as e:
        print(f"Unrecoverable error: machine needs to be taken offline: {e}")
        shutdown_system()
    except poptorch.Error as e:
        print(
            f"Received {e.message} from component {e.type}, "
            f"location: {e.location}"
        )  # fmt: skip
        # Or you could just print all the information at once:
        print(e)
    except Exception as e:
        print(e)


if __name__ == "__main__":
    infer(1.0)
    for kind in ("FULL_RESET", "IPU_RESET", "PARTITION_RESET", "UNRECOVERABLE"):
        with poptorch.testing.inject_fault("run", kind):
            infer(1.0)
    infer(torch.eye(3, device="meta"))  # an error of the program
    infer(2.0)  # the assertion does not hold
