"""The numbers of kinds of replica groups and of retrieval modes, as PopART states them.

The enumerations of poptorch and popxl have different members, with these numbers.
"""

from typing import Final

ALL: Final = 0
CONSECUTIVE: Final = 1
ORTHOGONAL: Final = 2
SEPARATE: Final = 3  # each replica by itself

ONE_PER_GROUP: Final = 0
ALL_REDUCE_REPLICAS: Final = 1
ALL_REPLICAS: Final = 2
