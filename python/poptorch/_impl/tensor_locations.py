"""TensorLocations as the compiler takes them."""

from poptorch._impl.option_groups import TensorLocationOptions, TensorLocationSettings


def _described(settings: TensorLocationSettings) -> dict:
    chosen = settings.use_on_chip_storage  # None: as the execution strategy has it
    return {
        **({} if chosen is None else {"on_chip": chosen}),
        "least_off_chip": settings.min_elements_for_off_chip,
        "sharded": settings.use_replicated_tensor_sharding,
        "least_sharded": settings.min_elements_for_replicated_tensor_sharding,
        "io_tiles_load": settings.use_io_tiles_to_load,
        "io_tiles_store": settings.use_io_tiles_to_store,
    }


def locations_of(options: TensorLocationOptions) -> dict[str, dict]:
    """The kinds of tensors that have a location."""
    kinds = {
        "weights": options.location_weight,
        "activations": options.location_activation,
        "optimiser_state": options.location_optimizer,
        "accumulators": options.location_accumulator,
    }
    return {kind: _described(settings) for kind, settings in kinds.items() if settings is not None}
