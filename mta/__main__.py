"""`python -m mta` is the `mta` command."""

from mta.tools.cli import main

raise SystemExit(main())
