"""Which attributes of an optimiser may change after compilation."""


class VariableAttributes:
    """Holds which attributes of an optimiser are variable and which are compiled as constants.

    Made by the optimiser, as `variable_attrs`.
    """

    __module__ = "poptorch.optim"  # its public place, which pickles name

    def __init__(self, variable_attributes: list[str], allowed_attributes: list[str]) -> None:
        self._variable_attributes = variable_attributes
        self._allowed_attributes = allowed_attributes

    @property
    def variable(self) -> set[str]:
        """The names of the variable attributes."""
        return set(self._variable_attributes)

    def _check(self, attr: str) -> None:
        if attr not in self._allowed_attributes:
            raise AssertionError(
                f"Unknown attribute {attr}: the optimiser has "
                f"{', '.join(self._allowed_attributes)}."
            )

    def isConstant(self, attr: str) -> bool:
        """Returns whether the attribute `attr` is compiled as a constant."""
        self._check(attr)
        return attr not in self._variable_attributes

    def markAsConstant(self, attr: str) -> None:
        """Makes the attribute `attr` a constant. Call this before compilation."""
        if not self.isConstant(attr):
            self._variable_attributes.remove(attr)

    def markAsVariable(self, attr: str) -> None:
        """Lets the attribute `attr` change after compilation. Call this before compilation."""
        if self.isConstant(attr):
            self._variable_attributes.append(attr)
