"""Tables of angles for `rotary_pos_embed`."""

from popxl_addons.ops.rotary import trig_table, trig_table_constant

__all__ = ["trig_table", "trig_table_constant"]
