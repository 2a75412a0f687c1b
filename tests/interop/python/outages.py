"""The Python SDK, unmodified, through outages of an account with several regions.

    outages.py EMULATOR TRANSPORT CERTIFICATE_DIR [PART OF A SCENARIO'S NAME]
"""

import faulthandler
import logging
import sys
import warnings

import scenarios.outages  # noqa: F401  (registers its scenarios)
from harness import run
from regional import Laboratory

# Long before the run is ended from outside, say where it hangs.
STUCK_AFTER_SECONDS = 90


def main() -> int:
    faulthandler.dump_traceback_later(STUCK_AFTER_SECONDS)
    logging.basicConfig(level=logging.CRITICAL)  # The SDK logs the failures that the scenarios cause,
    warnings.simplefilter("ignore")  # and warns of each request to a host whose certificate it does not check.
    laboratory = Laboratory(*sys.argv[1:4])
    wanted = sys.argv[4] if len(sys.argv) > 4 else ""
    return 1 if run(laboratory, wanted) else 0


if __name__ == "__main__":
    sys.exit(main())
