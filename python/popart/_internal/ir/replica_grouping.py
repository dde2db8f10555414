"""Groups of replicas in PopART's interface."""


class ReplicaGrouping:
    """Groups of `groupSize` of `numReplicas` replicas, `stride` apart."""

    def __init__(self, numReplicas: int, stride: int = 1, groupSize: "int | None" = None) -> None:
        self._replicas, self._stride = numReplicas, stride
        self._size = numReplicas // stride if groupSize is None else groupSize

    def getNumReplicas(self) -> int:
        """Returns the number of replicas."""
        return self._replicas

    def getStride(self) -> int:
        """Returns the distance of neighbours in a group."""
        return self._stride

    def getGroupSize(self) -> int:
        """Returns the number of replicas in a group."""
        return self._size

    def getNumGroups(self) -> int:
        """Returns the number of groups."""
        return self._replicas // self._size

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ReplicaGrouping) and (
            self._replicas,
            self._stride,
            self._size,
        ) == (other.getNumReplicas(), other.getStride(), other.getGroupSize())

    def __hash__(self) -> int:
        return hash((self._replicas, self._stride, self._size))
