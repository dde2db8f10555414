"""Setters of poptorch.Options that do more than check one value: see the rows in options.py.

`set_...` returns the values that a setter stores, `assign_...` those of an assigned attribute.
`write_...` and `read_...` convert an option to session options and back.
"""

import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from poptorch import enums
from poptorch._impl.options.checks import boolean, number_in, positive_int, strings, whole
from poptorch._impl.options.core_table import check_named
from poptorch._impl.options.definitions import Stored
from poptorch._impl.options.group_class import OptionGroup, value_of
from poptorch._impl.options.stored_values import state_of
from poptorch._logging import logger_of
from poptorch_core import Error
from poptorch_core._core import Execution

if TYPE_CHECKING:
    from poptorch.options import Options

logger = logger_of(__name__)


def set_output_mode(
    _options: OptionGroup, output_mode: enums.OutputMode, output_return_period: int | None = None
) -> Stored:
    mode, period = output_mode, output_return_period
    if not isinstance(mode, enums.OutputMode):
        raise AssertionError(
            f"[options] outputMode expects a poptorch.OutputMode but got {mode!r}."
        )
    if mode == enums.OutputMode.EveryN:
        if not isinstance(period, int) or period <= 0:
            raise AssertionError(
                f"[options] OutputMode.EveryN needs a positive period but got {period!r}. "
                "Pass outputMode(poptorch.OutputMode.EveryN, N)."
            )
        check_named("output_period")(period)
    elif period is not None:
        logger.info(f"The period {period} is ignored: {mode.name} has none")
    return {"output_mode": int(mode), "output_return_period": period or 1}


def assign_output_mode(_options: OptionGroup, attribute: str, value: Any) -> Stored:
    if attribute == "output_mode":
        return {attribute: number_in(enums.OutputMode, value)}
    return {attribute: check_named("output_period")(value)}


def set_input_groups(
    options: "Options", input_group_size: int, input_group_type: enums.CommGroupType
) -> Stored:
    check_named("input_group_size")(input_group_size)
    try:
        made = _grouped(options, input_group_size, input_group_type)
    except Error as error:
        raise ValueError(error.message) from None
    if input_group_type == enums.CommGroupType.NoGrouping:
        input_group_type = enums.CommGroupType.Consecutive
    return {"input_group_size": made.input_group_size, "input_cgt": input_group_type}


def input_group_stride(options: "Options") -> int:
    return _grouped(options, options.input_group_size, options.input_cgt).input_group_stride


def _grouped(options: "Options", size: int, kind: enums.CommGroupType) -> Execution:
    """Returns the execution with these groups; raises poptorch.Error if they are impossible."""
    made = Execution([("execution", "", {"replication_factor": options.replication_factor})])
    made.group_inputs(enums.CommGroupType(kind).name, size)
    return made


def assign_input_groups(options: "Options", attribute: str, value: Any) -> Stored:
    of_size = attribute == "input_group_size"
    size = value if of_size else options.input_group_size
    kind = options.input_cgt if of_size else value
    return {attribute: set_input_groups(options, size, kind)[attribute]}


def check_memory_proportions(value: Mapping[str, float]) -> dict[int, float]:
    if not isinstance(value, Mapping):
        raise AssertionError(f"[options] expected {{'IPU0': 0.5}} but got {value!r}.")
    for key in value:
        if not isinstance(key, str) or not re.fullmatch(r"IPU\d+", key):
            raise AssertionError(f"[options] expected a key such as 'IPU0' but got {key!r}.")
    return check_proportions_of_ipus({int(key[3:]): value[key] for key in value})


def check_proportions_of_ipus(value: Any) -> dict[int, float]:
    """Checks an assigned dict: in the form that setAvailableMemoryProportion stores or takes."""
    if isinstance(value, Mapping) and not all(isinstance(key, int) for key in value):
        return check_memory_proportions(value)
    for key, proportion in value.items():
        is_number = isinstance(proportion, (int, float)) and not isinstance(proportion, bool)
        if not is_number or not 0 <= proportion <= 1:
            raise ValueError(
                f"[options] expected a share of an IPU's memory, from 0 to 1, for IPU{key} but got "
                f"{proportion!r}."
            )
    return dict(value)


def said_proportions(proportions: Mapping[int, float]) -> list[str]:
    """Returns the proportion of each IPU as a text, which is empty for the default."""
    count = 1 + max(proportions, default=-1)
    return [str(float(proportions[i])) if i in proportions else "" for i in range(count)]


check_memory_proportions.of_stored = check_proportions_of_ipus  # type: ignore[attr-defined]
_WITHOUT_LIMIT = 2**64 - 1


def check_max_repeat_logs(value: int | None) -> int:
    return _WITHOUT_LIMIT if value in (None, _WITHOUT_LIMIT) else positive_int(value)


def check_ipu_version(value: int) -> int:
    if isinstance(value, bool) or value not in (1, 2, 21):
        raise AssertionError(f"[options] ipu_version is 1, 2 or 21, not {value!r}.")
    return value


def set_offline_target(_options: OptionGroup, ipu_version: int = 2) -> Stored:
    return {
        "connection_type": int(enums.ConnectionType.Never),
        "ipu_version": check_ipu_version(ipu_version),
    }


def set_random_seed(options: OptionGroup, random_seed: int) -> Stored:
    whole(0, 2**64 - 1)(random_seed)
    state_of(options).when_taken(lambda: torch.manual_seed(random_seed))
    return {"random_seed": random_seed}


def assign_anchors(_options: OptionGroup, attribute: str, value: Any) -> Stored:
    for name, anchor in value.items():
        is_anchor = isinstance(name, str) and isinstance(anchor, (tuple, list)) and len(anchor) == 4
        if not is_anchor or not isinstance(anchor[0], str) or not isinstance(anchor[1], bool):
            raise ValueError(
                "[options] expected {name: [tensor, whether the mode is the model's, mode, "
                f"period]}} but got {{{name!r}: {anchor!r}}}. Call anchorTensor()."
            )
        number_in(enums.OutputMode, anchor[2])
        positive_int(anchor[3])
    return {attribute: {name: list(anchor) for name, anchor in value.items()}}


def write_cache(path: str | os.PathLike[str] | None) -> Stored:
    return {"enableEngineCaching": path is not None, "cachePath": path and os.fspath(path)}


def read_cache(session: Stored) -> str | None:
    return session["cachePath"] if session["enableEngineCaching"] else None


def cache_path(options: "Options") -> str:
    """Returns the cache folder; "" for the IPU Model, whose executables are not cached."""
    return "" if value_of(options, "use_model") else os.fspath(options.cache_path or "")


def write_profile(folder: str | os.PathLike[str] | None) -> Stored:
    reports = {"autoReport.directory": os.fspath(folder or "."), "autoReport.all": "true"}
    return {"engineOptions": {"debug.allowOutOfMemory": "true", **reports}}


def set_ipu_model(_options: OptionGroup, use_model: bool) -> Stored:
    state = "Enabled" if boolean(use_model) else "Disabled"
    logger.info(f"From the user configuration: Ipu model: {state}")
    return {"use_model": use_model}


def disable_module_namescope(_options: OptionGroup) -> Stored:
    return {"_module_namescope_enabled": False}


def append_location_excludes(options: "Options", *excludes: str) -> Stored:
    name = "_source_location_excludes"
    return {name: [*value_of(options, name), *strings(excludes)]}
