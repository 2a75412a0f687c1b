"""The Python SDK, unmodified, against the emulator.

    main.py ENDPOINT KEY PARTITIONS [PART OF A SCENARIO'S NAME]
"""

import faulthandler
import logging
import sys

import scenarios.accounts  # noqa: F401  (registers its scenarios, as the others do)
import scenarios.items  # noqa: F401
import scenarios.batches  # noqa: F401
import scenarios.queries  # noqa: F401
import scenarios.paging  # noqa: F401
import scenarios.change_feed  # noqa: F401
import scenarios.hierarchical_keys  # noqa: F401
import scenarios.service_rules  # noqa: F401
from harness import Account, run

# Long before the run is ended from outside, say where it hangs.
STUCK_AFTER_SECONDS = 240


def main() -> int:
    faulthandler.dump_traceback_later(STUCK_AFTER_SECONDS)
    logging.basicConfig(level=logging.ERROR)
    endpoint, key, partitions = sys.argv[1:4]
    wanted = sys.argv[4] if len(sys.argv) > 4 else ""
    account = Account(endpoint, key, int(partitions))
    return 1 if run(account, wanted) else 0


if __name__ == "__main__":
    sys.exit(main())
