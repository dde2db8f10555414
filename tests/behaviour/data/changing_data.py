"""Data sets, samplers and functions that a program changes between epochs."""

import collections
import types

import numpy
import torch
import torch.utils.data


class Rows(torch.utils.data.Dataset):
    """Rows of one number, which depends on attributes of many kinds."""

    def __init__(self, count=8):
        self.count, self.scale = count, 1.0
        self.offsets = {"all": [0.0]}
        self.table = torch.zeros(count)
        self.array = numpy.zeros(count)
        self.inner = types.SimpleNamespace(transform=Adding(0.0))
        self.history = collections.deque([0.0])

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        value = index * self.scale + sum(self.offsets["all"]) + self.history[-1]
        value += float(self.table[index]) + float(self.array[index])
        return torch.tensor([self.inner.transform(value)])


class Adding:
    __slots__ = ("amount",)

    def __init__(self, amount):
        self.amount = amount

    def __call__(self, value):
        return value + self.amount


class Collating:
    def __init__(self):
        self.factor = 1.0

    def __call__(self, items):
        return torch.stack(items) * self.factor


class Counting(torch.utils.data.Sampler):
    """Counts its own epochs, and begins at an index that the program sets."""

    def __init__(self, data, first=0):
        self.data, self.first, self.epoch = data, first, 0

    def __len__(self):
        return len(self.data)

    def __iter__(self):
        self.epoch += 1
        for index in range(len(self.data)):
            yield (index + self.first + self.epoch) % len(self.data)


class Stream(torch.utils.data.IterableDataset):
    def __init__(self):
        self.first = 0

    def __iter__(self):
        return (torch.tensor([float(self.first + i)]) for i in range(8))


class Sized(Rows):
    """Rows of a width that the program sets."""

    width = 1

    def __getitem__(self, index):
        return super().__getitem__(index).expand(self.width).clone()
