"""The private half of popxl: the records of user objects, and the code that works on them."""
