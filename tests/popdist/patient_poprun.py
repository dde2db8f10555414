"""poprun that gives the others all the time they need to raise errors after an instance failed.

Where they do not notice by themselves that one is missing, the run has no end.
"""

import sys

from popdist.launcher import main, supervisor

supervisor._SECONDS_TO_NOTICE = 1e6

if __name__ == "__main__":
    sys.exit(main.main())
