"""``python -m prospect``: the command line."""

import sys

from prospect.cli.main import main

sys.exit(main())
