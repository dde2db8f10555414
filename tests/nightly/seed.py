"""The seed of random moments: of the day, or POPTORCH_SEED. Whoever draws from it prints it."""

import datetime
import os

SEED = int(os.environ.get("POPTORCH_SEED") or datetime.date.today().toordinal())
HOW_TO_REPEAT = f"repeat with POPTORCH_SEED={SEED}"
