"""The seed of random moments: from the date, or POPTORCH_SEED. A program that uses it prints it."""

import datetime
import os

SEED = int(os.environ.get("POPTORCH_SEED") or datetime.date.today().toordinal())
HOW_TO_REPEAT = f"repeat with POPTORCH_SEED={SEED}"
