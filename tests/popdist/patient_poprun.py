"""Runs poprun with unlimited time for the other instances to raise errors after one failed.

If they do not notice that an instance is missing, the run does not end.
"""

import sys

from popdist.launcher import main, supervisor

supervisor._SECONDS_TO_NOTICE = 1e6

if __name__ == "__main__":
    sys.exit(main.main())
