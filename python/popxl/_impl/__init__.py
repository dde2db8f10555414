"""The private half of popxl: records behind the user's objects, and what works on them."""
